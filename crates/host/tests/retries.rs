//! Retries: who gets one, how many, after which pause, and what each attempt leaves in the journal.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use common::tools::{Hook, handlers};
use common::{Bench, HOUR, START, ending, facts, key, names, operator, verify_chain};
use countersign_host::{Cancel, Clock, Home, Host};
use countersign_model::Capability::StateWrite;
use countersign_model::ErrorClass::{
    AuthorizationError, ExecutionError, ResourceError, TimeoutError,
};
use countersign_model::Lifecycle::{Completed, Denied, RolledBack};
use countersign_model::Timestamp;
use countersign_model::event::CallEvent;
use serde_json::json;

const ATTEMPT: [&str; 3] = ["authorized", "started", "rolledBack"];

#[test]
fn a_passing_shortage_is_tried_again_and_authorised_again() {
    let bench = Bench::new();
    let host = bench.host();
    let outcome = bench.call(&host, "test.flaky", &json!({"fails": 2}));
    assert_eq!((outcome.state, outcome.attempts), (Completed, 3));
    let mut expected = vec!["declared", "validated"];
    expected.extend(ATTEMPT);
    expected.extend(ATTEMPT);
    expected.extend(["authorized", "started", "committed", "completed"]);
    assert_eq!(names(&host, outcome.execution), expected);

    let events = facts(&host, outcome.execution);
    let authorized = events.iter().filter_map(|event| match event {
        CallEvent::Authorized(decision) => Some(decision.attempt),
        _ => None,
    });
    assert_eq!(authorized.collect::<Vec<_>>(), [1, 2, 3]);
    let mut transactions: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            CallEvent::Started(started) => Some(started.transaction.to_string()),
            _ => None,
        })
        .collect();
    transactions.dedup();
    assert_eq!(transactions.len(), 3, "each attempt has its own transaction");
    for event in &events {
        if let CallEvent::RolledBack(back) = event {
            assert!(back.restored());
        }
    }
    let pauses: Vec<_> =
        bench.clock.pauses.lock().unwrap().iter().map(Duration::as_millis).collect();
    assert_eq!(pauses, [100, 200], "the pause doubles");
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    assert_eq!((summary.attempts, summary.rollbacks, summary.error), (3, 2, None));
    verify_chain(&host);
}

#[test]
fn three_further_attempts_and_no_more() {
    let bench = Bench::new();
    let host = bench.host();
    let outcome = bench.call(&host, "test.flaky", &json!({"fails": 99}));
    assert_eq!(ending(&outcome), (RolledBack, ResourceError, "FLAKY"));
    assert_eq!(outcome.attempts, 4);
    assert_eq!(bench.clock.pauses.lock().unwrap().len(), 3);
    assert_eq!(key(&host, "flaky"), None);
    assert!(host.home().store.open_calls().unwrap().is_empty());
    let outcome =
        bench.call(&host, "test.flaky", &json!({"fails": 3, "key": "just", "as": "time"}));
    assert_eq!((outcome.state, outcome.attempts), (Completed, 4));
}

#[test]
fn what_another_attempt_cannot_change_is_not_tried_again() {
    let bench = Bench::new();
    let host = bench.host();
    let table = [
        ("test.brittle", "resource", ResourceError, "FLAKY"),
        ("test.brittle", "time", TimeoutError, "FLAKY"),
        ("test.flaky", "execution", ExecutionError, "FLAKY"),
        ("test.flaky", "memory", ResourceError, "MEMORY_LIMIT"),
    ];
    for (tool, kind, class, code) in table {
        let input = json!({"fails": 1, "as": kind, "key": format!("{tool}/{kind}")});
        let outcome = bench.call(&host, tool, &input);
        assert_eq!(ending(&outcome), (RolledBack, class, code), "{tool} {kind}");
        assert_eq!(outcome.attempts, 1, "{tool} {kind}");
    }
}

#[test]
fn the_configuration_sets_how_often() {
    let bench = Bench::new();
    std::fs::write(bench.home().join("countersign.toml"), "[retry]\nmax_retries = 0\n").unwrap();
    let outcome = bench.call(&bench.host(), "test.flaky", &json!({"fails": 1}));
    assert_eq!((outcome.state, outcome.attempts), (RolledBack, 1));
}

/// A clock that does something during the pause before a retry.
struct Meddling {
    now: AtomicI64,
    during: Box<dyn Fn() + Send + Sync>,
    step: i64,
}

impl std::fmt::Debug for Meddling {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meddling")
    }
}

impl Clock for Meddling {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn sleep(&self, _pause: Duration) {
        self.now.fetch_add(self.step, Ordering::SeqCst);
        (self.during)();
    }
}

fn meddling(bench: &Bench, step: i64, during: impl Fn() + Send + Sync + 'static) -> Host {
    let now = AtomicI64::new(START.as_millis());
    let clock = Arc::new(Meddling { now, during: Box::new(during), step });
    Host::start(Home::open(&bench.home()).unwrap(), &handlers(&Hook::default()), clock).unwrap()
}

#[test]
fn a_retry_needs_the_grant_as_much_as_the_first_attempt() {
    let bench = Bench::new();
    let outcome = bench.call(&meddling(&bench, HOUR, || {}), "test.flaky", &json!({"fails": 1}));
    assert_eq!(ending(&outcome), (Denied, AuthorizationError, "GRANT_EXPIRED"));

    let bench = Bench::bare();
    let grant = bench.grant(&bench.host(), StateWrite, "**", HOUR);
    let other = bench.host();
    let host = meddling(&bench, 0, move || {
        other.revoke_grant(grant, operator(), None).unwrap();
    });
    let outcome = bench.call(&host, "test.flaky", &json!({"fails": 1}));
    assert_eq!(ending(&outcome), (Denied, AuthorizationError, "GRANT_REVOKED"));
    let mut expected = vec!["declared", "validated"];
    expected.extend(ATTEMPT);
    expected.push("denied");
    assert_eq!(names(&host, outcome.execution), expected);
    assert_eq!(outcome.attempts, 1);
    verify_chain(&host);
}

#[test]
fn a_call_cancelled_in_the_pause_does_not_run_again() {
    let bench = Bench::new();
    let cancel = Cancel::default();
    let flag = cancel.clone();
    let host = meddling(&bench, 0, move || flag.cancel());
    let mut command = bench.command("test.flaky", &json!({"fails": 1}));
    command.given.cancel = cancel;
    let outcome = host.call(command).unwrap();
    assert_eq!(ending(&outcome), (RolledBack, ExecutionError, "CANCELLED"));
    assert_eq!(key(&host, "flaky"), None);
}

/// During the pause the call is open in the journal. It is still its host's, whoever recovers.
#[test]
fn nobody_takes_over_a_call_that_waits_for_its_retry() {
    let bench = Bench::new();
    let other = bench.host();
    let slot: Arc<std::sync::OnceLock<Host>> = Arc::default();
    let seen = Arc::clone(&slot);
    let host = meddling(&bench, 0, move || {
        for host in [Some(&other), seen.get()].into_iter().flatten() {
            assert_eq!(host.recover().unwrap(), Default::default());
        }
    });
    slot.set(host).unwrap();
    let outcome = bench.call(slot.get().unwrap(), "test.flaky", &json!({"fails": 3}));
    assert_eq!((outcome.state, outcome.attempts), (Completed, 4));
}
