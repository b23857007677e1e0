//! A home and a repository that an agent works on, a clock that is moved by hand, and tools that
//! break their promises.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use countersign_actions::{ActionContext, ActionRequest, ActionResult, Asker, handlers, put, run};
use countersign_host::grants::IssueCommand;
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_host::{Backends, CallCommand, Clock, Home, Host};
use countersign_model::{
    ArtifactRecord, Capability, Declaration, Digest, ExecutionId, Failure, Grantee, Lifecycle,
    Principal, SandboxMode, Scope, Timestamp,
};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const AGENT: &str = "agent:builder";
pub const DAY: i64 = 86_400_000;

pub const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n-one\n+ONE\n two\n three\n";

pub fn human() -> Principal {
    "human:ann".parse().unwrap()
}

pub fn git(at: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(at).args(["-c", "user.name=T", "-c", "user.email=t@localhost"]);
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Moves on by a millisecond whenever it is asked, and further when it is told.
#[derive(Debug)]
pub struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Where a call waits until a test lets it go on.
pub type Gate = Arc<Mutex<()>>;

pub struct Bench {
    pub dir: TempDir,
    pub clock: Arc<ManualClock>,
    pub host: Host,
    pub gate: Gate,
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
        let clock = Arc::new(ManualClock(AtomicI64::new(1_800_000_000_000)));
        let home = dir.path().join("home");
        Home::create(&home, &*clock).unwrap();
        let gate = Gate::default();
        let host = open(&home, &clock, &gate, "1");
        let bench = Bench { dir, clock, host, gate };
        let id = "app".parse().unwrap();
        bench.host.add_workspace(id, &bench.repository(), None, &human()).unwrap();
        for capability in
            [Capability::FilesystemRead, Capability::FilesystemWrite, Capability::FilesystemDelete]
        {
            bench.grant(capability);
        }
        bench
    }

    pub fn repository(&self) -> PathBuf {
        self.dir.path().join("app").canonicalize().unwrap()
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn worktree(&self, run: &str) -> PathBuf {
        self.home().join("state/worktrees/app").join(run)
    }

    /// Another process on the same home.
    pub fn another(&self) -> Host {
        open(&self.home(), &self.clock, &self.gate, "1")
    }

    /// The same home, where the tools of this bench declare something else.
    pub fn reopen_with_other_declarations(&self) -> Host {
        open(&self.home(), &self.clock, &self.gate, "2")
    }

    fn grant(&self, capability: Capability) {
        let scope = format!("{}/**", self.repository().display());
        let command = IssueCommand {
            capability,
            to: Grantee::from(AGENT.parse::<Principal>().unwrap()),
            by: human(),
            scope: Scope::parse([scope]).unwrap(),
            expires_at: self.clock.now().plus_millis(300 * DAY),
            delegable: false,
        };
        self.host.issue_grant(command).unwrap();
    }

    fn ask(&self, run_id: &str, action: &str, inputs: Value, fresh: bool) -> ActionResult {
        let Value::Object(inputs) = inputs else { panic!("inputs are an object") };
        let sandbox = (action == "commit_changes").then_some(SandboxMode::RepoWrite);
        let request = ActionRequest {
            action: action.to_owned(),
            run_id: run_id.parse().unwrap(),
            inputs,
            context: context(sandbox),
        };
        let asker = Asker { fresh, ..Asker::new(AGENT.parse().unwrap()) };
        run(&self.host, request, asker).unwrap()
    }

    pub fn run_in(
        &self,
        run_id: &str,
        action: &str,
        inputs: Value,
        _sandbox: Option<SandboxMode>,
    ) -> ActionResult {
        self.ask(run_id, action, inputs, false)
    }

    /// Does it even if it was done before.
    pub fn fresh(&self, run_id: &str, action: &str, inputs: Value) -> ActionResult {
        self.ask(run_id, action, inputs, true)
    }

    pub fn run(&self, action: &str, inputs: Value) -> ActionResult {
        self.ask("run_1", action, inputs, false)
    }

    pub fn commit(&self, run: &str, path: &str) -> ActionResult {
        let tree = self.tree(run);
        let inputs = json!({"message": "change", "paths": [path], "expected_tree": tree});
        self.ask(run, "commit_changes", inputs, false)
    }

    pub fn put(&self, run: &str, name: &str, content: &str) -> ActionResult {
        let asker = Asker::new(AGENT.parse().unwrap());
        let what = (name, "text/plain");
        put(&self.host, what, content.as_bytes(), run.parse().unwrap(), context(None), asker)
            .unwrap()
    }

    /// Calls a tool of this bench in a run.
    pub fn call(&self, tool: &str, run: &str) -> ExecutionId {
        self.call_with(&self.host, tool, run, &json!({}))
    }

    pub fn call_with(&self, host: &Host, tool: &str, run: &str, input: &Value) -> ExecutionId {
        let work = host.open_work(&"app".parse().unwrap(), &run.parse().unwrap()).unwrap();
        let input = serde_json::to_vec(input).unwrap();
        let command = CallCommand::new(tool.parse().unwrap(), input, AGENT.parse().unwrap());
        let command = CallCommand { work: Some(Arc::new(work)), ..command };
        let outcome = host.call(command).unwrap();
        assert_eq!(outcome.state, Lifecycle::Completed, "{:?}", outcome.result);
        outcome.execution
    }

    /// The tree that a run works on now.
    pub fn tree(&self, run: &str) -> String {
        let place = self.host.open_work(&"app".parse().unwrap(), &run.parse().unwrap()).unwrap();
        place.work.tree
    }

    pub fn record(&self, result: &ActionResult, name: &str) -> ArtifactRecord {
        let made = result.artifacts.iter().find(|made| made.name == name).unwrap();
        self.host.home().store.artifact(&made.artifact_id).unwrap().unwrap()
    }

    pub fn blob(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (shard, rest) = name.split_at(2);
        self.home().join("state/blobs").join(shard).join(rest)
    }

    /// Puts something else where the content of an artifact lies, or nothing.
    pub fn tamper(&self, result: &ActionResult, name: &str, with: Option<&[u8]>) {
        let path = self.blob(&self.record(result, name).digest);
        std::fs::remove_file(&path).unwrap();
        if let Some(bytes) = with {
            std::fs::write(&path, bytes).unwrap();
        }
    }

    /// Puts another content under the name of an object that a run's private repository holds.
    pub fn forge_object(&self, run: &str, content: &[u8], with: &[u8]) {
        let repository = self.worktree(run).join("repo.git");
        let write = |bytes: &[u8]| {
            let mut child = Command::new("git")
                .arg("--git-dir")
                .arg(&repository)
                .args(["hash-object", "-w", "--stdin"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(bytes).unwrap();
            let id = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
            let (shard, rest) = id.trim().split_at(2);
            repository.join("objects").join(shard).join(rest)
        };
        let (right, wrong) = (write(content), write(with));
        std::fs::remove_file(&right).unwrap();
        std::fs::copy(&wrong, &right).unwrap();
    }

    /// Time passes, for the journal and for the files of the store.
    pub fn pass_days(&self, days: i64) {
        self.clock.0.fetch_add(days * DAY, Ordering::SeqCst);
        let by = Duration::from_millis((days * DAY).unsigned_abs());
        for file in files(&self.home().join("state/blobs")) {
            let file = std::fs::File::open(file).unwrap();
            let at = file.metadata().unwrap().modified().unwrap();
            file.set_modified(at.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH)).unwrap();
        }
    }

    /// Everything that a replay must leave as it is.
    pub fn everything(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        let state = self.home().join("state");
        let roots = [self.repository(), state.join("worktrees"), state.join("blobs")];
        for path in roots.iter().flat_map(|root| files(root)) {
            let bytes = std::fs::read(&path).unwrap();
            found.insert(path.display().to_string(), Digest::of(&bytes).to_string());
        }
        let head = self.host.home().store.head().unwrap();
        found.insert("journal".to_owned(), head.checkpoint);
        found
    }

    /// While this is held, `test.slow` does not go on.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
    }
}

fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(root) else { return found };
    for entry in entries {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

pub fn context(sandbox: Option<SandboxMode>) -> ActionContext {
    ActionContext { toolset: None, sandbox, workspace: "app".parse().unwrap() }
}

fn open(home: &Path, clock: &Arc<ManualClock>, gate: &Gate, note: &str) -> Host {
    let home = Home::open(home).unwrap();
    let handlers = handlers(&home.config.actions)
        .unwrap()
        .with_tool(declare("test.fickle", note, true), Arc::new(Fickle::default()))
        .with_tool(declare("test.unsure", note, false), Arc::new(Fickle::default()))
        .with_tool(declare("test.slow", note, false), Arc::new(Slow(Arc::clone(gate))));
    Host::start_with(home, &handlers, clock.clone(), Backends::default()).unwrap()
}

fn declare(id: &str, note: &str, deterministic: bool) -> Declaration {
    let schema = |properties: Value, required: Value| {
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
            "properties": properties, "required": required, "additionalProperties": false})
    };
    let text = json!({"type": "string", "description": "A text", "maxLength": 200_000});
    let count = json!({"type": "integer", "description": "A count"});
    let declaration = json!({
        "id": id, "version": "1.0.0", "name": "A test", "description": format!("A test, {note}."),
        "inputSchema": schema(json!({"text": text, "kept": text, "times": count}), json!([])),
        "outputSchema": schema(json!({"count": count, "kept": text}), json!(["count"])),
        "requiredCapabilities": ["filesystem.read"],
        "resourceLimits": {"maxExecutionTime": 60_000, "maxMemory": 1 << 20},
        "deterministic": deterministic, "idempotent": false,
        "runtime": {"kind": "builtin", "handler": id},
    });
    Declaration::from_value(declaration).unwrap()
}

