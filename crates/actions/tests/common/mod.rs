//! A home, a repository and people to work with.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    dead_code,
    unreachable_pub,
    reason = "shared by tests, each of which uses a part"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use countersign_actions::{ActionContext, ActionRequest, ActionResult, Asker, handlers, put, run};
use countersign_host::grants::IssueCommand;
use countersign_host::{Backends, Clock, Home, Host, SystemClock};
use countersign_model::{Capability, Grantee, Principal, SandboxMode, Scope};
use serde_json::Value;
use tempfile::TempDir;

pub struct Bench {
    pub dir: TempDir,
    pub host: Host,
}

pub const AGENT: &str = "agent:builder";

pub fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(at).args(["-c", "user.name=T", "-c", "user.email=t@localhost"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

impl Bench {
    /// A repository with a few files on `main`, registered as `app`, on which an agent may work.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let repository = dir.path().join("app");
        std::fs::create_dir_all(repository.join("src")).unwrap();
        git(&repository, &["init", "-q", "-b", "main"]);
        std::fs::write(repository.join("src/lib.rs"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(repository.join("README.md"), "# App\n").unwrap();
        git(&repository, &["add", "."]);
        git(&repository, &["commit", "-q", "-m", "first"]);
        let home = dir.path().join("home");
        Home::create(&home, &SystemClock).unwrap();
        let bench = Bench { host: open(&home), dir };
        let human: Principal = "human:ann".parse().unwrap();
        let id = "app".parse().unwrap();
        bench.host.add_workspace(id, &bench.repository(), None, &human).unwrap();
        bench.grant(&[
            Capability::FilesystemRead,
            Capability::FilesystemWrite,
            Capability::FilesystemDelete,
        ]);
        bench
    }

    pub fn repository(&self) -> PathBuf {
        self.dir.path().join("app").canonicalize().unwrap()
    }

    pub fn grant(&self, capabilities: &[Capability]) {
        let scope = format!("{}/**", self.repository().display());
        for capability in capabilities {
            let command = IssueCommand {
                capability: *capability,
                to: Grantee::from(AGENT.parse::<Principal>().unwrap()),
                by: "human:ann".parse().unwrap(),
                scope: Scope::parse([&scope]).unwrap(),
                expires_at: SystemClock.now().plus_millis(3_600_000),
                delegable: false,
            };
            self.host.issue_grant(command).unwrap();
        }
    }

    pub fn context(sandbox: Option<SandboxMode>) -> ActionContext {
        ActionContext { toolset: None, sandbox, workspace: "app".parse().unwrap() }
    }

    pub fn run_in(
        &self,
        run_id: &str,
        action: &str,
        inputs: Value,
        sandbox: Option<SandboxMode>,
    ) -> ActionResult {
        let request = ActionRequest {
            action: action.to_owned(),
            run_id: run_id.parse().unwrap(),
            inputs: inputs.as_object().unwrap().clone(),
            context: Self::context(sandbox),
        };
        run(&self.host, request, Asker::new(AGENT.parse().unwrap())).unwrap()
    }

    pub fn run(&self, action: &str, inputs: Value) -> ActionResult {
        self.run_in("run_1", action, inputs, None)
    }

    pub fn put(&self, run: &str, name: &str, content: &str) -> ActionResult {
        let asker = Asker::new(AGENT.parse().unwrap());
        let (run, context) = (run.parse().unwrap(), Self::context(None));
        let what = (name, "text/x-diff");
        put(&self.host, what, content.as_bytes(), run, context, asker).unwrap()
    }

    /// The tree that a run works on now.
    pub fn tree(&self, run: &str) -> String {
        let place = self.host.open_work(&"app".parse().unwrap(), &run.parse().unwrap()).unwrap();
        place.work.tree
    }

    pub fn artifact(&self, result: &ActionResult, name: &str) -> Vec<u8> {
        let made = result.artifacts.iter().find(|made| made.name == name).unwrap();
        let home = self.host.home();
        let record = home.store.artifact(&made.artifact_id).unwrap().unwrap();
        home.blobs.get(&record.digest).unwrap()
    }
}

pub fn open(home: &Path) -> Host {
    let home = Home::open(home).unwrap();
    let handlers = handlers(&home.config.actions).unwrap();
    Host::start_with(home, &handlers, Arc::new(SystemClock), Backends::default()).unwrap()
}
