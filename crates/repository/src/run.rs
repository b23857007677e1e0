//! Running one command of git: fed and drained at the same time, watched, and ended with
//! everything it started.

use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use countersign_model::Failure;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::complaint::{self, Complaint};
use crate::leash::Leash;

/// How much of what git says about its troubles is kept.
const SAID: u64 = 8 << 10;

/// How much output travels at once, and how many such pieces may wait.
const PIECE: usize = 64 << 10;
const WAITING: usize = 8;

/// How often the leash is felt.
const PULSE: Duration = Duration::from_millis(20);

/// How long a command that is stopped may take to clean up.
const GRACE: Duration = Duration::from_secs(5);

/// Answers that are lines and ids, not contents.
const SMALL: usize = 1 << 20;

/// Takes output as it comes.
pub(crate) type Sink<'s> = &'s mut dyn FnMut(&[u8]) -> Result<(), Failure>;

#[derive(Debug)]
enum Feed {
    Nothing,
    Bytes(Vec<u8>),
    File(File),
}

/// A command that is ready to run.
#[derive(Debug)]
pub(crate) struct Call {
    command: Command,
    name: String,
    feed: Feed,
}

/// How a command ended, and what it said on the side.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) name: String,
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

impl Ending {
    /// The failure that this ending is.
    pub(crate) fn failure(&self) -> Failure {
        complaint::failure(&Complaint {
            command: &self.name,
            code: self.status.code(),
            signal: self.status.signal(),
            said: &self.said,
        })
    }

    /// An error unless the command succeeded.
    pub(crate) fn success(self) -> Result<(), Failure> {
        if self.status.success() { Ok(()) } else { Err(self.failure()) }
    }
}

impl Call {
    pub(crate) fn new(command: Command, arguments: &[OsString]) -> Self {
        let name = arguments.first().map_or_else(String::new, |a| a.to_string_lossy().into_owned());
        Call { command, name, feed: Feed::Nothing }
    }

    /// Bytes for its standard input.
    pub(crate) fn feed(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.feed = Feed::Bytes(bytes.into());
        self
    }

    /// A file as its standard input.
    pub(crate) fn feed_file(mut self, file: File) -> Self {
        self.feed = Feed::File(file);
        self
    }

    /// Runs to success, with nothing to say that matters.
    pub(crate) fn quiet(self, leash: &mut Leash<'_>) -> Result<(), Failure> {
        self.run(leash, &mut |_| Ok(()))?.success()
    }

