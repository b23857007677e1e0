//! COMPLETED: the output conforms, the effects are committed by one append and then published.

use std::collections::BTreeSet;
use std::sync::Arc;

use countersign_journal::{AppendError, Batch, Conflict, Expect, Guard};
use countersign_model::digest::canonical_json;
use countersign_model::effect::{Artifact, Effect, Payload};
use countersign_model::event::{self, CallEvent};
use countersign_model::{Digest, ErrorClass, Failure};
use serde_json::Value;

use super::changes::{Changes, parents};
use super::declare::violated;
use super::execute::{Open, Work, check_expiry};
use super::{Call, Executed, Outcome, Step};
use crate::approvals::void;
use crate::clock::Clock;
use crate::manifest::{Manifest, conflict};
use crate::path::RelPath;
use crate::publish::{Contents, Patience, Source, check_refs, lost_root, publish};
use crate::root::Root;
use crate::tool::RefMove;

/// The output conforms to the tool's schema.
#[derive(Debug)]
pub struct Checked<'h> {
    call: Call<'h>,
    open: Open,
    output: Value,
    bytes: Vec<u8>,
    work: Work,
}

/// Past the commit point: the call can only be finished now.
#[derive(Debug)]
#[must_use = "a committed call must be published"]
pub struct Committed<'h> {
    call: Call<'h>,
    open: Open,
    output: Value,
    effects: Vec<Effect>,
    contents: Contents,
    artifacts: Vec<Artifact>,
}

