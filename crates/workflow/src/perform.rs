//! Doing what a run asks of the outside, once for each name, and telling it what came of it.

use std::sync::{Arc, PoisonError};

use countersign_flow::event::RunError;
use countersign_flow::{Outcome, Refusal, Work, WorkKey, settle};
use countersign_model::{Failure, RunId};

use crate::engine::{Engine, Reach, Slot, Step, told};
use crate::live::Live;
use crate::trouble::Trouble;

/// Which piece of work of a run.
pub(crate) type WorkName = WorkKey;

impl Engine {
    /// Begins what is not being done already. What waits for a moment is the alarm's.
    pub(crate) fn perform(&self, run: &RunId, slot: &Arc<Slot>, work: Vec<Work>) {
        for one in work {
            if let Work::Delay { .. } = one {
                continue;
            }
            if self.reach() == Reach::Nothing {
                // What a command brings about is finished with it; the rest is for others.
                if let Work::CancelChild { .. } = one {
                    self.done(run, one);
                }
                continue;
            }
            let key = one.key().cloned();
            if key.as_ref().is_some_and(|key| !begun(slot, key)) {
                continue;
            }
            let (engine, run, slot) = (self.clone(), run.clone(), Arc::clone(slot));
            self.0.pool.run(move || {
                let again = engine.done(&run, one);
                if let Some(key) = key {
                    let mut at_work = slot.at_work.lock().unwrap_or_else(PoisonError::into_inner);
                    at_work.remove(&key);
                }
                if again {
                    engine.wake(&run);
                }
            });
        }
    }

    /// Does one thing and settles it. Says whether the run should be looked at again.
    fn done(&self, run: &RunId, work: Work) -> bool {
        let key = work.key().cloned();
        let outcome = match self.outcome(run, work) {
            Ok(outcome) => outcome,
            Err(Trouble::NoRun) => None,
            Err(trouble) => {
                tracing::warn!(%run, %trouble, "work of a run failed");
                let error = match &trouble {
                    Trouble::Failure(failure) => told(failure),
                    other => RunError::new("internal_error", other.to_string()),
                };
                Some(Outcome::Failed { error, retryable: false })
            }
        };
        let (Some(key), Some(outcome)) = (key, outcome) else { return false };
        match self.settle(run, &key, &outcome) {
            Ok(()) => true,
            // Somebody cancelled, paused or settled it meanwhile.
            Err(Trouble::Command(Refusal::Stale | Refusal::NotFound) | Trouble::NoRun) => false,
            Err(Trouble::Failure(failure)) if failure.code == "ENTRY_UNRECORDABLE" => {
                let error = RunError::new("payload_too_large", failure.message);
                let lost = Outcome::Failed { error, retryable: false };
                self.settle(run, &key, &lost).is_ok()
            }
            Err(trouble) => {
                tracing::error!(%run, %trouble, "what came of work could not be recorded");
                false
            }
        }
    }

    fn settle(&self, run: &RunId, key: &WorkKey, outcome: &Outcome) -> Result<(), Trouble> {
        self.step(run, |live, context| {
            let Live { definition, seed, state, .. } = live;
            let events = settle(definition, seed, state, key, outcome.clone(), context)?;
            Ok(Step::of(events))
        })
    }

    /// None if it has not come to anything yet, and somebody will tell.
    fn outcome(&self, run: &RunId, work: Work) -> Result<Option<Outcome>, Trouble> {
        match work {
            Work::Delay { .. } => Ok(None),
            Work::Call { key, tool, version, input, .. } => {
                self.call(run, &key, &tool, version.as_deref(), &input)
            }
            Work::Child { run_id, workflow, inputs, key } => {
                Ok(Some(self.child(run, &key, run_id, workflow, inputs)?))
            }
            Work::Await { run_id, .. } => self.ended(&run_id.parse().map_err(invalid)?),
            Work::CancelChild { run_id } => {
                self.cancel_child(run, &run_id.parse().map_err(invalid)?)?;
                Ok(None)
            }
            Work::Model { .. } => Ok(Some(not_offered("aiProviders"))),
            Work::Memory { .. } => Ok(Some(not_offered("memory"))),
            Work::Secret { .. } => Ok(Some(not_offered("secrets"))),
        }
    }
}

fn invalid(failure: Failure) -> Trouble {
    Trouble::Failure(failure)
}

fn not_offered(what: &str) -> Outcome {
    let message = format!("this host does not offer `{what}`");
    Outcome::Failed { error: RunError::new("capability_not_provided", message), retryable: false }
}

/// Whether this is the first to begin it.
fn begun(slot: &Slot, key: &WorkKey) -> bool {
    slot.at_work.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone())
}
