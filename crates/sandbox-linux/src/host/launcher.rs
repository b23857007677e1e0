//! A launcher as the host sees it, and a box that it has made ready.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use countersign_model::Failure;
use countersign_sandbox::Plan;
use countersign_sandbox::plan::SetupOp;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::LauncherCommand;
use super::cgroup::{Counters, Group, Layout};
use super::nursery;
use crate::protocol::{Channel, Prepare, Reply, Request, SetupFailure, fits, has_ended, is_ready};

/// How long a launcher may take to be set up, and a box at least. Nothing is measured by it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most for a box whose program may run for long: copying a large workspace takes its time.
const MOST_PATIENCE: Duration = Duration::from_secs(60);
/// How long one may take to be ready again after a box, or to end when it is told to.
const SHORT: Duration = Duration::from_secs(2);
/// How long one may take to end by itself.
const CIVIL: Duration = Duration::from_millis(100);
/// The longest single argument or variable that the kernel takes, its end included.
const LONGEST_WORD: usize = 128 << 10;

/// A launcher process without a box.
#[derive(Debug)]
pub(crate) struct Launcher {
    pub(crate) channel: Channel,
    pub(crate) ops: Vec<SetupOp>,
    /// Listens inside of its network namespace.
    listener: Option<TcpListener>,
    /// The last box is empty, but the kernel is still taking it apart.
    pub(crate) is_draining: bool,
    /// How many boxes it has made.
    boxes: u32,
    process: Process,
}

/// The process and the group around it, which go together.
#[derive(Debug)]
struct Process {
    child: Child,
    group: Group,
}

impl Drop for Process {
    /// The launcher ends with its socket, which is closed before this, and takes leave of its box
    /// first. One that does not is killed, and the box with it; one that the kernel holds is left
    /// to the kernel, and its group to the next host.
    fn drop(&mut self) {
        let ended = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty());
        let ended_within = |patience| match &ended {
            Ok(process) => is_ready(process.as_fd(), patience).unwrap_or(false),
            Err(_) => true,
        };
        if !ended_within(CIVIL) {
            let _ = self.child.kill();
        }
        match ended_within(SHORT) {
            true => _ = self.child.wait(),
            false => tracing::warn!(pid = self.child.id(), "a launcher cannot be ended"),
        }
    }
}

/// A box, set up to the moment before its program starts.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) launcher: Launcher,
    /// The first process of the box.
    pub(crate) first: OwnedFd,
    pub(crate) scratch: OwnedFd,
    pub(crate) out: OwnedFd,
    pub(crate) workspace: Option<OwnedFd>,
    pub(crate) before: Counters,
}

impl Launcher {
    pub(crate) fn start(
        command: &LauncherCommand,
        cgroups: &Layout,
        ops: &[SetupOp],
    ) -> Result<Self, Failure> {
        let (channel, theirs) = Channel::pair().map_err(|error| broken(&error))?;
        let group = Group::make(cgroups).map_err(|error| broken(&error))?;
        let mut start = Command::new(&command.program);
        start
            .args(&command.arguments)
            .env_clear()
            // What a terminal sends to the host's whole group is for the host to judge.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = nursery::start(start).map_err(|error| broken(&error))?;
        let process = Process { child, group };
        process.group.join(process.child.id()).map_err(|error| broken(&error))?;
        let mut launcher = Launcher {
            channel,
            ops: ops.to_vec(),
            listener: None,
            is_draining: false,
            boxes: 0,
            process,
        };
        launcher.set_up(ops)?;
        Ok(launcher)
    }

    fn set_up(&mut self, ops: &[SetupOp]) -> Result<(), Failure> {
        let request = Request::Setup { ops: ops.to_vec() };
        self.channel.send(&request, &[]).map_err(|error| broken(&error))?;
        match self.hear(PATIENCE)? {
            Some((Reply::Ready, fds)) => {
                self.listener = fds.into_iter().next().map(TcpListener::from);
                Ok(())
            }
            Some((Reply::Failed(failure), _)) => Err(refused(&failure)),
            _ => Err(lost()),
        }
    }

    /// After many boxes a new launcher takes over: whatever the old one holds on to goes with it.
    pub(crate) fn is_worn(&self) -> bool {
        self.boxes >= 500
    }

    pub(crate) fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    pub(crate) fn group(&self) -> &Group {
        &self.process.group
    }

