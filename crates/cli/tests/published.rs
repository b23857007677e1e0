//! The published workflows through the HTTP host: everything that it sends is what the contract says.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod serving;

use common::Bench;
use judge::fits;
use judge::schemas::check;
use serde_json::{Value, json};
use serving::{ALL, Client, fixtures, is_over, key, serve};

/// Published workflows that are not offered, and what they would need.
const NOT_OFFERED: [(&str, &str); 11] = [
    ("conformance-a2a-task-roundtrip", "another host to hand tasks to"),
    ("conformance-agent-channel-dispatch", "deployments of agents"),
    ("conformance-agent-pack-export", "packs: an agent to put into one"),
    ("conformance-agent-pack-handoff-schema-validation", "packs: an agent out of one"),
    ("conformance-agent-pack-install", "packs: one that is installed"),
    ("conformance-agent-pack-provenance", "packs: one that is installed"),
    ("conformance-mcp-tool-roundtrip", "tools of an MCP server"),
    ("conformance-prompt-all-four-kinds", "prompts"),
    ("conformance-prompt-end-to-end", "prompts"),
    ("conformance-wasm-pack-memory-cap-breach", "packs: a node type out of one"),
    ("conformance-wasm-pack-roundtrip", "packs: a node type out of one"),
];

/// Every published workflow is offered, or is known not to be.
fn all_but_not_offered(shared: &std::path::Path) -> Vec<String> {
    let mut ids: Vec<String> = std::fs::read_dir(shared.join("fixtures"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|id| !NOT_OFFERED.iter().any(|(known, _)| known == id))
        .collect();
    ids.sort();
    ids
}

/// What a client would answer to whatever a run waits for.
fn answer(open: &Value) -> Value {
    match open["kind"].as_str().unwrap() {
        "clarification" => {
            let questions = open["payload"]["questions"].as_array().unwrap();
            let answers: serde_json::Map<_, _> = questions
                .iter()
                .map(|question| (question["id"].as_str().unwrap().to_owned(), json!("yes")))
                .collect();
            json!({"answers": answers})
        }
        "external-event" => {
            let data = &open["payload"];
            json!({"eventType": data["eventType"], "correlation": data["correlation"],
                "payload": {}})
        }
        _ => json!({"action": "accept"}),
    }
}

/// A value for whatever has to be given.
fn inputs(definition: &Value) -> Value {
    let needed =
        |variable: &&Value| variable["required"] == true && variable.get("defaultValue").is_none();
    let value = |variable: &Value| match variable["type"].as_str().unwrap() {
        "number" => json!(1),
        "boolean" => json!(true),
        "object" => json!({}),
        "array" => json!([]),
        _ => json!("something"),
    };
    let variables = definition["variables"].as_array().unwrap().iter().filter(needed);
    variables
        .map(|variable| (variable["name"].as_str().unwrap().to_owned(), value(variable)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Runs that end by themselves, by answers, or not before somebody cancels them.
fn drive(client: &Client<'_>, definition: &Value) -> Option<Value> {
    let id = definition["id"].as_str().unwrap();
    let tokens = json!({"mockProvider": {"id": "stream-text", "config": {"tokens": ["a", "b"]}}});
    let configurable = if id == "conformance-stream-text" { tokens } else { json!({}) };
    let wanted = json!({"workflowId": id, "inputs": inputs(definition),
        "configurable": configurable});
    let begun = client.post("/v1/runs", &wanted);
    if begun.status != 201 {
        fits("error-envelope.schema.json", &begun.json());
        assert!([400, 403, 422].contains(&begun.status), "{id}: {begun:?}");
        return None;
    }
    let run = begun.json()["runId"].as_str().unwrap().to_owned();
    for turn in 0..12 {
        let waits = |status: &str| is_over(status) || status.starts_with("waiting-");
        let patience = if id.contains("delay") || id.contains("cancel") { 20 } else { 120 };
        let mut shown = client.run(&run);
        for _ in 0..patience {
            if waits(shown["status"].as_str().unwrap()) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(25));
            shown = client.run(&run);
        }
        fits("run-snapshot.schema.json", &shown);
        let status = shown["status"].as_str().unwrap().to_owned();
        if is_over(&status) {
            break;
        }
        let open = &shown["interrupt"];
        let answered = status.starts_with("waiting-") && open.is_object() && turn < 10;
        let path = format!("/v1/runs/{run}/interrupts/{}", open["nodeId"].as_str().unwrap_or("x"));
        let taken =
            answered && client.post(&path, &json!({"resumeValue": answer(open)})).status == 200;
        if !taken {
            client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).is(200);
        }
    }
    let shown = client.until(&run, is_over);
    for event in client.events(&run) {
        check(&event);
    }
    fits("debug-bundle.schema.json", &client.get(&format!("/v1/runs/{run}/debug-bundle")).is(200));
    Some(shown)
}

/// Tells the mock what the nodes of a workflow want to hear.
fn program(client: &Client<'_>, definition: &Value) {
    for node in definition["nodes"].as_array().unwrap() {
        if node["typeId"] == "core.ai.structuredOutput" {
            let schema = &node["config"]["outputSchema"];
            let valid = schema["properties"].get("valid").is_some();
            let content = if valid { json!({"valid": true}) } else { json!({"result": "x"}) };
            let program = json!([{"content": content.to_string(), "stopReason": "end_turn"}]);
            let given = json!({"nodeId": node["id"], "program": program});
            client.post("/v1/host/sample/test/mock-ai/program", &given).is(200);
        }
    }
}

#[test]
fn what_is_sent_is_what_the_contract_says() {
    let bench = Bench::new();
    let Some(shared) = fixtures(&bench) else { return };
    let key = key(&bench, "agent:sdk", "one", ALL);
    let host = serve(&bench, &["--conformance"]);
    let client = Client { port: host.port, key: &key };
    let found = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    let listed = found["fixtures"].as_array().unwrap().clone();
    let mut offered: Vec<_> = listed.iter().map(|id| id.as_str().unwrap().to_owned()).collect();
    offered.sort();
    assert_eq!(offered, all_but_not_offered(&shared));
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for id in &listed {
        let id = id.as_str().unwrap();
        let definition = client.get(&format!("/v1/workflows/{id}")).is(200);
        fits("workflow-definition.schema.json", &definition);
        program(&client, &definition);
        let end = drive(&client, &definition).map_or_else(
            || "refused".to_owned(),
            |shown| shown["status"].as_str().unwrap().to_owned(),
        );
        println!("{id}: {end}");
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
    assert!(ends["completed"] > 45, "{ends:?}");
    assert!(!ends.contains_key("refused"), "what is offered can be run");
    fits("error-envelope.schema.json", &client.get("/v1/runs/run-nowhere").json());
    drop(host);
    bench.verify();
}
