//! What was done before under the same key: its result stands, or it must not be done again.

use countersign_journal::Expect;
use countersign_model::digest::{Hasher, canonical_json};
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, CallFact, Fact, Replayed};
use countersign_model::record::CallSummary;
use countersign_model::{ArtifactId, Consumed, Digest, ExecutionId, Failure, Lifecycle};
use serde_json::Value;

use super::declare::Asked;
use super::{Call, Halt, Outcome, Step};
use crate::registry::Implementation;
use crate::tool::Repeats;

/// What the past says about a call.
pub(super) enum Past {
    /// It was done, and this came of it.
    Done(Box<Earlier>),
    /// It cannot be done now.
    InTheWay(Failure),
}

/// An earlier call under the same key.
pub(super) struct Earlier {
    key: Digest,
    execution: ExecutionId,
    output: Payload,
    bytes: Vec<u8>,
    value: Value,
    artifacts: Vec<Artifact>,
}

impl<'h> Call<'h> {
    fn repeats(&self) -> Repeats {
        match &self.tool.implementation {
            Implementation::Native(native) => native.repeats(),
            Implementation::Program(_) => Repeats::Always,
        }
    }

    fn stands(&self, output: &Value) -> bool {
        match &self.tool.implementation {
            Implementation::Native(native) => native.stands(output),
            Implementation::Program(_) => true,
        }
    }

    /// The same for calls that do the same to the same: action, declaration, input and workspace.
    pub(super) fn key_of(&self, asked: &Asked) -> Option<Digest> {
        let work = &asked.place.shared_work()?.work;
        if self.repeats() == Repeats::Always {
            return None;
        }
        let input = canonical_json(&self.by_content(&asked.input)).ok()?;
        let mut hasher = Hasher::default();
        let mode = self.circumstances.mode.as_str();
        let declaration = self.tool.digest.to_string();
        let tool = self.tool.declaration.id.as_str();
        let workspace = work.workspace.as_str();
        // What a run publishes bears its name, so the same of another run is something else.
        let run = if self.repeats() == Repeats::Once { work.run.as_str() } else { "" };
        for part in [tool, &declaration, mode, &work.base, &work.tree, workspace, run] {
            hasher.update(part.as_bytes());
            hasher.update(&[0]);
        }
        hasher.update(&input);
        Some(hasher.finish())
    }

    /// The input with artifacts named by what is in them: who made them makes no difference.
    fn by_content(&self, input: &Value) -> Value {
        replace(input, &self.circumstances.consumes)
    }

    /// For what must be done once: nobody else does or did it.
    pub(super) fn first_of(&self) -> Option<Expect> {
        let once = self.repeats() == Repeats::Once;
        self.recorder.summary().key.filter(|_| once).map(Expect::FirstOf)
    }

    /// Whether the same was done before.
    pub(super) fn look_back(&self, key: Digest) -> Step<'h, Option<Past>> {
        if self.fresh && self.repeats() == Repeats::Idempotent {
            return Ok(None);
        }
        self.past(key).map_err(|failure| self.broken(failure))
    }

    fn past(&self, key: Digest) -> Result<Option<Past>, Failure> {
        let store = &self.host.home.store;
        let Some(execution) = store.keyed(&key)? else { return Ok(None) };
        let Some(earlier) = store.call(execution)? else { return Ok(None) };
        match earlier.state {
            Lifecycle::Completed => self.earlier(key, &earlier),
            _ if earlier.is_unknown() => Ok(Some(Past::InTheWay(unknown(&earlier)))),
            _ => Ok(Some(Past::InTheWay(runs_already(execution)))),
        }
    }

    /// What is left of an earlier call. Where something of it was let go of, it is done again; what
    /// must be done once is not.
    fn earlier(&self, key: Digest, call: &CallSummary) -> Result<Option<Past>, Failure> {
        let home = &self.host.home;
        let Some(output) = call.output else { return Ok(None) };
        let bytes = home.payload(call.execution, &output)?;
        let value = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::state("JOURNAL_CORRUPT", format!("an output cannot be read: {error}"))
        })?;
        if !self.stands(&value) {
            return Ok(None);
        }
        let artifacts = self.host.artifacts_of(call.execution)?;
        if self.repeats() == Repeats::Idempotent && !self.are_whole(call.execution, &artifacts)? {
            return Ok(None);
        }
        let execution = call.execution;
        Ok(Some(Past::Done(Box::new(Earlier { key, execution, output, bytes, value, artifacts }))))
    }

    /// Whether all artifacts of a call can still be read. The content of one that was let go of may
    /// be there again, but under the name of another.
    fn are_whole(&self, of: ExecutionId, artifacts: &[Artifact]) -> Result<bool, Failure> {
        let home = &self.host.home;
        for artifact in artifacts {
            let record = home.store.artifact(&ArtifactId::of(of, &artifact.name))?;
            let is_kept = record.is_some_and(|record| record.collected_at.is_none());
            if !is_kept || !home.blobs.holds(&artifact.digest) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the call with what an earlier one gave.
    pub(super) fn give(mut self, earlier: Earlier) -> Box<Halt<'h>> {
        let Earlier { key, execution, output, bytes, value, artifacts } = earlier;
        if let Err(failure) = self.host.home.keep(&mut self.recorder, output, bytes) {
            return self.broken(failure);
        }
        let event = CallEvent::Replayed(Replayed { key, of: execution, output });
        if let Err(halt) = self.note(event).and_then(|()| self.flush()) {
            return halt;
        }
        self.host.leave(self.recorder.execution());
        let outcome = Outcome { artifacts, ..self.outcome(Ok(value)) };
        Box::new(Halt::Ended(Box::new(outcome)))
    }
}

/// Every id of a consumed artifact, replaced by the digest of its content.
fn replace(value: &Value, consumed: &[Consumed]) -> Value {
    match value {
        Value::String(text) => {
            let found = consumed.iter().find(|one| one.artifact.as_str() == text);
            found.map_or_else(|| value.clone(), |one| Value::String(one.digest.to_string()))
        }
        Value::Array(items) => items.iter().map(|item| replace(item, consumed)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, item)| (name.clone(), replace(item, consumed))).collect()
        }
        other => other.clone(),
    }
}

fn unknown(earlier: &CallSummary) -> Failure {
    let message = "the same was begun before, and nobody knows how far it came";
    Failure::state("OUTCOME_UNKNOWN", message).hint(format!(
        "look at `countersign execution show {}` and at where it would have gone; then ask \
             for something that differs",
        earlier.execution
    ))
}

pub(super) fn runs_already(by: ExecutionId) -> Failure {
    Failure::state("SAME_CALL_RUNS", format!("execution {by} does the same at this moment"))
        .hint("wait for it; what is done once is not done twice")
}

impl crate::host::Host {
    /// What a call left behind.
    pub fn artifacts_of(&self, execution: ExecutionId) -> Result<Vec<Artifact>, Failure> {
        let entries = self.home.store.call_entries(execution)?;
        let made = entries.into_iter().find_map(|stored| match stored.entry.fact {
            Fact::Call(CallFact { event: CallEvent::Committed(committed), .. }) => {
                Some(committed.artifacts)
            }
            _ => None,
        });
        Ok(made.unwrap_or_default())
    }
}
