//! What stood in `tree/` when its state was last recorded. As long as the same files stand there,
//! unchanged as far as the kernel tells, they need not be shown to git again.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use countersign_model::Digest;
use countersign_model::digest::Hasher;

use crate::id::ObjectId;

/// The kernel's clock for files stands still for up to ten milliseconds. What changed this long
/// before a look cannot change after it and keep its time.
const SETTLED: Duration = Duration::from_millis(100);

/// What the kernel tells of a file. The time of the last change cannot be set by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp([u64; 8]);

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Stamp([
            metadata.dev(),
            metadata.ino(),
            u64::from(metadata.mode()),
            metadata.size(),
            metadata.mtime().cast_unsigned(),
            metadata.mtime_nsec().cast_unsigned(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ])
    }

    pub(crate) fn words(self) -> [u64; 8] {
        self.0
    }

    pub(crate) fn from_words(words: [u64; 8]) -> Self {
        Stamp(words)
    }

    pub(crate) fn size(&self) -> u64 {
        let [_, _, _, size, ..] = self.0;
        size
    }

    pub(crate) fn is_link(&self) -> bool {
        let [_, _, mode, ..] = self.0;
        mode & 0o170_000 == 0o120_000
    }

    fn changed_at(&self) -> Duration {
        let [.., seconds, nanos] = self.0;
        Duration::new(seconds, u32::try_from(nanos).unwrap_or_default())
    }

    /// Whether a change after `moment` would be seen.
    pub(crate) fn is_settled(&self, moment: SystemTime) -> bool {
        let moment = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.changed_at().checked_add(SETTLED).is_some_and(|at| at < moment)
    }
}

/// All that a look at the files found, in one digest.
#[derive(Default)]
pub(crate) struct Sight(Hasher);

impl Sight {
    pub(crate) fn add(&mut self, path: &[u8], stamp: Option<&Stamp>) {
        self.0.update(&(path.len() as u64).to_le_bytes());
        self.0.update(path);
        for word in stamp.map(|stamp| stamp.0).into_iter().flatten() {
            self.0.update(&word.to_le_bytes());
        }
    }

    pub(crate) fn finish(self) -> Digest {
        self.0.finish()
    }
}

fn file(git_dir: &Path) -> PathBuf {
    git_dir.join("countersign-state")
}

/// The tree that was recorded, and what it proves itself with.
pub(crate) struct Recalled {
    pub(crate) tree: ObjectId,
    proof: Digest,
}

impl Recalled {
    pub(crate) fn read(git_dir: &Path) -> Option<Self> {
        let text = fs::read_to_string(file(git_dir)).ok()?;
        let (tree, proof) = text.trim_end().split_once(' ')?;
        Some(Recalled { tree: tree.parse().ok()?, proof: proof.parse().ok()? })
    }

    pub(crate) fn is_of(&self, sight: &Digest) -> bool {
        proof(&self.tree, sight) == self.proof
    }
}

/// Half a line proves nothing.
fn proof(tree: &ObjectId, sight: &Digest) -> Digest {
    Digest::of(format!("{tree} {sight}").as_bytes())
}

/// What cannot be written costs time, and nothing else.
pub(crate) fn note(git_dir: &Path, tree: &ObjectId, sight: &Digest) {
    let _ = fs::write(file(git_dir), format!("{tree} {}\n", proof(tree, sight)));
}
