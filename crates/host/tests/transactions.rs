//! What runs runs in a transaction: limits, cancellation, crashes, bad outputs and failures leave
//! nothing behind, and say so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::thread;

use common::{Bench, ending, facts, key, names, wait_until};
use countersign_host::{Cancel, Host};
use countersign_model::ErrorClass::{
    AuthorizationError, ExecutionError, ResourceError, TimeoutError, ValidationError,
};
use countersign_model::ExecutionId;
use countersign_model::Lifecycle::{Executing, Failed, RolledBack};
use countersign_model::event::{self, CallEvent};
use serde_json::{Value, json};

fn last_rollback(host: &Host, execution: ExecutionId) -> event::RolledBack {
    match facts(host, execution).pop() {
        Some(CallEvent::RolledBack(back)) => back,
        other => panic!("not rolled back: {other:?}"),
    }
}

/// Shortens a limit in a declaration of the home.
fn limit(bench: &Bench, tool: &str, name: &str, value: u64) {
    let path = bench.home().join("tools").join(format!("{tool}.json"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut declaration: Value = serde_json::from_str(&text).unwrap();
    declaration["resourceLimits"][name] = json!(value);
    std::fs::write(path, declaration.to_string()).unwrap();
}

#[test]
fn every_limit_aborts_and_rolls_back() {
    let bench = Bench::new();
    limit(&bench, "test.nap", "maxExecutionTime", 30);
    let host = bench.host();
    bench.write("large", &"x".repeat(1001));
    let long = "x".repeat(1001);
    let table = [
        ("test.nap", json!({"ms": 600_000}), TimeoutError, "TIME_LIMIT"),
        ("test.nap", json!({"ms": 20_000, "stubborn": true}), TimeoutError, "TIME_LIMIT"),
        ("test.hog", json!({"bytes": (1 << 20) + 1}), ResourceError, "MEMORY_LIMIT"),
        ("test.hog", json!({"bytes": u64::MAX >> 12}), ResourceError, "MEMORY_LIMIT"),
        (
            "test.many",
            json!({"files": [{"name": "n", "value": long}]}),
            ResourceError,
            "FILE_TOO_LARGE",
        ),
        ("test.many", json!({"files": [{"name": "large"}]}), ResourceError, "FILE_TOO_LARGE"),
    ];
    for (tool, input, class, code) in table {
        let outcome = bench.call(&host, tool, &input);
        assert_eq!(ending(&outcome), (RolledBack, class, code), "{tool} {code}");
        assert_eq!(outcome.attempts, 1, "{tool}: no retry");
        let listed = names(&host, outcome.execution);
        assert_eq!(&listed[listed.len() - 2..], ["aborted", "rolledBack"], "{tool}");
        assert!(last_rollback(&host, outcome.execution).restored(), "{tool}");
    }
    assert_eq!(bench.text("n"), None);
    assert_eq!(bench.done(&host, "test.hog", &json!({"bytes": 1 << 20})), json!({"done": true}));
}

#[test]
fn a_cancelled_call_ends() {
    let bench = Bench::new();
    let host = bench.host();
    let cancel = Cancel::default();
    let mut command = bench.command("test.sleep", &json!({"ms": 600_000}));
    command.given.cancel = cancel.clone();
    let outcome = thread::scope(|scope| {
        let running = scope.spawn(|| host.call(command).unwrap());
        wait_until("the call runs", || {
            host.home().store.open_calls().unwrap().iter().any(|call| call.state == Executing)
        });
        cancel.cancel();
        running.join().unwrap()
    });
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "CANCELLED"));

    // One that was cancelled before it began does not begin.
    let mut command = bench.command("state.put", &json!({"key": "k", "value": 1}));
    command.given.cancel = cancel;
    let outcome = host.call(command).unwrap();
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "CANCELLED"));
    let expected = ["declared", "validated", "authorized", "aborted", "rolledBack"];
    assert_eq!(names(&host, outcome.execution), expected);
    assert_eq!(key(&host, "k"), None);
}

#[test]
fn a_tool_that_panics_fails_and_its_words_stay_inside() {
    let bench = Bench::new();
    let host = bench.host();
    for _ in 0..3 {
        let outcome = bench.call(&host, "test.panic", &json!({}));
        assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "TOOL_CRASHED"));
        assert!(!format!("{outcome:?}").contains("secret"));
    }
    let outcome = bench.call(&host, "test.panic", &json!({"early": true}));
    assert_eq!(ending(&outcome), (Failed, ExecutionError, "TOOL_CRASHED"));
    assert!(!format!("{outcome:?}").contains("secret"));
    bench.done(&host, "text.digest", &json!({"text": "still at work"}));
}

#[test]
fn a_bad_output_takes_everything_back() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("f", "good");
    bench.done(&host, "state.put", &json!({"key": "k", "value": "good"}));
    let outcome = bench.call(&host, "test.bad-output", &json!({"path": "f", "key": "k"}));
    assert_eq!(ending(&outcome), (RolledBack, ValidationError, "OUTPUT_INVALID"));
    let details = outcome.result.unwrap_err().details.unwrap();
    assert_eq!(details[0]["pointer"], "/done");
    assert_eq!((bench.text("f").unwrap(), key(&host, "k")), ("good".into(), Some(json!("good"))));
    let back = last_rollback(&host, outcome.execution);
    assert!(back.restored() && back.retry.is_none());
    assert_eq!(back.usage.bytes_written, 8, "what it used is recorded although it failed");
}

#[test]
fn a_tool_cannot_touch_what_it_did_not_announce() {
    let bench = Bench::new();
    let host = bench.host();
    for name in ["announced", "unlisted", "other"] {
        bench.write(name, "as it was");
        bench.done(&host, "state.put", &json!({"key": name, "value": "as it was"}));
    }
    for what in [
        "readFile",
        "list",
        "writeFile",
        "deleteFile",
        "unlistedWrite",
        "unlistedDelete",
        "getKey",
        "putKey",
        "deleteKey",
        "unlistedPut",
        "unlistedKeyDelete",
    ] {
        let outcome = bench.call(&host, "test.undeclared", &json!({"what": what}));
        let expected = (RolledBack, AuthorizationError, "CAPABILITY_EXCEEDED");
        assert_eq!(ending(&outcome), expected, "{what}");
    }
    for name in ["announced", "unlisted", "other"] {
        assert_eq!(bench.text(name).unwrap(), "as it was");
        assert_eq!(key(&host, name), Some(json!("as it was")));
    }
}

#[test]
fn a_failing_tool_leaves_nothing_behind() {
    let bench = Bench::new();
    let host = bench.host();
    let outcome = bench.call(&host, "test.many", &both("new/f", "k", true));
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "ASKED_TO_FAIL"));
    assert!(last_rollback(&host, outcome.execution).restored());
    assert!(!bench.root().join("new").exists());
    assert_eq!(key(&host, "k"), None);
}

fn both(path: &str, key: &str, fail: bool) -> Value {
    json!({
        "files": [{"name": "a", "value": "mine"}, {"name": path, "value": "mine"}],
        "keys": [{"name": "b", "value": "mine"}, {"name": key, "value": "mine"}],
        "fail": fail,
    })
}
