//! COMPLETED: the output conforms, the effects are committed by one append and then published.

use std::sync::Arc;

use countersign_journal::{AppendError, Batch, Conflict, Expect, Guard, KeyChange};
use countersign_model::digest::canonical_json;
use countersign_model::effect::{Effect, Payload};
use countersign_model::event::{self, CallEvent};
use countersign_model::{Digest, ErrorClass, Failure};
use serde_json::Value;

use super::declare::violated;
use super::execute::{Open, check_expiry};
use super::{Call, Executed, Outcome, Step};
use crate::clock::Clock;
use crate::path::RelPath;
use crate::publish::{Patience, lost_root, publish};
use crate::root::Root;
use crate::snapshot::Snapshot;
use crate::tool::Staged;

/// The output conforms to the tool's schema.
#[derive(Debug)]
pub struct Checked<'h> {
    call: Call<'h>,
    open: Open,
    output: Value,
    bytes: Vec<u8>,
    staged: Staged,
}

/// Past the commit point: the call can only be finished now.
#[derive(Debug)]
#[must_use = "a committed call must be published"]
pub struct Committed<'h> {
    call: Call<'h>,
    open: Open,
    output: Value,
    effects: Vec<Effect>,
}

impl<'h> Executed<'h> {
    /// The tool promised an output; this is what it gave.
    pub fn check(self) -> Step<'h, Checked<'h>> {
        let Executed { call, open, output, staged } = self;
        let violations = call.tool.output.check(&output);
        if !violations.is_empty() {
            let what = "the tool's output does not fit its outputSchema";
            let failure = violated("OUTPUT_INVALID", what, &violations);
            return Err(call.roll_back(open, failure));
        }
        match canonical_json(&output) {
            Ok(bytes) => Ok(Checked { call, open, output, bytes, staged }),
            Err(error) => {
                let failure = Failure::validation("OUTPUT_INVALID", error.to_string());
                Err(call.roll_back(open, failure))
            }
        }
    }
}

impl<'h> Checked<'h> {
    /// Appends the fact that decides. Before it nothing can be seen, after it nothing can be undone.
    pub fn commit(self) -> Step<'h, Committed<'h>> {
        let Checked { mut call, open, output, bytes, staged } = self;
        if let Err(failure) = check_expiry(&open.authorization, call.recorder.now()) {
            return Err(call.abort(open, failure));
        }
        let effects = effects(&open.snapshot, &staged);
        let payload = Payload::of(&bytes);
        let prepared = call
            .keep_contents(&open.snapshot, &staged, &effects)
            .and_then(|()| call.host.home.keep(&mut call.recorder, payload, bytes));
        if let Err(failure) = prepared {
            return Err(call.roll_back(open, failure));
        }
        let mark = call.recorder.mark();
        let committed = event::Committed { output: payload, effects: effects.clone() };
        call.note(CallEvent::Committed(committed))?;
        // Key-value changes need no publishing: such a call completes in the same append.
        let settled = !effects.iter().any(Effect::needs_publishing);
        if settled {
            call.note_completed(&open, payload, Vec::new())?;
        }
        match call.recorder.flush_with(commit_batch(&call, &open, &effects, staged)) {
            Ok(()) => Ok(Committed { call, open, output, effects }),
            Err(AppendError::Conflict(conflict)) => {
                call.recorder.rewind(mark);
                Err(call.lost(open, conflict))
            }
            Err(AppendError::Journal(error)) => Err(call.broken(error.into())),
        }
    }
}

impl<'h> Call<'h> {
    /// Someone else was faster, or the grants behind the call are gone.
    fn lost(self, open: Open, conflict: Conflict) -> Box<super::Halt<'h>> {
        if matches!(conflict, Conflict::Call(_)) {
            return self.broken(conflict.into());
        }
        if matches!(conflict, Conflict::Claimed { .. }) {
            // The one that holds the claim may be dead; then finish its work for it.
            if let Err(failure) = self.host.recover() {
                tracing::warn!(%failure, "recovery failed");
            }
        }
        let failure = Failure::from(conflict);
        match failure.class {
            ErrorClass::AuthorizationError => self.abort(open, failure),
            _ => self.roll_back(open, failure),
        }
    }

    fn note_completed(
        &mut self,
        open: &Open,
        output: Payload,
        unsettled: Vec<String>,
    ) -> Step<'h, ()> {
        self.note(CallEvent::Completed(event::Completed {
            output,
            usage: open.usage,
            duration_ms: self.recorder.elapsed_ms(),
            unsettled,
        }))
    }

    /// Old and new contents go into the blob store first: the new ones so that publishing can be
    /// finished after a crash, the old ones so that nothing is ever lost.
    fn keep_contents(
        &self,
        before: &Snapshot,
        staged: &Staged,
        effects: &[Effect],
    ) -> Result<(), Failure> {
        let blobs = &self.host.home.blobs;
        if !effects.iter().any(Effect::needs_publishing) {
            return Ok(());
        }
        for (path, new) in &staged.files {
            if let Some(Some(old)) = before.files.get(path) {
                blobs.put(&old.bytes)?;
            }
            if let Some(new) = new {
                blobs.put(&new.bytes)?;
            }
        }
        Ok(())
    }
}

