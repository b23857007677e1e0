//! Waiting for people: asking them, and taking a call up again when they have answered. In between
//! the call is nothing but facts in the journal.

use std::sync::Arc;

use countersign_journal::{AppendError, Batch, Conflict, Expect};
use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent};
use countersign_model::record::CallRecord;
use countersign_model::state::is_enough;
use countersign_model::{
    CallState, Consent, Decision, Digest, ErrorClass, ExecutionId, Failure, Subject, Timestamp,
    ToolRef, Verdict, WorkspaceAccess,
};
use countersign_policy::Policies;

use serde_json::Value;

use super::case::{Case, Decided, Refusal};
use super::declare::Asked;
use super::{Call, Given, Halt, Outcome, Receipt, Step, Validated};
use crate::approvals::{VOID, expired, pending, too_many, void, void_without};
use crate::facts::Circumstances;
use crate::host::Host;
use crate::manifest::Manifest;
use crate::meter::max_file_size;
use crate::order::{Order, order_tool};
use crate::recorder::Recorder;
use crate::registry::Tool;
use crate::root::Root;
use crate::snapshot::Snapshot;

/// A call that people were asked about, as the journal has it.
#[derive(Debug)]
pub struct Waiting<'h> {
    host: &'h Host,
    recorder: Recorder,
    question: event::Asked,
    given: Vec<Consent>,
}

/// What a call is made of, found again.
struct Found {
    tool: Arc<Tool>,
    policies: Arc<Policies>,
    circumstances: Circumstances,
    asked: Arc<Asked>,
}

