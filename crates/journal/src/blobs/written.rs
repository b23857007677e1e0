//! Contents that this process has written, or seen to it that they are on disk.
//!
//! A content that was hashed as it was written need not be read to know what is in it, as long as
//! the kernel says that nobody has touched the file since. A name that was synced need not be synced
//! again, as long as it stands for the same file.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_model::Digest;

/// More are forgotten, all at once; that only costs time.
const MOST: usize = 16_384;

/// What the kernel tells of a file. The time of the last change cannot be set by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Marks {
    fn of(found: &Metadata) -> Self {
        Marks {
            file: (found.dev(), found.ino()),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Known {
    file: (u64, u64),
    /// Of a file that was hashed as it was written.
    marks: Option<Marks>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Written(Arc<Mutex<HashMap<Digest, Known>>>);

impl Written {
    /// To be called when content and name are on disk: naming a file changes its marks. `before` is
    /// how it was when the last byte had been written, if we wrote it.
    pub(super) fn note(&self, digest: Digest, path: &Path, before: Option<&Metadata>) {
        let Ok(now) = fs::symlink_metadata(path) else { return };
        let now = Marks::of(&now);
        let is_ours = |before: &Metadata| {
            let before = Marks::of(before);
            (before.file, before.size, before.modified) == (now.file, now.size, now.modified)
        };
        let marks = before.is_some_and(is_ours).then_some(now);
        let mut known = self.known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(digest, Known { file: now.file, marks });
    }

    /// The size of a content, if it is as it was written.
    pub(super) fn size_of(&self, digest: &Digest, path: &Path) -> Option<u64> {
        let now = Marks::of(&fs::symlink_metadata(path).ok()?);
        let known = self.known().get(digest).copied()?;
        (known.marks == Some(now)).then_some(now.size)
    }

    /// Whether the name of a content was synced and still stands for the same file.
    pub(super) fn is_durable(&self, digest: &Digest, path: &Path) -> bool {
        let Ok(now) = fs::symlink_metadata(path) else { return false };
        self.known().get(digest).is_some_and(|known| known.file == (now.dev(), now.ino()))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Digest, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
