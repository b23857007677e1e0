//! Files and directories that are whole or absent.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use countersign_model::Failure;
use rustix::fs::{CWD, RenameFlags, renameat_with};

static COUNT: AtomicU64 = AtomicU64::new(0);

/// A name beside `path` that nobody else uses.
pub(crate) fn beside(path: &Path) -> PathBuf {
    path.with_file_name(format!("{}{}", prefix(path), unique()))
}

fn prefix(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    format!(".{name}.new-")
}

fn unique() -> String {
    format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Something that is removed again, unless it is kept.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// A name for a file in a directory; the file does not exist yet.
    pub(crate) fn file(directory: &Path, name: &str) -> Self {
        Scratch { path: directory.join(format!("{name}-{}", unique())) }
    }

    /// A new, empty directory beside `path`, for this account alone.
    pub(crate) fn directory(path: &Path) -> Result<Self, Failure> {
        let scratch = Scratch { path: beside(path) };
        // What a process with the same number left when it died.
        remove_all(&scratch.path).map_err(|error| broken("clear", &scratch.path, &error))?;
        make_directory(&scratch.path)?;
        Ok(scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its place, where nothing may be yet.
    pub(crate) fn settle(self, path: &Path) -> Result<(), Failure> {
        renameat_with(CWD, &self.path, CWD, path, RenameFlags::NOREPLACE)
            .map_err(|error| broken("make", path, &error.into()))?;
        sync_parent(path)
    }

    /// Changes places with what is there, which is then removed.
    pub(crate) fn exchange(self, path: &Path) -> Result<(), Failure> {
        renameat_with(CWD, &self.path, CWD, path, RenameFlags::EXCHANGE)
            .map_err(|error| broken("replace", path, &error.into()))?;
        sync_parent(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = remove_all(&self.path);
        // An index leaves this beside it if git was stopped.
        let _ = fs::remove_file(self.path.with_added_extension("lock"));
    }
}

pub(crate) fn make_directory(path: &Path) -> Result<(), Failure> {
    let made = fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|error| broken("make", path, &error))
}

/// A new file, on disk when this returns.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| broken("write", path, &error))
}

/// A file that is as it was, or as it shall be.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let new = Scratch { path: beside(path) };
    write_new(new.path(), bytes)?;
    fs::rename(new.path(), path).map_err(|error| broken("replace", path, &error))?;
    sync_parent(path)
}

fn sync_parent(path: &Path) -> Result<(), Failure> {
    let parent = path.parent().unwrap_or(path);
    let synced = File::open(parent).and_then(|directory| directory.sync_all());
    synced.map_err(|error| broken("sync", parent, &error))
}

/// Removes whatever is there; a link is removed, not followed. Nothing there is fine.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.is_dir() {
        return fs::remove_file(path);
    }
    match fs::remove_dir_all(path) {
        // A program may have taken its own directories' rights away.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path)?;
            fs::remove_dir_all(path)
        }
        done => done,
    }
}

fn open_up(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}

/// What attempts to make `path` left behind when they died.
pub(crate) fn sweep(path: &Path) -> io::Result<()> {
    let prefix = prefix(path);
    let Some(Ok(entries)) = path.parent().map(fs::read_dir) else { return Ok(()) };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(&prefix) {
            remove_all(&entry.path())?;
        }
    }
    Ok(())
}

pub(crate) fn broken(what: &str, path: &Path, error: &io::Error) -> Failure {
    if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
        return Failure::resource("DISK_FULL", "the disk is full")
            .hint("make room, then do it again");
    }
    let message = format!("could not {what} `{}`: {error}", path.display());
    Failure::resource("FILES_FAILED", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_goes_away_unless_it_found_its_place() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("x");
        let scratch = Scratch::directory(&place).unwrap();
        fs::write(scratch.path().join("f"), "1").unwrap();
        drop(scratch);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

        Scratch::directory(&place).unwrap().settle(&place).unwrap();
        assert!(place.is_dir());
        let second = Scratch::directory(&place).unwrap();
        assert_eq!(second.settle(&place).unwrap_err().code, "FILES_FAILED");

        let other = Scratch::directory(&place).unwrap();
        fs::write(other.path().join("f"), "2").unwrap();
        other.exchange(&place).unwrap();
        assert_eq!(fs::read(place.join("f")).unwrap(), b"2");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn leftovers_of_one_name_are_swept_and_others_stay() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("x");
        for name in [".x.new-1-1", ".x.new-2-0", ".xy.new-1-1"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        sweep(&place).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
