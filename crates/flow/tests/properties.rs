//! Any small workflow, whatever its tools do and whatever people want of it: the log can be folded
//! again, a run ends once, and it goes on from every event as it would have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{World, completed, error, node, workflow};
use countersign_flow::channel::{Reducer, Write, fold};
use countersign_flow::decide::{Command, Outcome, PausePolicy};
use countersign_flow::fork::ForkRequest;
use countersign_flow::run::RunState;
use countersign_flow::{Definition, ForkMode, Replay, RunEvent, fork};
use countersign_model::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const TYPES: [(&str, &str); 9] = [
    ("core.noop", "{}"),
    ("core.tool", r#"{"tool":"t","outputMapping":{"v":"n"}}"#),
    ("core.tool", r#"{"tool":"t"}"#),
    ("core.delay", r#"{"ms":50}"#),
    ("core.approvalGate", "{}"),
    ("core.approvalGate", r#"{"requiredApprovals":2,"timeoutMs":80}"#),
    ("core.channelWrite", r#"{"channelName":"c","reducer":"append","value":1,"ttlMs":40}"#),
    ("core.fail", "{}"),
    ("core.subWorkflow", r#"{"workflowId":"child","onChildFailure":"absorb"}"#),
];
const RULES: [&str; 5] =
    ["all_success", "any_success", "all_complete", "none_failed", "any_failed"];

/// What happens to the run from outside, one after the other.
#[derive(Debug, Clone, Copy)]
enum Step {
    Pass(u8),
    Accept,
    Reject,
    Pause(bool),
    Resume,
    Cancel,
    Pump,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Pump),
        3 => (10..90u8).prop_map(Step::Pass),
        4 => Just(Step::Accept),
        1 => Just(Step::Reject),
        1 => any::<bool>().prop_map(Step::Pause),
        3 => Just(Step::Resume),
        1 => Just(Step::Cancel),
    ];
    prop::collection::vec(step, 0..14)
}

fn definition() -> impl Strategy<Value = Value> {
    let nodes = prop::collection::vec(0..TYPES.len(), 1..6);
    let edges =
        prop::collection::vec((any::<u8>(), any::<u8>(), 0..RULES.len(), any::<bool>()), 0..8);
    (nodes, edges, 0..3u8).prop_map(|(nodes, edges, retries)| {
        let count = nodes.len();
        let made: Vec<Value> = nodes
            .iter()
            .enumerate()
            .map(|(at, kind)| {
                let (type_id, config) = TYPES[*kind];
                node(&format!("n{at}"), type_id, serde_json::from_str(config).unwrap())
            })
            .collect();
        // Every node but the first hangs on an earlier one, so that all are reached.
        let tree = (1..count).map(|to| (to / 2, to, 0, false));
        let more = edges.into_iter().map(|(from, to, rule, conditional)| {
            (usize::from(from) % count, usize::from(to) % count, rule, conditional)
        });
        // Nothing leads to the first node but what leads back.
        let edges: Vec<Value> = tree
            .chain(more)
            .enumerate()
            .map(|(at, (from, to, rule, conditional))| {
                let mut edge = json!({
                    "id": format!("e{at}"), "sourceNodeId": format!("n{from}"),
                    "targetNodeId": format!("n{to}"), "triggerRule": RULES[rule],
                });
                if conditional {
                    edge["condition"] =
                        json!({"type": "equals", "left": "status", "right": "completed"});
                }
                edge
            })
            .collect();
        let mut made = workflow("w", json!(made), json!(edges));
        made["settings"] = json!({"maxRetries": retries, "maxLoopbackIterations": 2});
        made
    })
}

fn outcomes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 24)
}

fn world(definition: &Value, outcomes: Vec<u8>) -> Option<World> {
    let child = workflow("child", json!([node("d", "core.delay", json!({"ms": 20}))]), json!([]));
    let read = Definition::of(definition.clone()).ok()?;
    let mut world = World::new([read, Definition::of(child).unwrap()]);
    let mut left = outcomes.into_iter().cycle();
    world.tool = Box::new(move |work| match (left.next().unwrap() % 8, work) {
        (0, _) => Outcome::Failed { error: error("broken"), retryable: false },
        (1 | 2, _) => Outcome::Failed { error: error("busy"), retryable: true },
        (3, countersign_flow::Work::Call { approved: None, .. }) => {
            Outcome::Waiting { title: "may it?".to_owned(), artifact: json!(1), timeout_ms: None }
        }
        (n, _) => completed(json!({"n": n})),
    });
    Some(world)
}

fn drive(world: &mut World, steps: &[Step]) -> String {
    let id = world.create("w", Value::Null, Value::Null).unwrap();
    for step in steps {
        let policy =
            |drain| if drain { PausePolicy::DrainCurrentNode } else { PausePolicy::Immediate };
        match step {
            Step::Pump => drop(world.pump_once()),
            Step::Pass(ms) => world.now += i64::from(*ms),
            Step::Accept => answer(world, &id, "accept"),
            Step::Reject => answer(world, &id, "reject"),
            Step::Pause(drain) => {
                drop(world.command(&id, Command::Pause { policy: policy(*drain), reason: None }))
            }
            Step::Resume => drop(world.command(&id, Command::Resume { reason: None })),
            Step::Cancel => {
                drop(world.command(&id, Command::Cancel { reason: None, by: None, parent: None }))
            }
        }
    }
    // In the end everybody agrees.
    for vote in 0..200 {
        drop(world.command(&id, Command::Resume { reason: None }));
        world.run_out();
        if world.status(&id).is_terminal() {
            return id;
        }
        if let Some(open) = world.run(&id).state.interrupts.first() {
            let node = open.node.clone();
            world
                .resolve(&id, &node, json!({"action": "accept", "voter": format!("v{vote}")}))
                .unwrap();
        }
    }
    panic!("the run does not end: {:?} {:?}", world.types(&id), world.run(&id).state.nodes);
}

fn answer(world: &mut World, id: &str, action: &str) {
    let open = world.run(id).state.interrupts.first().map(|open| open.node.clone());
    if let Some(node) = open {
        drop(world.resolve(id, &node, json!({"action": action, "voter": "ada"})));
    }
}

fn refold(world: &World, id: &str, events: &[RunEvent]) -> RunState {
    let mut state = RunState::new(world.definition(id), &world.run(id).seed);
    events.iter().for_each(|event| state.apply(event).unwrap());
    state
}

fn says(events: &[RunEvent]) -> Vec<(Option<u64>, countersign_flow::Event)> {
    events.iter().map(|event| (event.cause, event.event.clone())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn runs_end_once_and_can_be_taken_up_anywhere(
        definition in definition(), outcomes in outcomes(), steps in steps(),
    ) {
        let Some(mut world) = world(&definition, outcomes) else { return Ok(()) };
        let id = drive(&mut world, &steps);
        let events = world.run(&id).events.clone();
        let ends: Vec<_> = events.iter().filter(|event| event.event.is_terminal()).collect();
        prop_assert_eq!(ends.len(), 1);
        prop_assert!(events.last().unwrap().event.is_terminal());
        prop_assert!((0..).zip(&events).all(|(sequence, event)| event.sequence == sequence));
        // The same log, the same state; and a state that was written down is the same state.
        for place in 0..=events.len() {
            let state = refold(&world, &id, &events[..place]);
            let written = serde_json::to_string(&state).unwrap();
            prop_assert_eq!(&serde_json::from_str::<RunState>(&written).unwrap(), &state);
        }
        prop_assert_eq!(&refold(&world, &id, &events), &world.run(&id).state);
        // That a crash in the middle of a decision changes nothing is seen when the world ends.
    }

    #[test]
    fn replays_repeat_what_was_recorded(
        definition in definition(), outcomes in outcomes(), steps in steps(), cut in any::<prop::sample::Index>(),
    ) {
        let Some(mut world) = world(&definition, outcomes) else { return Ok(()) };
        let steps: Vec<_> = steps.into_iter().filter(|step| !matches!(step, Step::Cancel | Step::Pause(_))).collect();
        let id = drive(&mut world, &steps);
        let events = world.run(&id).events.clone();
        let from = cut.index(events.len()) as u64;
        let mut tails = Vec::new();
        for name in ["run-f1", "run-f2"] {
            let request = ForkRequest {
                run_id: name.to_owned(), mode: ForkMode::Replay,
                from_sequence: Some(from as i64), overlay: Map::new(),
            };
            let now = Timestamp::from_millis(world.now);
            let source = (&world.run(&id).seed, events.as_slice());
            let forked = fork(world.definition(&id), source, request, (&world.offers, &world.limits), now).unwrap();
            let state = forked.history.iter().fold(RunState::new(world.definition(&id), &forked.seed), |mut state, event| {
                state.apply(event).unwrap();
                state
            });
            let replay = Some(Replay::new(&id, events.clone(), from));
            let run = common::Run { seed: forked.seed, state, events: forked.history, replay };
            world.runs.insert(name.to_owned(), run);
            let before = world.done.len();
            world.run_out();
            let calls = |work: &countersign_flow::Work| matches!(work, countersign_flow::Work::Call { .. });
            prop_assert!(!world.done[before..].iter().any(calls), "effects never happen again");
            tails.push(says(&world.run(name).events));
        }
        prop_assert_eq!(&tails[0], &says(&events), "from {}", from);
        prop_assert_eq!(&tails[0], &tails[1]);
    }

    #[test]
    fn counters_add_up_and_messages_stay_single(values in prop::collection::vec(-50i64..50, 0..20)) {
        let reduce = |reducer: Reducer, values: Vec<Value>| values.iter().fold(None, |state: Option<Value>, value| {
            Some(fold(state.as_ref(), &Write { reducer: &reducer, value, at: 0, ttl_ms: None, max_size: Some(5) }).unwrap())
        });
        let sum = reduce(Reducer::Counter, values.iter().map(|n| json!(n)).collect());
        prop_assert_eq!(sum.unwrap_or(json!(0)), json!(values.iter().sum::<i64>()));
        let list = reduce(Reducer::Append, values.iter().map(|n| json!(n)).collect());
        let last: Vec<_> = values[values.len().saturating_sub(5)..].iter().map(|n| json!(n)).collect();
        prop_assert_eq!(list.unwrap_or(json!([])), json!(last));
        let votes = reduce(Reducer::Votes, values.iter().map(|n| json!({"userId": n})).collect());
        let votes = votes.unwrap_or(json!([])).as_array().unwrap().clone();
        let mut users: Vec<_> = votes.iter().map(|vote| vote["userId"].as_i64().unwrap()).collect();
        users.sort_unstable();
        users.dedup();
        prop_assert_eq!(users.len(), votes.len());
        let message = |n: &i64| json!({"messageId": n.to_string()});
        let once = reduce(Reducer::Message, values.iter().map(message).collect());
        let twice = reduce(Reducer::Message, values.iter().flat_map(|n| [message(n), message(n)]).collect());
        prop_assert_eq!(once, twice);
    }
}
