//! A place for a rehearsal: the worktree of a run as a call found it, laid out anew.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use countersign_model::{Failure, Work, Workspace};
use countersign_repository::{Leash, Program, Repository, Worktree};
use rustix::fs::{FlockOperation, flock};

use crate::host::Host;
use crate::work::{RunDirectory, WorkPlace, object};

/// How such places are called, and before they are ready.
const PREFIX: &str = "again-";
const UNREADY: &str = ".again-";

/// A directory that is gone when this is.
#[derive(Debug)]
pub(super) struct Fresh {
    path: PathBuf,
    /// As long as it is held, its owner lives.
    _held: File,
}

impl Fresh {
    /// Where what a tool keeps goes.
    pub(super) fn blobs(&self) -> PathBuf {
        self.path.join("blobs")
    }

    fn work(&self) -> PathBuf {
        self.path.join("work")
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next one.
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Host {
    /// A new directory of our own beneath the home's staging.
    pub(super) fn fresh(&self) -> Result<Fresh, Failure> {
        let staging = self.home.staging();
        sweep(&staging);
        let make = || -> io::Result<Fresh> {
            let id = self.clock.new_id();
            // Held before it has its name, so that nobody takes it for a leftover.
            let unready = staging.join(format!("{UNREADY}{id}"));
            DirBuilder::new().mode(0o700).create(&unready)?;
            let held = File::open(&unready)?;
            flock(&held, FlockOperation::NonBlockingLockExclusive)?;
            let path = staging.join(format!("{PREFIX}{id}"));
            fs::rename(&unready, &path)?;
            let fresh = Fresh { path, _held: held };
            DirBuilder::new().mode(0o700).create(fresh.blobs())?;
            Ok(fresh)
        };
        make().map_err(|error| {
            Failure::resource("REPLAY_NO_PLACE", format!("there is no place to work: {error}"))
                .hint("free some space, and try again")
        })
    }

    /// Lays out what a call found, from what the run's worktree remembers. That worktree itself is
    /// only read.
    pub(super) fn lay_out(
        &self,
        fresh: &Fresh,
        workspace: Workspace,
        work: &Work,
        leash: &mut Leash<'_>,
    ) -> Result<WorkPlace, Failure> {
        let program = Program::find()?;
        let remembers = self.home.worktree(&work.workspace, &work.run).path().join("repo.git");
        let repository = Repository::open(&program, &remembers, leash)?;
        let (base, tree) = (object(&work.base)?, object(&work.tree)?);
        let directory = RunDirectory::new(fresh.work());
        let worktree = Worktree::create(directory.path(), &repository, &base, leash)?;
        worktree.restore(&tree, leash)?;
        // Without an index every file is read: what was laid out is what was recorded, or is not.
        let _ = fs::remove_file(directory.path().join("repo.git/index"));
        let found = worktree.state(leash)?;
        if found != tree {
            let message = format!("what was laid out is {found}, not {tree}");
            return Err(Failure::state("REPLAY_TREE_DIFFERS", message)
                .hint("the repository may be damaged: run `git fsck` there"));
        }
        Ok(WorkPlace::new(workspace, work.clone(), directory, program))
    }
}

/// Removes what rehearsals left that were killed.
fn sweep(staging: &Path) {
    let Ok(entries) = fs::read_dir(staging) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_left = match name.to_str() {
            Some(name) if name.starts_with(PREFIX) => is_nobodys(&entry.path()),
            Some(name) if name.starts_with(UNREADY) => is_old(&entry),
            _ => false,
        };
        if is_left {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_nobodys(path: &Path) -> bool {
    File::open(path)
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
}

fn is_old(entry: &fs::DirEntry) -> bool {
    let changed = entry.metadata().and_then(|found| found.modified());
    let age = changed.ok().and_then(|at| SystemTime::now().duration_since(at).ok());
    age.is_some_and(|age| age > Duration::from_secs(600))
}
