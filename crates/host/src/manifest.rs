//! A workspace as it stands: every entry with the marks by which a change is noticed.
//!
//! Contents are not read: a workspace may be large, and whoever changes a file moves its change
//! time, which nobody can set. Two changes within one tick of the file system's clock look like
//! one, so a manifest waits until what changed last is older than that.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use countersign_model::digest::Hasher;
use countersign_model::{Digest, Failure};
use countersign_sandbox::staging::walk::{self, Entry, Kind};
use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};

use crate::path::RelPath;
use crate::root::{Root, shortage};

/// The most entries that a workspace may have.
const MOST_ENTRIES: u64 = 500_000;

/// About one tick of the clock that file systems take their times from.
const TICK: Duration = Duration::from_millis(5);

/// Where something changes all the time there is no use in waiting.
const MOST_TRIES: u32 = 4;

/// How a directory tree nests at most, so that a walk ends.
const DEEPEST: usize = 256;

/// Marks of one entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Type and permissions.
    mode: u32,
    inode: u64,
    size: i64,
    modified: (i64, u64),
    changed: (i64, u64),
}

impl Stamp {
    pub(crate) fn of(stat: &Stat) -> Self {
        Stamp {
            mode: stat.st_mode,
            inode: stat.st_ino,
            size: stat.st_size,
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// When it last changed, in nanoseconds since 1970.
    pub(crate) fn changed_at(&self) -> i128 {
        i128::from(self.changed.0) * 1_000_000_000 + i128::from(self.changed.1)
    }

    /// Still the same thing with the same permissions, whatever became of what it holds.
    pub(crate) fn is_same_place(&self, other: &Stamp) -> bool {
        (self.mode, self.inode) == (other.mode, other.inode)
    }

    fn hash(&self, hasher: &mut Hasher) {
        hasher.update(&self.mode.to_be_bytes());
        hasher.update(&self.inode.to_be_bytes());
        hasher.update(&self.size.to_be_bytes());
        for (seconds, nanos) in [self.modified, self.changed] {
            hasher.update(&seconds.to_be_bytes());
            hasher.update(&nanos.to_be_bytes());
        }
    }
}

/// All of a workspace at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    /// By path, as bytes: names need not be text as long as nobody changes them.
    stamps: HashMap<Box<[u8]>, Stamp>,
    digest: Digest,
    /// What is marked with this or more may have changed again without another mark.
    settled: i128,
}

impl Manifest {
    pub(crate) fn take(root: &Root) -> Result<Self, Failure> {
        let settled = file_clock();
        let mut survey =
            Survey { root, left: MOST_ENTRIES, stamps: HashMap::new(), hasher: Hasher::default() };
        survey.directory(root.directory(), &[], 0)?;
        Ok(Manifest { stamps: survey.stamps, digest: survey.hasher.finish(), settled })
    }

    /// Takes a manifest from which every later change can be told.
    pub(crate) fn take_settled(root: &Root) -> Result<Self, Failure> {
        let mut tries = 1;
        loop {
            let manifest = Self::take(root)?;
            let is_settled = manifest.stamps.values().all(|stamp| manifest.is_settled(stamp));
            if is_settled || tries == MOST_TRIES {
                return Ok(manifest);
            }
            std::thread::sleep(TICK);
            tries += 1;
        }
    }

    fn is_settled(&self, stamp: &Stamp) -> bool {
        stamp.changed_at() < self.settled
    }

    /// Whether what stands at a path now is what stood there then.
    pub(crate) fn check(&self, path: &RelPath, now: Option<&Entry>) -> Result<(), Failure> {
        let now = now.map(|entry| Stamp::of(&entry.stat));
        if self.is_still(path, now.as_ref()) { Ok(()) } else { Err(conflict(path)) }
    }

    pub(crate) fn is_still(&self, path: &RelPath, now: Option<&Stamp>) -> bool {
        let then = self.get(path);
        then == now && then.is_none_or(|then| self.is_settled(then))
    }

    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> u64 {
        self.stamps.len() as u64
    }

    pub(crate) fn get(&self, path: &RelPath) -> Option<&Stamp> {
        self.stamps.get(path.as_str().as_bytes())
    }
}

pub(crate) fn conflict(path: &RelPath) -> Failure {
    Failure::state("CONFLICT", format!("`{path}` was changed meanwhile"))
        .hint("nothing was written; call again to work on the new content")
}

/// What a change made now would be marked with, in nanoseconds since 1970. Everything that is
/// marked with less is told apart from every change to come.
pub(crate) fn file_clock() -> i128 {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec)
}

struct Survey<'r> {
    root: &'r Root,
    left: u64,
    stamps: HashMap<Box<[u8]>, Stamp>,
    hasher: Hasher,
}

impl Survey<'_> {
    fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &[u8],
        depth: usize,
    ) -> Result<(), Failure> {
        let fail = |error| unreadable(path, error);
        let entries = walk::list(directory, self.left).map_err(fail)?.ok_or_else(too_large)?;
        self.left -= entries.len() as u64;
        for entry in entries {
            // No call sees the home or changes it; it has a life of its own.
            if entry.kind() == Kind::Directory && self.root.is_home(&entry) {
                continue;
            }
            let place = [path, if path.is_empty() { b"" } else { b"/" }, entry.name.to_bytes()];
            let place = place.concat();
            let stamp = Stamp::of(&entry.stat);
            self.hasher.update(&(place.len() as u64).to_be_bytes());
            self.hasher.update(&place);
            stamp.hash(&mut self.hasher);
            if entry.kind() == Kind::Directory {
                if depth >= DEEPEST {
                    return Err(too_large());
                }
                let inner = walk::open_directory(directory, &entry.name);
                let inner = inner.map_err(|error| unreadable(&place, error))?;
                self.directory(inner.as_fd(), &place, depth + 1)?;
            }
            self.stamps.insert(place.into(), stamp);
        }
        Ok(())
    }
}

fn too_large() -> Failure {
    let message = format!("the workspace has more than {MOST_ENTRIES} entries, or nests too deep");
    Failure::resource("WORKSPACE_TOO_LARGE", message)
        .hint("name a smaller directory as the root, such as the part that the tool works on")
}

fn unreadable(path: &[u8], error: rustix::io::Errno) -> Failure {
    if let Some(shortage) = shortage(error) {
        return shortage;
    }
    let path = String::from_utf8_lossy(path);
    let message = format!("`{}` in the workspace cannot be read: {error}", path.escape_debug());
    Failure::execution("FILE_FORBIDDEN", message)
        .hint("make everything beneath the root readable for this user")
}
