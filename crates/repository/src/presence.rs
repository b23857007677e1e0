//! Whether objects are there, without asking git: by their names alone, in a directory of objects
//! and in those that it borrows from.
//!
//! Yes means that a file of that name, or a pack whose index has the name, is there; what it holds
//! is read, and judged, by whoever needs it. Anything that is not understood is no, and then git is
//! asked.

use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use crate::id::ObjectId;

/// How many repositories may borrow from one another, as git has it.
const DEEPEST: usize = 5;

/// An index of the second version begins like this.
const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];

/// Where the table of first bytes ends and the names begin.
const NAMES: u64 = 8 + 256 * 4;

/// Whether every one of `ids` is there.
pub(crate) fn all(objects: &Path, ids: &[ObjectId]) -> bool {
    let mut missing = ids.to_vec();
    look(objects, &mut missing, 0);
    missing.is_empty()
}

/// Where an object lies that has a file of its own.
pub(crate) fn loose(objects: &Path, id: &ObjectId) -> PathBuf {
    let name = id.to_string();
    let (shard, rest) = name.split_at(2);
    objects.join(shard).join(rest)
}

/// A file of that name with something in it: a crash can leave empty ones.
pub(crate) fn is_loose(objects: &Path, id: &ObjectId) -> bool {
    fs::metadata(loose(objects, id)).is_ok_and(|found| found.is_file() && found.len() > 0)
}

fn look(objects: &Path, missing: &mut Vec<ObjectId>, depth: usize) {
    missing.retain(|id| !is_loose(objects, id));
    look_in_packs(&objects.join("pack"), missing);
    if missing.is_empty() || depth == DEEPEST {
        return;
    }
    for lender in lenders(objects) {
        look(&lender, missing, depth + 1);
    }
}

fn look_in_packs(packs: &Path, missing: &mut Vec<ObjectId>) {
    let Ok(entries) = fs::read_dir(packs) else { return };
    let mut indexes = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "idx"))
        .filter(|path| path.with_extension("pack").is_file());
    while let (false, Some(index)) = (missing.is_empty(), indexes.next()) {
        if let Ok(file) = File::open(index) {
            missing.retain(|id| !is_listed(&file, id).unwrap_or(false));
        }
    }
}

/// Whether an index of a pack has a name: its first byte says between which places to look.
fn is_listed(index: &File, id: &ObjectId) -> Option<bool> {
    let mut head = [0; 8];
    index.read_exact_at(&mut head, 0).ok()?;
    if head != MAGIC {
        return None;
    }
    let wanted = id.as_bytes();
    let first = u64::from(*wanted.first()?);
    let upto = |byte: u64| {
        let mut count = [0; 4];
        index.read_exact_at(&mut count, 8 + byte * 4).ok()?;
        Some(u64::from(u32::from_be_bytes(count)))
    };
    let mut low = first.checked_sub(1).map_or(Some(0), upto)?;
    let mut high = upto(first)?;
    let mut name = vec![0; wanted.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        index.read_exact_at(&mut name, NAMES + middle * wanted.len() as u64).ok()?;
        match name.as_slice().cmp(wanted) {
            std::cmp::Ordering::Equal => return Some(true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Some(false)
}

/// The directories that objects are borrowed from.
fn lenders(objects: &Path) -> Vec<PathBuf> {
    let lines = fs::read(objects.join("info/alternates")).unwrap_or_default();
    lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .filter_map(path_of)
        .map(|path| objects.join(path))
        .collect()
}

/// A line is a path, or a path in quotes with escapes.
fn path_of(line: &[u8]) -> Option<PathBuf> {
    let bytes = match line.strip_prefix(b"\"") {
        None => line.to_vec(),
        Some(quoted) => unquoted(quoted.strip_suffix(b"\"")?)?,
    };
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Escapes as we write them ourselves: of a quote, a backslash, and of bytes in octal digits.
fn unquoted(quoted: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::with_capacity(quoted.len()), quoted);
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            bytes.push(*byte);
            continue;
        }
        match after {
            [escaped @ (b'"' | b'\\'), after @ ..] => {
                bytes.push(*escaped);
                rest = after;
            }
            [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = after;
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_alternates_are_read_as_git_writes_them() {
        let path = |line: &[u8]| path_of(line).map(|path| path.into_os_string().into_vec());
        assert_eq!(path(b"/a b").unwrap(), b"/a b");
        assert_eq!(path(b"\"/a b/\\303\\244\\\"\\\\\"").unwrap(), "/a b/ä\"\\".as_bytes());
        assert_eq!(path(b"\"/half"), None);
        assert_eq!(path(b"\"/\\x41\""), None);
    }
}
