//! Policies around calls: what is tried without running it, which sets have decided, and why.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::sync::Arc;

use common::store::{At, Mishap};
use common::{Bench, verify_chain};
use countersign_host::inspect::verify_home;
use countersign_host::policies::compile_with;
use countersign_host::{CallCommand, Host, Simulation, Would};
use countersign_model::{Decision, ExecutionId, Failure, Lifecycle, SandboxMode};
use countersign_policy::{Policies, Source};
use serde_json::json;

const NO_WRITES: &str = r#"
@id("no-writes")
@reason("nothing changes today")
forbid (principal, action == Action::"invoke", resource == Tool::"file.write");
"#;

const ASK: &str = r#"
@id("ask")
@approvers("2")
forbid (principal, action == Action::"invoke_unattended", resource == Tool::"file.write");
"#;

fn write_policy(bench: &Bench, name: &str, text: &str) {
    fs::write(bench.home().join("policy").join(name), text).unwrap();
}

fn set(text: &str) -> Arc<Policies> {
    let all = "permit (principal, action, resource);\n".to_owned() + text;
    compile_with(&[Source { name: "a.cedar".to_owned(), text: all }], &[]).unwrap()
}

fn write(bench: &Bench) -> CallCommand {
    bench.command("file.write", &json!({"path": "a.txt", "content": "x"}))
}

fn simulate(bench: &Bench, host: &Host, policies: Option<&Policies>) -> Simulation {
    host.simulate(write(bench), policies).unwrap()
}

/// Every byte of the journal and of the blobs.
fn state(bench: &Bench) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![bench.home().join("state")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if !path.ends_with("journal.db-shm") {
                found.push((path.display().to_string(), fs::read(&path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_simulation_says_what_would_happen_and_leaves_no_trace() {
    let bench = Bench::new();
    let host = bench.host();
    let before = state(&bench);
    assert!(matches!(simulate(&bench, &host, None).would, Would::Run));
    let asks = simulate(&bench, &host, Some(&set(ASK)));
    assert!(matches!(asks.would, Would::Ask { approvers: 2, .. }), "{asks:?}");
    let refused = simulate(&bench, &host, Some(&set(NO_WRITES)));
    let Would::Refuse(failure) = &refused.would else { panic!("{refused:?}") };
    assert_eq!(
        (failure.code.as_ref(), refused.verdict.decision),
        ("POLICY_BLOCKED", Decision::Block)
    );
    assert!(refused.grants.is_ok(), "grants are told apart from policy");
    let read_only = CallCommand { mode: SandboxMode::ReadOnly, ..write(&bench) };
    let capped = host.simulate(read_only, None).unwrap();
    assert!(matches!(&capped.would, Would::Refuse(failure) if failure.code == "MODE_FORBIDS"));
    let bad = host.simulate(bench.command("file.write", &json!({"path": 1})), None);
    assert_eq!(bad.unwrap_err().code, "INPUT_INVALID");
    assert_eq!(host.home().policy_history().unwrap(), []);
    assert!(state(&bench) == before, "the journal is what it was, byte for byte");
    assert_eq!(bench.text("a.txt"), None);
}

#[test]
fn a_simulation_without_grants_says_so() {
    let bench = Bench::bare();
    let told = simulate(&bench, &bench.host(), None);
    assert_eq!(told.verdict.decision, Decision::Allow);
    assert!(told.grants.is_err());
    assert!(matches!(told.would, Would::Refuse(_)));
}

/// What is tried and what happens are decided by the same facts.
#[test]
fn a_call_sees_the_facts_of_its_simulation() {
    let bench = Bench::new();
    let host = bench.host();
    let tried = simulate(&bench, &host, None);
    let outcome = host.call(write(&bench)).unwrap();
    let told = explained(&host, outcome.execution);
    let judged = told.judged.unwrap();
    assert_eq!((judged.facts, judged.verdict), (tried.facts, tried.verdict));
}

fn explained(host: &Host, execution: ExecutionId) -> countersign_host::explain::Explanation {
    let call = host.home().store.call(execution).unwrap().unwrap();
    host.home().explain(call).unwrap()
}

fn digests(host: &Host) -> Vec<String> {
    let history = host.home().policy_history().unwrap();
    history.iter().map(|adopted| adopted.policy.digest.to_string()).collect()
}

#[test]
fn every_set_that_decides_is_on_record_once_across_restarts() {
    let bench = Bench::new();
    let host = bench.host();
    assert_eq!(digests(&host).len(), 0, "nothing was decided yet");
    host.call(write(&bench)).unwrap();
    host.call(write(&bench)).unwrap();
    let first = host.policies().unwrap().digest().to_string();
    assert_eq!(digests(&host), vec![first.clone()]);
    drop(host);
    let host = bench.host();
    host.call(write(&bench)).unwrap();
    assert_eq!(digests(&host), vec![first.clone()], "a restart is no change");
    write_policy(&bench, "more.cedar", NO_WRITES);
    let denied = host.call(write(&bench)).unwrap();
    assert_eq!(denied.state, Lifecycle::Denied);
    let second = host.policies().unwrap().digest().to_string();
    assert_eq!(digests(&host), [first.clone(), second.clone()]);
    // Back to the first: it decided here before.
    fs::remove_file(bench.home().join("policy/more.cedar")).unwrap();
    host.call(write(&bench)).unwrap();
    assert_eq!(digests(&host), [first, second]);
    verify_chain(&host);
    assert!(verify_home(host.home(), &[], |_| {}).is_ok());
}

#[test]
fn two_hosts_may_take_up_a_set_at_once() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| bench.host().call(bench.command("text.digest", &json!({"text": "x"}))));
        }
    });
    let host = bench.host();
    assert_eq!(digests(&host).len(), 1);
    assert!(verify_home(host.home(), &[], |_| {}).is_ok());
}

