//! Grants at work: missing, expired, revoked, forged, too narrow, handed on, and taken back or run
//! out while a call relies on them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::sync::atomic::Ordering;
use std::thread;

use common::{Bench, HOUR, agent, ending, facts, failure_of, key, names, operator, wait_until};
use countersign_host::grants::DelegateCommand;
use countersign_host::home::Layout;
use countersign_host::{Clock, Host, Outcome};
use countersign_journal::Batch;
use countersign_model::Capability::{FilesystemRead, FilesystemWrite, StateWrite};
use countersign_model::ErrorClass::AuthorizationError;
use countersign_model::Lifecycle::{Completed, Denied, Executing, RolledBack};
use countersign_model::event::{CallEvent, Fact, GrantEvent};
use countersign_model::{Grant, GrantId, Scope};
use serde_json::json;

fn put(bench: &Bench, host: &Host) -> Outcome {
    bench.call(host, "state.put", &json!({"key": "k/1", "value": 1}))
}

fn denied(outcome: &Outcome) -> &str {
    let (state, class, code) = ending(outcome);
    assert_eq!((state, class), (Denied, AuthorizationError), "{code}");
    code
}

#[test]
fn a_grant_counts_only_while_it_lives_and_where_it_reaches() {
    let bench = Bench::bare();
    let host = bench.host();
    bench.grant(&host, StateWrite, "other/**", HOUR);
    assert_eq!(denied(&put(&bench, &host)), "GRANT_OUT_OF_SCOPE");
    bench.grant(&host, StateWrite, "k/*", 1000);
    assert_eq!(put(&bench, &host).state, Completed);
    bench.clock.advance(1000);
    assert_eq!(denied(&put(&bench, &host)), "GRANT_EXPIRED");
    let grant = bench.grant(&host, StateWrite, "k/*", 1000);
    assert_eq!(put(&bench, &host).state, Completed);
    host.revoke_grant(grant, operator(), None).unwrap();
    let outcome = put(&bench, &host);
    assert!(matches!(denied(&outcome), "GRANT_REVOKED" | "GRANT_EXPIRED"));
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    assert_eq!((summary.attempts, summary.host), (0, None), "nothing ran");
}

#[test]
fn a_prerequisite_must_be_granted_for_the_same_thing() {
    let bench = Bench::bare();
    let host = bench.host();
    let write = |host: &Host| {
        let outcome = bench.call(host, "file.write", &json!({"path": "a", "content": ""}));
        (outcome.state, outcome.result.map_err(|f| f.code.into_owned()).err())
    };
    let root = bench.root().canonicalize().unwrap();
    let elsewhere = bench.grant(&host, FilesystemRead, "/elsewhere/**", HOUR);
    bench.grant(&host, FilesystemWrite, &format!("{}/**", root.display()), HOUR);
    assert_eq!(write(&host), (Denied, Some("GRANT_OUT_OF_SCOPE".to_owned())));
    bench.grant(&host, FilesystemRead, &format!("{}/*", root.display()), HOUR);
    assert_eq!(write(&host), (Completed, None));
    host.revoke_grant(elsewhere, operator(), None).unwrap();
    assert_eq!(write(&host), (Completed, None));
}

/// What a thief with write access to the database, but without the key, could do.
#[test]
fn forged_grants_are_worth_nothing() {
    let bench = Bench::bare();
    let other = Bench::bare();
    let host = bench.host();
    let stranger = other.host();
    let id = other.grant(&stranger, StateWrite, "**", HOUR);
    let book = stranger.grant_book().unwrap();
    let foreign: Grant = book.get(&id).unwrap().grant.clone();
    let facts = vec![(bench.clock.now(), Fact::Grant(GrantEvent::Issued { grant: foreign }))];
    host.home().store.append(Batch { facts, ..Batch::default() }).unwrap();
    assert_eq!(denied(&put(&bench, &host)), "GRANT_FORGED");

    bench.grant(&host, StateWrite, "narrow/*", HOUR);
    let journal = rusqlite::Connection::open(Layout(&bench.home()).journal()).unwrap();
    let sql =
        "UPDATE grants SET body = CAST(replace(CAST(body AS TEXT), 'narrow/*', '**') AS BLOB)";
    assert_eq!(journal.execute(sql, []).unwrap(), 2);
    drop(journal);
    assert_eq!(denied(&put(&bench, &bench.host())), "GRANT_FORGED");
    assert_eq!(key(&host, "k/1"), None);
}

