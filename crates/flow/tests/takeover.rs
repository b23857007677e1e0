//! Another process goes on with a run: the log says so, and nothing else changes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Run, World, edge, node, workflow};
use countersign_flow::decide::{Command, PausePolicy};
use countersign_flow::diff::{Side, diff};
use countersign_flow::event::{Event, NewEvent};
use countersign_flow::fork::ForkRequest;
use countersign_flow::run::{RunState, Status};
use countersign_flow::{ForkMode, Replay, fork};
use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

fn world() -> World {
    let nodes = json!([
        node("wait", "core.delay", json!({"ms": 1000})),
        node("then", "core.noop", json!({}))
    ]);
    World::of([workflow("w", nodes, json!([edge("wait", "then")]))])
}

fn take_over(world: &mut World, id: &str) {
    world.append(id, vec![NewEvent { event: Event::takeover(), cause: None }]);
}

#[test]
fn a_run_goes_on_as_it_would_have() {
    let mut world = world();
    let (left, alone) =
        (world.start("w", Value::Null, Value::Null), world.start("w", Value::Null, Value::Null));
    take_over(&mut world, &left);
    take_over(&mut world, &left);
    assert_eq!(world.status(&left), Status::Running);
    world.run_out();
    assert_eq!(world.status(&left), Status::Completed);
    let told = world.types(&left).into_iter().filter(|kind| kind != "run.resumed");
    assert_eq!(told.collect::<Vec<_>>(), world.types(&alone));
    let shown = world.wire(&left).into_iter().find(|event| event["type"] == "run.resumed");
    assert_eq!(shown.unwrap()["payload"]["takenOver"], true);
}

#[test]
fn a_pause_that_was_asked_for_still_comes() {
    let mut world = world();
    let id = world.start("w", Value::Null, Value::Null);
    let pause = Command::Pause { policy: PausePolicy::DrainCurrentNode, reason: None };
    world.command(&id, pause).unwrap();
    take_over(&mut world, &id);
    world.run_out();
    assert_eq!(world.status(&id), Status::Paused, "{:?}", world.types(&id));
}

#[test]
fn replays_leave_it_out_and_comparisons_do_not_mind() {
    let mut world = world();
    let id = world.start("w", Value::Null, Value::Null);
    take_over(&mut world, &id);
    world.run_out();
    let run = world.run(&id);
    let (definition, events) = (world.definition(&id), run.events.clone());
    let request = ForkRequest {
        run_id: "run-r".to_owned(),
        mode: ForkMode::Replay,
        from_sequence: None,
        overlay: Map::new(),
    };
    let now = Timestamp::from_millis(world.now);
    let bounds = (&world.offers, &world.limits);
    let made = fork(definition, (&run.seed, &events), request, bounds, now).unwrap();
    let state = RunState::new(definition, &made.seed);
    let replay = Some(Replay::new(&id, events, 0));
    let replayed = Run { seed: made.seed, state, events: Vec::new(), replay };
    world.runs.insert("run-r".to_owned(), replayed);
    world.run_out();
    assert_eq!(world.status("run-r"), Status::Completed);
    let types = world.types("run-r");
    assert!(!types.iter().any(|kind| kind == "run.resumed" || kind == "replay.diverged"));
    let side = |id: &str| Side {
        definition: world.definition(id),
        seed: &world.run(id).seed,
        events: &world.run(id).events,
    };
    let found = diff(side(&id), side("run-r"));
    assert_eq!(found["divergedAtSeq"], Value::Null, "{found:#}");
    assert_eq!(found["eventDiffs"], json!([]));
}
