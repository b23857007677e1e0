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
use judge::schemas::{check, judge};
use serde_json::{Value, json};
use serving::{ALL, Client, fixtures, is_over, key, serve};

#[track_caller]
fn fits(schema: &str, value: &Value) {
    let Some(validator) = judge(schema) else { return };
    let errors: Vec<_> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{schema}: {errors:#?}\n{value:#}");
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

/// Runs that end by themselves, by answers, or not before somebody cancels them.
fn drive(client: &Client<'_>, id: &str) -> Option<Value> {
    let begun = client.post("/v1/runs", &json!({"workflowId": id, "inputs": {}}));
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

#[test]
fn what_is_sent_is_what_the_contract_says() {
    let bench = Bench::new();
    if fixtures(&bench).is_none() {
        return;
    }
    let key = key(&bench, "agent:sdk", "one", ALL);
    let host = serve(&bench, &["--conformance"]);
    let client = Client { port: host.port, key: &key };
    let found = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    let listed = found["fixtures"].as_array().unwrap().clone();
    assert!(listed.len() > 40, "{listed:?}");
    let mut ends = std::collections::BTreeMap::<String, u32>::new();
    for id in &listed {
        let id = id.as_str().unwrap();
        fits(
            "workflow-definition.schema.json",
            &client.get(&format!("/v1/workflows/{id}")).is(200),
        );
        let end = drive(&client, id).map_or_else(
            || "refused".to_owned(),
            |shown| shown["status"].as_str().unwrap().to_owned(),
        );
        println!("{id}: {end}");
        *ends.entry(end).or_default() += 1;
    }
    println!("{ends:?}");
    assert!(ends["completed"] > 25, "{ends:?}");
    fits("error-envelope.schema.json", &client.get("/v1/runs/run-nowhere").json());
    drop(host);
    bench.verify();
}
