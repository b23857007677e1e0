//! Calls that succeed, and calls that end before anything runs: every state, class and code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Bench, ending, facts, failure_of, key, names, verify_chain};
use countersign_model::ErrorClass::{AuthorizationError, ValidationError};
use countersign_model::Lifecycle::{Completed, Denied, Failed};
use countersign_model::effect::Effect;
use countersign_model::event::CallEvent;
use countersign_model::{Digest, Lifecycle};
use serde_json::{Value, json};

#[test]
fn the_eight_built_in_tools_do_what_they_say() {
    let bench = Bench::new();
    let host = bench.host();
    let sha = |text: &str| Digest::of(text.as_bytes()).to_string();
    let table = [
        ("text.digest", json!({"text": "abc"}), json!({"sha256": sha("abc"), "bytes": 3})),
        (
            "file.write",
            json!({"path": "d/n.txt", "content": "hi", "createDirectories": true}),
            json!({"path": "d/n.txt", "size": 2, "sha256": sha("hi"), "created": true}),
        ),
        (
            "file.write",
            json!({"path": "d/n.txt", "content": "ho"}),
            json!({"path": "d/n.txt", "size": 2, "sha256": sha("ho"), "created": false}),
        ),
        ("file.read", json!({"path": "d/n.txt"}), json!({"content": "ho", "size": 2})),
        (
            "file.list",
            json!({"path": "d"}),
            json!({"entries": [{"name": "n.txt", "type": "file", "size": 2}]}),
        ),
        (
            "file.delete",
            json!({"path": "d/n.txt"}),
            json!({"path": "d/n.txt", "size": 2, "sha256": sha("ho")}),
        ),
        (
            "state.put",
            json!({"key": "a/b", "value": {"z": 1, "a": [true]}}),
            json!({"created": true, "sha256": sha(r#"{"a":[true],"z":1}"#)}),
        ),
        (
            "state.get",
            json!({"key": "a/b"}),
            json!({"found": true, "value": {"a": [true], "z": 1}}),
        ),
        ("state.delete", json!({"key": "a/b"}), json!({"deleted": true})),
        ("state.delete", json!({"key": "a/b"}), json!({"deleted": false})),
        ("state.get", json!({"key": "a/b"}), json!({"found": false, "value": null})),
    ];
    for (tool, input, output) in table {
        assert_eq!(bench.done(&host, tool, &input), output, "{tool} {input}");
    }
    assert_eq!(bench.text("d/n.txt"), None);
    assert!(host.home().store.open_calls().unwrap().is_empty());
    verify_chain(&host);
}

#[test]
fn output_effects_and_receipt_are_recorded() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("old.txt", "old");
    let input = json!({
        "files": [{"name": "new.txt", "value": "n"}, {"name": "old.txt"}],
        "keys": [{"name": "k", "value": "v"}],
    });
    let outcome = bench.call(&host, "test.many", &input);
    let events = facts(&host, outcome.execution);
    let listed: Vec<_> = events.iter().map(CallEvent::name).collect();
    assert_eq!(
        listed,
        ["declared", "validated", "authorized", "started", "committed", "completed"]
    );
    let CallEvent::Committed(committed) = &events[4] else { panic!("{events:?}") };
    let targets: Vec<_> = committed.effects.iter().map(Effect::target).collect();
    assert_eq!(targets, ["new.txt", "old.txt", "k"]);
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    let output = host.home().payload(summary.execution, &committed.output).unwrap();
    assert_eq!(output, br#"{"done":true}"#);
    assert_eq!(
        host.home().payload(summary.execution, &summary.input).unwrap(),
        input.to_string().as_bytes()
    );
    assert_eq!(summary.output, Some(committed.output));
    assert!(summary.terminal && summary.usage.bytes_written == 4, "{:?}", summary.usage);

    let head = host.home().store.head().unwrap();
    assert_eq!((outcome.receipt.entry, outcome.receipt.hash), (head.size - 1, head.hash));
    assert_eq!(outcome.receipt.checkpoint, head.checkpoint);
    // What was there before is never lost.
    assert_eq!(host.home().blobs.get(&Digest::of(b"old")).unwrap(), b"old");
}

#[test]
fn a_write_that_changes_nothing_has_no_effect() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("same.txt", "same");
    let outcome = bench.call(&host, "file.write", &json!({"path": "same.txt", "content": "same"}));
    assert_eq!(outcome.state, Completed);
    let events = facts(&host, outcome.execution);
    assert!(matches!(&events[4], CallEvent::Committed(committed) if committed.effects.is_empty()));
}

#[test]
fn a_tool_that_is_not_there_makes_no_call() {
    let bench = Bench::new();
    let host = bench.host();
    for (tool, code) in [("no.such", "TOOL_UNKNOWN"), ("text.digest@9.9.9", "TOOL_VERSION_UNKNOWN")]
    {
        let failure = failure_of(host.call(bench.command(tool, &json!({}))));
        assert_eq!((failure.class, failure.code.as_ref()), (ValidationError, code));
        assert!(failure.hint.is_some(), "{tool}");
    }
}

#[test]
fn the_highest_version_answers_and_a_broken_one_stops_everything() {
    let bench = Bench::new();
    let tools = bench.home().join("tools");
    let text = std::fs::read_to_string(tools.join("text.digest.json")).unwrap();
    for version in ["1.9.0", "1.10.0", "1.10.0-rc.1"] {
        let text = text.replacen("\"1.0.0\"", &format!("\"{version}\""), 1);
        std::fs::write(tools.join(format!("digest-{version}.json")), text).unwrap();
    }
    let host = bench.host();
    let outcome = bench.call(&host, "text.digest", &json!({"text": ""}));
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    assert_eq!(summary.version.to_string(), "1.10.0");
    let outcome = bench.call(&host, "text.digest@1.9.0", &json!({"text": ""}));
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    assert_eq!(summary.version.to_string(), "1.9.0");

    for broken in ["{", r#"{"id": "x.y"}"#, &text] {
        std::fs::write(tools.join("zzz.json"), broken).unwrap();
        let failure = failure_of(bench.host().call(bench.command("text.digest", &json!({}))));
        assert_eq!((failure.class, failure.code.as_ref()), (ValidationError, "TOOLS_INVALID"));
        assert!(failure.details.unwrap().to_string().contains("zzz.json"));
    }
}

#[test]
fn violations_are_all_reported_with_their_places() {
    let bench = Bench::new();
    let host = bench.host();
    let input = json!({
        "files": [{"name": 1}, {"value": "x"}, {"name": "a", "extra": {}}],
        "keys": "none", "surplus": 1,
    });
    let outcome = bench.call(&host, "test.many", &input);
    assert_eq!(ending(&outcome), (Failed, ValidationError, "INPUT_INVALID"));
    assert_eq!(names(&host, outcome.execution), ["declared", "failed"]);
    let details = outcome.result.unwrap_err().details.unwrap();
    let mut pointers: Vec<_> =
        details.as_array().unwrap().iter().map(|v| v["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    pointers.dedup();
    for place in ["/files/0/name", "/files/1", "/files/2", "/keys"] {
        assert!(pointers.iter().any(|p| p.starts_with(place)), "{place} in {pointers:?}");
    }
}

#[test]
fn input_that_is_no_sound_json_fails() {
    let bench = Bench::new();
    let host = bench.host();
    let deep = format!("{{\"text\": {}1{}}}", "[".repeat(300), "]".repeat(300));
    let large = format!("{{\"text\": \"{}\"}}", "x".repeat(1 << 20));
    let inputs: [&[u8]; 9] = [
        b"",
        b"{\"text\": \"a\"",
        b"{\"text\": \"a\", \"text\": \"b\"}",
        b"{\"text\": \"\xff\"}",
        b"{\"text\": NaN}",
        b"{\"text\": 1e999}",
        b"{\"text\": \"a\"} x",
        deep.as_bytes(),
        large.as_bytes(),
    ];
    for input in inputs {
        let mut command = bench.command("text.digest", &json!({}));
        command.input = input.to_vec();
        let outcome = host.call(command).unwrap();
        let shown = String::from_utf8_lossy(&input[..input.len().min(40)]).into_owned();
        let (state, class, code) = ending(&outcome);
        assert_eq!((state, class), (Failed, ValidationError), "{shown}");
        assert_ne!(code, "INPUT_INVALID", "{shown}: refused before the schema");
        let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
        assert_eq!(summary.input.digest, Digest::of(input), "{shown}");
    }
}

#[test]
fn paths_keys_and_roots_that_cannot_be_are_refused_before_anything_runs() {
    let bench = Bench::new();
    let host = bench.host();
    let table: [(&str, Value, Option<&str>, &str); 8] = [
        ("file.read", json!({"path": "../x"}), Some("root"), "PATH_INVALID"),
        ("file.read", json!({"path": "/etc/passwd"}), Some("root"), "PATH_INVALID"),
        ("file.read", json!({"path": "a/../../x"}), Some("root"), "PATH_INVALID"),
        ("file.write", json!({"path": "a\nb", "content": ""}), Some("root"), "PATH_INVALID"),
        ("file.read", json!({"path": "x"}), None, "ROOT_REQUIRED"),
        ("file.read", json!({"path": "x"}), Some("nowhere"), "ROOT_INVALID"),
        ("state.get", json!({"key": "a/../b"}), None, "KEY_INVALID"),
        ("state.put", json!({"key": ".", "value": 1}), None, "KEY_INVALID"),
    ];
    for (tool, input, root, code) in table {
        let mut command = bench.command(tool, &input);
        command.root = root.map(|root| bench.path().join(root));
        let outcome = host.call(command).unwrap();
        assert_eq!(ending(&outcome), (Failed, ValidationError, code), "{tool} {input}");
        assert_eq!(names(&host, outcome.execution), ["declared", "validated", "failed"]);
    }
}

#[test]
fn nothing_granted_means_nothing_runs() {
    let bench = Bench::bare();
    let host = bench.host();
    let outcome = bench.call(&host, "state.put", &json!({"key": "k", "value": 1}));
    assert_eq!(ending(&outcome), (Denied, AuthorizationError, "GRANT_MISSING"));
    assert_eq!(names(&host, outcome.execution), ["declared", "validated", "denied"]);
    assert_eq!(key(&host, "k"), None);
    let outcome = bench.call(&host, "text.digest", &json!({"text": "needs nothing"}));
    assert_eq!(outcome.state, Lifecycle::Completed);
}
