//! A workspace as this crate sees it: lists and bytes that somebody else reads.

use countersign_model::Failure;

/// Something with a name in the workspace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Relative, with `/` between components, without `.` and `..`.
    pub path: String,
    pub size: u64,
    pub kind: EntryKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    File,
    /// A link is never followed.
    Symlink,
    Submodule,
    Other,
}

/// A path that differs from the base.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    pub path: String,
    pub status: ChangeStatus,
    /// What a renamed or copied file was called.
    pub from: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeStatus {
    Added,
    Modified,
    Deleted,
    Renamed,
    Copied,
    TypeChanged,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub author: String,
    pub date: String,
    pub subject: String,
}

/// Where a pack is made from. The order of entries and changes does not matter, that of commits
/// does: the newest first. A failed list fails the pack; a file that cannot be read is left out.
#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
pub trait Sources {
    fn entries(&mut self) -> Result<Vec<Entry>, Failure>;

    fn changes(&mut self) -> Result<Vec<Change>, Failure>;

    /// The newest commits, at most so many.
    fn history(&mut self, at_most: usize) -> Result<Vec<Commit>, Failure>;

    /// The first bytes of a file, at most so many.
    fn read(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure>;

    /// The first bytes of what changed in one path since the base, at most so many.
    fn diff(&mut self, path: &str, at_most: u64) -> Result<Vec<u8>, Failure>;
}
