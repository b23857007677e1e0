//! A sandbox of this crate's own launcher, programs to run in it, and the processes around them.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use countersign_model::Failure;
use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Ended, Job, Limits, Observer, Plan, Spec, Stream};
use countersign_sandbox_linux::{LauncherCommand, LinuxSandbox};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough for any machine; nothing is measured by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn sandbox() -> LinuxSandbox {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_countersign-launcher"));
    LinuxSandbox::new(LauncherCommand { program, arguments: Vec::new() })
}

/// What a machine may lack without any of these tests losing its point.
pub(crate) fn spec(command: &[&str]) -> Spec {
    let mut spec = Spec::of(command.iter().map(|word| (*word).to_owned()).collect());
    spec.may_be_weaker = ["memory", "processes", "landlock", "seccomp"].map(str::to_owned).into();
    spec
}

pub(crate) fn shell(text: &str) -> Spec {
    spec(&["/bin/sh", "-c", text])
}

/// A program that has a short time to run, and a shorter one to end politely.
pub(crate) fn brief(text: &str) -> Spec {
    let limits = Limits { wall_ms: 400, grace_ms: 100, ..Limits::default() };
    Spec { limits, ..shell(text) }
}

pub(crate) fn job(plan: Plan) -> Job {
    let spill = std::env::temp_dir();
    Job { plan: Arc::new(plan), input: Vec::new(), spill, gateway: None, warm: 0 }
}

pub(crate) fn run(sandbox: &LinuxSandbox, spec: &Spec) -> Ended {
    watch(sandbox, spec, &mut Unwatched)
}

pub(crate) fn watch(sandbox: &LinuxSandbox, spec: &Spec, observer: &mut dyn Observer) -> Ended {
    sandbox.run(job(sandbox.plan(spec).unwrap()), observer).unwrap()
}

/// Why a program could not be planned or started.
pub(crate) fn refusal(sandbox: &LinuxSandbox, spec: &Spec) -> Failure {
    let refused = sandbox.plan(spec).and_then(|plan| sandbox.run(job(plan), &mut Unwatched));
    refused.map(|ended| ended.ending).unwrap_err()
}

pub(crate) fn stdout(ended: &Ended) -> String {
    String::from_utf8(ended.stdout.inline.clone()).unwrap()
}

/// Does something once, when the program has said something.
pub(crate) struct When<F: FnMut()> {
    act: F,
    has_heard: bool,
    has_acted: bool,
}

pub(crate) fn when_it_speaks<F: FnMut()>(act: F) -> When<F> {
    When { act, has_heard: false, has_acted: false }
}

impl<F: FnMut()> Observer for When<F> {
    fn tick(&mut self) -> Result<(), Failure> {
        if self.has_heard && !self.has_acted {
            self.has_acted = true;
            (self.act)();
        }
        Ok(())
    }

    fn output(&mut self, _: Stream, _: &[u8]) {
        self.has_heard = true;
    }
}

/// Children of a process, those included that have ended and wait for it.
pub(crate) fn children(parent: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    let numbers = lists.flatten().collect::<String>();
    numbers.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
}

pub(crate) fn launchers() -> Vec<Pid> {
    children(std::process::id())
}

pub(crate) fn children_of(parents: &[Pid]) -> Vec<Pid> {
    let number = |pid: &Pid| pid.as_raw_nonzero().get().unsigned_abs();
    parents.iter().flat_map(|parent| children(number(parent))).collect()
}

pub(crate) fn send(to: &[Pid], signal: Signal) {
    for pid in to {
        kill_process(*pid, signal).unwrap();
    }
}

/// Processes anywhere that have this word among their arguments.
pub(crate) fn with_word(word: &str) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let has_word = |pid: &Pid| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|found| found == word.as_bytes())
    };
    pids.filter_map(Pid::from_raw).filter(has_word).collect()
}

/// A word that no other process has.
pub(crate) fn mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Control groups of this process, in every hierarchy.
pub(crate) fn groups() -> Vec<PathBuf> {
    let prefix = format!("countersign-box-{}-", std::process::id());
    let mut found = Vec::new();
    let mut waiting = vec![Path::new("/sys/fs/cgroup").to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(entry.path());
                }
            }
        }
    }
    found
}