impl<'h> Call<'h> {
    /// Asks people, and lets go of the call.
    pub(super) fn ask(mut self, asked: &Asked, decided: Decided) -> Box<Halt<'h>> {
        let before = self.recorder.mark();
        match self.put_question(asked, &decided) {
            Ok(Some(failure)) => {
                self.host.leave(self.recorder.execution());
                Box::new(Halt::Ended(Box::new(self.outcome(Err(failure)))))
            }
            Ok(None) => {
                self.recorder.rewind(before);
                let most = self.host.home.config.approval.max_waiting_per_principal;
                let error = too_many(&self.circumstances.principal, most);
                self.deny(Refusal { error, decided: Some(Box::new(decided)) })
            }
            Err(failure) => self.broken(failure),
        }
    }

    /// What the call waits for from now on, if not too many of this principal wait already.
    fn put_question(
        &mut self,
        asked: &Asked,
        decided: &Decided,
    ) -> Result<Option<Failure>, Failure> {
        let question = self.question(asked, decided.clone())?;
        let failure = pending(self.recorder.execution(), &question, 0);
        self.recorder.note(CallEvent::Asked(question))?;
        // What expired waits in vain, and not in the way of others.
        let is_kept = self.wait_in_line()?
            || self.host.end_expired_of(&self.circumstances.principal)? && self.wait_in_line()?;
        Ok(is_kept.then_some(failure))
    }

    /// Counted where nobody else can append meanwhile, so that no two hosts pass the last place.
    fn wait_in_line(&mut self) -> Result<bool, Failure> {
        let principal = self.circumstances.principal.clone();
        let most = self.host.home.config.approval.max_waiting_per_principal;
        let expect = vec![Expect::WaitingBelow { principal, most }];
        match self.recorder.flush_with(Batch { expect, ..Batch::default() }) {
            Ok(()) => Ok(true),
            Err(AppendError::Conflict(Conflict::Waiting { .. })) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn question(&mut self, asked: &Asked, decided: Decided) -> Result<event::Asked, Failure> {
        let patience = self.host.home.config.approval.patience_ms(&decided.verdict);
        let expires_at = decided.facts.time.plus_millis(patience);
        let subject = self.subject(asked, decided, expires_at)?;
        let bytes = subject.bytes()?;
        let (payload, approvers) = (Payload::of(&bytes), subject.verdict.approvers.max(1));
        self.host.home.keep(&mut self.recorder, payload, bytes)?;
        Ok(event::Asked { approvers, expires_at, subject: payload })
    }

    /// Exactly what people are shown.
    fn subject(
        &self,
        asked: &Asked,
        decided: Decided,
        expires_at: Timestamp,
    ) -> Result<Subject, Failure> {
        Ok(Subject {
            execution: self.recorder.execution(),
            expires_at,
            facts: decided.facts,
            input: self.recorder.summary().input,
            limits: self.tool.declaration.resource_limits,
            verdict: decided.verdict,
            workspace: self.workspace_digest(asked)?,
        })
    }

    /// What the call would find where it writes; all of a workspace that a program sees.
    fn workspace_digest(&self, asked: &Asked) -> Result<Digest, Failure> {
        if asked.footprint.workspace == Some(WorkspaceAccess::Read) {
            return Ok(Manifest::take(asked.place.root()?)?.digest());
        }
        let (store, limits) = (&*self.host.home.store, &self.tool.declaration.resource_limits);
        let most = max_file_size(limits);
        Ok(Snapshot::take(&asked.place, &asked.footprint, store, most)?.digest())
    }
}

impl<'h> Waiting<'h> {
    /// Takes up a call that waits, whoever asked for it and whichever process did.
    pub(super) fn take_up(host: &'h Host, execution: ExecutionId) -> Result<Self, Failure> {
        let record = host.fold(execution)?.ok_or_else(|| not_found(execution))?;
        let CallState::Waiting { asked: question, given } = record.state.clone() else {
            return Err(not_waiting(&record));
        };
        let (store, clock) = (Arc::clone(&host.home.store), Arc::clone(&host.clock));
        let recorder = Recorder::resume(store, clock, record);
        Ok(Waiting { host, recorder, question, given })
    }

    /// Whether people agreed, in time and to what is still the case. What only the journal knows is
    /// asked first: whether the answer came in time does not depend on what else can be read.
    pub fn answered(self, given: Given) -> Step<'h, Validated<'h>> {
        if self.recorder.now() >= self.question.expires_at {
            let failure = expired(&self.question);
            return Err(self.host.deny(self.recorder, failure));
        }
        if !is_enough(&self.question, &self.given) {
            return Err(self.still_waits());
        }
        match self.find() {
            Ok(found) => self.agreed(found, given),
            Err(failure) => Err(self.host.stop(self.recorder, failure)),
        }
    }

    /// Nothing new is recorded: what stands in the journal already is what there is to show.
    fn still_waits(self) -> Box<Halt<'h>> {
        let execution = self.recorder.execution();
        let failure = pending(execution, &self.question, self.given.len());
        match self.host.receipt_so_far(execution) {
            Ok(receipt) => {
                let outcome = Outcome { receipt, ..Outcome::of(&self.recorder, Err(failure)) };
                Box::new(Halt::Ended(Box::new(outcome)))
            }
            Err(failure) => self.host.broken(execution, failure),
        }
    }

    /// Finds everything again that the call is made of.
    fn find(&self) -> Result<Found, Failure> {
        let (host, execution) = (self.host, self.recorder.execution());
        let declared = host.declared(execution)?;
        let input = host.input_of(self.recorder.summary())?;
        let tool = host.tool_of(&declared, &input).map_err(gone("the tool"))?;
        let work = declared.work.as_ref().map(|work| host.work_again(work)).transpose();
        let work = work.map_err(gone("the workspace"))?.map(Arc::new);
        let root = match &work {
            Some(work) => Some(work.root()),
            None => declared.root.as_ref().map(|path| Root::open(path.as_ref(), host.home.path())),
        };
        let root = root.transpose().map_err(gone("the workspace"))?.map(Arc::new);
        let policies = host.policies_in_force().map_err(gone("the policies"))?;
        let circumstances = declared.into();
        let case = Case { host, tool: &tool, policies: &policies, circumstances: &circumstances };
        let asked = case.look_at(input, root, work).map_err(gone("what it would touch"))?;
        Ok(Found { tool, policies, circumstances, asked })
    }

    fn agreed(self, found: Found, with: Given) -> Step<'h, Validated<'h>> {
        let Waiting { host, recorder, question, given } = self;
        let Found { tool, policies, circumstances, asked } = found;
        let call = Call {
            host,
            tool,
            recorder,
            given: with,
            fresh: false,
            policies,
            circumstances,
            people: None,
            unbegun: None,
        };
        match call.compare(&asked, &question) {
            Ok(Subject { verdict, workspace, .. }) => {
                let subject = question.subject.digest;
                let agreed = Agreed { subject, shown: verdict, workspace, given };
                Ok(Validated { call, asked, attempt: 1, approval: Some(Arc::new(agreed)) })
            }
            Err(failure) => Err(host.stop(call.recorder, failure)),
        }
    }
}

/// What becomes of an approval when a part of what was approved cannot be read: it is void. Where
/// this host itself is in trouble, that says nothing about what was approved.
fn gone(what: &'static str) -> impl Fn(Failure) -> Failure {
    move |failure| if is_hosts_own(&failure) { failure } else { void_without(what, &failure) }
}

/// Trouble of the journal or of this process, which may pass. A worktree that is gone does not come
/// back: one that is made anew is not what people saw.
fn is_hosts_own(failure: &Failure) -> bool {
    let state = failure.class == ErrorClass::StateError && failure.code != "WORKTREE_LOST";
    state || HOSTS_OWN.contains(&failure.code.as_ref())
}

const HOSTS_OWN: [&str; 2] = ["DISK_FULL", "HOST_EXHAUSTED"];

impl Call<'_> {
    /// What was shown, if it is still so. Judged for the moment of asking, so that only what changed
    /// in the world is found; what policy says now is asked again before the call runs.
    fn compare(&self, asked: &Asked, question: &event::Asked) -> Result<Subject, Failure> {
        let shown = self.host.subject(self.recorder.execution(), question)?;
        if self.tool.digest != shown.facts.tool.declaration {
            return Err(void(&["the tool"]));
        }
        let decided = self.case().judge_by_policy(asked, shown.facts.time);
        let now = self.subject(asked, decided, shown.expires_at);
        let now = now.map_err(gone("the workspace"))?;
        let mut changes = shown.changes(&now);
        if changes.is_empty() && now.digest()? != question.subject {
            changes.push("what was shown");
        }
        if changes.is_empty() { Ok(shown) } else { Err(void(&changes)) }
    }
}

