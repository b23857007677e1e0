//! What a measurement is made of.

use std::fmt;
use std::time::{Duration, Instant};

use countersign_model::Failure;
use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Latency {
    pub(super) p50_micros: f64,
    pub(super) p90_micros: f64,
    pub(super) p99_micros: f64,
}

impl Latency {
    pub(super) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let rank = |percent: usize| {
            let at = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e6)
        };
        Latency { p50_micros: rank(50), p90_micros: rank(90), p99_micros: rank(99) }
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "P50 {:.0} µs, P99 {:.0} µs", self.p50_micros, self.p99_micros)
    }
}

pub(super) fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Processor time of this whole process.
pub(super) fn cpu_time() -> Duration {
    let spec = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spec.tv_sec.try_into().unwrap_or(0), spec.tv_nsec.try_into().unwrap_or(0))
}

/// The same of another process, as finely as the system counts it; 0 where it does not say.
pub(super) fn cpu_time_of(process: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name may hold anything, but it ends with the last bracket.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks.saturating_mul(1000) / clock_ticks_per_second().max(1))
}

/// Memory in use, or 0 where the system does not say.
pub(super) fn resident_bytes() -> u64 {
    status_bytes("self", "VmRSS:")
}

/// The same of another process.
pub(super) fn resident_bytes_of(process: u32) -> u64 {
    status_bytes(&process.to_string(), "VmRSS:")
}

/// The most memory that was in use since [`reset_peak`], or since the start where that does nothing.
pub(super) fn peak_bytes() -> u64 {
    status_bytes("self", "VmHWM:")
}

pub(super) fn reset_peak() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

fn status_bytes(process: &str, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
