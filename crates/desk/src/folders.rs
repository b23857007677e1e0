//! The folders of a home that documents pass through. Every file is whole or absent, and nothing
//! that is there is ever written over.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use countersign_host::Clock;
use countersign_host::SystemClock;
use countersign_model::Failure;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folder {
    /// Not approved.
    Drafts,
    /// Approved, and promoted by people.
    Requests,
    /// As emitted, before judgement.
    Results,
    /// Accepted results.
    Inbound,
    /// Rejected documents, with the reasons beside them.
    Quarantine,
}

impl Folder {
    pub const ALL: [Folder; 5] =
        [Folder::Drafts, Folder::Requests, Folder::Results, Folder::Inbound, Folder::Quarantine];

    const fn name(self) -> &'static str {
        match self {
            Folder::Drafts => "drafts",
            Folder::Requests => "requests",
            Folder::Results => "results",
            Folder::Inbound => "core/inbound",
            Folder::Quarantine => "quarantine",
        }
    }

    pub fn of(self, home: &Path) -> PathBuf {
        home.join(self.name())
    }

    /// Homes that were made before there were documents lack them.
    pub fn make(self, home: &Path) -> Result<PathBuf, Failure> {
        let path = self.of(home);
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&path);
        made.map_err(|error| unwritable(&path, &error))?;
        Ok(path)
    }

    /// Waits until nobody else moves documents out of or into this folder. Ends with the value.
    pub(crate) fn lock(self, home: &Path) -> Result<File, Failure> {
        let path = self.make(home)?;
        let locked = File::open(&path).and_then(|folder| {
            flock(&folder, FlockOperation::LockExclusive)?;
            Ok(folder)
        });
        locked.map_err(|error| unwritable(&path, &error))
    }
}

/// Reads a file once, without following a link to it: what was read is all that counts.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| unreadable(path, &error))?;
    let found = file.metadata().map_err(|error| unreadable(path, &error))?;
    if !found.is_file() {
        return Err(unreadable(path, &io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    // One more than may be, so that whoever judges the bytes sees that there are too many.
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(path, &error))?;
    Ok(bytes)
}

/// Writes a file that is not there yet. The same file again is no mistake.
pub fn put(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    put_with(path, |file| Ok(file.write_all(bytes)?))
}

/// Why a file could not be written.
pub(crate) enum Trouble {
    Io(io::Error),
    Failure(Failure),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Trouble::Io(error)
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

pub(crate) fn put_with(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), Trouble>,
) -> Result<(), Failure> {
    let aside = aside(path);
    let written = write_aside(&aside, fill).and_then(|()| Ok(rename(&aside, path)?));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written.map_err(|trouble| match trouble {
        Trouble::Io(error) => unwritable(path, &error),
        Trouble::Failure(failure) => failure,
    })
}

fn write_aside(
    aside: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(aside)?;
    fill(&mut file)?;
    Ok(file.sync_all()?)
}

/// Names that begin with a dot are nobody's documents.
pub(crate) fn aside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    path.with_file_name(format!(".{name}.{}", SystemClock.new_id()))
}

/// Removes what was being written in a folder when its process ended. No document and no folder of
/// files has a name that begins with a dot.
pub(crate) fn sweep(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with('.');
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true if is_ours => drop(fs::remove_dir_all(entry.path())),
            false if is_ours => drop(fs::remove_file(entry.path())),
            _ => {}
        }
    }
}

/// Moves a file or a folder to a place where nothing is, durably.
pub(crate) fn move_to(from: &Path, to: &Path) -> Result<(), Failure> {
    rename(from, to).map_err(|error| unwritable(to, &error))
}

fn rename(from: &Path, to: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?;
    for path in [from, to] {
        // The parent of a bare name is spelt as nothing.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be read: {error}", path.display());
    Failure::validation("FILE_UNREADABLE", message).hint("name a file that is there")
}

pub(crate) fn unwritable(path: &Path, error: &io::Error) -> Failure {
    let message = format!("{} cannot be written: {error}", path.display());
    match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::validation("FILE_EXISTS", message)
            .hint("something else stands there; move it away, or take another id"),
        _ => Failure::resource("FILE_UNWRITABLE", message).hint("free some space, and try again"),
    }
}
