//! The exit codes, everywhere the same. `docs/exit-codes.md` explains them to scripts.

use countersign_host::Outcome;
use countersign_model::{ErrorClass, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    ToolFailed,
    Invalid,
    Denied,
    /// People were asked, and have not agreed: not yet, not in time, or not at all.
    Waiting,
    LimitReached,
    CannotEnforce,
    Unknown,
    Internal,
    /// What a program of the user ended with, handed on by `sandbox run`.
    Program(u8),
}

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::ToolFailed => 1,
            Exit::Invalid => 2,
            Exit::Denied => 3,
            Exit::Waiting => 4,
            Exit::LimitReached => 5,
            Exit::CannotEnforce => 6,
            Exit::Unknown => 7,
            Exit::Internal => 70,
            Exit::Program(code) => code,
        }
    }

    pub(crate) fn of_failure(failure: &Failure) -> Self {
        match failure.code.as_ref() {
            // The input was fine; the tool broke its promise.
            "OUTPUT_INVALID" | "OUTPUT_UNDECLARED" | "CONFLICT" | "STAGING_REFUSED" => {
                return Exit::ToolFailed;
            }
            // The host is fine; what an action works on is not what it has to be.
            "ARTIFACT_COLLECTED"
            | "BASE_INCOMPLETE"
            | "BASE_LOST"
            | "PUBLISH_CONFLICT"
            | "REF_LOCKED"
            | "SAME_CALL_RUNS"
            | "TREE_HOLDS_REPOSITORY"
            | "TREE_HOLDS_SPECIAL"
            | "TREE_UNREADABLE"
            | "WORKSPACE_CHANGED"
            | "WORKTREE_LOST" => {
                return Exit::ToolFailed;
            }
            "CANNOT_ENFORCE" | "RUNTIME_UNAVAILABLE" | "SANDBOX_FAILED" => {
                return Exit::CannotEnforce;
            }
            "APPROVAL_REQUIRED" | "APPROVAL_REFUSED" | "APPROVAL_EXPIRED"
            | "APPROVAL_WITHDRAWN" | "APPROVAL_VOID" | "APPROVAL_MISSING" | "APPROVAL_MISMATCH" => {
                return Exit::Waiting;
            }
            "OUTCOME_UNKNOWN" | "PUBLISH_PENDING" | "PUSH_UNKNOWN" => return Exit::Unknown,
            // No limit of anybody's: something of ours was killed or broke.
            "SANDBOX_LOST" => return Exit::Internal,
            _ => {}
        }
        match failure.class {
            ErrorClass::ValidationError => Exit::Invalid,
            ErrorClass::AuthorizationError => Exit::Denied,
            ErrorClass::ResourceError | ErrorClass::TimeoutError => Exit::LimitReached,
            ErrorClass::ExecutionError => Exit::ToolFailed,
            ErrorClass::StateError => Exit::Internal,
        }
    }

    pub(crate) fn of_outcome(outcome: &Outcome) -> Self {
        match &outcome.result {
            Ok(_) if outcome.unsettled.is_empty() => Exit::Done,
            Ok(_) => Exit::Unknown,
            Err(failure) => Exit::of_failure(failure),
        }
    }
}
