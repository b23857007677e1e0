//! What was done before, looked at again: reconstructed from the record, executed once more, or
//! compared with something else.
//!
//! Nothing here is a call. Nothing reaches the journal, a worktree or a repository: a rehearsal works
//! in a place of its own, and what it would have changed can only be compared.

mod apart;
mod differ;
mod place;
mod program;
mod record;
mod rehearse;
mod rules;
mod story;
mod verify;

use countersign_model::{ExecutionId, Failure, RunId};

use crate::home::Home;

pub use self::apart::{CallPair, Comparison, Gap};
pub use self::differ::Difference;
pub use self::record::{Item, Kind, Obstacle, Recording};
pub use self::rules::{ArtifactRule, RuleBook, Rules};
pub use self::verify::{Finding, Planned, Skip, Verified};

/// One call, or all calls of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Call(ExecutionId),
    Run(RunId),
}

impl Home {
    /// What a person means by a text: a call if there is one, otherwise a run.
    pub fn subject(&self, text: &str) -> Result<Subject, Failure> {
        if let Ok(execution) = text.parse::<ExecutionId>()
            && self.store.call(execution)?.is_some()
        {
            return Ok(Subject::Call(execution));
        }
        if let Ok(run) = text.parse::<RunId>()
            && !self.store.run_calls(&run)?.is_empty()
        {
            return Ok(Subject::Run(run));
        }
        let message = format!("there is no execution and no run `{}`", text.escape_debug());
        Err(Failure::validation("SUBJECT_UNKNOWN", message)
            .hint("list calls with `countersign execution list`"))
    }

    /// The calls of a subject, oldest first.
    pub fn calls_of(&self, subject: &Subject) -> Result<Vec<ExecutionId>, Failure> {
        match subject {
            Subject::Call(execution) => Ok(vec![*execution]),
            Subject::Run(run) => Ok(self.store.run_calls(run)?),
        }
    }
}
