//! Others at work on the same things, and a journal that fails: nothing is half-written, and what
//! was committed comes about in the end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::store::{At, Mishap};
use common::{Bench, ending, facts, failure_of, key, verify_chain};
use countersign_host::Host;
use countersign_model::ErrorClass::StateError;
use countersign_model::ExecutionId;
use countersign_model::Lifecycle::{Completed, RolledBack};
use countersign_model::event::{self, CallEvent};
use serde_json::{Value, json};

fn last_rollback(host: &Host, execution: ExecutionId) -> event::RolledBack {
    match facts(host, execution).pop() {
        Some(CallEvent::RolledBack(back)) => back,
        other => panic!("not rolled back: {other:?}"),
    }
}

fn both(path: &str, key: &str, fail: bool) -> Value {
    json!({
        "files": [{"name": "a", "value": "mine"}, {"name": path, "value": "mine"}],
        "keys": [{"name": "b", "value": "mine"}, {"name": key, "value": "mine"}],
        "fail": fail,
    })
}

/// Each row meddles with the world between the beginning of a call and its commit.
#[test]
fn whoever_changes_the_write_set_meanwhile_wins_and_nothing_is_half_written() {
    type Meddle = fn(&Bench, &Host);
    let table: [(&str, Meddle); 8] = [
        ("file changed", |bench, _| bench.write("d/f", "theirs")),
        ("file removed", |bench, _| std::fs::remove_file(bench.root().join("d/f")).unwrap()),
        ("mode changed", |bench, _| {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            std::fs::set_permissions(bench.root().join("d/f"), mode).unwrap();
        }),
        ("file appeared", |bench, _| bench.write("a", "theirs")),
        ("directory removed", |bench, _| std::fs::remove_dir_all(bench.root().join("e")).unwrap()),
        ("directory became a file", |bench, _| {
            std::fs::remove_dir_all(bench.root().join("e")).unwrap();
            bench.write("e", "theirs");
        }),
        ("directory around a new one removed", |bench, _| {
            std::fs::remove_dir(bench.root().join("h")).unwrap();
        }),
        ("key changed", |bench, host| {
            bench.done(host, "state.put", &json!({"key": "k", "value": "theirs"}));
        }),
    ];
    for (what, meddle) in table {
        let bench = Box::leak(Box::new(Bench::new()));
        for directory in ["d", "e", "h"] {
            std::fs::create_dir(bench.root().join(directory)).unwrap();
        }
        bench.write("d/f", "old");
        let host: &'static Host = Box::leak(Box::new(bench.host()));
        bench.done(host, "state.put", &json!({"key": "k", "value": "old"}));
        let bench: &'static Bench = bench;
        bench.hook.set(move || meddle(bench, host));
        let input = json!({
            "files": [{"name": "a", "value": "mine"}, {"name": "d/f", "value": "mine"},
                {"name": "e/g", "value": "mine"}, {"name": "h/new/i", "value": "mine"}],
            "keys": [{"name": "b", "value": "mine"}, {"name": "k", "value": "mine"}],
        });
        let outcome = bench.call(host, "test.many", &input);
        assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"), "{what}");
        for name in ["a", "d/f", "e/g", "h/new/i"] {
            assert_ne!(bench.text(name).as_deref(), Some("mine"), "{what}: {name}");
        }
        assert_eq!(key(host, "b"), None, "{what}");
        assert_ne!(key(host, "k"), Some(json!("mine")), "{what}");
        verify_chain(host);
        let _ = std::fs::remove_dir_all(bench.path());
    }
}

#[test]
fn calls_on_different_things_commit_side_by_side() {
    let bench = Box::leak(Box::new(Bench::new()));
    let host: &'static Host = Box::leak(Box::new(bench.host()));
    let bench: &'static Bench = bench;
    bench.hook.set(move || {
        let input = json!({"path": "there", "content": "2"});
        bench.done(host, "file.write", &input);
    });
    let input = json!({"files": [{"name": "here", "value": "1"}]});
    bench.done(host, "test.many", &input);
    assert_eq!(
        (bench.text("here").unwrap(), bench.text("there").unwrap()),
        ("1".into(), "2".into())
    );
    let _ = std::fs::remove_dir_all(bench.path());
}

/// Without a durable record there is no effect; with one, the effect comes about in the end.
#[test]
fn a_journal_that_fails_stops_the_call() {
    let input = both("d/f", "k", false);
    for (fact, mishap, committed) in [
        ("committed", Mishap::Fails, false),
        ("committed", Mishap::AnswerLost, true),
        ("completed", Mishap::Fails, true),
        ("completed", Mishap::AnswerLost, true),
    ] {
        let bench = Bench::new();
        let store = bench.store();
        let host = bench.host_on(store.clone());
        store.plan(At::Fact(fact), mishap);
        let failure = failure_of(host.call(bench.command("test.many", &input)));
        assert_eq!(failure.class, StateError, "{mishap:?} at {fact}");
        assert!(failure.execution_id.is_some());
        store.heal();
        if !committed {
            assert_eq!((bench.text("a"), key(&host, "k")), (None, None));
        }
        // The same process finishes what it gave up, with its next call.
        bench.done(&host, "text.digest", &json!({"text": ""}));
        assert!(host.home().store.open_calls().unwrap().is_empty(), "{mishap:?} at {fact}");
        let expected = committed.then(|| "mine".to_owned());
        assert_eq!(bench.text("d/f"), expected, "{mishap:?} at {fact}");
        assert_eq!(key(&host, "k").is_some(), committed);
        verify_chain(&host);
    }
}

