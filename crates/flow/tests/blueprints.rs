//! Blueprints: what is read, what is refused with its line, and what runs come of them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{World, completed, error};
use countersign_flow::decide::{Outcome, Refusal, Work};
use countersign_flow::run::Status;
use countersign_flow::{Blueprint, Definition};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

const STANDARD: &str = r#"
version: 1
name: standard_task
description: Gather, implement, check.
defaults:
  toolset: coding_backend
  sandbox: workspace_write
  max_step_retries: 1
  approval_mode: on_risky_actions
stages:
  - id: gather
    type: deterministic
    action: build_context_pack
    inputs: [task]
    outputs: [context_pack]
    on_success: implement
  - id: implement
    type: agent
    goal: Make the change that the task asks for.
    inputs: [task, context_pack]
    outputs: [patch]
    on_success: lint
    on_failure: paused
  - id: lint
    type: deterministic
    action: run_linters
    retry_limit: 0
    on_success: review
    on_failure: fix
  - id: fix
    type: agent
    goal: Repair what the linters found.
    on_success: lint
    on_failure: fail
    retry_limit: 2
  - id: review
    type: deterministic
    action: prepare_review_bundle
    inputs: [patch]
    approval_required: true
    on_success: done
"#;

fn compiled(text: &str) -> Definition {
    let blueprint = Blueprint::parse(text).unwrap_or_else(|problems| panic!("{problems:#?}"));
    blueprint.compile(&|action| format!("action.{action}")).unwrap_or_else(|p| panic!("{p:#?}"))
}

fn world(text: &str) -> World {
    World::new([compiled(text)])
}

fn hand_in(world: &mut World, id: &str, node: &str, outputs: &Value) {
    world.resolve(id, node, json!({"status": "success", "outputs": outputs})).unwrap();
}

#[test]
fn stages_become_a_workflow_that_runs() {
    let mut world = world(STANDARD);
    world.offers.conformance = false;
    world.tool = Box::new(|work| match work {
        Work::Call { tool, .. } if tool == "action.build_context_pack" => {
            completed(json!({"context_pack": "p1"}))
        }
        _ => completed(json!({"ok": true})),
    });
    let id = world.start("standard_task", json!({"task": "t"}), Value::Null);
    assert_eq!(world.status(&id), Status::WaitingExternal);
    let asked = world.snapshot(&id)["interrupt"]["payload"].clone();
    assert_eq!(asked["payload"]["inputs"], json!({"task": "t", "context_pack": "p1"}));
    assert_eq!(asked["payload"]["outputs"], json!(["patch"]));
    let missing = world.resolve(&id, "implement", json!({"status": "success", "outputs": {}}));
    assert!(matches!(missing, Err(Refusal::Invalid(_))), "what a stage promises must be there");
    hand_in(&mut world, &id, "implement", &json!({"patch": "diff"}));
    assert_eq!(world.status(&id), Status::WaitingApproval, "the review needs people");
    world.resolve(&id, "review-approval", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(&id), Status::Completed);
    let Some(Work::Call { tool, input, .. }) = world.done.last() else { panic!() };
    assert_eq!((tool.as_str(), input), ("action.prepare_review_bundle", &json!({"patch": "diff"})));
}

#[test]
fn failures_take_their_route_and_circles_end() {
    let lints = |fails: usize| {
        let mut world = world(STANDARD);
        let mut left = fails;
        world.tool = Box::new(move |work| match work {
            Work::Call { tool, .. } if tool == "action.run_linters" && left > 0 => {
                left -= 1;
                Outcome::Failed { error: error("lint_failed"), retryable: false }
            }
            _ => completed(json!({"context_pack": 1})),
        });
        let id = world.start("standard_task", Value::Null, Value::Null);
        hand_in(&mut world, &id, "implement", &json!({"patch": 1}));
        (world, id)
    };
    let (mut world, id) = lints(2);
    for _ in 0..2 {
        assert_eq!(world.run(&id).state.current_node(), Some("fix"));
        hand_in(&mut world, &id, "fix", &json!({}));
    }
    assert_eq!(world.run(&id).state.current_node(), Some("review-approval"));
    let (mut world, id) = lints(usize::MAX);
    while world.status(&id) == Status::WaitingExternal {
        hand_in(&mut world, &id, "fix", &json!({}));
    }
    assert_eq!(world.snapshot(&id)["error"]["code"], "loop_limit_exceeded");
    assert_eq!(world.run(&id).state.nodes["lint"].rounds, 3, "once, and twice after a repair");
}

