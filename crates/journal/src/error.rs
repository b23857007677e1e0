//! What can go wrong with the journal. Every variant says whether anything was lost: nothing was.

use countersign_model::{Digest, ExecutionId, Failure, GrantId, Principal, RunId};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    #[error("the disk that holds the journal is full")]
    Full,
    #[error("the journal cannot be opened or written: {0}")]
    ReadOnly(String),
    #[error("the journal is damaged: {0}")]
    Corrupt(String),
    #[error("the journal stayed locked by another process for too long")]
    Busy,
    #[error("the journal was written by format {found}, this program reads {supported}")]
    Incompatible { found: String, supported: String },
    #[error("an earlier write to the journal failed; this process will not write again")]
    Poisoned,
    /// The fault of one batch, not of the journal: the others are not harmed.
    #[error("this cannot be recorded: {0}")]
    Unrecordable(String),
    #[error("the journal has no entry {seq}; it has {size} entries")]
    NoEntry { seq: u64, size: u64 },
    #[error("blob {0} is missing or damaged")]
    Blob(Digest),
    /// How a visitor says that it wants to see no more.
    #[error("the visitor has seen enough")]
    Enough,
    #[error("the journal could not be used: {0}")]
    Internal(String),
}

/// Why an append was refused although the journal works: the world moved on meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    #[error("execution {0} was changed by another process")]
    Call(ExecutionId),
    #[error("grant {0} was revoked")]
    Grant(GrantId),
    #[error("principals or keys were changed by another process")]
    People,
    #[error("{most} calls of {principal} wait for people already")]
    Waiting { principal: Principal, most: u32 },
    #[error("state key `{0}` was changed by another call")]
    Key(String),
    #[error("execution {0} does or did the same")]
    Done(ExecutionId),
    #[error("run `{0}` was advanced by another process")]
    Run(RunId),
    #[error("run `{0}` is the live one")]
    Active(RunId),
    #[error("document `{0}` was changed")]
    Record(String),
    /// The same request has its answer, perhaps from another process.
    #[error("the same was answered")]
    Reply,
    #[error("something was recorded")]
    Grown,
    #[error("`{resource}` is being published by execution {by}")]
    Claimed { resource: String, by: ExecutionId },
    #[error("{0}")]
    Guard(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Conflict(#[from] Conflict),
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl JournalError {
    fn code(&self) -> &'static str {
        match self {
            JournalError::Full => "JOURNAL_FULL",
            JournalError::ReadOnly(_) => "JOURNAL_READ_ONLY",
            JournalError::Corrupt(_) => "JOURNAL_CORRUPT",
            JournalError::Busy => "JOURNAL_BUSY",
            JournalError::Incompatible { .. } => "JOURNAL_INCOMPATIBLE",
            JournalError::Poisoned => "JOURNAL_POISONED",
            JournalError::Unrecordable(_) => "ENTRY_UNRECORDABLE",
            JournalError::NoEntry { .. } => "ENTRY_UNKNOWN",
            JournalError::Blob(_) => "BLOB_DAMAGED",
            JournalError::Enough | JournalError::Internal(_) => "JOURNAL_UNAVAILABLE",
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            JournalError::Full => {
                "free some space and try again; nothing ran and nothing that was recorded is lost"
            }
            JournalError::ReadOnly(_) => {
                "make the home's state/ directory writable for this user, or name another --home"
            }
            JournalError::Corrupt(_) => {
                "leave the file as it is, run `countersign audit verify` to see what is damaged, and restore state/ from a backup"
            }
            JournalError::Busy => "another process holds the journal; try again when it is done",
            JournalError::Incompatible { .. } => "use a matching version of countersign",
            JournalError::Poisoned => "check the disk, then start again",
            JournalError::Unrecordable(_) => "nothing of it was kept; ask for less at once",
            JournalError::NoEntry { .. } => "entries are numbered from 0",
            JournalError::Blob(_) => "restore state/blobs from a backup",
            JournalError::Enough | JournalError::Internal(_) => {
                "run again with COUNTERSIGN_LOG=debug to see more"
            }
        }
    }
}

impl From<JournalError> for Failure {
    fn from(error: JournalError) -> Failure {
        Failure::state(error.code(), error.to_string()).hint(error.hint())
    }
}

impl From<Conflict> for Failure {
    fn from(conflict: Conflict) -> Failure {
        let message = conflict.to_string();
        match conflict {
            Conflict::Grant(_) => Failure::authorization("GRANT_REVOKED", message)
                .hint("ask for a new grant; nothing of this call was kept"),
            Conflict::Guard(failure) => failure,
            Conflict::Call(_) => Failure::state("EXECUTION_TAKEN_OVER", message)
                .hint("look at it with `countersign execution show`"),
            _ => Failure::state("CONFLICT", format!("{message} meanwhile"))
                .hint("nothing was written; call again to work on the new content"),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Failure {
        match error {
            AppendError::Conflict(conflict) => conflict.into(),
            AppendError::Journal(error) => error.into(),
        }
    }
}

impl From<rusqlite::Error> for JournalError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        // The file through which processes share their view of the log could not be made larger.
        let extended = error.sqlite_error().map(|error| error.extended_code);
        if extended == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
            return JournalError::Full;
        }
        match error.sqlite_error_code() {
            Some(Code::DiskFull) => JournalError::Full,
            Some(Code::ReadOnly | Code::CannotOpen | Code::PermissionDenied) => {
                JournalError::ReadOnly(error.to_string())
            }
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
                JournalError::Corrupt(error.to_string())
            }
            Some(Code::DatabaseBusy | Code::DatabaseLocked | Code::FileLockingProtocolFailed) => {
                JournalError::Busy
            }
            Some(Code::ConstraintViolation | Code::TooBig) => {
                JournalError::Unrecordable(error.to_string())
            }
            // SQLite is content but the value is not one that we ever wrote.
            None if is_foreign_value(&error) => JournalError::Corrupt(error.to_string()),
            _ => JournalError::Internal(error.to_string()),
        }
    }
}

fn is_foreign_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
    )
}

impl From<rusqlite::Error> for AppendError {
    fn from(error: rusqlite::Error) -> Self {
        AppendError::Journal(error.into())
    }
}

impl From<std::io::Error> for JournalError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded => JournalError::Full,
            Kind::ReadOnlyFilesystem | Kind::PermissionDenied => {
                JournalError::ReadOnly(error.to_string())
            }
            _ => JournalError::Internal(error.to_string()),
        }
    }
}