    /// What the launcher says next. One that says nothing is as good as gone.
    fn hear(&self, patience: Duration) -> Result<Option<(Reply, Vec<OwnedFd>)>, Failure> {
        self.channel.receive_within(patience).map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::ConnectionReset => lost(),
            _ => broken(&error),
        })
    }

    /// Waits until the last box is gone, if there is one.
    fn settle(&mut self) -> Result<(), Failure> {
        while self.is_draining {
            match self.hear(SHORT)? {
                Some((Reply::Idle { clean: true }, _)) => self.is_draining = false,
                Some((Reply::Idle { clean: false }, _)) | None => return Err(lost()),
                Some(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn prepare(mut self, plan: &Plan) -> Result<Ready, Failure> {
        self.settle()?;
        self.boxes += 1;
        let group = &mut self.process.group;
        group.limit(&plan.limits).map_err(|error| broken(&error))?;
        group.reset_peak();
        let before = group.counters();
        let (sample_memory, sample_cpu) = (!group.counts_memory(), !group.counts_cpu());
        let request = Request::Prepare(Box::new(request(plan, sample_memory, sample_cpu)));
        self.channel.send(&request, &[]).map_err(|error| broken(&error))?;
        let patience = Duration::from_millis(plan.limits.wall_ms).clamp(PATIENCE, MOST_PATIENCE);
        match self.hear(patience)? {
            Some((Reply::Prepared, fds)) => {
                let mut fds = fds.into_iter();
                let mut next = || fds.next().ok_or_else(lost);
                let (first, scratch, out) = (next()?, next()?, next()?);
                Ok(Ready { launcher: self, first, scratch, out, workspace: fds.next(), before })
            }
            Some((Reply::Failed(failure), _)) => Err(refused(&failure)),
            _ => Err(lost()),
        }
    }
}

/// Refuses a command that could not be handed over, before anything is begun.
pub(crate) fn check_length(plan: &Plan) -> Result<(), Failure> {
    let variables = plan.environment.iter().map(|(name, value)| name.len() + 1 + value.len());
    let lengths = plan.command.iter().map(String::len).chain(variables);
    let (longest, sum) =
        lengths.fold((0, 0), |(longest, sum), length| (length.max(longest), sum + length));
    // Writing it down only to measure it is for those that could be too long.
    let is_short = sum < LONGEST_WORD / 8;
    let fits_packet = || fits(&Request::Prepare(Box::new(request(plan, true, true))));
    if is_short || longest < LONGEST_WORD && fits_packet() {
        return Ok(());
    }
    let message = format!("the command and its environment are too long: {sum} bytes");
    Err(Failure::validation("COMMAND_TOO_LONG", message)
        .hint("give what is long as input or in a file; at most 128 KiB are safe here"))
}

fn request(plan: &Plan, sample_memory: bool, sample_cpu: bool) -> Prepare {
    let variable = |(name, value): (&String, &String)| format!("{name}={value}");
    Prepare {
        sandbox: plan.sandbox.clone(),
        program: plan.program.clone(),
        command: plan.command.clone(),
        environment: plan.environment.iter().map(variable).collect(),
        directory: plan.directory.clone(),
        limits: plan.limits,
        sample_memory,
        sample_cpu,
    }
}

impl Ready {
    /// Starts the program. Whether that worked is heard of later.
    pub(crate) fn go(&self, streams: [&OwnedFd; 3]) -> Result<(), Failure> {
        let fds = streams.map(AsFd::as_fd);
        self.launcher.channel.send(&Request::Go, &fds).map_err(|error| broken(&error))
    }

    pub(crate) fn terminate(&self) {
        // A box that is gone needs no telling.
        let _ = self.launcher.channel.send(&Request::Terminate, &[]);
    }

    /// Asks which limit is behind a process that could not be started.
    pub(crate) fn ask_for_count(&self) {
        let _ = self.launcher.channel.send(&Request::Count, &[]);
    }

    /// Whether the box still waits for its program. Somebody may have ended it meanwhile.
    pub(crate) fn is_waiting(&self) -> bool {
        has_ended(self.first.as_fd()).is_ok_and(|ended| !ended)
            && is_ready(self.launcher.channel.as_fd(), Duration::ZERO).is_ok_and(|said| !said)
    }

    /// Waits until the box is empty: its first process ends last.
    pub(crate) fn is_empty_within(&self, patience: Duration) -> bool {
        is_ready(self.first.as_fd(), patience).unwrap_or(false)
    }

    /// Ends the first process, and with it everything in the box.
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.first, Signal::KILL);
    }
}

/// Something between host and launcher did not work.
pub(crate) fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::resource("SANDBOX_FAILED", format!("the sandbox could not be made: {error}"))
        .hint("see what this machine can do with `countersign doctor`")
}

pub(crate) fn lost() -> Failure {
    Failure::resource("SANDBOX_LOST", "the sandbox's launcher ended unexpectedly")
        .hint("call again; if it happens again, the log of the kernel may say more")
}

pub(crate) fn refused(failure: &SetupFailure) -> Failure {
    let message = format!("{}: {}", failure.step, failure.error);
    if failure.is_command {
        return Failure::execution(
            "COMMAND_NOT_STARTED",
            format!("the program did not start: {message}"),
        )
        .hint(
            "programs are looked for in /usr/local/bin, /usr/bin and /bin of the sandbox, and must be \
             executable; `[sandbox] show` in countersign.toml shows more of this machine",
        );
    }
    Failure::resource(
        "CANNOT_ENFORCE",
        format!("the sandbox could not be made at this step: {message}"),
    )
    .hint("see what this machine can do with `countersign doctor`")
}
