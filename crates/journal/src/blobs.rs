//! Content-addressed files: named by their digest, written once, checked on every read.

mod sync;
mod unused;
mod written;

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use countersign_model::Digest;
use countersign_model::digest::Hasher;
use countersign_model::effect::Payload;
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use crate::error::JournalError;

pub use self::sync::sync_together;
pub use self::unused::{Kept, Removed};
use self::written::Written;

/// Up to so many files of a batch are synced each by itself; for more it is cheaper to sync
/// everything.
const ONE_BY_ONE: usize = 64;

/// How contents are called before they have their name.
const UNNAMED: &str = ".new-";

#[derive(Debug, Clone)]
pub struct Blobs {
    root: PathBuf,
    /// Directories of contents whose own names this process has made durable.
    shards: Arc<Mutex<HashSet<PathBuf>>>,
    written: Written,
}

impl Blobs {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let (shards, written) = (Arc::default(), Written::default());
        Blobs { root: root.into(), shards, written }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        let name = digest.to_string();
        let (shard, rest) = name.split_at(2);
        self.root.join(shard).join(rest)
    }

    /// Whether something stands under a digest; only reading tells whether it is whole.
    pub fn holds(&self, digest: &Digest) -> bool {
        self.path(digest).is_file()
    }

    /// Keeps `bytes`; when this returns they are on disk under their digest.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, JournalError> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        let _writing = self.lock(FlockOperation::LockShared)?;
        match self.get(&digest).and_then(|_| Ok(touch(&path)?)) {
            // Whoever wrote it may not have come to sync its name yet.
            Ok(()) => sync_dir(path.parent().unwrap_or(&self.root))?,
            // Absent or damaged: written, or mended.
            Err(_) => self.write(&path, bytes)?,
        }
        Ok(digest)
    }

    /// For whoever holds a share of the lock.
    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
        let shard = path.parent().unwrap_or(&self.root);
        // Synced each time: whoever made the shard may have died before it could.
        fs::create_dir_all(shard)?;
        sync_dir(&self.root)?;
        // Written aside and renamed: a blob is whole or absent.
        let temporary = self.unnamed();
        let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        Ok(sync_dir(shard)?)
    }

    fn unnamed(&self) -> PathBuf {
        self.root.join(format!("{UNNAMED}{}", Uuid::now_v7()))
    }

    /// Whoever writes holds a share of the lock on the directory. The kernel lets go of it when we
    /// end, however we end.
    fn lock(&self, operation: FlockOperation) -> io::Result<File> {
        let directory = File::open(&self.root)?;
        flock(&directory, operation)?;
        Ok(directory)
    }

    /// Removes what writers that were killed left unnamed. While anybody writes it is left for
    /// another time: nobody knows whose it is.
    pub fn sweep(&self) -> Result<(), JournalError> {
        let unnamed = || -> io::Result<Vec<PathBuf>> {
            let entries = fs::read_dir(&self.root)?.flatten();
            let is_it = |entry: &fs::DirEntry| {
                entry.file_name().to_str().is_some_and(|name| name.starts_with(UNNAMED))
            };
            Ok(entries.filter(is_it).map(|entry| entry.path()).collect())
        };
        if unnamed()?.is_empty() {
            return Ok(());
        }
        let _alone = match self.lock(FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            lock => lock?,
        };
        // Asked again, now that nobody writes.
        for path in unnamed()? {
            fs::remove_file(path)?;
        }
        Ok(())
    }

    /// The bytes behind a digest, checked against it.
    pub fn get(&self, digest: &Digest) -> Result<Vec<u8>, JournalError> {
        let bytes = fs::read(self.path(digest)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => JournalError::Blob(*digest),
            _ => error.into(),
        })?;
        if Digest::of(&bytes) == *digest { Ok(bytes) } else { Err(JournalError::Blob(*digest)) }
    }
}

