//! Reading a tree by descriptor, one component at a time and never through a link.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// NONBLOCK: a FIFO must not make us wait for its other end.
const FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// One name in a directory and what stands there.
#[derive(Debug, Clone)]
pub struct Entry {
    pub name: CString,
    pub stat: Stat,
}

/// What something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Link,
    /// How an overlay says that something was removed.
    Whiteout,
    /// Socket, FIFO or device.
    Other,
}

impl Entry {
    pub fn kind(&self) -> Kind {
        kind(&self.stat)
    }

    pub fn mode(&self) -> u32 {
        mode(&self.stat)
    }

    pub fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

pub fn kind(stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::CharacterDevice if stat.st_rdev == 0 => Kind::Whiteout,
        _ => Kind::Other,
    }
}

/// Permission bits only: setuid, setgid and sticky bits mean nothing here.
pub fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o777
}

/// What `name` is, if there is such a thing.
pub fn look(directory: impl AsFd, name: &CStr) -> Result<Option<Entry>, Errno> {
    match fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Entry { name: name.to_owned(), stat })),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Everything in a directory, sorted by name, unless it is more than `most`: then `None`.
pub fn list(directory: impl AsFd, most: u64) -> Result<Option<Vec<Entry>>, Errno> {
    let listing = fs::openat(&directory, c".", DIRECTORY, Mode::empty())?;
    let mut entries = Vec::new();
    for found in Dir::new(listing)? {
        let name = found?.file_name().to_owned();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() as u64 >= most {
            return Ok(None);
        }
        // What vanished meanwhile is not there; only an original can still move.
        entries.extend(look(&directory, &name)?);
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(entries))
}

pub fn open_directory(directory: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    fs::openat(directory, name, DIRECTORY, Mode::empty())
}

/// Opens a regular file.
pub fn open_file(directory: impl AsFd, name: &CStr) -> Result<File, Errno> {
    let file = fs::openat(directory, name, FILE, Mode::empty())?;
    match kind(&fs::fstat(&file)?) {
        Kind::File => Ok(File::from(file)),
        _ => Err(Errno::INVAL),
    }
}

/// Opens a regular file somewhere below `directory`.
pub fn open_beneath(directory: impl AsFd, path: &str) -> Result<File, Errno> {
    let mut at = open_directory(directory, c".")?;
    let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
    for part in parents.split('/').filter(|part| !part.is_empty()) {
        at = open_directory(&at, &c_name(part)?)?;
    }
    open_file(&at, &c_name(name)?)
}

fn c_name(part: &str) -> Result<CString, Errno> {
    // `..` is no name: nothing that was listed has it.
    if part == ".." {
        return Err(Errno::INVAL);
    }
    CString::new(part).map_err(|_| Errno::INVAL)
}

pub fn read_link(directory: impl AsFd, name: &CStr) -> Result<Vec<u8>, Errno> {
    Ok(fs::readlinkat(directory, name, Vec::new())?.into_bytes())
}

/// Gives ourselves the right to read what is ours, where the program took it away.
pub(super) fn make_readable(directory: impl AsFd, entry: &Entry) -> Result<(), Errno> {
    let wanted = if entry.kind() == Kind::Directory { 0o700 } else { 0o400 };
    if entry.mode() & wanted == wanted {
        return Ok(());
    }
    // It was just seen to be no link, and nobody is left who could make it one.
    let mode = Mode::from_raw_mode(entry.mode() | wanted);
    match fs::chmodat(directory, entry.name.as_c_str(), mode, AtFlags::empty()) {
        // Whoever may not change it may still be able to read it.
        Err(Errno::PERM) => Ok(()),
        changed => changed,
    }
}
