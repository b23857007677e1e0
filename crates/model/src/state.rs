//! States: where a call is, derived from its facts by one pure function.
//!
//! Live code, recovery and replay all fold [`next`]; nothing else decides what may follow what.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::approval::{Answer, Consent};
use crate::digest::Digest;
use crate::error::Failure;
use crate::event::{Asked, CallEvent, Committed, Retry, Started, WriteSet};
use crate::id::{HostId, TransactionId};

/// The nine names of RFC-0001 section 3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Lifecycle {
    Declared,
    Validated,
    Authorized,
    Executing,
    Completed,
    Failed,
    Denied,
    Aborted,
    RolledBack,
}

impl Lifecycle {
    pub const ALL: [Lifecycle; 9] = [
        Lifecycle::Declared,
        Lifecycle::Validated,
        Lifecycle::Authorized,
        Lifecycle::Executing,
        Lifecycle::Completed,
        Lifecycle::Failed,
        Lifecycle::Denied,
        Lifecycle::Aborted,
        Lifecycle::RolledBack,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Lifecycle::Declared => "DECLARED",
            Lifecycle::Validated => "VALIDATED",
            Lifecycle::Authorized => "AUTHORIZED",
            Lifecycle::Executing => "EXECUTING",
            Lifecycle::Completed => "COMPLETED",
            Lifecycle::Failed => "FAILED",
            Lifecycle::Denied => "DENIED",
            Lifecycle::Aborted => "ABORTED",
            Lifecycle::RolledBack => "ROLLED_BACK",
        }
    }
}

impl fmt::Display for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Lifecycle {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let wanted = text.to_ascii_uppercase().replace('-', "_");
        Self::ALL.into_iter().find(|state| state.as_str() == wanted).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|state| state.as_str()).collect();
            Failure::validation("STATE_UNKNOWN", format!("`{text}` is not a state"))
                .hint(format!("states are {}", names.join(", ")))
        })
    }
}

/// Where a call is, with what the next step needs to know.
#[derive(Debug, Clone, PartialEq)]
pub enum CallState {
    Declared,
    Validated,
    /// Still validated, and waiting for people.
    Waiting {
        asked: Asked,
        given: Vec<Consent>,
    },
    Authorized {
        attempt: u32,
    },
    Executing {
        attempt: u32,
        running: Running,
        committed: Option<Box<Committed>>,
    },
    Aborted {
        attempt: u32,
        running: Option<Running>,
    },
    RolledBack {
        attempt: u32,
        retry: Option<Retry>,
    },
    Completed,
    Failed,
    Denied,
}

/// What recovery must know about a call whose process died.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    pub transaction: TransactionId,
    pub host: HostId,
    pub writes: WriteSet,
    pub before: Digest,
    /// Whether the program could reach the network.
    pub connected: bool,
}

impl From<&Started> for Running {
    fn from(started: &Started) -> Self {
        Running {
            transaction: started.transaction,
            host: started.host,
            writes: started.writes.clone(),
            before: started.before,
            connected: !started.hosts.is_empty(),
        }
    }
}

/// A fact that cannot follow the facts before it: a bug or a tampered journal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{event}` cannot follow the state {state}")]
pub struct IllegalEvent {
    pub state: &'static str,
    pub event: &'static str,
}

impl IllegalEvent {
    /// A call begins with its declaration and with nothing else.
    pub(crate) fn first(event: &CallEvent) -> Self {
        IllegalEvent { state: "(none)", event: event.name() }
    }
}

impl CallState {
    pub fn lifecycle(&self) -> Lifecycle {
        match self {
            CallState::Declared => Lifecycle::Declared,
            CallState::Validated | CallState::Waiting { .. } => Lifecycle::Validated,
            CallState::Authorized { .. } => Lifecycle::Authorized,
            CallState::Executing { .. } => Lifecycle::Executing,
            CallState::Aborted { .. } => Lifecycle::Aborted,
            CallState::RolledBack { .. } => Lifecycle::RolledBack,
            CallState::Completed => Lifecycle::Completed,
            CallState::Failed => Lifecycle::Failed,
            CallState::Denied => Lifecycle::Denied,
        }
    }

    /// Nothing can follow.
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            CallState::Completed
                | CallState::Failed
                | CallState::Denied
                | CallState::RolledBack { retry: None, .. }
        )
    }
}

