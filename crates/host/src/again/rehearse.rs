//! Executing what a call did once more, in a place of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use countersign_journal::Blobs;
use countersign_model::event::Declared;
use countersign_model::{ExecutionId, Failure, Timestamp};
use countersign_repository::Leash;
use serde_json::Value;

use super::place::Fresh;
use crate::host::Host;
use crate::meter::{Cancel, Meter, cancelled, max_file_size, timed_out};
use crate::pipeline::footprint;
use crate::registry::{Implementation, Tool};
use crate::snapshot::Snapshot;
use crate::tool::{Caller, NativeTool, Place, Progress, Rehearsed, Services, ToolContext};
use crate::work::PATIENCE;
use crate::workers::Panicked;

/// How often the clock and the caller are looked at.
const INTERVAL: Duration = Duration::from_millis(25);

/// A call as it was, ready to be done again.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) execution: ExecutionId,
    pub(super) declared: Declared,
    pub(super) input: Value,
    pub(super) started_at: Timestamp,
    pub(super) tool: Arc<Tool>,
}

impl Host {
    /// Does it again. What the tool keeps stays in the fresh place.
    pub(super) fn rehearse(
        &self,
        replica: &Replica,
        fresh: &Fresh,
        cancel: &Cancel,
    ) -> Result<Rehearsed, Failure> {
        match &replica.tool.implementation {
            Implementation::Native(native) => {
                let place = self.place_of(replica, fresh, cancel)?;
                self.rehearse_native(replica, Arc::clone(native), place, cancel)
            }
            Implementation::Program(program) => {
                self.rehearse_program(&replica.tool, program, &replica.input, cancel)
            }
        }
    }

    fn place_of(
        &self,
        replica: &Replica,
        fresh: &Fresh,
        cancel: &Cancel,
    ) -> Result<Place, Failure> {
        let services = Services { made: Blobs::new(fresh.blobs()), ..self.services() };
        let Some(work) = &replica.declared.work else {
            return Ok(Place::new(None, None, services));
        };
        let workspace = self.workspace(&work.workspace)?;
        let mut tick = || if cancel.is_cancelled() { Err(cancelled()) } else { Ok(()) };
        let mut leash = Leash::new(PATIENCE, &mut tick);
        let work = Arc::new(self.lay_out(fresh, workspace, work, &mut leash)?);
        let root = Arc::new(work.root()?);
        Ok(Place::new(Some(root), Some(work), services))
    }

    fn rehearse_native(
        &self,
        replica: &Replica,
        native: Arc<dyn NativeTool>,
        place: Place,
        cancel: &Cancel,
    ) -> Result<Rehearsed, Failure> {
        let limits = replica.tool.declaration.resource_limits;
        let deadline = Instant::now() + Duration::from_millis(limits.max_execution_time);
        let footprint = footprint(&replica.tool.implementation, &replica.input, &place)?;
        let store = &*self.home.store;
        let snapshot = Snapshot::take(&place, &footprint, store, max_file_size(&limits))?;
        let stop = Cancel::default();
        let caller = Caller {
            // Under its own name, so that what is named after the call is named the same.
            execution: replica.execution,
            principal: replica.declared.principal.clone(),
            mode: replica.declared.mode,
            started_at: replica.started_at,
            progress: Progress::default(),
            credential: None,
        };
        let meter = Meter::start(limits, deadline, stop.clone());
        let context = ToolContext::new(caller, place, footprint, Arc::new(snapshot), meter);
        let input = replica.input.clone();
        let running = self.workers.run(move || context.rehearse(&*native, &input));
        let running = running.map_err(|error| {
            Failure::resource("HOST_EXHAUSTED", format!("no thread could be started: {error}"))
        })?;
        let done = wait(&running, deadline, limits.max_execution_time, cancel);
        stop.cancel();
        done
    }
}

fn wait(
    running: &Receiver<Result<Result<Rehearsed, Failure>, Panicked>>,
    deadline: Instant,
    limit_ms: u64,
    cancel: &Cancel,
) -> Result<Rehearsed, Failure> {
    loop {
        match running.recv_timeout(INTERVAL) {
            Ok(Ok(done)) => return done,
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                return Err(Failure::execution("TOOL_CRASHED", "the tool crashed"));
            }
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(cancelled()),
            Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Err(timed_out(limit_ms));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
