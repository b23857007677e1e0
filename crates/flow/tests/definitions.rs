//! Definitions: the reader agrees with the published schema, and what the schema does not see is
//! told with its place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use common::{World, edge, fixtures, node, object, schemas, workflow};
use countersign_flow::{Definition, Problem, recursion};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

static JUDGE: LazyLock<Option<jsonschema::Validator>> =
    LazyLock::new(|| schemas::judge("workflow-definition.schema.json"));
static FIXTURES: LazyLock<Option<BTreeMap<String, Vec<u8>>>> = LazyLock::new(fixtures);

fn problems(value: Value) -> Vec<Problem> {
    Definition::of(value).err().unwrap_or_default()
}

fn codes(value: Value) -> Vec<(String, &'static str)> {
    problems(value).into_iter().map(|problem| (problem.pointer, problem.code)).collect()
}

/// A definition with every member that there can be.
fn complete() -> Value {
    let mut full = workflow(
        "w",
        json!([node("a", "core.noop", json!({})), node("b", "core.noop", json!({}))]),
        json!([edge("a", "b")]),
    );
    full["nodes"][0].as_object_mut().unwrap().extend(object(json!({
        "inputs": {
            "s": {"type": "static", "value": null},
            "e": {"type": "expression", "expression": "variables.v"},
            "v": {"type": "variable", "variableName": "v", "optional": true},
        },
        "credentialsRef": "c", "settings": {"maxRetries": 1}, "outputRole": "primary", "disabled": false, "notes": "n",
        "groupId": "g", "agent": {"agentId": "abc", "modelClass": "chat", "version": "1"}, "envelopeContract": {},
        "artifactType": "t", "cardType": "c", "outputSensitivity": {"x": true},
    })));
    full["nodes"][1]["inputs"] =
        json!({"c": {"type": "connection", "nodeId": "a", "outputKey": "x", "optional": true}});
    full["edges"][0].as_object_mut().unwrap().extend(object(json!({
        "sourceOutput": "o", "targetInput": "i", "label": "l", "triggerRule": "any_success",
        "condition": {"type": "equals", "left": "status", "right": 1, "expression": "1"},
    })));
    full.as_object_mut().unwrap().extend(object(json!({
        "description": "d", "type": "t", "isActive": true, "status": "draft", "tenantId": "t", "scopeId": "s", "slug": "s",
        "triggers": [{"id": "t", "type": "channel-write", "name": "n", "description": "d", "config": {}, "enabled": true, "nodeId": "a", "eventType": "e"}],
        "variables": [{"name": "v", "type": "string", "description": "d", "required": false, "defaultValue": 1, "sensitive": false}],
        "groups": [{"id": "g", "name": "g", "color": "c", "collapsed": true, "nodeIds": ["a"], "position": {"x": 0, "y": 0}, "size": {"width": 1, "height": 1}}],
        "channels": {"c": {"reducer": "append", "schema": {}, "default": [], "maxSize": 1, "ttlMs": 1, "options": {},
            "access": {"readers": ["core.*"], "writers": ["*"]}, "schemaVersion": 2, "compatibleWith": [1], "sensitive": true},
            "d": {"reducer": "counter", "access": "private"}},
        "configurableSchema": {}, "defaults": {"promptRefs": {"system": "prompt:a@1.0.0", "user": {"templateId": "t", "version": "1.0.0-a+b"}}},
        "metadata": {"createdBy": "a", "createdAt": "2026-01-01T00:00:00Z", "tags": ["t"], "complianceClass": "pii", "complianceConfig": {"maskingMode": "hash"}},
        "settings": {"timeout": 0, "maxRetries": 3.0, "logLevel": "info", "maxLoopbackIterations": 1, "more": true},
        "acceptsInheritedArtifacts": [{}], "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
    })));
    full
}

#[test]
fn everything_that_the_schema_knows_is_read() {
    assert_eq!(problems(complete()), []);
    if let Some(judge) = schemas::judge("workflow-definition.schema.json") {
        let errors: Vec<_> = judge.iter_errors(&complete()).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}");
    }
}

