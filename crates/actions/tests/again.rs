//! What was done before, looked at again: reconstructed, executed once more, compared.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod bench;

use bench::{Bench, PATCH, git, human};
use countersign_actions::{ActionResult, Status, rules};
use countersign_host::Cancel;
use countersign_host::again::{Comparison, Difference, Finding, Subject, Verified};
use countersign_model::ExecutionId;
use serde_json::json;

fn execution(result: &ActionResult) -> ExecutionId {
    assert_eq!(result.status, Status::Success, "{result:?}");
    result.execution_id.unwrap()
}

fn verify(bench: &Bench, execution: ExecutionId) -> Verified {
    bench.host.verify_again(execution, &human(), rules, &Cancel::default()).unwrap()
}

/// Why a call is not executed again.
fn skipped(bench: &Bench, execution: ExecutionId) -> &'static str {
    let planned = bench.host.plan_verification(&[execution], rules).unwrap();
    planned.into_iter().next().unwrap().skip.map_or("", |skip| skip.code)
}

fn obstacles(bench: &Bench, execution: ExecutionId) -> Vec<&'static str> {
    let home = bench.host.home();
    let recording = home.recording(execution).unwrap();
    home.obstacles(&recording).unwrap().iter().map(|obstacle| obstacle.code).collect()
}

fn run_compare(bench: &Bench, a: &str, b: &str) -> Comparison {
    let subject = |run: &str| Subject::Run(run.parse().unwrap());
    bench.host.home().compare(&subject(a), &subject(b), rules).unwrap()
}

#[test]
fn a_record_is_exact_until_something_of_it_is_gone_or_damaged() {
    let bench = Bench::new();
    let pack = bench.run("build_context_pack", json!({}));
    let id = execution(&pack);
    let recording = bench.host.home().recording(id).unwrap();
    assert_eq!(recording.items.len(), 3, "{recording:?}");
    for item in &recording.items {
        let mut bytes = Vec::new();
        bench.host.home().write_item(item, &mut bytes).unwrap();
        assert_eq!(countersign_model::Digest::of(&bytes), item.payload.digest);
    }
    assert!(obstacles(&bench, id).is_empty());
    bench.tamper(&pack, "context_pack.txt", Some(b"something else"));
    assert_eq!(obstacles(&bench, id), ["CONTENT_DAMAGED"]);
    bench.tamper(&pack, "context_pack.txt", None);
    assert_eq!(obstacles(&bench, id), ["CONTENT_MISSING"]);
    bench.pass_days(2);
    bench.host.collect_artifacts(1, &human(), false).unwrap();
    assert_eq!(obstacles(&bench, id), ["CONTENT_COLLECTED", "CONTENT_COLLECTED"]);
}

#[test]
fn deterministic_actions_give_the_same_and_nothing_is_touched() {
    let bench = Bench::new();
    let patch = bench.put("run_1", "p", PATCH);
    let applied = bench.run("apply_patch", json!({"patch": "p"}));
    let pack = bench.run("build_context_pack", json!({}));
    let diff = bench.run("generate_diff_report", json!({}));
    let before = bench.everything();
    for result in [&patch, &applied, &pack, &diff] {
        let verified = verify(&bench, execution(result));
        assert!(verified.same, "{verified:?}");
        let compared = |finding: &Finding| matches!(finding, Finding::Same { .. });
        assert!(verified.findings.iter().all(compared), "{verified:?}");
    }
    assert_eq!(bench.everything(), before, "journal, worktree, repository and store are as before");
    let left = std::fs::read_dir(bench.home().join("state/staging")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of the places");
}

#[test]
fn verification_goes_by_the_recorded_tree_and_not_by_what_stands_there_now() {
    let bench = Bench::new();
    let pack = bench.run("build_context_pack", json!({}));
    bench.put("run_1", "p", PATCH);
    execution(&bench.run("apply_patch", json!({"patch": "p"})));
    std::fs::write(bench.repository().join("README.md"), "changed by hand\n").unwrap();
    let verified = verify(&bench, execution(&pack));
    assert!(verified.same, "{verified:?}");
}

#[test]
fn a_tree_that_is_not_what_was_recorded_is_found() {
    let bench = Bench::new();
    bench.put("run_1", "p", PATCH);
    execution(&bench.run("apply_patch", json!({"patch": "p"})));
    let pack = bench.run("build_context_pack", json!({}));
    bench.forge_object("run_1", b"ONE\ntwo\nthree\n", b"EIN\ntwo\nthree\n");
    let verified = verify(&bench, execution(&pack));
    assert!(!verified.same, "{verified:?}");
    let failed = |finding: &Finding| matches!(finding, Finding::Failed { .. });
    assert!(verified.findings.iter().any(failed), "{verified:?}");
}

#[test]
fn a_tampered_content_is_found_although_the_result_is_the_same() {
    let bench = Bench::new();
    let pack = bench.run("build_context_pack", json!({}));
    bench.tamper(&pack, "context_pack", Some(b"{}"));
    let verified = verify(&bench, execution(&pack));
    let damaged = |finding: &&Finding| matches!(finding, Finding::Damaged { .. });
    assert_eq!(verified.findings.iter().filter(damaged).count(), 1, "{verified:?}");
    assert!(!verified.same);
}

#[test]
fn a_tool_that_breaks_its_promise_is_found_and_the_first_difference_named() {
    let bench = Bench::new();
    let first = bench.call("test.fickle", "run_1");
    let verified = verify(&bench, first);
    assert!(!verified.same);
    let told: Vec<_> = verified
        .findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Different { what, difference } => Some((what.as_str(), difference)),
            _ => None,
        })
        .collect();
    let [(output, value), (artifact, line)] = told[..] else { panic!("{told:?}") };
    assert_eq!((output, artifact), ("output", "artifact `count`"));
    let (then, now) = (Some(json!(1)), Some(json!(2)));
    assert_eq!(*value, Difference::Value { pointer: "/count".to_owned(), then, now });
    let (then, now) = (Some("1".to_owned()), Some("2".to_owned()));
    assert_eq!(*line, Difference::Line { line: 2, then, now });
}

