//! All that the host knows about a run when it writes the result.

use std::collections::BTreeMap;

use countersign_model::{Digest, Timestamp};

use super::{Captured, Note};
use crate::request::{Cores, Destination};

/// A run, as the host saw it. The id and the command are those of a request that was accepted; the
/// destinations come from the proxy's own log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub backend: Backend,
    pub command: String,
    pub created: Timestamp,
    pub destinations: Vec<Destination>,
    pub ending: Ending,
    pub limits: Limits,
    /// What the host itself noticed; what was found in the streams is added to it.
    pub notes: BTreeMap<Note, u64>,
    pub produced: Vec<Produced>,
    pub request_id: String,
    pub runtime_ms: u64,
    pub stderr: Captured,
    pub stdout: Captured,
}

/// What really ran the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    pub name: String,
    pub version: Option<String>,
}

/// Limits as they were enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub cpu: Cores,
    pub memory_mb: u32,
    pub time_sec: u32,
}

/// A file below /out that the request expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Produced {
    pub description: Option<String>,
    pub path: String,
    pub sha256: Digest,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Exited(u8),
    /// By a signal that nobody here sent.
    Signalled(u8),
    /// Stopped at its time limit.
    TimedOut,
    /// Stopped at another limit: memory, processes, output.
    LimitReached,
    /// It ended by itself, and what it left was refused.
    Refused(u8),
    /// By its host: cancelled, or the host itself failed.
    Stopped,
    NotStarted,
}

/// What a shell says of a program that was killed, or that it could not find.
const KILLED: u8 = 128 + 9;
const NOT_FOUND: u8 = 127;

impl Ending {
    /// The exit code in the front matter. The schema has no place for a signal, so it is written as
    /// shells write it; `Whether it succeeded:` and the notes tell the cases apart.
    pub const fn exit_code(self) -> u8 {
        match self {
            Ending::Exited(code) | Ending::Refused(code) => code,
            Ending::Signalled(signal) => 128_u8.saturating_add(signal),
            Ending::TimedOut | Ending::LimitReached | Ending::Stopped => KILLED,
            Ending::NotStarted => NOT_FOUND,
        }
    }

    pub(super) const fn note(self) -> Option<Note> {
        match self {
            Ending::Exited(_) => None,
            Ending::Refused(_) => Some(Note::OutputsRefused),
            Ending::Signalled(_) => Some(Note::KilledBySignal),
            Ending::TimedOut => Some(Note::TimedOut),
            Ending::LimitReached => Some(Note::LimitReached),
            Ending::Stopped => Some(Note::Stopped),
            Ending::NotStarted => Some(Note::NotStarted),
        }
    }

    pub(super) fn sentence(self) -> String {
        match self {
            Ending::Exited(0) => "yes, exit code 0".to_owned(),
            Ending::Exited(code) => format!("no, exit code {code}"),
            Ending::Signalled(signal) => format!("no, ended by signal {signal}"),
            Ending::TimedOut => "no, stopped at its time limit".to_owned(),
            Ending::LimitReached => "no, stopped at a resource limit".to_owned(),
            Ending::Refused(code) => format!("no, what it left was refused, exit code {code}"),
            Ending::Stopped => "no, stopped by the host".to_owned(),
            Ending::NotStarted => "no, it could not be started".to_owned(),
        }
    }
}
