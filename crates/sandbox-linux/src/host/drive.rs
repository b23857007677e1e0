//! One program from its start to its end: output drained, limits watched, the tree ended in time.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use countersign_model::Failure;
use countersign_sandbox::backend::{StagedForm, StagedWorkspace};
use countersign_sandbox::plan::Network;
use countersign_sandbox::{
    Capture, Cleanup, Ended, Ending, GatewaySession, Job, LimitKind, Limits, Observer, Staged,
    Stream,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::launcher::{Ready, broken, lost, refused};
use super::pool::Pool;
use super::streams::{drain_one, input, pipe, unkept};
use super::verdict::{Report, Watched, full, limit_in, written};
use crate::protocol::{Reply, SetupFailure, retry};

/// How often limits and the observer are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How long a box may take to vanish after it was killed.
const VANISH: Duration = Duration::from_secs(10);
/// How long a launcher may take to take leave of a box that is empty.
const LEAVE: Duration = Duration::from_secs(2);
/// How long the box may take to say which of its limits was reached. A crowded one is slow.
const ANSWER: Duration = Duration::from_millis(500);
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
