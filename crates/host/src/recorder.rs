//! The only way a call's facts reach the journal.
//!
//! Facts are noted as they happen and flushed together, so that the steps of a call share a commit.
//! Nothing that a noted fact allows may happen outside this process before it was flushed.

use std::sync::Arc;

use countersign_journal::{AppendError, Appended, Batch, Expect, Store};
use countersign_model::event::{CallEvent, CallFact, Declared, Fact};
use countersign_model::record::{CallRecord, CallSummary};
use countersign_model::{Digest, ExecutionId, Failure, Timestamp};

use crate::clock::Clock;
use crate::telemetry;

#[derive(Debug)]
pub(crate) struct Recorder {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    record: CallRecord,
    pending: Vec<(Timestamp, CallEvent)>,
    payloads: Vec<(Digest, Vec<u8>)>,
    /// How many facts of this call are durable.
    durable: u32,
    last: Option<Appended>,
}

impl Recorder {
    pub(crate) fn begin(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        execution: ExecutionId,
        declared: Declared,
    ) -> Self {
        let now = clock.now();
        let record = CallRecord::begin(execution, now, &declared);
        let event = CallEvent::Declared(declared);
        telemetry::emit(&event, &record.summary);
        let pending = vec![(now, event)];
        Recorder { store, clock, record, pending, payloads: Vec::new(), durable: 0, last: None }
    }

    /// Takes up a call that another process left behind.
    pub(crate) fn resume(store: Arc<dyn Store>, clock: Arc<dyn Clock>, record: CallRecord) -> Self {
        let durable = record.summary.events;
        Recorder {
            store,
            clock,
            record,
            pending: Vec::new(),
            payloads: Vec::new(),
            durable,
            last: None,
        }
    }

    pub(crate) fn execution(&self) -> ExecutionId {
        self.record.summary.execution
    }

    pub(crate) fn summary(&self) -> &CallSummary {
        &self.record.summary
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Milliseconds since the call was declared.
    pub(crate) fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.now().millis_since(self.summary().declared_at)).unwrap_or(0)
    }

    /// Where the newest durable fact stands.
    pub(crate) fn last(&self) -> Option<&Appended> {
        self.last.as_ref()
    }

    /// Keeps a small value beside the facts that pin it.
    pub(crate) fn keep(&mut self, digest: Digest, bytes: Vec<u8>) {
        self.payloads.push((digest, bytes));
    }

    /// Notes one more fact. A fact that cannot follow is a bug of ours and stops the call.
    pub(crate) fn note(&mut self, event: CallEvent) -> Result<(), Failure> {
        let now = self.clock.now();
        let execution = self.execution();
        self.record.advance(now, &event).map_err(|error| {
            tracing::error!(%error, %execution, "an impossible fact was noted");
            Failure::state("INTERNAL", "the call reached a state that should not exist")
        })?;
        telemetry::emit(&event, &self.record.summary);
        self.pending.push((now, event));
        Ok(())
    }

    pub(crate) fn is_flushed(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn flush(&mut self) -> Result<(), AppendError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.flush_with(Batch::default())
    }

    /// Appends what is pending together with whatever else `batch` holds. If that is refused, the
    /// pending facts stay pending.
    pub(crate) fn flush_with(&mut self, mut batch: Batch) -> Result<(), AppendError> {
        let execution = self.execution();
        let fact = |(at, event): &(Timestamp, CallEvent)| {
            (*at, Fact::Call(CallFact { execution, event: event.clone() }))
        };
        batch.facts.extend(self.pending.iter().map(fact));
        batch.expect.push(Expect::CallAt { execution, events: self.durable });
        batch.payloads.extend(self.payloads.iter().cloned());
        batch.call = Some(self.record.summary.clone());
        let appended = self.store.append(batch)?;
        self.durable = self.record.summary.events;
        self.pending.clear();
        self.payloads.clear();
        self.last = Some(appended);
        Ok(())
    }

    /// Takes back facts that were noted but could not be appended: they did not happen.
    pub(crate) fn rewind(&mut self, to: Mark) {
        self.record = to.record;
        self.pending.truncate(to.pending);
        self.payloads.truncate(to.payloads);
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            record: self.record.clone(),
            pending: self.pending.len(),
            payloads: self.payloads.len(),
        }
    }
}

/// A place to rewind to.
#[derive(Debug)]
pub(crate) struct Mark {
    record: CallRecord,
    pending: usize,
    payloads: usize,
}
