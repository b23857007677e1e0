//! Two engines on one home, and how far each of them reaches.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

mod common;

use std::time::Duration;

use common::{Bench, approval, delay, types};
use countersign_flow::fork::ForkRequest;
use countersign_flow::{Actor, Command, ForkMode, PausePolicy, Resolution, Status, Target};
use countersign_model::RunId;
use countersign_workflow::{Engine, Forker, Reach, Settings};
use serde_json::{Map, Value, json};

fn engine(bench: &Bench, reach: Reach) -> Engine {
    bench.engine_with(Settings { reach, ..Settings::default() })
}

/// Begins a run and is gone before it ends.
fn left(bench: &Bench, workflow: &str) -> RunId {
    let engine = engine(bench, Reach::Own);
    let run = engine.create(bench.begin(workflow)).unwrap().run;
    assert!(engine.close(Duration::from_secs(5)));
    run
}

fn resumptions(engine: &Engine, run: &RunId) -> usize {
    types(engine, run).iter().filter(|kind| *kind == "run.resumed").count()
}

#[test]
fn one_that_reaches_the_home_takes_over_and_says_so_once() {
    let bench = Bench::new(&[delay("short", 400), approval("asks")]);
    let (run, asks) = (left(&bench, "short"), left(&bench, "asks"));
    let (one, two) = (engine(&bench, Reach::Home), engine(&bench, Reach::Home));
    assert_eq!(bench.wait(&one, &run), Status::Completed);
    bench.until(|| two.view(&run).unwrap().state.end.map(drop));
    assert_eq!(resumptions(&one, &run), 1, "{:?}", types(&one, &run));
    assert_eq!(resumptions(&one, &asks), 0, "it waits for people, and nobody went on with it");
    let events = one.events(&run, 0).unwrap();
    assert!(events.iter().any(|event| event.event.is_takeover()));
    bench.verify();
}

#[test]
fn every_takeover_is_told() {
    let bench = Bench::new(&[delay("slow", 1500)]);
    let run = left(&bench, "slow");
    let second = engine(&bench, Reach::Home);
    bench.until(|| (resumptions(&second, &run) == 1).then_some(()));
    assert!(second.close(Duration::from_secs(5)));
    drop(second);
    let third = engine(&bench, Reach::Home);
    assert_eq!(bench.wait(&third, &run), Status::Completed);
    assert_eq!(resumptions(&third, &run), 2, "{:?}", types(&third, &run));
    bench.verify();
}

#[test]
fn one_that_reaches_its_own_leaves_the_others_alone() {
    let bench = Bench::new(&[delay("short", 200)]);
    let run = left(&bench, "short");
    let own = engine(&bench, Reach::Own);
    let mine = own.create(bench.begin("short")).unwrap().run;
    assert_eq!(bench.wait(&own, &mine), Status::Completed);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(own.view(&run).unwrap().state.status(), Status::Running);
    assert_eq!((resumptions(&own, &run), resumptions(&own, &mine)), (0, 0));
    // Unless it is asked for one.
    own.take_up(&run).unwrap();
    assert_eq!(bench.wait(&own, &run), Status::Completed);
    assert_eq!(resumptions(&own, &run), 1);
}

#[test]
fn one_that_reaches_nothing_records_and_leaves_the_work_to_others() {
    let bench = Bench::new(&[delay("slow", 60_000), approval("asks")]);
    let run = left(&bench, "slow");
    let asks = left(&bench, "asks");
    let clerk = engine(&bench, Reach::Nothing);
    let holder = || clerk.summary(&run).unwrap().unwrap().holder;
    let before = holder();
    let pause = Command::Pause { policy: PausePolicy::Immediate, reason: None };
    clerk.command(&run, &pause).unwrap();
    assert_eq!(clerk.view(&run).unwrap().state.status(), Status::Paused);
    assert_eq!((holder(), resumptions(&clerk, &run)), (before, 0), "the run is not with it");
    let (target, actor) = (Target::Node("gate".to_owned()), Actor::default());
    let value = json!({"action": "accept"});
    clerk.command(&asks, &Command::Resolve(Resolution { target, value, actor })).unwrap();
    assert_eq!(clerk.view(&asks).unwrap().state.status(), Status::Completed);
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    clerk.command(&run, &cancel).unwrap();
    assert_eq!(clerk.view(&run).unwrap().state.status(), Status::Cancelled);
    bench.verify();
}

#[test]
fn a_run_of_a_process_that_lives_is_not_taken_over() {
    let bench = Bench::new(&[delay("short", 600)]);
    let first = engine(&bench, Reach::Own);
    let run = first.create(bench.begin("short")).unwrap().run;
    let second = engine(&bench, Reach::Home);
    assert_eq!(bench.wait(&second, &run), Status::Completed);
    assert_eq!(resumptions(&second, &run), 0, "{:?}", types(&second, &run));
}

#[test]
fn a_replay_of_what_was_taken_over_is_the_same_run() {
    let bench = Bench::new(&[delay("short", 200)]);
    let run = left(&bench, "short");
    let engine = engine(&bench, Reach::Home);
    assert_eq!(bench.wait(&engine, &run), Status::Completed);
    assert_eq!(resumptions(&engine, &run), 1);
    let overlay = Map::new();
    let request =
        ForkRequest { run_id: String::new(), mode: ForkMode::Replay, from_sequence: None, overlay };
    let replay = engine.fork(&run, request, Forker::new("agent:a".parse().unwrap())).unwrap().run;
    assert_eq!(bench.wait(&engine, &replay), Status::Completed);
    assert_eq!(resumptions(&engine, &replay), 0);
    let diff = engine.diff(&run, &replay).unwrap();
    assert_eq!(diff["divergedAtSeq"], Value::Null, "{diff:#}");
    bench.verify();
}
