//! Launchers and boxes that are killed or stopped from outside: calls end in time, the sandbox goes on
//! working, and nothing is left of what was struck.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{
    brief, children_of, eventually, groups, job, launchers, run, sandbox, send, shell, stdout,
    watch, when_it_speaks,
};
use countersign_sandbox::backend::Unwatched;
use countersign_sandbox::{Backend, Ended, Ending, LimitKind, Spec};
use countersign_sandbox_linux::LinuxSandbox;
use rustix::process::{Pid, Signal};

const SUCCESS: Ending = Ending::Exited { code: 0 };

#[track_caller]
fn is_lost(ended: &Ended) {
    let Ending::Stopped { failure } = &ended.ending else { panic!("{:?}", ended.ending) };
    assert_eq!(failure.code, "SANDBOX_LOST");
}

/// Runs a program, strikes when it speaks, and looks whether it ended in time, whether the sandbox
/// still works, and whether anything is left when that is gone.
#[track_caller]
fn survive(spec: &Spec, strike: impl FnMut()) -> Ended {
    let sandbox = sandbox();
    sandbox.machine();
    let started = Instant::now();
    let ended = watch(&sandbox, spec, &mut when_it_speaks(strike));
    assert!(started.elapsed() < Duration::from_secs(15), "it took {:?}", started.elapsed());
    for _ in 0..3 {
        assert_eq!(run(&sandbox, &shell("true")).ending, SUCCESS);
    }
    assert_eq!(launchers().len(), 1, "the struck launcher is gone, the new one is used again");
    leave(sandbox);
    ended
}

#[track_caller]
fn leave(sandbox: LinuxSandbox) {
    drop(sandbox);
    assert_eq!(launchers(), [], "neither launchers nor their remains");
    assert_eq!(groups(), [] as [std::path::PathBuf; 0]);
}

const WAITS: &str = "echo ready; sleep 100; :";

#[test]
fn a_launcher_that_is_killed_takes_its_box_along() {
    is_lost(&survive(&shell(WAITS), || send(&launchers(), Signal::KILL)));
}

#[test]
fn a_launcher_that_is_stopped_delays_no_ending() {
    // The program ends by itself; nobody is there to take leave of its box.
    let ended = survive(&shell("echo ready; sleep 0.2"), || send(&launchers(), Signal::STOP));
    assert_eq!(ended.ending, SUCCESS);
    let ended = survive(&brief(WAITS), || send(&launchers(), Signal::STOP));
    assert_eq!(ended.ending, Ending::Limit { limit: LimitKind::WallTime });
}

#[test]
fn a_box_that_is_killed_is_lost_and_nothing_else() {
    is_lost(&survive(&shell(WAITS), || send(&children_of(&launchers()), Signal::KILL)));
}

#[test]
fn a_box_that_is_stopped_ends_at_its_limit() {
    let ended = survive(&brief(WAITS), || send(&children_of(&launchers()), Signal::STOP));
    assert_eq!(ended.ending, Ending::Limit { limit: LimitKind::WallTime });
}

#[test]
fn a_launcher_that_is_killed_between_calls_is_replaced() {
    let sandbox = sandbox();
    for _ in 0..3 {
        run(&sandbox, &shell("true"));
        send(&launchers(), Signal::KILL);
        assert_eq!(run(&sandbox, &shell("true")).ending, SUCCESS);
    }
    leave(sandbox);
}

#[test]
fn a_launcher_that_is_stopped_between_calls_is_replaced() {
    let sandbox = sandbox();
    run(&sandbox, &shell("true"));
    send(&launchers(), Signal::STOP);
    assert_eq!(run(&sandbox, &shell("true")).ending, SUCCESS);
    leave(sandbox);
}

/// A launcher that may not start processes any more says so, and another does the work.
#[test]
fn a_launcher_that_cannot_fork_is_replaced() {
    let sandbox = sandbox();
    run(&sandbox, &shell("true"));
    let caps = groups().into_iter().map(|group| group.join("pids.max"));
    let caps: Vec<_> = caps.filter(|cap| cap.exists()).collect();
    if caps.is_empty() {
        println!("skipped: there is no control group for processes here");
        return;
    }
    for cap in caps {
        fs::write(cap, "1").unwrap();
    }
    assert_eq!(run(&sandbox, &shell("true")).ending, SUCCESS);
    assert_eq!(launchers().len(), 1);
    leave(sandbox);
}

fn run_warm(sandbox: &LinuxSandbox, text: &str, warm: u32) -> Ended {
    let job = countersign_sandbox::Job { warm, ..job(sandbox.plan(&shell(text)).unwrap()) };
    sandbox.run(job, &mut Unwatched).unwrap()
}

/// First processes of boxes.
fn boxes() -> Vec<Pid> {
    children_of(&launchers())
}

/// What will become the programs of boxes that are ready, and programs that run.
fn waiting() -> Vec<Pid> {
    children_of(&boxes())
}

#[test]
fn warm_boxes_are_used_once_each_and_go_with_the_sandbox() {
    const TEXT: &str = "ls -A /tmp | wc -l; echo x > /tmp/x";
    let sandbox = sandbox();
    for _ in 0..5 {
        let ended = run_warm(&sandbox, TEXT, 3);
        assert_eq!((&ended.ending, stdout(&ended).trim()), (&SUCCESS, "0"));
        eventually("three boxes wait", || waiting().len() == 3 && boxes().len() == 3);
    }
    let ready = boxes();
    run_warm(&sandbox, TEXT, 0);
    // An order that still waited may have made another one meanwhile.
    let left = || ready.iter().filter(|pid| boxes().contains(pid)).count();
    eventually("one of them was taken", || left() == 2);
    leave(sandbox);
}

#[test]
fn a_warm_box_that_is_killed_is_not_used() {
    let sandbox = sandbox();
    run_warm(&sandbox, "true", 2);
    eventually("two boxes wait", || waiting().len() == 2 && boxes().len() == 2);
    send(&boxes()[..1], Signal::KILL);
    send(&launchers()[1..], Signal::KILL);
    eventually("they are gone", || boxes().is_empty());
    for _ in 0..3 {
        assert_eq!(run_warm(&sandbox, "true", 0).ending, SUCCESS);
    }
    leave(sandbox);
}

/// The thread that makes boxes ready is not cut off in the middle of one.
#[test]
fn a_sandbox_that_goes_while_boxes_are_made_leaves_none() {
    for _ in 0..5 {
        let sandbox = sandbox();
        run_warm(&sandbox, "true", 4);
        leave(sandbox);
    }
}

/// Threads come and go; launchers that one of them started serve the others.
#[test]
fn launchers_outlive_the_threads_that_asked_for_them() {
    let sandbox = Arc::new(sandbox());
    let mut seen = Vec::new();
    for _ in 0..3 {
        let sandbox = Arc::clone(&sandbox);
        let worker = thread::spawn(move || run(&sandbox, &shell("true")).ending);
        assert_eq!(worker.join().unwrap(), SUCCESS);
        seen.push(launchers());
    }
    assert_eq!(seen[0].len(), 1);
    assert_eq!((&seen[0], &seen[1]), (&seen[1], &seen[2]));
    leave(Arc::into_inner(sandbox).unwrap());
}
