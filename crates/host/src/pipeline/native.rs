//! Running a native tool: on this thread if it is certain to end soon, otherwise on another one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use countersign_model::event::Usage;
use countersign_model::{Authorization, Failure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::declare::Asked;
use super::execute::{Executed, Open, Stopped, WATCH_INTERVAL, Work};
use super::{Call, Halt, Step};
use crate::meter::{Cancel, Meter, cancelled, timed_out};
use crate::tool::{Caller, NativeTool, Repeats, Staged, ToolContext};
use crate::workers::{Panicked, panic_text};

/// A native tool reaches nothing outside its staging, so the facts up to EXECUTING may wait this
/// long for the commit point and share its sync. A tool that takes longer is recorded as EXECUTING
/// first, so that a host that dies under it leaves a trace.
const FLUSH_GRACE: Duration = Duration::from_millis(5);

/// How long a tool may take to end the programs that it started.
const PROGRAMS_GRACE: Duration = Duration::from_secs(30);

/// What a tool's thread hands back.
struct Returned {
    result: Result<Value, Failure>,
    staged: Staged,
    usage: Usage,
}

impl<'h> Call<'h> {
    pub(super) fn run_native(
        mut self,
        mut open: Open,
        native: Arc<dyn NativeTool>,
    ) -> Step<'h, Executed<'h>> {
        let limits = self.tool.declaration.resource_limits;
        let deadline = Instant::now() + Duration::from_millis(limits.max_execution_time);
        let stop = Cancel::default();
        // What must not be done twice is on record before it is done once.
        if native.repeats() == Repeats::Once
            && let Err(stopped) = self.record_running(&open.authorization)
        {
            return Err(self.stop(open, stopped));
        }
        let context = ToolContext::new(
            self.caller(),
            open.asked.place.clone(),
            open.asked.footprint.clone(),
            Arc::clone(&open.snapshot),
            Meter::start(limits, deadline, stop.clone()),
        );
        let returned = if native.is_prompt() {
            self.run_here(&*native, &open.asked, context)
        } else {
            self.run_apart(native, &open, context, (deadline, &stop))
        };
        stop.cancel();
        let returned = match returned {
            Ok(returned) => returned,
            Err(stopped) => return Err(self.stop(open, stopped)),
        };
        open.usage = returned.usage;
        match returned.result {
            Ok(output) => {
                let work = Work::Native(returned.staged);
                Ok(Executed { call: self, open, output, work })
            }
            Err(failure) if is_limit(&failure) => Err(self.abort(open, failure)),
            Err(failure) => Err(self.roll_back(open, failure)),
        }
    }

    fn caller(&self) -> Caller {
        Caller {
            execution: self.recorder.execution(),
            principal: self.circumstances.principal.clone(),
            mode: self.circumstances.mode,
            started_at: self.recorder.now(),
            progress: self.given.progress.clone(),
            credential: self.given.credential.clone(),
        }
    }

    pub(super) fn stop(self, open: Open, stopped: Stopped) -> Box<Halt<'h>> {
        match stopped {
            Stopped::Aborted(failure) => self.abort(open, failure),
            Stopped::Failed(failure) => self.roll_back(open, failure),
            Stopped::Broken(error) => self.unrecorded(error),
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
    /// Runs a prompt tool on this thread. Its limits were checked as it went and are once more.
    fn run_here(
        &self,
        native: &dyn NativeTool,
        asked: &Asked,
        context: ToolContext,
    ) -> Result<Returned, Stopped> {
        catch_unwind(AssertUnwindSafe(|| work(native, &asked.input, context)))
            .map_err(|cause| Stopped::Failed(self.panicked(&panic_text(&*cause).0)))
    }

    /// Runs a tool on a thread of its own, so that the host can stop waiting for it.
    fn run_apart(
        &mut self,
        native: Arc<dyn NativeTool>,
        open: &Open,
        context: ToolContext,
        (deadline, stop): (Instant, &Cancel),
    ) -> Result<Returned, Stopped> {
        let asked = Arc::clone(&open.asked);
        let running = self.host.workers.run(move || work(&*native, &asked.input, context));
        let running = running.map_err(|error| {
            let message = format!("no thread could be started: {error}");
            Stopped::Aborted(Failure::resource("HOST_EXHAUSTED", message))
        })?;
        let returned = self.watch(&running, &open.authorization, deadline);
        if returned.is_err() && open.asked.place.work().is_ok() {
            // What works in a worktree may have started programs: when the call is told to be over,
            // they are.
            stop.cancel();
            let _ = running.recv_timeout(PROGRAMS_GRACE);
        }
        returned
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
        if self.given.cancel.is_cancelled() {
            return Err(Stopped::Aborted(cancelled()));
        }
        self.record_running(authorization)?;
        self.check_grants(authorization).map_err(Stopped::Aborted)
    }

    pub(super) fn panicked(&self, text: &str) -> Failure {
        tracing::error!(execution = %self.recorder.execution(), text, "a tool panicked");
        Failure::execution("TOOL_CRASHED", "the tool crashed").hint("the log says more")
    }
}