#[test]
fn what_was_handed_on_ends_with_its_parent() {
    let bench = Bench::bare();
    let host = bench.host();
    let parent = bench.grant(&host, StateWrite, "k/**", HOUR);
    let child = host
        .delegate_grant(DelegateCommand {
            parent,
            to: "agent:y".parse().unwrap(),
            by: agent(),
            scope: Scope::parse(["k/*"]).unwrap(),
            expires_at: bench.clock.now().plus_millis(HOUR / 2),
            delegable: false,
        })
        .unwrap();
    let call = |host: &Host| {
        let mut command = bench.command("state.put", &json!({"key": "k/1", "value": 1}));
        command.principal = "agent:y".parse().unwrap();
        host.call(command).unwrap()
    };
    let outcome = call(&host);
    assert_eq!(outcome.state, Completed);
    let events = facts(&host, outcome.execution);
    let CallEvent::Authorized(authorized) = &events[2] else { panic!("{events:?}") };
    let mut both = vec![parent, child.body.id];
    both.sort_unstable();
    assert_eq!(authorized.grants, both, "the decision names every grant that it rests on");
    let gone = host.revoke_grant(parent, operator(), None).unwrap();
    assert_eq!(gone, [parent, child.body.id]);
    assert_eq!(denied(&call(&host)), "GRANT_REVOKED");
}

#[test]
fn a_grant_to_the_tool_serves_every_caller() {
    let bench = Bench::bare();
    let host = bench.host();
    let mut command = countersign_host::grants::IssueCommand {
        capability: StateWrite,
        to: "tool:state.put".parse().unwrap(),
        by: operator(),
        scope: Scope::parse(["k/*"]).unwrap(),
        expires_at: bench.clock.now().plus_millis(HOUR),
        delegable: false,
    };
    host.issue_grant(command.clone()).unwrap();
    assert_eq!(put(&bench, &host).state, Completed);
    command.by = agent();
    assert_eq!(host.issue_grant(command).unwrap_err().code, "AUTHORITY_MISSING");
}

/// Runs a slow call, meddles once it is EXECUTING, and returns how it ended.
fn disturbed(bench: &Bench, host: &Host, stubborn: bool, meddle: impl FnOnce()) -> Outcome {
    let input = json!({"ms": 50_000, "key": "slow", "stubborn": stubborn});
    thread::scope(|scope| {
        let running = scope.spawn(|| bench.call(host, "test.nap", &input));
        wait_until("the call runs", || {
            host.home().store.open_calls().unwrap().iter().any(|call| call.state == Executing)
        });
        meddle();
        running.join().unwrap()
    })
}

fn assert_cut_short(host: &Host, outcome: &Outcome, code: &str) {
    assert_eq!(ending(outcome), (RolledBack, AuthorizationError, code));
    let expected = ["declared", "validated", "authorized", "started", "aborted", "rolledBack"];
    assert_eq!(names(host, outcome.execution), expected);
    let CallEvent::RolledBack(back) = facts(host, outcome.execution).pop().unwrap() else {
        panic!("not rolled back")
    };
    assert!(back.restored());
    assert_eq!(key(host, "slow"), None);
}

fn state_write(bench: &Bench, host: &Host) -> GrantId {
    bench.grant(host, StateWrite, "slow", HOUR)
}

#[test]
fn revocation_ends_a_running_call() {
    for stubborn in [false, true] {
        let bench = Bench::bare();
        let host = bench.host();
        let grant = state_write(&bench, &host);
        let outcome = disturbed(&bench, &host, stubborn, || {
            host.revoke_grant(grant, operator(), Some("enough".to_owned())).unwrap();
        });
        assert_cut_short(&host, &outcome, "GRANT_REVOKED");
    }
}

#[test]
fn revocation_by_another_host_ends_a_running_call() {
    let bench = Bench::bare();
    let (host, other) = (bench.host(), bench.host());
    let grant = state_write(&bench, &host);
    let outcome = disturbed(&bench, &host, false, || {
        other.revoke_grant(grant, operator(), None).unwrap();
    });
    assert_cut_short(&host, &outcome, "GRANT_REVOKED");
    assert_eq!(other.recover().unwrap(), Default::default());
}

