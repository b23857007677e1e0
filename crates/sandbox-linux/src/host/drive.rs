//! One program from its start to its end: output drained, limits watched, the tree ended in time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use countersign_model::Failure;
use countersign_model::event::Usage;
use countersign_sandbox::backend::{StagedForm, StagedWorkspace};
use countersign_sandbox::plan::Network;
use countersign_sandbox::{
    Capture, Cleanup, Ended, Ending, GatewaySession, Job, LimitKind, Limits, Observer, Plan,
    Staged, Stream,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::cgroup::Counters;
use super::launcher::{Ready, broken, lost, refused};
use super::pool::Pool;
use crate::protocol::{Reply, SetupFailure, retry};

/// How often limits and the observer are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long a box may take to vanish after it was killed.
const VANISH: Duration = Duration::from_secs(10);
/// How long a launcher may take to take leave of a box that is empty.
const LEAVE: Duration = Duration::from_secs(2);
/// How long the box may take to say which of its limits was reached. A crowded one is slow.
const ANSWER: Duration = Duration::from_millis(500);
const CHUNK: usize = 64 << 10;
/// More than a launcher ever has.
const LAUNCHER_MEMORY: u64 = 64 << 20;
/// A box that staged no more than this leaves its launcher's memory account clean enough.
const SMALL: u64 = 1 << 20;

pub(super) fn run(
    mut ready: Ready,
    job: &Job,
    observer: &mut dyn Observer,
    pool: &Pool,
) -> Result<Ended, Failure> {
    let session = open_gateway(&mut ready, job)?;
    let stdin = input(&job.input).map_err(|error| broken(&error))?;
    let (stdout, stdout_end) = pipe().map_err(|error| broken(&error))?;
    let (stderr, stderr_end) = pipe().map_err(|error| broken(&error))?;
    let started = Instant::now();
    ready.go([&stdin, &stdout_end, &stderr_end])?;
    drop((stdin, stdout_end, stderr_end));
    let mut drive = Drive::new(&ready, job, [stdout, stderr], started);
    let broke = drive.run_to_end(observer).err();
    if let Some(failure) = drive.refusal.take() {
        return Err(refused(&failure));
    }
    let is_broken = broke.is_some();
    if is_broken {
        ready.kill();
        ready.is_empty_within(VANISH);
    }
    let Drive { captures: [stdout, stderr], stop, report, idle, is_late, .. } = drive;
    let stop = stop.or(broke.map(|failure| Ending::Stopped { failure }));
    let (has_report, after) = (report.is_some(), ready.launcher.group().counters());
    let watched = Watched { plan: &job.plan, ready: &ready, after };
    let ending = watched.ending(stop, report.as_ref());
    let usage = watched.usage(report.as_ref());
    let ended = Ended {
        ending,
        stdout: stdout.finish(),
        stderr: stderr.finish(),
        usage,
        wall_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        connections: session.map(GatewaySession::close).unwrap_or_default(),
        staged: Staged::default(),
    };
    // A first process that was killed may have left the launcher's memory, which it shared, in the
    // middle of a change.
    let fate = match idle {
        _ if is_broken || is_late => Fate::Spent,
        Some(true) if has_report => Fate::Idle,
        None if has_report => Fate::Draining,
        _ => Fate::Spent,
    };
    Ok(hand_over(ready, fate, ended, job, pool))
}

fn open_gateway(ready: &mut Ready, job: &Job) -> Result<Option<Box<dyn GatewaySession>>, Failure> {
    let Network::Proxy { hosts } = &job.plan.network else { return Ok(None) };
    let listener = ready.launcher.take_listener().ok_or_else(lost)?;
    let gateway = job.gateway.as_ref().ok_or_else(|| {
        Failure::resource("CANNOT_ENFORCE", "there is no egress proxy to reach hosts through")
            .hint("leave the hosts out, or call through a host that has one")
    })?;
    gateway.open(listener, hosts).map(Some)
}

/// What the program reads: a file in memory that nobody can change, so feeding it never blocks.
fn input(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("input", flags)?;
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = retry(|| rustix::io::write(&file, rest))?;
        rest = rest.get(written..).unwrap_or_default();
    }
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Reading never blocks the host; writing blocks the program when it is faster than we are.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

/// What the first process told about the end of the program.
struct Report {
    code: Option<i32>,
    signal: Option<i32>,
    cpu_micros: u64,
    peak_memory: u64,
    others: u32,
}

struct Drive<'d> {
    ready: &'d Ready,
    limits: Limits,
    streams: [Option<OwnedFd>; 2],
    captures: [Capture; 2],
    deadline: Instant,
    /// Why we ended it, if we did.
    stop: Option<Ending>,
    kill_at: Option<Instant>,
    report: Option<Report>,
    /// Why the program could not be started.
    refusal: Option<SetupFailure>,
    /// The launcher said that the box is gone; `true` if it may make another.
    idle: Option<bool>,
    is_over: bool,
    /// When the launcher should have said so.
    idle_by: Option<Instant>,
    is_late: bool,
    in_a_hurry: bool,
    /// Until when the box may answer what its many tasks are.
    answer_by: Option<Instant>,
}

