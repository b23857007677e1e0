//! What is asked for and refused stands in the journal like what is done, and costs nothing.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where it fails"
)]

mod common;

use common::{Bench, git};
use countersign_actions::{ActionRequest, ActionResult, Asker, Status, run};
use countersign_model::Lifecycle;
use serde_json::{Value, json};

fn ask(bench: &Bench, who: &str, workspace: &str, action: &str, inputs: &Value) -> ActionResult {
    let mut context = Bench::context(None);
    context.workspace = workspace.parse().unwrap();
    let request = ActionRequest {
        action: action.to_owned(),
        run_id: "run_1".parse().unwrap(),
        inputs: inputs.as_object().unwrap().clone(),
        context,
    };
    run(&bench.host, request, Asker::new(who.parse().unwrap())).unwrap()
}

fn recorded(bench: &Bench, result: &ActionResult) -> Lifecycle {
    bench.host.home().store.call(result.execution_id.unwrap()).unwrap().unwrap().state
}

fn code(result: &ActionResult) -> &str {
    &result.error.as_ref().unwrap().code
}

#[test]
fn what_is_missing_fails_the_call_on_the_record() {
    let bench = Bench::new();
    let agent = common::AGENT;
    let elsewhere = ask(&bench, agent, "nowhere", "generate_diff_report", &json!({}));
    assert_eq!((elsewhere.status, code(&elsewhere)), (Status::Failed, "WORKSPACE_UNKNOWN"));
    assert_eq!(recorded(&bench, &elsewhere), Lifecycle::Failed);
    let unknown = ask(&bench, agent, "app", "apply_patch", &json!({"patch": "none.patch"}));
    assert_eq!((unknown.status, code(&unknown)), (Status::Failed, "ARTIFACT_UNKNOWN"));
    assert_eq!(recorded(&bench, &unknown), Lifecycle::Failed);
    let report = bench.run("generate_diff_report", json!({}));
    assert_eq!(report.status, Status::Success, "{report:#?}");
    std::fs::remove_dir_all(bench.dir.path().join("home/state/worktrees/app/run_1")).unwrap();
    let lost = ask(&bench, agent, "app", "generate_diff_report", &json!({}));
    assert_eq!((lost.status, code(&lost)), (Status::Failed, "WORKTREE_LOST"), "{lost:#?}");
    assert_eq!(recorded(&bench, &lost), Lifecycle::Failed);
}

#[test]
fn a_wrong_input_is_told_before_what_is_missing() {
    let bench = Bench::new();
    let both = ask(&bench, common::AGENT, "nowhere", "apply_patch", &json!({"surprise": 1}));
    assert_eq!(code(&both), "INPUT_INVALID");
}

#[test]
fn who_holds_no_grant_gets_no_worktree() {
    let bench = Bench::new();
    for (workspace, input) in [("app", json!({})), ("nowhere", json!({}))] {
        let refused = ask(&bench, "agent:stranger", workspace, "generate_diff_report", &input);
        assert_eq!(refused.status, Status::Blocked, "{refused:#?}");
        assert_eq!(code(&refused), "GRANT_MISSING");
        assert_eq!(recorded(&bench, &refused), Lifecycle::Denied);
    }
    assert!(!bench.dir.path().join("home/state/worktrees/app").exists());
}

#[test]
fn an_unknown_action_is_no_call() {
    let bench = Bench::new();
    let before = bench.host.home().store.head().unwrap().size;
    let unknown = ask(&bench, common::AGENT, "app", "make_coffee", &json!({}));
    assert_eq!((unknown.status, unknown.execution_id), (Status::Failed, None));
    assert_eq!(bench.host.home().store.head().unwrap().size, before);
}

#[test]
fn a_base_that_its_owner_pruned_is_named_and_the_files_stay() {
    let bench = Bench::new();
    let repository = bench.repository();
    std::fs::write(repository.join("README.md"), "# Second\n").unwrap();
    git(&repository, &["commit", "-q", "-a", "-m", "second"]);
    bench.run("generate_diff_report", json!({}));
    let tree = bench.tree("run_1");
    git(&repository, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&repository, &["reflog", "expire", "--expire=now", "--all"]);
    git(&repository, &["gc", "-q", "--prune=now"]);
    let inputs = json!({"message": "m", "paths": ["README.md"], "expected_tree": tree});
    let lost = ask(&bench, common::AGENT, "app", "commit_changes", &inputs);
    assert_eq!((lost.status, code(&lost)), (Status::Failed, "BASE_LOST"), "{lost:#?}");
    let kept = bench.dir.path().join("home/state/worktrees/app/run_1/tree/README.md");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "# Second\n");
}
