//! The shapes of requests and answers, by the names that they have in the OpenAPI document.

pub(crate) mod beside;

use serde_json::{Map, Value, json};

/// Whole numbers above this have no exact double, and are refused wherever they stand.
pub(crate) const MAX_WHOLE: u64 = 1 << 53;

/// Points to a shape of this module.
pub(crate) fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A text, or nothing.
pub(crate) fn maybe_text() -> Value {
    json!({"type": ["string", "null"]})
}

/// One frame of a stream, as a reader of server-sent events has it.
pub(crate) fn frame() -> Value {
    let data = json!({"type": "string", "contentMediaType": "application/json"});
    closed(&["id", "event", "data"], json!({"id": text(), "event": text(), "data": data}))
}

/// What may stand in a path in the place of a parameter.
pub(crate) fn segment(name: &str) -> Value {
    match name {
        "token" => json!({"type": "string", "pattern": "^[A-Za-z0-9_.-]+$", "maxLength": 4096}),
        "runId" | "workflowId" => {
            json!({"type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9_.-]*$", "maxLength": 128})
        }
        "path" => json!({"type": "string", "pattern": beside::FILE_PATH, "maxLength": 256}),
        _ => json!({"type": "string", "minLength": 1}),
    }
}

pub(crate) fn all() -> Map<String, Value> {
    let shapes = [
        ("ErrorEnvelope", envelope()),
        ("Any", any()),
        ("Anything", json!({"type": "object", "additionalProperties": of("Any")})),
        ("Options", options()),
        ("Tags", tags()),
        ("RunStatus", status()),
        ("RunBegun", begun()),
        ("RunForked", forked()),
        ("RunStands", stands()),
        ("RunPaused", moment("pausedAt", "paused")),
        ("RunResumed", moment("resumedAt", "running")),
        ("RunsCancelled", cancelled()),
        ("RunError", error()),
        ("RunSnapshot", snapshot()),
        ("RunEvent", event()),
        ("RunEvents", closed(&["events"], json!({"events": events()}))),
        ("RunEventsPolled", polled()),
        ("RunDiff", diff()),
        ("RunAncestry", ancestry()),
        ("DebugBundle", bundle()),
        ("InterruptTaken", taken()),
        ("InterruptShown", shown()),
        ("Workflow", workflow()),
        ("Discovery", discovery()),
    ];
    let shapes = shapes.into_iter().chain(beside::shapes());
    shapes.map(|(name, shape)| (name.to_owned(), shape)).collect()
}

/// An object with these members and no others.
pub(crate) fn closed(required: &[&str], properties: Value) -> Value {
    let mut shape = Map::new();
    shape.insert("type".to_owned(), json!("object"));
    if !required.is_empty() {
        shape.insert("required".to_owned(), json!(required));
    }
    shape.insert("properties".to_owned(), properties);
    shape.insert("additionalProperties".to_owned(), json!(false));
    Value::Object(shape)
}

fn text() -> Value {
    json!({"type": "string", "minLength": 1})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}

fn envelope() -> Value {
    let properties = json!({"error": text(), "message": text(), "details": {"type": "object"}});
    closed(&["error", "message"], properties)
}

/// Every value of JSON, but for whole numbers that have no exact double. From 10^21 on canonical
/// JSON writes no whole numbers any more.
fn any() -> Value {
    let most = MAX_WHOLE;
    json!({"anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", "minimum": -(most as f64), "maximum": most},
        {"type": "number", "minimum": 1e21},
        {"type": "number", "maximum": -1e21},
        {"type": "array", "items": of("Any")},
        of("Anything"),
    ]})
}

/// Options of a run; a workflow may narrow them further.
fn options() -> Value {
    let whole = json!({"type": "integer", "minimum": 1, "maximum": 9_000_000_000_000_000_u64});
    json!({
        "type": "object",
        "properties": {
            "recursionLimit": whole, "runTimeoutMs": whole, "maxLoopIterations": whole,
            "maxTokens": whole,
            "temperature": {"type": "number", "minimum": 0, "maximum": 2},
            "escalationThreshold": {"type": "number", "minimum": 0, "maximum": 1},
            "mockProvider": {"type": "object", "required": ["id"],
                "properties": {"id": {"type": "string"}}, "additionalProperties": of("Any")},
            "budget": {"not": {}, "description": "Budgets are not offered."},
        },
        "additionalProperties": of("Any"),
    })
}

