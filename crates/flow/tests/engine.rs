//! The rules of the engine, one by one, on small workflows.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{World, completed, edge, error, node, workflow};
use countersign_flow::decide::{
    Actor, Command, Outcome, PausePolicy, Refusal, Resolution, Target, Work,
};
use countersign_flow::event::MASK;
use countersign_flow::run::Status;
use serde_json::{Value, json};

fn tool(id: &str) -> Value {
    node(id, "core.tool", json!({"tool": id}))
}

fn noop(id: &str) -> Value {
    node(id, "core.noop", json!({}))
}

fn with(mut base: Value, more: Value) -> Value {
    base.as_object_mut().unwrap().extend(common::object(more));
    base
}

fn done(world: &World, id: &str) -> Vec<String> {
    let shown = |event: &Value| {
        let kind = event["type"].as_str().unwrap();
        let node = event["nodeId"].as_str().unwrap_or_default();
        kind.strip_prefix("node.").map(|kind| format!("{node} {kind}"))
    };
    world.wire(id).iter().filter_map(shown).filter(|s| !s.ends_with("started")).collect()
}

fn code(world: &World, id: &str) -> String {
    assert_eq!(world.status(id), Status::Failed, "{:?}", world.types(id));
    world.snapshot(id)["error"]["code"].as_str().unwrap().to_owned()
}

#[test]
fn conditions_choose_the_way_and_joins_go_by_their_rule() {
    let way = |to: &str, value: bool| {
        with(
            edge("a", to),
            json!({"condition": {"type": "equals", "left": "output.yes", "right": value}}),
        )
    };
    let join = |from: &str, rule: &str| with(edge(from, "end"), json!({"triggerRule": rule}));
    for (rule, runs) in [("all_success", false), ("none_failed", true), ("any_success", true)] {
        let nodes = json!([tool("a"), noop("b"), noop("c"), noop("end")]);
        let edges = json!([way("b", true), way("c", false), join("b", rule), join("c", rule)]);
        let mut world = World::of([workflow("w", nodes, edges)]);
        world.tool = Box::new(|_| completed(json!({"yes": true})));
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(world.status(&id), Status::Completed);
        let expected = [
            "a completed",
            "b completed",
            "c skipped",
            if runs { "end completed" } else { "end skipped" },
        ];
        let mut found = done(&world, &id);
        found.sort();
        assert_eq!(found, expected, "{rule}");
    }
}

#[test]
fn a_condition_that_cannot_be_told_fails_the_run() {
    for condition in [
        json!({"type": "equals", "left": "output.missing", "right": 1}),
        json!({"type": "expression", "expression": "output.ok + 'x' == 1"}),
        json!({"type": "expression", "expression": "output.missing == 1"}),
    ] {
        let edges = json!([with(edge("a", "b"), json!({"condition": condition}))]);
        let mut world = World::of([workflow("w", json!([tool("a"), noop("b")]), edges)]);
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(code(&world, &id), "condition_error");
    }
}

#[test]
fn failures_are_taken_up_by_edges_that_want_them() {
    for (rule, status) in [
        ("any_failed", Status::Completed),
        ("all_complete", Status::Completed),
        ("none_failed", Status::Failed),
        ("all_success", Status::Failed),
    ] {
        let edges = json!([with(edge("a", "b"), json!({"triggerRule": rule}))]);
        let fail = node("a", "core.fail", json!({"code": "broken"}));
        let mut world = World::of([workflow("w", json!([fail, noop("b")]), edges)]);
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(world.status(&id), status, "{rule}");
    }
    let only = json!({"triggerRule": "any_failed", "condition": {"type": "equals", "left": "error.code", "right": "other"}});
    let fail = node("a", "core.fail", json!({"code": "broken"}));
    let mut world =
        World::of([workflow("w", json!([fail, noop("b")]), json!([with(edge("a", "b"), only)]))]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "broken");
}

