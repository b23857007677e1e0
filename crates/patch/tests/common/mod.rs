//! A real repository beside the tree in memory: whatever git says is the yardstick.
#![allow(dead_code, reason = "no test uses all of it")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use countersign_patch::{
    Applied, ApplyError, ApplyOptions, Code, Entry, Kind, MemoryTree, Patch, ReadOptions, Rejected,
    apply,
};
use tempfile::TempDir;

pub(crate) fn git_is_missing() -> bool {
    let missing = Command::new("git").arg("--version").output().is_err();
    if missing {
        println!("skipped: git is not installed");
    }
    missing
}

pub(crate) fn patch(text: &[u8]) -> Patch<'_> {
    Patch::read(text, &ReadOptions::default()).unwrap_or_else(|refusal| panic!("{refusal}"))
}

pub(crate) fn refused(text: impl AsRef<[u8]>) -> Vec<Code> {
    match Patch::read(text.as_ref(), &ReadOptions::default()) {
        Ok(_) => Vec::new(),
        Err(refusal) => refusal.codes(),
    }
}

pub(crate) fn tree(files: &[(&str, &str)]) -> MemoryTree {
    let entries = files.iter().map(|(path, text)| ((*path).to_owned(), Entry::file(*text)));
    MemoryTree { entries: entries.collect(), ..MemoryTree::default() }
}

pub(crate) fn applied(
    text: impl AsRef<[u8]>,
    tree: &mut MemoryTree,
    options: &ApplyOptions,
) -> Applied {
    match apply(&patch(text.as_ref()), tree, options) {
        Ok(applied) => applied,
        Err(ApplyError::Rejected(rejected)) => panic!("{rejected}"),
        Err(ApplyError::Tree(never)) => match never {},
    }
}

pub(crate) fn rejected(
    text: impl AsRef<[u8]>,
    tree: &MemoryTree,
    options: &ApplyOptions,
) -> Rejected {
    match apply(&patch(text.as_ref()), &mut tree.clone(), options) {
        Ok(applied) => panic!("applied: {applied:?}"),
        Err(ApplyError::Rejected(rejected)) => rejected,
        Err(ApplyError::Tree(never)) => match never {},
    }
}

pub(crate) fn codes(rejected: &Rejected) -> Vec<Code> {
    rejected.rejections.iter().map(|rejection| rejection.code).collect()
}

pub(crate) fn reversed() -> ApplyOptions {
    ApplyOptions { reverse: true, ..ApplyOptions::default() }
}

/// A repository in a directory of its own, untouched by anybody's configuration.
pub(crate) struct Repository(TempDir);

impl Repository {
    pub(crate) fn new() -> Repository {
        let repository = Repository(tempfile::tempdir().unwrap());
        repository.git(&["init", "-q"]);
        repository
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command
            .current_dir(self.path())
            .args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"])
            .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "gc.auto=0"])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("LC_ALL", "C");
        command
    }

    pub(crate) fn git(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command(arguments).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {told}");
        output.stdout
    }

    /// Hands a patch to `git apply`.
    pub(crate) fn apply(&self, arguments: &[&str], patch: &[u8]) -> Output {
        let file = self.path().join(".git/test.patch");
        fs::write(&file, patch).unwrap();
        let mut all = vec!["apply", "--whitespace=nowarn"];
        all.extend(arguments);
        let mut command = self.command(&all);
        command.arg(&file).stdin(Stdio::null()).output().unwrap()
    }

    /// Makes the working directory hold exactly this.
    pub(crate) fn put(&self, entries: &BTreeMap<String, Entry>) {
        for entry in fs::read_dir(self.path()).unwrap().map(Result::unwrap) {
            let is_directory = entry.file_type().unwrap().is_dir();
            match entry.file_name().to_str() {
                Some(".git") => {}
                _ if is_directory => fs::remove_dir_all(entry.path()).unwrap(),
                _ => fs::remove_file(entry.path()).unwrap(),
            }
        }
        for (path, entry) in entries {
            self.put_one(path, entry);
        }
    }

    fn put_one(&self, path: &str, entry: &Entry) {
        let full = self.path().join(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        if entry.kind == Kind::Link {
            return symlink(String::from_utf8(entry.content.clone()).unwrap(), full).unwrap();
        }
        fs::write(&full, &entry.content).unwrap();
        let mode = if entry.kind == (Kind::File { executable: true }) { 0o755 } else { 0o644 };
        fs::set_permissions(&full, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    }

    /// What the working directory holds.
    pub(crate) fn entries(&self) -> BTreeMap<String, Entry> {
        let mut entries = BTreeMap::new();
        self.collect("", &mut entries);
        entries
    }

    fn collect(&self, below: &str, entries: &mut BTreeMap<String, Entry>) {
        for entry in fs::read_dir(self.path().join(below)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = if below.is_empty() { name } else { format!("{below}/{name}") };
            let metadata = fs::symlink_metadata(entry.path()).unwrap();
            if metadata.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                let content = target.to_str().unwrap().as_bytes().to_vec();
                entries.insert(path, Entry { kind: Kind::Link, content });
            } else if metadata.is_dir() {
                if path != ".git" {
                    self.collect(&path, entries);
                }
            } else {
                let executable = metadata.permissions().mode() & 0o100 != 0;
                let content = fs::read(entry.path()).unwrap();
                entries.insert(path, Entry { kind: Kind::File { executable }, content });
            }
        }
    }

    /// The diff between two trees, as git tells it.
    pub(crate) fn diff(
        &self,
        old: &BTreeMap<String, Entry>,
        new: &BTreeMap<String, Entry>,
        options: &[&str],
    ) -> Vec<u8> {
        self.put(old);
        self.commit();
        self.put(new);
        self.git(&["add", "-A"]);
        let mut arguments = vec!["diff", "--cached"];
        arguments.extend(options);
        self.git(&arguments)
    }
}
