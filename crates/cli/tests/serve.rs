//! The HTTP host as a process of its own: runs over real sockets, restarts, and kills.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod serving;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::Bench;
use serde_json::{Value, json};
use serving::{ALL, Client, is_over, key, node, serve, workflow};

fn bench() -> Bench {
    let bench = Bench::new();
    workflow(&bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    workflow(&bench, "slow", &[node("a", "core.delay", &json!({"ms": 3_600_000}))], &[]);
    let gate = json!({"title": "go on?", "actions": ["accept", "reject"]});
    workflow(&bench, "asks", &[node("gate", "core.approvalGate", &gate)], &[]);
    bench
}

#[test]
fn a_run_goes_from_a_request_to_its_end() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let run = client.start("plain", &json!({}));
    let shown = client.until(&run, is_over);
    assert_eq!((&shown["status"], &shown["owner"]["tenant"]), (&json!("completed"), &json!("one")));
    let events = client.events(&run);
    let sequences: Vec<_> =
        events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, [0, 1, 2, 3]);
    let stream = client.get(&format!("/v1/runs/{run}/events?streamMode=debug"));
    assert_eq!(stream.text.matches("\nevent: ").count() + 1, 4 + 1, "{}", stream.text);
    let found = client.get("/.well-known/openwop").is(200);
    assert_eq!(found["fixtures"], json!([]), "no fixture without the switch");
    assert!(client.get("/v1/openapi.json").is(200)["paths"]["/v1/runs"].is_object());
    drop(host);
    bench.verify();
}

#[test]
fn tenants_see_nothing_of_each_other() {
    let bench = bench();
    let (one, two) = (key(&bench, "agent:a", "one", ALL), key(&bench, "agent:b", "two", ALL));
    let host = serve(&bench, &[]);
    let (ours, theirs) =
        (Client { port: host.port, key: &one }, Client { port: host.port, key: &two });
    let run = ours.start("asks", &json!({}));
    for (method, path) in [
        ("GET", "/v1/runs/ID"),
        ("GET", "/v1/runs/ID/events"),
        ("GET", "/v1/runs/ID/events/poll"),
        ("GET", "/v1/runs/ID/debug-bundle"),
        ("GET", "/v1/runs/ID/ancestry"),
        ("GET", "/v1/runs/ID:diff?against=ID"),
        ("POST", "/v1/runs/ID/cancel"),
        ("POST", "/v1/runs/ID:pause"),
        ("POST", "/v1/runs/ID:resume"),
        ("POST", "/v1/runs/ID:fork"),
        ("POST", "/v1/runs/ID/interrupts/gate"),
    ] {
        let body = match path {
            "/v1/runs/ID:fork" => Some(json!({"mode": "replay"})),
            "/v1/runs/ID/interrupts/gate" => Some(json!({"resumeValue": {"action": "accept"}})),
            _ => (method == "POST").then(|| json!({})),
        };
        let foreign = theirs.send(method, &path.replace("ID", &run), body.as_ref());
        let absent = theirs.send(method, &path.replace("ID", "run-nowhere"), body.as_ref());
        assert_eq!(foreign.status, 404, "{method} {path}: {foreign:?}");
        assert_eq!(foreign.text, absent.text, "{method} {path}");
    }
    assert_eq!(ours.run(&run)["status"], "waiting-approval");
    let wanted = json!({"workflowId": "plain", "tenantId": "two"});
    assert_eq!(ours.post("/v1/runs", &wanted).status, 403);
}

#[test]
fn a_key_is_good_for_what_it_names_and_nothing_else() {
    let bench = bench();
    let reader = key(&bench, "agent:a", "one", "runs:read");
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &reader };
    let wanted = json!({"workflowId": "plain"});
    assert_eq!(client.post("/v1/runs", &wanted).is(403)["error"], "forbidden");
    assert_eq!(client.get("/v1/runs/run-nowhere").status, 404);
    let stranger = Client { port: host.port, key: "csk_nothing" };
    assert_eq!(stranger.get("/v1/runs/run-nowhere").is(401)["error"], "unauthenticated");
}

