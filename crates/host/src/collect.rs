//! Letting go of artifacts, as the rules of retention say.
//!
//! The journal says first which artifacts were let go of; then their contents go. Whoever is
//! interrupted in between leaves contents that nothing needs, and the next collection removes them.

mod references;
mod verdicts;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use countersign_journal::blobs::Kept;
use countersign_journal::{AppendError, Batch, Conflict, Expect};
use countersign_model::event::Fact;
use countersign_model::{
    ArtifactEvent, ArtifactId, ArtifactRecord, Digest, Failure, Principal, Timestamp,
};
use serde::Serialize;

use self::references::References;
use self::verdicts::{Verdicts, judge};
use crate::host::Host;

const DAY_MS: i64 = 86_400_000;

/// A content may have been written for a call that has yet to say so. No call takes that long.
const GRACE: Duration = Duration::from_secs(86_400);

/// How long to wait for a moment in which nobody writes.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one fact names at most; an entry has 16 MiB.
const PER_FACT: usize = 10_000;

/// Others may record something at the very moment; then it is looked at again.
const ATTEMPTS: u32 = 100;

/// What a collection did, or would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Collection {
    pub dry_run: bool,
    /// Artifacts that are older may go.
    pub older_than: Timestamp,
    pub artifacts: Vec<ArtifactRecord>,
    /// Artifacts that stay, by the reason why.
    pub kept: BTreeMap<&'static str, u64>,
    pub removed: u64,
    pub removed_bytes: u64,
    /// Contents that nothing needs and that are too young to go, or could not be removed now.
    pub left: u64,
}

impl Host {
    /// Lets go of what is older than so many days and not referred to, and removes contents that
    /// nothing names.
    pub fn collect_artifacts(
        &self,
        keep_days: u32,
        by: &Principal,
        dry_run: bool,
    ) -> Result<Collection, Failure> {
        only_people(by)?;
        let now = self.clock.now();
        let older_than = now.plus_millis(-i64::from(keep_days).saturating_mul(DAY_MS));
        // Listed before the journal is read: what comes later is not thought about.
        let mut contents = Vec::new();
        self.home.blobs.visit(&mut |kept| contents.push(kept))?;
        let mut references = References::default();
        let verdicts = self.let_go(&mut references, older_than, by, dry_run)?;
        let unneeded = unneeded(&contents, &references, &verdicts);
        let artifacts = self.records(&verdicts.gone)?;
        let mut collection = Collection {
            dry_run,
            older_than,
            artifacts,
            kept: verdicts.kept_by_reason(),
            removed: 0,
            removed_bytes: 0,
            left: 0,
        };
        self.remove(&unneeded, &mut collection)?;
        Ok(collection)
    }

    /// Decides, and says so in the journal, provided that nobody recorded anything meanwhile.
    fn let_go(
        &self,
        references: &mut References,
        older_than: Timestamp,
        by: &Principal,
        dry_run: bool,
    ) -> Result<Verdicts, Failure> {
        for _ in 0..ATTEMPTS {
            let size = self.home.store.head()?.size;
            references.read(&self.home, size)?;
            let verdicts = judge(references, older_than);
            if dry_run || verdicts.gone.is_empty() {
                return Ok(verdicts);
            }
            let batch = collected(&verdicts.gone, self.clock.now(), by, size);
            match self.home.store.append(batch) {
                Ok(_) => return Ok(verdicts),
                Err(AppendError::Conflict(Conflict::Grown)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let message = "others recorded something all the time; nothing was let go of";
        Err(Failure::state("CONFLICT", message).hint("try again when less is going on"))
    }

    fn records(&self, ids: &[ArtifactId]) -> Result<Vec<ArtifactRecord>, Failure> {
        let mut records = Vec::with_capacity(ids.len());
        for id in ids {
            records.extend(self.home.store.artifact(id)?);
        }
        Ok(records)
    }

    fn remove(&self, unneeded: &[Kept], collection: &mut Collection) -> Result<(), Failure> {
        let than = SystemTime::now().checked_sub(GRACE).unwrap_or(SystemTime::UNIX_EPOCH);
        let (old, young): (Vec<&Kept>, Vec<&Kept>) =
            unneeded.iter().partition(|kept| kept.at < than);
        collection.left = young.len() as u64;
        if collection.dry_run {
            collection.removed = old.len() as u64;
            collection.removed_bytes = old.iter().map(|kept| kept.size).sum();
            return Ok(());
        }
        let digests: Vec<Digest> = old.iter().map(|kept| kept.digest).collect();
        let removed = self.home.blobs.remove_older(&digests, than, PATIENCE)?;
        collection.removed = removed.count;
        collection.removed_bytes = removed.bytes;
        collection.left += removed.left;
        Ok(())
    }
}

/// Contents that no fact needs and that no artifact has which stays.
fn unneeded(contents: &[Kept], references: &References, verdicts: &Verdicts) -> Vec<Kept> {
    let is_needed = |digest: &Digest| {
        references.is_pinned(digest)
            || verdicts.is_kept(digest)
            || (references.is_mentioned(digest) && !references.is_of_artifact(digest))
    };
    contents.iter().filter(|kept| !is_needed(&kept.digest)).copied().collect()
}

fn collected(gone: &[ArtifactId], at: Timestamp, by: &Principal, size: u64) -> Batch {
    let fact = |ids: &[ArtifactId]| {
        let artifacts = ids.to_vec();
        (at, Fact::Artifact(ArtifactEvent::Collected { artifacts, at, by: by.clone() }))
    };
    Batch {
        facts: gone.chunks(PER_FACT).map(fact).collect(),
        expect: vec![Expect::SizeIs(size)],
        ..Batch::default()
    }
}

fn only_people(by: &Principal) -> Result<(), Failure> {
    if by.is_human() {
        return Ok(());
    }
    let message = format!("`{by}` may not let go of artifacts");
    Err(Failure::authorization("PEOPLE_ONLY", message).hint("ask a human to do it"))
}
