//! What clients meet at the edge of the HTTP host: traces, limits for whoever has no key, and what
//! is refused before anything is looked up.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod serving;

use std::fs;

use common::Bench;
use serde_json::{Value, json};
use serving::{ALL, Answer, Client, is_over, key, node, serve, workflow};

fn bench() -> Bench {
    let bench = Bench::new();
    workflow(&bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    let child = json!({"workflowId": "plain", "waitForCompletion": true});
    workflow(&bench, "parent", &[node("call", "core.subWorkflow", &child)], &[]);
    bench
}

fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let lines = answer.head.lines().filter_map(|line| line.split_once(": "));
    lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn begin(client: &Client<'_>, path: &str, body: &Value, traced: bool) -> (String, Answer) {
    let headers = [("traceparent", PARENT)];
    let headers = if traced { &headers[..] } else { &[] };
    let answer = client.try_send("POST", path, headers, Some(body)).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let run = answer.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(client.until(&run, is_over)["status"], "completed");
    (run, answer)
}

fn spans(client: &Client<'_>, run: &str) -> Vec<Value> {
    let bundle = client.get(&format!("/v1/runs/{run}/debug-bundle")).is(200);
    bundle["spans"].as_array().unwrap().clone()
}

#[test]
fn a_trace_goes_from_the_client_through_runs_and_their_children() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let (run, answer) = begin(&client, "/v1/runs", &json!({"workflowId": "parent"}), true);
    let told: Vec<&str> = header(&answer, "traceparent").unwrap().split('-').collect();
    assert_eq!(told[1], TRACE);
    let own = spans(&client, &run);
    assert_eq!((&own[0]["name"], &own[0]["traceId"]), (&json!("openwop.run"), &json!(TRACE)));
    assert_eq!(own[0]["parentSpanId"], told[2], "the run is beneath the request that began it");
    assert_eq!(own[1]["name"], "openwop.node.core.subWorkflow");
    assert_eq!(own[1]["parentSpanId"], own[0]["spanId"]);
    assert_eq!(own[1]["attributes"]["openwop.node_attempt"], 0);
    assert!(own.iter().all(|span| span["endedAt"].is_string()), "{own:#?}");
    let child = client.run(&run)["childRuns"][0]["runId"].as_str().unwrap().to_owned();
    let below = spans(&client, &child);
    assert_eq!(below[0]["traceId"], TRACE);
    assert_eq!(below[0]["parentSpanId"], own[1]["spanId"], "a child is beneath its node");
    assert_eq!(below[0]["attributes"]["openwop.parent.run_id"], run);
    assert!(!client.events(&run).iter().any(|event| event.to_string().contains(TRACE)));
    assert_eq!(spans(&client, &run), own, "the same whenever it is asked for");
}

#[test]
fn a_fork_stays_in_the_trace_unless_its_client_has_one() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let wanted = json!({"workflowId": "plain"});
    let (traced, _) = begin(&client, "/v1/runs", &wanted, true);
    let (untraced, answer) = begin(&client, "/v1/runs", &wanted, false);
    let begun = header(&answer, "traceparent").unwrap().split('-').nth(1).unwrap().to_owned();
    assert_ne!(begun, TRACE);
    assert_eq!(spans(&client, &untraced)[0]["traceId"], begun, "a trace is begun where none was");
    let replay = json!({"mode": "replay"});
    let fork = |source: &str, traced: bool| {
        let (fork, _) = begin(&client, &format!("/v1/runs/{source}:fork"), &replay, traced);
        let diff = client.get(&format!("/v1/runs/{source}:diff?against={fork}")).is(200);
        assert_eq!(diff["divergedAtSeq"], Value::Null, "traces make no difference");
        spans(&client, &fork)[0]["traceId"].as_str().unwrap().to_owned()
    };
    assert_eq!(fork(&traced, false), TRACE);
    assert_eq!(fork(&untraced, false), begun);
    assert_eq!(fork(&untraced, true), TRACE);
}

#[test]
fn whoever_has_no_key_is_not_told_so_without_end() {
    let bench = bench();
    let config = bench.home().join("countersign.toml");
    let text = fs::read_to_string(&config).unwrap();
    let slower =
        text.replace("requests_per_second_of_address = 50", "requests_per_second_of_address = 3");
    assert_ne!(text, slower);
    fs::write(&config, slower).unwrap();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let (stranger, client) =
        (Client { port: host.port, key: "csk_nobody" }, Client { port: host.port, key: &key });
    let answers: Vec<Answer> = (0..40).map(|_| stranger.get("/v1/runs/run-nowhere")).collect();
    assert!(answers[..3].iter().all(|answer| answer.status == 401), "{answers:?}");
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(limited.len() > 10, "{answers:?}");
    for answer in limited {
        let (envelope, seconds) = (answer.json(), header(answer, "retry-after").unwrap());
        assert_eq!(
            (&envelope["error"], &envelope["details"]["scope"]),
            (&json!("rate_limited"), &json!("key"))
        );
        let millis = envelope["details"]["retryAfterMs"].as_u64().unwrap();
        assert!((seconds.parse::<u64>().unwrap() * 1000).abs_diff(millis) <= 1500, "{answer:?}");
    }
    let tokens = (0..20).filter(|_| stranger.get("/v1/interrupts/some.token").status == 429);
    assert!(tokens.count() > 5, "also for tokens");
    assert_eq!(client.get("/v1/runs/run-nowhere").status, 404, "a good key is served");
    stranger.get("/.well-known/openwop").is(200);
}

#[test]
fn another_engine_is_for_test_keys_and_there_is_no_registry() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let wanted = json!({"workflowId": "plain"});
    let forced = [("X-Force-Engine-Version", "2")];
    let refused = client.try_send("POST", "/v1/runs", &forced, Some(&wanted)).unwrap().is(403);
    assert_eq!(refused["error"], "force_engine_version_forbidden");
    let keyless = Client { port: host.port, key: "" };
    for path in [
        "/v1/packs",
        "/v1/packs/a/index.json",
        "/v1/packs-test/a/-/1.tgz",
        "/v1/packs/-/search?q=a",
    ] {
        for answer in [client.get(path), keyless.get(path)] {
            let kind = header(&answer, "content-type").unwrap();
            assert_eq!((answer.status, kind.starts_with("text/plain")), (404, true), "{answer:?}");
            assert!(serde_json::from_str::<Value>(&answer.text).is_err(), "{answer:?}");
        }
    }
    let found = keyless.get("/.well-known/openwop");
    let again = client.get("/.well-known/openwop");
    assert!(header(&found, "capabilities-etag").is_some());
    assert_eq!(header(&found, "capabilities-etag"), header(&again, "capabilities-etag"));
    assert_eq!(header(&found, "cache-control"), Some("public, max-age=300"));
    assert_eq!(header(&found, "traceparent"), None, "what caches keep is in nobody's trace");
}