/// What the staged changes amount to. A file that is written as it already was is no change.
fn effects(before: &Snapshot, staged: &Staged) -> Vec<Effect> {
    let directories =
        staged.directories.iter().map(|path| Effect::DirectoryCreated { path: path.to_string() });
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
    directories.chain(files).chain(keys).collect()
}

fn commit_batch(call: &Call<'_>, open: &Open, effects: &[Effect], staged: Staged) -> Batch {
    let clock = Arc::clone(&call.host.clock);
    let mut batch = Batch { guard: Some(unexpired(open, clock)), ..Batch::default() };
    batch.expect.extend(open.authorization.grants.iter().copied().map(Expect::GrantLive));
    for (key, value) in &open.snapshot.keys {
        let digest = value.as_ref().map(|value| Digest::of(value));
        batch.expect.push(Expect::KeyIs { key: key.clone(), digest });
    }
    batch.keys.extend(staged.keys.into_iter().map(|(key, value)| KeyChange { key, value }));
    if let Some(root) = open.asked.place.shared_root()
        && effects.iter().any(Effect::needs_publishing)
    {
        batch.claims = open.snapshot.files.keys().map(|path| root.resource(path)).collect();
        batch.unclaimed = staged.directories.iter().map(|path| root.resource(path)).collect();
        let clock = Arc::clone(&call.host.clock);
        batch.guard = Some(world_unchanged(open, clock, root, parents(effects)));
    }
    batch
}

/// The directories that the call writes into and does not make itself.
fn parents(effects: &[Effect]) -> Vec<RelPath> {
    let made = |path: &RelPath| {
        effects.contains(&Effect::DirectoryCreated { path: path.as_str().to_owned() })
    };
    let new = effects.iter().filter_map(|effect| match effect {
        Effect::FileWritten { path, .. } | Effect::DirectoryCreated { path } => {
            RelPath::parse(path).ok()
        }
        _ => None,
    });
    let parents = new.filter_map(|path| path.split().map(|(parent, _)| parent));
    parents.filter(|parent| !made(parent)).collect()
}

/// Runs while nobody else can commit: however long the call had to wait for that, its grants have
/// not run out meanwhile.
pub(super) fn unexpired(open: &Open, clock: Arc<dyn Clock>) -> Guard {
    let authorization = open.authorization.clone();
    Guard::new(move || check_expiry(&authorization, clock.now()))
}

/// As [`unexpired`], and every file of the write set is still what the call saw, and the directories
/// around them are still there.
fn world_unchanged(
    open: &Open,
    clock: Arc<dyn Clock>,
    root: &Arc<Root>,
    parents: Vec<RelPath>,
) -> Guard {
    let (root, snapshot) = (Arc::clone(root), Arc::clone(&open.snapshot));
    let authorization = open.authorization.clone();
    Guard::new(move || {
        check_expiry(&authorization, clock.now())?;
        for parent in &parents {
            if !root.has_directory(parent).or_else(replaced)? {
                return Err(changed(&format!("the directory `{parent}` was removed")));
            }
        }
        for (path, content) in &snapshot.files {
            let before = content.as_ref().map(|content| content.image);
            if !root.is_still(path, before).or_else(replaced)? {
                return Err(changed(&format!("`{path}` was changed")));
            }
        }
        Ok(())
    })
}

/// Something of another kind stands there now: changed, like everything else that is not the same.
fn replaced(failure: Failure) -> Result<bool, Failure> {
    match failure.code.as_ref() {
        "NOT_A_DIRECTORY" | "NOT_A_FILE" | "FILE_NOT_FOUND" => Ok(false),
        _ => Err(failure),
    }
}

fn changed(what: &str) -> Failure {
    Failure::state("CONFLICT", format!("{what} meanwhile"))
        .hint("nothing was written; call again to work on the new content")
}

impl Committed<'_> {
    /// Makes the effects visible. A crash from here on is finished by recovery.
    pub fn publish(self) -> Result<Outcome, Failure> {
        let Committed { mut call, open, output, effects } = self;
        let execution = call.recorder.execution();
        if effects.iter().any(Effect::needs_publishing) {
            let root = open.asked.place.shared_root();
            let lost = lost_root();
            let root = root.map(|root| &**root).ok_or(&lost);
            let blobs = &call.host.home.blobs;
            let published = publish(root, blobs, execution, &effects, Patience::Wait);
            let unsettled = match published {
                Ok(unsettled) => unsettled,
                Err(failure) => return Err(unfinished(*call.broken(failure))),
            };
            let finished = call
                .recorder
                .summary()
                .output
                .map_or(Ok(()), |payload| call.note_completed(&open, payload, unsettled));
            let batch = Batch { release_claims: Some(execution), ..Batch::default() };
            let recorded = finished
                .and_then(|()| call.recorder.flush_with(batch).map_err(|e| call.unrecorded(e)));
            if let Err(halt) = recorded {
                return Err(unfinished(*halt));
            }
        }
        call.host.leave(execution);
        Ok(call.outcome(Ok(output)))
    }
}

fn unfinished(halt: super::Halt<'_>) -> Failure {
    match halt {
        super::Halt::Broken(failure) => failure,
        _ => Failure::state("INTERNAL", "the call could not be finished"),
    }
}