/// Rows: an edit of a sound definition, and everything that is told about it.
#[test]
fn what_the_schema_does_not_see() {
    let base = || {
        workflow(
            "w",
            json!([node("a", "core.noop", json!({})), node("b", "core.noop", json!({}))]),
            json!([edge("a", "b")]),
        )
    };
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut value = base();
        edit(&mut value);
        codes(value)
    };
    let at = |pointer: &str, code| vec![(pointer.to_owned(), code)];
    assert_eq!(with(&|_| {}), []);
    assert_eq!(with(&|v| v["nodes"][1]["id"] = json!("a"))[0].1, "WORKFLOW_ID_TWICE");
    assert_eq!(
        with(&|v| v["edges"][0]["targetNodeId"] = json!("c")),
        at("/edges/0/targetNodeId", "WORKFLOW_NODE_UNKNOWN")
    );
    assert_eq!(
        with(&|v| v["edges"] = json!([edge("a", "a")])),
        at("/nodes/0", "WORKFLOW_NODE_UNREACHABLE"),
        "nothing but itself leads there"
    );
    let port = |port: Value| with(&|v| v["nodes"][1]["inputs"] = json!({"x": port}));
    assert_eq!(
        port(json!({"type": "connection", "nodeId": "z", "outputKey": "o"})),
        at("/nodes/1/inputs/x", "WORKFLOW_NODE_UNKNOWN")
    );
    assert_eq!(
        port(json!({"type": "variable", "variableName": "z"})),
        at("/nodes/1/inputs/x", "WORKFLOW_VARIABLE_UNKNOWN")
    );
    assert_eq!(
        port(json!({"type": "expression", "expression": "1 +"})),
        at("/nodes/1/inputs/x/expression", "WORKFLOW_EXPRESSION_INVALID")
    );
    assert_eq!(
        port(json!({"type": "expression", "expression": "variables.z"})),
        at("/nodes/1/inputs/x", "WORKFLOW_VARIABLE_UNKNOWN")
    );
    assert_eq!(
        port(json!({"type": "expression", "expression": "secrets.z"})),
        at("/nodes/1/inputs/x", "WORKFLOW_NAME_UNKNOWN")
    );
    let condition = |condition: Value| with(&|v| v["edges"][0]["condition"] = condition.clone());
    for broken in [
        json!({}),
        json!({"type": "regex", "left": "status", "right": "("}),
        json!({"type": "equals", "right": 1}),
    ] {
        assert_eq!(condition(broken), at("/edges/0/condition", "WORKFLOW_CONDITION_INVALID"));
    }
    assert_eq!(
        condition(json!({"type": "equals", "left": "approved", "right": 1})),
        at("/edges/0/condition", "WORKFLOW_NAME_UNKNOWN")
    );
    let typed = |type_id: &str, config: Value| {
        with(&|v| v["nodes"][0] = node("a", type_id, config.clone()))
    };
    assert_eq!(
        typed("core.subWorkflow", json!({"workflowId": "w"})),
        at("/nodes/0/config", "WORKFLOW_CALLS_ITSELF")
    );
    assert_eq!(typed("core.tool", json!({})), at("/nodes/0/config", "WORKFLOW_CONFIG_INVALID"));
    assert_eq!(
        typed("core.channelWrite", json!({"channelName": "c"})),
        at("/nodes/0/config", "WORKFLOW_CHANNEL_UNKNOWN")
    );
    assert_eq!(
        typed("core.channelWrite", json!({"channelName": "c", "reducer": "vendor.a.b"})),
        at("/nodes/0/config", "WORKFLOW_REDUCER_UNKNOWN")
    );
    assert_eq!(
        with(&|v| v["channels"] = json!({"c": {"reducer": "vendor.acme.max"}})),
        at("/channels/c/reducer", "WORKFLOW_REDUCER_UNKNOWN")
    );
    assert_eq!(
        with(&|v| v["configurableSchema"] = json!({"type": 1}))[0].1,
        "WORKFLOW_SCHEMA_UNUSABLE"
    );
    let long = "n".repeat(129);
    assert_eq!(
        with(&|v| v["nodes"] = json!([
            node(&long, "core.noop", json!({})),
            node("a", "core.noop", json!({})),
            node("b", "core.noop", json!({}))
        ])),
        at("/nodes/0/id", "WORKFLOW_ID_TOO_LONG")
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let mut value = complete();
    value["id"] = json!("Not An Id");
    value["nodes"][0]["inputs"]["s"] = json!({"type": "static"});
    value["nodes"][1]["typeId"] = json!("Core");
    value["edges"][0]["colour"] = json!("red");
    value["triggers"][0]["type"] = json!("moon");
    value["settings"]["timeout"] = json!(-1);
    let pointers: Vec<_> = problems(value).into_iter().map(|problem| problem.pointer).collect();
    assert_eq!(
        pointers,
        [
            "/id",
            "/nodes/0/inputs/s",
            "/nodes/1/typeId",
            "/edges/0/colour",
            "/triggers/0/type",
            "/settings/timeout"
        ]
    );
    let unreadable = Definition::parse(b"{\"id\":1,\"id\":2}").unwrap_err();
    assert_eq!(unreadable[0].code, "WORKFLOW_UNREADABLE");
}