/// Promises to give the same, and counts.
#[derive(Debug, Default)]
struct Fickle(AtomicU64);

impl NativeTool for Fickle {
    fn footprint(&self, _: &Value, place: &Place) -> Result<Footprint, Failure> {
        let needs = vec![place.need_of_all(Capability::FilesystemRead)?];
        Ok(Footprint { needs, ..Footprint::nothing() })
    }

    fn run(&self, _: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let count = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        let text = format!("first\n{count}");
        context.make_artifact("count", "text/plain", &mut text.as_bytes())?;
        Ok(json!({"count": count}))
    }
}

/// Makes an artifact of its input, and waits at the gate before it ends.
#[derive(Debug)]
struct Slow(Gate);

impl NativeTool for Slow {
    fn footprint(&self, _: &Value, place: &Place) -> Result<Footprint, Failure> {
        let needs = vec![place.need_of_all(Capability::FilesystemRead)?];
        Ok(Footprint { needs, ..Footprint::nothing() })
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let text = input.get("text").and_then(Value::as_str).unwrap_or_default();
        let times = input.get("times").and_then(Value::as_u64).unwrap_or(1);
        let text = text.repeat(usize::try_from(times).unwrap());
        context.make_artifact("made", "text/plain", &mut text.as_bytes())?;
        drop(self.0.lock().unwrap());
        let mut output = json!({"count": text.len()});
        if let (Some(fields), Some(kept)) = (output.as_object_mut(), input.get("kept")) {
            fields.insert("kept".to_owned(), kept.clone());
        }
        Ok(output)
    }
}
