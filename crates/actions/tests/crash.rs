//! A commit is made once, whatever append fails and whenever the host dies.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "a test stops where it fails, and the store is made for more than is used here"
)]

mod common;
#[path = "../../host/tests/common/store.rs"]
mod store;

use std::sync::Arc;

use common::{AGENT, Bench, git, open};
use countersign_actions::{ActionRequest, Asker, Status, handlers, run};
use countersign_host::home::Layout;
use countersign_host::{Backends, Home, Host, SystemClock};
use countersign_journal::{SqliteStore, keys};
use countersign_model::SandboxMode;
use serde_json::{Value, json};
use store::{At, Mishap, TestStore};

const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";

/// A second host on the same home, whose journal fails as planned.
fn shaky(bench: &Bench) -> (Host, Arc<TestStore>) {
    let path = bench.dir.path().join("home");
    let layout = Layout(&path);
    let key = keys::load(&layout.journal_key()).unwrap();
    let inner = SqliteStore::open(&layout.journal(), key).unwrap();
    let store = Arc::new(TestStore::over(inner));
    let home = Home::with_store(&path, store.clone()).unwrap();
    let handlers = handlers(&home.config.actions).unwrap();
    let clock = Arc::new(SystemClock);
    (Host::start_with(home, &handlers, clock, Backends::default()).unwrap(), store)
}

fn request(inputs: &Value) -> ActionRequest {
    ActionRequest {
        action: "commit_changes".to_owned(),
        run_id: "run_1".parse().unwrap(),
        inputs: inputs.as_object().unwrap().clone(),
        context: Bench::context(Some(SandboxMode::RepoWrite)),
    }
}

fn asker() -> Asker {
    Asker::new(AGENT.parse().unwrap())
}

fn commits(bench: &Bench) -> usize {
    let listed = git(&bench.repository(), &["rev-list", "--all", "--count"]);
    listed.parse::<usize>().unwrap() - 1
}

#[test]
fn whatever_append_fails_there_is_one_commit_in_the_end() {
    for fact in ["declared", "started", "committed", "completed"] {
        for mishap in [Mishap::Fails, Mishap::AnswerLost, Mishap::FailsFromHere] {
            let bench = Bench::new();
            bench.put("run_1", "fix.patch", PATCH);
            bench.run("apply_patch", json!({"patch": "fix.patch"}));
            let inputs = json!({"message": "m", "paths": ["src/lib.rs"],
                "expected_tree": bench.tree("run_1")});
            let (host, store) = shaky(&bench);
            store.plan(At::Fact(fact), mishap);
            let first = run(&host, request(&inputs), asker());
            assert!(commits(&bench) <= 1, "{fact} {mishap:?}: {first:?}");
            drop(host);

            // The next process finishes what was begun, and does the rest only if nothing was.
            let again = open(&bench.dir.path().join("home"));
            let second = run(&again, request(&inputs), asker()).unwrap();
            let done = matches!(second.status, Status::Success | Status::Replayed);
            assert!(done, "{fact} {mishap:?}: {second:#?}");
            assert_eq!(commits(&bench), 1, "{fact} {mishap:?}");
            let tip = git(&bench.repository(), &["rev-parse", "countersign/run_1"]);
            assert_eq!(second.output.unwrap()["commit"], json!(tip), "{fact} {mishap:?}");
        }
    }
}

#[test]
fn two_hosts_that_commit_the_same_at_once_make_one_commit() {
    let bench = Bench::new();
    bench.put("run_1", "fix.patch", PATCH);
    bench.run("apply_patch", json!({"patch": "fix.patch"}));
    let inputs =
        json!({"message": "m", "paths": ["src/lib.rs"], "expected_tree": bench.tree("run_1")});
    let home = bench.dir.path().join("home");
    let hosts: Vec<Host> = (0..4).map(|_| open(&home)).collect();
    let results: Vec<_> = std::thread::scope(|scope| {
        let inputs = &inputs;
        let started: Vec<_> = hosts
            .iter()
            .map(|host| scope.spawn(move || run(host, request(inputs), asker()).unwrap()))
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let fresh = results.iter().filter(|result| result.status == Status::Success).count();
    assert_eq!(fresh, 1, "{results:#?}");
    assert_eq!(commits(&bench), 1);
    for result in results.iter().filter(|result| result.status == Status::Failed) {
        let code = result.error.as_ref().unwrap().code.as_ref();
        assert!(["SAME_CALL_RUNS", "CONFLICT"].contains(&code), "{result:#?}");
    }
}
