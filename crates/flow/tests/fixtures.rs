//! Every published fixture is read; every one that can be executed is driven to its end, with each
//! event held against the published schemas.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{World, fixtures, schemas};
use countersign_flow::decide::{Command, ModelReply, Refusal};
use countersign_flow::run::Status;
use countersign_flow::seed::CreateRefusal;
use countersign_flow::{Definition, recursion};
use serde_json::{Value, json};

fn world() -> Option<World> {
    let all = fixtures()?;
    let read = |(name, bytes): (String, Vec<u8>)| {
        Definition::parse(&bytes).unwrap_or_else(|problems| panic!("{name}: {problems:#?}"))
    };
    let world = World::new(all.into_iter().map(read));
    assert_eq!(recursion(world.definitions.values()), []);
    Some(world)
}

/// A snapshot fits its schema.
fn fits(world: &World, id: &str) -> Value {
    let snapshot = world.snapshot(id);
    if let Some(judge) = schemas::judge("run-snapshot.schema.json") {
        let errors: Vec<_> = judge.iter_errors(&snapshot).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?} {snapshot:#}");
    }
    snapshot
}

fn ended(world: &World, id: &str, status: Status) -> Value {
    assert_eq!(world.status(id), status, "{:#?} {:#}", world.types(id), world.snapshot(id));
    let types = world.types(id);
    let terminal =
        |kind: &&String| ["run.completed", "run.failed", "run.cancelled"].contains(&kind.as_str());
    assert_eq!(types.iter().filter(terminal).count(), 1);
    assert!(terminal(&types.last().unwrap()));
    fits(world, id)
}

#[test]
fn every_fixture_is_read_and_served_as_it_came() {
    let Some(all) = fixtures() else { return };
    assert!(all.len() > 80, "{}", all.len());
    for (name, bytes) in all {
        let definition = Definition::parse(&bytes).unwrap_or_else(|p| panic!("{name}: {p:#?}"));
        assert_eq!(*definition.source(), serde_json::from_slice::<Value>(&bytes).unwrap());
        assert_eq!(definition.id, name);
    }
}

/// Fixtures that end by themselves, with what the contract wants of them.
#[test]
fn plain_fixtures_complete() {
    let Some(mut world) = world() else { return };
    for name in [
        "conformance-noop",
        "conformance-version-fold",
        "conformance-delay",
        "conformance-agent-identity",
        "conformance-agent-pack-export",
        "conformance-agent-pack-handoff-schema-validation",
        "conformance-agent-pack-install",
        "conformance-agent-pack-provenance",
        "conformance-agent-memory-roundtrip",
        "conformance-agent-memory-cross-tenant",
        "conformance-agent-memory-redaction",
        "conformance-agent-memory-ttl",
        "conformance-configurable-schema",
        "conformance-multi-node",
        "conformance-cap-breach",
        "conformance-run-duration-breach",
        "conformance-cancellable",
        "openwop-smoke-byok-roundtrip",
    ] {
        let id = world.start(name, Value::Null, Value::Null);
        world.run_out();
        ended(&world, &id, Status::Completed);
    }
}

#[test]
fn inputs_pass_through_and_are_checked() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-identity", json!({"payload": {"a": [1]}}), Value::Null);
    let snapshot = ended(&world, &id, Status::Completed);
    assert_eq!(snapshot["variables"]["payload"], json!({"a": [1]}));
    assert_eq!(world.payload(&id, "node.completed")["outputs"]["payload"], json!({"a": [1]}));
    assert!(
        world.payload(&id, "run.started").get("inputs").is_none(),
        "inputs stay out of the log"
    );
    for inputs in [json!({}), json!({"payload": 1})] {
        let refused = world.create("conformance-identity", inputs, Value::Null).unwrap_err();
        assert!(matches!(refused, CreateRefusal::Invalid(_)), "{refused:?}");
    }
    world.start("conformance-idempotent", json!({"nonce": "n"}), Value::Null);
    let agent = world.start("conformance-agent-pack-provenance", Value::Null, Value::Null);
    assert_eq!(fits(&world, &agent)["agent"]["agentId"], "core.conformance.pack-installed-agent");
}