#[test]
fn a_failure_stops_what_is_at_work() {
    let nodes = json!([node("wait", "core.delay", json!({"ms": 1000})), tool("a")]);
    let mut world = World::of([workflow("w", nodes, json!([]))]);
    world.tool = Box::new(|_| Outcome::Failed { error: error("broken"), retryable: false });
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "broken");
    assert_eq!(done(&world, &id), ["a failed", "wait cancelled"]);
}

#[test]
fn loops_go_round_until_their_condition_or_their_bound() {
    let back = json!({"condition": {"type": "expression", "expression": "output.n < 3"}});
    let on = json!({"condition": {"type": "expression", "expression": "output.n >= 3"}});
    let edges = json!([edge("a", "b"), with(edge("b", "a"), back), with(edge("b", "c"), on)]);
    let nodes = json!([noop("a"), tool("b"), noop("c")]);
    let definition = workflow("w", nodes, edges);
    let mut world = World::of([definition.clone()]);
    let mut n = 0;
    world.tool = Box::new(move |_| {
        n += 1;
        completed(json!({"n": n}))
    });
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(world.status(&id), Status::Completed);
    let rounds = ["a completed", "b completed"].repeat(3);
    assert_eq!(done(&world, &id), [rounds, vec!["c completed"]].concat());
    let mut world =
        World::of([with(definition, json!({"settings": {"maxLoopbackIterations": 2}}))]);
    world.tool = Box::new(|_| completed(json!({"n": 0})));
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "loop_limit_exceeded");
    assert_eq!(world.run(&id).state.nodes["a"].rounds, 3, "once, and twice again");
    let told = world.payload(&id, "workflow.loopback-limit");
    assert_eq!(told, json!({"nodeId": "a", "iterations": 3, "limit": 2}));
}

#[test]
fn only_what_may_succeed_later_is_tried_again() {
    let definition =
        with(workflow("w", json!([tool("a")]), json!([])), json!({"settings": {"maxRetries": 2}}));
    for (retryable, calls) in [(true, 3), (false, 1)] {
        let mut world = World::of([definition.clone()]);
        world.tool = Box::new(move |_| Outcome::Failed { error: error("busy"), retryable });
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(code(&world, &id), "busy");
        assert_eq!(world.done.len(), calls);
        assert_eq!(world.count(&id, "node.retried"), calls - 1);
        let attempts: Vec<_> = world.done.iter().map(|work| work.key().unwrap().attempt).collect();
        assert_eq!(attempts, (0..calls as u64).collect::<Vec<_>>());
    }
}

#[test]
fn a_call_that_needs_people_waits_for_them() {
    let waits = || {
        let mut world = World::of([workflow("w", json!([tool("a")]), json!([]))]);
        world.tool = Box::new(|work| match work {
            Work::Call { approved: Some(_), .. } => completed(json!({"done": true})),
            _ => Outcome::Waiting {
                title: "deploy?".to_owned(),
                artifact: json!({"to": "prod"}),
                timeout_ms: Some(500),
            },
        });
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(world.status(&id), Status::WaitingApproval);
        assert_eq!(
            world.snapshot(&id)["interrupt"]["payload"]["artifactData"],
            json!({"to": "prod"})
        );
        (world, id)
    };
    let (mut world, id) = waits();
    world.resolve(&id, "a", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(&id), Status::Completed);
    assert_eq!(world.done.len(), 2);
    let (mut world, id) = waits();
    world.resolve(&id, "a", json!({"action": "reject"})).unwrap();
    assert_eq!(code(&world, &id), "interrupt_rejected");
    let (mut world, id) = waits();
    world.now += 500;
    world.pump();
    assert_eq!(code(&world, &id), "interrupt_expired");
    assert_eq!(world.payload(&id, "approval.received")["action"], "timeout");
}

