//! The life of a call.
//!
//! Each stage takes the one before it by value and is the only way to make the next, so a call that
//! was not validated cannot be authorised and one that was not authorised cannot run: such a
//! program does not compile.
//!
//! ```text
//! Declared ─► Validated ─► Authorized ─► Executing ─► Executed ─► Checked ─► Committed ─► Outcome
//!                 ▲  └─► (people are asked, and the call is let go of)
//!              Waiting
//! ```

mod authorize;
mod case;
mod changes;
mod commit;
mod declare;
mod execute;
mod native;
mod once;
mod program;
mod repeat;
mod rollback;
mod simulate;
mod wait;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use countersign_journal::AppendError;
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, Connection, Retry};
use countersign_model::record::CallSummary;
use countersign_model::{
    Consumed, Digest, ExecutionId, Failure, Lifecycle, Principal, SandboxMode, ToolRef,
};
use countersign_policy::Policies;
use countersign_repository::Credential;
use serde_json::Value;

pub use self::authorize::Authorized;
use self::case::Case;
pub(crate) use self::changes::{effects_of, native_effects};
pub(crate) use self::commit::workspace_unchanged;
pub use self::commit::{Checked, Committed};
pub(crate) use self::declare::{Asked, footprint};
pub use self::declare::{Declared, Validated};
pub use self::execute::{Executed, Executing};
use self::execute::{Open, Trace};
pub(crate) use self::program::read_output;
pub use self::simulate::{Simulation, Would};
pub use self::wait::Waiting;
use crate::facts::Circumstances;
use crate::host::Host;
use crate::meter::Cancel;
use crate::order::ORDER_TOOL;
use crate::recorder::{self, Recorder};
use crate::registry::Tool;
use crate::tool::Progress;
use crate::work::WorkPlace;

/// What a front door asks for, parsed and nothing more.
#[derive(Debug, Clone)]
pub struct CallCommand {
    pub tool: ToolRef,
    /// JSON, as it arrived.
    pub input: Vec<u8>,
    pub principal: Principal,
    /// On whose behalf the principal asks, nearest first.
    pub chain: Vec<Principal>,
    pub mode: SandboxMode,
    pub toolset: Option<String>,
    pub root: Option<PathBuf>,
    /// The worktree of a run, in place of a root.
    pub work: Option<Arc<WorkPlace>>,
    /// Artifacts that the input names.
    pub consumes: Vec<Consumed>,
    /// Do it even if it was done before; not where it must be done once.
    pub fresh: bool,
    /// Why what the call asks for is not there, if a front door found so. It ends the call.
    pub obstacle: Option<Failure>,
    pub given: Given,
}

/// What whoever runs a call hands in for this once; nothing of it is recorded.
#[derive(Debug, Clone, Default)]
pub struct Given {
    pub cancel: Cancel,
    /// For what a built-in tool does elsewhere in somebody's name.
    pub credential: Option<Arc<Credential>>,
    pub progress: Progress,
}

impl From<Cancel> for Given {
    fn from(cancel: Cancel) -> Self {
        Given { cancel, ..Given::default() }
    }
}

impl CallCommand {
    /// A call on nobody's behalf but the principal's own, in the default mode and without a root.
    pub fn new(tool: ToolRef, input: Vec<u8>, principal: Principal) -> Self {
        CallCommand {
            tool,
            input,
            principal,
            chain: Vec::new(),
            mode: SandboxMode::default(),
            toolset: None,
            root: None,
            work: None,
            consumes: Vec::new(),
            fresh: false,
            obstacle: None,
            given: Given::default(),
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    pub execution: ExecutionId,
    pub state: Lifecycle,
    pub result: Result<Value, Failure>,
    pub duration_ms: u64,
    pub attempts: u32,
    pub receipt: Receipt,
    /// Paths that held something unexpected when they were to be published.
    pub unsettled: Vec<String>,
    /// What a program left in `/out`; the contents are in the blob store.
    pub artifacts: Vec<Artifact>,
    /// Every attempt of a program to reach a host.
    pub connections: Vec<Connection>,
    /// What a program said on its diagnostic stream, kept with the call.
    pub stderr: Option<Payload>,
    /// What a program that failed had written to its standard output.
    pub stdout: Option<Payload>,
    /// The earlier call whose result this is; nothing ran.
    pub replayed: Option<ExecutionId>,
}

/// Where the call's last fact stands in the journal, and a signed checkpoint that covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub entry: u64,
    pub hash: Digest,
    pub checkpoint: String,
}

/// Why a stage did not lead to the next one.
#[derive(Debug)]
pub enum Halt<'h> {
    /// The call has ended, and the journal says so.
    Ended(Box<Outcome>),
    /// This attempt was rolled back and another one follows.
    Retry(Box<Validated<'h>>, Retry),
    /// The journal could not be written. Nothing was published.
    Broken(Failure),
}

pub(crate) type Step<'h, T> = Result<T, Box<Halt<'h>>>;

/// What every stage carries along.
#[derive(Debug)]
pub(crate) struct Call<'h> {
    pub(crate) host: &'h Host,
    pub(crate) tool: Arc<Tool>,
    pub(crate) recorder: Recorder,
    pub(crate) given: Given,
    pub(crate) fresh: bool,
    /// Frozen for the life of the call.
    pub(crate) policies: Arc<Policies>,
    pub(crate) circumstances: Circumstances,
    /// As which principals and keys stood when answers of people were checked. Until the fact that
    /// rests on them is written, nothing about them may change.
    pub(crate) people: Option<u64>,
    /// Where the call stood before it began: somebody else may turn out to do the same.
    unbegun: Option<recorder::Mark>,
}

