//! What happens around a running guest: time, ticks, output and files are looked at from outside.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use countersign_model::Failure;
use countersign_sandbox::{Ending, LimitKind, Limits, Observer, Stream};
use rustix::time::{ClockId, clock_gettime};

use crate::scratch::Scratch;
use crate::streams::Output;
use crate::tree::{self, Size, TreeError};

/// Between two looks of the observer.
const TICK: Duration = Duration::from_millis(5);

/// Looking at files takes at most this part of the time.
const SCAN_SHARE: u32 = 8;

pub(crate) struct Watch<'w> {
    observer: &'w mut dyn Observer,
    limits: Limits,
    stdout: Output,
    stderr: Output,
    scratch: Option<&'w Scratch>,
    started: Instant,
    processor: Duration,
    next_tick: Instant,
    next_scan: Instant,
}

impl<'w> Watch<'w> {
    pub(crate) fn start(
        observer: &'w mut dyn Observer,
        limits: Limits,
        (stdout, stderr): (Output, Output),
        scratch: Option<&'w Scratch>,
    ) -> Self {
        let started = Instant::now();
        Watch {
            observer,
            limits,
            stdout,
            stderr,
            scratch,
            started,
            processor: processor_time(),
            next_tick: started + TICK,
            next_scan: started + TICK,
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Processor time of the guest: it runs on the thread that watches it.
    pub(crate) fn processor(&self) -> Duration {
        processor_time().saturating_sub(self.processor)
    }

    /// How long to wait for a guest that waits.
    pub(crate) fn patience(&self) -> Duration {
        let left = Duration::from_millis(self.limits.wall_ms).saturating_sub(self.elapsed());
        left.min(self.next_tick.saturating_duration_since(Instant::now()))
    }

    /// `Err` is how the guest must end.
    pub(crate) fn look(&mut self) -> Result<(), Ending> {
        let now = Instant::now();
        if now.duration_since(self.started) >= Duration::from_millis(self.limits.wall_ms) {
            return Err(Ending::Limit { limit: LimitKind::WallTime });
        }
        if now < self.next_tick {
            return Ok(());
        }
        self.next_tick = now + TICK;
        self.show_output();
        self.observer.tick().map_err(|failure| Ending::Stopped { failure })?;
        if self.processor() >= Duration::from_millis(self.limits.cpu_ms) {
            return Err(Ending::Limit { limit: LimitKind::CpuTime });
        }
        if now >= self.next_scan {
            self.scan()?;
            self.next_scan = Instant::now() + now.elapsed() * SCAN_SHARE;
        }
        Ok(())
    }

    pub(crate) fn show_output(&mut self) {
        for (stream, output) in [(Stream::Stdout, &self.stdout), (Stream::Stderr, &self.stderr)] {
            let fresh = output.fresh();
            if !fresh.is_empty() {
                self.observer.output(stream, &fresh);
            }
        }
    }

    fn scan(&self) -> Result<(), Ending> {
        let Some(scratch) = self.scratch else { return Ok(()) };
        let mut size = measure(scratch, &self.limits)?;
        size.bytes = size.bytes.saturating_add(unlinked(scratch));
        size.check(&self.limits).map_err(|error| ending(&error))
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// What the guest's directories hold.
pub(crate) fn measure(scratch: &Scratch, limits: &Limits) -> Result<Size, Ending> {
    let mut size = Size::default();
    for directory in scratch.written() {
        tree::measure(directory, limits, &mut size).map_err(|error| ending(&error))?;
    }
    Ok(size)
}

fn ending(error: &TreeError) -> Ending {
    match error {
        TreeError::Limit(limit) => Ending::Limit { limit: *limit },
        // What cannot be looked at cannot be limited.
        TreeError::Kind(_) | TreeError::Io(_) => Ending::Stopped {
            failure: Failure::resource("SCRATCH_UNREADABLE", "the tool's files cannot be measured"),
        },
    }
}

/// Bytes of files that have no name any more, but are still open.
fn unlinked(scratch: &Scratch) -> u64 {
    let own = PathBuf::from(format!("/proc/self/fd/{}", scratch.out.as_raw_fd()));
    let Ok(own) = fs::read_link(own) else { return 0 };
    let Some(own) = own.parent() else { return 0 };
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return 0 };
    descriptors
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| fs::read_link(path).is_ok_and(|target| target.starts_with(own)))
        .filter_map(|path| rustix::fs::stat(&path).ok())
        .filter(|stat| stat.st_nlink == 0 && stat.st_mode & 0o170_000 == 0o100_000)
        .fold(0, |sum, stat| sum.saturating_add(u64::try_from(stat.st_size).unwrap_or_default()))
}
