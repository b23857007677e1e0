//! Content-addressed files: named by their digest, written once, checked on every read.

mod unused;

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use countersign_model::Digest;
use countersign_model::digest::Hasher;
use countersign_model::effect::Payload;
use rustix::fs::{FlockOperation, flock};
use uuid::Uuid;

use crate::error::JournalError;

pub use self::unused::{Kept, Removed};

/// Up to so many files of a batch are synced each by itself.
const ONE_BY_ONE: usize = 16;

/// How contents are called before they have their name.
const UNNAMED: &str = ".new-";

#[derive(Debug, Clone)]
pub struct Blobs {
    root: PathBuf,
}

impl Blobs {
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Blobs { root: root.into() }
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

    /// Begins to keep many contents, which then share their syncs.
    pub fn batch(&self) -> BlobBatch<'_> {
        BlobBatch { blobs: self, written: Vec::new(), writing: None }
    }
}

/// Contents on their way into the store. None of them is kept before [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "what is not finished is not kept"]
pub struct BlobBatch<'b> {
    blobs: &'b Blobs,
    written: Vec<(PathBuf, Digest)>,
    /// A share of the lock, from the first content on.
    writing: Option<File>,
}

impl BlobBatch<'_> {
    /// Takes in all that `content` yields.
    pub fn put(&mut self, content: &mut impl Read) -> Result<Payload, JournalError> {
        if self.writing.is_none() {
            self.writing = Some(self.blobs.lock(FlockOperation::LockShared)?);
        }
        let temporary = self.blobs.unnamed();
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(0o400).open(&temporary)?;
        let copied = copy(content, &mut file);
        let digest = copied.as_ref().map_or(Digest::ZERO, |payload| payload.digest);
        // Noted in any case, so that it is removed if this comes to nothing.
        self.written.push((temporary, digest));
        Ok(copied?)
    }

    /// When this returns, everything is on disk under its digest.
    pub fn finish(self) -> Result<(), JournalError> {
        if self.written.is_empty() {
            return Ok(());
        }
        // Content first, so that a name never stands for less than all of it.
        self.sync(&self.written.iter().map(|(temporary, _)| temporary.clone()).collect())?;
        let mut named = BTreeSet::from([self.blobs.root.clone()]);
        for (temporary, digest) in &self.written {
            let path = self.blobs.path(digest);
            let shard = path.parent().unwrap_or(&self.blobs.root);
            fs::create_dir_all(shard)?;
            // Whatever stood there was the same, or damaged.
            fs::rename(temporary, &path)?;
            named.insert(shard.to_owned());
        }
        self.sync(&named)
    }

    /// A few are synced one by one; for many it is cheaper to sync everything.
    fn sync(&self, paths: &BTreeSet<PathBuf>) -> Result<(), JournalError> {
        if paths.len() <= ONE_BY_ONE {
            return Ok(paths.iter().try_for_each(|path| sync_dir(path))?);
        }
        let root = File::open(&self.blobs.root)?;
        rustix::fs::syncfs(&root).map_err(|error| io::Error::from(error).into())
    }
}

impl Drop for BlobBatch<'_> {
    fn drop(&mut self) {
        for (temporary, _) in &self.written {
            let _ = fs::remove_file(temporary);
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
        for n in 0..=ONE_BY_ONE {
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
}
