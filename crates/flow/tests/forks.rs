//! Forks in both modes, what is refused, and how two runs are compared.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Run, World, completed, edge, node, schemas, workflow};
use countersign_flow::diff::{Side, diff};
use countersign_flow::fork::ForkRequest;
use countersign_flow::run::{RunState, Status};
use countersign_flow::{ForkMode, ForkRefusal, Replay, fork};
use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

fn world() -> World {
    let tool = |id: &str| node(id, "core.tool", json!({"tool": id}));
    let gate = node("gate", "core.approvalGate", json!({}));
    let nodes = json!([tool("a"), tool("b"), gate, tool("c")]);
    let edges = json!([edge("a", "b"), edge("b", "gate"), edge("gate", "c")]);
    let mut world = World::of([workflow("w", nodes, edges)]);
    let mut n = 0;
    world.tool = Box::new(move |_| {
        n += 1;
        completed(json!({"n": n}))
    });
    world
}

fn finished(world: &mut World) -> String {
    let id = world.start("w", json!({"x": 1}), Value::Null);
    world.resolve(&id, "gate", json!({"action": "accept", "decidedBy": "ada"})).unwrap();
    assert_eq!(world.status(&id), Status::Completed);
    id
}

fn forked(
    world: &mut World,
    source: &str,
    name: &str,
    mode: ForkMode,
    from: Option<i64>,
    overlay: Value,
) -> Result<(), ForkRefusal> {
    let request = ForkRequest {
        run_id: name.to_owned(),
        mode,
        from_sequence: from,
        overlay: common::object(overlay),
    };
    let run = world.run(source);
    let (definition, events) = (world.definition(source), run.events.clone());
    let now = Timestamp::from_millis(world.now);
    let made =
        fork(definition, (&run.seed, &events), request, (&world.offers, &world.limits), now)?;
    let mut state = RunState::new(definition, &made.seed);
    made.history.iter().for_each(|event| state.apply(event).unwrap());
    let from = made.history.len() as u64;
    let replay = (mode == ForkMode::Replay).then(|| Replay::new(source, events, from));
    let run = Run { seed: made.seed, state, events: made.history, replay };
    world.runs.insert(name.to_owned(), run);
    Ok(())
}

fn payloads(world: &World, id: &str) -> Vec<Value> {
    let events = world.wire(id);
    events.iter().map(|e| json!([e["type"], e["nodeId"], e["payload"]])).collect()
}

#[test]
fn a_replay_repeats_every_event_and_no_effect() {
    let mut world = world();
    let id = finished(&mut world);
    let (calls, count) = (world.done.len(), world.run(&id).events.len());
    for from in 0..count {
        let name = format!("run-fork-{from}");
        forked(&mut world, &id, &name, ForkMode::Replay, Some(from as i64), Value::Null).unwrap();
        world.run_out();
        assert_eq!(payloads(&world, &name), payloads(&world, &id), "from {from}");
        assert!(!world.run(&name).state.diverged);
    }
    assert_eq!(world.done.len(), calls);
}

#[test]
fn a_replay_that_finds_something_else_says_so_once_and_goes_on() {
    let mut world = world();
    let id = finished(&mut world);
    forked(&mut world, &id, "run-f", ForkMode::Replay, None, Value::Null).unwrap();
    let mut events = world.run(&id).events.clone();
    // As if the source had seen another result.
    let mut other = serde_json::to_value(&events[3]).unwrap();
    assert_eq!(other["type"], "node.started");
    other["payload"]["typeId"] = json!("core.noop");
    events[3] = serde_json::from_value(other).unwrap();
    world.runs.get_mut("run-f").unwrap().replay = Some(Replay::new(&id, events, 0));
    world.run_out();
    assert_eq!(world.status("run-f"), Status::Completed);
    assert_eq!(world.count("run-f", "replay.diverged"), 1);
    let told = world.payload("run-f", "replay.diverged");
    assert_eq!((&told["sourceRunId"], &told["atSequence"]), (&json!(id), &json!(3)));
}

#[test]
fn a_branch_does_everything_again_from_there() {
    let mut world = world();
    let id = finished(&mut world);
    let after_b =
        world.types(&id).iter().rposition(|kind| kind == "approval.requested").unwrap() as i64 - 2;
    forked(
        &mut world,
        &id,
        "run-b",
        ForkMode::Branch,
        Some(after_b),
        json!({"configurable": {"recursionLimit": 9}}),
    )
    .unwrap();
    world.run_out();
    assert_eq!(world.status("run-b"), Status::WaitingApproval, "people are asked again");
    world.resolve("run-b", "gate", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status("run-b"), Status::Completed);
    assert_eq!(world.done.len(), 4, "only what comes after is done again");
    assert_eq!(world.run("run-b").seed.bounds.node_executions, 9);
    assert_eq!(world.snapshot("run-b")["nodeStates"]["c"]["outputs"], json!({"n": 4}));
}

