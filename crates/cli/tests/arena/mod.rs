//! Where hostile programs are let loose: a host with secrets, services and a workspace, the callers
//! that run them, and what is looked at afterwards.
#![allow(dead_code, reason = "every test file uses a part of this")]

pub(crate) mod build;
pub(crate) mod leftovers;
pub(crate) mod listeners;
pub(crate) mod program;
pub(crate) mod snapshot;
pub(crate) mod table;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, getuid, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use leftovers::Before;
use listeners::Listeners;
use program::{Ending, Program};
use snapshot::{Snapshot, snapshot};

/// After this a run is killed and has failed. Nothing is measured by it.
const GUARD: Duration = Duration::from_secs(120);

/// Two at a time: more would only wait for one another.
const WORKERS: usize = 2;

/// Nobody, on every Linux.
const ORDINARY: u32 = 65534;

pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Who runs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Whoever runs the tests.
    Current,
    /// An ordinary user, when that is root.
    Ordinary,
}

impl Caller {
    pub(crate) fn uid(self) -> u32 {
        match self {
            Caller::Current => getuid().as_raw(),
            Caller::Ordinary => ORDINARY,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        if self.uid() == 0 { "root" } else { "user" }
    }
}

/// The whole place; it vanishes when dropped.
#[derive(Debug)]
pub(crate) struct Arena {
    dir: TempDir,
    pub(crate) mark: String,
    pub(crate) listeners: Listeners,
    runs: AtomicUsize,
    before: Before,
    shared_memory: PathBuf,
}

/// What one run may touch, and must not.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) root: PathBuf,
    pub(crate) mark: String,
    pub(crate) ws: PathBuf,
    pub(crate) out: PathBuf,
    pub(crate) before: Views,
}

/// The workspace, the outputs and everything that is nobody's business.
#[derive(Debug)]
pub(crate) struct Views {
    pub(crate) ws: Snapshot,
    pub(crate) out: Snapshot,
    pub(crate) host: Snapshot,
}

/// How a process ended and what it said.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    /// As a shell says it: 128 and the number of the signal.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) guarded: bool,
}

/// What `sandbox run --json` said.
#[derive(Debug, Clone)]
pub(crate) struct Boxed {
    pub(crate) ending: Ending,
    pub(crate) stdout: String,
    /// Everything a person needs to find out why.
    pub(crate) detail: String,
    pub(crate) problems: Vec<String>,
}

impl Arena {
    pub(crate) fn new(programs: &[Program]) -> Arena {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let mark = format!("hostile-{}-{now}", std::process::id());
        let dir = tempfile::Builder::new().prefix("hostile-").tempdir().unwrap();
        open_to_all(dir.path());
        for name in ["tool", "bin", "cases"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            open_to_all(&dir.path().join(name));
        }
        let binary = dir.path().join("bin/countersign");
        fs::copy(env!("CARGO_BIN_EXE_countersign"), &binary).unwrap();
        open_to_all(&binary);
        build::install(programs, &dir.path().join("tool"));
        for entry in fs::read_dir(dir.path().join("tool")).unwrap() {
            open_to_all(&entry.unwrap().path());
        }
        let shared_memory = Path::new("/dev/shm").join(&mark);
        fs::write(&shared_memory, "shared by processes of the host\n").unwrap();
        open_to_all(&shared_memory);
        let listeners = Listeners::start(&mark);
        let before = Before::look();
        let runs = AtomicUsize::new(0);
        let arena = Arena { dir, mark, listeners, runs, before, shared_memory };
        if getuid().is_root() {
            let mut command = as_caller(Caller::Ordinary);
            command.args(["test", "-x"]).arg(&binary);
            let reached = command.status().is_ok_and(|status| status.success());
            assert!(reached, "setpriv is missing, or {} is out of reach", binary.display());
        } else {
            println!("skipped: the half as root; this is user {}", getuid().as_raw());
        }
        for caller in arena.callers() {
            arena.make_home(caller);
        }
        arena
    }

