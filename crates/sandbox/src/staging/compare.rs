//! A staged workspace compared with the original.

use std::collections::HashSet;
use std::ffi::CStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use countersign_model::Failure;
use rustix::fs::fgetxattr;
use rustix::io::Errno;

use super::names::{check_target, join};
use super::walk::{Entry, Kind, list, look, make_readable, open_directory, open_file, read_link};
use super::{Bounds, Change, Was, refused, too_large, too_many, unreadable};
use crate::backend::{StagedForm, StagedWorkspace};

const CHUNK: usize = 64 << 10;

/// Everything that the program changed, in the order in which it can be done: permissions of
/// directories that stay, removals with the deepest first, new directories, and then what is in them.
///
/// `same` is told of what is staged just as the original has it (nothing, for what is gone from
/// both). That is no change only if the original is still the one that was staged: otherwise two
/// programs that count from the same number would both be content.
pub fn scan_workspace(
    staged: &StagedWorkspace,
    original: impl AsFd,
    bounds: &Bounds,
    same: &mut Same<'_>,
) -> Result<Vec<Change>, Failure> {
    let mut scan = Scan::new(staged.form, bounds, same);
    let original = open_directory(original, c".").map_err(|error| unreadable(".", error))?;
    let complete = staged.form == StagedForm::Whole;
    scan.directory(staged.directory.as_fd(), Some(&original), complete, "")?;
    Ok(scan.finish())
}

/// Judges a path at which nothing seems to have changed.
pub type Same<'s> = dyn FnMut(&str, Option<&Entry>) -> Result<(), Failure> + 's;

struct Scan<'b, 's> {
    bounds: &'b Bounds,
    same: &'b mut Same<'s>,
    form: StagedForm,
    left: u64,
    original_left: u64,
    bytes: u64,
    changed: Vec<Change>,
    removed: Vec<Change>,
    made: Vec<Change>,
    written: Vec<Change>,
}

/// A directory on both sides of the comparison, and where it is.
#[derive(Clone, Copy)]
struct Pair<'a> {
    staged: BorrowedFd<'a>,
    original: Option<&'a OwnedFd>,
    /// What is not staged is gone. An upper layer says so of single directories.
    complete: bool,
}

impl<'b, 's> Scan<'b, 's> {
    fn new(form: StagedForm, bounds: &'b Bounds, same: &'b mut Same<'s>) -> Self {
        Scan {
            bounds,
            same,
            form,
            left: bounds.entries,
            original_left: bounds.original,
            bytes: 0,
            changed: Vec::new(),
            removed: Vec::new(),
            made: Vec::new(),
            written: Vec::new(),
        }
    }

    fn finish(self) -> Vec<Change> {
        let Scan { changed, removed, made, written, .. } = self;
        changed.into_iter().chain(removed).chain(made).chain(written).collect()
    }

    fn directory(
        &mut self,
        staged: BorrowedFd<'_>,
        original: Option<&OwnedFd>,
        complete: bool,
        path: &str,
    ) -> Result<(), Failure> {
        let entries = list(staged, self.left).map_err(|error| unreadable(path, error))?;
        let entries = entries.ok_or_else(|| too_many(self.bounds.entries))?;
        self.left -= entries.len() as u64;
        let pair = Pair { staged, original, complete };
        for entry in &entries {
            self.entry(pair, entry, &join(path, &entry.name)?)?;
        }
        match original.filter(|_| complete) {
            Some(original) => self.missing(original, &entries, path),
            None => Ok(()),
        }
    }

    fn entry(&mut self, pair: Pair<'_>, entry: &Entry, path: &str) -> Result<(), Failure> {
        let before = match pair.original {
            Some(original) => look(original, &entry.name).map_err(|e| unreadable(path, e))?,
            None => None,
        };
        match entry.kind() {
            Kind::Directory => self.one_directory(pair, entry, before, path),
            Kind::File => self.one_file(pair, entry, before, path),
            Kind::Link => self.one_link(pair, entry, before, path),
            Kind::Whiteout if self.form == StagedForm::Upper => match before {
                Some(_) => self.removed(pair.original, before, path),
                None => (self.same)(path, None),
            },
            Kind::Whiteout | Kind::Other => Err(refused(path, "is a socket, FIFO or device")),
        }
    }

