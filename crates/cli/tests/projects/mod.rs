//! Small real repositories, registered as the workspace `app`, and actions run on them.
#![allow(dead_code, reason = "every test file uses a part of this")]
#![allow(clippy::print_stdout, reason = "what is left out is said")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use countersign_model::Digest;
use serde_json::{Value, json};

use crate::common::{Bench, Output, tree};

const AGENT: &str = "agent:a";

/// A file that every suite tries to leave wherever it can write.
pub(crate) const LEFT_BEHIND: &str = "left-behind-by-the-suite";

/// A repository with one commit, and a home that knows it.
pub(crate) struct Project {
    pub(crate) bench: Bench,
    pub(crate) path: PathBuf,
}

/// What an action answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) exit: i32,
    pub(crate) envelope: Value,
}

impl Answer {
    pub(crate) fn of(output: &Output) -> Self {
        Answer { exit: output.code, envelope: output.json() }
    }

    #[track_caller]
    pub(crate) fn is(self, status: &str, exit: i32) -> Self {
        let found = (self.envelope["status"].as_str().unwrap(), self.exit);
        assert_eq!(found, (status, exit), "{:#}", self.envelope);
        self
    }

    #[track_caller]
    pub(crate) fn fails(self, status: &str, exit: i32, code: &str) -> Self {
        let answer = self.is(status, exit);
        assert_eq!(answer.envelope["error"]["code"], code, "{:#}", answer.envelope);
        answer
    }

    pub(crate) fn output(&self) -> &Value {
        &self.envelope["output"]
    }

    pub(crate) fn command(&self) -> &Value {
        let commands = self.output()["commands"].as_array().unwrap();
        assert_eq!(commands.len(), 1, "{:#}", self.envelope);
        &commands[0]
    }

    pub(crate) fn execution(&self) -> &str {
        self.envelope["execution_id"].as_str().unwrap()
    }

    pub(crate) fn message(&self) -> &str {
        self.envelope["error"]["message"].as_str().unwrap()
    }
}

/// Runs git as the owner of a repository would.
#[track_caller]
pub(crate) fn git(path: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(path).args(args);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Owner");
        command.env(format!("GIT_{who}_EMAIL"), "owner@example.org");
    }
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_SYSTEM", "/dev/null");
    let done = command.output().unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).trim_end().to_owned()
}

pub(crate) fn write_files(path: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
}