    /// A short answer, without the end of its line.
    pub(crate) fn line(self, leash: &mut Leash<'_>) -> Result<String, Failure> {
        let bytes = self.bytes(leash, SMALL)?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    /// A short answer that is a path, whatever its bytes are.
    pub(crate) fn path(self, leash: &mut Leash<'_>) -> Result<PathBuf, Failure> {
        let mut bytes = self.bytes(leash, SMALL)?;
        bytes.pop_if(|last| *last == b'\n');
        Ok(OsString::from_vec(bytes).into())
    }

    /// Everything a successful command prints, if it is not more than `most`.
    pub(crate) fn bytes(self, leash: &mut Leash<'_>, most: usize) -> Result<Vec<u8>, Failure> {
        let (ending, bytes) = self.capture(leash, most)?;
        ending.success()?;
        Ok(bytes)
    }

    /// How it ended, and everything it printed, if it is not more than `most`.
    pub(crate) fn capture(
        self,
        leash: &mut Leash<'_>,
        most: usize,
    ) -> Result<(Ending, Vec<u8>), Failure> {
        let mut kept = Vec::new();
        let ending = self.run(leash, &mut |piece| {
            if piece.len() > most.saturating_sub(kept.len()) {
                return Err(too_much(most));
            }
            kept.extend_from_slice(piece);
            Ok(())
        })?;
        Ok((ending, kept))
    }

    /// Runs with the output going straight into a file.
    pub(crate) fn into_file(mut self, leash: &mut Leash<'_>, file: File) -> Result<(), Failure> {
        self.command.stdout(file);
        let running = Running::start(self)?;
        running.watch(leash, &mut |_| Ok(()))?.success()
    }

    /// Runs to its end, whatever that is. An error of the sink or of the leash ends it at once.
    pub(crate) fn run(mut self, leash: &mut Leash<'_>, sink: Sink<'_>) -> Result<Ending, Failure> {
        self.command.stdout(Stdio::piped());
        Running::start(self)?.watch(leash, sink)
    }
}

fn too_much(most: usize) -> Failure {
    let message = format!("git has more to say than the {most} bytes that were allowed");
    Failure::resource("OUTPUT_TOO_LARGE", message).hint("ask for less at once")
}

/// A command at work. Whoever lets go of it ends it, with all of its children.
struct Running {
    child: Child,
    name: String,
    pieces: Receiver<Vec<u8>>,
    said: JoinHandle<Vec<u8>>,
    reaped: bool,
}

impl Running {
    fn start(call: Call) -> Result<Self, Failure> {
        let Call { mut command, name, feed } = call;
        let (stdin, bytes) = match feed {
            Feed::Nothing => (Stdio::null(), None),
            Feed::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
            Feed::File(file) => (Stdio::from(file), None),
        };
        command.stdin(stdin).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|error| not_started(&command, &error))?;
        feed_from_thread(&mut child, bytes);
        let (sender, pieces) = sync_channel(WAITING);
        if let Some(output) = child.stdout.take() {
            thread::spawn(move || pump(output, &sender));
        }
        let errors = child.stderr.take();
        let said = thread::spawn(move || errors.map(listen).unwrap_or_default());
        Ok(Running { child, name, pieces, said, reaped: false })
    }