#[test]
fn questions_are_answered_by_key_and_by_token_once() {
    let bench = bench();
    let (machine, key) = (key(&bench, "agent:a", "one", ALL), key(&bench, "human:h", "one", ALL));
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let accept = json!({"resumeValue": {"action": "accept"}});
    let run = client.start("asks", &json!({}));
    // Whoever asks for approval does not give it.
    let agent = Client { port: host.port, key: &machine };
    assert_eq!(agent.run(&run)["interrupt"]["interruptToken"], Value::Null);
    assert_eq!(agent.post(&format!("/v1/runs/{run}/interrupts/gate"), &accept).status, 403);
    let token = client.run(&run)["interrupt"]["interruptToken"].as_str().unwrap().to_owned();
    let keyless = Client { port: host.port, key: "" };
    let path = format!("/v1/interrupts/{token}");
    assert_eq!(keyless.get(&path).is(200)["nodeId"], "gate");
    keyless.post(&path, &accept).is(200);
    assert_eq!(client.until(&run, is_over)["status"], "completed");
    assert!([409, 410].contains(&keyless.post(&path, &accept).status));
    let forged = format!("{}x", path);
    assert_eq!(keyless.post(&forged, &accept).status, 404);
    let other = client.start("asks", &json!({}));
    let node = format!("/v1/runs/{other}/interrupts/gate");
    assert_eq!(client.post(&node, &json!({"resumeValue": {"action": "sing"}})).status, 400);
    client.post(&node, &accept).is(200);
    assert_eq!(client.until(&other, is_over)["status"], "completed");
}

#[test]
fn a_stream_ends_with_the_key_that_it_was_opened_with() {
    let bench = bench();
    let scopes = "runs:create,runs:read,approvals:respond";
    let (key, other) = (key(&bench, "human:h", "one", scopes), key(&bench, "human:i", "one", ALL));
    let host = serve(&bench, &[]);
    let run = Client { port: host.port, key: &key }.start("asks", &json!({}));
    let stream = std::thread::spawn({
        let (port, key, run) = (host.port, key.clone(), run.clone());
        move || Client { port, key: &key }.get(&format!("/v1/runs/{run}/events?streamMode=debug"))
    });
    // It is asked about once a second.
    std::thread::sleep(Duration::from_millis(1200));
    let id = key.split('_').nth(1).unwrap();
    bench.run(&["key", "revoke", id, "--as", "human:ann"]).ok();
    let client = Client { port: host.port, key: &other };
    let accept = json!({"resumeValue": {"action": "accept"}});
    client.post(&format!("/v1/runs/{run}/interrupts/gate"), &accept).is(200);
    let seen = stream.join().unwrap().text;
    assert!(seen.contains("interrupt.requested") && !seen.contains("run.completed"), "{seen}");
    assert_eq!(client.until(&run, is_over)["status"], "completed");
}

#[test]
fn a_fork_is_the_run_of_whoever_asks_for_it_and_made_once() {
    let bench = bench();
    let (first, second) = (key(&bench, "human:h", "one", ALL), key(&bench, "agent:a", "one", ALL));
    let mut host = serve(&bench, &[]);
    let run = Client { port: host.port, key: &first }.start("plain", &json!({}));
    let fork = |port: u16| {
        let (path, headers) = (format!("/v1/runs/{run}:fork"), [("Idempotency-Key", "f")]);
        let wanted = json!({"mode": "branch", "fromSeq": 0});
        Client { port, key: &second }.try_send("POST", &path, &headers, Some(&wanted)).unwrap()
    };
    let forked = fork(host.port);
    let id = forked.clone().is(201)["runId"].as_str().unwrap().to_owned();
    let shown = Client { port: host.port, key: &first }.until(&id, is_over);
    assert_eq!(shown["owner"]["principal"], "agent:a", "its calls are made with these rights");
    host.child.kill().unwrap();
    let host = serve(&bench, &[]);
    assert_eq!(fork(host.port).text, forked.text);
}

#[test]
fn the_same_request_is_done_once_also_after_a_restart() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let wanted = json!({"workflowId": "plain"});
    let headers = [("Idempotency-Key", "k1")];
    let ask = |port: u16, body: &Value| {
        Client { port, key: &key }.try_send("POST", "/v1/runs", &headers, Some(body)).unwrap()
    };
    let mut host = serve(&bench, &[]);
    let first = ask(host.port, &wanted);
    let again = ask(host.port, &wanted);
    assert_eq!((again.status, &again.text), (201, &first.text));
    assert!(again.head.to_lowercase().contains("openwop-idempotent-replay: true"), "{again:?}");
    host.child.kill().unwrap();
    let host = serve(&bench, &[]);
    assert_eq!(ask(host.port, &wanted).text, first.text);
    assert_eq!(ask(host.port, &json!({"workflowId": "asks"})).status, 409);
}

