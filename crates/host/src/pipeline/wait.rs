//! Waiting for people: asking them, and taking a call up again when they have answered. In between
//! the call is nothing but facts in the journal.

use std::sync::Arc;

use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent};
use countersign_model::record::CallRecord;
use countersign_model::state::is_enough;
use countersign_model::{
    CallState, Consent, Decision, Digest, ExecutionId, Failure, Subject, Timestamp, ToolRef,
    Verdict, WorkspaceAccess,
};

use super::case::Decided;
use super::declare::Asked;
use super::{Call, Halt, Outcome, Receipt, Step, Validated};
use crate::approvals::{expired, pending, void};
use crate::host::Host;
use crate::manifest::Manifest;
use crate::meter::{Cancel, max_file_size};
use crate::recorder::Recorder;
use crate::root::Root;
use crate::snapshot::Snapshot;

/// A call that people were asked about, taken up again.
#[derive(Debug)]
pub struct Waiting<'h> {
    call: Call<'h>,
    asked: Arc<Asked>,
    question: event::Asked,
    given: Vec<Consent>,
}

impl<'h> Call<'h> {
    /// Asks people, and lets go of the call.
    pub(super) fn ask(mut self, asked: &Asked, decided: Decided) -> Box<Halt<'h>> {
        match self.question(asked, decided) {
            Ok(question) => {
                let failure = pending(self.recorder.execution(), &question, 0);
                self.end(CallEvent::Asked(question), failure)
            }
            Err(failure) => self.broken(failure),
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
    pub(super) fn take_up(
        host: &'h Host,
        execution: ExecutionId,
        cancel: Cancel,
    ) -> Result<Self, Failure> {
        let record = host.fold(execution)?.ok_or_else(|| not_found(execution))?;
        let CallState::Waiting { asked: question, given } = record.state.clone() else {
            return Err(not_waiting(&record));
        };
        let declared = host.declared(execution)?;
        let id = declared.tool.clone();
        let tool = ToolRef { id, version: Some(declared.version.clone()) };
        let tool = Arc::clone(host.registry.resolve(&tool)?);
        let (store, clock) = (Arc::clone(&host.home.store), Arc::clone(&host.clock));
        let recorder = Recorder::resume(store, clock, record);
        let bytes = host.home.payload(execution, &declared.input)?;
        let input = serde_json::from_slice(&bytes).map_err(|error| {
            Failure::state("JOURNAL_CORRUPT", format!("the input cannot be read: {error}"))
        })?;
        let root = declared.root.as_ref().map(|path| Root::open(path.as_ref(), host.home.path()));
        let root = root.transpose()?.map(Arc::new);
        let policies = host.policies_in_force()?;
        let circumstances = declared.into();
        let call = Call { host, tool, recorder, cancel, policies, circumstances, people: None };
        let asked = call.case().look_at(input, root)?;
        Ok(Waiting { call, asked, question, given })
    }

    /// Whether people agreed, in time and to what is still the case.
    pub fn answered(self) -> Step<'h, Validated<'h>> {
        if self.call.recorder.now() >= self.question.expires_at {
            let failure = expired(&self.question);
            return Err(self.deny(failure));
        }
        if !is_enough(&self.question, &self.given) {
            return Err(self.still_waits());
        }
        match self.compare() {
            Ok((shown, changes)) if changes.is_empty() => Ok(self.approved(shown)),
            Ok((_, changes)) => Err(self.deny(void(&changes))),
            Err(failure) => Err(self.call.broken(failure)),
        }
    }

    /// Nothing new is recorded: what stands in the journal already is what there is to show.
    fn still_waits(self) -> Box<Halt<'h>> {
        let execution = self.call.recorder.execution();
        let failure = pending(execution, &self.question, self.given.len());
        match self.call.host.receipt_so_far(execution) {
            Ok(receipt) => {
                let outcome = Outcome { receipt, ..self.call.outcome(Err(failure)) };
                Box::new(Halt::Ended(Box::new(outcome)))
            }
            Err(failure) => self.call.broken(failure),
        }
    }

    fn approved(self, shown: Subject) -> Validated<'h> {
        let Waiting { call, asked, question, given, .. } = self;
        let Subject { verdict, workspace, .. } = shown;
        let subject = question.subject.digest;
        let agreed = Agreed { subject, shown: verdict, workspace, given };
        Validated { call, asked, attempt: 1, approval: Some(Arc::new(agreed)) }
    }

    fn deny(self, error: Failure) -> Box<Halt<'h>> {
        let denied = event::Denied { error: error.clone(), facts: None, verdict: None };
        self.call.end(CallEvent::Denied(denied), error)
    }

    /// What is no longer as it was shown. Judged for the moment of asking, so that only what changed
    /// in the world is found; what policy says now is asked again before the call runs.
    fn compare(&self) -> Result<(Subject, Vec<&'static str>), Failure> {
        let execution = self.call.recorder.execution();
        let shown = self.call.host.subject(execution, &self.question)?;
        if self.call.tool.digest != shown.facts.tool.declaration {
            return Ok((shown, vec!["the tool"]));
        }
        let decided = self.call.case().judge_by_policy(&self.asked, shown.facts.time);
        let now = self.call.subject(&self.asked, decided, shown.expires_at)?;
        let mut changes = shown.changes(&now);
        if changes.is_empty() && now.digest()? != self.question.subject {
            changes.push("what was shown");
        }
        Ok((shown, changes))
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