#[test]
fn agents_that_give_up_are_asked_again_and_then_people_are() {
    let mut world = world(STANDARD);
    world.tool = Box::new(|_| completed(json!({"context_pack": 1})));
    let id = world.start("standard_task", Value::Null, Value::Null);
    for attempt in 0..2 {
        assert_eq!(world.run(&id).state.nodes["implement"].attempt, attempt);
        world
            .resolve(&id, "implement", json!({"status": "failure", "message": "too hard"}))
            .unwrap();
    }
    assert_eq!(world.run(&id).state.current_node(), Some("implement-paused"));
    world.resolve(&id, "implement-paused", json!({"action": "accept"})).unwrap();
    assert_eq!(world.run(&id).state.current_node(), Some("implement"), "the stage begins again");
    world.resolve(&id, "implement", json!({"status": "failure"})).unwrap();
    world.resolve(&id, "implement", json!({"status": "failure"})).unwrap();
    world.resolve(&id, "implement-paused", json!({"action": "reject"})).unwrap();
    assert_eq!(world.snapshot(&id)["error"]["code"], "interrupt_rejected");
}

#[test]
fn ends_may_be_failures_and_failures_may_end_well() {
    let text = "version: 1\nname: t\nstages:\n  - {id: a, type: deterministic, action: x, on_success: fail, on_failure: done}\n";
    for (fails, status) in [(false, Status::Failed), (true, Status::Completed)] {
        let mut world = world(text);
        world.tool = Box::new(move |_| match fails {
            true => Outcome::Failed { error: error("x"), retryable: false },
            false => completed(json!({})),
        });
        let id = world.start("t", Value::Null, Value::Null);
        assert_eq!(world.status(&id), status);
    }
}

