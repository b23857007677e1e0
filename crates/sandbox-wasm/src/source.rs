//! Module files: read whole, and known again while they have not changed.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use countersign_model::{Digest, Failure};
use rustix::fs::Stat;

use crate::library::invalid;

/// Longer ones are no tools.
const MAX_MODULE: u64 = 64 << 20;

/// A file changed so recently could change again without its times showing it.
const SETTLED: Duration = Duration::from_secs(2);

/// Paths remembered.
const KEEP: usize = 1024;

/// A module as its file has it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) bytes: Vec<u8>,
    mark: Option<Mark>,
}

/// What differs when a file differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, u64),
    modified: (i64, u64),
}

impl Mark {
    fn of(stat: &Stat) -> Self {
        Mark {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
        }
    }

    fn is_settled(&self) -> bool {
        let changed = Duration::from_secs(u64::try_from(self.changed.0).unwrap_or(u64::MAX));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(changed) > SETTLED
    }
}

impl Source {
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let source = Self::read_file(path).map_err(|error| {
            let message = format!("the module {} cannot be read: {error}", path.display());
            Failure::validation("MODULE_UNREADABLE", message)
        })?;
        if source.bytes.len() as u64 > MAX_MODULE {
            return Err(invalid(format_args!("it is longer than {MAX_MODULE} bytes")));
        }
        Ok(source)
    }

    fn read_file(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let before = Mark::of(&rustix::fs::fstat(&file)?);
        let mut bytes = Vec::new();
        (&file).take(MAX_MODULE + 1).read_to_end(&mut bytes)?;
        let after = Mark::of(&rustix::fs::fstat(&file)?);
        Ok(Source { bytes, mark: (before == after && before.is_settled()).then_some(before) })
    }
}

/// Digests of files, by path.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<HashMap<PathBuf, (Mark, Digest)>>);

impl Seen {
    /// The digest of a file that is as it was when it was read.
    pub(crate) fn digest(&self, path: &Path) -> Option<Digest> {
        let mark = Mark::of(&rustix::fs::stat(path).ok()?);
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(path).filter(|(then, _)| *then == mark).map(|(_, digest)| *digest)
    }

    pub(crate) fn remember(&self, path: &Path, source: &Source, digest: Digest) {
        let Some(mark) = source.mark else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= KEEP {
            seen.clear();
        }
        seen.insert(path.to_owned(), (mark, digest));
    }
}
