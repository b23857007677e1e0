//! Directory trees that strangers filled: measured, removed and copied without following a link,
//! without recursion and with few descriptors, whatever their shape.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use countersign_sandbox::{LimitKind, Limits};
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, Timestamps, fstat, futimens,
    mkdirat, openat, readlinkat, renameat, seek, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

/// How everything is called that is made beside files of others.
pub(crate) const PREFIX: &str = "countersign-wasm-";

/// Deeper than people nest, shallower than the descriptors of a process.
const MAX_DEPTH: usize = 128;

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::RDONLY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What a tree holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

/// Why a tree was not taken.
#[derive(Debug)]
pub(crate) enum TreeError {
    Limit(LimitKind),
    /// Neither file, directory nor link.
    Kind(String),
    Io(io::Error),
}

impl From<Errno> for TreeError {
    fn from(error: Errno) -> Self {
        TreeError::Io(error.into())
    }
}

impl From<io::Error> for TreeError {
    fn from(error: io::Error) -> Self {
        TreeError::Io(error)
    }
}

impl Size {
    /// Counts one more entry, up to the limits.
    fn add(&mut self, stat: &Stat, limits: &Limits) -> Result<(), TreeError> {
        self.inodes += 1;
        if self.inodes > limits.inodes {
            return Err(TreeError::Limit(LimitKind::Inodes));
        }
        if kind(stat) != FileType::RegularFile {
            return Ok(());
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > limits.file_size {
            return Err(TreeError::Limit(LimitKind::FileSize));
        }
        self.bytes = self.bytes.saturating_add(size);
        self.check(limits)
    }

    pub(crate) fn check(&self, limits: &Limits) -> Result<(), TreeError> {
        let fits = self.bytes <= limits.total_size;
        if fits { Ok(()) } else { Err(TreeError::Limit(LimitKind::TotalSize)) }
    }
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn stat_entry(directory: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Errno> {
    match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        // The guest is at work meanwhile.
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The names in a directory, without `.` and `..`.
fn names(directory: BorrowedFd<'_>) -> Result<Vec<CString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if ![c".", c".."].contains(&entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

/// Reads through the descriptor itself: this is asked after every call.
pub(crate) fn is_empty(directory: BorrowedFd<'_>) -> Result<bool, Errno> {
    let mut buffer = [MaybeUninit::uninit(); 1024];
    seek(directory, SeekFrom::Start(0))?;
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        if ![c".", c".."].contains(&entry?.file_name()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Adds what a directory holds to `size`, and stops at the first limit.
pub(crate) fn measure(
    directory: BorrowedFd<'_>,
    limits: &Limits,
    size: &mut Size,
) -> Result<(), TreeError> {
    let mut open = vec![Level::read(openat(directory, c".", DIRECTORY, Mode::empty())?)?];
    while let Some(level) = open.last_mut() {
        let Some(name) = level.names.pop() else {
            open.pop();
            continue;
        };
        let Some(stat) = stat_entry(level.directory.as_fd(), &name)? else { continue };
        size.add(&stat, limits)?;
        if kind(&stat) != FileType::Directory {
            continue;
        }
        match openat(&level.directory, &name, DIRECTORY, Mode::empty()) {
            Ok(below) => open.push(Level::read(below)?),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(error) => return Err(error.into()),
        }
        check_depth(open.len())?;
    }
    Ok(())
}

fn check_depth(depth: usize) -> Result<(), TreeError> {
    // So deep a tree exists only to wear out whoever walks it.
    if depth > MAX_DEPTH { Err(TreeError::Limit(LimitKind::Inodes)) } else { Ok(()) }
}

struct Level {
    directory: OwnedFd,
    names: Vec<CString>,
}

impl Level {
    fn read(directory: OwnedFd) -> Result<Self, Errno> {
        let names = names(directory.as_fd())?;
        Ok(Level { directory, names })
    }
}

/// Removes `name` in `parent` and everything beneath it. What is nested too deeply is moved up
/// and removed from there.
pub(crate) fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let mut todo = vec![name.to_owned()];
    let mut moved = 0;
    while let Some(name) = todo.pop() {
        match unlinkat(parent, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => remove_directory(parent, name, &mut todo, &mut moved)?,
        }
    }
    Ok(())
}

fn remove_directory(
    parent: BorrowedFd<'_>,
    name: CString,
    todo: &mut Vec<CString>,
    moved: &mut u64,
) -> io::Result<()> {
    let mut open = vec![(Level::read(open_to_remove(parent, &name)?)?, name)];
    loop {
        let depth = open.len();
        let Some((level, _)) = open.last_mut() else { return Ok(()) };
        let Some(entry) = level.names.pop() else {
            let Some((_, name)) = open.pop() else { return Ok(()) };
            let above = open.last().map_or(parent, |(level, _)| level.directory.as_fd());
            unlinkat(above, &name, AtFlags::REMOVEDIR)?;
            continue;
        };
        if unlinkat(&level.directory, &entry, AtFlags::empty()).is_ok() {
            continue;
        }
        if depth < MAX_DEPTH {
            let below = open_to_remove(level.directory.as_fd(), &entry)?;
            open.push((Level::read(below)?, entry));
            continue;
        }
        let deep = free_name(moved)?;
        renameat(&level.directory, &entry, parent, &deep)?;
        todo.push(deep);
    }
}

/// Nobody uses the tree any more, so that what forbids it to be removed can go.
fn open_to_remove(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let directory = match openat(parent, name, DIRECTORY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(parent, name, Mode::RWXU, AtFlags::empty())?;
            openat(parent, name, DIRECTORY, Mode::empty())?
        }
        opened => opened?,
    };
    rustix::fs::fchmod(&directory, Mode::RWXU)?;
    Ok(directory)
}

/// A name that is recognised when this process dies before it is done.
fn free_name(moved: &mut u64) -> io::Result<CString> {
    *moved += 1;
    let thread = rustix::thread::gettid().as_raw_nonzero();
    Ok(CString::new(format!("{PREFIX}deep-{thread}-{moved}"))?)
}

/// Copies a tree, with modes, links and times. What it holds counts against the limits.
pub(crate) fn copy(
    source: BorrowedFd<'_>,
    target: BorrowedFd<'_>,
    limits: &Limits,
) -> Result<Size, TreeError> {
    let mut size = Size::default();
    let from = Level::read(openat(source, c".", DIRECTORY, Mode::empty())?)?;
    let to = openat(target, c".", DIRECTORY, Mode::empty())?;
    let mut open = vec![(from, to)];
    while let Some((from, to)) = open.last_mut() {
        let Some(name) = from.names.pop() else {
            if let Some((from, to)) = open.pop() {
                copy_attributes(from.directory.as_fd(), to.as_fd())?;
            }
            continue;
        };
        let Some(stat) = stat_entry(from.directory.as_fd(), &name)? else { continue };
        size.add(&stat, limits)?;
        match kind(&stat) {
            FileType::Directory => {
                let below = openat(&from.directory, &name, DIRECTORY, Mode::empty())?;
                mkdirat(&*to, &name, Mode::RWXU)?;
                let made = openat(&*to, &name, DIRECTORY, Mode::empty())?;
                open.push((Level::read(below)?, made));
                check_depth(open.len())?;
            }
            FileType::Symlink => {
                let link = readlinkat(&from.directory, &name, Vec::new())?;
                symlinkat(&link, &*to, &name)?;
            }
            FileType::RegularFile => copy_file(from.directory.as_fd(), to.as_fd(), &name, limits)?,
            _ => return Err(TreeError::Kind(name.to_string_lossy().into_owned())),
        }
    }
    Ok(size)
}

fn copy_file(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &CStr,
    limits: &Limits,
) -> Result<(), TreeError> {
    // Not to wait for the other end, should a pipe have taken the file's place.
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let source = File::from(openat(from, name, read, Mode::empty())?);
    let mut target = File::from(openat(to, name, write, Mode::RUSR | Mode::WUSR)?);
    if !source.metadata()?.is_file() {
        return Err(TreeError::Kind(name.to_string_lossy().into_owned()));
    }
    // It may grow while it is copied.
    let most = limits.file_size.saturating_add(1);
    let copied = io::copy(&mut io::Read::take(&source, most), &mut target)?;
    if copied > limits.file_size {
        return Err(TreeError::Limit(LimitKind::FileSize));
    }
    copy_attributes(source.as_fd(), target.as_fd())
}

/// Permission bits without the special ones, and times.
fn copy_attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), TreeError> {
    let stat = fstat(from)?;
    rustix::fs::fchmod(to, Mode::from_raw_mode(stat.st_mode & 0o777))?;
    let time = |seconds, nanos: u64| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanos).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    Ok(futimens(to, &times)?)
}
