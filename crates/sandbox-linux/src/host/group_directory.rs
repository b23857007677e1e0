//! Directories of control groups, and whose they are.
//!
//! A directory is in use for as long as somebody holds the lock on it, and the kernel lets go of that
//! when a process ends, however it ends. The number of the process in the name is for people: hosts
//! in different containers can share a hierarchy and have the same number.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// What a group is for; its name says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Around a launcher and its boxes.
    Box,
    /// Where a host moved to, to have its own group empty.
    Host,
    /// To see whether groups can be made.
    Probe,
}

const KINDS: [Kind; 3] = [Kind::Box, Kind::Host, Kind::Probe];

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Kind::Box => "countersign-box-",
            Kind::Host => "countersign-host-",
            Kind::Probe => "countersign-probe-",
        }
    }

    pub(super) fn name(self, number: u32) -> String {
        format!("{}{}-{number}", self.prefix(), std::process::id())
    }

    fn of(name: &str) -> Option<Kind> {
        KINDS.into_iter().find(|kind| name.starts_with(kind.prefix()))
    }
}

/// How often the removal of a group is tried, and the pause between: the kernel may need a moment to
/// notice that its last process has ended.
const TRIES: u32 = 100;
const TRIES_FOR_OTHERS: u32 = 25;
const PAUSE: Duration = Duration::from_millis(2);

/// A group of ours. Dropped when no process is left in it, it goes.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    _lock: File,
}

impl Directory {
    pub(super) fn make(base: &Path, kind: Kind, number: u32) -> io::Result<Self> {
        let path = base.join(kind.name(number));
        loop {
            fs::create_dir(&path)?;
            match lock(&path, FlockOperation::LockExclusive) {
                Ok(Some(lock)) => return Ok(Directory { path, _lock: lock }),
                // Whoever cleans up was faster than our lock.
                Ok(None) => {}
                Err(error) => {
                    let _ = fs::remove_dir(&path);
                    return Err(error);
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        remove(&self.path, TRIES, || {});
    }
}

/// `None` if the directory is gone, or was replaced before it could be locked.
fn lock(path: &Path, operation: FlockOperation) -> io::Result<Option<File>> {
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let file = match File::open(path) {
        Err(error) if is_gone(&error) => return Ok(None),
        file => file?,
    };
    flock(&file, operation)?;
    match fs::metadata(path) {
        Err(error) if is_gone(&error) => Ok(None),
        there => Ok((there?.ino() == file.metadata()?.ino()).then_some(file)),
    }
}

fn remove(path: &Path, tries: u32, meanwhile: impl Fn()) -> bool {
    for _ in 0..tries {
        match fs::remove_dir(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => meanwhile(),
            removed => return removed.is_ok(),
        }
        thread::sleep(PAUSE);
    }
    false
}

/// Removes the groups of hosts that are gone, and ends what is still in them. Returns how many.
pub(super) fn remove_leftovers(base: &Path) -> usize {
    let groups = fs::read_dir(base).into_iter().flatten().flatten();
    let ours = groups
        .filter_map(|group| Some((Kind::of(&group.file_name().to_string_lossy())?, group.path())));
    ours.filter(|(kind, path)| {
        // Those in use are locked.
        let Ok(Some(_lock)) = lock(path, FlockOperation::NonBlockingLockExclusive) else {
            return false;
        };
        // Every box dies with its host; but what the kernel could not deliver, we can.
        remove(path, TRIES_FOR_OTHERS, || {
            if *kind == Kind::Box {
                end_everyone(path);
            }
        })
    })
    .count()
}

fn end_everyone(group: &Path) {
    // Version 2, since Linux 5.14.
    if fs::write(group.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for pid in members(group) {
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // The number could be somebody else's by now.
        if members(group).contains(&pid) {
            let _ = pidfd_send_signal(&process, Signal::KILL);
        }
    }
}

fn members(group: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(base: &Path) -> Vec<String> {
        let entries = fs::read_dir(base).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn only_what_nobody_holds_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mine = Directory::make(dir.path(), Kind::Box, 0).unwrap();
        let aside = Directory::make(dir.path(), Kind::Host, 0).unwrap();
        // Of a host in another container, whose process has a number that nobody has here, of one
        // that had ours, and of somebody who has nothing to do with us.
        let living = dir.path().join("countersign-box-999999999-0");
        fs::create_dir(&living).unwrap();
        let _held = lock(&living, FlockOperation::LockExclusive).unwrap().unwrap();
        for name in [Kind::Box.name(1), "countersign-probe-1-0".to_owned(), "other".to_owned()] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(remove_leftovers(dir.path()), 2);
        let mut left = vec![Kind::Box.name(0), Kind::Host.name(0)];
        left.extend(["countersign-box-999999999-0", "other"].map(str::to_owned));
        left.sort();
        assert_eq!(names(dir.path()), left);
        drop((mine, aside));
        assert_eq!(names(dir.path()), ["countersign-box-999999999-0", "other"]);
    }

    #[test]
    fn makers_and_cleaners_do_not_get_in_each_others_way() {
        let dir = tempfile::tempdir().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Acquire) {
                    remove_leftovers(dir.path());
                }
            });
            for number in 0..2000 {
                let made = Directory::make(dir.path(), Kind::Box, number).unwrap();
                assert!(made.path().is_dir(), "a group in use was removed");
            }
            is_over.store(true, std::sync::atomic::Ordering::Release);
        });
        assert_eq!(names(dir.path()), [] as [&str; 0]);
    }

    /// A process whose host is gone, as far as anybody can see.
    #[test]
    fn what_lives_in_an_abandoned_group_is_ended() {
        let layout = super::super::cgroup::Layout::detect();
        let Some(base) = layout.bases().first().map(|base| base.to_path_buf()) else { return };
        let path = base.join(Kind::Box.name(u32::MAX));
        fs::create_dir(&path).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        fs::write(path.join("cgroup.procs"), sleeper.id().to_string()).unwrap();
        remove_leftovers(&base);
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(sleeper.wait().unwrap().signal(), Some(9));
        remove_leftovers(&base);
        assert!(!path.exists());
    }
}
