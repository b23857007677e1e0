//! What is shown of a run: the snapshot, with sensitive values masked.

use serde_json::{Map, Value, json};

use crate::decide::scope::{status, visible};
use crate::definition::Definition;
use crate::event::{MASK, mask_outputs};
use crate::run::{End, OpenInterrupt, Pause, RunState, Status};
use crate::seed::Seed;

/// A child run as its own state says, for the parent to mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildView {
    pub run_id: String,
    pub status: Status,
}

/// The status of a run that may wait through its child.
pub fn mirrored(state: &RunState, children: &[ChildView]) -> Status {
    let own = state.status();
    let waits = |child: &&ChildView| {
        let status = child.status;
        matches!(status, Status::WaitingApproval | Status::WaitingInput | Status::WaitingExternal)
    };
    match own {
        Status::Running => children.iter().find(waits).map_or(own, |child| child.status),
        _ => own,
    }
}

pub fn snapshot(
    definition: &Definition,
    seed: &Seed,
    state: &RunState,
    children: &[ChildView],
) -> Value {
    let mut shown = json!({
        "runId": seed.run_id,
        "workflowId": seed.workflow_id,
        "status": mirrored(state, children).as_str(),
        "inputs": masked(definition, seed.inputs.clone()),
        "variables": masked(definition, visible(definition, state)),
        "channels": channels(definition, state),
        "nodeStates": nodes(definition, state),
        "tags": seed.tags,
        "metadata": seed.metadata,
        "configurable": configurable(seed),
        "eventLogSchemaVersion": 2,
    });
    let optional = [
        ("startedAt", state.started_at.map(|at| json!(at.to_string()))),
        ("completedAt", state.ended_at.map(|at| json!(at.to_string()))),
        ("endedAt", state.ended_at.map(|at| json!(at.to_string()))),
        ("currentNodeId", state.current_node().map(|node| json!(node))),
        ("owner", seed.owner.clone()),
        ("error", error(state)),
        ("agent", agent(definition, state)),
        ("runOrchestrator", orchestrator(definition)),
        ("metrics", metrics(state)),
        ("interrupt", state.interrupts.first().map(interrupt)),
        ("parentRunId", seed.parent.as_ref().map(|parent| json!(parent.run_id))),
        ("parentNodeId", seed.parent.as_ref().map(|parent| json!(parent.node_id))),
        ("childRuns", child_runs(state, children)),
        ("pausedAt", paused_at(state)),
    ];
    if let Some(map) = shown.as_object_mut() {
        map.extend(
            optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))),
        );
    }
    shown
}

fn masked(definition: &Definition, mut values: Map<String, Value>) -> Map<String, Value> {
    for (name, value) in &mut values {
        if definition.is_sensitive(name) {
            *value = json!(MASK);
        }
    }
    values
}

/// A reference to a credential is nobody's to see.
fn configurable(seed: &Seed) -> Map<String, Value> {
    let mut shown = seed.configurable.clone();
    if let Some(ai) = shown.get_mut("ai").and_then(Value::as_object_mut) {
        ai.remove("credentialRef");
    }
    shown.remove("ai.credentialRef");
    shown
}

fn channels(definition: &Definition, state: &RunState) -> Map<String, Value> {
    masked(definition, state.channels.iter().map(|(n, v)| (n.clone(), v.clone())).collect())
}

fn nodes(definition: &Definition, state: &RunState) -> Map<String, Value> {
    let one = |(id, node): (&String, &crate::run::NodeState)| {
        let mut outputs = Value::Object(node.outputs.clone());
        mask_outputs(definition, Some(id), Some(&mut outputs));
        let shown = json!({
            "status": status(node),
            "attempt": node.attempt,
            "rounds": node.rounds,
            "outputs": outputs,
            "error": node.error,
        });
        (id.clone(), shown)
    };
    state.nodes.iter().map(one).collect()
}

fn error(state: &RunState) -> Option<Value> {
    match &state.end {
        Some(End::Failed(error, _)) => serde_json::to_value(error).ok(),
        _ => None,
    }
}

/// The agent of the node that the run is at.
fn agent(definition: &Definition, state: &RunState) -> Option<Value> {
    definition.node(state.current_node()?)?.agent.clone()
}

fn orchestrator(definition: &Definition) -> Option<Value> {
    let supervisor = Some(crate::types::NodeKind::Supervisor);
    definition.nodes.iter().find(|node| node.kind == supervisor)?.agent.clone()
}

fn metrics(state: &RunState) -> Option<Value> {
    let cost = state.cost.as_ref()?;
    let tokens = json!({"input": cost.input_tokens, "output": cost.output_tokens});
    Some(json!({"openwopCost": {
        "usd": cost.usd,
        "tokens": tokens,
        "model": cost.model,
        "provider": cost.provider,
    }}))
}

/// Without its token: that is the host's to make.
fn interrupt(open: &OpenInterrupt) -> Value {
    json!({
        "interruptId": open.id,
        "kind": open.kind,
        "nodeId": open.node,
        "key": open.key,
        "payload": open.data,
        "expiresAt": open.expires_at.map(|at| at.to_string()),
    })
}

fn child_runs(state: &RunState, children: &[ChildView]) -> Option<Value> {
    let status = |run: &str| {
        let known = children.iter().find(|child| child.run_id == run);
        known.map(|child| child.status.as_str().to_owned())
    };
    let one = |child: &crate::run::Child| {
        let run = child.run.as_deref()?;
        let status = status(run).or(child.end.clone()).unwrap_or_else(|| "running".to_owned());
        Some(
            json!({"runId": run, "workflowId": child.workflow, "nodeId": child.node, "status": status}),
        )
    };
    let all: Vec<Value> = state.children.iter().filter_map(one).collect();
    (!all.is_empty()).then_some(Value::Array(all))
}

fn paused_at(state: &RunState) -> Option<Value> {
    match state.pause {
        Pause::Paused(at) => Some(json!(at.to_string())),
        _ => None,
    }
}