#[test]
fn options_are_checked_against_the_schema_of_the_workflow() {
    let Some(mut world) = world() else { return };
    for (given, fine) in [
        (json!({"recursionLimit": 3}), true),
        (json!({"recursionLimit": 0}), false),
        (json!({"unknown": 1}), false),
    ] {
        let made = world.create("conformance-configurable-schema", Value::Null, given.clone());
        assert_eq!(made.is_ok(), fine, "{given}");
    }
}

#[test]
fn failures_name_their_code() {
    let Some(mut world) = world() else { return };
    for (name, code) in [
        ("conformance-failure", "node_failed"),
        ("conformance-dispatch-deterministic-fail-child", "hvmap_1b_failed_fixture"),
        ("conformance-capability-missing", "capability_not_provided"),
        ("conformance-model-capability-insufficient", "capability_not_provided"),
    ] {
        let id = world.start(name, Value::Null, Value::Null);
        assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], code, "{name}");
    }
    let id = world.start("conformance-capability-missing", Value::Null, Value::Null);
    assert_eq!(world.types(&id), ["run.started", "run.failed"]);
    assert!(
        fits(&world, &id)["error"]["message"]
            .as_str()
            .unwrap()
            .contains("conformance.never-provided")
    );
    let id = world.start("conformance-model-capability-insufficient", Value::Null, Value::Null);
    let types = world.types(&id);
    let place = |kind: &str| types.iter().position(|found| found == kind).unwrap();
    assert!(place("model.capability.insufficient") < place("node.failed"));
}

#[test]
fn bounds_are_breached_once_and_end_the_run() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-cap-breach", Value::Null, json!({"recursionLimit": 3}));
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "recursion_limit_exceeded");
    assert_eq!(world.count(&id, "cap.breached"), 1);
    assert_eq!(world.count(&id, "node.started"), 3);
    let breach = world.payload(&id, "cap.breached");
    assert_eq!(
        breach,
        json!({"kind": "node-executions", "limit": 3, "observed": 4, "nodeId": "n4"})
    );
    let id =
        world.start("conformance-run-duration-breach", Value::Null, json!({"runTimeoutMs": 1000}));
    world.run_out();
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "run_timeout");
    let breach = world.payload(&id, "cap.breached");
    assert_eq!((&breach["kind"], &breach["limit"]), (&json!("run-duration"), &json!(1000)));
    assert!(breach["observed"].as_u64().unwrap() > 1000);
    let id = world.start("conformance-dispatch-loop", Value::Null, json!({"maxLoopIterations": 1}));
    world.run_out();
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "loop_limit_exceeded");
    assert_eq!(world.payload(&id, "cap.breached")["kind"], "loop-iterations");
}

#[test]
fn channels_age_and_messages_fold_once() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-channel-ttl", Value::Null, Value::Null);
    world.run_out();
    let snapshot = ended(&world, &id, Status::Completed);
    for place in ["channels", "variables"] {
        let entries = snapshot[place]["events"].as_array().unwrap();
        assert_eq!(entries.len(), 1, "{snapshot:#}");
        assert_eq!(entries[0]["value"], "d");
    }
    let id = world.start("conformance-message-reducer", Value::Null, Value::Null);
    let snapshot = ended(&world, &id, Status::Completed);
    assert_eq!(snapshot["channels"]["messages"].as_array().unwrap().len(), 1);
    assert_eq!(world.count(&id, "channel.written"), 2);
}

