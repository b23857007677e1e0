//! Where guests write: private directories on disk, given back clean or removed.
//!
//! Every host process has one directory of its own in the place it is given, and holds a lock on
//! it. A directory that nobody holds a lock on belongs to a host that is dead, and is removed by
//! the next one.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{
    FlockOperation, Mode, OFlags, Timespec, Timestamps, flock, fstat, futimens, mkdirat, open,
    openat, stat,
};
use rustix::io::Errno;

use crate::tree::{self, PREFIX};

const PLACE: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Clean directories kept for the next calls.
const KEEP: usize = 64;

/// The directory of this host process, locked as long as it lives.
#[derive(Debug)]
pub(crate) struct ScratchRoot {
    path: PathBuf,
    directory: OwnedFd,
    parent: OwnedFd,
    made: AtomicU64,
    clean: Mutex<Vec<Scratch>>,
}

/// The writable directories of one call.
#[derive(Debug)]
pub(crate) struct Scratch {
    name: String,
    pub(crate) out: OwnedFd,
    pub(crate) tmp: OwnedFd,
    pub(crate) workspace: Option<OwnedFd>,
}

impl ScratchRoot {
    pub(crate) fn make(place: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let parent = open(place, PLACE, Mode::empty())?;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let name =
                format!("{PREFIX}{}-{number}-{:x}", std::process::id(), now.tv_sec ^ now.tv_nsec);
            match mkdirat(&parent, &name, Mode::RWXU) {
                Ok(()) => {}
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            }
            let path = place.join(&name);
            let Ok(directory) = openat(&parent, &name, DIRECTORY, Mode::empty()) else { continue };
            flock(&directory, FlockOperation::LockExclusive)?;
            // Somebody who cleans up may have come between the making and the lock.
            if is_at(&directory, &path) {
                let (made, clean) = (AtomicU64::new(0), Mutex::default());
                return Ok(ScratchRoot { path, directory, parent, made, clean });
            }
        }
    }

    /// Empty directories: `out`, `tmp`, and `workspace` where one is wanted.
    pub(crate) fn take(&self, workspace: bool) -> io::Result<Scratch> {
        let kept = if workspace { None } else { self.kept().pop() };
        let scratch = match kept {
            Some(scratch) => scratch,
            None => self.make_scratch(workspace)?,
        };
        // Times are all that a guest could leave on an empty directory.
        forget_times(&scratch.out)?;
        forget_times(&scratch.tmp)?;
        Ok(scratch)
    }

    fn make_scratch(&self, workspace: bool) -> io::Result<Scratch> {
        let name = self.made.fetch_add(1, Ordering::Relaxed).to_string();
        mkdirat(&self.directory, &name, Mode::RWXU)?;
        let directory = openat(&self.directory, &name, DIRECTORY, Mode::empty())?;
        let make = |name: &str| -> io::Result<OwnedFd> {
            mkdirat(&directory, name, Mode::RWXU)?;
            Ok(openat(&directory, name, DIRECTORY, Mode::empty())?)
        };
        let (out, tmp) = (make("out")?, make("tmp")?);
        let workspace = if workspace { Some(make("workspace")?) } else { None };
        Ok(Scratch { name, out, tmp, workspace })
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Vec<Scratch>> {
        self.clean.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps directories that were found to be empty for the next call.
    fn keep(&self, scratch: Scratch) {
        let mut kept = self.kept();
        if kept.len() < KEEP {
            kept.push(scratch);
            return;
        }
        drop(kept);
        self.remove(scratch);
    }

    fn remove(&self, scratch: Scratch) {
        // What cannot be removed now is removed with the root, or by the next host.
        let _ = CString::new(scratch.name).map(|name| tree::remove(self.directory.as_fd(), &name));
    }
}

impl Drop for ScratchRoot {
    fn drop(&mut self) {
        self.kept().clear();
        if let Some(name) = self.path.file_name().and_then(|name| name.to_str()) {
            let _ = CString::new(name).map(|name| tree::remove(self.parent.as_fd(), &name));
        }
    }
}

impl Scratch {
    /// Whether nothing was written.
    pub(crate) fn is_clean(&self) -> bool {
        let empty = |directory: &OwnedFd| tree::is_empty(directory.as_fd()).unwrap_or(false);
        self.workspace.is_none() && empty(&self.out) && empty(&self.tmp)
    }

    pub(crate) fn written(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.out, &self.tmp].into_iter().chain(&self.workspace).map(AsFd::as_fd)
    }
}

/// Removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Borrowed {
    root: Arc<ScratchRoot>,
    scratch: Option<Scratch>,
}

impl Borrowed {
    pub(crate) fn new(root: Arc<ScratchRoot>, workspace: bool) -> io::Result<Self> {
        let scratch = Some(root.take(workspace)?);
        Ok(Borrowed { root, scratch })
    }

    pub(crate) fn get(&self) -> Option<&Scratch> {
        self.scratch.as_ref()
    }

    /// Gives directories back in which nothing was written.
    pub(crate) fn give_back_clean(mut self) {
        if let Some(scratch) = self.scratch.take() {
            self.root.keep(scratch);
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Some(scratch) = self.scratch.take() {
            self.root.remove(scratch);
        }
    }
}

fn forget_times(directory: &OwnedFd) -> io::Result<()> {
    let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
    Ok(futimens(directory, &Timestamps { last_access: zero, last_modification: zero })?)
}

fn is_at(directory: &OwnedFd, path: &Path) -> bool {
    match (fstat(directory), stat(path)) {
        (Ok(held), Ok(named)) => (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

/// Removes the directories of hosts that died in this place, and says how many there were.
pub fn clean_leftovers(place: &Path) -> io::Result<usize> {
    let parent = open(place, PLACE, Mode::empty())?;
    let mut removed = 0;
    for entry in std::fs::read_dir(place)? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let Ok(directory) = openat(&parent, name, DIRECTORY, Mode::empty()) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            tree::remove(parent.as_fd(), &CString::new(name)?)?;
            removed += 1;
        }
    }
    Ok(removed)
}