fn tags() -> Value {
    let tag = json!({"type": "string", "minLength": 1, "maxLength": 256});
    json!({"type": "array", "items": tag, "maxItems": 100})
}

fn status() -> Value {
    json!({"enum": ["pending", "running", "paused", "waiting-approval", "waiting-input",
        "waiting-external", "completed", "failed", "cancelled"]})
}

fn begun() -> Value {
    let properties = json!({"runId": text(), "status": of("RunStatus"), "eventsUrl": text(),
        "statusUrl": text()});
    closed(&["runId", "status", "eventsUrl", "statusUrl"], properties)
}

fn forked() -> Value {
    let properties = json!({"runId": text(), "status": of("RunStatus"), "eventsUrl": text(),
        "statusUrl": text(), "sourceRunId": text(), "mode": {"enum": ["replay", "branch"]},
        "fromSeq": count()});
    let required = ["runId", "status", "eventsUrl", "statusUrl", "sourceRunId", "mode", "fromSeq"];
    closed(&required, properties)
}

fn stands() -> Value {
    closed(&["runId", "status"], json!({"runId": text(), "status": of("RunStatus")}))
}

fn moment(name: &str, status: &str) -> Value {
    let properties = json!({"runId": text(), "status": {"const": status}, name: time()});
    closed(&["runId", "status", name], properties)
}

fn cancelled() -> Value {
    let error = closed(&["code", "message"], json!({"code": text(), "message": text()}));
    let properties = json!({"runId": {"type": "string"}, "ok": {"type": "boolean"},
        "status": of("RunStatus"), "error": error});
    let one = closed(&["runId", "ok"], properties);
    closed(&["results"], json!({"results": {"type": "array", "items": one}}))
}

fn error() -> Value {
    let properties = json!({"code": text(), "message": text(), "details": {"type": "object"}});
    closed(&["code", "message"], properties)
}