#[test]
fn approvals_accept_and_reject() {
    let Some(mut world) = world() else { return };
    for name in ["conformance-approval", "conformance-interrupt-auth-required"] {
        let id = world.start(name, Value::Null, Value::Null);
        let snapshot = fits(&world, &id);
        assert_eq!(
            (&snapshot["status"], &snapshot["currentNodeId"]),
            (&json!("waiting-approval"), &json!("gate"))
        );
        assert_eq!(
            world.run(&id).state.interrupts[0].requires_bearer(),
            name.ends_with("required")
        );
        for wrong in [json!({"action": "refine"}), json!({}), json!({"action": "edit"})] {
            assert!(matches!(world.resolve(&id, "gate", wrong), Err(Refusal::Invalid(_))));
        }
        assert!(matches!(world.resolve(&id, "other", json!({})), Err(Refusal::NotFound)));
        world.resolve(&id, "gate", json!({"action": "accept", "decidedBy": "ada"})).unwrap();
        ended(&world, &id, Status::Completed);
        assert_eq!(world.payload(&id, "approval.received")["decidedBy"], "ada");
        let again = world.resolve(&id, "gate", json!({"action": "accept"}));
        assert_eq!(again, Err(Refusal::AlreadyResolved));
    }
    let id = world.start("conformance-approval", Value::Null, Value::Null);
    world.resolve(&id, "gate", json!({"decision": "rejected"})).unwrap();
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "interrupt_rejected");
}

#[test]
fn quorums_count_voters_once() {
    let Some(mut world) = world() else { return };
    let name = "conformance-interrupt-quorum";
    let vote = |voter: &str, action: &str| json!({"voter": voter, "action": action});
    let id = world.start(name, Value::Null, Value::Null);
    for voter in ["ada", "bob", "ada"] {
        assert!(world.resolve(&id, "gate", vote(voter, "accept")).unwrap().pending);
        assert_eq!(world.status(&id), Status::WaitingApproval);
    }
    assert!(!world.resolve(&id, "gate", vote("cyd", "accept")).unwrap().pending);
    ended(&world, &id, Status::Completed);
    let id = world.start(name, Value::Null, Value::Null);
    assert!(world.resolve(&id, "gate", vote("ada", "reject")).unwrap().pending);
    assert!(
        world.resolve(&id, "gate", vote("ada", "accept")).unwrap().pending,
        "a vote can be changed"
    );
    assert!(world.resolve(&id, "gate", vote("bob", "reject")).unwrap().pending);
    assert!(!world.resolve(&id, "gate", vote("ada", "reject")).unwrap().pending);
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "interrupt_rejected");
}

#[test]
fn clarifications_and_external_events() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-clarification", Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-input");
    for wrong in [
        json!({}),
        json!({"answers": {}}),
        json!({"answers": {"q1": 1}}),
        json!({"answers": {"q1": "a", "q2": "b"}}),
    ] {
        assert!(matches!(world.resolve(&id, "ask", wrong), Err(Refusal::Invalid(_))));
    }
    world.resolve(&id, "ask", json!({"answers": {"q1": "blue"}})).unwrap();
    ended(&world, &id, Status::Completed);
    let name = "conformance-interrupt-external-event";
    let id = world.start(name, Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-external");
    let event = |status: &str| json!({"orderId": "fixture-order-1", "status": status, "more": 1});
    let refused = world.resolve(&id, "wait-for-external", event("pending"));
    assert_eq!(refused, Err(Refusal::Correlation("status".to_owned())));
    assert_eq!(world.status(&id), Status::WaitingExternal);
    world.resolve(&id, "wait-for-external", event("completed")).unwrap();
    ended(&world, &id, Status::Completed);
    let id = world.start(name, Value::Null, Value::Null);
    world.now += 60_000;
    world.pump();
    assert_eq!(ended(&world, &id, Status::Failed)["error"]["code"], "interrupt_expired");
}

