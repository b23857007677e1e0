//! What applies plans: the trait that both backends serve, and how a call can end.

use std::fmt;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use countersign_model::Failure;
use countersign_model::event::{Connection, Usage};
use serde::Serialize;
use serde_json::json;

use crate::capture::Captured;
use crate::limits::{LimitKind, Limits};
use crate::plan::Plan;
use crate::spec::Spec;

/// Runs programs in sandboxes.
pub trait Backend: Send + Sync + fmt::Debug {
    /// What it is called wherever it is named as what ran a program.
    fn name(&self) -> &'static str;

    /// What would be done, or why it cannot be.
    fn plan(&self, spec: &Spec) -> Result<Plan, Failure>;

    /// Runs one program to its end. `Err` means that it never started; every other ending, good or
    /// bad, is an [`Ended`]. When this returns, no process of the sandbox is left.
    fn run(&self, job: Job, observer: &mut dyn Observer) -> Result<Ended, Failure>;
}

/// One program to run.
#[derive(Debug, Clone)]
pub struct Job {
    pub plan: Arc<Plan>,
    /// What the program reads from its standard input.
    pub input: Vec<u8>,
    /// Where output that is too long to keep at hand is put, in files without names.
    pub spill: PathBuf,
    /// The way out, for a plan that has hosts.
    pub gateway: Option<Arc<dyn Gateway>>,
    /// Sandboxes to keep prepared for the next calls with the same plan.
    pub warm: u32,
}

/// Looks at a running program from outside.
pub trait Observer {
    /// Called every few milliseconds. An error ends the program, and becomes its ending.
    fn tick(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Called with output as it arrives.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Observer for Unwatched {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Makes connections on behalf of sandboxed programs.
pub trait Gateway: Send + Sync + fmt::Debug {
    /// Serves a socket that listens inside of a sandbox, for these hosts only.
    fn open(
        &self,
        listener: TcpListener,
        hosts: &[String],
    ) -> Result<Box<dyn GatewaySession>, Failure>;
}

pub trait GatewaySession: Send {
    /// Ends every connection and tells of every attempt.
    fn close(self: Box<Self>) -> Vec<Connection>;
}

/// A program that ran, and what is left of it.
#[derive(Debug)]
pub struct Ended {
    pub ending: Ending,
    pub stdout: Captured,
    pub stderr: Captured,
    pub usage: Usage,
    pub wall_ms: u64,
    pub connections: Vec<Connection>,
    pub staged: Staged,
}

/// What the program wrote, for nobody to see yet. Dropping it is the rollback.
#[derive(Debug, Default)]
pub struct Staged {
    /// The directory that the program saw as `/out`.
    pub out: Option<OwnedFd>,
    pub workspace: Option<StagedWorkspace>,
    /// Keep it as long as the directories are in use.
    pub cleanup: Cleanup,
}

/// Removes staged directories that have names, when it is dropped.
#[derive(Default)]
pub struct Cleanup(Option<Box<dyn FnOnce() + Send>>);

impl Cleanup {
    pub fn new(remove: impl FnOnce() + Send + 'static) -> Self {
        Cleanup(Some(Box::new(remove)))
    }
}

impl fmt::Debug for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Cleanup(pending)" } else { "Cleanup(nothing)" })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(remove) = self.0.take() {
            remove();
        }
    }
}

#[derive(Debug)]
pub struct StagedWorkspace {
    pub directory: OwnedFd,
    pub form: StagedForm,
}

/// How the staged directory describes the changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StagedForm {
    /// The upper layer of an overlay: only what changed, with whiteouts for what was removed.
    Upper,
    /// All of the workspace, changed or not.
    Whole,
}

/// Every way in which a program can end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind")]
pub enum Ending {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    Limit {
        limit: LimitKind,
    },
    /// The observer ended it.
    Stopped {
        failure: Failure,
    },
}

impl Ending {
    pub fn is_success(&self) -> bool {
        *self == Ending::Exited { code: 0 }
    }

    /// The failure of a call that ended so; `None` for success.
    pub fn failure(&self, limits: &Limits) -> Option<Failure> {
        match self {
            Ending::Exited { code: 0 } => None,
            Ending::Exited { code } => Some(
                Failure::execution("TOOL_FAILED", format!("the tool ended with exit code {code}"))
                    .details(json!({ "exitCode": code })),
            ),
            Ending::Signalled { signal } => Some(
                Failure::execution("TOOL_KILLED", format!("the tool was ended by signal {signal}"))
                    .details(json!({ "signal": signal })),
            ),
            Ending::Limit { limit } => Some(limits.reached(*limit)),
            Ending::Stopped { failure } => Some(failure.clone()),
        }
    }
}