impl Blobs {
    /// Writes the bytes behind a digest to `target`, without holding them in memory. When this
    /// fails, part of them may have been written: they are only known to be right at their end.
    pub fn copy_to(&self, digest: &Digest, target: &mut dyn Write) -> Result<(), JournalError> {
        let mut file = File::open(self.path(digest)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => JournalError::Blob(*digest),
            _ => error.into(),
        })?;
        let copied = copy(&mut file, target)?;
        if copied.digest == *digest { Ok(()) } else { Err(JournalError::Blob(*digest)) }
    }

    /// The size of a content that this process has written a moment ago and nobody has touched since.
    pub fn size_as_written(&self, digest: &Digest) -> Option<u64> {
        self.written.size_of(digest, &self.path(digest))
    }

    /// Begins to keep many contents, which then share their syncs.
    pub fn batch(&self) -> BlobBatch<'_> {
        let (written, there, seen) = (Vec::new(), Vec::new(), HashSet::new());
        BlobBatch { blobs: self, written, there, seen, writing: None }
    }
}

/// Contents on their way into the store. None of them is kept before [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "what is not finished is not kept"]
pub struct BlobBatch<'b> {
    blobs: &'b Blobs,
    written: Vec<New>,
    /// Contents that were kept before.
    there: Vec<Digest>,
    seen: HashSet<Digest>,
    /// A share of the lock, from the first content on.
    writing: Option<File>,
}

/// A content without its name.
#[derive(Debug)]
struct New {
    temporary: PathBuf,
    digest: Digest,
    /// Held open only as long as there are few.
    file: Option<File>,
    /// How the file was when all of it had been written.
    before: Option<Metadata>,
}

impl BlobBatch<'_> {
    /// Takes in all that `content` yields.
    pub fn put(&mut self, content: &mut impl Read) -> Result<Payload, JournalError> {
        self.begin()?;
        self.write(|file| copy(content, file))
    }

    /// Takes in what is in memory already, under the digest that was taken of it there. What is in
    /// the store, byte for byte, is not written again.
    pub fn put_known(&mut self, digest: Digest, bytes: &[u8]) -> Result<(), JournalError> {
        self.begin()?;
        if !self.seen.insert(digest) {
            return Ok(());
        }
        let path = self.blobs.path(&digest);
        if holds_exactly(&path, bytes) && touch(&path).is_ok() {
            if !self.blobs.written.is_durable(&digest, &path) {
                self.there.push(digest);
            }
            return Ok(());
        }
        let payload = Payload { digest, size: bytes.len() as u64 };
        self.write(|file| file.write_all(bytes).map(|()| payload)).map(drop)
    }

    fn begin(&mut self) -> Result<(), JournalError> {
        if self.writing.is_none() {
            self.writing = Some(self.blobs.lock(FlockOperation::LockShared)?);
        }
        Ok(())
    }

    fn write(
        &mut self,
        write: impl FnOnce(&mut File) -> io::Result<Payload>,
    ) -> Result<Payload, JournalError> {
        let temporary = self.blobs.unnamed();
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o400).open(&temporary)?;
        let written = write(&mut file);
        let digest = written.as_ref().map_or(Digest::ZERO, |payload| payload.digest);
        let before = file.metadata().ok();
        let file = Some(file).filter(|_| self.written.len() < ONE_BY_ONE);
        // Noted in any case, so that it is removed if this comes to nothing.
        self.written.push(New { temporary, digest, file, before });
        Ok(written?)
    }

    /// When this returns, everything is on disk under its digest.
    pub fn finish(mut self) -> Result<(), JournalError> {
        self.sync_contents()?;
        let written = std::mem::take(&mut self.written);
        for (at, new) in written.iter().enumerate() {
            if let Err(error) = self.blobs.place(&new.temporary, &new.digest) {
                // What has no name is removed.
                self.written.extend(written.into_iter().skip(at));
                return Err(error.into());
            }
        }
        // Whoever wrote what was there may not have come to sync its name yet.
        let all = written.iter().map(|new| &new.digest).chain(&self.there);
        self.sync_names(all.map(|digest| self.blobs.shard(digest)).collect())?;
        for New { digest, before, .. } in &written {
            self.blobs.written.note(*digest, &self.blobs.path(digest), before.as_ref());
        }
        for digest in &self.there {
            self.blobs.written.note(*digest, &self.blobs.path(digest), None);
        }
        Ok(())
    }

    /// Contents first, so that a name never stands for less than all of one.
    fn sync_contents(&mut self) -> Result<(), JournalError> {
        if self.written.len() > ONE_BY_ONE {
            return self.sync_everything();
        }
        Ok(sync_together(self.written.iter().filter_map(|new| new.file.as_ref()))?)
    }

    fn sync_names(&self, mut directories: BTreeSet<PathBuf>) -> Result<(), JournalError> {
        if directories.is_empty() {
            return Ok(());
        }
        let durable = self.blobs.durable_shards();
        let made: Vec<PathBuf> =
            directories.iter().filter(|shard| !durable.contains(*shard)).cloned().collect();
        if !made.is_empty() {
            directories.insert(self.blobs.root.clone());
        }
        if directories.len() > ONE_BY_ONE {
            self.sync_everything()?;
        } else {
            let open: Vec<File> = directories.iter().map(File::open).collect::<io::Result<_>>()?;
            sync_together(&open)?;
        }
        self.blobs.remember(made);
        Ok(())
    }

    fn sync_everything(&self) -> Result<(), JournalError> {
        let root = File::open(&self.blobs.root)?;
        rustix::fs::syncfs(&root).map_err(|error| io::Error::from(error).into())
    }
}

