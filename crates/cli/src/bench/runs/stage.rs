//! A home with workflows, and the host as a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use countersign_model::Failure;
use serde_json::{Value, json};

use super::client::Client;
use super::{failed, text};

/// One node, which does nothing.
pub(super) const NOTHING: &str = "nothing";
/// So many nodes in a row.
pub(super) const ROW: &str = "row";
pub(super) const ROW_NODES: usize = 100;
/// A question, and then a row.
pub(super) const ASKS: &str = "asks";

const HUMAN: &str = "human:bench";

pub(super) struct Stage {
    home: PathBuf,
    pub(super) key: String,
}

/// Ended with its drop.
pub(super) struct Serving {
    child: Child,
    pub(super) port: u16,
    /// From the start of the program to its first answer.
    pub(super) started: Duration,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Stage {
    pub(super) fn new(dir: &Path, name: &str) -> Result<Self, Failure> {
        let home = dir.join(name);
        let mut stage = Stage { home, key: String::new() };
        stage.ask(&["init"])?;
        stage.ask(&["principal", "add", HUMAN, "--as", HUMAN])?;
        let scopes = "runs:create,runs:read,approvals:respond";
        let made = stage.ask(&[
            "key",
            "create",
            "--principal",
            HUMAN,
            "--tenant",
            "bench",
            "--scope",
            scopes,
            "--as",
            HUMAN,
        ])?;
        stage.key = text(&made, "token").to_owned();
        stage.workflow(NOTHING, &[node("a", "core.noop", &json!({}))])?;
        let row: Vec<_> =
            (0..ROW_NODES).map(|n| node(&format!("n{n}"), "core.noop", &json!({}))).collect();
        stage.workflow(ROW, &row)?;
        let gate = json!({"title": "go on?", "actions": ["accept", "reject"]});
        stage.workflow(ASKS, &[vec![node("gate", "core.approvalGate", &gate)], row].concat())?;
        Ok(stage)
    }

    /// What a command of our own program answers.
    fn ask(&self, args: &[&str]) -> Result<Value, Failure> {
        let output = self.command()?.args(args).output().map_err(|error| failed(&error))?;
        if !output.status.success() {
            return Err(failed(&String::from_utf8_lossy(&output.stdout)));
        }
        serde_json::from_slice(&output.stdout).map_err(|error| failed(&error))
    }

    fn command(&self) -> Result<Command, Failure> {
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut command = Command::new(program);
        command.arg("--json").arg("--home").arg(&self.home).stdin(Stdio::null());
        Ok(command)
    }

    /// Nodes one after the other.
    fn workflow(&self, id: &str, nodes: &[Value]) -> Result<(), Failure> {
        let names: Vec<_> = nodes.iter().map(|node| text(node, "id")).collect();
        let edges: Vec<_> = names
            .windows(2)
            .enumerate()
            .map(|(n, two)| json!({"id": format!("e{n}"), "sourceNodeId": two.first(), "targetNodeId": two.last()}))
            .collect();
        let definition = json!({"id": id, "name": id, "version": "1", "nodes": nodes,
            "edges": edges, "variables": [], "triggers": [{"id": "t", "type": "manual"}],
            "metadata": {}, "settings": {}});
        let dir = self.home.join("workflows");
        std::fs::create_dir_all(&dir).map_err(|error| failed(&error))?;
        let path = dir.join(format!("{id}.json"));
        std::fs::write(path, definition.to_string()).map_err(|error| failed(&error))
    }

    pub(super) fn serve(&self) -> Result<Serving, Failure> {
        let start = Instant::now();
        let mut command = self.command()?;
        command.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().map_err(|error| failed(&error))?;
        let mut line = String::new();
        if let Some(told) = child.stdout.as_mut() {
            BufReader::new(told).read_line(&mut line).map_err(|error| failed(&error))?;
        }
        let mut serving = Serving { child, port: 0, started: Duration::ZERO };
        serving.port = port(&line).ok_or_else(|| failed(&"the host did not start"))?;
        Client::new(serving.port, &self.key)?.get("/.well-known/openwop")?;
        serving.started = start.elapsed();
        Ok(serving)
    }
}

impl Serving {
    pub(super) fn client(&self, stage: &Stage) -> Result<Client, Failure> {
        Client::new(self.port, &stage.key)
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }
}

fn port(line: &str) -> Option<u16> {
    let told: Value = serde_json::from_str(line).ok()?;
    text(&told, "url").rsplit(':').next()?.parse().ok()
}

fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}})
}
