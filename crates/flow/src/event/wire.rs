//! What is shown of an event: the envelope of the contract, without what only the fold needs, and
//! with sensitive values masked.

use serde_json::{Map, Value, json};

use super::{RunEvent, event_id};
use crate::definition::Definition;

/// Stands where a sensitive value was.
pub const MASK: &str = "[MASKED]";

/// Types whose payload is closed and has no `nodeId`; the envelope has it.
const WITHOUT_NODE: [&str; 6] = [
    "interrupt.requested",
    "node.dispatched",
    "runOrchestrator.decided",
    "core.workflowChain.event",
    "core.workflowChain.confidence-escalated",
    "authorization.decided",
];

/// The event as clients see it.
pub fn wire(definition: &Definition, run: &str, event: &RunEvent) -> Value {
    let stored = serde_json::to_value(&event.event).unwrap_or_default();
    let kind = stored.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let payload = stored.get("payload").and_then(Value::as_object).cloned().unwrap_or_default();
    let node = event.event.node_id();
    let (kind, payload) = shown(definition, run, event, node, kind, payload);
    let mut envelope = json!({
        "eventId": event_id(run, event.sequence),
        "runId": run,
        "type": kind,
        "payload": payload,
        "timestamp": event.at.to_string(),
        "sequence": event.sequence,
        "schemaVersion": 1,
    });
    if let Some(map) = envelope.as_object_mut() {
        map.extend(node.map(|node| ("nodeId".to_owned(), json!(node))));
        map.extend(
            event.cause.map(|cause| ("causationId".to_owned(), json!(event_id(run, cause)))),
        );
    }
    envelope
}

fn shown(
    definition: &Definition,
    run: &str,
    event: &RunEvent,
    node: Option<&str>,
    kind: String,
    mut payload: Map<String, Value>,
) -> (String, Map<String, Value>) {
    if WITHOUT_NODE.contains(&kind.as_str()) {
        payload.remove("nodeId");
    }
    match kind.as_str() {
        "run.pausing" => return ("log.appended".to_owned(), pausing(&payload)),
        "output.chunk" => drop(payload.insert("runId".to_owned(), json!(run))),
        "core.workflowChain.event" | "core.workflowChain.confidence-escalated" => {
            payload.insert("parentRunId".to_owned(), json!(run));
        }
        "channel.written" => channel(definition, event, &mut payload),
        "approval.requested" => actions(&mut payload),
        "variable.changed" => variable(definition, &mut payload),
        "node.completed" => outputs(definition, node, payload.get_mut("outputs")),
        "run.completed" => run_outputs(definition, payload.get_mut("outputs")),
        _ => {}
    }
    (kind, payload)
}

fn pausing(payload: &Map<String, Value>) -> Map<String, Value> {
    let mut shown = Map::new();
    shown.insert("level".to_owned(), json!("info"));
    shown.insert("message".to_owned(), json!("pause requested"));
    if let Some(reason) = payload.get("reason") {
        shown.insert("fields".to_owned(), json!({"reason": reason}));
    }
    shown
}

/// The published pattern knows no `message`: such a write is an append that was not there before.
fn channel(definition: &Definition, event: &RunEvent, payload: &mut Map<String, Value>) {
    payload.remove("ttlMs");
    payload.remove("maxSize");
    if payload.get("reducer") == Some(&json!("message")) {
        payload.insert("reducer".to_owned(), json!("append"));
    }
    let name = payload.get("channel").and_then(Value::as_str).unwrap_or_default();
    if definition.channels.get(name).is_some_and(|channel| channel.sensitive) {
        payload.insert("value".to_owned(), json!(MASK));
    }
    payload.insert("writtenAt".to_owned(), json!(event.at.to_string()));
}

/// The published list of this one type calls `edit-accept` by its older name.
fn actions(payload: &mut Map<String, Value>) {
    for action in payload.get_mut("actions").and_then(Value::as_array_mut).into_iter().flatten() {
        if action == "edit-accept" {
            *action = json!("edit");
        }
    }
}

fn variable(definition: &Definition, payload: &mut Map<String, Value>) {
    let name = payload.get("name").and_then(Value::as_str).unwrap_or_default();
    if definition.is_sensitive(name) {
        for member in ["previous", "next"] {
            if let Some(value) = payload.get_mut(member) {
                *value = json!(MASK);
            }
        }
    }
}

/// Masks the ports of `node` that are marked sensitive, in its outputs.
pub(crate) fn outputs(definition: &Definition, node: Option<&str>, outputs: Option<&mut Value>) {
    let ports = node.and_then(|id| definition.node(id)).map(|node| &node.sensitive_outputs);
    let Some(map) = outputs.and_then(Value::as_object_mut) else { return };
    for port in ports.into_iter().flatten() {
        if let Some(value) = map.get_mut(port) {
            *value = json!(MASK);
        }
    }
}

/// Outputs of a run are those of one node, or of several by their ids: either way, a name that is
/// sensitive somewhere is masked.
fn run_outputs(definition: &Definition, shown: Option<&mut Value>) {
    let Some(map) = shown.and_then(Value::as_object_mut) else { return };
    for node in &definition.nodes {
        outputs(definition, Some(&node.id), map.get_mut(&node.id));
        for port in &node.sensitive_outputs {
            if let Some(value) = map.get_mut(port) {
                *value = json!(MASK);
            }
        }
    }
}