impl Blobs {
    fn shard(&self, digest: &Digest) -> PathBuf {
        self.path(digest).parent().unwrap_or(&self.root).to_owned()
    }

    /// Gives a content its name. Its directory may be missing, and is new then.
    fn place(&self, temporary: &Path, digest: &Digest) -> io::Result<()> {
        let path = self.path(digest);
        match fs::rename(temporary, &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let shard = self.shard(digest);
                self.forget(&shard);
                fs::create_dir_all(shard)?;
                fs::rename(temporary, path)
            }
            named => named,
        }
    }

    fn durable_shards(&self) -> HashSet<PathBuf> {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn remember(&self, shards: Vec<PathBuf>) {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).extend(shards);
    }

    /// A directory that was made anew has a new name to sync.
    fn forget(&self, shard: &Path) {
        self.shards.lock().unwrap_or_else(PoisonError::into_inner).remove(shard);
    }
}

impl Drop for BlobBatch<'_> {
    fn drop(&mut self) {
        for new in &self.written {
            let _ = fs::remove_file(&new.temporary);
        }
    }
}

fn copy(from: &mut impl Read, to: &mut (impl Write + ?Sized)) -> io::Result<Payload> {
    let (mut hasher, mut size, mut chunk) = (Hasher::default(), 0u64, vec![0; 64 << 10]);
    loop {
        let read = match from.read(&mut chunk) {
            Ok(0) => return Ok(Payload { digest: hasher.finish(), size }),
            Ok(read) => chunk.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(read);
        to.write_all(read)?;
        size += read.len() as u64;
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Whether a file is these bytes; read no further than the first that differs.
fn holds_exactly(path: &Path, bytes: &[u8]) -> bool {
    let compare = || -> io::Result<bool> {
        let mut file = File::open(path)?;
        if file.metadata()?.len() != bytes.len() as u64 {
            return Ok(false);
        }
        let (mut rest, mut chunk) = (bytes, vec![0; (64 << 10).min(bytes.len().max(1))]);
        loop {
            let read = file.read(&mut chunk)?;
            let same = chunk.get(..read).unwrap_or_default();
            match (read, rest.strip_prefix(same)) {
                (0, _) => return Ok(rest.is_empty()),
                (_, Some(after)) => rest = after,
                (_, None) => return Ok(false),
            }
        }
    };
    compare().unwrap_or(false)
}

/// Somebody is about to name it: it must not look as if nobody had needed it for long.
fn touch(path: &Path) -> io::Result<()> {
    File::open(path)?.set_modified(SystemTime::now())
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_writer_left_is_swept_when_nobody_writes() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let unnamed = || {
            let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with(UNNAMED)).count()
        };
        let digest = blobs.put(b"kept").unwrap();
        let mut batch = blobs.batch();
        batch.put(&mut b"on its way".as_slice()).unwrap();
        fs::write(blobs.unnamed(), "half of someth").unwrap();
        blobs.sweep().unwrap();
        assert_eq!(unnamed(), 2, "somebody writes");
        batch.finish().unwrap();
        assert_eq!(unnamed(), 1);
        blobs.sweep().unwrap();
        assert_eq!(unnamed(), 0);
        assert_eq!(blobs.get(&digest).unwrap(), b"kept");
        assert_eq!(blobs.get(&Digest::of(b"on its way")).unwrap(), b"on its way");
    }

    #[test]
    fn blobs_are_found_by_digest_and_checked() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let digest = blobs.put(b"hello").unwrap();
        assert_eq!(blobs.put(b"hello").unwrap(), digest);
        assert_eq!(blobs.get(&digest).unwrap(), b"hello");
        let absent = Digest::of(b"absent");
        assert_eq!(blobs.get(&absent).unwrap_err(), JournalError::Blob(absent));

        let path = blobs.path(&digest);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"hellO").unwrap();
        assert_eq!(blobs.get(&digest).unwrap_err(), JournalError::Blob(digest));
        blobs.put(b"hello").unwrap();
        assert_eq!(blobs.get(&digest).unwrap(), b"hello", "a damaged blob is mended");
    }

    #[test]
    fn a_batch_is_kept_when_it_is_finished_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let mut batch = blobs.batch();
        let hello = batch.put(&mut &b"hello"[..]).unwrap();
        assert_eq!(hello, Payload::of(b"hello"));
        assert!(blobs.get(&hello.digest).is_err());
        drop(batch);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");

        let mut batch = blobs.batch();
        for content in [&b"hello"[..], b"", b"hello", &[7; 200_000]] {
            batch.put(&mut &content[..]).unwrap();
        }
        batch.finish().unwrap();
        let mut many = blobs.batch();
        for n in 0..=ONE_BY_ONE as u64 {
            many.put(&mut n.to_string().as_bytes()).unwrap();
        }
        many.finish().unwrap();
        assert_eq!(blobs.get(&Digest::of(b"16")).unwrap(), b"16");
        let mut copy = Vec::new();
        blobs.copy_to(&Digest::of(&[7; 200_000]), &mut copy).unwrap();
        assert_eq!(copy, [7; 200_000]);
        assert_eq!(blobs.get(&hello.digest).unwrap(), b"hello");
        let path = blobs.path(&hello.digest);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"hellO").unwrap();
        assert!(blobs.copy_to(&hello.digest, &mut Vec::new()).is_err(), "damaged");
    }

    #[test]
    fn what_is_there_is_kept_as_it_is_and_what_is_damaged_is_mended() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let digest = Digest::of(b"hello");
        let keep = || {
            let mut batch = blobs.batch();
            batch.put_known(digest, b"hello").unwrap();
            batch.put_known(digest, b"hello").unwrap();
            batch.finish().unwrap();
            fs::metadata(blobs.path(&digest)).unwrap()
        };
        let first = keep();
        let old = SystemTime::now() - std::time::Duration::from_secs(100_000);
        File::open(blobs.path(&digest)).unwrap().set_modified(old).unwrap();
        let again = keep();
        use std::os::unix::fs::MetadataExt as _;
        assert_eq!(first.ino(), again.ino(), "not written again");
        assert!(again.modified().unwrap() > old, "young again");
        for damaged in [&b"hellO"[..], b"hell", b"", b"hello and more"] {
            fs::remove_file(blobs.path(&digest)).unwrap();
            fs::write(blobs.path(&digest), damaged).unwrap();
            keep();
            assert_eq!(blobs.get(&digest).unwrap(), b"hello");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn a_content_is_known_as_long_as_nobody_touches_it() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::new(dir.path());
        let mut batch = blobs.batch();
        let kept = batch.put(&mut &b"hello"[..]).unwrap();
        batch.finish().unwrap();
        assert_eq!(blobs.clone().size_as_written(&kept.digest), Some(5));
        assert_eq!(Blobs::new(dir.path()).size_as_written(&kept.digest), None, "others read it");
        let path = blobs.path(&kept.digest);
        let written = fs::metadata(&path).unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&path, mode).unwrap();
        fs::write(&path, b"hellO").unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(written).unwrap();
        assert_eq!(blobs.size_as_written(&kept.digest), None);
    }
}
