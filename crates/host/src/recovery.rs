//! Finishing what a dead process left behind.
//!
//! Recovery folds a call's facts with the same function that live code uses and takes the one step
//! that is left: past the commit point the effects are published, before it the call is aborted
//! and rolled back. Running it twice changes nothing. Two processes may ask for it at once: they take
//! turns, and the second finds nothing left to do.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::sync::Arc;

use countersign_journal::{AppendError, Batch, Conflict, JournalError, presence};
use countersign_model::event::{
    CallEvent, CallFact, Committed, Completed, Declared, Fact, RolledBack, Usage, WriteSet,
};
use countersign_model::record::{CallRecord, CallSummary};
use countersign_model::state::Running;
use countersign_model::{CallState, ExecutionId, Failure, Lifecycle};
use rustix::fs::{FlockOperation, flock};

use crate::host::Host;
use crate::publish::{Patience, lost_root, publish};
use crate::recorder::Recorder;
use crate::root::Root;
use crate::snapshot::digest_now;

/// What recovery did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    pub completed: Vec<ExecutionId>,
    pub rolled_back: Vec<ExecutionId>,
    /// Completed, but with changes that a human must look at.
    pub unsettled: Vec<ExecutionId>,
    /// Could not be finished now; tried again at the next start.
    pub pending: Vec<Failure>,
}

impl Host {
    /// Finishes every call that nobody works on. One that cannot be finished now does not keep the
    /// others waiting.
    pub fn recover(&self) -> Result<Recovered, Failure> {
        self.recover_all(None)
    }

    /// As [`recover`](Self::recover), but leaves the changes of one committed call that cannot be
    /// published as they are: a human has looked.
    pub fn give_up_on(&self, execution: ExecutionId) -> Result<Recovered, Failure> {
        self.recover_all(Some(execution))
    }

    fn recover_all(&self, hopeless: Option<ExecutionId>) -> Result<Recovered, Failure> {
        let mut recovered = Recovered::default();
        if !self.abandoned()?.is_empty() {
            let _alone = self.lock_recovery()?;
            // Asked again, now that nobody else recovers: another process may have been first.
            for call in self.abandoned()? {
                let patience = match hopeless == Some(call.execution) {
                    true => Patience::GiveUp,
                    false => Patience::Wait,
                };
                if let Err(failure) = self.recover_call(&call, patience, &mut recovered) {
                    recovered.pending.push(failure.of_execution(call.execution));
                }
            }
        }
        if let Err(error) = presence::sweep(&self.home.hosts()) {
            tracing::warn!(%error, "the files of dead processes could not be removed");
        }
        if let Err(error) = self.home.blobs.sweep() {
            tracing::warn!(%error, "contents that were half written could not be removed");
        }
        self.sweep_inputs()?;
        Ok(recovered)
    }

    fn abandoned(&self) -> Result<Vec<CallSummary>, Failure> {
        let mut abandoned = Vec::new();
        for call in self.home.store.open_calls()? {
            // One that waits for people is nobody's, and that is how it should be.
            let has_begun = !matches!(call.state, Lifecycle::Declared | Lifecycle::Validated);
            if has_begun && !self.is_at_work(call.host, call.execution)? {
                abandoned.push(call);
            }
        }
        Ok(abandoned)
    }

    /// Publishing is safe to repeat but not to do twice at once: the slower of two could put old
    /// content over what a later call has written. The kernel drops the lock if we die.
    fn lock_recovery(&self) -> Result<File, Failure> {
        let lock = || -> std::io::Result<File> {
            let path = self.home.recovery_lock();
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        };
        lock().map_err(|error| JournalError::from(error).into())
    }

    /// The call's root, unless another directory has taken its place.
    fn reopen_root(&self, call: &CallSummary) -> Result<Root, Failure> {
        let path = call.root.as_deref().ok_or_else(lost_root)?;
        if let Some(work) = &call.work {
            return Root::of_worktree(
                &self.home.worktree(&work.workspace, &work.run).files(),
                path,
            );
        }
        let root = Root::open(Path::new(path), self.home.path())?;
        if root.path() == path { Ok(root) } else { Err(lost_root()) }
    }

    fn recover_call(
        &self,
        call: &CallSummary,
        patience: Patience,
        recovered: &mut Recovered,
    ) -> Result<(), Failure> {
        let Some(record) = self.fold(call.execution)? else { return Ok(()) };
        let root = self.reopen_root(call);
        let store = Arc::clone(&self.home.store);
        let state = record.state.clone();
        let mut recorder = Recorder::resume(store, Arc::clone(&self.clock), record);
        let finished = match state {
            CallState::Executing { committed: Some(committed), .. } => {
                self.complete(&mut recorder, root.as_ref(), &committed, patience)
            }
            CallState::Executing { running, committed: None, .. } => {
                self.abort(&mut recorder, root.as_ref().ok(), Some(&running))
            }
            CallState::Aborted { running, .. } => {
                self.roll_back(&mut recorder, root.as_ref().ok(), running.as_ref())
            }
            CallState::Authorized { .. } | CallState::RolledBack { retry: Some(_), .. } => {
                self.abort(&mut recorder, root.as_ref().ok(), None)
            }
            // Not begun, or ended: nothing to do.
            _ => return Ok(()),
        };
        recovered.note(recorder.summary(), finished)
    }

