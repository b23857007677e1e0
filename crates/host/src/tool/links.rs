//! Symbolic links that a built-in tool changes. They are staged like files; none is ever followed.

use countersign_model::{Capability, Failure, Need};

use super::ToolContext;
use crate::path::RelPath;
use crate::root::{Standing, not_found};

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stands {
    File { mode: u32 },
    Link,
    Directory,
    Other,
}

impl ToolContext {
    /// What stands at a path as the tool sees it, its own changes included. Whoever may read a file
    /// may also know what leads to it.
    pub fn stands(&mut self, path: &RelPath) -> Result<Option<Stands>, Failure> {
        if !self.leads_to_announced(path)? {
            self.permit_path(Capability::FilesystemRead, path)?;
        }
        let file = self.existing(path).map(|image| Stands::File { mode: image.mode });
        let known = self.staged.files.contains_key(path) || self.staged.links.contains_key(path);
        if file.is_some() || known {
            let link = self.staged.links.get(path).cloned().flatten();
            return Ok(file.or(link.map(|_| Stands::Link)));
        }
        let root = self.place.root()?;
        Ok(match root.standing(path)? {
            Standing::Nothing => None,
            Standing::File => Some(Stands::File { mode: root.content(path)?.1 }),
            Standing::Directory { .. } => Some(Stands::Directory),
            Standing::Link(_) => Some(Stands::Link),
            Standing::Other => Some(Stands::Other),
        })
    }

    fn leads_to_announced(&self, path: &RelPath) -> Result<bool, Failure> {
        let above = format!("{}/", self.place.root()?.resource(path));
        let read = |need: &&Need| need.capability == Capability::FilesystemRead;
        Ok(self.footprint.needs.iter().filter(read).any(|need| need.resource.starts_with(&above)))
    }

    /// Where a link leads, as the tool sees it.
    pub fn read_link(&mut self, path: &RelPath) -> Result<Option<String>, Failure> {
        self.permit_path(Capability::FilesystemRead, path)?;
        Ok(match self.staged.links.get(path) {
            Some(staged) => staged.clone(),
            None => self.link_before(path),
        })
    }

    fn link_before(&self, path: &RelPath) -> Option<String> {
        self.snapshot.links.get(path).cloned().flatten()
    }

    pub fn write_link(&mut self, path: &RelPath, target: String) -> Result<(), Failure> {
        self.permit_path(Capability::FilesystemWrite, path)?;
        self.permit_change(self.snapshot.links.contains_key(path), path.as_str())?;
        self.stage_directories(path, target.len() as u64)?;
        self.staged.links.insert(path.clone(), Some(target));
        Ok(())
    }

    pub fn delete_link(&mut self, path: &RelPath) -> Result<(), Failure> {
        self.permit_path(Capability::FilesystemDelete, path)?;
        self.permit_change(self.snapshot.links.contains_key(path), path.as_str())?;
        if self.read_link(path)?.is_none() {
            return Err(not_found(path));
        }
        self.staged.links.insert(path.clone(), None);
        Ok(())
    }
}
