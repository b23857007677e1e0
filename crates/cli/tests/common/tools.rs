//! Programs declared as tools, and calls of them.
#![allow(clippy::print_stdout, reason = "what is left out is said")]

use std::fs;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Bench, Output, collect};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// A declaration of a tool that is given nothing.
pub(crate) fn declaration(id: &str, runtime: &Value) -> Value {
    let anything = json!({"$schema": DIALECT, "type": "object", "properties": {}, "required": [],
        "additionalProperties": true, "$comment": "a test looks at it by itself"});
    json!({
        "id": id, "version": "1.0.0", "name": "A test", "description": "What a test needs",
        "inputSchema": anything, "outputSchema": anything, "requiredCapabilities": [],
        "resourceLimits": {"maxExecutionTime": 60_000, "maxMemory": 256 << 20},
        "deterministic": false, "idempotent": false, "runtime": runtime,
    })
}

impl Bench {
    /// A fresh home on a machine that can contain programs. `None`, and it is said, elsewhere.
    pub(crate) fn for_programs() -> Option<Self> {
        let bench = Bench::new();
        let doctor = bench.json(&["doctor"]).json();
        if doctor["levels"][2]["enforced"] == true {
            return Some(bench);
        }
        println!("skipped: programs cannot be contained here: {}", doctor["error"]["message"]);
        None
    }

    /// Declares a shell script as a tool, with the declaration edited.
    pub(crate) fn declare_script(&self, id: &str, script: &str, edit: impl FnOnce(&mut Value)) {
        let runtime =
            json!({"kind": "process", "command": ["sh", "/tool/main"], "files": "./files"});
        self.declare_folder(id, &runtime, &[("files/main", script.as_bytes())], edit);
    }

    /// The same with a workspace, which `agent:a` may read and change.
    pub(crate) fn declare_writer(&self, id: &str, script: &str, edit: impl FnOnce(&mut Value)) {
        self.declare_script(id, script, |declaration| {
            let all = ["filesystem.read", "filesystem.write", "filesystem.delete"];
            declaration["requiredCapabilities"] = json!(all);
            declaration["runtime"]["workspace"] = json!("write");
            edit(declaration);
        });
        self.grant("agent:a", "filesystem.read,filesystem.write,filesystem.delete");
    }

    /// Declares a module, written as text, as a tool.
    pub(crate) fn declare_module(&self, id: &str, text: &str, edit: impl FnOnce(&mut Value)) {
        self.declare_binary(id, &wat::parse_str(text).unwrap(), edit);
    }

    /// Declares bytes as a module.
    pub(crate) fn declare_binary(&self, id: &str, module: &[u8], edit: impl FnOnce(&mut Value)) {
        let runtime = json!({"kind": "wasm", "module": "main.wasm"});
        self.declare_folder(id, &runtime, &[("main.wasm", module)], edit);
    }

    fn declare_folder(
        &self,
        id: &str,
        runtime: &Value,
        files: &[(&str, &[u8])],
        edit: impl FnOnce(&mut Value),
    ) {
        let folder = self.home().join("tools").join(id);
        let mut declaration = declaration(id, runtime);
        edit(&mut declaration);
        for (name, content) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let file = folder.join("tool.json");
        fs::write(&file, declaration.to_string()).unwrap();
        self.run(&["tool", "lint", &file.display().to_string()]).ok();
    }

    /// `execution show last`, for people.
    pub(crate) fn told(&self) -> String {
        self.run(&["execution", "show", "last"]).ok().stdout
    }

    /// The facts of the last call.
    pub(crate) fn facts(&self) -> Vec<Value> {
        let shown = self.json(&["execution", "show", "last"]).ok().json();
        shown["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect()
    }

    /// The fact of this name in the last call.
    pub(crate) fn fact(&self, name: &str) -> Value {
        let facts = self.facts();
        let found = facts.iter().find_map(|fact| fact.get(name).cloned());
        found.unwrap_or_else(|| panic!("no {name}: {facts:#?}"))
    }

    /// Starts a call and waits until its tool runs.
    pub(crate) fn start_call(&self, tool: &str) -> Child {
        let args = ["--json", "call", tool, "--as", "agent:a", "--root", "."];
        let mut command = self.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        let list = ["execution", "list", "--state", "EXECUTING", "--tool", tool];
        while self.json(&list).ok().json().as_array().unwrap().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        child
    }
}

pub(crate) fn ended(child: Child) -> Output {
    collect(child.wait_with_output().unwrap())
}