#[test]
fn outcomes_of_the_past_are_refused() {
    let mut world = World::of([workflow("w", json!([tool("a")]), json!([]))]);
    let id = world.start("w", Value::Null, Value::Null);
    let key = world.done[0].key().unwrap().clone();
    assert_eq!(world.settle(&id, key.clone(), completed(json!({}))), Err(Refusal::Stale));
    let unknown = countersign_flow::decide::WorkKey { node: "b".to_owned(), ..key };
    assert_eq!(world.settle(&id, unknown, completed(json!({}))), Err(Refusal::NotFound));
}

#[test]
fn pauses_stop_at_once_or_after_what_is_at_work() {
    let nodes = json!([node("wait", "core.delay", json!({"ms": 100})), noop("end")]);
    let definition = workflow("w", nodes, json!([edge("wait", "end")]));
    let pause = |policy| Command::Pause { policy, reason: None };
    let resume = || Command::Resume { reason: None };
    let mut world = World::of([definition.clone()]);
    let id = world.start("w", Value::Null, Value::Null);
    world.command(&id, pause(PausePolicy::Immediate)).unwrap();
    world.now += 1000;
    world.pump();
    assert_eq!(world.status(&id), Status::Paused);
    assert!(world.command(&id, pause(PausePolicy::Immediate)).unwrap().events.is_empty());
    world.command(&id, resume()).unwrap();
    world.pump();
    assert_eq!(world.status(&id), Status::Running, "the delay begins anew");
    world.run_out();
    assert_eq!(done(&world, &id), ["wait cancelled", "wait completed", "end completed"]);
    assert!(matches!(world.command(&id, resume()), Err(Refusal::Conflict { .. })));
    assert!(matches!(
        world.command(&id, pause(PausePolicy::Immediate)),
        Err(Refusal::Conflict { .. })
    ));
    let mut world = World::of([definition]);
    let id = world.start("w", Value::Null, Value::Null);
    assert!(world.command(&id, pause(PausePolicy::DrainCurrentNode)).unwrap().pending);
    world.pump();
    assert_eq!(world.status(&id), Status::Running, "until the node is done");
    world.now += 100;
    world.pump();
    assert_eq!(world.status(&id), Status::Paused);
    assert_eq!(done(&world, &id), ["wait completed"]);
    world.command(&id, resume()).unwrap();
    world.pump();
    assert_eq!(world.status(&id), Status::Completed);
}

#[test]
fn approvals_refine_edit_and_ask() {
    let gate = node(
        "gate",
        "core.approvalGate",
        json!({"actions": ["accept", "refine", "edit-accept", "ask"]}),
    );
    let again =
        json!({"condition": {"type": "equals", "left": "output.action", "right": "refine"}});
    let edges = json!([edge("a", "gate"), with(edge("gate", "a"), again)]);
    let mut world = World::of([workflow("w", json!([tool("a"), gate]), edges)]);
    let id = world.start("w", Value::Null, Value::Null);
    assert!(
        world.resolve(&id, "gate", json!({"action": "ask", "question": "why?"})).unwrap().pending
    );
    assert_eq!(world.status(&id), Status::WaitingApproval);
    let wrong = json!({"action": "refine", "refineFeedback": {"scope": "all"}});
    assert!(matches!(world.resolve(&id, "gate", wrong), Err(Refusal::Invalid(_))));
    let refine =
        json!({"action": "refine", "refineFeedback": {"scope": "whole", "text": "shorter"}});
    world.resolve(&id, "gate", refine).unwrap();
    assert_eq!(world.status(&id), Status::WaitingApproval, "the next round asks again");
    assert_eq!(world.done.len(), 2);
    let edited = json!({"action": "edit-accept", "editedArtifactData": {"text": "mine"}});
    world.resolve(&id, "gate", edited).unwrap();
    assert_eq!(world.status(&id), Status::Completed);
    let outputs = world.snapshot(&id)["nodeStates"]["gate"]["outputs"].clone();
    assert_eq!(
        (&outputs["editedArtifactData"], &outputs["approved"]),
        (&json!({"text": "mine"}), &json!(true))
    );
}

