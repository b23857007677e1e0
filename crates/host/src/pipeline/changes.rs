//! What staged changes amount to: the effects of a call, with every content safely kept.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use countersign_journal::{BlobBatch, Blobs, KeyChange};
use countersign_model::effect::{Artifact, Effect, Image, Payload};
use countersign_model::{Digest, Failure};
use countersign_sandbox::staging::{Change, OutFile, Was, walk};

use super::Call;
use super::execute::{Open, Work};
use super::program::ProgramWork;
use crate::path::RelPath;
use crate::publish::Contents;
use crate::root::{LARGEST_FILE, Root, too_large};
use crate::snapshot::Snapshot;
use crate::tool::{RefMove, Staged};

/// What one fact of the journal may hold of them; an entry has 16 MiB.
const MOST_BYTES: usize = 12 << 20;

/// Old contents that one call may replace or remove: they are all kept.
const MOST_OLD_BYTES: u64 = 4 << 30;

/// Everything that the commit makes true.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) effects: Vec<Effect>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) keys: Vec<KeyChange>,
    /// Contents of files that are written, as far as they are in memory.
    pub(super) contents: Contents,
    /// Branches that are moved.
    pub(super) refs: Vec<RefMove>,
    /// Paths that are published, and that nobody else may publish meanwhile.
    pub(super) claims: BTreeSet<RelPath>,
    /// Directories around them, which nobody else may be about to remove.
    pub(super) unclaimed: BTreeSet<RelPath>,
}

impl Call<'_> {
    /// Old and new contents go into the blob store first: the new ones so that publishing can be
    /// finished after a crash, the old ones so that nothing is ever lost.
    pub(super) fn keep_changes(&self, open: &Open, work: Work) -> Result<Changes, Failure> {
        match work {
            Work::Native(staged) => native_changes(&self.host.home.blobs, &open.snapshot, staged),
            Work::Program(work) => {
                let root = open.asked.place.shared_root().map(|root| &**root);
                program_changes(&self.host.home.blobs, root, &work)
            }
        }
    }
}

fn native_changes(blobs: &Blobs, before: &Snapshot, staged: Staged) -> Result<Changes, Failure> {
    let effects = native_effects(before, &staged);
    match effects.iter().any(Effect::needs_publishing) {
        true => keep_contents(blobs, before, &staged)?,
        false => staged.keep_outputs(blobs)?,
    }
    let parents = parents(&effects);
    let new = staged.files.into_values().flatten();
    Ok(Changes {
        effects,
        contents: new.map(|new| (new.image.digest, new.bytes)).collect(),
        artifacts: staged.artifacts,
        refs: staged.refs,
        keys: staged.keys.into_iter().map(|(key, value)| KeyChange { key, value }).collect(),
        claims: before.files.keys().chain(before.links.keys()).cloned().collect(),
        unclaimed: staged.directories.into_iter().chain(parents).collect(),
    })
}

fn keep_contents(blobs: &Blobs, before: &Snapshot, staged: &Staged) -> Result<(), Failure> {
    let mut batch = blobs.batch();
    for (digest, bytes) in &staged.contents {
        batch.put_known(*digest, bytes)?;
    }
    for (path, new) in &staged.files {
        if let Some(Some(old)) = before.files.get(path) {
            batch.put_known(old.image.digest, &old.bytes)?;
        }
        if let Some(new) = new {
            batch.put_known(new.image.digest, &new.bytes)?;
        }
    }
    Ok(batch.finish()?)
}

/// A file that is written as it already was is no change.
pub(crate) fn native_effects(before: &Snapshot, staged: &Staged) -> Vec<Effect> {
    let directories = staged
        .directories
        .iter()
        .map(|path| Effect::DirectoryCreated { mode: None, path: path.to_string() });
    let files = staged.files.iter().filter_map(|(path, new)| {
        let old = before.files.get(path).and_then(|content| content.as_ref()).map(|c| c.image);
        let path = path.to_string();
        match (old, new) {
            (old, Some(new)) if old == Some(new.image) => None,
            (before, Some(new)) => Some(Effect::FileWritten { path, before, after: new.image }),
            (Some(before), None) => Some(Effect::FileDeleted { path, before }),
            (None, None) => None,
        }
    });
    let keys = staged.keys.iter().filter_map(|(key, new)| {
        let old = before.keys.get(key).and_then(|value| value.as_ref()).map(|v| Digest::of(v));
        let key = key.clone();
        match (old, new.as_ref().map(|value| Digest::of(value))) {
            (old, new) if old == new => None,
            (before, Some(after)) => Some(Effect::StatePut { key, before, after }),
            (Some(before), None) => Some(Effect::StateDeleted { key, before }),
            (None, None) => None,
        }
    });
    let links = staged.links.iter().filter_map(|(path, new)| {
        let old = before.links.get(path).cloned().flatten();
        let path = path.to_string();
        match (old, new.clone()) {
            (old, new) if old == new => None,
            (before, Some(after)) => Some(Effect::LinkWritten { after, before, path }),
            (Some(before), None) => Some(Effect::LinkDeleted { before, path }),
            (None, None) => None,
        }
    });
    let refs = staged.refs.iter().cloned().map(|moved| {
        let RefMove { repository, reference, before, after } = moved;
        Effect::RefMoved { after, before, reference, repository }
    });
    directories.chain(files).chain(links).chain(refs).chain(keys).collect()
}

