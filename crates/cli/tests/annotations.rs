//! What people say of runs, over real sockets: kept, listed, cleaned, and nobody else's business.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod serving;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use common::Bench;
use judge::fits;
use serde_json::{Value, json};
use serving::{ALL, Client, is_over, key, node, serve, workflow};

fn bench() -> Bench {
    let bench = Bench::new();
    workflow(&bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    workflow(&bench, "slow", &[node("a", "core.delay", &json!({"ms": 3_600_000}))], &[]);
    bench
}

fn told(client: &Client<'_>, run: &str) -> Vec<Value> {
    let found = client.get(&format!("/v1/runs/{run}/annotations")).is(200);
    found["annotations"].as_array().unwrap().clone()
}

#[test]
fn what_is_said_is_kept_and_listed_in_order() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let found = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    assert_eq!(found["feedback"]["targets"], json!(["run", "event", "node"]));
    let run = client.start("plain", &json!({}));
    client.until(&run, is_over);
    let path = format!("/v1/runs/{run}/annotations");
    assert_eq!(told(&client, &run), [] as [Value; 0]);
    let event = client.events(&run)[1]["eventId"].clone();
    let all = [
        json!({"signal": {"kind": "rating", "rating": 5}}),
        json!({"signal": {"kind": "correction", "correction": "42"}, "target": {"nodeId": "a"}}),
        json!({"signal": {"kind": "label", "label": "good"}, "target": {"eventId": event}}),
        json!({"signal": {"kind": "flag"}, "note": "look at this"}),
    ];
    let events = client.events(&run);
    for wanted in &all {
        fits("annotation-create.schema.json", wanted);
        let kept = client.post(&path, wanted).is(201);
        fits("annotation.schema.json", &kept);
        assert_eq!(kept["signal"], wanted["signal"]);
        assert_eq!(kept["target"]["runId"], json!(run));
        assert_eq!(kept["actor"]["principalRef"], "agent:a");
    }
    let listed = told(&client, &run);
    let signals: Vec<_> = listed.iter().map(|one| &one["signal"]).collect();
    assert_eq!(signals, all.iter().map(|one| &one["signal"]).collect::<Vec<_>>());
    assert_eq!(listed[2]["target"]["eventId"], event);
    assert_eq!(client.events(&run), events, "no event of the run");
    let fork = client.post(&format!("/v1/runs/{run}:fork"), &json!({"mode": "replay"})).is(201);
    assert_eq!(told(&client, fork["runId"].as_str().unwrap()), [] as [Value; 0]);
    drop(host);
    bench.verify();
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let (run, other) = (client.start("slow", &json!({})), client.start("slow", &json!({})));
    let path = format!("/v1/runs/{run}/annotations");
    let foreign = client.events(&other)[0]["eventId"].clone();
    for (body, word) in [
        (json!({}), "signal"),
        (json!({"signal": {}}), "kind"),
        (json!({"signal": {"kind": "praise"}}), "praise"),
        (json!({"signal": {"kind": "rating"}}), "signal.rating"),
        (json!({"signal": {"kind": "rating", "rating": 0}}), "signal.rating"),
        (json!({"signal": {"kind": "rating", "rating": 6}}), "signal.rating"),
        (json!({"signal": {"kind": "rating", "rating": 4.5}}), "4.5"),
        (json!({"signal": {"kind": "label"}}), "signal.label"),
        (json!({"signal": {"kind": "label", "label": "x".repeat(257)}}), "signal.label"),
        (json!({"signal": {"kind": "correction"}}), "signal.correction"),
        (json!({"signal": {"kind": "flag", "color": "red"}}), "color"),
        (json!({"signal": ["flag", null, null, null]}), "map"),
        (json!({"signal": {"kind": "flag"}, "target": [null, null]}), "map"),
        (json!({"signal": {"kind": "rating", "rating": null}}), "signal.rating"),
        (json!({"signal": {"kind": "flag"}, "extra": 1}), "extra"),
        (json!({"signal": {"kind": "flag"}, "target": {"runId": run}}), "runId"),
        (json!({"signal": {"kind": "flag"}, "target": {"nodeId": "b"}}), "target.nodeId"),
        (json!({"signal": {"kind": "flag"}, "target": {"eventId": foreign}}), "target.eventId"),
        (
            json!({"signal": {"kind": "flag"}, "target": {"eventId": format!("{run}-e99")}}),
            "eventId",
        ),
        (json!({"signal": {"kind": "flag"}, "note": "x".repeat(20_000)}), "note"),
    ] {
        let refused = client.post(&path, &body).is(400);
        fits("error-envelope.schema.json", &refused);
        assert!(refused["message"].as_str().unwrap().contains(word), "{word}: {refused:#}");
    }
    assert_eq!(told(&client, &run), [] as [Value; 0]);
}

