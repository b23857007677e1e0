//! What is known about one call, folded from its facts. A cache of the journal, never the truth.

use std::collections::HashMap;

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::approval::Consent;
use crate::capability::Capability;
use crate::digest::Digest;
use crate::effect::Payload;
use crate::error::Failure;
use crate::event::{Asked, CallEvent, CallFact, Declared, Denied, Usage, Withdrawn};
use crate::id::{ExecutionId, HostId, ToolId};
use crate::principal::Principal;
use crate::state::{CallState, IllegalEvent, Lifecycle, next};
use crate::time::Timestamp;
use crate::work::Work;

/// The line that lists, filters and statistics work from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallSummary {
    pub execution: ExecutionId,
    pub tool: ToolId,
    pub version: Version,
    pub declaration: Digest,
    pub principal: Principal,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The run that it belongs to, and on what it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// What makes it the same as another call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Digest>,
    /// The earlier call whose result this one gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<ExecutionId>,
    /// What people are or were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSummary>,
    pub state: Lifecycle,
    pub terminal: bool,
    pub declared_at: Timestamp,
    pub updated_at: Timestamp,
    pub input: Payload,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    pub attempts: u32,
    pub rollbacks: u32,
    /// How many facts the journal holds about this call; the next append must find the same count.
    pub events: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    pub usage: Usage,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsettled: Vec<String>,
    /// The call reached the network and its end was not seen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

/// The line that lists of approvals work from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalSummary {
    pub subject: Payload,
    pub asked_at: Timestamp,
    pub expires_at: Timestamp,
    pub approvers: u32,
    /// Who agreed so far.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given: Vec<Principal>,
}

impl ApprovalSummary {
    fn new(at: Timestamp, asked: &Asked) -> Self {
        ApprovalSummary {
            subject: asked.subject,
            asked_at: at,
            expires_at: asked.expires_at,
            approvers: asked.approvers,
            given: Vec::new(),
        }
    }

    pub fn is_enough(&self) -> bool {
        self.given.len() >= usize::try_from(self.approvers).unwrap_or(usize::MAX)
    }
}

/// A call as far as the journal tells it.
#[derive(Debug, Clone, PartialEq)]
pub struct CallRecord {
    pub state: CallState,
    pub summary: CallSummary,
}

impl CallRecord {
    pub fn begin(execution: ExecutionId, at: Timestamp, declared: &Declared) -> Self {
        CallRecord {
            state: CallState::Declared,
            summary: CallSummary {
                execution,
                tool: declared.tool.clone(),
                version: declared.version.clone(),
                declaration: declared.declaration,
                principal: declared.principal.clone(),
                root: declared.root.clone(),
                work: declared.work.clone(),
                key: None,
                replayed: None,
                approval: None,
                state: Lifecycle::Declared,
                terminal: false,
                declared_at: at,
                updated_at: at,
                input: declared.input,
                output: None,
                error: None,
                capabilities: Vec::new(),
                attempts: 0,
                rollbacks: 0,
                events: 1,
                host: None,
                duration_ms: None,
                usage: Usage::default(),
                unsettled: Vec::new(),
                unknown: false,
            },
        }
    }

    /// The record after one more fact.
    pub fn apply(mut self, at: Timestamp, event: &CallEvent) -> Result<Self, IllegalEvent> {
        self.advance(at, event)?;
        Ok(self)
    }

    /// Takes in one more fact; one that cannot follow leaves the record as it was.
    pub fn advance(&mut self, at: Timestamp, event: &CallEvent) -> Result<(), IllegalEvent> {
        self.state = next(Some(self.state.clone()), event)?;
        let summary = &mut self.summary;
        summary.state = self.state.lifecycle();
        summary.terminal = self.state.is_terminal();
        summary.updated_at = at;
        summary.events += 1;
        summary.note(at, event);
        Ok(())
    }

    /// Folds the facts of one call, oldest first.
    pub fn fold<'a>(
        execution: ExecutionId,
        facts: impl IntoIterator<Item = (Timestamp, &'a CallEvent)>,
    ) -> Result<Option<Self>, IllegalEvent> {
        facts.into_iter().try_fold(None, |record: Option<CallRecord>, (at, event)| {
            match (record, event) {
                (Some(record), event) => record.apply(at, event).map(Some),
                (None, CallEvent::Declared(declared)) => {
                    Ok(Some(CallRecord::begin(execution, at, declared)))
                }
                (None, event) => Err(IllegalEvent::first(event)),
            }
        })
    }
}