impl Project {
    /// `None`, and it is said, where programs cannot be contained.
    pub(crate) fn with_programs(files: &[(&str, &str)]) -> Option<Self> {
        Bench::for_programs().map(|bench| Project::on(bench, files))
    }

    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Project::on(Bench::new(), files)
    }

    fn on(bench: Bench, files: &[(&str, &str)]) -> Self {
        let path = bench.dir().join("app");
        fs::create_dir(&path).unwrap();
        git(&path, &["init", "-q", "-b", "main"]);
        write_files(&path, files);
        git(&path, &["add", "-A"]);
        git(&path, &["commit", "-qm", "first"]);
        let project = Project { bench, path };
        project.register();
        project
    }

    fn register(&self) {
        let path = self.path.display().to_string();
        self.bench.run(&["workspace", "add", "app", &path]).ok();
        let scope = format!("{path}/**");
        let all = "filesystem.read,filesystem.write,filesystem.delete";
        let grant = ["grant", "issue", "--to", AGENT, "--capability", all, "--scope", &scope];
        self.bench.run(&grant).ok();
    }

    /// The whole configuration of the home: every key is optional.
    pub(crate) fn configure(&self, toml: &str) {
        fs::write(self.bench.home().join("countersign.toml"), toml).unwrap();
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        git(&self.path, args)
    }

    /// The command line of an action of the agent.
    pub(crate) fn action(&self, name: &str, run: &str, input: &Value, more: &[&str]) -> Command {
        let input = input.to_string();
        let mut args = vec!["--json", "action", "run", name, "--workspace", "app", "--run", run];
        args.extend(["--as", AGENT, "--input", &input]);
        args.extend_from_slice(more);
        self.bench.command(&args)
    }

    pub(crate) fn act(&self, name: &str, run: &str, input: &Value, more: &[&str]) -> Answer {
        Answer::of(&crate::common::output(&mut self.action(name, run, input, more)))
    }

    pub(crate) fn tests(&self, run: &str, input: &Value) -> Answer {
        self.act("run_tests", run, input, &[])
    }

    pub(crate) fn lint(&self, run: &str, input: &Value) -> Answer {
        self.act("run_linters", run, input, &[])
    }

    pub(crate) fn put(&self, run: &str, name: &str, content: &[u8]) -> Answer {
        let args = ["--json", "artifact", "put", "-", "--workspace", "app", "--run", run];
        let args = [&args[..], &["--name", name, "--as", AGENT]].concat();
        Answer::of(&self.bench.run_with_input(&args, content))
    }

    /// Puts a patch into a run, and applies it.
    pub(crate) fn patch(&self, run: &str, patch: &[u8]) -> Answer {
        self.put(run, "change.patch", patch).is("success", 0);
        self.act("apply_patch", run, &json!({"patch": "change.patch"}), &[])
    }

    /// What git says differs when the owner makes these changes; the checkout stays as it was.
    pub(crate) fn diff_of(&self, change: impl FnOnce(&Path)) -> Vec<u8> {
        change(&self.path);
        self.git(&["add", "-A"]);
        let mut diff = Command::new("git");
        diff.arg("-C").arg(&self.path).args(["diff", "--cached", "--binary", "--no-color"]);
        let patch = diff.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap().stdout;
        self.git(&["reset", "-q", "--hard"]);
        assert!(!patch.is_empty());
        patch
    }

    /// Where the files of a run are.
    pub(crate) fn worktree(&self, run: &str) -> PathBuf {
        self.bench.home().join("state/worktrees/app").join(run).join("tree")
    }

    pub(crate) fn tree_of(&self, run: &str) -> String {
        let shown = self.bench.json(&["workspace", "show", "app", "--run", run]).ok().json();
        shown["runs"][0]["tree"].as_str().unwrap().to_owned()
    }

    pub(crate) fn commit(&self, run: &str, paths: &[&str], branch: Option<&str>) -> Command {
        let mut input =
            json!({"message": "Change", "paths": paths, "expected_tree": self.tree_of(run)});
        if let Some(branch) = branch {
            input["branch"] = json!(branch);
        }
        self.action("commit_changes", run, &input, &["--mode", "repo_write"])
    }

    /// The content of an artifact that an action left, checked against its record.
    pub(crate) fn artifact(&self, answer: &Answer, name: &str) -> Vec<u8> {
        let left = answer.envelope["artifacts"].as_array().unwrap();
        let found = left.iter().find(|artifact| artifact["name"] == name);
        let id = found.unwrap_or_else(|| panic!("no {name}: {:#}", answer.envelope));
        let id = id["artifact_id"].as_str().unwrap();
        let out = self.bench.dir().join(format!("artifact-{id}"));
        self.bench.run(&["artifact", "get", id, "--out", &out.display().to_string()]).ok();
        let bytes = fs::read(&out).unwrap();
        fs::remove_file(out).unwrap();
        bytes
    }

    pub(crate) fn report(&self, answer: &Answer, name: &str) -> Value {
        serde_json::from_slice(&self.artifact(answer, name)).unwrap()
    }

    /// The log of an action, which must be the one whose digest it told.
    #[track_caller]
    pub(crate) fn log(&self, answer: &Answer, name: &str) -> String {
        let bytes = self.artifact(answer, name);
        assert_eq!(answer.output()["log_sha256"], Digest::of(&bytes).to_string());
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Every byte of the owner's checkout and repository.
    pub(crate) fn owned(&self) -> BTreeMap<String, String> {
        tree(&self.path)
    }

    /// The worktree of a run holds what its base does, and nobody left anything anywhere.
    #[track_caller]
    pub(crate) fn nothing_left(&self, run: &str) {
        let is_file = |name: &String| !name.starts_with(".git/") && !name.ends_with('/');
        let wanted: BTreeMap<_, _> =
            self.owned().into_iter().filter(|(name, _)| is_file(name)).collect();
        let found: BTreeMap<_, _> =
            tree(&self.worktree(run)).into_iter().filter(|(name, _)| is_file(name)).collect();
        assert_eq!(found, wanted);
        let left: Vec<_> =
            tree(&self.bench.dir()).into_keys().filter(|n| n.contains(LEFT_BEHIND)).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!Path::new("/tmp").join(LEFT_BEHIND).exists());
    }
}

/// Command lines of living processes that hold a mark.
pub(crate) fn alive(mark: &str) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(mark)).collect()
}

/// Seconds to sleep that no other process sleeps: a mark that can be found.
pub(crate) fn mark() -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap();
    format!("86400.{}{}", now.as_nanos(), std::process::id())
}

/// Shows the toolchain to boxes. `None`, and it is said, where it lies where a box has its own.
pub(crate) fn rust_in_boxes() -> Option<String> {
    let told = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let sysroot = String::from_utf8(told.stdout).unwrap().trim().to_owned();
    if sysroot.is_empty() || sysroot.starts_with("/tmp") {
        println!("skipped: the Rust toolchain cannot be shown to a box: {sysroot:?}");
        return None;
    }
    Some(format!(
        "[sandbox]\nshow = [{sysroot:?}]\n\n[actions]\n\
         environment = {{ PATH = \"{sysroot}/bin:/usr/local/bin:/usr/bin:/bin\" }}\n"
    ))
}
