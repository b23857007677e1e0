//! A home and a workspace of their own, and the binary run on them.
#![allow(dead_code, reason = "every test file uses a part of this")]

pub(crate) mod boxes;
pub(crate) mod desk;
pub(crate) mod repositories;
pub(crate) mod terminal;
pub(crate) mod tools;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_countersign");

/// A temporary directory with `home/` and `ws/`; commands run in `ws/`.
pub(crate) struct Bench {
    dir: TempDir,
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Output {
    /// The one JSON document on standard output.
    pub(crate) fn json(&self) -> Value {
        let parsed = serde_json::from_str(&self.stdout);
        parsed.unwrap_or_else(|error| panic!("{error}: not one JSON document: {self:#?}"))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// Asserts an error in JSON and gives it back.
    #[track_caller]
    pub(crate) fn fails(&self, exit: i32, code: &str) -> Value {
        assert_eq!(self.code, exit, "{self:#?}");
        let error = self.json()["error"].clone();
        assert_eq!(error["code"], code, "{self:#?}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
        error
    }
}

impl Bench {
    /// A fresh home.
    pub(crate) fn new() -> Self {
        let bench = Bench::bare();
        bench.run(&["init"]).ok();
        bench
    }

    /// A workspace without a home.
    pub(crate) fn bare() -> Self {
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("ws")).unwrap();
        Bench { dir }
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir().join("home")
    }

    pub(crate) fn ws(&self) -> PathBuf {
        self.dir().join("ws")
    }

    /// The binary, with nothing of this machine's environment that could matter.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = clean(Command::new(BIN));
        command.args(args).current_dir(self.ws()).env("COUNTERSIGN_HOME", self.home());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        output(&mut self.command(args))
    }

    /// As `run`, with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Output {
        let mut all = vec!["--json"];
        all.extend_from_slice(args);
        self.run(&all)
    }

    pub(crate) fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A process that refuses early may close the pipe before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        collect(child.wait_with_output().unwrap())
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.ws().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.ws().join(path)).unwrap()
    }

    /// Grants capabilities on everything in the workspace or, for state, on every key.
    pub(crate) fn grant(&self, to: &str, capabilities: &str) -> Vec<String> {
        let scope = if capabilities.contains("state.") { "**" } else { "./**" };
        let args = ["grant", "issue", "--to", to, "--capability", capabilities, "--scope", scope];
        let granted = self.json(&args).ok().json();
        let ids = granted.as_array().unwrap().iter();
        ids.map(|grant| grant["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Calls a tool as `agent:a` beneath the workspace.
    pub(crate) fn call(&self, tool: &str, input: &Value) -> Output {
        let input = input.to_string();
        self.json(&["call", tool, "--as", "agent:a", "--root", ".", "--input", &input])
    }

    pub(crate) fn verify(&self) -> Value {
        self.json(&["audit", "verify"]).ok().json()
    }

    pub(crate) fn stats(&self) -> Value {
        self.json(&["stats"]).ok().json()
    }

    /// Writes a declaration into the home's `tools/`.
    pub(crate) fn declare(&self, file: &str, declaration: &Value) {
        fs::write(self.home().join("tools").join(file), declaration.to_string()).unwrap();
    }

    /// The declaration of a built-in, to be varied.
    pub(crate) fn declaration(&self, tool: &str) -> Value {
        let path = self.home().join("tools").join(format!("{tool}.json"));
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }
}

pub(crate) fn clean(mut command: Command) -> Command {
    for name in ["COUNTERSIGN_HOME", "COUNTERSIGN_AS", "COUNTERSIGN_LOG", "NO_COLOR"] {
        command.env_remove(name);
    }
    for name in ["COUNTERSIGN_KEY", "COUNTERSIGN_KEY_FILE"] {
        command.env_remove(name);
    }
    for name in ["CLICOLOR_FORCE", "CLICOLOR", "LOGNAME"] {
        command.env_remove(name);
    }
    command.env("USER", "tester");
    command
}

pub(crate) fn output(command: &mut Command) -> Output {
    collect(command.stdin(Stdio::null()).output().unwrap())
}

pub(crate) fn collect(output: std::process::Output) -> Output {
    Output {
        // A signal has no code; no command of ours exits with this one.
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Every path below `root`, with its content, link target or nothing.
pub(crate) fn tree(root: &Path) -> std::collections::BTreeMap<String, String> {
    let mut found = std::collections::BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if kind.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                found.insert(name, format!("-> {}", target.display()));
            } else if kind.is_dir() {
                found.insert(format!("{name}/"), String::new());
                open.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap();
                found.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            } else {
                found.insert(name, "special".to_owned());
            }
        }
    }
    found
}
