//! The worktree of a call as a tree that patches are applied to.

use std::collections::BTreeMap;

use countersign_host::path::RelPath;
use countersign_host::tool::{Stands, ToolContext};
use countersign_model::Failure;
use countersign_patch::{Entry, Kind, Tree};
use countersign_repository::Content;

use super::MOST_BYTES;
use crate::left::with_leash;

pub(super) struct Staging<'c> {
    context: &'c mut ToolContext,
    /// What would be different, for a patch that is only tried.
    dry: Option<BTreeMap<String, Option<Entry>>>,
}

impl<'c> Staging<'c> {
    pub(super) fn new(context: &'c mut ToolContext, check_only: bool) -> Self {
        Staging { context, dry: check_only.then(BTreeMap::new) }
    }

    fn tried(&self, path: &str) -> Option<&Option<Entry>> {
        self.dry.as_ref()?.get(path)
    }

    fn write_file(
        &mut self,
        path: &RelPath,
        bytes: Vec<u8>,
        executable: bool,
    ) -> Result<(), Failure> {
        let before = self.context.existing(path).map_or(0o644, |image| image.mode);
        // Whoever may read it may also execute it.
        let mode = if executable { before | (before & 0o444) >> 2 } else { before & !0o111 };
        self.context.write_file_with(path, bytes, Some(mode)).map(drop)
    }
}

impl Tree for Staging<'_> {
    type Error = Failure;

    fn kind(&mut self, path: &str) -> Result<Option<Kind>, Failure> {
        if let Some(tried) = self.tried(path) {
            return Ok(tried.as_ref().map(|entry| entry.kind));
        }
        Ok(self.context.stands(&RelPath::parse(path)?)?.map(|stands| match stands {
            Stands::File { mode } => Kind::File { executable: mode & 0o100 != 0 },
            Stands::Link => Kind::Link,
            // Whatever else it is, nothing can be put there.
            Stands::Directory | Stands::Other => Kind::Directory,
        }))
    }

    fn read(&mut self, path: &str) -> Result<Option<Entry>, Failure> {
        if let Some(tried) = self.tried(path) {
            return Ok(tried.clone());
        }
        let place = RelPath::parse(path)?;
        Ok(match self.kind(path)? {
            Some(kind @ Kind::File { .. }) => {
                Some(Entry { kind, content: self.context.read_file(&place)? })
            }
            Some(Kind::Link) => {
                let target = self.context.read_link(&place)?.unwrap_or_default();
                Some(Entry { kind: Kind::Link, content: target.into_bytes() })
            }
            Some(Kind::Directory) | None => None,
        })
    }

    fn write(&mut self, path: &str, entry: Entry) -> Result<(), Failure> {
        if let Some(dry) = &mut self.dry {
            dry.insert(path.to_owned(), Some(entry));
            return Ok(());
        }
        let place = RelPath::parse(path)?;
        match entry.kind {
            Kind::File { executable } => self.write_file(&place, entry.content, executable),
            Kind::Link => {
                let target = String::from_utf8(entry.content).map_err(|_| {
                    let message = format!("the link `{path}` would lead to what is not UTF-8");
                    Failure::execution("LINK_NOT_TEXT", message)
                })?;
                self.context.write_link(&place, target)
            }
            Kind::Directory => Ok(()),
        }
    }

    fn remove(&mut self, path: &str) -> Result<(), Failure> {
        let kind = self.kind(path)?;
        if let Some(dry) = &mut self.dry {
            dry.insert(path.to_owned(), None);
            return Ok(());
        }
        let place = RelPath::parse(path)?;
        match kind {
            Some(Kind::Link) => self.context.delete_link(&place),
            _ => self.context.delete_file(&place).map(drop),
        }
    }

    fn blob(&mut self, id: &str) -> Result<Option<Vec<u8>>, Failure> {
        let mut found = None;
        with_leash(self.context, |leash| {
            let worktree = self.context.place().work()?.worktree(leash)?;
            let Some(blob) = worktree.blob_by_prefix(id, leash)? else { return Ok(()) };
            let mut keep = |_, content: Content<'_>| {
                if let Content::Bytes(bytes) = content {
                    found = Some(bytes.to_vec());
                }
                Ok(())
            };
            worktree.read_blobs(&[blob], MOST_BYTES, &mut keep, leash)
        })?;
        Ok(found)
    }
}
