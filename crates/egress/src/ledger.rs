//! The record of every attempt, and the bytes that are left for all of them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use countersign_model::Failure;

use crate::attempt::{Attempt, Protocol, Verdict};
use crate::host::Target;

/// Attempts in the order in which they were decided.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    entries: Mutex<Vec<Arc<Entry>>>,
}

/// One attempt, whose numbers still grow while its connection is open.
#[derive(Debug)]
pub(crate) struct Entry {
    case: Case,
    verdict: Mutex<Verdict>,
    sent: AtomicU64,
    received: AtomicU64,
    millis: AtomicU64,
}

/// What is known of an attempt before it is decided.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    protocol: Protocol,
    host: String,
    port: u16,
    pub(crate) address: Option<IpAddr>,
    started: Instant,
}

impl Case {
    pub(crate) fn new(protocol: Protocol) -> Case {
        Case { protocol, host: String::new(), port: 0, address: None, started: Instant::now() }
    }

    pub(crate) fn asks_by(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Keeps what the client wrote, until it is understood.
    pub(crate) fn asks_for_text(&mut self, text: &str) {
        self.host = crate::host::shown(text);
    }

    pub(crate) fn asks_for(&mut self, target: &Target) {
        self.host = target.host.to_string();
        self.port = target.port;
    }
}

impl Ledger {
    pub(crate) fn allow(&self, case: Case) -> Arc<Entry> {
        self.record(case, Verdict::Allowed)
    }

    pub(crate) fn deny(&self, case: Case, failure: &Failure) {
        let _ = self.record(case, Verdict::denied(failure));
    }

    fn record(&self, case: Case, verdict: Verdict) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            case,
            verdict: Mutex::new(verdict),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            millis: AtomicU64::new(0),
        });
        entry.settle();
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&entry));
        entry
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|entry| entry.attempt()).collect()
    }
}

impl Entry {
    /// The connection came about and is ended for a reason that showed later.
    pub(crate) fn deny(&self, failure: &Failure) {
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        // The first reason is the true one; others follow from it.
        if *verdict == Verdict::Allowed {
            *verdict = Verdict::denied(failure);
        }
    }

    pub(crate) fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        self.settle();
    }

    pub(crate) fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
        self.settle();
    }

    /// Notes how long it has taken until now.
    pub(crate) fn settle(&self) {
        let millis = self.case.started.elapsed().as_millis();
        self.millis.store(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn attempt(&self) -> Attempt {
        Attempt {
            protocol: self.case.protocol,
            host: self.case.host.clone(),
            port: self.case.port,
            address: self.case.address,
            verdict: self.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            sent: self.sent.load(Ordering::Relaxed),
            received: self.received.load(Ordering::Relaxed),
            millis: self.millis.load(Ordering::Relaxed),
        }
    }
}

/// Bytes that may still pass. They are taken before they are sent, so the limit is never exceeded.
#[derive(Debug)]
pub(crate) struct Budget(AtomicU64);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget(AtomicU64::new(bytes))
    }

    /// Takes all of the bytes or closes the account: what did not fit once is the end for everyone.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            Some(left.saturating_sub(bytes))
        });
        left.is_ok_and(|left| left >= bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_never_exceeded() {
        let budget = Budget::new(10);
        assert!(budget.take(4) && budget.take(6) && budget.is_empty());
        assert!(!budget.take(1) && budget.take(0));
        let budget = Budget::new(10);
        assert!(!budget.take(11) && !budget.take(1));
    }
}