#[test]
fn a_call_is_explained_by_the_rules_of_its_time() {
    let bench = Bench::new();
    let host = bench.host();
    write_policy(&bench, "more.cedar", NO_WRITES);
    let denied = host.call(write(&bench)).unwrap().execution;
    write_policy(&bench, "more.cedar", "");
    let allowed = host.call(write(&bench)).unwrap().execution;
    let told = explained(&host, denied);
    let rules = told.rules.unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].id, "more/no-writes");
    assert!(rules[0].text.contains("Tool::\"file.write\""), "{}", rules[0].text);
    assert_eq!(told.judged.unwrap().verdict.decision, Decision::Block);
    let told = explained(&host, allowed);
    assert_eq!(told.rules.unwrap()[0].id, "default/granted");
    assert!(!told.grants.is_empty());
}

#[test]
fn a_call_that_waits_and_one_that_failed_are_explained_too() {
    let bench = Bench::new();
    let host = bench.host();
    write_policy(&bench, "more.cedar", ASK);
    let waiting = host.call(write(&bench)).unwrap().execution;
    let told = explained(&host, waiting);
    assert_eq!(told.judged.unwrap().verdict.decision, Decision::RequireApproval);
    assert!(told.asked.is_some());
    let failed = host.call(bench.command("file.write", &json!({}))).unwrap().execution;
    assert!(explained(&host, failed).judged.is_none());
}

#[test]
fn texts_that_are_gone_are_said_to_be() {
    let bench = Bench::new();
    let host = bench.host();
    let execution = host.call(write(&bench)).unwrap().execution;
    let digest = digests(&host)[0].clone();
    let (shard, rest) = digest.split_at(2);
    fs::remove_file(bench.home().join("state/blobs").join(shard).join(rest)).unwrap();
    let told = explained(&host, execution);
    assert!(told.rules.is_none());
    assert!(told.judged.is_some(), "the verdict and its facts stay");
}

fn failure(host: &Host, bench: &Bench) -> Failure {
    host.call(write(bench)).unwrap_err()
}

#[test]
fn a_set_that_cannot_be_recorded_decides_nothing() {
    let bench = Bench::new();
    let store = bench.store();
    let host = bench.host_on(store.clone());
    store.plan(At::Append(1), Mishap::Fails);
    assert_eq!(failure(&host, &bench).code, "JOURNAL_FULL");
    assert_eq!(bench.text("a.txt"), None);
    // It is tried again, and again before every first decision.
    assert_eq!(host.call(write(&bench)).unwrap().state, Lifecycle::Completed);
    assert_eq!(digests(&host).len(), 1);
}

#[test]
fn a_set_whose_texts_cannot_be_stored_decides_nothing() {
    let bench = Bench::new();
    let host = bench.host();
    let (blobs, aside) = (bench.home().join("state/blobs"), bench.home().join("state/aside"));
    fs::rename(&blobs, &aside).unwrap();
    fs::write(&blobs, "no directory").unwrap();
    failure(&host, &bench);
    assert_eq!(digests(&host).len(), 0);
    assert_eq!(bench.text("a.txt"), None);
    fs::remove_file(&blobs).unwrap();
    fs::rename(&aside, &blobs).unwrap();
    assert_eq!(host.call(write(&bench)).unwrap().state, Lifecycle::Completed);
}

#[test]
fn recorded_calls_are_decided_again() {
    let bench = Bench::new();
    let host = bench.host();
    let written = host.call(write(&bench)).unwrap().execution;
    bench.done(&host, "text.digest", &json!({"text": "x"}));
    host.call(bench.command("file.write", &json!({}))).unwrap();
    let replay = |policies: &Policies, last| host.home().replay(policies, last).unwrap();
    let same = replay(&host.policies().unwrap(), 10);
    assert_eq!((same.decided, same.skipped, same.differences.len()), (2, 1, 0));
    let stricter = replay(&set(NO_WRITES), 10);
    let found: Vec<_> = stricter.differences.iter().map(|it| it.call.execution).collect();
    assert_eq!(found, [written]);
    let newest = replay(&set(NO_WRITES), 2);
    assert_eq!((newest.decided, newest.differences.len()), (1, 0));
    assert_eq!(host.home().policy_history().unwrap().len(), 1, "what is tried is not in force");
}

#[test]
fn a_changed_list_of_policy_sets_is_found() {
    let bench = Bench::new();
    let host = bench.host();
    host.call(write(&bench)).unwrap();
    let raw = rusqlite::Connection::open(bench.home().join("state/journal.db")).unwrap();
    raw.execute("DELETE FROM policies", []).unwrap();
    assert!(verify_home(host.home(), &[], |_| {}).is_err());
}
