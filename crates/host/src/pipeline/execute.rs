//! EXECUTING: a transaction is open and the tool works inside it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use countersign_journal::{Batch, Expect};
use countersign_model::event::{self, CallEvent, Enforcement, Usage};
use countersign_model::{Authorization, Failure, TransactionId};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::declare::Asked;
use super::{Authorized, Call, Step};
use crate::meter::{Cancel, Meter, cancelled, max_file_size, timed_out};
use crate::snapshot::Snapshot;
use crate::tool::{Footprint, NativeTool, Staged, ToolContext};
use crate::workers::{Panicked, panic_text};

/// A native tool reaches nothing outside its staging, so the facts up to EXECUTING may wait this
/// long for the commit point and share its sync. A tool that takes longer is recorded as EXECUTING
/// first, so that a host that dies under it leaves a trace.
const FLUSH_GRACE: Duration = Duration::from_millis(5);

/// How often a running call looks whether it was cancelled or its grants were revoked.
const WATCH_INTERVAL: Duration = Duration::from_millis(25);

/// A transaction is open; nothing has run yet.
#[derive(Debug)]
pub struct Executing<'h> {
    pub(super) call: Call<'h>,
    pub(super) open: Open,
}

/// An open transaction: everything that commit and rollback need.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    pub(super) authorization: Authorization,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) usage: Usage,
}

/// The tool has returned; its changes are staged.
#[derive(Debug)]
pub struct Executed<'h> {
    pub(super) call: Call<'h>,
    pub(super) open: Open,
    pub(super) output: Value,
    pub(super) staged: Staged,
}

/// What a tool's thread hands back.
struct Returned {
    result: Result<Value, Failure>,
    staged: Staged,
    usage: Usage,
}

/// Why the host stopped waiting for a tool.
enum Stopped {
    /// The tool itself failed: its state is rolled back.
    Failed(Failure),
    /// The host ended it: ABORTED, then rolled back.
    Aborted(Failure),
    /// The journal failed.
    Broken(countersign_journal::AppendError),
}

impl<'h> Authorized<'h> {
    /// Opens the transaction: takes the state that a rollback must restore.
    pub fn begin(self) -> Step<'h, Executing<'h>> {
        let Authorized { mut call, asked, attempt, authorization } = self;
        let (snapshot, problem) = match call.prepare(&asked) {
            Ok(snapshot) => (snapshot, None),
            Err(failure) => (Snapshot::default(), Some(failure)),
        };
        let snapshot = Arc::new(snapshot);
        let open = Open { asked, attempt, authorization, snapshot, usage: Usage::default() };
        if let Some(failure) = problem {
            // Nothing began, so there is nothing to undo: AUTHORIZED to ABORTED to ROLLED_BACK.
            return Err(call.abort(open, failure));
        }
        let host = call.host.announce().map_err(|error| call.broken(error.into()))?;
        call.note(CallEvent::Started(event::Started {
            attempt,
            transaction: TransactionId::from_uuid(call.host.clock.new_id()),
            host,
            limits: call.tool.declaration.resource_limits,
            enforcement: enforcement(&*call.tool.native, &open.asked.footprint),
            writes: open.snapshot.write_set(),
            before: open.snapshot.digest(),
        }))?;
        call.host.enter(call.recorder.execution());
        Ok(Executing { call, open })
    }
}

/// What really holds a native tool to its limits.
fn enforcement(native: &dyn NativeTool, footprint: &Footprint) -> Enforcement {
    let files =
        footprint.needs.iter().any(|need| need.capability.as_str().starts_with("filesystem"));
    Enforcement {
        isolation: 0,
        time: if native.is_prompt() { "checked" } else { "deadline" }.to_owned(),
        memory: "accounted".to_owned(),
        files: files.then(|| "beneath-root".to_owned()),
    }
}

impl<'h> Executing<'h> {
    pub fn run(self) -> Step<'h, Executed<'h>> {
        let Executing { mut call, mut open } = self;
        let limits = call.tool.declaration.resource_limits;
        let deadline = Instant::now() + Duration::from_millis(limits.max_execution_time);
        let stop = Cancel::default();
        let context = ToolContext::new(
            open.asked.place.clone(),
            open.asked.footprint.clone(),
            Arc::clone(&call.host.home.store),
            Arc::clone(&open.snapshot),
            Meter::start(limits, deadline, stop.clone()),
        );
        let returned = if call.tool.native.is_prompt() {
            call.run_here(&open.asked, context)
        } else {
            call.run_apart(&open, context, deadline)
        };
        stop.cancel();
        let returned = match returned {
            Ok(returned) => returned,
            Err(Stopped::Aborted(failure)) => return Err(call.abort(open, failure)),
            Err(Stopped::Failed(failure)) => return Err(call.roll_back(open, failure)),
            Err(Stopped::Broken(error)) => return Err(call.unrecorded(error)),
        };
        open.usage = returned.usage;
        match returned.result {
            Ok(output) => Ok(Executed { call, open, output, staged: returned.staged }),
            Err(failure) if is_limit(&failure) => Err(call.abort(open, failure)),
            Err(failure) => Err(call.roll_back(open, failure)),
        }
    }
}

/// Runs on the tool's thread.
fn work(native: &dyn NativeTool, input: &Value, mut context: ToolContext) -> Returned {
    let before = thread_cpu();
    let result = native.run(input, &mut context).and_then(|output| {
        context.check()?;
        Ok(output)
    });
    context.meter().note_cpu(thread_cpu().saturating_sub(before));
    let (staged, usage) = context.finish();
    Returned { result, staged, usage }
}

