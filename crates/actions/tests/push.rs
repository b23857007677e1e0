//! A push always asks, goes only where it is allowed, and is not done twice.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where it fails"
)]

mod common;

use std::path::PathBuf;

use common::{Bench, git, open};
use countersign_actions::{ActionResult, Status, resume};
use countersign_host::people::{AddPrincipal, CreateKey};
use countersign_host::{Cancel, Clock, SystemClock};
use countersign_model::{Answer, KeyScope, Principal, SandboxMode};
use serde_json::{Value, json};

const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";

struct Office {
    bench: Bench,
    remote: PathBuf,
    commit: String,
}

impl Office {
    /// A committed change, and a remote that it may be pushed to.
    fn new() -> Self {
        let mut bench = Bench::new();
        let remote = bench.dir.path().canonicalize().unwrap().join("remote.git");
        git(bench.dir.path(), &["init", "-q", "--bare", remote.to_str().unwrap()]);
        let home = bench.dir.path().join("home");
        let config = home.join("countersign.toml");
        let text = std::fs::read_to_string(&config).unwrap();
        let allowed = format!("remotes = [\"file://{}\"]", remote.display());
        let text = text.replace("remotes = []", &allowed);
        let text = text.replace("branches = []", "branches = [\"countersign/*\"]");
        std::fs::write(&config, text).unwrap();
        bench.host = open(&home);
        bench.put("run_1", "fix.patch", PATCH);
        bench.run("apply_patch", json!({"patch": "fix.patch"}));
        let inputs =
            json!({"message": "m", "paths": ["src/lib.rs"], "expected_tree": bench.tree("run_1")});
        let done = bench.run_in("run_1", "commit_changes", inputs, MODE);
        assert_eq!(done.status, Status::Success, "{done:#?}");
        let commit = done.output.unwrap()["commit"].as_str().unwrap().to_owned();
        Office { bench, remote, commit }
    }

    fn inputs(&self) -> Value {
        json!({"remote": format!("file://{}", self.remote.display()), "branch": "countersign/run_1",
            "commit": self.commit, "expected_old": null})
    }

    fn ask(&self, inputs: Value) -> ActionResult {
        self.bench.run_in("run_1", "push_branch", inputs, MODE)
    }

    fn approve(&self, asked: &ActionResult) {
        let host = &self.bench.host;
        let (ann, by): (Principal, Principal) =
            ("human:bob".parse().unwrap(), "human:ann".parse().unwrap());
        let description = None;
        let _ = host.add_principal(&AddPrincipal {
            principal: ann.clone(),
            description,
            by: by.clone(),
        });
        let (_, token) = host
            .create_key(&CreateKey {
                principal: ann,
                tenant: None,
                scopes: [KeyScope::Approve].into(),
                expires_at: SystemClock.now().plus_millis(3_600_000),
                by,
            })
            .unwrap();
        host.answer(asked.execution_id.unwrap(), &token, Answer::Yes, None).unwrap();
    }

    fn pushed(&self) -> String {
        git(&self.remote, &["for-each-ref", "--format=%(refname) %(objectname)"])
    }
}

const MODE: Option<SandboxMode> = Some(SandboxMode::RepoWrite);

fn code(result: &ActionResult) -> &str {
    result.error.as_ref().map_or("", |error| error.code.as_ref())
}

#[test]
fn a_push_waits_for_a_human_and_then_goes_once() {
    let office = Office::new();
    let asked = office.ask(office.inputs());
    assert_eq!(asked.status, Status::ApprovalRequired, "{asked:#?}");
    assert_eq!(office.pushed(), "");
    office.approve(&asked);
    let done = resume(&office.bench.host, asked.execution_id.unwrap(), Cancel::default()).unwrap();
    assert_eq!(done.status, Status::Success, "{done:#?}");
    assert_eq!(office.pushed(), format!("refs/heads/countersign/run_1 {}", office.commit));

    // The same again: asked again, approved again, and not sent again.
    git(&office.remote, &["update-ref", "-d", "refs/heads/countersign/run_1"]);
    let again = office.ask(office.inputs());
    assert_eq!(again.status, Status::ApprovalRequired);
    office.approve(&again);
    let done = resume(&office.bench.host, again.execution_id.unwrap(), Cancel::default()).unwrap();
    assert_eq!(done.status, Status::Replayed, "{done:#?}");
    assert_eq!(office.pushed(), "");
}

#[test]
fn what_was_approved_on_a_worktree_that_is_gone_ends() {
    let office = Office::new();
    let asked = office.ask(office.inputs());
    office.approve(&asked);
    let worktree = office.bench.dir.path().join("home/state/worktrees/app/run_1");
    std::fs::remove_dir_all(worktree).unwrap();
    let execution = asked.execution_id.unwrap();
    let ended = resume(&office.bench.host, execution, Cancel::default()).unwrap();
    assert_eq!(ended.status, Status::Blocked, "{ended:#?}");
    let call = office.bench.host.home().store.call(execution).unwrap().unwrap();
    assert!(call.terminal, "it waits for nothing any more");
    assert_eq!(office.pushed(), "");
}

#[test]
fn only_named_remotes_branches_and_commits_are_pushed() {
    let office = Office::new();
    let with = |field: &str, value: Value| {
        let mut inputs = office.inputs();
        inputs[field] = value;
        office.ask(inputs)
    };
    let elsewhere = with("remote", json!("https://example.org/x.git"));
    assert_eq!(code(&elsewhere), "PUSH_NOT_ALLOWED", "{elsewhere:#?}");
    let above = format!("file://{}/../app", office.remote.display());
    assert_eq!(code(&with("remote", json!(above))), "PUSH_NOT_ALLOWED");
    assert_eq!(code(&with("branch", json!("main"))), "PUSH_NOT_ALLOWED");
    let blocked = office.bench.run("push_branch", office.inputs());
    assert_eq!(blocked.status, Status::Blocked, "an omitted mode does not widen: {blocked:#?}");
    assert_eq!(office.pushed(), "");
}

#[test]
fn a_remote_that_has_moved_is_left_alone() {
    let office = Office::new();
    let other = git(&office.bench.repository(), &["rev-parse", "main"]);
    let url = format!("file://{}", office.remote.display());
    let refspec = format!("{other}:refs/heads/countersign/run_1");
    git(&office.bench.repository(), &["push", "-q", &url, &refspec]);
    let asked = office.ask(office.inputs());
    office.approve(&asked);
    let done = resume(&office.bench.host, asked.execution_id.unwrap(), Cancel::default()).unwrap();
    assert_eq!((done.status, code(&done)), (Status::Failed, "PUSH_REJECTED"), "{done:#?}");
    assert_eq!(office.pushed(), format!("refs/heads/countersign/run_1 {other}"));
}
