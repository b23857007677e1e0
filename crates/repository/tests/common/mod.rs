//! Real repositories, made by the tests with the installed git.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::print_stderr, reason = "whoever reads the log is told what was skipped")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use countersign_model::Failure;
use countersign_repository::{Leash, ObjectId, Program, Repository, Worktree};

pub(crate) fn leash() -> Leash<'static> {
    Leash::lasting(Duration::from_secs(60))
}

/// A user's repository with a checkout, and room for private worktrees beside it.
pub(crate) struct Fixture {
    room: tempfile::TempDir,
    pub(crate) program: Program,
}

impl Fixture {
    /// An empty repository; `None`, said aloud, where there is no git.
    pub(crate) fn new() -> Option<Self> {
        Self::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Option<Self> {
        let program = match Program::find() {
            Ok(program) => program,
            Err(missing) => {
                eprintln!("skipped: {missing}");
                return None;
            }
        };
        let fixture = Fixture { room: tempfile::tempdir().unwrap(), program };
        fs::create_dir(fixture.user()).unwrap();
        let mut init = vec!["init", "-q", "-b", "main"];
        init.extend(options);
        fixture.git(&init);
        Some(fixture)
    }

    pub(crate) fn room(&self) -> &Path {
        self.room.path()
    }

    /// The user's checkout.
    pub(crate) fn user(&self) -> PathBuf {
        self.room.path().join("user")
    }

    /// The user's own git, in the user's checkout.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.user(), arguments)
    }

    pub(crate) fn git_in(&self, directory: &Path, arguments: &[&str]) -> String {
        let out = self.command(directory, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "git {arguments:?}: {said}");
        String::from_utf8_lossy(&out.stdout).trim_end_matches('\n').to_owned()
    }

    pub(crate) fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program.path());
        command.args(arguments).current_dir(directory);
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "Ada").env(format!("GIT_{who}_EMAIL"), "a@b.c");
            command.env(format!("GIT_{who}_DATE"), "2026-01-02T03:04:05+00:00");
        }
        command
    }

    pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        put(&self.user(), path.as_bytes(), bytes.as_ref());
    }

    pub(crate) fn link(&self, path: &str, target: &str) {
        symlink(target, self.user().join(path)).unwrap();
    }

    pub(crate) fn executable(&self, path: &str) {
        let rights = fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.user().join(path), rights).unwrap();
    }

    /// Commits everything in the user's checkout.
    pub(crate) fn commit(&self, message: &str) -> ObjectId {
        self.git(&["add", "-A", "-f"]);
        self.git(&["commit", "-q", "--no-verify", "--allow-empty", "-m", message]);
        self.head()
    }

    pub(crate) fn head(&self) -> ObjectId {
        self.git(&["rev-parse", "HEAD"]).parse().unwrap()
    }

    pub(crate) fn id(&self, name: &str) -> ObjectId {
        self.git(&["rev-parse", name]).parse().unwrap()
    }

    pub(crate) fn open(&self) -> Repository {
        Repository::open(&self.program, &self.user(), &mut leash()).unwrap()
    }

    pub(crate) fn worktree(&self, name: &str) -> Worktree {
        self.try_worktree(name).unwrap()
    }

    pub(crate) fn try_worktree(&self, name: &str) -> Result<Worktree, Failure> {
        let (place, base) = (self.room().join(name), self.head());
        Worktree::create(&place, &self.open(), &base, &mut leash())
    }

    /// Everything that could show that somebody touched the user's repository.
    pub(crate) fn fingerprint(&self) -> Vec<String> {
        let mut all = Vec::new();
        look(&self.user(), &mut all);
        all.sort();
        all
    }
}

fn look(directory: &Path, all: &mut Vec<String>) {
    use std::os::unix::fs::MetadataExt as _;
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let m = fs::symlink_metadata(entry.path()).unwrap();
        let (inode, mode, size) = (m.ino(), m.mode(), m.size());
        let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        all.push(format!("{:?} {inode} {mode:o} {size} {times:?}", entry.path()));
        if m.is_dir() {
            look(&entry.path(), all);
        }
    }
}

/// Writes a file and the directories above it.
pub(crate) fn put(root: &Path, path: &[u8], bytes: &[u8]) {
    let path = root.join(OsStr::from_bytes(path));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    result.unwrap_err().code.into_owned()
}
