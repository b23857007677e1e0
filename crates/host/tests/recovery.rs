//! What a dead process left behind is finished or taken back, once, by whoever comes next.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use common::store::{At, Mishap, TestStore};
use common::{
    Bench, command_in, facts, home_in, host_in, key, names, open_store, spawn_self, verify_chain,
    wait_until,
};
use countersign_host::Host;
use countersign_host::recovery::Recovered;
use countersign_journal::Store;
use countersign_model::Lifecycle::{Completed, Executing, RolledBack};
use countersign_model::event::CallEvent;
use countersign_model::record::CallSummary;
use serde_json::{Value, json};

const DIR: &str = "COUNTERSIGN_TEST_DIR";
const TOOL: &str = "COUNTERSIGN_TEST_TOOL";
const INPUT: &str = "COUNTERSIGN_TEST_INPUT";
const DIES: &str = "COUNTERSIGN_TEST_DIES";

/// Not a test by itself: what the other process does.
#[test]
fn in_another_process() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let dir = PathBuf::from(dir);
    let store = Arc::new(TestStore::over(open_store(&home_in(&dir))));
    match std::env::var(DIES).unwrap().as_str() {
        "after the commit" => store.plan(At::Fact("committed"), Mishap::DiesAfter),
        "before the end" => store.plan(At::Fact("completed"), Mishap::DiesBefore),
        "after the end" => store.plan(At::Fact("completed"), Mishap::DiesAfter),
        _ => {}
    }
    let host = host_in(&dir, store);
    let input = std::env::var(INPUT).unwrap();
    let input = input.strip_prefix('@').map_or(input.clone(), |at| fs::read_to_string(at).unwrap());
    let input: Value = serde_json::from_str(&input).unwrap();
    drop(host.call(command_in(&dir, &std::env::var(TOOL).unwrap(), &input)));
}

fn role(bench: &Bench, tool: &str, input: &Value, dies: &str) -> Vec<(&'static str, String)> {
    let mut input = input.to_string();
    if input.len() > 100_000 {
        let path = bench.path().join("input.json");
        fs::write(&path, input).unwrap();
        input = format!("@{}", path.display());
    }
    vec![
        (DIR, bench.path().to_str().unwrap().to_owned()),
        (TOOL, tool.to_owned()),
        (INPUT, input),
        (DIES, dies.to_owned()),
    ]
}

/// Leaves a call that is committed and not published.
fn leave_committed(bench: &Bench, input: &Value) {
    die(bench, "test.many", input, "after the commit");
}

fn die(bench: &Bench, tool: &str, input: &Value, when: &str) {
    let mut child = spawn_self("in_another_process", &role(bench, tool, input, when));
    assert!(!child.wait().unwrap().success(), "the process was to die");
}

fn open_calls(home: &Path) -> Vec<CallSummary> {
    open_store(home).open_calls().unwrap()
}

fn settled(bench: &Bench, host: &Host) {
    assert!(open_calls(&bench.home()).is_empty());
    let before = host.home().store.head().unwrap();
    assert_eq!(host.recover().unwrap(), Recovered::default());
    drop(bench.host());
    assert_eq!(host.home().store.head().unwrap(), before, "a second recovery changes nothing");
    verify_chain(host);
}

fn changes() -> Value {
    json!({
        "files": [{"name": "a", "value": "new a"}, {"name": "d/b", "value": "new b"}, {"name": "gone"}],
        "keys": [{"name": "k", "value": "new"}, {"name": "old"}],
    })
}

fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("a", "old a");
    bench.write("gone", "old gone");
    let host = bench.host();
    bench.done(&host, "state.put", &json!({"key": "old", "value": "old"}));
    bench
}

fn assert_applied(bench: &Bench, host: &Host) {
    let files = ["a", "d/b", "gone"].map(|name| bench.text(name));
    assert_eq!(files, [Some("new a".to_owned()), Some("new b".to_owned()), None]);
    assert_eq!((key(host, "k"), key(host, "old")), (Some(json!("new")), None));
    let leftovers = fs::read_dir(bench.root())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().starts_with('.'));
    assert_eq!(leftovers.count(), 0, "no temporary files");
}

