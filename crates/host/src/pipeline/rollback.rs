//! ABORTED and ROLLED_BACK: staging is dropped, and the state is proven to be what it was.

use countersign_model::Failure;
use countersign_model::event::{CallEvent, Retry, RolledBack};
use countersign_model::retry::{longest_pause_ms, may_retry};

use super::execute::Open;
use super::{Call, Halt, Step, Validated};
use crate::registry::Implementation;
use crate::snapshot::digest_now;

/// Endings after which nobody knows how far a built-in tool came.
const UNTOLD: [&str; 6] =
    ["CANCELLED", "GRANT_EXPIRED", "GRANT_REVOKED", "PUSH_UNKNOWN", "TIME_LIMIT", "TOOL_CRASHED"];

impl<'h> Call<'h> {
    /// The host ended the attempt.
    pub(super) fn abort(mut self, open: Open, failure: Failure) -> Box<Halt<'h>> {
        match self.note(CallEvent::Aborted { error: failure.clone() }) {
            Ok(()) => self.roll_back(open, failure),
            Err(halt) => halt,
        }
    }

    /// Drops what was staged. Nothing was published, so there is nothing else to undo; the digests
    /// before and after stand in the journal as the proof.
    pub(super) fn roll_back(mut self, open: Open, failure: Failure) -> Box<Halt<'h>> {
        let retry = self.plan_retry(&open, &failure);
        let (root, store) = (open.asked.place.shared_root(), &*self.host.home.store);
        let event = CallEvent::RolledBack(RolledBack {
            error: failure.clone(),
            before: open.snapshot.digest(),
            after: digest_now(root.map(|root| &**root), &open.snapshot.write_set(), store),
            usage: open.usage,
            duration_ms: self.recorder.elapsed_ms(),
            retry,
            connections: open.trace.connections.clone(),
            stdout: open.trace.stdout,
            stderr: open.trace.stderr,
            unknown: self.may_have_sent(&open, &failure),
        });
        if let Err(halt) = self.note(event).and_then(|()| self.record_rollback(retry)) {
            return halt;
        }
        match retry {
            None => {
                self.host.leave(self.recorder.execution());
                let outcome = self.outcome_of(open, Err(failure));
                Box::new(Halt::Ended(Box::new(outcome)))
            }
            // Still ours: during the pause nobody may take it for abandoned.
            Some(retry) => {
                let (asked, approval) = (open.asked, open.approval);
                let attempt = retry.attempt;
                let validated = Validated { call: self, asked, attempt, approval };
                Box::new(Halt::Retry(Box::new(validated), retry))
            }
        }
    }

    /// Every connection of a program is on record, so it is known what it did. What a built-in tool
    /// sends is not: once it began, only its own word tells that nothing went out.
    fn may_have_sent(&self, open: &Open, failure: &Failure) -> bool {
        let Implementation::Native(native) = &self.tool.implementation else { return false };
        self.recorder.summary().host.is_some()
            && UNTOLD.contains(&failure.code.as_ref())
            && !native.hosts(&open.asked.input).is_empty()
    }

    /// A call that never started does not say whose it is, and an open call of nobody is recovered
    /// by anyone. Its facts therefore wait for an attempt that starts, or for the end.
    fn record_rollback(&mut self, retry: Option<Retry>) -> Step<'h, ()> {
        if retry.is_some() && self.recorder.summary().host.is_none() {
            return Ok(());
        }
        self.flush()
    }

    fn plan_retry(&self, open: &Open, failure: &Failure) -> Option<Retry> {
        let config = self.host.home.config.retry;
        let wanted = may_retry(self.tool.declaration.idempotent, failure)
            && open.attempt <= config.max_retries
            // What was sent cannot be taken back, and would be sent again.
            && !open.trace.reached_out()
            && !self.given.cancel.is_cancelled();
        wanted.then(|| {
            let attempt = open.attempt + 1;
            let longest = longest_pause_ms(attempt, config.base_delay_ms, config.max_delay_ms);
            // At least half of the pause, so that it is a pause.
            let delay_ms = longest / 2 + self.host.clock.jitter(longest - longest / 2);
            Retry { attempt, delay_ms }
        })
    }
}