#[test]
fn one_live_run_of_a_scope_if_that_is_wanted() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let wanted = json!({"workflowId": "asks", "scopeId": "s"});
    let ask = || client.try_send("POST", "/v1/runs", &[("X-Dedup", "enforce")], Some(&wanted));
    let first = ask().unwrap().is(201);
    let second = ask().unwrap().is(409);
    assert_eq!(second["error"], "run_already_active");
    assert_eq!(second["details"]["activeRunId"], first["runId"]);
}

/// Bad input gives an envelope and leaves the host as it was.
#[test]
fn what_is_wrong_is_told_in_one_shape() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    for (path, body, status) in [
        ("/v1/runs", json!({}), 400),
        ("/v1/runs", json!({"workflowId": 7}), 400),
        ("/v1/runs", json!({"workflowId": "../../etc/passwd"}), 404),
        ("/v1/runs", json!({"workflowId": "plain", "inputs": []}), 400),
        ("/v1/runs", json!({"workflowId": "plain", "configurable": {"recursionLimit": -1}}), 400),
        ("/v1/runs", json!({"workflowId": "plain", "inputs": {"x": deep}}), 400),
        ("/v1/runs", json!({"workflowId": "plain", "inputs": {"x": "y".repeat(3 << 20)}}), 413),
        ("/v1/runs:bulk-cancel", json!({"runIds": []}), 400),
        ("/v1/runs/..%2f..%2fstate:pause", json!({}), 404),
    ] {
        let answer = client.post(path, &body);
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let envelope = answer.json();
        let members: Vec<_> = envelope.as_object().unwrap().keys().cloned().collect();
        assert!(members.iter().all(|m| ["error", "message", "details"].contains(&m.as_str())));
    }
    for path in ["/v1/runs/x/events/poll?lastSequence=-1", "/v1/nothing", "/v1/host/sample/x"] {
        assert!([400, 404].contains(&client.get(path).status), "{path}");
    }
    client.start("plain", &json!({}));
}

/// Every run that was acknowledged is there and comes to its one end, however often the host dies.
#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_host_is_killed() {
    let bench = bench();
    let chain: Vec<_> = (0..3).map(|n| node(&format!("n{n}"), "core.noop", &json!({}))).collect();
    let wait = node("wait", "core.delay", &json!({"ms": 30}));
    let nodes = [&chain[..], &[wait]].concat();
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to});
    workflow(&bench, "chain", &nodes, &[edge("n0", "n1"), edge("n1", "wait"), edge("wait", "n2")]);
    let key = key(&bench, "agent:a", "one", ALL);
    let kills: usize = std::env::var("COUNTERSIGN_KILLS").map_or(25, |text| text.parse().unwrap());
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..kills {
        let mut host = serve(&bench, &[]);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let client = Client { port: host.port, key: &key };
                    while !over.load(Ordering::Relaxed) {
                        let wanted = json!({"workflowId": "chain"});
                        let begun = client.try_send("POST", "/v1/runs", &[], Some(&wanted));
                        if let Some(begun) = begun.filter(|begun| begun.status == 201) {
                            let run = begun.json()["runId"].as_str().unwrap().to_owned();
                            acknowledged.lock().unwrap().push(run);
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20 + (round as u64 * 37) % 150));
            kill(&host.child);
            over.store(true, Ordering::Relaxed);
        });
        host.child.wait().unwrap();
    }
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() > kills, "{} runs", acknowledged.len());
    for run in &acknowledged {
        assert_eq!(client.until(run, is_over)["status"], "completed", "{run}");
        let events = client.events(run);
        for (place, event) in events.iter().enumerate() {
            assert_eq!(event["sequence"], place, "{run}");
        }
        let ends = events.iter().filter(|event| event["type"] == "run.completed").count();
        assert_eq!((ends, &events.last().unwrap()["type"]), (1, &json!("run.completed")));
    }
    drop(host);
    bench.verify();
}

fn kill(child: &std::process::Child) {
    let id = i32::try_from(child.id()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
}

/// A host that is asked to stop finishes what it began, and the next one goes on.
#[test]
fn a_host_stops_in_order() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", ALL);
    let mut host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let run = client.start("slow", &json!({}));
    let stream = {
        let (port, key, run) = (host.port, key.clone(), run.clone());
        std::thread::spawn(move || {
            Client { port, key: &key }.get(&format!("/v1/runs/{run}/events"))
        })
    };
    std::thread::sleep(Duration::from_millis(200));
    let id = i32::try_from(host.child.id()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(host.child.wait().unwrap().success());
    assert!(stream.join().unwrap().text.contains("run.started"), "streams end with the host");
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    client.post(&format!("/v1/runs/{run}/cancel"), &json!({})).is(200);
    assert_eq!(client.until(&run, is_over)["status"], "cancelled");
}
