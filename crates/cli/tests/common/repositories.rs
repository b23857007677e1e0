//! Real repositories, workspaces on them, and actions run there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::{Bench, Output, tree};

/// Who works, unless a test is about who may.
pub(crate) const AGENT: &str = "agent:a";

/// Ten numbered lines: enough for changes that do not touch each other.
pub(crate) fn lines() -> String {
    (1..=10).map(|n| format!("line {n}\n")).collect()
}

/// A repository beside the workspace of the bench.
pub(crate) struct Repo {
    pub(crate) path: PathBuf,
}

impl Repo {
    pub(crate) fn path(&self) -> String {
        self.path.display().to_string()
    }

    /// Runs git there, as its owner would, and gives what it says.
    #[track_caller]
    pub(crate) fn git(&self, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.path).args(args);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(name);
        }
        command.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_SYSTEM", "/dev/null"),
            ("GIT_AUTHOR_NAME", "Owner"),
            ("GIT_AUTHOR_EMAIL", "owner@example.org"),
            ("GIT_COMMITTER_NAME", "Owner"),
            ("GIT_COMMITTER_EMAIL", "owner@example.org"),
        ]);
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "git {args:?}: {said}");
        String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn commit_all(&self, message: &str) -> String {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Everything that the owner sees: the checkout, the index, and where HEAD and branches stand.
    pub(crate) fn seen(&self) -> Vec<(String, String)> {
        let mut seen: Vec<_> = tree(&self.path)
            .into_iter()
            .filter(|(name, _)| !name.starts_with(".git/") || is_owners(name))
            .collect();
        let index = fs::read(self.path.join(".git/index")).unwrap();
        seen.push(("the index".to_owned(), format!("{index:?}")));
        seen
    }

    pub(crate) fn tip(&self, branch: &str) -> String {
        self.git(&["rev-parse", &format!("refs/heads/{branch}")])
    }

    pub(crate) fn count(&self, branch: &str) -> usize {
        self.git(&["rev-list", "--count", branch]).parse().unwrap()
    }
}

fn is_owners(name: &str) -> bool {
    [".git/HEAD", ".git/config", ".git/refs/heads/main", ".git/hooks/"]
        .iter()
        .any(|start| name.starts_with(start))
}

impl Bench {
    /// A home with one registered repository, `app`, on which the agent may do everything.
    pub(crate) fn with_app() -> (Self, Repo) {
        let bench = Bench::new();
        let repo = bench.repository("app");
        bench.add("app", &repo).ok();
        bench.grant_all(&repo);
        (bench, repo)
    }

    pub(crate) fn repository(&self, name: &str) -> Repo {
        let path = self.dir().join(name);
        fs::create_dir(&path).unwrap();
        let repo = Repo { path };
        repo.git(&["init", "-q", "-b", "main"]);
        repo.write("README.md", "# App\n");
        repo.write("src/lines.txt", lines());
        repo.commit_all("first");
        repo
    }

    pub(crate) fn add(&self, id: &str, repo: &Repo) -> Output {
        self.json(&["workspace", "add", id, &repo.path()])
    }

    pub(crate) fn grant_all(&self, repo: &Repo) {
        let scope = format!("{}/**", repo.path());
        let all = "filesystem.read,filesystem.write,filesystem.delete";
        let args = ["grant", "issue", "--to", AGENT, "--capability", all, "--scope", &scope];
        self.json(&args).ok();
    }

    /// An action of the agent, on `app`.
    pub(crate) fn act(&self, name: &str, run: &str, input: &Value, more: &[&str]) -> Output {
        let input = input.to_string();
        let mut args = vec!["action", "run", name, "--workspace", "app", "--run", run];
        args.extend(["--as", AGENT, "--input", &input]);
        args.extend_from_slice(more);
        self.json(&args)
    }

    pub(crate) fn put(&self, run: &str, name: &str, content: &str) -> Value {
        let args = ["--json", "artifact", "put", "-", "--workspace", "app", "--run", run];
        let args = [&args[..], &["--name", name, "--as", AGENT]].concat();
        self.run_with_input(&args, content.as_bytes()).ok().json()
    }

    /// Puts a patch into the run and applies it.
    pub(crate) fn patch(&self, run: &str, patch: &str) -> Output {
        self.put(run, "change.patch", patch);
        self.act("apply_patch", run, &json!({"patch": "change.patch"}), &[])
    }

    /// What `workspace show` says about one run.
    pub(crate) fn standing(&self, run: &str) -> Value {
        self.json(&["workspace", "show", "app", "--run", run]).ok().json()["runs"][0].clone()
    }

    /// The tree of a run as it stands.
    pub(crate) fn tree_of(&self, run: &str) -> String {
        self.standing(run)["tree"].as_str().unwrap().to_owned()
    }

    /// Commits paths of a run, as they stand.
    pub(crate) fn commit(&self, run: &str, paths: &[&str], more: &Value) -> Output {
        let mut input = json!({"message": "Change lines", "paths": paths,
            "expected_tree": self.tree_of(run)});
        for (name, value) in more.as_object().unwrap() {
            input[name] = value.clone();
        }
        self.act("commit_changes", run, &input, &["--mode", "repo_write"])
    }

    pub(crate) fn files_of(&self, run: &str) -> PathBuf {
        self.home().join("state/worktrees/app").join(run).join("tree")
    }
}

/// A diff that changes one of the ten lines.
pub(crate) fn changes_line(number: usize, to: &str) -> String {
    let line = |n: usize| format!("line {n}\n");
    let first = number.saturating_sub(3).max(1);
    let last = (number + 3).min(10);
    let count = last - first + 1;
    let mut hunk = format!("@@ -{first},{count} +{first},{count} @@\n");
    for n in first..=last {
        match n == number {
            true => hunk.push_str(&format!("-{}+{to}\n", line(n))),
            false => hunk.push_str(&format!(" {}", line(n))),
        }
    }
    format!(
        "diff --git a/src/lines.txt b/src/lines.txt\n--- a/src/lines.txt\n+++ b/src/lines.txt\n{hunk}"
    )
}

/// A diff that makes a file.
pub(crate) fn makes(path: &str, content: &str) -> String {
    let count = content.lines().count();
    let added: String = content.lines().map(|line| format!("+{line}\n")).collect();
    format!(
        "diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{count} @@\n{added}"
    )
}

/// Asserts how an action ended and gives its envelope.
#[track_caller]
pub(crate) fn ended(output: &Output, exit: i32, status: &str) -> Value {
    let envelope = output.json();
    assert_eq!(envelope["status"], status, "{envelope:#}");
    assert_eq!(output.code, exit, "{envelope:#}");
    envelope
}

/// The same for one that failed or was blocked, by its code.
#[track_caller]
pub(crate) fn stopped(output: &Output, exit: i32, status: &str, code: &str) -> Value {
    let envelope = ended(output, exit, status);
    assert_eq!(envelope["error"]["code"], code, "{envelope:#}");
    assert!(envelope["artifacts"].as_array().unwrap().is_empty(), "{envelope:#}");
    envelope["error"].clone()
}