#[test]
fn cancelling_reaches_children() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-interrupt-parent-child-cancel", Value::Null, Value::Null);
    let snapshot = fits(&world, &id);
    assert_eq!(snapshot["status"], "waiting-approval", "a parent mirrors its child");
    let child = snapshot["childRuns"][0]["runId"].as_str().unwrap().to_owned();
    assert_eq!(fits(&world, &child)["parentRunId"], json!(id));
    let cancel =
        Command::Cancel { reason: Some("enough".into()), by: Some("ada".into()), parent: None };
    world.command(&id, cancel.clone()).unwrap();
    world.pump();
    ended(&world, &id, Status::Cancelled);
    assert!(world.payload(&id, "run.cancelled").get("parentRunId").is_none());
    ended(&world, &child, Status::Cancelled);
    let payload = world.payload(&child, "run.cancelled");
    assert_eq!(payload, json!({"reason": "parent-cancelled", "parentRunId": id}));
    let late = world.resolve(&child, "child-gate", json!({"action": "accept"}));
    assert_eq!(late, Err(Refusal::RunEnded { status: Status::Cancelled, cascaded: true }));
    assert!(world.command(&id, cancel).unwrap().events.is_empty(), "once is enough");
    let id = world.start("conformance-cancellable", Value::Null, Value::Null);
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    world.command(&id, cancel).unwrap();
    ended(&world, &id, Status::Cancelled);
    assert_eq!(world.count(&id, "node.cancelled"), 1);
}

#[test]
fn sub_workflows_map_values_both_ways() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-subworkflow-parent", Value::Null, Value::Null);
    let snapshot = ended(&world, &id, Status::Completed);
    assert_eq!(snapshot["variables"]["childOutcome"], "child-completed");
    let outputs = &snapshot["nodeStates"]["subwf-call"]["outputs"];
    assert_eq!(outputs["childStatus"], "completed");
    let id = world.start("conformance-subworkflow-input-mapping", Value::Null, Value::Null);
    let child = |world: &World, id: &str| {
        world.snapshot(id)["childRuns"][0]["runId"].as_str().unwrap().to_owned()
    };
    assert_eq!(world.snapshot(&child(&world, &id))["variables"]["receivedPrdId"], "prd-1");
    let id =
        world.start("conformance-subworkflow-input-mapping-no-default", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    assert!(world.snapshot(&child(&world, &id))["inputs"].as_object().unwrap().is_empty());
    let id = world.start("conformance-subworkflow-mid-run-mutation", Value::Null, Value::Null);
    let waiting = child(&world, &id);
    world.resolve(&waiting, "child-gate", json!({"action": "accept"})).unwrap();
    world.pump();
    ended(&world, &id, Status::Completed);
    assert_eq!(world.snapshot(&waiting)["variables"]["receivedPrdId"], "seeded-id");
}