fn program_changes(
    blobs: &Blobs,
    root: Option<&Root>,
    work: &ProgramWork,
) -> Result<Changes, Failure> {
    let mut batch = blobs.batch();
    let mut changes = Changes::default();
    if let (Some(root), Some(staged)) = (root, &work.staged.workspace) {
        let mut keeper =
            Keeper { root, staged: &staged.directory, batch: &mut batch, old_bytes: 0 };
        for change in &work.changes {
            changes.effects.push(keeper.effect(change)?);
        }
        check_places(root, &work.changes)?;
    }
    if let Some(out) = &work.staged.out {
        changes.artifacts = keep_artifacts(out, &work.out, &mut batch)?;
    }
    refuse_too_many(&changes)?;
    batch.finish()?;
    changes.claim();
    Ok(changes)
}

/// The effects of staged changes, with every content kept.
pub(crate) fn effects_of(
    blobs: &Blobs,
    root: &Root,
    staged: &OwnedFd,
    changes: &[Change],
) -> Result<Vec<Effect>, Failure> {
    let mut batch = blobs.batch();
    let mut keeper = Keeper { root, staged, batch: &mut batch, old_bytes: 0 };
    let mut effects = Vec::new();
    for change in changes {
        effects.push(keeper.effect(change)?);
    }
    check_places(root, changes)?;
    batch.finish()?;
    Ok(effects)
}

/// Turns what was found in staging into effects, and keeps the contents on both sides.
struct Keeper<'a, 'b> {
    root: &'a Root,
    staged: &'a OwnedFd,
    batch: &'a mut BlobBatch<'b>,
    /// How much was replaced or removed so far.
    old_bytes: u64,
}

impl Keeper<'_, '_> {
    /// Every change stays one, even if somebody has made the same one since it was found: then the
    /// commit will see that the place has moved on.
    fn effect(&mut self, change: &Change) -> Result<Effect, Failure> {
        let path = change.path().to_owned();
        Ok(match change {
            Change::DirectoryChanged { before, after, .. } => {
                Effect::DirectoryChanged { after: *after, before: *before, path }
            }
            Change::Removed { was: Was::File, .. } => {
                Effect::FileDeleted { before: self.old(&path)?, path }
            }
            Change::Removed { was: Was::Link { target }, .. } => {
                Effect::LinkDeleted { before: target.clone(), path }
            }
            Change::Removed { was: Was::Directory { mode }, .. } => {
                Effect::DirectoryDeleted { before: *mode, path }
            }
            Change::DirectoryMade { mode, .. } => {
                Effect::DirectoryCreated { mode: Some(*mode), path }
            }
            Change::FileWritten { mode, replaces, .. } => {
                let before = replaces.then(|| self.old(&path)).transpose()?;
                let Payload { digest, size } = self.staged(&path)?;
                Effect::FileWritten { after: Image { digest, mode: *mode, size }, before, path }
            }
            Change::LinkWritten { target, before, .. } => {
                Effect::LinkWritten { after: target.clone(), before: before.clone(), path }
            }
        })
    }

    fn old(&mut self, path: &str) -> Result<Image, Failure> {
        let path = RelPath::parse(path)?;
        let (mut file, mode) = self.root.content(&path)?;
        // Asked first: a file of nothing but holes would otherwise fill the store.
        let size = file.metadata().map_or(u64::MAX, |metadata| metadata.len());
        // Later it has to be recognised again, by reading it.
        if size > LARGEST_FILE {
            return Err(too_large(&path, LARGEST_FILE));
        }
        self.old_bytes = self.old_bytes.saturating_add(size);
        if self.old_bytes > MOST_OLD_BYTES {
            return Err(too_much_replaced());
        }
        let Payload { digest, size } = self.batch.put(&mut file)?;
        Ok(Image { digest, mode, size })
    }

