//! The seven metrics of RFC-0001 section 8.2, computed from the journal's calls.

use countersign_journal::{CallFilter, JournalError, Store};
use countersign_model::Lifecycle;
use countersign_model::record::CallSummary;
use serde::Serialize;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    pub executions: u64,
    pub completed: u64,
    pub failed: u64,
    pub denied: u64,
    pub rolled_back: u64,
    /// Not ended yet.
    pub open: u64,
    /// Shares of the calls that have ended; none have, none are given.
    pub success_rate: Option<f64>,
    pub failure_rate: Option<f64>,
    pub duration_ms: Option<Percentiles>,
    pub usage: TotalUsage,
    pub denials: u64,
    pub rollbacks: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Calls whose outcome a human must look at.
    pub unknown: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub max: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TotalUsage {
    pub cpu_micros: u64,
    pub peak_memory: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

pub fn collect(store: &dyn Store, filter: &CallFilter) -> Result<Stats, JournalError> {
    let mut stats = Stats::default();
    let mut durations = Vec::new();
    store.visit_calls(filter, &mut |call| {
        stats.count(&call);
        durations.extend(call.duration_ms.filter(|_| call.terminal));
        Ok(())
    })?;
    stats.finish(durations);
    Ok(stats)
}

impl Stats {
    fn count(&mut self, call: &CallSummary) {
        self.executions += 1;
        let ending = match call.state {
            _ if !call.terminal => &mut self.open,
            Lifecycle::Completed => &mut self.completed,
            Lifecycle::Failed => &mut self.failed,
            Lifecycle::Denied => &mut self.denied,
            _ => &mut self.rolled_back,
        };
        *ending += 1;
        self.rollbacks += u64::from(call.rollbacks);
        self.retries += u64::from(call.attempts.saturating_sub(1));
        self.unknown += u64::from(call.is_unknown());
        self.usage.cpu_micros += call.usage.cpu_micros;
        self.usage.peak_memory = self.usage.peak_memory.max(call.usage.peak_memory);
        self.usage.bytes_read += call.usage.bytes_read;
        self.usage.bytes_written += call.usage.bytes_written;
    }

    fn finish(&mut self, mut durations: Vec<u64>) {
        self.denials = self.denied;
        let ended = self.executions - self.open;
        if ended > 0 {
            // A call whose outcome nobody knows is no success.
            let rate = self.completed.saturating_sub(self.unknown) as f64 / ended as f64;
            self.success_rate = Some(rate);
            self.failure_rate = Some(1.0 - rate);
        }
        durations.sort_unstable();
        self.duration_ms = Percentiles::of(&durations);
    }
}

impl Percentiles {
    /// Nearest-rank percentiles of sorted values; none of nothing.
    pub fn of(sorted: &[u64]) -> Option<Self> {
        let rank = |percent: usize| {
            let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(at).copied()
        };
        Some(Percentiles { p50: rank(50)?, p95: rank(95)?, p99: rank(99)?, max: *sorted.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=200).collect();
        let found = Percentiles::of(&values).unwrap();
        assert_eq!((found.p50, found.p95, found.p99, found.max), (100, 190, 198, 200));
        assert_eq!(Percentiles::of(&[]), None);
        assert_eq!(Percentiles::of(&[7]).unwrap().p99, 7);
    }
}