#[test]
fn a_call_whose_running_cannot_be_recorded_is_stopped() {
    let bench = Bench::new();
    let store = bench.store();
    let host = bench.host_on(store.clone());
    // The first call of all has the policies recorded too, before its own facts.
    bench.done(&host, "test.sleep", &json!({"ms": 0}));
    store.plan(At::Append(1), Mishap::FailsFromHere);
    let failure = failure_of(host.call(bench.command("test.sleep", &json!({"ms": 600_000}))));
    assert_eq!(failure.code, "JOURNAL_FULL");
    store.plan(At::Append(1), Mishap::AnswerLost);
    let failure = failure_of(host.call(bench.command("test.sleep", &json!({"ms": 600_000}))));
    assert_eq!(failure.code, "JOURNAL_BUSY");
    assert_eq!(host.home().store.open_calls().unwrap().len(), 1);
    store.heal();
    assert_eq!(host.recover().unwrap().rolled_back.len(), 1);
    assert_eq!(bench.call(&host, "test.sleep", &json!({"ms": 0})).state, Completed);
}

#[test]
fn an_unfinished_call_keeps_its_claim_until_someone_finishes_it() {
    let bench = Bench::new();
    let host = bench.host();
    bench.done(&host, "file.write", &json!({"path": "f", "content": "1"}));
    let input = json!({"path": "f", "content": "2"});
    let store = bench.store();
    let second = bench.host_on(store.clone());
    store.plan(At::Fact("completed"), Mishap::FailsFromHere);
    let failure = failure_of(second.call(bench.command("file.write", &input)));
    assert_eq!(failure.code, "JOURNAL_FULL");
    // Published but not recorded: the claim stands, and others are told to wait.
    let outcome = bench.call(&host, "file.write", &json!({"path": "f", "content": "3"}));
    assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"));
    bench.done(&host, "file.write", &json!({"path": "g", "content": "free"}));
    drop(second);
    // Its process is gone: the next one who needs the path finishes it first.
    let outcome = bench.call(&host, "file.write", &json!({"path": "f", "content": "3"}));
    assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"));
    bench.done(&host, "file.write", &json!({"path": "f", "content": "3"}));
    assert_eq!(bench.text("f").unwrap(), "3");
    assert!(host.home().store.open_calls().unwrap().is_empty());
}

/// The last moment there is: the files are compared while nobody else can commit.
#[test]
fn a_change_right_before_the_commit_is_noticed() {
    let bench = Bench::new();
    bench.write("f", "old");
    let store = bench.store();
    let host = bench.host_on(store.clone());
    let path = bench.root().join("f");
    store.before("committed", move || std::fs::write(path, "theirs").unwrap());
    let outcome = bench.call(&host, "file.write", &json!({"path": "f", "content": "mine"}));
    assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"));
    assert_eq!(bench.text("f").unwrap(), "theirs");
    let back = last_rollback(&host, outcome.execution);
    assert!(!back.restored(), "someone else changed it, and the digests say so");
}

/// Past the commit point an edit by someone else is not overwritten, and the caller is told.
#[test]
fn a_change_right_after_the_commit_is_left_alone() {
    let bench = Bench::new();
    bench.write("f", "old");
    let store = bench.store();
    let host = bench.host_on(store.clone());
    let path = bench.root().join("f");
    store.after_commit(move || std::fs::write(path, "theirs").unwrap());
    let input = json!({"files": [{"name": "f", "value": "mine"}, {"name": "g", "value": "mine"}]});
    let outcome = bench.call(&host, "test.many", &input);
    assert_eq!((outcome.state, outcome.unsettled), (Completed, vec!["f".to_owned()]));
    assert_eq!(
        (bench.text("f").unwrap(), bench.text("g").unwrap()),
        ("theirs".into(), "mine".into())
    );
    bench.done(&host, "file.write", &json!({"path": "f", "content": "mine"}));
}

/// One call makes a file and another a directory of the same name: whoever commits first wins.
#[test]
fn a_name_cannot_become_a_file_and_a_directory() {
    let below = json!({"path": "q/b", "content": "b", "createDirectories": true});
    let file = json!({"path": "q", "content": "q"});
    for (first, second) in [(&file, &below), (&below, &file)] {
        let bench = Bench::new();
        let store = bench.store();
        let host = bench.host_on(store.clone());
        let (other, command) = (bench.host(), bench.command("file.write", second));
        let (said, heard) = std::sync::mpsc::channel();
        // The first is committed, but not published yet.
        store.after_commit(move || said.send(other.call(command)).unwrap());
        let done = bench.call(&host, "file.write", first);
        assert_eq!((done.state, done.unsettled.len()), (Completed, 0));
        let refused = heard.recv().unwrap().unwrap();
        assert_eq!(ending(&refused), (RolledBack, StateError, "CONFLICT"));
        let (name, content) = (first["path"].as_str().unwrap(), first["content"].as_str());
        assert_eq!(bench.text(name).as_deref(), content);
    }
}

/// A file that somebody made huge meanwhile is not read while everybody waits for the commit.
#[test]
fn a_file_of_another_size_is_changed_without_a_look() {
    let bench = Bench::new();
    bench.write("f", "old");
    let store = bench.store();
    let host = bench.host_on(store.clone());
    let path = bench.root().join("f");
    store.before("committed", move || {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(1 << 40).unwrap();
    });
    let outcome = bench.call(&host, "file.write", &json!({"path": "f", "content": "mine"}));
    assert_eq!(outcome.result.unwrap_err().code, "CONFLICT");
}