#[test]
fn secrets_are_taken_out_before_anything_is_recorded() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let run = client.start("plain", &json!({}));
    let secret = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
    let wanted = json!({"signal": {"kind": "correction", "correction": format!("use {secret}")},
        "note": format!("not {secret}")});
    let path = format!("/v1/runs/{run}/annotations");
    let kept = client.try_send("POST", &path, &[("Idempotency-Key", "k1")], Some(&wanted)).unwrap();
    assert!(!kept.text.contains(&secret), "{kept:?}");
    assert!(!told(&client, &run)[0].to_string().contains(&secret));
    drop(host);
    for (name, content) in everything(&bench.home().join("state")) {
        let found = content.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!found, "{name}");
    }
}

fn everything(root: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(everything(&path)),
            false => {
                found.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()))
            }
        }
    }
    found
}

#[test]
fn others_see_nothing_and_keys_are_good_for_what_they_name() {
    let bench = bench();
    let (one, two) = (key(&bench, "agent:a", "one", ALL), key(&bench, "agent:b", "two", ALL));
    let reader = key(&bench, "agent:c", "one", "runs:read");
    let writer = key(&bench, "agent:d", "one", "approvals:respond");
    let host = serve(&bench, &[]);
    let client = |key| Client { port: host.port, key };
    let run = client(&one).start("plain", &json!({}));
    let path = format!("/v1/runs/{run}/annotations");
    let flag = json!({"signal": {"kind": "flag"}});
    client(&one).post(&path, &flag).is(201);
    for (method, body) in [("GET", None), ("POST", Some(&flag))] {
        let theirs = client(&two).send(method, &path, body);
        let absent = client(&two).send(method, "/v1/runs/run-nowhere/annotations", body);
        assert_eq!((theirs.status, &theirs.text), (404, &absent.text));
        assert_eq!(client("csk_nothing").send(method, &path, body).status, 401);
        assert_eq!(client(&one).send("PATCH", &path, body).status, 405);
    }
    assert_eq!(client(&reader).post(&path, &flag).is(403)["error"], "forbidden");
    assert_eq!(client(&writer).get(&path).is(403)["error"], "forbidden");
    client(&writer).post(&path, &flag).is(201);
    assert_eq!(told(&client(&reader), &run).len(), 2);
}

#[test]
fn a_kill_loses_nothing_and_asking_again_adds_nothing() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let mut host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let run = client.start("slow", &json!({}));
    let path = format!("/v1/runs/{run}/annotations");
    let flag = json!({"signal": {"kind": "flag"}});
    let first =
        client.try_send("POST", &path, &[("Idempotency-Key", "k")], Some(&flag)).unwrap().is(201);
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let again = client.try_send("POST", &path, &[("Idempotency-Key", "k")], Some(&flag)).unwrap();
    assert!(again.head.to_ascii_lowercase().contains("openwop-idempotent-replay: true"));
    assert_eq!(again.is(201), first);
    assert_eq!(told(&client, &run), [first]);
    drop(host);
    bench.verify();
}

#[test]
fn who_follows_a_run_is_told_at_once() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let run = client.start("slow", &json!({}));
    let path = format!("/v1/runs/{run}/annotations");
    let flag = json!({"signal": {"kind": "flag"}});
    client.post(&path, &flag).is(201);
    let stream = |mode: &str| {
        let mut socket = TcpStream::connect(("127.0.0.1", host.port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let head = format!(
            "GET /v1/runs/{run}/events?streamMode={mode} HTTP/1.1\r\nHost: 127.0.0.1\r\n\
             Authorization: Bearer {key}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut lines = BufReader::new(socket).lines();
        lines.find(|line| line.as_ref().unwrap().contains("run.started")).unwrap().unwrap();
        lines
    };
    let (mut updates, mut everything) = (stream("updates"), stream("debug"));
    let kept = client.post(&path, &flag).is(201);
    for lines in [&mut updates, &mut everything] {
        let told = lines.find(|line| line.as_ref().unwrap().starts_with("event: run.annotated"));
        assert!(told.unwrap().is_ok());
        let data = lines.next().unwrap().unwrap();
        let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&data["payload"], &data["runId"]), (&kept, &json!(run)));
    }
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).is(200);
    let rest: Vec<_> = updates.map_while(Result::ok).collect();
    assert!(rest.iter().any(|line| line.contains("run.cancelled")), "{rest:?}");
    assert!(!rest.iter().any(|line| line.contains("run.annotated")), "told once: {rest:?}");
}