#[test]
fn a_call_whose_process_was_killed_is_rolled_back() {
    let bench = Bench::new();
    let input = json!({"ms": 600_000, "key": "slow"});
    let mut child = spawn_self("in_another_process", &role(&bench, "test.sleep", &input, ""));
    wait_until("the call runs", || {
        open_calls(&bench.home()).iter().any(|call| call.state == Executing)
    });
    // While its process lives it is left alone, also by a host that starts meanwhile.
    let witness = bench.host();
    assert_eq!(witness.recover().unwrap(), Recovered::default());
    assert_eq!(open_calls(&bench.home()).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();

    let host = bench.host();
    let mut calls = Vec::new();
    host.home()
        .store
        .visit_calls(&Default::default(), &mut |call| {
            calls.push(call);
            Ok(())
        })
        .unwrap();
    assert_eq!((calls.len(), calls[0].state), (1, RolledBack));
    assert_eq!(calls[0].error.as_ref().unwrap().code, "HOST_DIED");
    let listed = names(&host, calls[0].execution);
    assert_eq!(&listed[3..], ["started", "aborted", "rolledBack"]);
    let Some(CallEvent::RolledBack(back)) = facts(&host, calls[0].execution).pop() else {
        panic!("not rolled back")
    };
    assert!(back.restored());
    assert_eq!(key(&host, "slow"), None);
    settled(&bench, &host);
}

#[test]
fn a_committed_call_is_published() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    assert_eq!(bench.text("a").unwrap(), "old a", "not published yet");
    let execution = open_calls(&bench.home())[0].execution;
    let host = bench.host();
    let summary = host.home().store.call(execution).unwrap().unwrap();
    assert_eq!((summary.state, summary.unsettled.len()), (Completed, 0));
    assert_applied(&bench, &host);
    settled(&bench, &host);
    // The paths are free again.
    bench.done(&host, "file.write", &json!({"path": "a", "content": "newer"}));
}

/// Every prefix of the publishing, and a half-written temporary file on top.
#[test]
fn a_call_that_was_published_in_part_is_published_in_whole() {
    for steps in 1..=4 {
        let bench = prepared();
        leave_committed(&bench, &changes());
        let execution = open_calls(&bench.home())[0].execution;
        fs::create_dir(bench.root().join("d")).unwrap();
        if steps >= 2 {
            bench.write("a", "new a");
        }
        if steps >= 3 {
            bench.write("d/b", "new b");
        }
        if steps >= 4 {
            fs::remove_file(bench.root().join("gone")).unwrap();
        }
        if steps == 1 {
            bench.write(&format!(".countersign-{execution}-1"), "new");
        }
        let host = bench.host();
        assert_applied(&bench, &host);
        settled(&bench, &host);
    }
}

#[test]
fn what_someone_else_wrote_meanwhile_is_left_alone_and_reported() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    let execution = open_calls(&bench.home())[0].execution;
    bench.write("a", "theirs");
    bench.write("gone", "theirs");
    bench.write("d", "a file in the way");
    bench.write(&format!(".countersign-{execution}-1"), "half");
    let host = bench.host();
    let summary = host.home().store.call(execution).unwrap().unwrap();
    assert_eq!(summary.state, Completed);
    assert_eq!(summary.unsettled, ["d", "a", "d/b", "gone"]);
    assert!(summary.is_unknown());
    for (name, text) in [("a", "theirs"), ("gone", "theirs"), ("d", "a file in the way")] {
        assert_eq!(bench.text(name).unwrap(), text);
    }
    assert!(!bench.root().join(format!(".countersign-{execution}-1")).exists());
    assert_eq!(key(&host, "k"), Some(json!("new")), "keys are committed, whatever became of files");
    settled(&bench, &host);
}

#[test]
fn another_directory_in_the_place_of_the_root_is_left_alone() {
    for linked in [false, true] {
        let bench = prepared();
        let before = bench.path().join("before");
        leave_committed(&bench, &changes());
        let execution = open_calls(&bench.home())[0].execution;
        fs::rename(bench.root(), &before).unwrap();
        if linked {
            fs::create_dir(bench.path().join("elsewhere")).unwrap();
            symlink("elsewhere", bench.root()).unwrap();
        }
        let host = bench.host();
        let pending = &host.recovered().pending;
        assert_eq!((pending.len(), pending[0].code.as_ref()), (1, "PUBLISH_PENDING"));
        assert_eq!(pending[0].execution_id, Some(execution));
        if linked {
            assert_eq!(fs::read_dir(bench.path().join("elsewhere")).unwrap().count(), 0);
            fs::remove_file(bench.root()).unwrap();
        }
        // The disk is back: what was committed is finished, however long it took.
        fs::rename(&before, bench.root()).unwrap();
        assert_eq!(host.recover().unwrap().completed, [execution]);
        assert_eq!(bench.text("a").as_deref(), Some("new a"));
        settled(&bench, &host);
    }
}

#[test]
fn a_human_can_give_up_on_a_root_that_will_not_come_back() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    let execution = open_calls(&bench.home())[0].execution;
    fs::remove_dir_all(bench.root()).unwrap();
    let host = bench.host();
    assert_eq!(host.recover().unwrap().pending.len(), 1, "it is not given up by itself");
    assert_eq!(host.give_up_on(execution).unwrap().unsettled, [execution]);
    let summary = host.home().store.call(execution).unwrap().unwrap();
    assert_eq!((summary.state, summary.unsettled.len()), (Completed, 4));
    settled(&bench, &host);
}

