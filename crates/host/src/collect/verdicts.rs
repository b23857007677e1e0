//! Which artifacts stay, and why.

use std::collections::{BTreeMap, HashMap, HashSet};

use countersign_model::{ArtifactId, Digest, ExecutionId, RunId, Timestamp};

use super::references::{Made, References};

/// Reasons why an artifact stays, the weightiest first.
const YOUNG: &str = "younger than the retention";
const UNFINISHED: &str = "its call has not ended";
const RUN_OPEN: &str = "a call of its run has not ended";
const IN_USE: &str = "a call that has not ended uses it";
const USED: &str = "a younger call used it";
const GIVEN: &str = "a younger call gave it again";
const BUNDLED: &str = "a review bundle names it";
const NEEDED: &str = "something else has the same content";

/// What is decided about every artifact that still has its content.
#[derive(Debug, Default)]
pub(super) struct Verdicts {
    pub(super) gone: Vec<ArtifactId>,
    kept: HashSet<Digest>,
    reasons: Vec<&'static str>,
}

impl Verdicts {
    pub(super) fn is_kept(&self, digest: &Digest) -> bool {
        self.kept.contains(digest)
    }

    pub(super) fn kept_by_reason(&self) -> BTreeMap<&'static str, u64> {
        self.reasons.iter().fold(BTreeMap::new(), |mut counts, reason| {
            *counts.entry(*reason).or_default() += 1;
            counts
        })
    }
}

/// Bundles that stay hold on to others, and those may be bundles, so this goes on until nothing
/// changes.
pub(super) fn judge(references: &References, older_than: Timestamp) -> Verdicts {
    let mut holds = Holds::of(references, older_than);
    loop {
        let verdicts = holds.verdicts(references, older_than);
        if !holds.hold_bundled(references, &verdicts) {
            return verdicts;
        }
    }
}

/// Who holds on to what.
struct Holds<'r> {
    open_runs: HashSet<&'r RunId>,
    artifacts: HashMap<&'r ArtifactId, &'static str>,
    producers: HashMap<ExecutionId, &'static str>,
}

impl<'r> Holds<'r> {
    fn of(references: &'r References, older_than: Timestamp) -> Self {
        let mut holds = Holds {
            open_runs: HashSet::new(),
            artifacts: HashMap::new(),
            producers: HashMap::new(),
        };
        for (execution, note) in &references.calls {
            let reason = match (note.ended, note.at > older_than) {
                (false, _) => IN_USE,
                (true, true) => USED,
                (true, false) => continue,
            };
            if !note.ended {
                holds.producers.insert(*execution, UNFINISHED);
                holds.open_runs.extend(&note.run);
            }
            for id in &note.consumes {
                holds.artifacts.insert(id, reason);
            }
            if let Some(of) = note.gave {
                holds.producers.entry(of).or_insert(GIVEN);
            }
        }
        holds
    }

    fn verdicts(&self, references: &References, older_than: Timestamp) -> Verdicts {
        let mut verdicts = Verdicts::default();
        let mut loose: Vec<&Made> = Vec::new();
        for made in references.made.iter().filter(|made| !references.collected.contains(&made.id)) {
            match self.reason(made, older_than) {
                Some(reason) => {
                    verdicts.kept.insert(made.digest);
                    verdicts.reasons.push(reason);
                }
                None => loose.push(made),
            }
        }
        for made in loose {
            // Nothing is won by letting go of it.
            match references.is_pinned(&made.digest) || verdicts.is_kept(&made.digest) {
                true => verdicts.reasons.push(NEEDED),
                false => verdicts.gone.push(made.id.clone()),
            }
        }
        verdicts
    }

    fn reason(&self, made: &Made, older_than: Timestamp) -> Option<&'static str> {
        if made.at > older_than {
            return Some(YOUNG);
        }
        if made.run.as_ref().is_some_and(|run| self.open_runs.contains(run)) {
            return Some(RUN_OPEN);
        }
        let of_producer = self.producers.get(&made.producer);
        self.artifacts.get(&made.id).or(of_producer).copied()
    }

    /// What bundles name that stay; whether that is more than before.
    fn hold_bundled(&mut self, references: &'r References, verdicts: &Verdicts) -> bool {
        let before = self.artifacts.len();
        let gone: HashSet<&ArtifactId> = verdicts.gone.iter().collect();
        let stays = |made: &&Made| {
            made.is_bundle && !references.collected.contains(&made.id) && !gone.contains(&made.id)
        };
        for bundle in references.made.iter().filter(stays) {
            match references.calls.get(&bundle.producer) {
                Some(note) if !note.consumes.is_empty() => {
                    for id in &note.consumes {
                        self.artifacts.entry(id).or_insert(BUNDLED);
                    }
                }
                // It took whatever its run had made by then.
                _ => self.hold_run_before(references, bundle),
            }
        }
        self.artifacts.len() > before
    }

    fn hold_run_before(&mut self, references: &'r References, bundle: &Made) {
        let earlier = references.made.iter().take_while(|made| made.id != bundle.id);
        let same_run = |made: &&Made| bundle.run.is_some() && made.run == bundle.run;
        for made in earlier.filter(same_run) {
            self.artifacts.entry(&made.id).or_insert(BUNDLED);
        }
    }
}