#[test]
fn orchestrators_decide_and_dispatchers_follow() {
    let Some(mut world) = world() else { return };
    for name in ["conformance-orchestrator-dispatch", "conformance-dispatch-loop"] {
        let id = world.start(name, Value::Null, Value::Null);
        ended(&world, &id, Status::Completed);
        assert_eq!(world.count(&id, "runOrchestrator.decided"), 2, "{name}");
        assert_eq!(world.count(&id, "node.dispatched"), 1);
        let dispatched =
            world.wire(&id).into_iter().find(|e| e["type"] == "node.dispatched").unwrap();
        let decided =
            world.wire(&id).into_iter().find(|e| e["type"] == "runOrchestrator.decided").unwrap();
        assert_eq!(dispatched["causationId"], decided["eventId"]);
    }
    let id = world.start("conformance-orchestrator-terminate", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    assert_eq!(world.count(&id, "runOrchestrator.decided"), 1);
    let id = world.start("conformance-orchestrator-low-confidence", Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-approval");
    assert_eq!(world.count(&id, "runOrchestrator.decided"), 0);
    assert_eq!(world.payload(&id, "node.suspended")["reason"], "low-confidence");
    world.resolve(&id, "supervisor", json!({"action": "accept"})).unwrap();
    assert_eq!(world.count(&id, "runOrchestrator.decided"), 1);
    let id = world.start("conformance-multi-agent-confidence-escalation", Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-input");
    assert_eq!(world.count(&id, "core.workflowChain.confidence-escalated"), 1);
    assert_eq!(world.count(&id, "core.workflowChain.event"), 0);
}

#[test]
fn dispatchers_map_values_for_each_worker() {
    let Some(mut world) = world() else { return };
    let children = |world: &World, id: &str| -> Vec<String> {
        let runs = world.snapshot(id)["childRuns"].clone();
        runs.as_array().unwrap().iter().map(|c| c["runId"].as_str().unwrap().to_owned()).collect()
    };
    let id = world.start("conformance-dispatch-input-mapping", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    assert_eq!(
        world.snapshot(&children(&world, &id)[0])["inputs"],
        json!({"childGreeting": "Alice"})
    );
    let id = world.start("conformance-dispatch-input-mapping-no-default", Value::Null, Value::Null);
    assert_eq!(world.snapshot(&children(&world, &id)[0])["inputs"], json!({}));
    let id = world.start("conformance-dispatch-output-mapping", Value::Null, Value::Null);
    assert_eq!(ended(&world, &id, Status::Completed)["variables"]["parentResult"], "done");
    let id = world.start("conformance-dispatch-cross-worker-handoff", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    assert_eq!(world.snapshot(&children(&world, &id)[1])["inputs"], json!({"input": "hello"}));
    let id = world.start("conformance-dispatch-per-worker-override", Value::Null, Value::Null);
    let inputs: Vec<_> =
        children(&world, &id).iter().map(|c| world.snapshot(c)["inputs"].clone()).collect();
    assert_eq!(inputs, [json!({"input": "default-x-value"}), json!({"input": "shared-value"})]);
    let id = world.start("conformance-multi-agent-handoff", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    let phases: Vec<_> =
        world.wire(&id).into_iter().filter(|e| e["type"] == "core.workflowChain.event").collect();
    let phases: Vec<_> = phases.iter().map(|e| e["payload"]["phase"].as_str().unwrap()).collect();
    assert_eq!(
        phases,
        ["dispatch.began", "dispatch.succeeded", "child.completed", "output.harvested"]
    );
}

#[test]
fn agents_and_conversations_say_what_their_mocks_say() {
    let Some(mut world) = world() else { return };
    let id = world.start("conformance-agent-reasoning", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    let agent: Vec<_> = world.types(&id).into_iter().filter(|t| t.starts_with("agent.")).collect();
    assert_eq!(
        agent,
        [
            "agent.reasoned",
            "agent.toolCalled",
            "agent.toolReturned",
            "agent.handoff",
            "agent.decided"
        ]
    );
    let id = world.start("conformance-agent-reasoning-streaming", Value::Null, Value::Null);
    ended(&world, &id, Status::Completed);
    let events = world.wire(&id);
    let deltas: String = events
        .iter()
        .filter(|e| e["type"] == "agent.reasoning.delta")
        .map(|e| e["payload"]["delta"].as_str().unwrap())
        .collect();
    assert_eq!(world.payload(&id, "agent.reasoned")["reasoning"], deltas);
    let id = world.start("conformance-agent-low-confidence", Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-approval");
    let suspended = world.payload(&id, "node.suspended");
    assert_eq!((&suspended["threshold"], &suspended["observed"]), (&json!(0.7), &json!(0.5)));
    for (name, turns) in [("lifecycle", 1), ("vs-clarification", 1), ("replay", 3)] {
        let id = world.start(&format!("conformance-conversation-{name}"), Value::Null, Value::Null);
        ended(&world, &id, Status::Completed);
        assert_eq!(world.count(&id, "conversation.exchanged"), turns);
        assert!(!world.types(&id).iter().any(|kind| kind.starts_with("clarification.")));
    }
    let id =
        world.start("conformance-conversation-capability-negotiation", Value::Null, Value::Null);
    assert_eq!(fits(&world, &id)["status"], "waiting-approval");
    world.resolve(&id, "convo", json!({"text": "hello"})).unwrap();
    ended(&world, &id, Status::Completed);
}

#[test]
fn streams_costs_and_envelopes() {
    let Some(mut world) = world() else { return };
    let mock =
        json!({"mockProvider": {"id": "stream-text", "config": {"tokens": ["a", "b", "c"]}}});
    let id = world.start("conformance-stream-text", Value::Null, mock.clone());
    ended(&world, &id, Status::Completed);
    let last: Vec<_> = world
        .wire(&id)
        .into_iter()
        .filter(|e| e["type"] == "output.chunk")
        .map(|e| e["payload"]["isLast"].clone())
        .collect();
    assert_eq!(last, [json!(false), json!(false), json!(true)]);
    let id = world.start("openwop-smoke-cost-emit", Value::Null, Value::Null);
    let snapshot = ended(&world, &id, Status::Completed);
    assert_eq!(snapshot["metrics"]["openwopCost"]["tokens"], json!({"input": 100, "output": 50}));
    assert!(!serde_json::to_string(&world.wire(&id)).unwrap().contains("CANARY"));
    let say = |text: &str| ModelReply { text: text.to_owned(), ..ModelReply::default() };
    let cut = || ModelReply { stop_reason: Some("max_tokens".to_owned()), ..ModelReply::default() };
    let refusal =
        || ModelReply { text: "never".to_owned(), refused: true, ..ModelReply::default() };
    for (name, replies, status, told) in [
        (
            "recovery-applied",
            vec![say("```json\n{\"result\":\"ok\"}\n```")],
            Status::Completed,
            "envelope.recovery.applied",
        ),
        (
            "retry-attempted",
            vec![say("no"), say("{\"valid\":true}")],
            Status::Completed,
            "envelope.retry.attempted",
        ),
        (
            "retry-exhausted",
            vec![say("{}"), say("{}"), say("{}")],
            Status::Failed,
            "envelope.retry.exhausted",
        ),
        ("refusal", vec![refusal()], Status::Failed, "envelope.refusal"),
        (
            "truncated",
            vec![cut(), say("{\"valid\":true}")],
            Status::Completed,
            "envelope.truncated",
        ),
        ("truncation-cap-exhaustion", vec![cut(), cut(), cut()], Status::Failed, "cap.breached"),
        (
            "nl-to-format-engaged",
            vec![say("Well"), say("well"), say("well"), say("{\"result\":\"x\"}")],
            Status::Completed,
            "envelope.nlToFormat.engaged",
        ),
    ] {
        world.replies.extend(replies);
        let id = world.start(&format!("conformance-envelope-{name}"), Value::Null, Value::Null);
        ended(&world, &id, status);
        assert_eq!(world.count(&id, told), 1, "{name}: {:?}", world.types(&id));
        assert!(world.replies.is_empty(), "{name}");
    }
    for name in ["conformance-phase4-nondet-tool", "conformance-phase4-replay-divergence"] {
        world.replies.push_back(say("{\"valid\":true}"));
        let id = world.start(name, Value::Null, Value::Null);
        ended(&world, &id, Status::Completed);
    }
}

#[test]
fn what_is_not_offered_is_refused_by_name() {
    let Some(mut world) = world() else { return };
    for (name, node, capability) in [
        ("conformance-a2a-task-roundtrip", "a2a-invoke", "a2a"),
        ("conformance-mcp-tool-roundtrip", "mcp-call", "mcp"),
        ("conformance-agent-channel-dispatch", "resolve", "agents.deployment"),
        ("conformance-wasm-pack-roundtrip", "greet", "nodeTypes.vendor.openwop.rust-hello.greet"),
        ("conformance-prompt-end-to-end", "writer", "nodeTypes.local.sample.demo.mock-ai"),
    ] {
        let refused = world.create(name, Value::Null, Value::Null).unwrap_err();
        let CreateRefusal::Capability { required, node_id, .. } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!((required.as_str(), node_id.as_str()), (capability, node));
    }
    world.offers.conformance = false;
    for name in [
        "conformance-orchestrator-dispatch",
        "conformance-capability-missing",
        "conformance-agent-reasoning",
        "conformance-stream-text",
    ] {
        let refused = world.create(name, Value::Null, Value::Null).unwrap_err();
        assert!(matches!(refused, CreateRefusal::Capability { .. }), "{name}");
    }
    let mock = json!({"mockProvider": {"id": "stream-text"}});
    let refused = world.create("conformance-noop", Value::Null, mock).unwrap_err();
    assert_eq!(refused, CreateRefusal::MockForbidden);
}
