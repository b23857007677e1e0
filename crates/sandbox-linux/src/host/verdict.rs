//! Why a program ended: what the kernel counted, what the first process told, what was left behind.

use std::os::fd::{AsFd, BorrowedFd};

use countersign_model::event::Usage;
use countersign_sandbox::{Ending, LimitKind, Limits, Plan};

use super::cgroup::Counters;
use super::launcher::{Ready, lost};

/// More than a launcher ever has.
const LAUNCHER_MEMORY: u64 = 64 << 20;

/// What the first process told about the end of the program.
pub(super) struct Report {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) cpu_micros: u64,
    pub(super) peak_memory: u64,
    pub(super) others: u32,
}

/// `others` is how many processes the program left behind, as far as that is known.
pub(super) fn limit_in(
    before: &Counters,
    now: &Counters,
    limits: &Limits,
    others: u32,
) -> Option<LimitKind> {
    if now.oom_kills > before.oom_kills {
        return Some(LimitKind::Memory);
    }
    if now.refused_tasks > before.refused_tasks {
        // One cap for both; without a closer look, the one that allows less is the likelier.
        let mostly_processes = others.saturating_add(1).saturating_mul(2) > limits.threads;
        let processes = mostly_processes || limits.processes < limits.threads;
        return Some(if processes { LimitKind::Processes } else { LimitKind::Threads });
    }
    let used = now.cpu_micros?.saturating_sub(before.cpu_micros?);
    (used / 1000 > limits.cpu_ms).then_some(LimitKind::CpuTime)
}

/// Whether the scratch space has no room left.
pub(super) fn full(scratch: BorrowedFd<'_>) -> Option<LimitKind> {
    let stat = rustix::fs::fstatfs(scratch).ok()?;
    match (stat.f_bfree, stat.f_ffree) {
        (0, _) => Some(LimitKind::TotalSize),
        (_, 0) => Some(LimitKind::Inodes),
        _ => None,
    }
}

/// What was seen of a program that has ended.
pub(super) struct Watched<'w> {
    pub(super) plan: &'w Plan,
    pub(super) ready: &'w Ready,
    pub(super) after: Counters,
}

impl Watched<'_> {
    pub(super) fn ending(&self, stop: Option<Ending>, report: Option<&Report>) -> Ending {
        if let Some(stop) = stop {
            return stop;
        }
        let limits = &self.plan.limits;
        let Some(report) = report else {
            let limit = limit_in(&self.ready.before, &self.after, limits, 0);
            return limit
                .map_or(Ending::Stopped { failure: lost() }, |limit| Ending::Limit { limit });
        };
        let ending = match (report.code, report.signal) {
            (Some(code), _) => Ending::Exited { code },
            (None, signal) => Ending::Signalled { signal: signal.unwrap_or(0) },
        };
        // A program that succeeded in spite of a limit has succeeded.
        if ending.is_success() {
            return ending;
        }
        self.limit_behind(report).map_or(ending, |limit| Ending::Limit { limit })
    }

    /// The limit that made a program fail, as far as the kernel left a trace of it.
    fn limit_behind(&self, report: &Report) -> Option<LimitKind> {
        let limits = &self.plan.limits;
        match report.signal {
            Some(libc::SIGXCPU) => return Some(LimitKind::CpuTime),
            Some(libc::SIGXFSZ) => return Some(LimitKind::FileSize),
            _ => {}
        }
        let nearly_all = limits.memory - limits.memory / 16;
        // The kernel's count contains what the process had before it became the program.
        let sampled =
            !self.ready.launcher.group().counts_memory() && limits.memory > LAUNCHER_MEMORY;
        limit_in(&self.ready.before, &self.after, limits, report.others)
            .or_else(|| full(self.ready.scratch.as_fd()))
            .or_else(|| (sampled && report.peak_memory >= nearly_all).then_some(LimitKind::Memory))
            .or_else(|| {
                largest_file(self.ready.scratch.as_fd(), limits.inodes)
                    // Larger ones were copied in with the workspace.
                    .is_some_and(|size| size == limits.file_size)
                    .then_some(LimitKind::FileSize)
            })
    }

    pub(super) fn usage(&self, report: Option<&Report>) -> Usage {
        let counted = self.after.cpu_micros.zip(self.ready.before.cpu_micros);
        let counted = counted.map(|(after, before)| after.saturating_sub(before));
        let told = report.map_or((0, 0), |report| (report.cpu_micros, report.peak_memory));
        // A peak that did not move may be that of another box before.
        let has_moved = self.after.peak_memory > self.ready.before.peak_memory;
        let peak = if has_moved { self.after.peak_memory } else { told.1 };
        Usage {
            cpu_micros: counted.unwrap_or(told.0).max(told.0),
            peak_memory: peak,
            bytes_read: 0,
            bytes_written: written(self.ready.scratch.as_fd()),
            wall_ms: 0,
        }
    }
}

pub(super) fn written(scratch: BorrowedFd<'_>) -> u64 {
    rustix::fs::fstatfs(scratch).map_or(0, |stat| {
        let block = u64::try_from(stat.f_bsize).unwrap_or(4096);
        (stat.f_blocks - stat.f_bfree) * block
    })
}

/// Programs that ignore the signal of a file that is too large get an error instead, and leave a
/// file of exactly that size.
fn largest_file(directory: BorrowedFd<'_>, most: u64) -> Option<u64> {
    let mut seen = 0;
    largest_below(directory, most, &mut seen, 0)
}

fn largest_below(directory: BorrowedFd<'_>, most: u64, seen: &mut u64, depth: u32) -> Option<u64> {
    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
    let mut largest = None;
    for entry in Dir::read_from(directory).ok()?.flatten() {
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        *seen += 1;
        if *seen > most || depth > 64 {
            return largest;
        }
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                largest = largest.max(u64::try_from(stat.st_size).ok());
            }
            FileType::Directory => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let Ok(below) = openat(directory, name, flags, Mode::empty()) else { continue };
                largest = largest.max(largest_below(below.as_fd(), most, seen, depth + 1));
            }
            _ => {}
        }
    }
    largest
}
