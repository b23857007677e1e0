//! Reading what git prints for programs: fields that end in NUL. Names in it come from strangers.
//!
//! Nothing here believes that a line is well-formed; what is not is left out or is an error, never
//! a panic.

use serde::{Deserialize, Serialize};

use crate::id::ObjectId;

/// The mode of an entry of a tree, as git writes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mode(u32);

impl Mode {
    pub const FILE: Mode = Mode(0o100_644);
    pub const EXECUTABLE: Mode = Mode(0o100_755);
    pub const SYMLINK: Mode = Mode(0o120_000);
    pub const SUBMODULE: Mode = Mode(0o160_000);
    const DIRECTORY: Mode = Mode(0o040_000);
    const ABSENT: Mode = Mode(0);

    pub fn is_regular(self) -> bool {
        matches!(self, Mode::FILE | Mode::EXECUTABLE)
    }

    pub(crate) fn read(octal: &[u8]) -> Option<Self> {
        let number = u32::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok()?;
        // Trees of old also have 100664 and the like; for git these are plain files.
        match number {
            0o100_000..=0o100_777 if number & 0o100 != 0 => Some(Mode::EXECUTABLE),
            0o100_000..=0o100_777 => Some(Mode::FILE),
            0 | 0o040_000 | 0o120_000 | 0o160_000 => Some(Mode(number)),
            _ => None,
        }
    }

    fn present(self) -> Option<Self> {
        (self != Mode::ABSENT).then_some(self)
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:06o}", self.0)
    }
}

impl std::fmt::Debug for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mode({self})")
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> String {
        mode.to_string()
    }
}

impl TryFrom<String> for Mode {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Mode::read(text.as_bytes()).ok_or("a mode is six octal digits that git knows")
    }
}

/// The fields of an output, without the empty one after the last NUL.
pub(crate) fn fields(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = output.strip_suffix(b"\0").unwrap_or(output);
    let some = !output.is_empty();
    whole.split(|byte| *byte == 0).filter(move |_| some)
}

/// An entry of an index: `MODE ID STAGE<tab>PATH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stage<'o> {
    pub(crate) mode: Mode,
    pub(crate) id: ObjectId,
    pub(crate) stage: u8,
    pub(crate) path: &'o [u8],
    pub(crate) line: &'o [u8],
}

pub(crate) fn stages(output: &[u8]) -> impl Iterator<Item = Stage<'_>> {
    fields(output).filter_map(stage)
}

pub(crate) fn stage(line: &[u8]) -> Option<Stage<'_>> {
    let (head, path) = split_once(line, b'\t')?;
    let (mode, rest) = split_once(head, b' ')?;
    let (id, stage) = split_once(rest, b' ')?;
    let stage = match stage {
        [digit @ b'0'..=b'3'] => digit - b'0',
        _ => return None,
    };
    Some(Stage { mode: Mode::read(mode)?, id: ObjectId::from_hex(id)?, stage, path, line })
}

/// An entry of a tree with its size: `MODE TYPE ID SIZE<tab>PATH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeEntry<'o> {
    pub(crate) mode: Mode,
    pub(crate) id: ObjectId,
    /// Submodules have none.
    pub(crate) size: Option<u64>,
    pub(crate) path: &'o [u8],
}

pub(crate) fn tree_entry(line: &[u8]) -> Option<TreeEntry<'_>> {
    let (head, path) = split_once(line, b'\t')?;
    let mut words = head.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (mode, _kind) = (Mode::read(words.next()?)?, words.next()?);
    let id = ObjectId::from_hex(words.next()?)?;
    let size = std::str::from_utf8(words.next()?).ok()?;
    let size = if size == "-" { None } else { Some(size.parse().ok()?) };
    (mode != Mode::DIRECTORY).then_some(TreeEntry { mode, id, size, path })
}

/// What became of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Added,
    Modified,
    Deleted,
    Renamed,
    /// It is of another kind now: a link instead of a file, say.
    Type,
}

/// One side of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    pub mode: Mode,
    pub id: ObjectId,
}

/// A change as `diff-tree --raw -z` tells it: `:MODE MODE ID ID STATUS NUL PATH NUL [PATH NUL]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawChange<'o> {
    pub(crate) status: Status,
    pub(crate) similarity: Option<u8>,
    pub(crate) old: Option<Side>,
    pub(crate) new: Option<Side>,
    /// The earlier path of a renamed file.
    pub(crate) from: Option<&'o [u8]>,
    pub(crate) path: &'o [u8],
}