/// Rows: a blueprint, then the line and the code of each problem.
#[test]
fn every_problem_is_told_with_its_line() {
    let stages = |rest: &str| format!("version: 1\nname: t\nstages:\n{rest}");
    for (text, expected) in [
        (String::new(), vec![(None, "BLUEPRINT_EMPTY")]),
        ("- a\n".to_owned(), vec![(Some(1), "BLUEPRINT_INVALID")]),
        (
            "name: t\nversion: 2\nstages: []\n".to_owned(),
            vec![(Some(1), "BLUEPRINT_INVALID"), (Some(3), "BLUEPRINT_INVALID")],
        ),
        (
            "version: 1\nname: T t\ncolour: red\nstages:\n  - x\n".to_owned(),
            vec![
                (Some(3), "BLUEPRINT_INVALID"),
                (Some(2), "BLUEPRINT_INVALID"),
                (Some(5), "BLUEPRINT_INVALID"),
            ],
        ),
        (
            stages("  - id: a\n    type: deterministic\n    commands: [rm]\n    action: x\n"),
            vec![(Some(6), "BLUEPRINT_FORBIDDEN")],
        ),
        (
            stages("  - id: a\n    type: agent\n    action: x\n"),
            vec![(Some(6), "BLUEPRINT_INVALID"), (Some(4), "BLUEPRINT_INVALID")],
        ),
        (
            stages("  - id: done\n    type: robot\n    action: x\n"),
            vec![(Some(4), "BLUEPRINT_INVALID"), (Some(5), "BLUEPRINT_INVALID")],
        ),
        (
            stages("  - {id: a, type: deterministic, action: x, on_success: z}\n"),
            vec![(Some(4), "BLUEPRINT_ROUTE_UNKNOWN")],
        ),
        (
            stages(
                "  - {id: a, type: deterministic, action: x}\n  - {id: a, type: deterministic, action: x}\n",
            ),
            vec![(Some(5), "BLUEPRINT_STAGE_TWICE")],
        ),
        (
            stages(
                "  - {id: a, type: deterministic, action: x, on_success: done}\n  - {id: b, type: deterministic, action: x}\n",
            ),
            vec![(Some(5), "BLUEPRINT_STAGE_UNREACHABLE")],
        ),
        (
            stages("  - {id: a, type: deterministic, action: x, on_failure: a}\n"),
            vec![(Some(4), "BLUEPRINT_LOOP_UNBOUNDED")],
        ),
        (
            stages(
                "  - {id: a, type: deterministic, action: x, retry_limit: 101, approval_required: yes}\n",
            ),
            vec![(Some(4), "BLUEPRINT_INVALID"), (Some(4), "BLUEPRINT_INVALID")],
        ),
        (stages("  - id: a\n    id: b\n"), vec![(Some(5), "BLUEPRINT_KEY_TWICE")]),
        (stages("  - &x {id: a}\n"), vec![(Some(4), "BLUEPRINT_YAML_REFUSED")]),
        ("version: !!int 1\n".to_owned(), vec![(Some(1), "BLUEPRINT_YAML_REFUSED")]),
        ("a: 1\n---\nb: 2\n".to_owned(), vec![(Some(2), "BLUEPRINT_YAML_REFUSED")]),
        ("a: [1\n".to_owned(), vec![(Some(1), "BLUEPRINT_NOT_YAML")]),
    ] {
        let problems = Blueprint::parse(&text).unwrap_err();
        let mut found: Vec<_> = problems.iter().map(|p| (p.line, p.code)).collect();
        let mut expected = expected;
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{text}\n{problems:#?}");
    }
}

#[test]
fn what_comes_with_the_run_and_what_is_called_is_known_before() {
    let blueprint = Blueprint::parse(STANDARD).unwrap();
    assert_eq!(blueprint.run_inputs().into_iter().collect::<Vec<_>>(), ["task"]);
    let actions: Vec<_> = blueprint.actions().map(|(name, _)| name).collect();
    assert_eq!(actions, ["build_context_pack", "run_linters", "prepare_review_bundle"]);
    assert!(Blueprint::parse(&"a: [".repeat(1000)).is_err());
}

proptest! {
    /// A blueprint that was spoilt is read or refused, and what is read becomes a workflow.
    #[test]
    fn spoilt_blueprints_never_surprise(edits in prop::collection::vec((any::<Index>(), any::<Index>(), 0..5u8), 1..5)) {
        let mut lines: Vec<String> = STANDARD.lines().map(str::to_owned).collect();
        for (at, other, edit) in edits {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match edit {
                0 => drop(lines.remove(at)),
                1 => lines.insert(at, lines[other].clone()),
                2 => lines.swap(at, other),
                3 => lines[at].insert_str(0, "  "),
                _ => {
                    let mut letters: Vec<char> = lines[at].chars().collect();
                    letters.truncate(letters.len() / 2);
                    lines[at] = letters.into_iter().collect();
                }
            }
            if lines.is_empty() {
                lines.push(String::new());
            }
        }
        match Blueprint::parse(&lines.join("\n")) {
            Ok(blueprint) => match blueprint.compile(&|action| action.to_owned()) {
                Ok(definition) => prop_assert_eq!(definition.id, blueprint.name),
                Err(problems) => prop_assert!(problems.iter().all(|p| p.code == "WORKFLOW_ID_TWICE"), "{:?}", problems),
            },
            Err(problems) => prop_assert!(!problems.is_empty()),
        }
    }
}