    fn one_directory(
        &mut self,
        pair: Pair<'_>,
        entry: &Entry,
        before: Option<Entry>,
        path: &str,
    ) -> Result<(), Failure> {
        let fail = |error: Errno| unreadable(path, error);
        make_readable(pair.staged, entry).map_err(fail)?;
        let staged = open_directory(pair.staged, &entry.name).map_err(fail)?;
        let opaque = self.form == StagedForm::Upper && is_opaque(&staged, path)?;
        // Its owner keeps every right: otherwise nobody could publish what is inside.
        let mode = entry.mode() | 0o700;
        let path_owned = path.to_owned();
        match (pair.original, before) {
            (Some(original), Some(before)) if before.kind() == Kind::Directory => {
                if before.mode() != entry.mode() {
                    let (before, after) = (before.mode(), mode);
                    self.changed.push(Change::DirectoryChanged { path: path_owned, before, after });
                }
                let original = open_directory(original, &entry.name).map_err(fail)?;
                self.directory(staged.as_fd(), Some(&original), pair.complete || opaque, path)
            }
            (original, before) => {
                self.removed(original, before, path)?;
                self.made.push(Change::DirectoryMade { path: path_owned, mode });
                self.directory(staged.as_fd(), None, pair.complete, path)
            }
        }
    }

    fn one_file(
        &mut self,
        pair: Pair<'_>,
        entry: &Entry,
        before: Option<Entry>,
        path: &str,
    ) -> Result<(), Failure> {
        let fail = |error: Errno| unreadable(path, error);
        make_readable(pair.staged, entry).map_err(fail)?;
        let staged = open_file(pair.staged, &entry.name).map_err(fail)?;
        if self.form == StagedForm::Upper {
            refuse_partial(&staged, path)?;
        }
        let replaces = before.as_ref().is_some_and(|before| before.kind() == Kind::File);
        match (pair.original, before) {
            (Some(original), Some(before)) if replaces => {
                if is_same(original, &before, entry, staged, path)? {
                    return (self.same)(path, Some(&before));
                }
            }
            (original, before) => self.removed(original, before, path)?,
        }
        self.bytes = self.bytes.saturating_add(entry.size());
        if self.bytes > self.bounds.bytes {
            return Err(too_large(self.bounds.bytes));
        }
        let (mode, size) = (entry.mode(), entry.size());
        self.written.push(Change::FileWritten { path: path.to_owned(), mode, size, replaces });
        Ok(())
    }

    fn one_link(
        &mut self,
        pair: Pair<'_>,
        entry: &Entry,
        before: Option<Entry>,
        path: &str,
    ) -> Result<(), Failure> {
        let fail = |error: Errno| unreadable(path, error);
        let target = read_link(pair.staged, &entry.name).map_err(fail)?;
        let old = match (pair.original, &before) {
            (Some(original), Some(before)) if before.kind() == Kind::Link => {
                Some(read_link(original, &before.name).map_err(fail)?)
            }
            _ => None,
        };
        // A link that was there before is not the program's doing, wherever it leads.
        if old.as_ref() == Some(&target) {
            return (self.same)(path, before.as_ref());
        }
        let target = check_target(path, &target)?;
        let before = match old {
            // A target that the journal cannot spell is removed and made anew: which is refused.
            Some(old) => Some(spelled(old, path)?),
            None => {
                self.removed(pair.original, before, path)?;
                None
            }
        };
        self.written.push(Change::LinkWritten { path: path.to_owned(), target, before });
        Ok(())
    }

    /// What the original has and a complete staging has not.
    fn missing(&mut self, original: &OwnedFd, kept: &[Entry], path: &str) -> Result<(), Failure> {
        let kept: HashSet<&CStr> = kept.iter().map(|entry| entry.name.as_c_str()).collect();
        for entry in self.list_original(original, path)? {
            // Sockets and FIFOs cannot be copied, so their absence says nothing.
            let copied = self.form == StagedForm::Upper || entry.kind() != Kind::Other;
            if copied && !kept.contains(entry.name.as_c_str()) {
                let place = join(path, &entry.name)?;
                self.removed(Some(original), Some(entry), &place)?;
            }
        }
        Ok(())
    }

