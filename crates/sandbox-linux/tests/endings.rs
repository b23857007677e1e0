//! However a program behaves, it ends in time and takes everything with it.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs::File;
use std::thread;
use std::time::{Duration, Instant};

use common::{brief, mark, run, sandbox, shell, spec, stdout, watch, when_it_speaks, with_word};
use countersign_model::Failure;
use countersign_sandbox::{Ended, Ending, LimitKind, Limits, Observer, Spec, Stream};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::Signal;

const OUT_OF_TIME: Ending = Ending::Limit { limit: LimitKind::WallTime };
const SUCCESS: Ending = Ending::Exited { code: 0 };

/// Runs a program whose processes all carry the mark; when it has ended, none of them is left.
#[track_caller]
fn ends(spec: &Spec, mark: &str) -> Ended {
    let sandbox = sandbox();
    // Made ready before the clock starts.
    run(&sandbox, &shell("true"));
    let started = Instant::now();
    let ended = run(&sandbox, spec);
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
    assert_eq!(with_word(mark), [], "processes are left");
    ended
}

#[test]
fn a_program_that_ignores_the_polite_signal_is_killed() {
    let mark = mark("deaf");
    let spec = brief(&format!("trap '' TERM INT HUP; : {mark}; while :; do sleep 100; done"));
    assert_eq!(ends(&spec, &mark).ending, OUT_OF_TIME);
}

#[test]
fn a_program_that_hears_the_polite_signal_may_still_speak() {
    let spec = brief("trap 'echo bye; exit 4' TERM; while :; do sleep 0.01; done");
    let ended = ends(&spec, "nothing");
    assert_eq!(ended.ending, OUT_OF_TIME);
    assert_eq!(stdout(&ended), "bye\n");
}

#[test]
fn a_program_that_stopped_is_ended() {
    let ended = ends(&brief("echo before; kill -STOP $$; echo after"), "nothing");
    assert_eq!(ended.ending, OUT_OF_TIME);
    assert!(stdout(&ended).starts_with("before\n"));
}

#[test]
fn a_daemon_ends_with_the_program() {
    let mark = mark("daemon");
    let deaf = format!("setsid sh -c 'trap \"\" TERM; while :; do sleep 0.01; done' {mark}");
    let ended = ends(&shell(&format!("({deaf} &) ; ({deaf} &) ; exit 3")), &mark);
    assert_eq!(ended.ending, Ending::Exited { code: 3 });
}

#[test]
fn children_that_hold_the_pipes_hold_up_nobody() {
    let mark = mark("holder");
    let ended = ends(&shell(&format!("sh -c 'sleep 1000; :' {mark} & echo said; exit 0")), &mark);
    assert_eq!(ended.ending, SUCCESS);
    assert_eq!(stdout(&ended), "said\n");
}

#[test]
fn children_that_write_are_ended_before_anybody_looks() {
    let ended = ends(
        &shell("for n in 1 2 3; do while :; do echo x >> /out/$n; done & done; sleep 0.1; exit 0"),
        "nothing",
    );
    assert_eq!(ended.ending, SUCCESS);
    let out = ended.staged.out.unwrap();
    let size = |name: &str| {
        let file = openat(&out, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        File::from(file).metadata().unwrap().len()
    };
    let sizes = ["1", "2", "3"].map(size);
    thread::sleep(Duration::from_millis(50));
    assert_eq!(["1", "2", "3"].map(size), sizes);
}

#[test]
fn the_dead_that_nobody_takes_leave_of_are_no_hindrance() {
    // What a shell has started and then became another program is nobody's to wait for.
    let ended = ends(
        &shell(
            "for n in 1 2 3 4 5 6 7 8 9; do (true & true & exec sleep 0.1) & done; wait; exit 0",
        ),
        "nothing",
    );
    assert_eq!(ended.ending, SUCCESS);
}

struct Slow;

impl Observer for Slow {
    fn output(&mut self, _: Stream, _: &[u8]) {
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_flood_ends_at_its_limit_however_slow_the_observer() {
    let limits = Limits { output: 2 << 20, inline_output: 64 << 10, ..Limits::default() };
    let flood = Spec { limits, ..shell("yes flood & yes flood >&2 & wait") };
    let mut ended = watch(&sandbox(), &flood, &mut Slow);
    assert_eq!(ended.ending, Ending::Limit { limit: LimitKind::Output });
    assert!(ended.stdout.total <= 2 << 20 && ended.stderr.total <= 2 << 20);
    assert_eq!(ended.stdout.inline.len(), 64 << 10);
    assert_eq!(ended.stdout.read_all().unwrap().len() as u64, ended.stdout.total);
}

#[test]
fn a_program_that_somebody_else_kills_has_been_killed() {
    let mark = mark("victim");
    let spec = spec(&["/bin/sh", "-c", "echo ready; sleep 100; :", &mark]);
    for (signal, number) in [(Signal::KILL, 9), (Signal::TERM, 15), (Signal::USR1, 10)] {
        let mut killer = when_it_speaks(|| common::send(&with_word(&mark), signal));
        let ended = watch(&sandbox(), &spec, &mut killer);
        assert_eq!(ended.ending, Ending::Signalled { signal: number });
        assert_eq!(stdout(&ended), "ready\n");
    }
}

struct Refusing;

impl Observer for Refusing {
    fn tick(&mut self) -> Result<(), Failure> {
        Err(Failure::execution("CANCELLED", "somebody changed their mind"))
    }
}

#[test]
fn an_observer_ends_the_program_for_its_own_reason() {
    let mark = mark("observed");
    let spec = spec(&[
        "/bin/sh",
        "-c",
        "trap 'echo bye; exit 0' TERM; while :; do sleep 0.01; done",
        &mark,
    ]);
    let ended = watch(&sandbox(), &spec, &mut Refusing);
    let Ending::Stopped { failure } = &ended.ending else { panic!("{:?}", ended.ending) };
    assert_eq!(failure.code, "CANCELLED");
    assert_eq!(with_word(&mark), []);
}
