//! Whether this machine has what a call may use (RFC-0001 rule 3), asked before the call starts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use countersign_model::{Failure, ResourceLimits};

/// How old an answer may be: asking costs more than a short call.
const FRESH_MS: u64 = 100;

/// Memory that programs could still get, as the system last said it.
#[derive(Debug)]
pub(crate) struct Resources {
    started: Instant,
    /// Milliseconds after `started`; 0 when never asked.
    asked_at: AtomicU64,
    available: AtomicU64,
}

impl Default for Resources {
    fn default() -> Self {
        let (asked_at, available) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
        Resources { started: Instant::now(), asked_at, available }
    }
}

impl Resources {
    pub(crate) fn check(&self, limits: &ResourceLimits) -> Result<(), Failure> {
        match self.available_memory() {
            available if available < limits.max_memory => Err(short(available, limits.max_memory)),
            _ => Ok(()),
        }
    }

    fn available_memory(&self) -> u64 {
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        let asked_at = self.asked_at.load(Ordering::Relaxed);
        if asked_at == 0 || now.saturating_sub(asked_at) > FRESH_MS {
            self.asked_at.store(now, Ordering::Relaxed);
            self.available.store(ask(), Ordering::Relaxed);
        }
        self.available.load(Ordering::Relaxed)
    }
}

/// What the kernel says. A system that does not say is not known to be short of anything.
fn ask() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    available_in(&text).unwrap_or(u64::MAX)
}

fn available_in(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn short(available: u64, wanted: u64) -> Failure {
    let message =
        format!("the tool may use {wanted} bytes of memory, but only {available} are free");
    Failure::resource("MEMORY_UNAVAILABLE", message)
        .hint("try again when other programs have ended, or lower maxMemory in the declaration")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_asks_for_more_than_is_free_is_refused() {
        let limits = |max_memory| ResourceLimits {
            max_execution_time: 1,
            max_file_descriptors: None,
            max_file_size: None,
            max_memory,
            max_processes: None,
            ..ResourceLimits::default()
        };
        let resources = Resources::default();
        resources.asked_at.store(u64::MAX, Ordering::Relaxed);
        resources.available.store(1000, Ordering::Relaxed);
        assert!(resources.check(&limits(1000)).is_ok());
        assert_eq!(resources.check(&limits(1001)).unwrap_err().code, "MEMORY_UNAVAILABLE");
    }

    #[test]
    fn the_kernel_is_understood() {
        let text = "MemTotal:  10 kB\nMemAvailable:    7 kB\n";
        assert_eq!(available_in(text), Some(7 * 1024));
        assert_eq!(available_in("nothing"), None);
        assert!(Resources::default().available_memory() > 0);
    }
}
