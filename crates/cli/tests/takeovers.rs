//! A host that is killed while runs are running, and the next one that goes on with them.
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
use judge::schemas::check;
use serde_json::{Value, json};
use serving::{ALL, Client, is_over, key, node, serve, workflow};

#[test]
fn runs_that_were_running_are_resumed_once_a_host() {
    let bench = Bench::new();
    workflow(&bench, "slow", &[node("wait", "core.delay", &json!({"ms": 4000}))], &[]);
    workflow(&bench, "asks", &[node("gate", "core.approvalGate", &json!({}))], &[]);
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let slow: Vec<String> = (0..3).map(|_| client.start("slow", &json!({}))).collect();
    let asks = client.start("asks", &json!({}));
    drop(host);
    let kinds = |client: &Client<'_>, run: &str| -> Vec<String> {
        let events = client.events(run);
        events.iter().for_each(check);
        let places: Vec<u64> = events.iter().map(|e| e["sequence"].as_u64().unwrap()).collect();
        assert_eq!(places, (0..places.len() as u64).collect::<Vec<_>>(), "no gap");
        events.iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    };
    for hosts in 1..=2 {
        let host = serve(&bench, &[]);
        let client = Client { port: host.port, key: &key };
        for run in &slow {
            let resumed = || kinds(&client, run).iter().filter(|k| *k == "run.resumed").count();
            for _ in 0..200 {
                if resumed() == hosts {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            assert_eq!(resumed(), hosts);
        }
        assert_eq!(client.run(&asks)["status"], "waiting-approval");
        assert!(!kinds(&client, &asks).contains(&"run.resumed".to_owned()));
    }
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for run in &slow {
        assert_eq!(client.until(run, is_over)["status"], "completed");
        let told = kinds(&client, run);
        let expected = [
            "run.started",
            "node.started",
            "run.resumed",
            "run.resumed",
            "run.resumed",
            "node.completed",
            "run.completed",
        ];
        assert_eq!(told, expected);
        let fork = client.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"})).is(201);
        let fork = fork["runId"].as_str().unwrap().to_owned();
        client.until(&fork, is_over);
        let diff = client.get(&format!("/v1/runs/{run}:diff?against={fork}")).is(200);
        assert_eq!(diff["divergedAtSeq"], Value::Null, "{diff:#}");
    }
    drop(host);
    bench.verify();
}