    pub(crate) fn fold(&self, execution: ExecutionId) -> Result<Option<CallRecord>, Failure> {
        let entries = self.home.store.call_entries(execution)?;
        let facts = entries.iter().filter_map(|stored| match &stored.entry.fact {
            Fact::Call(call) => Some((stored.entry.time, &call.event)),
            _ => None,
        });
        CallRecord::fold(execution, facts).map_err(|error| {
            Failure::state("JOURNAL_CORRUPT", format!("execution {execution}: {error}"))
        })
    }

    /// How a call began.
    pub(crate) fn declared(&self, execution: ExecutionId) -> Result<Declared, Failure> {
        let entries = self.home.store.call_entries(execution)?;
        let first = entries.into_iter().next().map(|stored| stored.entry.fact);
        match first {
            Some(Fact::Call(CallFact { event: CallEvent::Declared(declared), .. })) => Ok(declared),
            _ => Err(Failure::state("JOURNAL_CORRUPT", format!("{execution} has no beginning"))),
        }
    }

    fn complete(
        &self,
        recorder: &mut Recorder,
        root: Result<&Root, &Failure>,
        committed: &Committed,
        patience: Patience,
    ) -> Result<(), Finish> {
        let execution = recorder.execution();
        let (blobs, effects) = (&self.home.blobs, &committed.effects);
        let unsettled = publish(root, blobs.into(), execution, effects, patience)?;
        recorder.note(CallEvent::Completed(Completed {
            output: committed.output,
            usage: Usage::default(),
            duration_ms: recorder.elapsed_ms(),
            unsettled,
        }))?;
        let batch = Batch { release_claims: Some(execution), ..Batch::default() };
        Ok(recorder.flush_with(batch)?)
    }

    fn abort(
        &self,
        recorder: &mut Recorder,
        root: Option<&Root>,
        running: Option<&Running>,
    ) -> Result<(), Finish> {
        let connected = running.is_some_and(|running| running.connected);
        recorder.note(CallEvent::Aborted { error: host_died(connected) })?;
        self.roll_back(recorder, root, running)
    }

    fn roll_back(
        &self,
        recorder: &mut Recorder,
        root: Option<&Root>,
        running: Option<&Running>,
    ) -> Result<(), Finish> {
        let (writes, before) = match running {
            Some(running) => (running.writes.clone(), Some(running.before)),
            None => (WriteSet::default(), None),
        };
        // What it sent out, and whether, went with the process that knew.
        let connected = running.is_some_and(|running| running.connected);
        let after = digest_now(root, &writes, &*self.home.store);
        recorder.note(CallEvent::RolledBack(RolledBack {
            error: recorder.summary().error.clone().unwrap_or_else(|| host_died(connected)),
            before: before.unwrap_or(after),
            after,
            usage: Usage::default(),
            duration_ms: recorder.elapsed_ms(),
            retry: None,
            connections: Vec::new(),
            stdout: None,
            stderr: None,
            unknown: connected,
        }))?;
        Ok(recorder.flush()?)
    }
}

/// Why a call could not be finished.
enum Finish {
    Failed(Failure),
    Append(AppendError),
}

impl From<Failure> for Finish {
    fn from(failure: Failure) -> Self {
        Finish::Failed(failure)
    }
}

impl From<AppendError> for Finish {
    fn from(error: AppendError) -> Self {
        Finish::Append(error)
    }
}

impl Recovered {
    /// What two recoveries did, one after the other: what is pending is what the second left.
    #[must_use]
    pub fn and_then(mut self, later: Recovered) -> Recovered {
        self.completed.extend(later.completed);
        self.rolled_back.extend(later.rolled_back);
        self.unsettled.extend(later.unsettled);
        Recovered { pending: later.pending, ..self }
    }

    /// Another process that finished the same call first did as well: then it is not ours to report.
    fn note(&mut self, call: &CallSummary, finished: Result<(), Finish>) -> Result<(), Failure> {
        match finished {
            Err(Finish::Append(AppendError::Conflict(Conflict::Call(_)))) => return Ok(()),
            Err(Finish::Append(error)) => return Err(error.into()),
            Err(Finish::Failed(failure)) => return Err(failure.of_execution(call.execution)),
            Ok(()) if call.is_unknown() => self.unsettled.push(call.execution),
            Ok(()) if call.state == Lifecycle::Completed => self.completed.push(call.execution),
            Ok(()) => self.rolled_back.push(call.execution),
        }
        Ok(())
    }
}

fn host_died(connected: bool) -> Failure {
    let hint = match connected {
        false => "nothing of the call was kept; call again",
        true => {
            "nothing of the call was kept here, but it may have reached other hosts: look there \
             before you call again"
        }
    };
    Failure::execution("HOST_DIED", "the process that ran the call ended before the call did")
        .hint(hint)
}