    /// The current user and, when that is root, an ordinary one.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        match getuid().is_root() {
            true => vec![Caller::Current, Caller::Ordinary],
            false => vec![Caller::Current],
        }
    }

    pub(crate) fn tool(&self) -> PathBuf {
        self.dir.path().join("tool")
    }

    pub(crate) fn home(&self, caller: Caller) -> PathBuf {
        self.dir.path().join(format!("home-{}", caller.name()))
    }

    fn make_home(&self, caller: Caller) {
        let home = self.home(caller);
        fs::create_dir(&home).unwrap();
        chown(&home, Some(caller.uid()), Some(caller.uid())).unwrap();
        let mut command = as_caller(caller);
        command.arg(self.dir.path().join("bin/countersign")).arg("init");
        command.current_dir(&home).env("COUNTERSIGN_HOME", home.join("home"));
        let made = guarded(&mut command);
        assert_eq!(made.code, 0, "no home could be made: {made:#?}");
    }

    /// A fresh place for one run.
    pub(crate) fn case(&self, program: &Program, caller: Caller) -> Case {
        let number = self.runs.fetch_add(1, Ordering::SeqCst);
        let root = self.dir.path().join(format!("cases/{number}"));
        let ws = root.join("ws");
        for name in ["", "ws", "out", "tmp", "cwd", "canary", "operator", "operator/.ssh"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for name in ["empty", "dir", "dir/deep"] {
            fs::create_dir(ws.join(name)).unwrap();
        }
        for (name, mode) in [
            ("ws/keep.txt", 0o644),
            ("ws/run.sh", 0o755),
            ("ws/readonly.txt", 0o444),
            ("ws/.hidden", 0o644),
            ("ws/dir/inner.txt", 0o644),
            ("ws/dir/deep/leaf.txt", 0o644),
            ("cwd/here.txt", 0o644),
            ("canary/secret.txt", 0o644),
            ("canary/shared.txt", 0o644),
            ("operator/.ssh/id_ed25519", 0o600),
        ] {
            fs::write(root.join(name), format!("{name} as it was\n")).unwrap();
            fs::set_permissions(root.join(name), Permissions::from_mode(mode)).unwrap();
        }
        fs::hard_link(root.join("canary/shared.txt"), ws.join("shared.txt")).unwrap();
        symlink("keep.txt", ws.join("link")).unwrap();
        if program.socket {
            self.listeners.at(&ws.join("host.sock"));
            fs::set_permissions(ws.join("host.sock"), Permissions::from_mode(0o777)).unwrap();
        }
        give(&root, caller.uid());
        let mark = format!("{}-{number}-", self.mark);
        let before = Views::of(&root);
        Case { out: root.join("out"), ws, root, mark, before }
    }

    /// What a program is told about the host. Without a box the places have their own names.
    pub(crate) fn facts(&self, case: &Case, caller: Caller, boxed: bool) -> Vec<String> {
        let place = |name: &str| case.root.join(name).display().to_string();
        let (ws, out, tool) = match boxed {
            true => ("/workspace".to_owned(), "/out".to_owned(), "/tool".to_owned()),
            false => (place("ws"), place("out"), self.tool().display().to_string()),
        };
        vec![
            format!("mark={}", case.mark),
            format!("ws={ws}"),
            format!("out={out}"),
            format!("tool={tool}"),
            format!("port={}", self.listeners.port),
            format!("port6={}", self.listeners.port6),
            format!("udp={}", self.listeners.udp),
            format!("abstract={}", self.listeners.abstract_name),
            format!("hostpid={}", std::process::id()),
            format!("canary={}", place("canary")),
            format!("operator={}", place("operator")),
            format!("cwd={}", place("cwd")),
            format!("home={}", self.home(caller).join("home").display()),
            format!("shm={}", self.mark),
        ]
    }

    /// A command of the caller's, in its environment, with descriptors it forgot to close.
    pub(crate) fn command(
        &self,
        case: &Case,
        caller: Caller,
        terminal: bool,
        arguments: &[String],
    ) -> Command {
        let secret = case.root.join("canary/secret.txt");
        let leak = "exec 7<\"$1\" 8<\"$2\"; shift 2; exec \"$@\"";
        let mut words: Vec<String> = ["sh", "-c", leak, "sh"].map(str::to_owned).to_vec();
        words.push(secret.display().to_string());
        words.push(secret.parent().unwrap().display().to_string());
        words.extend_from_slice(arguments);
        let mut command = as_caller(caller);
        if terminal {
            let line: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
            command.args(["script", "-qefc"]).arg(line.join(" ")).arg("/dev/null");
        } else {
            command.args(&words);
        }
        command
            .current_dir(case.root.join("cwd"))
            .env("HOME", case.root.join("operator"))
            .env("TMPDIR", case.root.join("tmp"))
            .env("COUNTERSIGN_HOME", self.home(caller).join("home"))
            .env("SECRET_TOKEN", "do-not-tell")
            .env("OPERATOR_MARK", &case.mark)
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs a program in our box.
    pub(crate) fn run_boxed(&self, program: &Program, case: &Case, caller: Caller) -> Boxed {
        let mut words = vec![self.dir.path().join("bin/countersign").display().to_string()];
        words.extend(["sandbox", "run", "--json"].map(str::to_owned));
        words.extend(program.flags.iter().cloned());
        if !program.flags.iter().any(|flag| flag == "--time") {
            words.extend(["--time", "30"].map(str::to_owned));
        }
        for (flag, path) in
            [("--workspace", &case.ws), ("--out", &case.out), ("--tool", &self.tool())]
        {
            words.extend([flag.to_owned(), path.display().to_string()]);
        }
        words.push("--".to_owned());
        words.extend(program.command("/tool"));
        words.extend(self.facts(case, caller, true));
        let finished = guarded(&mut self.command(case, caller, program.terminal, &words));
        read_answer(&finished)
    }

    /// Runs a program with nothing around it.
    pub(crate) fn run_bare(&self, program: &Program, case: &Case, caller: Caller) -> Finished {
        let mut words = program.command(&self.tool().display().to_string());
        words.extend(self.facts(case, caller, false));
        guarded(&mut self.command(case, caller, program.terminal, &words))
    }

    /// Stops before anything is let loose in a box that is none.
    pub(crate) fn assert_there_is_a_box(&self) {
        for caller in self.callers() {
            let nothing = Program::default();
            let case = self.case(&nothing, caller);
            let binary = self.dir.path().join("bin/countersign").display().to_string();
            let words = ["sandbox", "run", "--json", "--", "readlink", "/proc/self/ns/pid"];
            let words: Vec<String> = [binary].into_iter().chain(words.map(str::to_owned)).collect();
            let finished = guarded(&mut self.command(&case, caller, false, &words));
            let answer = read_answer(&finished);
            let there = answer.stdout.trim();
            let here = fs::read_link("/proc/self/ns/pid").unwrap();
            assert!(
                answer.ending == Ending::Exit(0) && there.starts_with("pid:["),
                "there is no box for {}, nothing hostile was run\n{}",
                caller.name(),
                answer.detail
            );
            assert_ne!(there, here.to_str().unwrap(), "the box shows the processes of the host");
        }
    }

    /// Does the work for all, a few at a time, and gives the answers back in order.
    pub(crate) fn each<T: Send>(
        &self,
        programs: &[Program],
        work: impl Fn(&Program) -> T + Sync,
    ) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::SeqCst);
                        let Some(program) = programs.get(at) else { break };
                        let answer = work(program);
                        done.lock().unwrap().push((at, answer));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, answer)| answer).collect()
    }

    /// What is left of all runs: processes, mounts, groups, files.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = self.before.leftovers(&self.mark, self.dir.path());
        for case in fs::read_dir(self.dir.path().join("cases")).unwrap().flatten() {
            for entry in fs::read_dir(case.path().join("tmp")).unwrap().flatten() {
                left.push(format!("file {}", entry.path().display()));
            }
            for entry in fs::read_dir(case.path()).unwrap().flatten() {
                let name = entry.file_name();
                let ours = ["ws", "out", "tmp", "cwd", "canary", "operator"];
                if !ours.iter().any(|ours| name == *ours) {
                    left.push(format!("file {}", entry.path().display()));
                }
            }
        }
        for caller in self.callers() {
            let staging = self.home(caller).join("home/state/staging");
            for entry in fs::read_dir(staging).into_iter().flatten().flatten() {
                left.push(format!("file {}", entry.path().display()));
            }
        }
        left
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.shared_memory);
        // Some programs close directories even to their owner.
        let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(self.dir.path()).output();
    }
}

