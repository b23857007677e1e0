//! A home with workflows, and somebody who may run them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::needless_pass_by_value,
    dead_code,
    unreachable_pub,
    reason = "shared by tests, each of which uses a part"
)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign_actions::handlers;
use countersign_flow::Status;
use countersign_host::grants::IssueCommand;
use countersign_host::inspect::verify_home;
use countersign_host::{Backends, Clock, Handlers, Home, Host, SystemClock};
use countersign_model::{Grantee, Principal, RunId, Scope};
use countersign_workflow::{Begin, Engine, Library, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const AGENT: &str = "agent:runner";

pub struct Bench {
    pub dir: TempDir,
}

/// A workflow of one node.
pub fn single(id: &str, type_id: &str, config: Value) -> Value {
    let node = if type_id == "core.approvalGate" { "gate" } else { "node" };
    workflow(
        id,
        &[json!({"id": node, "typeId": type_id, "name": "n", "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}})],
    )
}

pub fn workflow(id: &str, nodes: &[Value]) -> Value {
    json!({"id": id, "name": id, "version": "1", "nodes": nodes, "edges": [], "variables": [],
        "triggers": [{"id": "t", "type": "manual"}], "metadata": {}, "settings": {}})
}

pub fn noop(id: &str) -> Value {
    single(id, "core.noop", json!({}))
}

pub fn delay(id: &str, ms: u64) -> Value {
    single(id, "core.delay", json!({"ms": ms}))
}

pub fn approval(id: &str) -> Value {
    single(id, "core.approvalGate", json!({"title": "go on?", "actions": ["accept", "reject"]}))
}

/// A workflow of one call.
pub fn tool(id: &str, tool: &str, input: &Value) -> Value {
    let ports: Value = input
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, value)| (name.clone(), json!({"type": "static", "value": value})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    workflow(
        id,
        &[json!({"id": "call", "typeId": "core.tool", "name": "n",
        "config": {"tool": tool}, "position": {"x": 0, "y": 0}, "inputs": ports})],
    )
}

impl Bench {
    pub fn new(workflows: &[Value]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Home::create(&dir.path().join("home"), &SystemClock).unwrap();
        std::fs::create_dir(dir.path().join("workflows")).unwrap();
        for one in workflows {
            let name = format!("{}.json", one["id"].as_str().unwrap());
            std::fs::write(dir.path().join("workflows").join(name), one.to_string()).unwrap();
        }
        Bench { dir }
    }

    fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn host(&self) -> Host {
        let handlers = handlers(&Home::open(&self.home()).unwrap().config.actions).unwrap();
        self.host_of(&handlers)
    }

    fn host_of(&self, handlers: &Handlers) -> Host {
        let home = Home::open(&self.home()).unwrap();
        Host::start_with(home, handlers, Arc::new(SystemClock), Backends::default()).unwrap()
    }

    /// A tool of this home.
    pub fn declare(&self, id: &str, declaration: &Value) {
        let name = format!("{id}.json");
        std::fs::write(self.home().join("tools").join(name), declaration.to_string()).unwrap();
    }

    pub fn engine(&self) -> Engine {
        self.engine_with(Settings::default())
    }

    pub fn engine_with(&self, settings: Settings) -> Engine {
        self.started(self.host(), settings)
    }

    /// One whose home has tools of the test.
    pub fn engine_of(&self, handlers: &Handlers, settings: Settings) -> Engine {
        self.started(self.host_of(handlers), settings)
    }

    fn started(&self, host: Host, settings: Settings) -> Engine {
        let directory = [self.dir.path().join("workflows")];
        let tool = |action: &str| format!("action.{}", action.replace('_', "-"));
        let library = Library::load(&directory, &[], &tool).unwrap();
        assert!(library.broken().is_empty(), "{:?}", library.broken());
        Engine::start(Arc::new(host), library, settings).unwrap()
    }

    pub fn begin(&self, workflow: &str) -> Begin {
        Begin::new(workflow, "t", AGENT.parse().unwrap())
    }

    pub fn grant(&self, capability: &str) {
        let command = IssueCommand {
            capability: capability.parse().unwrap(),
            to: Grantee::from(AGENT.parse::<Principal>().unwrap()),
            by: "human:ann".parse().unwrap(),
            scope: Scope::parse(["**"]).unwrap(),
            expires_at: SystemClock.now().plus_millis(3_600_000),
            delegable: false,
        };
        self.host().issue_grant(command).unwrap();
    }

    pub fn size(&self) -> u64 {
        Home::open(&self.home()).unwrap().store.head().unwrap().size
    }

    pub fn verify(&self) {
        let home = Home::open_for_inspection(&self.home()).unwrap();
        verify_home(&home, &[], |_| {}).unwrap();
    }

    /// Files of the home that hold one of these texts.
    pub fn holding(&self, texts: &[&str]) -> Vec<String> {
        let mut found = Vec::new();
        let mut left = vec![self.home()];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let Ok(bytes) = std::fs::read(&path) else { continue };
            let holds = |text: &&str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
            if texts.iter().any(holds) {
                found.push(path.display().to_string());
            }
        }
        found
    }

    /// Waits until something is there.
    pub fn until<T>(&self, look: impl Fn() -> Option<T>) -> T {
        for _ in 0..3000 {
            if let Some(found) = look() {
                return found;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it never came")
    }

    pub fn wait(&self, engine: &Engine, run: &RunId) -> Status {
        self.until(|| {
            let status = engine.view(run).unwrap().state.status();
            status.is_terminal().then_some(status)
        })
    }
}

pub fn types(engine: &Engine, run: &RunId) -> Vec<String> {
    let events = engine.events(run, 0).unwrap();
    let name = |event: &Arc<countersign_flow::RunEvent>| {
        let value = serde_json::to_value(&**event).unwrap();
        value["type"].as_str().unwrap().to_owned()
    };
    events.iter().map(name).collect()
}