fn thread_cpu() -> Duration {
    let spec = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spec.tv_sec.try_into().unwrap_or(0), spec.tv_nsec.try_into().unwrap_or(0))
}

/// Limits and cancellation abort a call; a tool's own failure does not.
fn is_limit(failure: &Failure) -> bool {
    matches!(failure.code.as_ref(), "TIME_LIMIT" | "MEMORY_LIMIT" | "FILE_TOO_LARGE" | "CANCELLED")
}

impl Call<'_> {
    /// Takes the state that a rollback must restore, if the call may start at all.
    fn prepare(&self, asked: &Asked) -> Result<Snapshot, Failure> {
        // A call may be cancelled before it begins, or in the pause before a retry.
        if self.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let limits = &self.tool.declaration.resource_limits;
        let store = &*self.host.home.store;
        let snapshot =
            Snapshot::take(&asked.place, &asked.footprint, store, max_file_size(limits))?;
        self.host.resources.check(limits)?;
        Ok(snapshot)
    }

    /// Runs a prompt tool on this thread. Its limits were checked as it went and are once more.
    fn run_here(&self, asked: &Asked, context: ToolContext) -> Result<Returned, Stopped> {
        let native = &*self.tool.native;
        catch_unwind(AssertUnwindSafe(|| work(native, &asked.input, context)))
            .map_err(|cause| Stopped::Failed(self.panicked(&panic_text(&*cause).0)))
    }

    /// Runs a tool on a thread of its own, so that the host can stop waiting for it.
    fn run_apart(
        &mut self,
        open: &Open,
        context: ToolContext,
        deadline: Instant,
    ) -> Result<Returned, Stopped> {
        let (native, asked) = (Arc::clone(&self.tool.native), Arc::clone(&open.asked));
        let running = self.host.workers.run(move || work(&*native, &asked.input, context));
        let running = running.map_err(|error| {
            let message = format!("no thread could be started: {error}");
            Stopped::Aborted(Failure::resource("HOST_EXHAUSTED", message))
        })?;
        self.watch(&running, &open.authorization, deadline)
    }

    /// Waits for the tool while keeping an eye on the clock, the caller and the grants.
    fn watch(
        &mut self,
        running: &Receiver<Result<Returned, Panicked>>,
        authorization: &Authorization,
        deadline: Instant,
    ) -> Result<Returned, Stopped> {
        let mut pause = FLUSH_GRACE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match running.recv_timeout(pause.min(left)) {
                Ok(Ok(returned)) => return Ok(returned),
                Ok(Err(Panicked(text))) => return Err(Stopped::Failed(self.panicked(&text))),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Stopped::Failed(self.panicked("its thread ended")));
                }
                Err(RecvTimeoutError::Timeout) => self.look(authorization, deadline)?,
            }
            pause = WATCH_INTERVAL;
        }
    }

    fn look(&mut self, authorization: &Authorization, deadline: Instant) -> Result<(), Stopped> {
        if Instant::now() >= deadline {
            let limit = self.tool.declaration.resource_limits.max_execution_time;
            return Err(Stopped::Aborted(timed_out(limit)));
        }
        if self.cancel.is_cancelled() {
            return Err(Stopped::Aborted(cancelled()));
        }
        self.record_running(authorization)?;
        let book = self.host.grant_book().map_err(Stopped::Aborted)?;
        let revoked = authorization
            .grants
            .iter()
            .find(|id| book.get(id).is_none_or(|record| record.revoked_at.is_some()));
        match revoked {
            Some(id) => Err(Stopped::Aborted(revoked_failure(&id.to_string()))),
            None => check_expiry(authorization, self.recorder.now()).map_err(Stopped::Aborted),
        }
    }

    /// Makes EXECUTING durable, provided that the grants behind it still stand.
    fn record_running(&mut self, authorization: &Authorization) -> Result<(), Stopped> {
        if self.recorder.is_flushed() {
            return Ok(());
        }
        let expect = authorization.grants.iter().copied().map(Expect::GrantLive).collect();
        self.recorder.flush_with(Batch { expect, ..Batch::default() }).map_err(
            |error| match error {
                countersign_journal::AppendError::Conflict(
                    countersign_journal::Conflict::Grant(id),
                ) => Stopped::Aborted(revoked_failure(&id.to_string())),
                error => Stopped::Broken(error),
            },
        )
    }

    fn panicked(&self, text: &str) -> Failure {
        tracing::error!(execution = %self.recorder.execution(), text, "a tool panicked");
        Failure::execution("TOOL_CRASHED", "the tool crashed").hint("the log says more")
    }
}

fn revoked_failure(id: &str) -> Failure {
    Failure::authorization("GRANT_REVOKED", format!("grant {id} was revoked while the call ran"))
        .hint("nothing of this call was kept; ask for a new grant")
}

/// A grant that ran out while the tool worked no longer allows its effects.
pub(super) fn check_expiry(
    authorization: &Authorization,
    now: countersign_model::Timestamp,
) -> Result<(), Failure> {
    match authorization.expires_at {
        Some(expiry) if expiry <= now => {
            let message = format!("a grant behind the call expired at {expiry}, while it ran");
            Err(Failure::authorization("GRANT_EXPIRED", message))
        }
        _ => Ok(()),
    }
}