#[test]
fn what_cannot_be_done_again_is_said_with_its_reason() {
    let bench = Bench::new();
    bench.put("run_1", "p", PATCH);
    execution(&bench.run("apply_patch", json!({"patch": "p"})));
    let pack = bench.run("build_context_pack", json!({}));
    let again = bench.run("build_context_pack", json!({}));
    assert_eq!(again.status, Status::Replayed);
    assert_eq!(skipped(&bench, again.execution_id.unwrap()), "REPLAYED");
    let refused = bench.run("apply_patch", json!({"patch": "p"}));
    assert_eq!(refused.status, Status::Failed);
    assert_eq!(skipped(&bench, refused.execution_id.unwrap()), "NOT_COMPLETED");
    let committed = bench.commit("run_1", "src/lib.rs");
    assert_eq!(skipped(&bench, execution(&committed)), "ONCE_ONLY");
    assert_eq!(skipped(&bench, bench.call("test.unsure", "run_1")), "NO_PROMISE");
    let summary = bench.run("summarize_run", json!({}));
    assert_eq!(skipped(&bench, execution(&summary)), "");
    assert!(verify(&bench, execution(&summary)).same);
    bench.call("test.unsure", "run_1");
    assert_eq!(skipped(&bench, execution(&summary)), "RUN_WENT_ON");
    let other = bench.reopen_with_other_declarations();
    let fickle = bench.call("test.fickle", "run_1");
    let planned = other.plan_verification(&[fickle], rules).unwrap();
    assert_eq!(planned[0].skip.as_ref().unwrap().code, "DECLARATION_CHANGED");
    std::fs::remove_dir_all(bench.worktree("run_1")).unwrap();
    assert_eq!(skipped(&bench, execution(&pack)), "TREE_GONE");
    let agent = "agent:builder".parse().unwrap();
    let denied = bench.host.verify_again(execution(&pack), &agent, rules, &Cancel::default());
    assert_eq!(denied.unwrap_err().code, "PEOPLE_ONLY");
}

#[test]
fn two_runs_that_did_the_same_do_not_differ() {
    let bench = Bench::new();
    for run in ["run_1", "run_2"] {
        bench.put(run, "p", PATCH);
        execution(&bench.run_in(run, "apply_patch", json!({"patch": "p"}), None));
        execution(&bench.fresh(run, "build_context_pack", json!({})));
        execution(&bench.commit(run, "src/lib.rs"));
        execution(&bench.run_in(run, "summarize_run", json!({}), None));
    }
    let compared = run_compare(&bench, "run_1", "run_2");
    assert!(compared.equal, "{:#?}", compared.first);
    assert_eq!(compared.calls.len(), 5);
}

#[test]
fn what_differs_between_runs_is_told_by_call() {
    let bench = Bench::new();
    for (run, patch) in [("run_1", PATCH.to_owned()), ("run_2", PATCH.replace("ONE", "UNO"))] {
        bench.put(run, "p", &patch);
        execution(&bench.run_in(run, "apply_patch", json!({"patch": "p"}), None));
    }
    execution(&bench.run_in("run_2", "build_context_pack", json!({}), None));
    let compared = run_compare(&bench, "run_1", "run_2");
    assert!(!compared.equal);
    let [put, apply, pack] = &compared.calls[..] else { panic!("{compared:#?}") };
    let about = |pair: &countersign_host::again::CallPair| {
        let mut about: Vec<_> = pair.gaps.iter().map(|gap| gap.about.clone()).collect();
        about.dedup();
        about
    };
    assert_eq!(about(put), ["input", "artifact `p`"], "{:#?}", put.gaps);
    assert!(about(apply).contains(&"effects".to_owned()), "{:#?}", apply.gaps);
    assert_eq!(about(pack), ["presence of the call"]);
    assert_eq!((pack.then, pack.now.is_some()), (None, true));
    assert_eq!(compared.first.unwrap().about, "input");
    let mixed = bench.host.home().compare(
        &Subject::Run("run_1".parse().unwrap()),
        &Subject::Call(put.then.unwrap()),
        rules,
    );
    assert_eq!(mixed.unwrap_err().code, "NOT_COMPARABLE");
    assert_eq!(git(&bench.repository(), &["status", "--porcelain"]), "");
}