#[test]
fn a_grant_that_runs_out_ends_a_running_call() {
    let bench = Bench::bare();
    let host = bench.host();
    state_write(&bench, &host);
    let outcome = disturbed(&bench, &host, false, || bench.clock.advance(HOUR));
    assert_cut_short(&host, &outcome, "GRANT_EXPIRED");
}

/// Too late to be noticed while it runs: the commit itself refuses.
#[test]
fn the_commit_asks_for_the_grants_once_more() {
    let bench = Bench::bare();
    let store = bench.store();
    let (host, other) = (bench.host_on(store.clone()), bench.host());
    let grants = bench.grant_all(&host);
    store.before("committed", move || {
        for grant in grants {
            other.revoke_grant(grant, operator(), None).unwrap();
        }
    });
    assert_refused_at_the_commit(&bench, &host, "GRANT_REVOKED");
}

#[test]
fn the_commit_asks_for_the_time_once_more() {
    let bench = Bench::new();
    let clock = bench.clock.clone();
    bench.hook.set(move || clock.advance(HOUR));
    assert_refused_at_the_commit(&bench, &bench.host(), "GRANT_EXPIRED");
}

fn assert_refused_at_the_commit(bench: &Bench, host: &Host, code: &str) {
    let input =
        json!({"files": [{"name": "f", "value": "x"}], "keys": [{"name": "k", "value": "x"}]});
    let outcome = bench.call(host, "test.many", &input);
    assert_eq!(ending(&outcome), (RolledBack, AuthorizationError, code));
    let listed = names(host, outcome.execution);
    assert_eq!(&listed[listed.len() - 2..], ["aborted", "rolledBack"]);
    assert_eq!((bench.text("f"), key(host, "k")), (None, None));
}

/// Not knowing is not a verdict: the call stops, and the journal does not say that it was denied.
#[test]
fn grants_that_cannot_be_read_deny_nothing() {
    let bench = Bench::new();
    let store = bench.store();
    let host = bench.host_on(store.clone());
    store.blind.store(true, Ordering::SeqCst);
    let input = json!({"key": "k", "value": 1});
    let failure = failure_of(host.call(bench.command("state.put", &input)));
    assert_eq!(failure.code, "JOURNAL_BUSY");
    assert_eq!(host.home().store.call(failure.execution_id.unwrap()).unwrap(), None);
    // Neither may a running call go on without knowing that it still may.
    store.blind.store(false, Ordering::SeqCst);
    let outcome = disturbed(&bench, &host, false, || store.blind.store(true, Ordering::SeqCst));
    assert_eq!((outcome.state, ending(&outcome).2), (RolledBack, "JOURNAL_BUSY"));
    store.blind.store(false, Ordering::SeqCst);
    assert_eq!(put(&bench, &host).state, Completed);
}

/// However long a call waits for the journal, what ran out meanwhile allows nothing.
#[test]
fn a_grant_that_expires_before_the_commit_does_not_commit() {
    let bench = Bench::bare();
    let store = bench.store();
    let host = bench.host_on(store.clone());
    bench.grant(&host, countersign_model::Capability::StateWrite, "**", 1000);
    let clock = bench.clock.clone();
    store.before("committed", move || clock.advance(1000));
    let outcome = bench.call(&host, "state.put", &json!({"key": "k", "value": 1}));
    assert_eq!(ending(&outcome), (RolledBack, AuthorizationError, "GRANT_EXPIRED"));
    assert_eq!(common::key(&bench.host(), "k"), None);
}

/// An agent whose authority is taken back while its grant waits for the journal grants nothing.
#[test]
fn authority_is_asked_for_once_more_at_the_append() {
    let bench = Bench::bare();
    let store = bench.store();
    let (host, other) = (bench.host_on(store.clone()), bench.host());
    let admin = countersign_model::Capability::AdminCapabilityGrant;
    let authority = bench.grant(&host, admin, "**", HOUR);
    store.before_grant(move || {
        other.revoke_grant(authority, operator(), None).unwrap();
    });
    let refused = host.issue_grant(countersign_host::grants::IssueCommand {
        capability: countersign_model::Capability::StateRead,
        to: "agent:other".parse().unwrap(),
        by: common::agent(),
        scope: countersign_model::Scope::everything(),
        expires_at: common::START.plus_millis(1000),
        delegable: false,
    });
    assert_eq!(refused.unwrap_err().code, "GRANT_REVOKED");
    assert_eq!(host.grant_book().unwrap().len(), 1);
}