impl Host {
    /// Runs one call from declaration to its end.
    ///
    /// `Err` means that no call came to be, or that the journal failed; every other ending, good or
    /// bad, is an [`Outcome`].
    pub fn call(&self, command: CallCommand) -> Result<Outcome, Failure> {
        let tool = Arc::clone(self.registry.resolve(&command.tool)?);
        self.call_as(ExecutionId::from_uuid(self.clock.new_id()), tool, command)
    }

    /// The same for a tool and an execution that are settled already.
    pub(crate) fn call_as(
        &self,
        execution: ExecutionId,
        tool: Arc<Tool>,
        command: CallCommand,
    ) -> Result<Outcome, Failure> {
        self.finish_leftovers();
        let declared = Declared::enter(self, execution, tool, command)?;
        self.run_on(declared.validate().and_then(Validated::authorize))
    }

    /// Runs a call that people were asked about, if they agreed; otherwise says what it waits for.
    pub fn resume(
        &self,
        execution: ExecutionId,
        given: impl Into<Given>,
    ) -> Result<Outcome, Failure> {
        let call = self.home.store.call(execution)?;
        if let Some(call) = call.filter(|call| call.tool.as_str() == ORDER_TOOL) {
            return Err(only_as_a_document(&call));
        }
        self.take_up(execution, given.into())
    }

    /// The same for any call, orders too.
    pub(crate) fn take_up(&self, execution: ExecutionId, given: Given) -> Result<Outcome, Failure> {
        self.finish_leftovers();
        let waiting = Waiting::take_up(self, execution)?;
        self.run_on(waiting.answered(given).and_then(Validated::authorize))
    }

    fn run_on<'h>(&'h self, mut step: Step<'h, Authorized<'h>>) -> Result<Outcome, Failure> {
        loop {
            let committed = step
                .and_then(Authorized::begin)
                .and_then(Executing::run)
                .and_then(Executed::check)
                .and_then(Checked::commit);
            match committed.map_err(|halt| *halt) {
                Ok(committed) => return committed.publish(),
                Err(Halt::Ended(outcome)) => return Ok(*outcome),
                Err(Halt::Broken(failure)) => return Err(failure),
                Err(Halt::Retry(validated, retry)) => {
                    self.clock.sleep(Duration::from_millis(retry.delay_ms));
                    step = validated.authorize();
                }
            }
        }
    }
}

impl<'h> Call<'h> {
    /// What a decision about this call goes by.
    fn case(&self) -> Case<'_> {
        let Call { host, tool, policies, circumstances, .. } = self;
        Case { host, tool, policies, circumstances }
    }

    fn note(&mut self, event: CallEvent) -> Step<'h, ()> {
        self.recorder.note(event).map_err(|failure| self.broken(failure))
    }

    fn flush(&mut self) -> Step<'h, ()> {
        self.recorder.flush().map_err(|error| self.unrecorded(error))
    }

    fn unrecorded(&self, error: AppendError) -> Box<Halt<'h>> {
        self.broken(error.into())
    }

    fn broken(&self, failure: Failure) -> Box<Halt<'h>> {
        self.host.broken(self.recorder.execution(), failure)
    }

    fn end(self, event: CallEvent, failure: Failure) -> Box<Halt<'h>> {
        self.host.end(self.recorder, event, failure)
    }

    /// How a call ended that got as far as a transaction.
    fn outcome_of(&self, open: Open, result: Result<Value, Failure>) -> Outcome {
        let Trace { connections, stdout, stderr } = open.trace;
        Outcome { connections, stdout, stderr, ..self.outcome(result) }
    }

    fn outcome(&self, result: Result<Value, Failure>) -> Outcome {
        Outcome::of(&self.recorder, result)
    }
}

impl Host {
    /// The call cannot go on here. What the journal holds of it is for recovery to finish.
    fn broken(&self, execution: ExecutionId, failure: Failure) -> Box<Halt<'_>> {
        self.give_up(execution);
        Box::new(Halt::Broken(failure.of_execution(execution)))
    }

    /// Records a last fact and ends the call with a failure.
    fn end(&self, mut recorder: Recorder, event: CallEvent, failure: Failure) -> Box<Halt<'_>> {
        let recorded = recorder.note(event).and_then(|()| Ok(recorder.flush()?));
        if let Err(failure) = recorded {
            return self.broken(recorder.execution(), failure);
        }
        self.leave(recorder.execution());
        Box::new(Halt::Ended(Box::new(Outcome::of(&recorder, Err(failure)))))
    }
}

impl Outcome {
    fn of(recorder: &Recorder, result: Result<Value, Failure>) -> Self {
        let summary = recorder.summary();
        let receipt = recorder.last().map_or_else(Receipt::none, |appended| Receipt {
            entry: appended.entries.end.saturating_sub(1),
            hash: appended.hash,
            checkpoint: appended.checkpoint.clone(),
        });
        Outcome {
            execution: summary.execution,
            state: summary.state,
            result: result.map_err(|failure| failure.of_execution(summary.execution)),
            // Longer than what the journal says: a fact cannot know how long its own sync took.
            duration_ms: recorder.elapsed_ms(),
            attempts: summary.attempts,
            receipt,
            unsettled: summary.unsettled.clone(),
            artifacts: Vec::new(),
            connections: Vec::new(),
            stderr: None,
            stdout: None,
            replayed: summary.replayed,
        }
    }
}

/// Whoever runs an order also writes its result.
fn only_as_a_document(call: &CallSummary) -> Failure {
    Failure::validation("RUNS_AS_DOCUMENT", "this call runs as the document that asked for it")
        .hint("run it with `countersign request run`, so that its result is written")
        .of_execution(call.execution)
}

impl Receipt {
    fn none() -> Self {
        Receipt { entry: 0, hash: Digest::ZERO, checkpoint: String::new() }
    }
}
