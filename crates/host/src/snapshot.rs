//! The write set of a call as it stands: taken when its transaction begins, compared at its end.

use std::collections::BTreeMap;

use countersign_journal::Store;
use countersign_model::effect::StateImage;
use countersign_model::event::WriteSet;
use countersign_model::{Digest, Failure, WorkspaceAccess};

use crate::manifest::Manifest;
use crate::path::RelPath;
use crate::publish::lost_root;
use crate::root::{Content, Root};
use crate::tool::{Footprint, Place};

/// What the write set held when the transaction began, contents and all.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    pub(crate) files: BTreeMap<RelPath, Option<Content>>,
    pub(crate) keys: BTreeMap<String, Option<Vec<u8>>>,
    /// Where symbolic links lead.
    pub(crate) links: BTreeMap<RelPath, Option<String>>,
    /// Everything beneath the root, for a program that may change any of it.
    pub(crate) workspace: Option<Manifest>,
}

impl Snapshot {
    pub(crate) fn take(
        place: &Place,
        footprint: &Footprint,
        store: &dyn Store,
        max_file_size: u64,
    ) -> Result<Self, Failure> {
        let mut snapshot = Snapshot::default();
        for path in &footprint.files {
            snapshot.files.insert(path.clone(), place.root()?.read(path, max_file_size)?);
        }
        for path in &footprint.links {
            snapshot.links.insert(path.clone(), place.root()?.link(path)?);
        }
        for key in &footprint.keys {
            snapshot.keys.insert(key.clone(), store.key(key)?);
        }
        if footprint.workspace == Some(WorkspaceAccess::Write) {
            snapshot.workspace = Some(Manifest::take_settled(place.root()?)?);
        }
        Ok(snapshot)
    }

    pub(crate) fn digest(&self) -> Digest {
        let file = |(path, content): (&RelPath, &Option<Content>)| {
            (path.to_string(), content.as_ref().map(|content| content.image))
        };
        let key = |(key, value): (&String, &Option<Vec<u8>>)| {
            (key.clone(), value.as_ref().map(|value| Digest::of(value)))
        };
        let image = StateImage {
            files: self.files.iter().map(file).collect(),
            keys: self.keys.iter().map(key).collect(),
            links: self.links.iter().map(|(path, to)| (path.to_string(), to.clone())).collect(),
            workspace: self.workspace.as_ref().map(Manifest::digest),
        };
        image.digest()
    }

    pub(crate) fn write_set(&self) -> WriteSet {
        WriteSet {
            files: self.files.keys().map(ToString::to_string).collect(),
            keys: self.keys.keys().cloned().collect(),
            links: self.links.keys().map(ToString::to_string).collect(),
            workspace: self.workspace.is_some(),
        }
    }
}

/// The digest of a write set as it stands now. When it cannot be read, the answer is a digest that
/// no state has, so that nobody mistakes it for the one before.
pub(crate) fn digest_now(root: Option<&Root>, writes: &WriteSet, store: &dyn Store) -> Digest {
    image_now(root, writes, store).map_or(Digest::ZERO, |image| image.digest())
}

fn image_now(
    root: Option<&Root>,
    writes: &WriteSet,
    store: &dyn Store,
) -> Result<StateImage, Failure> {
    let mut image = StateImage::default();
    let root = || root.ok_or_else(lost_root);
    for path in &writes.files {
        image.files.push((path.clone(), root()?.image(&RelPath::parse(path)?)?));
    }
    for path in &writes.links {
        image.links.push((path.clone(), root()?.link(&RelPath::parse(path)?)?));
    }
    if writes.workspace {
        image.workspace = Some(Manifest::take(root()?)?.digest());
    }
    for key in &writes.keys {
        image.keys.push((key.clone(), store.key(key)?.map(|value| Digest::of(&value))));
    }
    Ok(image)
}