#[test]
fn workflows_that_call_each_other_in_a_circle_are_named() {
    let calls = |id: &str, other: &str| {
        let call = node("call", "core.subWorkflow", json!({"workflowId": other}));
        Definition::of(workflow(id, json!([call]), json!([]))).unwrap()
    };
    let set =
        [calls("a", "b"), calls("b", "c"), calls("c", "a"), calls("d", "a"), calls("e", "nowhere")];
    let named: Vec<_> = recursion(&set).into_iter().map(|problem| problem.pointer).collect();
    assert_eq!(named, ["/a", "/b", "/c"]);
}

/// Places inside of a value, as pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, inner)| places(inner, &format!("{at}/{key}"), found))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .for_each(|(n, inner)| places(inner, &format!("{at}/{n}"), found)),
        _ => {}
    }
}

fn replacement() -> impl Strategy<Value = Value> {
    let fixed = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(2.0),
        json!(""),
        json!("x"),
        json!("a b"),
        json!([]),
        json!({}),
        json!(["x", "x"]),
        json!({"x": 1}),
        json!("static"),
        json!({"type": "static", "value": 1}),
        json!("public"),
        json!("vendor.a.b"),
        json!("vendor.a"),
        json!("core.x*"),
        json!("prompt:a@1.0"),
        json!("é"),
        json!("2026-01-01T00:00:00Z"),
        json!("yesterday"),
        json!(1e300),
        json!({"agentId": "abc", "version": "1", "channel": "c"}),
    ];
    prop::sample::select(fixed.to_vec())
}

proptest! {
    /// The reader and the published schema say yes to the same definitions, however they are spoilt.
    #[test]
    fn the_reader_agrees_with_the_published_schema(
        edits in prop::collection::vec((any::<Index>(), 0..3u8, replacement()), 1..3), fixture in any::<Index>(), own in any::<bool>(),
    ) {
        let (Some(judge), Some(all)) = (JUDGE.as_ref(), FIXTURES.as_ref()) else { return Ok(()) };
        let source = all.values().nth(fixture.index(all.len())).unwrap();
        let mut value = if own { complete() } else { serde_json::from_slice(source).unwrap() };
        for (index, edit, new) in edits {
            let mut found = Vec::new();
            places(&value, "", &mut found);
            let place = found[index.index(found.len())].clone();
            let (parent, key) = place.rsplit_once('/').unwrap_or(("", ""));
            match (edit, value.pointer_mut(parent)) {
                (0, Some(Value::Object(map))) if !key.is_empty() => drop(map.remove(key)),
                (1, _) => {
                    if let Some(Value::Object(map)) = value.pointer_mut(&place) {
                        map.insert("stranger".to_owned(), new);
                    }
                }
                _ => *value.pointer_mut(&place).unwrap() = new,
            }
        }
        let ours = problems(value.clone()).iter().all(|problem| problem.code != "WORKFLOW_INVALID");
        prop_assert_eq!(ours, judge.is_valid(&value), "{:#} {:?}", value, problems(value.clone()));
        // What is read can be run, or is refused before it begins.
        if let Ok(definition) = Definition::of(value) {
            let id = definition.id.clone();
            let mut world = World::new([definition]);
            let made = world.create(&id, Value::Null, Value::Null);
            (0..20).take_while(|_| made.is_ok() && world.pump_once()).count();
        }
    }
}
