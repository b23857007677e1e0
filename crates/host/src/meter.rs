//! Limits of one attempt, charged as the tool works, and what it used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use countersign_model::event::Usage;
use countersign_model::{Failure, ResourceLimits};

/// Tells a running tool to stop. Clones share one switch.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// A switch that someone else may set, such as a signal handler.
    pub fn from_flag(flag: Arc<AtomicBool>) -> Self {
        Cancel(flag)
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A tool without a limit on file size may handle files of this size.
const DEFAULT_FILE_SIZE: u64 = 64 << 20;

#[derive(Debug)]
pub(crate) struct Meter {
    limits: ResourceLimits,
    deadline: Instant,
    stop: Cancel,
    in_use: u64,
    usage: Usage,
    /// Processor time of the programs that the tool ran.
    programs: u64,
}

impl Meter {
    pub(crate) fn start(limits: ResourceLimits, deadline: Instant, stop: Cancel) -> Self {
        Meter { limits, deadline, stop, in_use: 0, usage: Usage::default(), programs: 0 }
    }

    pub(crate) fn max_file_size(&self) -> u64 {
        max_file_size(&self.limits)
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    pub(crate) fn time_left_ms(&self) -> u64 {
        let left = self.deadline.saturating_duration_since(Instant::now());
        u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
    }

    /// Called between steps of the work; the host also watches the clock from outside.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.stop.is_cancelled() {
            return Err(cancelled());
        }
        if Instant::now() >= self.deadline {
            return Err(timed_out(self.limits.max_execution_time));
        }
        Ok(())
    }

    /// Memory that the tool is about to hold on to.
    pub(crate) fn charge_memory(&mut self, bytes: u64) -> Result<(), Failure> {
        self.check()?;
        self.in_use = self.in_use.saturating_add(bytes);
        self.usage.peak_memory = self.usage.peak_memory.max(self.in_use);
        if self.in_use <= self.limits.max_memory {
            return Ok(());
        }
        let limit = self.limits.max_memory;
        let message = format!("the tool needs more than the {limit} bytes of memory it may use");
        Err(Failure::resource("MEMORY_LIMIT", message)
            .hint("raise maxMemory in the tool's declaration, or give it less to do"))
    }

    pub(crate) fn note_read(&mut self, bytes: u64) {
        self.usage.bytes_read = self.usage.bytes_read.saturating_add(bytes);
    }

    pub(crate) fn note_written(&mut self, bytes: u64) {
        self.usage.bytes_written = self.usage.bytes_written.saturating_add(bytes);
    }

    /// What a program used that the tool ran.
    pub(crate) fn note_program(&mut self, used: &Usage) {
        self.usage.bytes_read = self.usage.bytes_read.saturating_add(used.bytes_read);
        self.usage.bytes_written = self.usage.bytes_written.saturating_add(used.bytes_written);
        self.usage.peak_memory = self.usage.peak_memory.max(used.peak_memory);
        self.programs = self.programs.saturating_add(used.cpu_micros);
    }

    pub(crate) fn note_cpu(&mut self, cpu: Duration) {
        let own = u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX);
        self.usage.cpu_micros = own.saturating_add(self.programs);
    }
}

pub(crate) fn max_file_size(limits: &ResourceLimits) -> u64 {
    limits.max_file_size.unwrap_or(DEFAULT_FILE_SIZE)
}

pub(crate) fn timed_out(limit_ms: u64) -> Failure {
    Failure::timeout("TIME_LIMIT", format!("the tool ran for longer than {limit_ms} ms"))
        .hint("raise maxExecutionTime in the tool's declaration, or give it less to do")
}

pub(crate) fn cancelled() -> Failure {
    Failure::execution("CANCELLED", "the call was cancelled")
}