/// Folds the facts of many calls as they stand in the journal, mixed with each other.
#[derive(Debug, Default)]
pub struct CallFold {
    open: HashMap<ExecutionId, CallRecord>,
    ended: Option<CallRecord>,
}

impl CallFold {
    /// The call as it stands after one more fact about it.
    pub fn take_in(&mut self, at: Timestamp, call: &CallFact) -> Result<&CallRecord, IllegalEvent> {
        let record = match (self.open.remove(&call.execution), &call.event) {
            (Some(record), event) => record.apply(at, event)?,
            (None, CallEvent::Declared(declared)) => {
                CallRecord::begin(call.execution, at, declared)
            }
            (None, event) => return Err(IllegalEvent::first(event)),
        };
        // Ended calls are let go, so that memory follows the calls that are open.
        Ok(match record.state.is_terminal() {
            true => self.ended.insert(record),
            false => self.open.entry(call.execution).insert_entry(record).into_mut(),
        })
    }

    /// Calls that have not ended.
    pub fn open(&self) -> impl Iterator<Item = &CallRecord> {
        self.open.values()
    }
}

/// A refusal is a decision: what to do about it is between people.
fn refused(consent: &Consent) -> Failure {
    let why = consent.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Failure::authorization("APPROVAL_REFUSED", format!("`{}` refused the call{why}", consent.by))
        .hint("talk to them before you ask again")
}

fn withdrawn_by(withdrawn: &Withdrawn) -> Failure {
    let why = withdrawn.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let message = format!("`{}` withdrew the call{why}", withdrawn.by);
    Failure::authorization("APPROVAL_WITHDRAWN", message)
        .hint("call again if it is wanted after all")
}

impl CallSummary {
    /// Waits for people.
    pub fn is_waiting(&self) -> bool {
        self.state == Lifecycle::Validated && self.approval.is_some()
    }

    /// Nobody can tell whether an effect took place: a human must look.
    pub fn is_unknown(&self) -> bool {
        self.unknown || !self.unsettled.is_empty()
    }

    fn note(&mut self, at: Timestamp, event: &CallEvent) {
        match event {
            CallEvent::Declared(_) | CallEvent::Validated {} => {}
            CallEvent::Authorized(authorized) => {
                self.attempts = authorized.attempt;
                self.capabilities.clone_from(&authorized.capabilities);
                self.error = None;
            }
            CallEvent::Started(started) => {
                self.host = Some(started.host);
                self.key = started.key;
            }
            CallEvent::Replayed(replayed) => {
                self.key = Some(replayed.key);
                self.output = Some(replayed.output);
                self.replayed = Some(replayed.of);
                self.end(at, None);
            }
            CallEvent::Committed(committed) => self.output = Some(committed.output),
            CallEvent::Completed(completed) => {
                self.usage = completed.usage;
                self.unsettled.clone_from(&completed.unsettled);
                self.end(at, None);
            }
            CallEvent::Asked(asked) => self.approval = Some(ApprovalSummary::new(at, asked)),
            CallEvent::Approved(consent) => {
                self.approval.iter_mut().for_each(|asked| asked.given.push(consent.by.clone()));
            }
            CallEvent::Refused(consent) => self.end(at, Some(refused(consent))),
            CallEvent::Withdrawn(withdrawn) => self.end(at, Some(withdrawn_by(withdrawn))),
            CallEvent::Failed { error } | CallEvent::Denied(Denied { error, .. }) => {
                self.end(at, Some(error.clone()));
            }
            CallEvent::Aborted { error } => self.error = Some(error.clone()),
            CallEvent::RolledBack(rolled_back) => {
                self.rollbacks += 1;
                self.usage = rolled_back.usage;
                self.unknown = rolled_back.unknown;
                self.end(at, Some(rolled_back.error.clone()));
            }
        }
    }

    fn end(&mut self, at: Timestamp, error: Option<Failure>) {
        self.error = error;
        self.duration_ms = u64::try_from(at.millis_since(self.declared_at)).ok();
    }
}
