//! Group commit without a writer thread.
//!
//! Whoever appends puts its batch into the queue. The first one leads: it commits everything that
//! is queued in one transaction and hands out the results; what arrived meanwhile is led by the
//! first of those. A lone caller therefore commits on its own thread, and many callers share one
//! sync to disk.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::prepared::Prepared;
use crate::error::{AppendError, JournalError};
use crate::store::Appended;

type Outcome = Result<Appended, AppendError>;

#[derive(Debug)]
pub(super) struct Job {
    pub(super) batch: Prepared,
    ticket: Arc<Ticket>,
}

#[derive(Debug)]
enum Slot {
    Waiting,
    Lead,
    Done(Outcome),
}

#[derive(Debug)]
struct Ticket {
    slot: Mutex<Slot>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: Vec<Job>,
    led: bool,
}

#[derive(Debug, Default)]
pub(super) struct Queue(Mutex<Waiting>);

/// Bounds what one commit can hold, and so how long the others wait for it.
const MAX_GROUP: usize = 256;

impl Queue {
    /// Appends `batch`, calling `commit` for a whole group if it falls to this caller to lead.
    pub(super) fn append(
        &self,
        batch: Prepared,
        commit: impl FnOnce(Vec<Job>) -> Vec<(Job, Outcome)>,
    ) -> Outcome {
        let ticket = Ticket::new();
        if !self.enter(Job { batch, ticket: Arc::clone(&ticket) })
            && let Some(outcome) = ticket.wait()
        {
            return outcome;
        }
        // We lead: our own job is in the queue, at its front.
        let lead = Lead(self);
        let finished = commit(self.take_group());
        // The next group is committed while this one is told how it went.
        drop(lead);
        for (job, outcome) in finished {
            job.ticket.set(Slot::Done(outcome));
        }
        ticket.wait().unwrap_or(Err(AppendError::Journal(JournalError::Poisoned)))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap().jobs.len()
    }

    /// Queues a job; `true` if nobody leads, so the caller must.
    fn enter(&self, job: Job) -> bool {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.jobs.push(job);
        !std::mem::replace(&mut waiting.led, true)
    }

    fn take_group(&self) -> Vec<Job> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let group = waiting.jobs.len().min(MAX_GROUP);
        waiting.jobs.drain(..group).collect()
    }

    fn hand_over(&self) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match waiting.jobs.first() {
            Some(next) => next.ticket.set(Slot::Lead),
            None => waiting.led = false,
        }
    }
}

/// Passes the lead on, also when the leader panics: nobody waits for ever.
struct Lead<'q>(&'q Queue);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.hand_over();
    }
}

/// A job that is dropped without an outcome was not committed.
impl Drop for Job {
    fn drop(&mut self) {
        let mut slot = self.ticket.slot.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*slot, Slot::Waiting) {
            *slot = Slot::Done(Err(AppendError::Journal(JournalError::Poisoned)));
            self.ticket.changed.notify_one();
        }
    }
}

impl Ticket {
    fn new() -> Arc<Self> {
        Arc::new(Ticket { slot: Mutex::new(Slot::Waiting), changed: Condvar::new() })
    }

    fn set(&self, slot: Slot) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = slot;
        self.changed.notify_one();
    }

    /// The outcome, or `None` when this caller is to lead.
    fn wait(&self) -> Option<Outcome> {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match std::mem::replace(&mut *slot, Slot::Waiting) {
                Slot::Done(outcome) => return Some(outcome),
                Slot::Lead => return None,
                Slot::Waiting => {
                    slot = self.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