/// What people agreed to, and who did. Held against the world before every attempt.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) subject: Digest,
    shown: Verdict,
    workspace: Digest,
    given: Vec<Consent>,
}

impl Agreed {
    /// Whether policy asks for no more now than people were asked for.
    fn covers(&self, verdict: &Verdict) -> bool {
        let rules = self.shown.rules();
        verdict.decision != Decision::RequireApproval
            || usize::try_from(verdict.approvers).is_ok_and(|needed| needed <= self.given.len())
                && verdict.rules().iter().all(|rule| rules.contains(rule))
    }
}

impl Call<'_> {
    /// What of an agreement no longer holds, if anything: a key that was revoked or a signature that
    /// does not fit, or rules that ask for more. From here on nothing about the people may change.
    pub(super) fn check_agreement(
        &mut self,
        agreed: &Agreed,
        verdict: &Verdict,
    ) -> Result<Option<&'static str>, Failure> {
        self.people = Some(self.host.people()?.version);
        for consent in &agreed.given {
            if !self.host.is_sound(consent)? {
                return Ok(Some("who may approve"));
            }
        }
        Ok((!agreed.covers(verdict)).then_some("what the policies ask for"))
    }

    /// Whether the call finds what people were told it would find.
    pub(super) fn check_workspace(
        &self,
        agreed: &Agreed,
        asked: &Asked,
        snapshot: &Snapshot,
    ) -> Result<(), Failure> {
        let found = match asked.footprint.workspace {
            Some(WorkspaceAccess::Read) => self.workspace_digest(asked)?,
            _ => snapshot.digest(),
        };
        if found == agreed.workspace { Ok(()) } else { Err(void(&["the workspace"])) }
    }
}

impl Host {
    /// The tool that a call named: as it is declared now, or as its order makes it.
    fn tool_of(&self, declared: &event::Declared, input: &Value) -> Result<Arc<Tool>, Failure> {
        if declared.tool == order_tool()? {
            return Ok(Arc::new(Order::from_input(input)?.tool()?));
        }
        let (id, version) = (declared.tool.clone(), Some(declared.version.clone()));
        Ok(Arc::clone(self.registry.resolve(&ToolRef { id, version })?))
    }

    /// Ends a call whose approval is void. Any other failure stops it as it stands.
    fn stop(&self, recorder: Recorder, failure: Failure) -> Box<Halt<'_>> {
        match failure.code.as_ref() {
            VOID => self.deny(recorder, failure),
            _ => self.broken(recorder.execution(), failure),
        }
    }

    fn deny(&self, recorder: Recorder, error: Failure) -> Box<Halt<'_>> {
        let denied = event::Denied { error: error.clone(), facts: None, verdict: None };
        self.end(recorder, CallEvent::Denied(denied), error)
    }

    /// Where the last fact of a call stands, and a checkpoint that covers it.
    fn receipt_so_far(&self, execution: ExecutionId) -> Result<Receipt, Failure> {
        let entries = self.home.store.call_entries(execution)?;
        let last = entries.last().ok_or_else(|| not_found(execution))?;
        let checkpoint = self.home.store.head()?.checkpoint;
        Ok(Receipt { entry: last.entry.seq, hash: last.hash, checkpoint })
    }
}

fn not_found(execution: ExecutionId) -> Failure {
    Failure::validation("EXECUTION_UNKNOWN", format!("there is no execution {execution}"))
        .hint("list them with `countersign execution list`")
}

fn not_waiting(record: &CallRecord) -> Failure {
    let state = record.summary.state;
    let message =
        format!("execution {} is {state}, and waits for nobody", record.summary.execution);
    Failure::validation("NOT_WAITING", message)
        .hint("list what waits with `countersign approval list`")
}

#[cfg(test)]
mod tests {
    use countersign_journal::JournalError;
    use rustix::io::Errno;

    use super::*;
    use crate::root::shortage;

    #[test]
    fn only_what_is_missing_from_the_world_makes_an_approval_void() {
        let after = |failure| gone("the workspace")(failure).code;
        for error in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOSPC] {
            assert_ne!(after(shortage(error).unwrap()), VOID, "{error}");
        }
        for error in [JournalError::Busy, JournalError::Full, JournalError::Poisoned] {
            assert_ne!(after(error.into()), VOID);
        }
        for error in [Errno::NOENT, Errno::ACCESS, Errno::STALE] {
            assert!(shortage(error).is_none(), "{error}");
        }
        assert_eq!(after(Failure::validation("ROOT_INVALID", "no such directory")), VOID);
        assert_eq!(after(Failure::resource("WORKSPACE_TOO_LARGE", "it grew")), VOID);
    }
}