/// Every change, or `None` if the output is not what it should be.
pub(crate) fn raw_changes(output: &[u8]) -> Option<Vec<RawChange<'_>>> {
    let mut fields = fields(output);
    let mut changes = Vec::new();
    while let Some(head) = fields.next() {
        changes.push(raw_change(head, &mut fields)?);
    }
    Some(changes)
}

fn raw_change<'o>(head: &[u8], rest: &mut impl Iterator<Item = &'o [u8]>) -> Option<RawChange<'o>> {
    let mut words = head.strip_prefix(b":")?.split(|byte| *byte == b' ');
    let (old_mode, new_mode) = (Mode::read(words.next()?)?, Mode::read(words.next()?)?);
    let old_id = ObjectId::from_hex(words.next()?)?;
    let new_id = ObjectId::from_hex(words.next()?)?;
    let (letter, score) = words.next()?.split_first()?;
    let status = match letter {
        b'A' => Status::Added,
        b'M' => Status::Modified,
        b'D' => Status::Deleted,
        b'R' => Status::Renamed,
        b'T' => Status::Type,
        _ => return None,
    };
    let first = rest.next()?;
    let (from, path) = match status {
        Status::Renamed => (Some(first), rest.next()?),
        _ => (None, first),
    };
    let similarity = std::str::from_utf8(score).ok()?.parse().ok().filter(|s: &u8| *s <= 100);
    let old = old_mode.present().map(|mode| Side { mode, id: old_id });
    let new = new_mode.present().map(|mode| Side { mode, id: new_id });
    Some(RawChange { status, similarity, old, new, from, path })
}

/// `ADDED<tab>DELETED<tab>PATH NUL`, or with an empty path `NUL OLD NUL NEW NUL` for renames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawCount<'o> {
    /// `None` for binary files.
    pub(crate) lines: Option<(u64, u64)>,
    pub(crate) path: &'o [u8],
}

pub(crate) fn raw_counts(output: &[u8]) -> Option<Vec<RawCount<'_>>> {
    let mut fields = fields(output);
    let mut counts = Vec::new();
    while let Some(head) = fields.next() {
        let (added, rest) = split_once(head, b'\t')?;
        let (deleted, path) = split_once(rest, b'\t')?;
        let path = match path {
            [] => fields.nth(1)?,
            path => path,
        };
        counts.push(RawCount { lines: number(added).zip(number(deleted)), path });
    }
    Some(counts)
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

pub(crate) fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let found = bytes.iter().position(|byte| *byte == at)?;
    let (head, rest) = bytes.split_at_checked(found)?;
    Some((head, rest.get(1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

    #[test]
    fn changes_are_read_with_their_names_as_they_are() {
        let zero = "0".repeat(40);
        let output = format!(
            ":000000 100644 {zero} {ID} A\0a\tb\n\0:100644 100755 {ID} {ID} R093\0old\0new\0\
             :120000 000000 {ID} {zero} D\0-\0"
        );
        let changes = raw_changes(output.as_bytes()).unwrap();
        let told: Vec<_> = changes.iter().map(|c| (c.status, c.from, c.path)).collect();
        assert_eq!(told[0], (Status::Added, None, &b"a\tb\n"[..]));
        assert_eq!(told[1], (Status::Renamed, Some(&b"old"[..]), &b"new"[..]));
        assert_eq!(told[2], (Status::Deleted, None, &b"-"[..]));
        assert_eq!(changes[1].similarity, Some(93));
        assert_eq!(changes[0].old, None);
        assert_eq!(changes[2].old.unwrap().mode, Mode::SYMLINK);
        assert_eq!(raw_changes(b""), Some(vec![]));
        assert_eq!(raw_changes(b":100644"), None);
        assert_eq!(raw_changes(format!(":100644 100644 {ID} {ID} R1\0a\0").as_bytes()), None);
    }

    #[test]
    fn counts_and_entries_are_read() {
        let counts = raw_counts(b"1\t2\ta b\0-\t-\t\0old\0new\0").unwrap();
        assert_eq!(counts[0], RawCount { lines: Some((1, 2)), path: b"a b" });
        assert_eq!(counts[1], RawCount { lines: None, path: b"new" });
        let line = format!("100664 blob {ID}     12\tx");
        let entry = tree_entry(line.as_bytes()).unwrap();
        assert_eq!((entry.mode, entry.size), (Mode::FILE, Some(12)));
        let line = format!("160000 commit {ID}       -\tsub");
        assert_eq!(tree_entry(line.as_bytes()).unwrap().size, None);
        let line = format!("100755 {ID} 2\tx");
        assert_eq!(stage(line.as_bytes()).unwrap().stage, 2);
        assert_eq!(serde_json::to_string(&Mode::EXECUTABLE).unwrap(), "\"100755\"");
    }
}
