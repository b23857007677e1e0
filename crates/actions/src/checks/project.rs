//! The worktree of a run as a project whose tools are looked for.

use std::cell::RefCell;
use std::collections::BTreeSet;

use countersign_host::path::RelPath;
use countersign_host::tool::ToolContext;
use countersign_model::Failure;
use countersign_reports::detect::Project;

use crate::left::with_leash;

/// Manifests are small.
const MOST_BYTES: u64 = 1 << 20;

pub(super) struct Files<'c> {
    context: RefCell<&'c mut ToolContext>,
    paths: BTreeSet<String>,
}

impl<'c> Files<'c> {
    pub(super) fn new(context: &'c mut ToolContext) -> Result<Self, Failure> {
        let place = context.place().work()?.clone();
        let listing =
            with_leash(context, |leash| place.worktree(leash)?.list(&place.tree()?, leash))?;
        let paths = listing.entries.into_iter().map(|entry| entry.path).collect();
        Ok(Files { context: RefCell::new(context), paths })
    }
}

impl Project for Files<'_> {
    fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    fn read(&self, path: &str) -> Option<String> {
        if !self.has(path) {
            return None;
        }
        let path = RelPath::parse(path).ok()?;
        let bytes = self.context.borrow_mut().read_start(&path, MOST_BYTES + 1).ok()?;
        String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= MOST_BYTES)
    }

    fn paths(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.paths.iter().map(String::as_str))
    }
}