impl Views {
    pub(crate) fn of(root: &Path) -> Views {
        let mut host = Snapshot::new();
        for name in ["cwd", "canary", "operator"] {
            for (path, entry) in snapshot(&root.join(name)) {
                host.insert([name.as_bytes(), b"/", &path].concat(), entry);
            }
        }
        Views { ws: snapshot(&root.join("ws")), out: snapshot(&root.join("out")), host }
    }
}

/// A command that starts as the caller, with a small environment.
fn as_caller(caller: Caller) -> Command {
    let mut command = Command::new("env");
    if caller == Caller::Ordinary {
        command = Command::new("setpriv");
        let uid = ORDINARY.to_string();
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]);
    }
    command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8").env("USER", "tester");
    command
}

/// Runs a command to its end, or kills it.
pub(crate) fn guarded(command: &mut Command) -> Finished {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let group = Pid::from_child(&child);
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    let mut guarded = false;
    let output = receive.recv_timeout(GUARD).or_else(|_| {
        guarded = true;
        let _ = kill_process_group(group, Signal::KILL);
        receive.recv_timeout(Duration::from_secs(10))
    });
    let Ok(Ok(output)) = output else {
        let stderr = "it did not end, not even when killed".to_owned();
        return Finished { code: -1, stdout: String::new(), stderr, guarded };
    };
    let signal = output.status.signal().map_or(-1, |signal| 128 + signal);
    Finished {
        code: output.status.code().unwrap_or(signal),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        guarded,
    }
}

