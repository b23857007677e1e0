//! `prepare_review_bundle`: everything that a reviewer needs, in one archive that anyone can verify.
//!
//! The archive begins with a manifest of the digest of everything else in it: the full diff, the
//! reports and logs, and a receipt of every call of the run, which holds its approvals. The manifest
//! names the tree that was bundled, so a later change of the worktree makes the bundle stale.

mod archive;
mod manifest;
mod verify;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek, SeekFrom};

use countersign_host::tool::{Footprint, NativeTool, News, Place, ToolContext};
use countersign_host::work::WorkPlace;
use countersign_journal::ArtifactFilter;
use countersign_model::digest::Hasher;
use countersign_model::{ArtifactId, ArtifactRecord, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

use self::archive::Archive;
pub use self::manifest::{BundledCall, BundledEntry, Manifest, Role};
pub use self::verify::{Problem, Verified, verify};
use crate::left::{Left, arguments, reads_workspace, with_leash};
use crate::summary::tell as tell_run;

/// What the archive is called among the artifacts.
pub const NAME: &str = "review_bundle";

#[derive(Debug, Deserialize)]
struct Arguments {
    artifacts: Option<Vec<ArtifactId>>,
}

#[derive(Debug)]
pub(crate) struct PrepareReviewBundle;

impl NativeTool for PrepareReviewBundle {
    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        reads_workspace(place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let asked: Arguments = arguments(input)?;
        let place = context.place().work()?.clone();
        let records = match &asked.artifacts {
            Some(named) => {
                let found = named.iter().map(|id| context.place().artifact(id));
                found.collect::<Result<Vec<_>, _>>()?
            }
            None => newest_of_each_name(context, &place)?,
        };
        let parts = Parts::gather(context, &place, &records)?;
        let (mut file, manifest) = parts.write(context, &place)?;
        let mut left = Left::default();
        file.seek(SeekFrom::Start(0)).map_err(|error| archive::lost(&error))?;
        let made = left.make(context, NAME, "application/x-tar", &mut file)?;
        let entries = manifest.entries.len() + 1;
        Ok(json!({
            "summary": format!("{entries} files, {} bytes", made.size),
            "artifacts": left.list(),
            "base": place.work.base,
            "tree": place.work.tree,
            "entries": entries,
            "size": made.size,
            "digest": made.digest,
            "manifest": manifest.digest()?,
        }))
    }
}

/// What a run left last under each name, but no bundles: they would grow without end.
fn newest_of_each_name(
    context: &ToolContext,
    place: &WorkPlace,
) -> Result<Vec<ArtifactRecord>, Failure> {
    let filter = ArtifactFilter { run: Some(place.work.run.clone()), ..ArtifactFilter::default() };
    let mut newest: BTreeMap<String, ArtifactRecord> = BTreeMap::new();
    context.journal().visit_artifacts(&filter, &mut |record| {
        if record.collected_at.is_none() && record.name != NAME {
            newest.entry(record.name.clone()).or_insert(record);
        }
        Ok(())
    })?;
    Ok(newest.into_values().collect())
}

/// All that goes into an archive, with its digests known.
struct Parts {
    diff: File,
    manifest: Manifest,
    receipts: Vec<Vec<u8>>,
}

impl Parts {
    fn gather(
        context: &ToolContext,
        place: &WorkPlace,
        records: &[ArtifactRecord],
    ) -> Result<Self, Failure> {
        let story = tell_run(&**context.journal(), &place.work.run)?;
        let (diff, entry) = diff(context, place)?;
        let mut entries = vec![entry];
        let distinct: BTreeSet<_> = records.iter().map(|record| record.id.clone()).collect();
        let records = records.iter().filter(|record| distinct.contains(&record.id));
        entries.extend(records.map(BundledEntry::of_artifact));
        let (mut receipts, mut calls, mut key) = (Vec::new(), Vec::new(), String::new());
        for told in &story.calls {
            context.caller().progress.tell(News::Step("receipts"));
            // This very call has no end yet, so there is nothing to prove about it.
            if told.execution == context.caller().execution {
                continue;
            }
            let (receipt, verifier) = context.receipt(told.execution)?;
            entries.push(BundledEntry::of_receipt(told.execution, &receipt));
            calls.push(BundledCall::of(told));
            receipts.push(receipt);
            key = verifier;
        }
        let manifest = Manifest {
            contract: 1,
            kind: NAME.to_owned(),
            run: place.work.run.clone(),
            workspace: place.work.workspace.clone(),
            branch: place.workspace.branch.clone(),
            base: place.work.base.clone(),
            tree: place.work.tree.clone(),
            key,
            calls,
            entries,
        };
        manifest.check_paths()?;
        Ok(Parts { diff, manifest, receipts })
    }

    fn write(self, context: &ToolContext, _place: &WorkPlace) -> Result<(File, Manifest), Failure> {
        let Parts { mut diff, manifest, receipts } = self;
        let mut archive = Archive::new(context.scratch_file()?);
        let bytes = manifest.bytes()?;
        archive.add_bytes(manifest::PATH, &bytes)?;
        let mut receipts = receipts.iter();
        for entry in &manifest.entries {
            context.check()?;
            match &entry.role {
                Role::Diff => {
                    diff.seek(SeekFrom::Start(0)).map_err(|error| archive::lost(&error))?;
                    archive.add(&entry.path, entry.size, &mut diff)?;
                }
                Role::Receipt => {
                    archive.add_bytes(&entry.path, receipts.next().map_or(&[], Vec::as_slice))?;
                }
                Role::Artifact => {
                    // Checked on the way, so what is damaged stops the call.
                    let mut file = context.scratch_file()?;
                    context.copy_blob(&entry.sha256, &mut file)?;
                    file.seek(SeekFrom::Start(0)).map_err(|error| archive::lost(&error))?;
                    archive.add(&entry.path, entry.size, &mut file)?;
                }
            }
        }
        Ok((archive.finish()?, manifest))
    }
}

/// The full diff of the run, in a file without a name.
fn diff(context: &ToolContext, place: &WorkPlace) -> Result<(File, BundledEntry), Failure> {
    let mut file = context.scratch_file()?;
    with_leash(context, |leash| {
        let worktree = place.worktree(leash)?;
        worktree.diff(&place.base()?, &place.tree()?, &[], &mut file, leash)
    })?;
    file.seek(SeekFrom::Start(0)).map_err(|error| archive::lost(&error))?;
    let size = file.metadata().map_err(|error| archive::lost(&error))?.len();
    let sha256 = Hasher::of_all(&mut file).map_err(|error| archive::lost(&error))?;
    Ok((file, BundledEntry::of_diff(sha256, size)))
}
