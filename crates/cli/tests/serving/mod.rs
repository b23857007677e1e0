//! The real host as a process of its own, and a small client for it.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::print_stdout, reason = "what is left out is said")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::Bench;

pub(crate) const ALL: &str = "runs:create,runs:read,runs:cancel,manifest:read,approvals:respond";

/// A host that listens; ended with its drop, the hard way.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) port: u16,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{self:?}"))
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.json()
    }
}

pub(crate) fn serve(bench: &Bench, more: &[&str]) -> Serving {
    let args = ["--json", "serve", "--listen", "127.0.0.1:0"];
    let mut command = bench.command(&[&args[..], more].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line:?}"));
    let port = told["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    Serving { child, port }
}

/// A key of `principal` for a tenant.
pub(crate) fn key(bench: &Bench, principal: &str, tenant: &str, scopes: &str) -> String {
    let _ = bench.run(&["principal", "add", principal, "--as", "human:ann"]);
    let args = ["key", "create", "--principal", principal, "--tenant", tenant, "--scope", scopes];
    let made = bench.json(&[&args[..], &["--as", "human:ann"]].concat()).ok().json();
    made["token"].as_str().unwrap().to_owned()
}

pub(crate) struct Client<'k> {
    pub(crate) port: u16,
    pub(crate) key: &'k str,
}

impl Client<'_> {
    /// Nothing if the host is gone.
    pub(crate) fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Option<Answer> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n",
            self.key
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let body = body.map(ToString::to_string);
        if let Some(body) = &body {
            let length = body.len();
            head.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {length}\r\n"
            ));
        }
        let whole = format!("{head}\r\n{}", body.unwrap_or_default());
        stream.write_all(whole.as_bytes()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        parse(&answer)
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.try_send(method, path, &[], body).unwrap()
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Answer {
        self.send("POST", path, Some(body))
    }

    pub(crate) fn start(&self, workflow: &str, inputs: &Value) -> String {
        let wanted = json!({"workflowId": workflow, "inputs": inputs});
        let begun = self.post("/v1/runs", &wanted).is(201);
        begun["runId"].as_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, run: &str) -> Value {
        self.get(&format!("/v1/runs/{run}")).is(200)
    }

    /// The snapshot as soon as it says so.
    pub(crate) fn until(&self, run: &str, is_so: impl Fn(&str) -> bool) -> Value {
        for _ in 0..1200 {
            let shown = self.run(run);
            if is_so(shown["status"].as_str().unwrap()) {
                return shown;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("{run} never came so far: {:#}", self.run(run))
    }

    pub(crate) fn events(&self, run: &str) -> Vec<Value> {
        let path = format!("/v1/runs/{run}/events/poll?timeout=1");
        self.get(&path).is(200)["events"].as_array().unwrap().clone()
    }
}

pub(crate) fn is_over(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

fn parse(answer: &[u8]) -> Option<Answer> {
    let text = String::from_utf8(answer.to_vec()).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let text = if chunked { unchunked(body)? } else { body.to_owned() };
    Some(Answer { status, head: head.to_owned(), text })
}

fn unchunked(mut body: &str) -> Option<String> {
    let mut whole = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        whole.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}

/// The published schemas and workflows, where they are.
pub(crate) fn shared() -> Option<PathBuf> {
    let given = std::env::var_os("COUNTERSIGN_SHARED").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let found = given.unwrap_or(beside).join("openwop");
    if found.is_dir() {
        return Some(found);
    }
    println!("skipped: the published schemas and workflows are not there");
    None
}

/// Puts every published workflow into the home.
pub(crate) fn fixtures(bench: &Bench) -> Option<PathBuf> {
    let shared = shared()?;
    let target = bench.home().join("workflows");
    fs::create_dir_all(&target).unwrap();
    for entry in fs::read_dir(shared.join("fixtures")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "json") {
            fs::copy(&path, target.join(path.file_name().unwrap())).unwrap();
        }
    }
    Some(shared)
}

pub(crate) fn workflow(bench: &Bench, id: &str, nodes: &[Value], edges: &[Value]) {
    let target = bench.home().join("workflows");
    fs::create_dir_all(&target).unwrap();
    let definition = json!({"id": id, "name": id, "version": "1", "nodes": nodes, "edges": edges,
        "variables": [], "triggers": [{"id": "t", "type": "manual"}], "metadata": {},
        "settings": {}});
    fs::write(target.join(format!("{id}.json")), definition.to_string()).unwrap();
}

pub(crate) fn node(id: &str, type_id: &str, config: &Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}})
}