/// Reads what `sandbox run --json` printed; what it did not print is the ending of the process.
fn read_answer(finished: &Finished) -> Boxed {
    let text = &finished.stdout;
    let object = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let answer: Value =
        object.and_then(|object| serde_json::from_str(object).ok()).unwrap_or_default();
    let ending = &answer["ending"];
    let number = |name: &str| {
        ending[name].as_i64().and_then(|number| i32::try_from(number).ok()).unwrap_or(-1)
    };
    let word = |name: &str| ending[name].as_str().unwrap_or("?").to_owned();
    let (ending, code) = match ending["kind"].as_str() {
        Some("exited") => (Ending::Exit(number("code")), number("code")),
        Some("signalled") => (Ending::Signal(number("signal")), 128 + number("signal")),
        Some("limit") => (Ending::Limit(word("limit")), 5),
        Some("refused") => (Ending::Refused(word("code")), 1),
        _ => (Ending::Exit(finished.code), finished.code),
    };
    let mut problems = Vec::new();
    if finished.guarded {
        problems.push("it did not end by itself".to_owned());
    }
    if finished.code != code {
        problems.push(format!("the exit code is {}, not {code}", finished.code));
    }
    if !answer.is_null() && answer["ending"].is_object() && answer["exitCode"] != code {
        problems.push(format!("`exitCode` is {}, not {code}", answer["exitCode"]));
    }
    let stdout = answer["stdout"].as_str().unwrap_or_default().to_owned();
    let stderr = answer["stderr"].as_str().unwrap_or_default();
    let said = if answer["ending"].is_object() { "" } else { text.as_str() };
    let message = answer["ending"]["message"].as_str().unwrap_or_default();
    let parts = [message, &last_lines(&stdout), &last_lines(stderr), said, &finished.stderr];
    let detail: Vec<&str> = parts.into_iter().filter(|part| !part.trim().is_empty()).collect();
    Boxed { ending, stdout, detail: detail.join("\n"), problems }
}

/// Enough to see why, not everything that a flood said.
fn last_lines(text: &str) -> String {
    let start = text.ceil_char_boundary(text.len().saturating_sub(1500));
    let lines: Vec<&str> = text.get(start..).unwrap_or_default().lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}

fn open_to_all(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Everything below belongs to the user; links are not followed.
fn give(root: &Path, uid: u32) {
    if !getuid().is_root() {
        return;
    }
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let given: io::Result<()> = std::os::unix::fs::lchown(&path, Some(uid), Some(uid));
        given.unwrap();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}