#[test]
fn answers_that_decide_nothing_come_to_an_end() {
    let gate = node(
        "gate",
        "core.openwop.governance.approvalGate",
        json!({"requiredRole": "release", "requiredApprovals": 2, "actions": ["accept", "reject", "ask"]}),
    );
    let mut world = World::of([workflow("w", json!([gate]), json!([]))]);
    let id = world.start("w", Value::Null, Value::Null);
    let answer = |action: &str, principal: &str, role: &str| {
        let (principal, roles) = (Some(principal.to_owned()), vec![role.to_owned()]);
        let actor = Actor { principal, roles, ..Actor::default() };
        let (target, value) = (Target::Node("gate".to_owned()), json!({"action": action}));
        Command::Resolve(Resolution { target, value, actor })
    };
    // Those who may not answer are told so for ever, and written down for a while,
    for turn in 0..150 {
        let refused = world.command(&id, answer("accept", "eve", "guest"));
        let Err(Refusal::Forbidden { events, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(events.is_empty(), turn >= 100, "{turn}");
        world.append(&id, events);
    }
    // and keep nobody from answering.
    for turn in 0..101 {
        let action = if turn % 2 == 0 { "ask" } else { "accept" };
        assert!(world.command(&id, answer(action, "rita", "release")).unwrap().pending, "{turn}");
    }
    for action in ["ask", "accept"] {
        let refused = world.command(&id, answer(action, "rita", "release"));
        assert!(matches!(refused, Err(Refusal::Conflict { .. })), "{refused:?}");
    }
    // What decides is taken as ever.
    world.command(&id, answer("accept", "ruth", "release")).unwrap();
    world.pump();
    assert_eq!(world.status(&id), Status::Completed);
}

#[test]
fn a_question_under_the_same_key_is_asked_once() {
    let gate = |id: &str| node(id, "core.approvalGate", json!({"key": "deploy"}));
    let mut world =
        World::of([workflow("w", json!([gate("a"), gate("b")]), json!([edge("a", "b")]))]);
    let id = world.start("w", Value::Null, Value::Null);
    world.resolve(&id, "a", json!({"action": "accept"})).unwrap();
    assert_eq!(world.status(&id), Status::Completed);
    assert_eq!(world.count(&id, "interrupt.requested"), 1);
}

fn known(principal: &str) -> Actor {
    Actor { principal: Some(principal.to_owned()), ..Actor::default() }
}

#[test]
fn gates_fail_closed_for_roles_and_lists() {
    let answer = |node: &str, action: &str, principal: &str, role: &str| {
        let actor = Actor {
            machine: false,
            principal: Some(principal.to_owned()),
            roles: vec![role.to_owned()],
            scopes: vec![],
        };
        let value = json!({"action": action, "voter": "ada", "reason": "urgent"});
        Command::Resolve(Resolution { target: Target::Node(node.to_owned()), value, actor })
    };
    let governed = json!({"requiredRole": "release", "override": {"requiredRole": "admin"}});
    let gate = node("gate", "core.openwop.governance.approvalGate", governed);
    let mut world = World::of([workflow("w", json!([gate]), json!([]))]);
    let id = world.start("w", Value::Null, Value::Null);
    let refused = world.command(&id, answer("gate", "accept", "eve", "guest"));
    let Err(Refusal::Forbidden { events, .. }) = refused else { panic!("{refused:?}") };
    world.append(&id, events);
    assert_eq!(world.payload(&id, "authorization.decided")["allowed"], false);
    assert_eq!(world.status(&id), Status::WaitingApproval);
    let mut second = World::of([workflow(
        "w",
        json!([node(
            "gate",
            "core.openwop.governance.approvalGate",
            json!({"requiredRole": "release", "override": {"requiredRole": "admin"}})
        )]),
        json!([]),
    )]);
    let other = second.start("w", Value::Null, Value::Null);
    second.command(&other, answer("gate", "override", "root", "admin")).unwrap();
    second.pump();
    assert_eq!(second.payload(&other, "approval.overridden")["reason"], "urgent");
    world.command(&id, answer("gate", "accept", "rita", "release")).unwrap();
    world.pump();
    assert_eq!(world.status(&id), Status::Completed);
    assert_eq!(world.count(&id, "approval.granted"), 1);
    assert_eq!(world.payload(&id, "approval.granted")["principal"], "rita", "not whom she named");
    let gate = node("gate", "core.approvalGate", json!({"approversList": ["ada"]}));
    let mut world = World::of([workflow("w", json!([gate]), json!([]))]);
    let id = world.start("w", Value::Null, Value::Null);
    let refused = world.command(&id, answer("gate", "accept", "eve", ""));
    assert!(matches!(refused, Err(Refusal::Forbidden { .. })), "saying to be ada is not enough");
    let value = json!({"action": "accept", "voter": "ada"});
    for actor in [Actor::default(), Actor { machine: true, ..known("ada") }] {
        let (target, value) = (Target::Node("gate".to_owned()), value.clone());
        let refused = world
            .command(&id, Command::Resolve(Resolution { target, value, actor: actor.clone() }));
        assert!(matches!(refused, Err(Refusal::Forbidden { .. })), "{actor:?}: {refused:?}");
    }
    world.command(&id, answer("gate", "accept", "ada", "")).unwrap();
}

/// Rows: required approvals, policy, votes (upper case accepts), how it ends.
#[test]
fn quorums_as_a_table() {
    for (required, policy, votes, expected) in [
        (1, "single-veto", "A", Some(true)),
        (1, "single-veto", "a", Some(false)),
        (2, "single-veto", "A", None),
        (2, "single-veto", "AB", Some(true)),
        (2, "single-veto", "Ab", Some(false)),
        (2, "single-veto", "AAA", None),
        (2, "majority", "ab", Some(false)),
        (2, "majority", "aAB", Some(true)),
        (3, "majority", "aBC", None),
        (3, "majority", "aBCD", Some(true)),
        (3, "majority", "ab", Some(false)),
        (3, "majority", "aaaa", None),
        (4, "majority", "ab", None),
        (4, "majority", "abc", Some(false)),
    ] {
        let config = json!({"requiredApprovals": required, "rejectionPolicy": policy});
        let mut world = World::of([workflow(
            "w",
            json!([node("gate", "core.approvalGate", config)]),
            json!([]),
        )]);
        let id = world.start("w", Value::Null, Value::Null);
        for vote in votes.chars() {
            let action = if vote.is_uppercase() { "accept" } else { "reject" };
            let voter = vote.to_lowercase().to_string();
            world.resolve(&id, "gate", json!({"voter": voter, "action": action})).unwrap();
        }
        let ended = match world.status(&id) {
            Status::Completed => Some(true),
            Status::Failed => Some(false),
            _ => None,
        };
        assert_eq!(ended, expected, "{required} {policy} {votes}");
    }
}

#[test]
fn inputs_come_from_everywhere_and_say_what_is_missing() {
    let inputs = json!({
        "fixed": {"type": "static", "value": [1]},
        "sum": {"type": "expression", "expression": "variables.n + nodes.a.output.n"},
        "from": {"type": "connection", "nodeId": "a", "outputKey": "n"},
        "var": {"type": "variable", "variableName": "n"},
        "maybe": {"type": "connection", "nodeId": "a", "outputKey": "gone", "optional": true},
    });
    let make = |inputs: Value| {
        let b = with(tool("b"), json!({"inputs": inputs}));
        with(
            workflow("w", json!([tool("a"), b]), json!([edge("a", "b")])),
            json!({"variables": [{"name": "n", "type": "number", "defaultValue": 40}]}),
        )
    };
    let mut world = World::of([make(inputs)]);
    world.tool = Box::new(|_| completed(json!({"n": 2})));
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(world.status(&id), Status::Completed);
    let Work::Call { input, .. } = &world.done[1] else { panic!() };
    assert_eq!(*input, json!({"fixed": [1], "sum": 42, "from": 2, "var": 40}));
    let mut world =
        World::of([make(json!({"x": {"type": "connection", "nodeId": "a", "outputKey": "gone"}}))]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "input_missing");
    let mut world = World::of([make(
        json!({"x": {"type": "expression", "expression": "nodes.a.output.gone"}}),
    )]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "expression_error");
}

#[test]
fn sensitive_values_are_masked_wherever_they_show() {
    let echo = with(
        node("echo", "core.identity", json!({})),
        json!({"inputs": {"key": {"type": "variable", "variableName": "token"}}}),
    );
    let keep = node("keep", "core.channelWrite", json!({"channelName": "log", "value": "hunter2"}));
    let definition = with(
        workflow("w", json!([echo, keep]), json!([edge("echo", "keep")])),
        json!({
            "variables": [{"name": "token", "type": "string", "sensitive": true}],
            "channels": {"log": {"reducer": "append", "sensitive": true}},
        }),
    );
    let mut world = World::of([definition]);
    let id = world.start("w", json!({"token": "hunter2"}), Value::Null);
    assert_eq!(world.status(&id), Status::Completed);
    let shown = json!([world.snapshot(&id), world.wire(&id)]).to_string();
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(world.snapshot(&id)["variables"]["token"], MASK);
    assert_eq!(world.run(&id).state.variables["token"], "hunter2", "the engine itself sees it");
}

#[test]
fn channels_know_who_may_write_what() {
    let make = |channel: Value| {
        let write = node("n", "core.channelWrite", json!({"channelName": "c", "value": 1}));
        with(workflow("w", json!([write]), json!([])), json!({"channels": {"c": channel}}))
    };
    for (channel, expected) in [
        (json!({"reducer": "append", "access": "private"}), Some("channel_access_denied")),
        (json!({"reducer": "append", "access": {"writers": ["core.channel*"]}}), None),
        (json!({"reducer": "merge"}), Some("channel_write_invalid")),
        (
            json!({"reducer": "append", "schema": {"items": {"type": "string"}}}),
            Some("channel_write_invalid"),
        ),
        (json!({"reducer": "counter", "schema": {"type": "number"}}), None),
    ] {
        let mut world = World::of([make(channel.clone())]);
        let id = world.start("w", Value::Null, Value::Null);
        let found = world.snapshot(&id)["error"]["code"].as_str().map(str::to_owned);
        assert_eq!(found.as_deref(), expected, "{channel}");
    }
}

#[test]
fn children_that_fail_are_absorbed_or_not() {
    for (policy, status) in [("fail-parent", Status::Failed), ("absorb", Status::Completed)] {
        let call = node(
            "call",
            "core.subWorkflow",
            json!({"workflowId": "child", "onChildFailure": policy, "outputMapping": {"x": "y"}}),
        );
        let child = with(
            workflow("child", json!([node("f", "core.fail", json!({}))]), json!([])),
            json!({"variables": [{"name": "y", "type": "string", "defaultValue": "never"}]}),
        );
        let mut world = World::of([workflow("w", json!([call]), json!([])), child]);
        let id = world.start("w", Value::Null, Value::Null);
        assert_eq!(world.status(&id), status);
        assert!(
            world.snapshot(&id)["variables"].get("x").is_none(),
            "nothing is taken from a failure"
        );
    }
    let call = node("call", "core.subWorkflow", json!({"workflowId": "nowhere"}));
    let mut world = World::of([workflow("w", json!([call]), json!([]))]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "child_refused");
    let call = node(
        "call",
        "core.subWorkflow",
        json!({"workflowId": "child", "waitForCompletion": false}),
    );
    let child = workflow("child", json!([node("d", "core.delay", json!({"ms": 10}))]), json!([]));
    let mut world = World::of([workflow("w", json!([call]), json!([])), child]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(world.status(&id), Status::Completed);
    world.run_out();
    assert!(
        world.runs.values().all(|run| run.state.status() == Status::Completed),
        "let go, not cancelled"
    );
}

#[test]
fn disabled_nodes_are_skipped() {
    let off = with(noop("b"), json!({"disabled": true}));
    let mut world = World::of([workflow(
        "w",
        json!([noop("a"), off, noop("c")]),
        json!([edge("a", "b"), edge("b", "c")]),
    )]);
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(done(&world, &id), ["a completed", "b skipped", "c skipped"]);
}

#[test]
fn a_log_that_cannot_be_is_noticed() {
    let mut world =
        World::of([workflow("w", json!([noop("a"), noop("b")]), json!([edge("a", "b")]))]);
    let id = world.start("w", Value::Null, Value::Null);
    let events = world.run(&id).events.clone();
    let fold = |events: &[countersign_flow::RunEvent]| {
        let mut state =
            countersign_flow::RunState::new(world.definition(&id), &world.run(&id).seed);
        events.iter().try_for_each(|event| state.apply(event))
    };
    assert_eq!(fold(&events), Ok(()));
    for place in 0..events.len() {
        let mut torn = events.clone();
        torn.remove(place);
        assert!(fold(&torn).is_err() || place + 1 == events.len(), "without {place}");
        let mut renumbered = torn;
        (0..).zip(&mut renumbered).for_each(|(sequence, event)| event.sequence = sequence);
        assert!(
            fold(&renumbered).is_err() || place + 1 == events.len(),
            "without {place}, renumbered"
        );
        let mut doubled = events.clone();
        doubled.insert(place, events[place].clone());
        assert!(fold(&doubled).is_err(), "{place} twice");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let big = "x".repeat(200);
    let mut world = World::of([workflow("w", json!([tool("a")]), json!([]))]);
    world.limits.max_payload_bytes = 100;
    let said = big.clone();
    world.tool = Box::new(move |_| completed(json!({"text": said})));
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(code(&world, &id), "output_too_large");
    let gate = node("gate", "core.approvalGate", json!({}));
    let mut world = World::of([workflow("w", json!([gate]), json!([]))]);
    world.limits.max_payload_bytes = 100;
    let id = world.start("w", Value::Null, Value::Null);
    let answer = json!({"action": "accept", "feedback": big});
    assert!(matches!(world.resolve(&id, "gate", answer), Err(Refusal::Invalid(_))));
    world.limits.max_seed_bytes = 100;
    assert!(world.create("w", json!({"text": big}), Value::Null).is_err());
    assert!(
        world.create("w", Value::Null, json!({"budget": {"maxTokens": 1}})).is_err(),
        "not kept, so not taken"
    );
}

#[test]
fn a_workflow_that_calls_itself_through_a_supervisor_ends() {
    let plan = json!({"mockDecisions": [{"kind": "next-worker", "nextWorkerIds": ["w"]}]});
    let nodes = json!([
        node("s", "core.orchestrator.supervisor", plan),
        node("d", "core.dispatch", json!({}))
    ]);
    let mut world = World::of([workflow("w", nodes, json!([edge("s", "d"), edge("d", "s")]))]);
    world.limits.max_depth = 4;
    let id = world.start("w", Value::Null, Value::Null);
    assert_eq!(world.status(&id), Status::Completed);
    assert_eq!(world.runs.len(), 5);
    let deepest = world
        .runs
        .values()
        .find(|run| run.seed.parent.as_ref().is_some_and(|p| p.depth == 4))
        .unwrap();
    assert!(
        deepest
            .events
            .iter()
            .any(|e| serde_json::to_string(e).unwrap().contains("dispatch.failed"))
    );
}
