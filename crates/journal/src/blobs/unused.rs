//! Contents that nobody needs any more, and how they go without taking what somebody is about to
//! name.
//!
//! A content is written before the fact that names it. Between the two nothing tells that it is
//! needed but its age: whoever keeps a content that is there already makes it young again, and only
//! what is old is removed, while nobody writes.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use countersign_model::Digest;
use rustix::fs::FlockOperation;

use super::{Blobs, sync_dir};
use crate::error::JournalError;

/// Removed at a time, so that writers need not wait for long.
const AT_ONCE: usize = 256;

/// A content as it lies there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub digest: Digest,
    pub size: u64,
    /// When it was last written, or kept again.
    pub at: SystemTime,
}

/// What became of contents that were to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Removed {
    pub count: u64,
    pub bytes: u64,
    /// Left where they are: too young, or somebody wrote all the time.
    pub left: u64,
}

impl Blobs {
    /// Every content, in no order.
    pub fn visit(&self, visitor: &mut dyn FnMut(Kept)) -> Result<(), JournalError> {
        for shard in fs::read_dir(&self.root)? {
            let shard = shard?;
            let name = shard.file_name();
            let Some(start) = name.to_str().filter(|name| name.len() == 2) else { continue };
            for file in fs::read_dir(shard.path())? {
                let file = file?;
                let digest = file.file_name().to_str().map(|rest| format!("{start}{rest}"));
                let Some(digest) = digest.and_then(|name| name.parse().ok()) else { continue };
                if let Some((size, at)) = standing(&file.path())? {
                    visitor(Kept { digest, size, at });
                }
            }
        }
        Ok(())
    }

    /// Removes contents that are older than a moment. Whoever calls this has found out that nothing
    /// names them.
    pub fn remove_older(
        &self,
        digests: &[Digest],
        than: SystemTime,
        patience: Duration,
    ) -> Result<Removed, JournalError> {
        let mut removed = Removed::default();
        let until = Instant::now() + patience;
        for some in digests.chunks(AT_ONCE) {
            let Some(_alone) = self.lock_alone(until)? else {
                removed.left += some.len() as u64;
                continue;
            };
            for digest in some {
                self.remove_one(digest, than, &mut removed)?;
            }
        }
        Ok(removed)
    }

    fn remove_one(
        &self,
        digest: &Digest,
        than: SystemTime,
        removed: &mut Removed,
    ) -> Result<(), JournalError> {
        let path = self.path(digest);
        // Looked at now that nobody writes: it may have been kept again since it was found.
        match standing(&path)? {
            None => return Ok(()),
            Some((_, at)) if at >= than => removed.left += 1,
            Some((size, _)) => {
                fs::remove_file(&path)?;
                // A name that comes back after a power cut is found by the next collection.
                let _ = path.parent().map(sync_dir);
                removed.count += 1;
                removed.bytes = removed.bytes.saturating_add(size);
            }
        }
        Ok(())
    }

    /// The lock that nobody shares, if it can be had in time.
    fn lock_alone(&self, until: Instant) -> Result<Option<fs::File>, JournalError> {
        loop {
            match self.lock(FlockOperation::NonBlockingLockExclusive) {
                Ok(lock) => return Ok(Some(lock)),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error.into()),
                Err(_) if Instant::now() >= until => return Ok(None),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

/// Size and age of a file; none if there is none.
fn standing(path: &Path) -> Result<Option<(u64, SystemTime)>, JournalError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => Ok(Some((found.len(), found.modified()?))),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn age(blobs: &Blobs, digest: &Digest, by: Duration) {
        let path = blobs.path(digest);
        let old = SystemTime::now() - by;
        fs::File::open(path).unwrap().set_modified(old).unwrap();
    }

    #[test]
    fn only_old_contents_go_and_keeping_one_again_makes_it_young() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let all = [&b"old"[..], b"young", b"again"].map(|bytes| blobs.put(bytes).unwrap());
        let [old, young, again] = all;
        age(&blobs, &old, DAY * 2);
        age(&blobs, &again, DAY * 2);
        blobs.put(b"again").unwrap();
        let removed = blobs.remove_older(&all, SystemTime::now() - DAY, Duration::ZERO).unwrap();
        assert_eq!(removed, Removed { count: 1, bytes: 3, left: 2 });
        assert!(!blobs.holds(&old) && blobs.holds(&young) && blobs.holds(&again));
        let mut found = Vec::new();
        blobs.visit(&mut |kept| found.push(kept.digest)).unwrap();
        found.sort();
        let mut expected = vec![young, again];
        expected.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn nothing_goes_while_somebody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let digest = blobs.put(b"old").unwrap();
        age(&blobs, &digest, DAY * 2);
        let mut batch = blobs.batch();
        batch.put(&mut b"on its way".as_slice()).unwrap();
        let remove = || blobs.remove_older(&[digest], SystemTime::now() - DAY, Duration::ZERO);
        assert_eq!(remove().unwrap(), Removed { left: 1, ..Removed::default() });
        batch.finish().unwrap();
        assert_eq!(remove().unwrap(), Removed { count: 1, bytes: 3, left: 0 });
        assert_eq!(remove().unwrap(), Removed::default(), "it is gone already");
    }
}
