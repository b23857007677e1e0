//! The exit codes, everywhere the same. `docs/exit-codes.md` explains them to scripts.

use countersign_host::Outcome;
use countersign_model::{ErrorClass, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    ToolFailed = 1,
    Invalid = 2,
    Denied = 3,
    LimitReached = 5,
    Unknown = 7,
    Internal = 70,
}

impl Exit {
    pub(crate) fn of_failure(failure: &Failure) -> Self {
        match failure.code.as_ref() {
            // The input was fine; the tool broke its promise.
            "OUTPUT_INVALID" | "CONFLICT" => return Exit::ToolFailed,
            "PUBLISH_PENDING" => return Exit::Unknown,
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