impl<'h> Executed<'h> {
    /// The tool promised an output; this is what it gave.
    pub fn check(self) -> Step<'h, Checked<'h>> {
        let Executed { call, open, output, work } = self;
        let violations = call.tool.output.check(&output);
        if !violations.is_empty() {
            let what = "the tool's output does not fit its outputSchema";
            let failure = violated("OUTPUT_INVALID", what, &violations);
            return Err(call.roll_back(open, failure));
        }
        match canonical_json(&output) {
            Ok(bytes) => Ok(Checked { call, open, output, bytes, work }),
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
        let Checked { mut call, open, output, bytes, work } = self;
        if let Err(failure) = check_expiry(&open.authorization, call.recorder.now()) {
            return Err(call.abort(open, failure));
        }
        let payload = Payload::of(&bytes);
        let prepared = call.keep_changes(&open, work).and_then(|changes| {
            call.host.home.keep(&mut call.recorder, payload, bytes)?;
            Ok(changes)
        });
        let mut changes = match prepared {
            Ok(changes) => changes,
            Err(failure) => return Err(call.roll_back(open, failure)),
        };
        let mark = call.recorder.mark();
        call.note(CallEvent::Committed(event::Committed {
            artifacts: changes.artifacts.clone(),
            connections: open.trace.connections.clone(),
            effects: changes.effects.clone(),
            output: payload,
            stderr: open.trace.stderr,
            stdout: open.trace.stdout,
        }))?;
        // Key-value changes need no publishing: such a call completes in the same append.
        let settled = !changes.effects.iter().any(Effect::needs_publishing);
        if settled {
            call.note_completed(&open, payload, Vec::new())?;
        }
        let (effects, artifacts) = (changes.effects.clone(), changes.artifacts.clone());
        let contents = std::mem::take(&mut changes.contents);
        match call.recorder.flush_with(commit_batch(&call, &open, changes)) {
            Ok(()) => Ok(Committed { call, open, output, effects, contents, artifacts }),
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
        let failure = match conflict {
            Conflict::People => void(&["who may approve"]),
            conflict => Failure::from(conflict),
        };
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
}

fn commit_batch(call: &Call<'_>, open: &Open, changes: Changes) -> Batch {
    let clock = Arc::clone(&call.host.clock);
    let mut batch = Batch { guard: Some(unexpired(open, clock)), ..Batch::default() };
    batch.expect.extend(open.authorization.grants.iter().copied().map(Expect::GrantLive));
    batch.expect.extend(call.people.map(Expect::PeopleAt));
    for (key, value) in &open.snapshot.keys {
        let digest = value.as_ref().map(|value| Digest::of(value));
        batch.expect.push(Expect::KeyIs { key: key.clone(), digest });
    }
    batch.keys = changes.keys;
    if let Some(root) = open.asked.place.shared_root()
        && changes.effects.iter().any(Effect::needs_publishing)
    {
        batch.claims = changes.claims.iter().map(|path| root.resource(path)).collect();
        batch.claims.extend(changes.refs.iter().map(name_of));
        batch.unclaimed = changes.unclaimed.iter().map(|path| root.resource(path)).collect();
        let clock = Arc::clone(&call.host.clock);
        batch.guard = Some(world_unchanged(open, clock, root, changes.effects));
    }
    batch
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
    effects: Vec<Effect>,
) -> Guard {
    let (root, snapshot) = (Arc::clone(root), Arc::clone(&open.snapshot));
    let authorization = open.authorization.clone();
    Guard::new(move || {
        check_expiry(&authorization, clock.now())?;
        check_refs(&effects)?;
        if let Some(manifest) = &snapshot.workspace {
            return workspace_unchanged(&root, manifest, &effects);
        }
        for parent in &parents(&effects) {
            if !root.has_directory(parent).or_else(replaced)? {
                return Err(changed(&format!("the directory `{parent}` was removed")));
            }
        }
        for (path, to) in &snapshot.links {
            if root.link(path).or_else(replaced_link)? != *to {
                return Err(changed(&format!("the link `{path}` was changed")));
            }
        }
        for (path, content) in &snapshot.files {
            if !root.is_still(path, content.as_ref()).or_else(replaced)? {
                return Err(changed(&format!("`{path}` was changed")));
            }
        }
        Ok(())
    })
}

/// What a program changes is still what it was when the program began, and lies in the same
/// directories. What else others did in those directories is no business of this call.
pub(crate) fn workspace_unchanged(
    root: &Root,
    manifest: &Manifest,
    effects: &[Effect],
) -> Result<(), Failure> {
    let mut parents = BTreeSet::new();
    for effect in effects {
        let path = RelPath::parse(effect.target())?;
        let now = root.stamp(&path)?;
        let is_still = match (effect, manifest.get(&path), &now) {
            (Effect::DirectoryChanged { .. }, Some(then), Some(now)) => then.is_same_place(now),
            _ => manifest.is_still(&path, now.as_ref()),
        };
        if !is_still {
            return Err(conflict(&path));
        }
        parents.extend(path.ancestors());
    }
    for parent in &parents {
        // Directories that were not there before are the call's own.
        let Some(then) = manifest.get(parent) else { continue };
        if !root.stamp(parent)?.is_some_and(|now| then.is_same_place(&now)) {
            return Err(changed(&format!("the directory `{parent}` was changed")));
        }
    }
    Ok(())
}

/// Something of another kind stands there now: changed, like everything else that is not the same.
fn replaced(failure: Failure) -> Result<bool, Failure> {
    match failure.code.as_ref() {
        "NOT_A_DIRECTORY" | "NOT_A_FILE" | "FILE_NOT_FOUND" => Ok(false),
        _ => Err(failure),
    }
}

fn replaced_link(failure: Failure) -> Result<Option<String>, Failure> {
    match failure.code.as_ref() {
        "NOT_A_LINK" | "LINK_NOT_TEXT" => Ok(Some(String::new())),
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
        let Committed { mut call, open, output, effects, contents, artifacts } = self;
        let execution = call.recorder.execution();
        if effects.iter().any(Effect::needs_publishing) {
            let root = open.asked.place.shared_root();
            let lost = lost_root();
            let root = root.map(|root| &**root).ok_or(&lost);
            let source = Source { blobs: &call.host.home.blobs, contents: &contents };
            let published = publish(root, source, execution, &effects, Patience::Wait);
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
        Ok(Outcome { artifacts, ..call.outcome_of(open, Ok(output)) })
    }
}

/// What two calls must not both be about to move.
fn name_of(moved: &RefMove) -> String {
    format!("{}#{}", moved.repository, moved.reference)
}

fn unfinished(halt: super::Halt<'_>) -> Failure {
    match halt {
        super::Halt::Broken(failure) => failure,
        _ => Failure::state("INTERNAL", "the call could not be finished"),
    }
}