/// Open, as the protocol says: hosts show more of a run than others know.
fn snapshot() -> Value {
    let object = json!({"type": "object"});
    let interrupt = json!({"type": "object",
        "required": ["interruptId", "kind", "nodeId", "key", "payload"],
        "properties": {"interruptId": text(), "kind": text(), "nodeId": text(),
            "key": {"type": "string"}, "payload": object, "interruptToken": text(),
            "callbackUrl": text(), "expiresAt": {"type": ["string", "null"]}}});
    let child = json!({"type": "object", "required": ["runId", "status"],
        "properties": {"runId": text(), "status": of("RunStatus"), "workflowId": text(),
            "nodeId": text()}});
    json!({
        "type": "object",
        "required": ["runId", "workflowId", "status", "inputs", "variables", "channels",
            "nodeStates", "tags", "metadata", "configurable", "eventLogSchemaVersion"],
        "properties": {
            "runId": text(), "workflowId": text(), "status": of("RunStatus"),
            "inputs": object, "variables": object, "channels": object, "metadata": object,
            "configurable": object, "owner": {"type": "object", "required": ["tenant"]},
            "nodeStates": {"type": "object", "additionalProperties": {"type": "object",
                "required": ["status"]}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "eventLogSchemaVersion": count(), "startedAt": time(), "completedAt": time(),
            "endedAt": time(), "pausedAt": time(), "currentNodeId": text(),
            "error": of("RunError"), "interrupt": interrupt, "parentRunId": text(),
            "parentNodeId": text(), "childRuns": {"type": "array", "items": child},
            "agent": object, "runOrchestrator": object, "metrics": object,
        },
    })
}

fn event() -> Value {
    let properties = json!({"eventId": text(), "runId": text(), "type": text(), "payload": {},
        "timestamp": time(), "sequence": count(), "nodeId": text(), "causationId": text(),
        "schemaVersion": count(), "engineVersion": text()});
    closed(&["eventId", "runId", "type", "payload", "timestamp", "sequence"], properties)
}

fn events() -> Value {
    json!({"type": "array", "items": of("RunEvent")})
}

fn polled() -> Value {
    let properties = json!({"events": events(), "isComplete": {"type": "boolean"}});
    closed(&["events", "isComplete"], properties)
}

fn diff() -> Value {
    let properties = json!({"seq": count(), "op": {"enum": ["added", "removed", "changed"]},
        "aEvent": of("RunEvent"), "bEvent": of("RunEvent")});
    let one = closed(&["seq", "op"], properties);
    let properties = json!({"a": text(), "b": text(),
        "divergedAtSeq": {"type": ["integer", "null"], "minimum": 0},
        "eventDiffs": {"type": "array", "items": one}, "stateDiff": {"type": "object"},
        "truncated": {"type": "boolean"}});
    closed(&["a", "b", "divergedAtSeq", "eventDiffs", "stateDiff", "truncated"], properties)
}

fn ancestry() -> Value {
    let properties = json!({"runId": text(), "hostId": text(), "wellKnownUrl": text(),
        "cause": {"enum": ["mcp-tool-call", "a2a-message", "core.subWorkflow", "core.dispatch"]}});
    let parent = closed(&["runId", "hostId", "cause"], properties);
    let properties = json!({"runId": text(), "hostId": text(),
        "parent": {"anyOf": [{"type": "null"}, parent]}});
    closed(&["runId", "hostId", "parent"], properties)
}

fn bundle() -> Value {
    let named = json!({"type": "object", "required": ["name", "version", "vendor"]});
    json!({
        "type": "object",
        "required": ["bundleVersion", "generatedAt", "host", "run", "events", "metrics",
            "redactionApplied", "redactionMode", "truncated"],
        "properties": {
            "bundleVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"},
            "generatedAt": time(), "host": named,
            "run": {"type": "object", "required": ["runId", "workflowId", "status"]},
            "events": events(), "metrics": {"type": "object", "required": ["eventCount"]},
            "spans": {"type": "array", "items": {"type": "object"}},
            "redactionApplied": {"type": "boolean"},
            "redactionMode": {"enum": ["mask", "omit", "hash"]},
            "truncated": {"type": "boolean"}, "truncatedReason": text(),
        },
    })
}

fn taken() -> Value {
    let properties = json!({"runId": text(), "nodeId": text(), "status": of("RunStatus")});
    closed(&["runId", "nodeId", "status"], properties)
}

fn shown() -> Value {
    let properties = json!({"runId": text(), "nodeId": text(), "interruptId": text(),
        "kind": text(), "key": {"type": "string"}, "data": {"type": "object"}});
    closed(&["runId", "nodeId", "interruptId", "kind", "key", "data"], properties)
}

fn workflow() -> Value {
    let node = json!({"type": "object", "required": ["id", "typeId"],
        "properties": {"id": text(), "typeId": text()}});
    json!({"type": "object", "required": ["id", "nodes"],
        "properties": {"id": text(), "nodes": {"type": "array", "items": node}}})
}

fn discovery() -> Value {
    let limits = json!({"type": "object",
        "required": ["clarificationRounds", "schemaRounds", "envelopesPerTurn"],
        "additionalProperties": {"type": "number", "minimum": 0}});
    json!({
        "type": "object",
        "required": ["protocolVersion", "supportedEnvelopes", "schemaVersions", "limits"],
        "properties": {
            "protocolVersion": {"type": "string", "pattern": r"^1\."},
            "supportedEnvelopes": {"type": "array", "items": {"type": "string"}},
            "schemaVersions": {"type": "object", "additionalProperties": count()},
            "limits": limits,
            "fixtures": {"type": "array", "items": {"type": "string"}},
            "capabilities": {"type": "object"},
        },
    })
}
