//! Doing what a run asks of the outside, once for each name, and telling it what came of it.

use std::sync::Arc;
use std::time::Duration;

use countersign_flow::event::RunError;
use countersign_flow::{Outcome, Refusal, Work, WorkKey, settle};
use countersign_host::Cancel;
use countersign_model::{Failure, RunId};
use serde_json::Value;

use crate::engine::{Engine, Reach, Step, told};
use crate::live::Live;
use crate::slot::{Job, Slot};
use crate::tool::RUNS;
use crate::trouble::Trouble;

/// How long another process may take to finish a call that it began.
const OTHERS: Duration = Duration::from_millis(200);

/// What is to happen to a run after something was done for it.
enum After {
    Nothing,
    Wake,
    Later(Trouble),
    GiveUp(Trouble),
}

impl Engine {
    /// Begins what nobody does yet. Calls may take long, and wait for each other alone.
    pub(crate) fn perform(&self, run: &RunId, slot: &Arc<Slot>, jobs: Vec<Job>) {
        for job in jobs {
            if self.reach() == Reach::Nothing {
                self.done(run, job.work, &job.cancel);
                continue;
            }
            let pool = match job.work {
                Work::Call { .. } => &self.0.calls,
                _ => &self.0.steps,
            };
            let (engine, run, slot) = (self.clone(), run.clone(), Arc::clone(slot));
            pool.run(move || engine.work(&run, &slot, job));
        }
    }

    fn work(&self, run: &RunId, slot: &Slot, job: Job) {
        let key = job.work.key().cloned();
        let after = self.done(run, job.work, &job.cancel);
        // Before anything else is asked for: it may be the same again.
        if let Some(key) = key {
            slot.finish(&key);
        }
        match after {
            After::Later(trouble) if trouble.is(RUNS) => self.look_again(run, OTHERS),
            After::Later(trouble) => self.try_later(run, &trouble),
            After::GiveUp(trouble) => self.give_up(run, &trouble),
            After::Wake => self.wake(run),
            // What was stopped may be wanted again since.
            After::Nothing if job.cancel.is_cancelled() => self.wake(run),
            After::Nothing => {}
        }
    }

    /// Does one thing and settles it.
    fn done(&self, run: &RunId, work: Work, cancel: &Cancel) -> After {
        let key = work.key().cloned();
        let outcome = match self.outcome(run, work, cancel) {
            Ok(outcome) => outcome,
            Err(Trouble::NoRun) => None,
            Err(trouble) if trouble.passes() => return After::Later(trouble),
            Err(trouble) => {
                tracing::warn!(%run, %trouble, "work of a run failed");
                let error = match &trouble {
                    Trouble::Failure(failure) => told(failure),
                    other => RunError::new("internal_error", other.to_string()),
                };
                Some(Outcome::Failed { error, retryable: false })
            }
        };
        let (Some(key), Some(outcome)) = (key, outcome) else { return After::Nothing };
        let settled = match self.settle(run, &key, &outcome) {
            Err(trouble) if trouble.is_too_large() => {
                let error = RunError::new("payload_too_large", trouble.to_string());
                self.settle(run, &key, &Outcome::Failed { error, retryable: false })
            }
            settled => settled,
        };
        match settled {
            Ok(()) => After::Wake,
            // Somebody cancelled, paused or settled it meanwhile.
            Err(Trouble::Command(Refusal::Stale | Refusal::NotFound) | Trouble::NoRun) => {
                After::Nothing
            }
            Err(trouble) if trouble.passes() => After::Later(trouble),
            Err(trouble) if trouble.is_too_large() => After::GiveUp(trouble),
            Err(trouble) => {
                tracing::error!(%run, %trouble, "what came of work could not be recorded");
                After::Nothing
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
    fn outcome(
        &self,
        run: &RunId,
        work: Work,
        cancel: &Cancel,
    ) -> Result<Option<Outcome>, Trouble> {
        match work {
            Work::Delay { .. } => Ok(None),
            Work::Call { key, tool, version, input, .. } => {
                self.call(run, &key, (&tool, version.as_deref()), &input, cancel)
            }
            Work::Child { run_id, workflow, inputs, key } => {
                Ok(Some(self.child(run, &key, run_id, workflow, inputs)?))
            }
            Work::Await { run_id, .. } => self.ended(&run_id.parse().map_err(invalid)?),
            Work::CancelChild { run_id } => {
                self.cancel_child(run, &run_id.parse().map_err(invalid)?)?;
                Ok(None)
            }
            Work::Model { key, request } => Ok(Some(self.modelled(run, &key, &request)?)),
            Work::Memory { key, action, config, agent } => {
                Ok(Some(self.remember(run, &key, &action, &config, agent.as_ref())?))
            }
            Work::Secret { key, secret } => {
                Ok(Some(self.0.settings.secrets.echoed(&key.node, &secret)))
            }
        }
    }

    /// Only the mock is there to answer.
    fn modelled(&self, run: &RunId, key: &WorkKey, request: &Value) -> Result<Outcome, Trouble> {
        let mocked = request.get("provider").and_then(Value::as_str) == Some("mock");
        let Some(mock) = self.mock().filter(|_| mocked) else {
            return Ok(not_offered("aiProviders"));
        };
        let tenant = self.summary(run)?.ok_or(Trouble::NoRun)?.tenant;
        Ok(Outcome::Replied(mock.reply(&tenant, run, key, request)))
    }
}

fn invalid(failure: Failure) -> Trouble {
    Trouble::Failure(failure)
}

fn not_offered(what: &str) -> Outcome {
    let message = format!("this host does not offer `{what}`");
    Outcome::Failed { error: RunError::new("capability_not_provided", message), retryable: false }
}