#[test]
fn a_lost_blob_keeps_its_call_open_and_stops_nothing_else() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    let execution = open_calls(&bench.home())[0].execution;
    fs::remove_dir_all(bench.home().join("state/blobs")).unwrap();
    fs::create_dir(bench.home().join("state/blobs")).unwrap();
    let host = bench.host();
    assert_eq!(host.recovered().pending.len(), 1);
    bench.done(&host, "state.put", &json!({"key": "other", "value": 1}));
    host.give_up_on(execution).unwrap();
    let summary = host.home().store.call(execution).unwrap().unwrap();
    assert_eq!(summary.unsettled, ["a", "d/b"]);
    assert_eq!(bench.text("gone"), None);
    settled(&bench, &host);
}

#[test]
fn many_recover_at_once_and_it_happens_once() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    let execution = open_calls(&bench.home())[0].execution;
    let mut others: Vec<_> = (0..3)
        .map(|n| {
            let input = json!({"key": format!("n{n}"), "value": 1});
            spawn_self("in_another_process", &role(&bench, "state.put", &input, ""))
        })
        .collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| drop(bench.host()));
        }
    });
    for other in &mut others {
        assert!(other.wait().unwrap().success());
    }
    let host = bench.host();
    let listed = names(&host, execution);
    assert_eq!(&listed[listed.len() - 2..], ["committed", "completed"]);
    assert_eq!(listed.iter().filter(|name| **name == "completed").count(), 1);
    assert_applied(&bench, &host);
    for n in 0..3 {
        assert_eq!(key(&host, &format!("n{n}")), Some(json!(1)));
    }
    settled(&bench, &host);
}

/// One call that cannot be finished does not stand in the way of the others, nor of the home.
#[test]
fn a_call_that_cannot_be_finished_now_waits_alone() {
    let bench = prepared();
    leave_committed(&bench, &changes());
    leave_committed(&bench, &json!({"files": [{"name": "z", "value": "z"}]}));
    let store = bench.store();
    store.plan(At::Append(1), Mishap::Fails);
    let host = bench.host_on(store.clone());
    assert_eq!(open_calls(&bench.home()).len(), 1, "the second was finished all the same");
    bench.done(&host, "text.digest", &json!({"text": "the next call finishes the rest"}));
    assert!(open_calls(&bench.home()).is_empty());
    assert_applied(&bench, &host);
    assert_eq!(bench.text("z").unwrap(), "z");
    settled(&bench, &host);
}

#[test]
fn who_recovers_may_die_too() {
    for when in ["before the end", "after the end"] {
        let bench = prepared();
        leave_committed(&bench, &changes());
        // It dies while it recovers, before it comes to its own call.
        die(&bench, "text.digest", &json!({"text": ""}), when);
        assert_eq!(open_calls(&bench.home()).len(), usize::from(when == "before the end"));
        let host = bench.host();
        assert_applied(&bench, &host);
        settled(&bench, &host);
    }
}

/// Large content takes a while to write: whoever published twice at once would show here.
#[test]
fn recovery_at_once_never_shows_half_a_file() {
    for round in 0..3 {
        let bench = prepared();
        let content = format!("{round}").repeat(200_000);
        let input = json!({"path": "a", "content": content});
        die(&bench, "file.write", &input, "after the commit");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let host = bench.host();
                    // Whoever is through may go on at once with the next call.
                    let next = json!({"path": "a", "content": "next"});
                    let outcome = bench.call(&host, "file.write", &next);
                    assert!(outcome.unsettled.is_empty());
                });
            }
        });
        assert_eq!(bench.text("a").as_deref(), Some("next"));
        settled(&bench, &bench.host());
    }
}

/// While one recovers, nobody else does: publishing twice at once could undo a later call.
#[test]
fn only_one_recovers_at_a_time() {
    let bench = Arc::new(prepared());
    leave_committed(&bench, &changes());
    let second_is_through = Arc::new(AtomicBool::new(false));
    let store = bench.store();
    let (seen, other) = (Arc::clone(&second_is_through), Arc::clone(&bench));
    let (sender, receiver) = mpsc::channel();
    store.before("completed", move || {
        let flag = Arc::clone(&seen);
        sender
            .send(thread::spawn(move || {
                drop(other.host());
                flag.store(true, Ordering::SeqCst);
            }))
            .unwrap();
        thread::sleep(Duration::from_millis(500));
        assert!(!seen.load(Ordering::SeqCst), "the second went ahead");
    });
    let host = bench.host_on(store);
    receiver.recv().unwrap().join().unwrap();
    assert!(second_is_through.load(Ordering::SeqCst));
    assert_applied(&bench, &host);
    settled(&bench, &host);
}