/// The state after `event`, or why that event is impossible here.
pub fn next(state: Option<CallState>, event: &CallEvent) -> Result<CallState, IllegalEvent> {
    use CallEvent as E;
    use CallState as S;

    let Some(state) = state else {
        return match event {
            E::Declared(_) => Ok(S::Declared),
            _ => Err(IllegalEvent::first(event)),
        };
    };

    Ok(match (state, event) {
        (S::Declared, E::Validated {}) => S::Validated,
        (S::Declared | S::Validated, E::Failed { .. }) => S::Failed,
        (S::Validated, E::Authorized(next)) if next.attempt == 1 && next.approval.is_none() => {
            S::Authorized { attempt: 1 }
        }
        (S::Validated | S::Waiting { .. }, E::Denied(_)) => S::Denied,

        (S::Validated, E::Asked(asked)) if asked.approvers > 0 => {
            S::Waiting { asked: asked.clone(), given: Vec::new() }
        }
        (S::Waiting { asked, given }, E::Approved(consent))
            if counts(&asked, &given, consent, Answer::Yes) =>
        {
            let given = given.into_iter().chain([consent.clone()]).collect();
            S::Waiting { asked, given }
        }
        (S::Waiting { asked, given }, E::Refused(consent))
            if counts(&asked, &given, consent, Answer::No) =>
        {
            S::Denied
        }
        (S::Waiting { .. }, E::Withdrawn(_)) => S::Denied,
        // Used once: from here no way leads back to waiting.
        (S::Waiting { asked, given }, E::Authorized(next))
            if next.attempt == 1
                && next.approval == Some(asked.subject.digest)
                && is_enough(&asked, &given) =>
        {
            S::Authorized { attempt: 1 }
        }

        (S::Authorized { attempt }, E::Started(started)) if started.attempt == attempt => {
            S::Executing { attempt, running: started.into(), committed: None }
        }
        (S::Authorized { .. }, E::Replayed(_)) => S::Completed,
        (S::Authorized { attempt }, E::Aborted { .. }) => S::Aborted { attempt, running: None },

        (S::Executing { attempt, running, committed: None }, E::Committed(committed)) => {
            S::Executing { attempt, running, committed: Some(Box::new(committed.clone())) }
        }
        (S::Executing { attempt, running, committed: None }, E::Aborted { .. }) => {
            S::Aborted { attempt, running: Some(running) }
        }
        (S::Executing { attempt, committed: None, .. }, E::RolledBack(rolled_back))
            if follows(attempt, rolled_back.retry) =>
        {
            S::RolledBack { attempt, retry: rolled_back.retry }
        }
        // Past the commit point a call can only be finished.
        (S::Executing { committed: Some(_), .. }, E::Completed(_)) => S::Completed,

        (S::Aborted { attempt, .. }, E::RolledBack(rolled_back))
            if follows(attempt, rolled_back.retry) =>
        {
            S::RolledBack { attempt, retry: rolled_back.retry }
        }

        (S::RolledBack { retry: Some(retry), .. }, E::Authorized(next))
            if next.attempt == retry.attempt =>
        {
            S::Authorized { attempt: next.attempt }
        }
        (S::RolledBack { retry: Some(_), .. }, E::Denied(_)) => S::Denied,
        (S::RolledBack { attempt, retry: Some(_) }, E::Aborted { .. }) => {
            S::Aborted { attempt, running: None }
        }

        (state, _) => {
            let state = state.lifecycle().as_str();
            return Err(IllegalEvent { state, event: event.name() });
        }
    })
}

/// Whether an answer is to what was asked, by somebody who has not answered yet.
fn counts(asked: &Asked, given: &[Consent], consent: &Consent, answer: Answer) -> bool {
    consent.answer == answer
        && consent.subject == asked.subject.digest
        && consent.at < asked.expires_at
        && given.iter().all(|earlier| earlier.by != consent.by)
}

/// Whether as many people agreed as were asked for.
pub fn is_enough(asked: &Asked, given: &[Consent]) -> bool {
    given.len() >= usize::try_from(asked.approvers).unwrap_or(usize::MAX)
}

/// A planned retry is the very next attempt: none is skipped and none is run twice.
fn follows(attempt: u32, retry: Option<Retry>) -> bool {
    retry.is_none_or(|retry| attempt.checked_add(1) == Some(retry.attempt))
}

impl CallEvent {
    pub fn name(&self) -> &'static str {
        match self {
            CallEvent::Declared(_) => "declared",
            CallEvent::Validated {} => "validated",
            CallEvent::Failed { .. } => "failed",
            CallEvent::Asked(_) => "asked",
            CallEvent::Approved(_) => "approved",
            CallEvent::Refused(_) => "refused",
            CallEvent::Withdrawn(_) => "withdrawn",
            CallEvent::Authorized(_) => "authorized",
            CallEvent::Replayed(_) => "replayed",
            CallEvent::Denied(_) => "denied",
            CallEvent::Started(_) => "started",
            CallEvent::Committed(_) => "committed",
            CallEvent::Completed(_) => "completed",
            CallEvent::Aborted { .. } => "aborted",
            CallEvent::RolledBack(_) => "rolledBack",
        }
    }

    /// The state that this fact leads to; `None` for the commit point and for what happens while a
    /// call waits, which change no state.
    pub fn leads_to(&self) -> Option<Lifecycle> {
        Some(match self {
            CallEvent::Declared(_) => Lifecycle::Declared,
            CallEvent::Validated {} => Lifecycle::Validated,
            CallEvent::Failed { .. } => Lifecycle::Failed,
            CallEvent::Authorized(_) => Lifecycle::Authorized,
            CallEvent::Denied(_) | CallEvent::Refused(_) | CallEvent::Withdrawn(_) => {
                Lifecycle::Denied
            }
            CallEvent::Started(_) => Lifecycle::Executing,
            CallEvent::Committed(_) | CallEvent::Asked(_) | CallEvent::Approved(_) => return None,
            CallEvent::Completed(_) | CallEvent::Replayed(_) => Lifecycle::Completed,
            CallEvent::Aborted { .. } => Lifecycle::Aborted,
            CallEvent::RolledBack(_) => Lifecycle::RolledBack,
        })
    }
}