    fn watch(mut self, leash: &mut Leash<'_>, sink: Sink<'_>) -> Result<Ending, Failure> {
        loop {
            leash.check()?;
            match self.pieces.recv_timeout(PULSE) {
                Ok(piece) => sink(&piece)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.wait(leash)?;
        let said = self.heard(leash)?;
        let name = std::mem::take(&mut self.name);
        Ok(Ending { name, status, said: complaint::inert(&said) })
    }

    /// Waits in steps that grow: most commands have ended by the time their output has.
    fn wait(&mut self, leash: &mut Leash<'_>) -> Result<ExitStatus, Failure> {
        let mut step = Duration::from_micros(100);
        loop {
            if let Some(status) = self.child.try_wait().map_err(|error| lost_sight(&error))? {
                self.reaped = true;
                return Ok(status);
            }
            leash.check()?;
            thread::sleep(step);
            step = (step * 2).min(PULSE);
        }
    }

    /// What it said on the side; a child that keeps the line open is waited for within the leash.
    fn heard(&mut self, leash: &mut Leash<'_>) -> Result<Vec<u8>, Failure> {
        let mut step = Duration::from_micros(50);
        while !self.said.is_finished() {
            leash.check()?;
            thread::sleep(step);
            step = (step * 2).min(PULSE);
        }
        let said = std::mem::replace(&mut self.said, thread::spawn(Vec::new));
        Ok(said.join().unwrap_or_default())
    }
}

impl Drop for Running {
    /// Git is asked first, so that it takes its lock files away; then whoever is left is killed.
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // The group is ours as long as its leader has not been reaped, so nobody else is hit.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::TERM);
            wait_without_reaping(group);
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn wait_without_reaping(leader: Pid) {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let given_up = Instant::now() + GRACE;
    while matches!(waitid(WaitId::Pid(leader), look), Ok(None)) && Instant::now() < given_up {
        thread::sleep(Duration::from_millis(1));
    }
}

/// A thread feeds, so that a command which prints before it has read everything does not wait for
/// us while we wait for it. One that stops reading is no error: its ending tells.
fn feed_from_thread(child: &mut Child, bytes: Option<Vec<u8>>) {
    if let (Some(mut input), Some(bytes)) = (child.stdin.take(), bytes) {
        thread::spawn(move || input.write_all(&bytes));
    }
}

/// Passes output on until there is no more, or nobody who wants it.
fn pump(mut output: impl Read, pieces: &SyncSender<Vec<u8>>) {
    let mut buffer = vec![0; PIECE];
    loop {
        match output.read(&mut buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(read) => {
                let piece = buffer.get(..read).unwrap_or_default().to_vec();
                if pieces.send(piece).is_err() {
                    return;
                }
            }
        }
    }
}

/// Keeps the beginning, where git names the cause, and drains the rest.
fn listen(mut errors: impl Read) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = errors.by_ref().take(SAID).read_to_end(&mut said);
    let _ = std::io::copy(&mut errors, &mut std::io::sink());
    said
}

fn not_started(command: &Command, error: &std::io::Error) -> Failure {
    let gone = command.get_current_dir().is_some_and(|directory| !directory.is_dir());
    if error.kind() == ErrorKind::NotFound && gone {
        return Failure::state("DIRECTORY_LOST", "the git directory is no longer there");
    }
    let message = format!("git could not be started: {error}");
    Failure::resource("GIT_MISSING", message).hint("install git 2.38 or newer")
}

fn lost_sight(error: &std::io::Error) -> Failure {
    Failure::execution("GIT_FAILED", format!("git could not be waited for: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn shell(script: &str) -> Call {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Call::new(command, &["script".into()])
    }

    fn long() -> Leash<'static> {
        Leash::lasting(Duration::from_secs(60))
    }

    #[test]
    fn much_goes_in_while_much_comes_out() {
        let bytes = vec![b'x'; 8 << 20];
        let back = shell("cat").feed(bytes.clone()).bytes(&mut long(), 8 << 20).unwrap();
        assert!(back == bytes);
        let flood = shell("cat >&2; echo done").feed(bytes).line(&mut long()).unwrap();
        assert_eq!(flood, "done");
    }

    #[test]
    fn a_command_that_does_not_read_is_no_error() {
        let answer = shell("exec <&-; echo fine").feed(vec![b'x'; 8 << 20]).line(&mut long());
        assert_eq!(answer.unwrap(), "fine");
    }

    #[test]
    fn more_than_allowed_ends_it() {
        let endless = shell("while :; do echo xxxxxxxxxxxxxxxx; done");
        assert_eq!(endless.bytes(&mut long(), 1 << 20).unwrap_err().code, "OUTPUT_TOO_LARGE");
    }

    #[test]
    fn whoever_runs_out_of_time_goes_with_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{}'; wait", file.display());
        let mut tick = || match fs::read_to_string(&file) {
            Ok(pid) if pid.ends_with('\n') => Err(Failure::execution("STOPPED", "stop")),
            _ => Ok(()),
        };
        let mut leash = Leash::new(Duration::from_secs(60), &mut tick);
        assert_eq!(shell(&script).quiet(&mut leash).unwrap_err().code, "STOPPED");
        let pid = fs::read_to_string(&file).unwrap();
        let stat = Path::new("/proc").join(pid.trim()).join("stat");
        // Killed, and perhaps not yet collected by whoever inherited it.
        let is_gone = || fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z "));
        while !is_gone() {
            thread::yield_now();
        }
    }

    #[test]
    fn endings_become_failures() {
        let failed = shell("echo no good >&2; exit 3").quiet(&mut long()).unwrap_err();
        assert_eq!(failed.code, "GIT_FAILED");
        let details = failed.details.unwrap();
        assert_eq!((&details["exitCode"], &details["said"]), (&3.into(), &"no good".into()));
        let killed = shell("kill -9 $$").quiet(&mut long()).unwrap_err();
        assert_eq!(killed.details.unwrap()["signal"], 9);
    }
}