impl<'d> Drive<'d> {
    fn new(ready: &'d Ready, job: &Job, streams: [OwnedFd; 2], started: Instant) -> Self {
        let limits = job.plan.limits;
        let capture = || Capture::new(limits.inline_output, limits.output, &job.spill);
        Drive {
            ready,
            limits,
            streams: streams.map(Some),
            captures: [capture(), capture()],
            deadline: started + Duration::from_millis(limits.wall_ms),
            stop: None,
            kill_at: None,
            report: None,
            refusal: None,
            idle: None,
            is_over: false,
            idle_by: None,
            is_late: false,
            in_a_hurry: job.warm > 0,
            answer_by: None,
        }
    }

    fn run_to_end(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        let mut next_tick = Instant::now() + TICK;
        while !self.is_over {
            self.wait(next_tick, observer).map_err(|error| broken(&error))?;
            if Instant::now() >= next_tick {
                self.tick(observer)?;
                next_tick = Instant::now() + TICK;
            }
        }
        // Everything that could write is dead, so this ends.
        self.drain(observer);
        Ok(())
    }

    fn wait(&mut self, until: Instant, observer: &mut dyn Observer) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut fds = vec![PollFd::new(&self.ready.launcher.channel, PollFlags::IN)];
        fds.extend(self.streams.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)));
        retry(|| poll(&mut fds, Some(&timeout)))?;
        let from_box = fds.first().is_some_and(|fd| !fd.revents().is_empty());
        let output = fds.iter().skip(1).any(|fd| !fd.revents().is_empty());
        drop(fds);
        if output {
            self.drain(observer);
        }
        if from_box {
            self.hear()?;
        }
        Ok(())
    }

    fn hear(&mut self) -> io::Result<()> {
        match self.ready.launcher.channel.receive()? {
            Some((Reply::Ended { code, signal, cpu_micros, peak_memory, others }, _)) => {
                self.report = Some(Report { code, signal, cpu_micros, peak_memory, others });
                // The box is empty. Whoever is in a hurry need not watch it being taken apart.
                self.is_over = self.in_a_hurry;
                self.idle_by = Some(Instant::now() + LEAVE);
            }
            Some((Reply::Failed(failure), _)) => self.refusal = Some(failure),
            Some((Reply::Limit(limit), _)) => self.end(Ending::Limit { limit }),
            Some((Reply::Idle { clean }, _)) => {
                self.idle = Some(clean);
                self.is_over = true;
            }
            Some(_) => {}
            None => self.is_over = true,
        }
        Ok(())
    }

    /// Takes what is there from both streams.
    fn drain(&mut self, observer: &mut dyn Observer) {
        let (mut overflow, mut problem) = (false, None);
        let both = self.streams.iter_mut().zip(&mut self.captures);
        for ((stream, capture), name) in both.zip([Stream::Stdout, Stream::Stderr]) {
            match drain_one(stream, capture, &mut |bytes| observer.output(name, bytes)) {
                Ok(too_much) => overflow |= too_much,
                Err(error) => {
                    *stream = None;
                    problem = Some(error);
                }
            }
        }
        if overflow {
            self.end(Ending::Limit { limit: LimitKind::Output });
        }
        if let Some(error) = problem {
            self.end_anyway(Ending::Stopped { failure: unkept(&error) });
        }
    }

    fn tick(&mut self, observer: &mut dyn Observer) -> Result<(), Failure> {
        let now = Instant::now();
        if self.idle_by.is_some_and(|idle_by| now >= idle_by) {
            (self.is_over, self.is_late) = (true, true);
            return Ok(());
        }
        if let Some(kill_at) = self.kill_at {
            if now >= kill_at {
                self.ready.kill();
            }
            if now >= kill_at + VANISH {
                return Err(lost());
            }
            return Ok(());
        }
        if now >= self.deadline {
            self.end(Ending::Limit { limit: LimitKind::WallTime });
        } else if let Some(limit) = self.exceeded() {
            self.end(Ending::Limit { limit });
        } else if let Err(failure) = observer.tick() {
            self.end(Ending::Stopped { failure });
        }
        Ok(())
    }

    fn exceeded(&mut self) -> Option<LimitKind> {
        let (before, mut now) = (self.ready.before, self.ready.launcher.group().counters());
        if now.refused_tasks > before.refused_tasks && self.awaits_answer() {
            // The box tells processes and threads apart.
            now.refused_tasks = before.refused_tasks;
        }
        limit_in(&before, &now, &self.limits, 0).or_else(|| full(self.ready.scratch.as_fd()))
    }

    fn awaits_answer(&mut self) -> bool {
        let now = Instant::now();
        let by = *self.answer_by.get_or_insert_with(|| {
            self.ready.ask_for_count();
            now + ANSWER
        });
        now < by
    }

    /// Asks the whole tree to end; after the grace period it is killed. The first reason counts.
    fn end(&mut self, ending: Ending) {
        if self.report.is_none() {
            self.end_anyway(ending);
        }
    }

    /// Also when the program has ended by itself: what it said is not all there.
    fn end_anyway(&mut self, ending: Ending) {
        if self.stop.is_some() {
            return;
        }
        self.stop = Some(ending);
        self.ready.terminate();
        self.kill_at = Some(Instant::now() + Duration::from_millis(self.limits.grace_ms));
    }
}