    fn staged(&mut self, path: &str) -> Result<Payload, Failure> {
        keep_staged(self.staged, path, self.batch)
    }
}

fn keep_staged(
    staged: &OwnedFd,
    path: &str,
    batch: &mut BlobBatch<'_>,
) -> Result<Payload, Failure> {
    let mut file = walk::open_beneath(staged, path).map_err(|error| {
        let message = format!("`{}` in staging cannot be read: {error}", path.escape_debug());
        Failure::execution("STAGING_UNREADABLE", message)
    })?;
    Ok(batch.put(&mut file)?)
}

fn keep_artifacts(
    out: &OwnedFd,
    files: &[OutFile],
    batch: &mut BlobBatch<'_>,
) -> Result<Vec<Artifact>, Failure> {
    let keep = |file: &OutFile| {
        let Payload { digest, size } = keep_staged(out, &file.name, batch)?;
        Ok(Artifact { digest, media_type: None, name: file.name.clone(), size })
    };
    files.iter().map(keep).collect()
}

/// Asked before the commit, because afterwards it is too late to say no: whether names can be
/// changed where they must be, and whether there is room.
fn check_places(root: &Root, changes: &[Change]) -> Result<(), Failure> {
    let opened: BTreeSet<&str> = changes
        .iter()
        .filter(|change| {
            matches!(change, Change::DirectoryChanged { .. } | Change::DirectoryMade { .. })
        })
        .map(Change::path)
        .collect();
    let mut parents = BTreeMap::new();
    let mut bytes = 0u64;
    for change in changes {
        if let Change::FileWritten { size, .. } = change {
            bytes = bytes.saturating_add(*size);
        }
        if let Some((parent, _)) = RelPath::parse(change.path())?.split()
            && !matches!(change, Change::DirectoryChanged { .. })
            && !opened.contains(parent.as_str())
        {
            parents.insert(parent, ());
        }
    }
    parents.keys().try_for_each(|parent| root.check_writable(parent))?;
    if changes.is_empty() { Ok(()) } else { root.check_room(&RelPath::default(), bytes) }
}

fn refuse_too_many(changes: &Changes) -> Result<(), Failure> {
    let written = serde_json::to_vec(&(&changes.effects, &changes.artifacts));
    if written.is_ok_and(|bytes| bytes.len() <= MOST_BYTES) {
        return Ok(());
    }
    let count = changes.effects.len() + changes.artifacts.len();
    let message = format!("the tool made {count} changes, more than one call can record");
    Err(Failure::resource("CHANGES_TOO_MANY", message)
        .hint("let it write one archive into /out instead, or do the work in several calls"))
}

fn too_much_replaced() -> Failure {
    let message = "the tool replaces or removes more than 4 GiB, and all of it would be kept";
    Failure::resource("CHANGES_TOO_LARGE", message)
        .hint("remove large files by hand, or do the work in several calls")
}

impl Changes {
    fn claim(&mut self) {
        for effect in &self.effects {
            let Ok(path) = RelPath::parse(effect.target()) else { continue };
            match effect {
                Effect::DirectoryCreated { .. } | Effect::DirectoryChanged { .. } => {
                    self.unclaimed.insert(path);
                }
                _ => {
                    self.claims.insert(path);
                }
            }
        }
        let parents = parents(&self.effects);
        self.unclaimed.extend(parents.into_iter().filter(|path| !self.claims.contains(path)));
    }
}

/// The directories that a call writes into and does not make itself.
pub(super) fn parents(effects: &[Effect]) -> Vec<RelPath> {
    let is_made = |effect: &&Effect| matches!(effect, Effect::DirectoryCreated { .. });
    let made: BTreeSet<&str> = effects.iter().filter(is_made).map(Effect::target).collect();
    let new = effects.iter().filter_map(|effect| match effect {
        Effect::FileWritten { path, .. }
        | Effect::LinkWritten { path, .. }
        | Effect::DirectoryCreated { path, .. } => RelPath::parse(path).ok(),
        _ => None,
    });
    let parents: BTreeSet<RelPath> =
        new.filter_map(|path| path.split().map(|(parent, _)| parent)).collect();
    parents.into_iter().filter(|parent| !made.contains(parent.as_str())).collect()
}
