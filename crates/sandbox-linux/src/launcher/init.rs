//! The first process of a box: sets it up, starts the program, and ends everything with it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use countersign_sandbox::LimitKind;
use countersign_sandbox::plan::SetupOp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal};

use super::mounts::{self, Staging};
use super::program::{Program, drop_capabilities};
use super::sample::{self, Sampler};
use crate::protocol::{Channel, Prepare, Reply, Request, SetupFailure, has_ended, retry};
use crate::sys;

/// How often the box's processes are counted.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the exit code of the first process. Whatever happens, the host hears of it: by a message,
/// or by the end of this process.
pub(super) fn run(channel: &Channel, prepare: &Prepare, launcher: BorrowedFd<'_>) -> i32 {
    match live(channel, prepare, launcher) {
        Ok(()) => 0,
        Err(Stop::Failed(failure)) => channel.send(&Reply::Failed(failure), &[]).map_or(70, |()| 1),
        Err(Stop::HostGone) => 0,
        Err(Stop::Broken) => 70,
    }
}

enum Stop {
    Failed(SetupFailure),
    HostGone,
    /// The host cannot be told.
    Broken,
}

impl From<io::Error> for Stop {
    fn from(_: io::Error) -> Self {
        Stop::Broken
    }
}

fn live(channel: &Channel, prepare: &Prepare, launcher: BorrowedFd<'_>) -> Result<(), Stop> {
    // When the launcher is killed, the box goes with it, unless that happened before this.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)?;
    if has_ended(launcher)? {
        return Err(Stop::Broken);
    }
    let staging = build(prepare)?;
    let program = Program::compile(prepare).map_err(Stop::Failed)?;
    let signals = sys::child_signals()?;
    drop_capabilities()?;
    // The program's process gives everything up and then waits, in our place, for the word to go.
    let child = program.start(&mut || {
        announce(channel, &staging)?;
        wait_for_go(channel)
    });
    let child = child.map_err(Stop::Failed)?;
    drop(staging);
    channel.send(&Reply::Started, &[])?;
    supervise(channel, child, signals.as_fd(), &mut Sampler::new(prepare))
}

fn build(prepare: &Prepare) -> Result<Staging, Stop> {
    let mut staging = Staging::default();
    for op in &prepare.sandbox {
        // Made by the clone that made this process.
        if matches!(op, SetupOp::Namespaces { .. }) {
            continue;
        }
        mounts::apply(op, &mut staging).map_err(|error| Stop::Failed(super::failed(op, &error)))?;
    }
    Ok(staging)
}

fn announce(channel: &Channel, staging: &Staging) -> io::Result<()> {
    let first = rustix::process::pidfd_open(Pid::INIT, PidfdFlags::empty())?;
    let fds = [Some(&first), staging.scratch.as_ref(), staging.out.as_ref()];
    let fds = fds.into_iter().chain([staging.workspace.as_ref()]).flatten();
    let fds: Vec<BorrowedFd<'_>> = fds.map(AsFd::as_fd).collect();
    channel.send(&Reply::Prepared, &fds)
}

fn wait_for_go(channel: &Channel) -> io::Result<[OwnedFd; 3]> {
    match channel.receive()? {
        Some((Request::Go, streams)) => {
            streams.try_into().map_err(|_| io::Error::other("expected three streams"))
        }
        Some(_) => Err(io::Error::other("expected the start of the program")),
        None => Err(io::Error::other("the host is gone")),
    }
}

/// Watches the program, the host and the clock until one of the first two ends.
fn supervise(
    channel: &Channel,
    child: Pid,
    signals: BorrowedFd<'_>,
    sampler: &mut Sampler,
) -> Result<(), Stop> {
    let mut next_look = Instant::now() + SAMPLE_INTERVAL;
    loop {
        let mut fds =
            [PollFd::new(channel, PollFlags::IN), PollFd::from_borrowed_fd(signals, PollFlags::IN)];
        let left = next_look.saturating_duration_since(Instant::now()).subsec_nanos();
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.into() };
        retry(|| poll(&mut fds, Some(&timeout))).map_err(io::Error::from)?;
        let [from_host, from_children] = fds.map(|fd| !fd.revents().is_empty());
        if from_children {
            drain(signals);
            if let Some(status) = reap_all(child) {
                let others = sample::processes();
                if sampler.are_too_many(&others, 1) {
                    channel.send(&Reply::Limit(LimitKind::Processes), &[])?;
                }
                end_the_rest();
                return Ok(channel.send(&ended(status, others.len()), &[])?);
            }
        }
        if from_host {
            obey(channel, sampler)?;
        }
        // By the clock: a program with many children could keep us busy for ever.
        if Instant::now() >= next_look {
            if let Some(limit) = sampler.look() {
                channel.send(&Reply::Limit(limit), &[])?;
            }
            next_look = Instant::now() + SAMPLE_INTERVAL;
        }
    }
}

fn drain(signals: BorrowedFd<'_>) {
    let mut buffer = [0u8; 1024];
    while rustix::io::read(signals, &mut buffer).is_ok_and(|read| read > 0) {}
}

/// Takes leave of every child that ended, also of orphans; the status of the program if it did.
fn reap_all(child: Pid) -> Option<i32> {
    let mut status = None;
    while let Some(reaped) = sys::reap() {
        if reaped.pid == child.as_raw_nonzero().get() {
            status = Some(reaped.status);
        }
    }
    status
}

/// Nothing outlives the program: when the host hears that it ended, the box is empty.
fn end_the_rest() {
    let _ = sys::signal_everyone(libc::SIGKILL);
    sys::reap_everyone();
}

fn ended(status: i32, others: usize) -> Reply {
    let (cpu_micros, peak_memory) = sys::children_usage();
    let decoded = sys::decode_status(status);
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    Reply::Ended { code: decoded.ok(), signal: decoded.err(), cpu_micros, peak_memory, others }
}

fn obey(channel: &Channel, sampler: &Sampler) -> Result<(), Stop> {
    match channel.receive()? {
        None => Err(Stop::HostGone),
        Some((Request::Terminate, _)) => {
            // Nobody left to signal is fine. A stopped process hears only after it goes on.
            let _ = sys::signal_everyone(libc::SIGTERM);
            let _ = sys::signal_everyone(libc::SIGCONT);
            Ok(())
        }
        Some((Request::Count, _)) => Ok(channel.send(&Reply::Limit(sampler.crowd()), &[])?),
        Some(_) => Ok(()),
    }
}