/// Output that could not be put aside.
fn unkept(error: &io::Error) -> Failure {
    let message = format!("the tool's output could not be kept: {error}");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Failure::resource("DISK_FULL", message).hint("free some space and call again")
        }
        _ => Failure::state("OUTPUT_LOST", message),
    }
}

/// `true` if there was more than may be kept.
fn drain_one(
    stream: &mut Option<OwnedFd>,
    capture: &mut Capture,
    seen: &mut dyn FnMut(&[u8]),
) -> io::Result<bool> {
    let mut buffer = [0u8; CHUNK];
    let mut overflow = false;
    // Bounded, so that a program that writes without pause cannot keep us from looking at the clock.
    for _ in 0..16 {
        let Some(fd) = &stream else { break };
        match retry(|| rustix::io::read(fd, &mut buffer)) {
            Ok(0) => *stream = None,
            Ok(read) => {
                let bytes = buffer.get(..read).unwrap_or_default();
                seen(bytes);
                overflow |= capture.take(bytes)?.is_err();
            }
            Err(rustix::io::Errno::AGAIN) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(overflow)
}

/// `others` is how many processes the program left behind, as far as that is known.
fn limit_in(before: &Counters, now: &Counters, limits: &Limits, others: u32) -> Option<LimitKind> {
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
fn full(scratch: BorrowedFd<'_>) -> Option<LimitKind> {
    let stat = rustix::fs::fstatfs(scratch).ok()?;
    match (stat.f_bfree, stat.f_ffree) {
        (0, _) => Some(LimitKind::TotalSize),
        (_, 0) => Some(LimitKind::Inodes),
        _ => None,
    }
}

/// What was seen of a program that has ended.
struct Watched<'w> {
    plan: &'w Plan,
    ready: &'w Ready,
    after: Counters,
}

impl Watched<'_> {
    fn ending(&self, stop: Option<Ending>, report: Option<&Report>) -> Ending {
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

    fn usage(&self, report: Option<&Report>) -> Usage {
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
        }
    }
}

fn written(scratch: BorrowedFd<'_>) -> u64 {
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

/// What becomes of a launcher whose box has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Idle,
    /// Idle soon.
    Draining,
    /// Not to be used again.
    Spent,
}

/// Gives the staged files to the caller and the launcher back to the pool, if it may serve again.
fn hand_over(ready: Ready, fate: Fate, mut ended: Ended, job: &Job, pool: &Pool) -> Ended {
    let form = if job.plan.uses_overlay() { StagedForm::Upper } else { StagedForm::Whole };
    let Ready { mut launcher, out, workspace, scratch, .. } = ready;
    ended.staged = Staged {
        out: Some(out),
        workspace: workspace.map(|directory| StagedWorkspace { directory, form }),
        // In memory without names: gone with its descriptors.
        cleanup: Cleanup::default(),
    };
    let is_small = written(scratch.as_fd()) <= SMALL;
    launcher.is_draining = fate == Fate::Draining;
    let has_network = job.plan.network != Network::None;
    if fate != Fate::Spent && is_small && !has_network {
        pool.give_back(launcher);
    }
    ended
}
