//! Content-addressed files: named by their digest, written once, checked on every read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use countersign_model::Digest;
use uuid::Uuid;

use crate::error::JournalError;

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

    /// Keeps `bytes`; when this returns they are on disk under their digest.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, JournalError> {
        let digest = Digest::of(bytes);
        let path = self.path(&digest);
        match self.get(&digest) {
            // Whoever wrote it may not have come to sync its name yet.
            Ok(_) => sync_dir(path.parent().unwrap_or(&self.root))?,
            // Absent or damaged: written, or mended.
            Err(_) => self.write(&path, bytes)?,
        }
        Ok(digest)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
        let shard = path.parent().unwrap_or(&self.root);
        // Synced each time: whoever made the shard may have died before it could.
        fs::create_dir_all(shard)?;
        sync_dir(&self.root)?;
        // Written beside its name and renamed: a blob is whole or absent.
        let temporary = shard.join(format!(".new-{}", Uuid::now_v7()));
        let written = write_synced(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written?;
        Ok(sync_dir(shard)?)
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

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
