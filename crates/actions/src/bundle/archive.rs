//! The archive: plain tar, in which nothing depends on when or where it was made.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};

use countersign_model::Failure;
use tar::{Builder, EntryType, Header};

pub(super) struct Archive(Builder<BufWriter<File>>);

pub(super) fn lost(error: &io::Error) -> Failure {
    Failure::state("BUNDLE_LOST", format!("the bundle cannot be written: {error}"))
        .hint("free some space, and try again")
}

impl Archive {
    pub(super) fn new(file: File) -> Self {
        Archive(Builder::new(BufWriter::new(file)))
    }

    pub(super) fn add_bytes(&mut self, path: &str, bytes: &[u8]) -> Result<(), Failure> {
        self.add(path, bytes.len() as u64, &mut &*bytes)
    }

    pub(super) fn add(
        &mut self,
        path: &str,
        size: u64,
        content: &mut impl Read,
    ) -> Result<(), Failure> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(size);
        let added = self.0.append_data(&mut header, path, content);
        added.map_err(|error| lost(&error))
    }

    pub(super) fn finish(self) -> Result<File, Failure> {
        let mut buffered = self.0.into_inner().map_err(|error| lost(&error))?;
        buffered.flush().map_err(|error| lost(&error))?;
        buffered.into_inner().map_err(|error| lost(error.error()))
    }
}