#[test]
fn forks_that_make_no_sense_are_refused() {
    let mut world = world();
    let id = finished(&mut world);
    let count = world.run(&id).events.len() as u64;
    for (mode, from, overlay, refusal) in [
        (ForkMode::Branch, None, Value::Null, ForkRefusal::Sequence),
        (ForkMode::Branch, Some(-1), Value::Null, ForkRefusal::Sequence),
        (ForkMode::Replay, Some(-1), Value::Null, ForkRefusal::Sequence),
        (ForkMode::Replay, Some(99_999), Value::Null, ForkRefusal::PastEnd(count)),
        (ForkMode::Branch, Some(count as i64), Value::Null, ForkRefusal::PastEnd(count)),
        (ForkMode::Replay, Some(0), json!({"tags": []}), ForkRefusal::OverlayOnReplay),
        (
            ForkMode::Branch,
            Some(0),
            json!({"secret": 1}),
            ForkRefusal::OverlayUnknown("secret".into()),
        ),
    ] {
        assert_eq!(forked(&mut world, &id, "run-x", mode, from, overlay), Err(refusal));
    }
    let wrong = forked(
        &mut world,
        &id,
        "run-x",
        ForkMode::Branch,
        Some(0),
        json!({"configurable": {"recursionLimit": 0}}),
    );
    assert!(matches!(wrong, Err(ForkRefusal::Options(_))));
}

#[test]
fn differences_are_listed_and_secrets_are_not() {
    let mut world = world();
    let (a, b) = (finished(&mut world), finished(&mut world));
    let of = |world: &World, a: &str, b: &str| {
        let side = |id: &str| {
            let run = world.run(id);
            (run.seed.clone(), run.events.clone())
        };
        let ((sa, ea), (sb, eb)) = (side(a), side(b));
        let (a, b) = (world.definition(a), world.definition(b));
        diff(
            Side { definition: a, seed: &sa, events: &ea },
            Side { definition: b, seed: &sb, events: &eb },
        )
    };
    let same = of(&world, &a, &a);
    assert_eq!((&same["divergedAtSeq"], &same["eventDiffs"]), (&Value::Null, &json!([])));
    assert_eq!(same["stateDiff"], json!({}));
    let other = of(&world, &a, &b);
    assert_eq!(other["eventDiffs"][0]["seq"], other["divergedAtSeq"]);
    assert_eq!(other["eventDiffs"][0]["op"], "changed");
    assert!(other["stateDiff"]["nodeStates"]["a"].is_object(), "{other:#}");
    if let Some(judge) = schemas::judge("run-diff-response.schema.json") {
        assert!(judge.is_valid(&other) && judge.is_valid(&same));
    }
    let plain = world.start("w", json!({"apiKey": "sk-12345", "note": "Bearer abc"}), Value::Null);
    let shown = of(&world, &a, &plain)["stateDiff"].to_string().to_lowercase();
    assert!(!["sk-", "apikey", "bearer "].iter().any(|word| shown.contains(word)), "{shown}");
    let removed =
        of(&world, &a, &plain)["eventDiffs"].as_array().unwrap().last().unwrap()["op"].clone();
    assert_eq!(removed, "removed");
}

/// The mid-range fork of the published three-node fixture.
#[test]
fn two_forks_of_the_published_fixture_end_alike() {
    let Some(all) = common::fixtures() else { return };
    let definition = countersign_flow::Definition::parse(&all["conformance-multi-node"]).unwrap();
    let mut world = World::new([definition]);
    let id = world.start("conformance-multi-node", Value::Null, Value::Null);
    let from =
        world.types(&id).iter().position(|kind| kind == "node.completed").unwrap() as i64 + 3;
    for name in ["run-x", "run-y"] {
        forked(&mut world, &id, name, ForkMode::Branch, Some(from), Value::Object(Map::new()))
            .unwrap();
        world.run_out();
        assert_eq!(world.status(name), Status::Completed);
    }
    assert_eq!(payloads(&world, "run-x"), payloads(&world, "run-y"));
}
