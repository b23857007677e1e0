//! Why something could not be done with a run.

use countersign_flow::fork::ForkRefusal;
use countersign_flow::{CreateRefusal, Problem, Refusal};
use countersign_model::{Failure, RunId};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Trouble {
    #[error("there is no such run")]
    NoRun,
    #[error("there is no workflow `{0}`")]
    NoWorkflow(String),
    #[error("the workflow `{0}` has problems")]
    Broken(String, Vec<Problem>),
    #[error(transparent)]
    Create(#[from] CreateRefusal),
    #[error(transparent)]
    Command(#[from] Refusal),
    #[error(transparent)]
    Fork(#[from] ForkRefusal),
    #[error("run `{0}` of the same scope is not over")]
    Active(RunId),
    /// The same request was answered meanwhile.
    #[error("the same was asked already")]
    Answered,
    #[error("{}", .0.message)]
    Failure(Failure),
}

/// What somebody who tries again later may not meet any more.
const PASSING: [&str; 6] = [
    "CALL_RUNS",
    "JOURNAL_BUSY",
    "JOURNAL_FULL",
    "JOURNAL_READ_ONLY",
    "JOURNAL_UNAVAILABLE",
    "RUN_CONTENDED",
];

impl Trouble {
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Trouble::Failure(failure) if PASSING.contains(&failure.code.as_ref()))
    }

    pub(crate) fn is(&self, code: &str) -> bool {
        matches!(self, Trouble::Failure(failure) if failure.code == code)
    }

    /// Nothing of it was recorded, and nothing will be.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is("ENTRY_UNRECORDABLE")
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Trouble::Failure(failure)
    }
}

impl From<countersign_journal::JournalError> for Trouble {
    fn from(error: countersign_journal::JournalError) -> Self {
        Trouble::Failure(error.into())
    }
}
