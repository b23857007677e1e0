//! Objects of git, named and written by ourselves, for what is too small to start a program for.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use countersign_model::Failure;
use countersign_model::digest::Hasher;
use miniz_oxide::deflate::compress_to_vec_zlib;

use crate::files::{Scratch, broken};
use crate::id::{ObjectFormat, ObjectId};
use crate::presence;

/// Little effort: whoever waits for an action waits for this.
const EFFORT: u8 = 1;

/// Up to so many are synced each by itself; for more it is cheaper to sync everything.
const ONE_BY_ONE: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Blob,
    Tree,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Blob => "blob",
            Kind::Tree => "tree",
        }
    }
}

fn head(kind: Kind, content: &[u8]) -> String {
    format!("{} {}\0", kind.name(), content.len())
}

/// What git would call it. Content that was made to share its SHA-1 with another has no name, here
/// as with git.
pub(crate) fn name(format: ObjectFormat, kind: Kind, content: &[u8]) -> Result<ObjectId, Failure> {
    let head = head(kind, content);
    let parts = [head.as_bytes(), content];
    match format {
        ObjectFormat::Sha256 => {
            let mut hasher = Hasher::default();
            parts.iter().for_each(|part| hasher.update(part));
            Ok(ObjectId::from_bytes(format, hasher.finish().as_bytes()))
        }
        ObjectFormat::Sha1 => {
            let mut hasher = sha1_checked::Sha1::new();
            parts.iter().for_each(|part| sha1_checked::Digest::update(&mut hasher, part));
            let sum = hasher.try_finalize();
            if sum.has_collision() {
                let message = "a file was made to have the same SHA-1 as another";
                return Err(Failure::state("OBJECT_COLLIDES", message).hint("remove the file"));
            }
            Ok(ObjectId::from_bytes(format, sum.hash()))
        }
    }
}

/// Objects on their way into a directory of objects. None has its name before `finish`.
pub(crate) struct Writing<'o> {
    objects: &'o Path,
    written: Vec<(Scratch, ObjectId)>,
}

impl<'o> Writing<'o> {
    pub(crate) fn new(objects: &'o Path) -> Self {
        Writing { objects, written: Vec::new() }
    }

    /// Takes an object in, unless it is here already.
    pub(crate) fn add(&mut self, id: &ObjectId, packed: Option<&[u8]>) -> Result<(), Failure> {
        let Some(packed) = packed else { return Ok(()) };
        let new = Scratch::file(self.objects, "tmp_obj");
        let write = || -> io::Result<()> {
            let mut open = OpenOptions::new();
            open.write(true).create_new(true).mode(0o444).open(new.path())?.write_all(packed)
        };
        write().map_err(|error| broken("write", new.path(), &error))?;
        self.written.push((new, *id));
        Ok(())
    }

    /// When this returns, all of them are on disk under their names.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        if self.written.is_empty() {
            return Ok(());
        }
        // Content first, so that a name never stands for less than all of it.
        self.sync(&self.written.iter().map(|(new, _)| new.path().to_owned()).collect())?;
        let mut named = BTreeSet::from([self.objects.to_owned()]);
        for (new, id) in self.written.drain(..) {
            let path = presence::loose(self.objects, &id);
            let shard = path.parent().unwrap_or(self.objects).to_owned();
            let placed = fs::create_dir_all(&shard).and_then(|()| fs::rename(new.path(), &path));
            placed.map_err(|error| broken("write", &path, &error))?;
            named.insert(shard);
        }
        self.sync(&named)
    }

    fn sync(&self, paths: &BTreeSet<PathBuf>) -> Result<(), Failure> {
        let sync = || -> io::Result<()> {
            if paths.len() > ONE_BY_ONE {
                return Ok(rustix::fs::syncfs(File::open(self.objects)?)?);
            }
            paths.iter().try_for_each(|path| File::open(path)?.sync_all())
        };
        sync().map_err(|error| broken("sync", self.objects, &error))
    }
}

/// An object as its file holds it; nothing if it has its file already.
pub(crate) fn packed(objects: &Path, id: &ObjectId, kind: Kind, content: &[u8]) -> Option<Vec<u8>> {
    if presence::is_loose(objects, id) {
        return None;
    }
    let whole = [head(kind, content).as_bytes(), content].concat();
    Some(compress_to_vec_zlib(&whole, EFFORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_git_gives() {
        let of = |format, kind, content: &[u8]| name(format, kind, content).unwrap().to_string();
        let hello = of(ObjectFormat::Sha1, Kind::Blob, b"hello\n");
        assert_eq!(hello, "ce013625030ba8dba906f756967f9e9ca394464a");
        let empty = of(ObjectFormat::Sha1, Kind::Tree, b"");
        assert_eq!(empty, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let empty = of(ObjectFormat::Sha256, Kind::Tree, b"");
        assert_eq!(empty, "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321");
    }
}