    fn list_original(&mut self, original: &OwnedFd, path: &str) -> Result<Vec<Entry>, Failure> {
        let entries = list(original, self.original_left).map_err(|e| unreadable(path, e))?;
        let entries = entries.ok_or_else(|| too_many(self.bounds.original))?;
        self.original_left -= entries.len() as u64;
        Ok(entries)
    }

    /// Notes that something of the original is gone, with everything below it.
    fn removed(
        &mut self,
        original: Option<&OwnedFd>,
        entry: Option<Entry>,
        path: &str,
    ) -> Result<(), Failure> {
        let (Some(original), Some(entry)) = (original, entry) else { return Ok(()) };
        let fail = |error: Errno| unreadable(path, error);
        let was = match entry.kind() {
            Kind::File => Was::File,
            Kind::Link => {
                let target = read_link(original, &entry.name).map_err(fail)?;
                Was::Link { target: spelled(target, path)? }
            }
            Kind::Directory => {
                let inner = open_directory(original, &entry.name).map_err(fail)?;
                for child in self.list_original(&inner, path)? {
                    let place = join(path, &child.name)?;
                    self.removed(Some(&inner), Some(child), &place)?;
                }
                Was::Directory { mode: entry.mode() }
            }
            Kind::Whiteout | Kind::Other => {
                return Err(refused(path, "takes the place of a socket, FIFO or device"));
            }
        };
        self.removed.push(Change::Removed { path: path.to_owned(), was });
        Ok(())
    }
}

fn spelled(target: Vec<u8>, path: &str) -> Result<String, Failure> {
    String::from_utf8(target)
        .map_err(|_| refused(path, "takes the place of a link that is not UTF-8"))
}

/// Same permissions, same content.
fn is_same(
    original: &OwnedFd,
    before: &Entry,
    entry: &Entry,
    mut staged: File,
    path: &str,
) -> Result<bool, Failure> {
    if before.mode() != entry.mode() || before.size() != entry.size() {
        return Ok(false);
    }
    let mut original =
        open_file(original, &before.name).map_err(|error| unreadable(path, error))?;
    let (mut ours, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let read = fill(&mut original, &mut ours).and_then(|read| {
            let same = fill(&mut staged, &mut theirs)?;
            Ok((read, same))
        });
        let (a, b) = read.map_err(|error| unreadable(path, error))?;
        if ours.get(..a) != theirs.get(..b) {
            return Ok(false);
        }
        if a == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the chunk is full or the file ends, so that two files can be compared by chunks.
fn fill(file: &mut File, chunk: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Whether a directory of the upper layer hides the one below it altogether.
fn is_opaque(directory: &OwnedFd, path: &str) -> Result<bool, Failure> {
    if has_attribute(directory, "redirect", path)?.is_some() {
        return Err(refused(path, "was moved in a way that cannot be followed"));
    }
    match has_attribute(directory, "opaque", path)?.as_deref() {
        None => Ok(false),
        Some(b"y") => Ok(true),
        Some(_) => Err(refused(path, "is marked in a way that is not understood")),
    }
}

/// A file of which the upper layer has the permissions and not the content.
fn refuse_partial(file: &File, path: &str) -> Result<(), Failure> {
    match has_attribute(file, "metacopy", path)? {
        None => Ok(()),
        Some(_) => Err(refused(path, "was not copied completely")),
    }
}

fn has_attribute(file: impl AsFd, name: &str, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    for space in ["user", "trusted"] {
        let mut value = [0u8; 64];
        match fgetxattr(&file, format!("{space}.overlay.{name}"), &mut value[..]) {
            Ok(size) => return Ok(Some(value.get(..size).unwrap_or_default().to_vec())),
            Err(Errno::NODATA | Errno::NOTSUP) => {}
            // Longer than anything that is understood.
            Err(Errno::RANGE) => return Ok(Some(Vec::new())),
            Err(error) => return Err(unreadable(path, error)),
        }
    }
    Ok(None)
}
