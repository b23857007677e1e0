//! The tree of files that a patch is applied to.

use std::collections::BTreeMap;
use std::convert::Infallible;

use crate::mode::Kind;

/// A file or symbolic link with its content; that of a link is its target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub kind: Kind,
    pub content: Vec<u8>,
}

impl Entry {
    pub fn file(content: impl Into<Vec<u8>>) -> Entry {
        Entry { kind: Kind::File { executable: false }, content: content.into() }
    }
}

/// What a patch reads and writes. Paths are relative, with `/`, and were judged to be safe; still
/// an implementation over a real file system must not follow links on the way to one.
///
/// Writes are made while later files are still being looked at, so this should be a layer that
/// can be thrown away when [`apply`](crate::apply) ends with anything but success.
pub trait Tree {
    type Error;

    /// What stands at a path, without following it.
    fn kind(&mut self, path: &str) -> Result<Option<Kind>, Self::Error>;

    /// The file or link at a path; none for a directory or nothing.
    fn read(&mut self, path: &str) -> Result<Option<Entry>, Self::Error>;

    /// Puts a file or link at a path, in place of one that may be there; makes directories.
    fn write(&mut self, path: &str, entry: Entry) -> Result<(), Self::Error>;

    /// Removes the file or link at a path.
    fn remove(&mut self, path: &str) -> Result<(), Self::Error>;

    /// The content that git knows by this id or beginning of an id, for merges.
    fn blob(&mut self, id: &str) -> Result<Option<Vec<u8>>, Self::Error>;
}

/// A tree in memory, for tests and for whoever has everything at hand already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryTree {
    pub entries: BTreeMap<String, Entry>,
    pub blobs: BTreeMap<String, Vec<u8>>,
}

impl MemoryTree {
    fn holds_below(&self, path: &str) -> bool {
        let below = format!("{path}/");
        let next = self.entries.range(below.clone()..).next();
        next.is_some_and(|(other, _)| other.starts_with(&below))
    }
}

impl Tree for MemoryTree {
    type Error = Infallible;

    fn kind(&mut self, path: &str) -> Result<Option<Kind>, Infallible> {
        let entry = self.entries.get(path).map(|entry| entry.kind);
        Ok(entry.or_else(|| self.holds_below(path).then_some(Kind::Directory)))
    }

    fn read(&mut self, path: &str) -> Result<Option<Entry>, Infallible> {
        Ok(self.entries.get(path).cloned())
    }

    fn write(&mut self, path: &str, entry: Entry) -> Result<(), Infallible> {
        self.entries.insert(path.to_owned(), entry);
        Ok(())
    }

    fn remove(&mut self, path: &str) -> Result<(), Infallible> {
        self.entries.remove(path);
        Ok(())
    }

    fn blob(&mut self, id: &str) -> Result<Option<Vec<u8>>, Infallible> {
        let known = self.blobs.range(id.to_owned()..).next();
        Ok(known.filter(|(other, _)| other.starts_with(id)).map(|(_, blob)| blob.clone()))
    }
}
