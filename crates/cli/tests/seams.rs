//! What a conformance suite does to the host beside the protocol, through the real binary: memories,
//! secrets, models that say what they are told, gates, and who may read a run.
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

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::Stdio;

use common::Bench;
use judge::schemas::{check, judge};
use serde_json::{Value, json};
use serving::{ALL, Client, Serving, fixtures, is_over, key, node, serve, workflow};

#[track_caller]
fn fits(schema: &str, value: &Value) {
    let Some(validator) = judge(schema) else { return };
    let errors: Vec<_> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{schema}: {errors:#?}\n{value:#}");
}

/// Runs a workflow to its end; all of its events are as published.
fn run(client: &Client<'_>, id: &str) -> (Value, Vec<Value>) {
    let run = client.start(id, &json!({}));
    let shown = client.until(&run, is_over);
    fits("run-snapshot.schema.json", &shown);
    let events = client.events(&run);
    events.iter().for_each(check);
    (shown, events)
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}

fn place(events: &[Value], kind: &str) -> usize {
    events.iter().position(|event| event["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn memories_are_written_read_redacted_aged_and_kept_apart() {
    let bench = Bench::new();
    if fixtures(&bench).is_none() {
        return;
    }
    let (one, two) = (key(&bench, "agent:a", "one", ALL), key(&bench, "agent:b", "two", ALL));
    let host = serve(&bench, &["--conformance"]);
    let [mine, other] = [&one, &two].map(|key| Client { port: host.port, key });
    let found = mine.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    assert_eq!(found["memory"]["supported"], true);
    assert_eq!(found["agents"]["memoryBackends"], json!(["long-term"]));

    let (shown, events) = run(&mine, "conformance-agent-memory-roundtrip");
    assert_eq!(shown["status"], "completed");
    assert_eq!(shown["agent"]["memoryRef"], "conformance/agent-memory-roundtrip");
    let read = &shown["variables"]["memoryReadback"];
    fits("memory-entry.schema.json", read);
    let written = &events[place(&events, "memory.written")]["payload"];
    assert_eq!(written["memoryId"], read["id"]);
    assert!(!written.to_string().contains(read["content"].as_str().unwrap()), "{written}");
    assert!(place(&events, "memory.written") < place(&events, "node.completed"));

    let (shown, _) = run(&mine, "conformance-agent-memory-redaction");
    let content = shown["variables"]["memoryReadback"]["content"].as_str().unwrap().to_owned();
    assert!(content.contains("[REDACTED:conformance-test-secret]"), "{shown:#}");

    let (shown, events) = run(&mine, "conformance-agent-memory-ttl");
    assert_eq!(count(&events, "memory.written"), 2);
    let listed = shown["variables"]["memoryList"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    fits("memory-entry.schema.json", &listed[0]);
    let (shown, _) = run(&mine, "conformance-agent-memory-ttl");
    assert_eq!(shown["variables"]["memoryList"].as_array().unwrap().len(), 2, "it lasts");
    let (shown, _) = run(&other, "conformance-agent-memory-ttl");
    assert_eq!(shown["variables"]["memoryList"].as_array().unwrap().len(), 1, "nobody else's");

    let (shown, _) = run(&mine, "conformance-agent-memory-cross-tenant");
    assert_eq!(shown["variables"]["crossTenantProbe"], json!([]));
    let own = shown["variables"]["ownerProbe"].as_array().unwrap();
    assert!(own.iter().any(|entry| entry["id"] == shown["variables"]["ownerEntryId"]), "{own:?}");
    drop(host);
    bench.verify();
}

const CANARY: &str = "a canary that sings 7f3a-91c2 all day";

/// A host with a secret that the test knows, and its log.
fn serve_with_canary(bench: &Bench) -> Serving {
    let args = ["--json", "serve", "--listen", "127.0.0.1:0", "--conformance"];
    let log = fs::File::create(bench.home().join("serve.log")).unwrap();
    let mut command = bench.command(&args);
    command.env("OPENWOP_CANARY_SECRET_VALUE", CANARY).env("COUNTERSIGN_LOG", "trace");
    let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let told: Value = serde_json::from_str(&line).unwrap();
    let port = told["url"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
    Serving { child, port }
}

/// Files beneath a directory that hold a text.
fn holding(directory: &Path, text: &str, files: &mut usize) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, text, files));
            continue;
        }
        let mut bytes = Vec::new();
        if fs::File::open(&path).and_then(|mut file| file.read_to_end(&mut bytes)).is_ok() {
            *files += 1;
            if bytes.windows(text.len()).any(|part| part == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_secret_is_resolved_and_comes_out_nowhere() {
    let bench = Bench::new();
    if fixtures(&bench).is_none() {
        return;
    }
    // A workflow that would remember it in plain, and one that asks for what is not held.
    workflow(
        &bench,
        "tells",
        &[node(
            "node",
            "core.identity",
            &json!({"memoryAction": "redaction-probe",
                "byokSecretId": "openwop-conformance-canary-secret"}),
        )],
        &[],
    );
    workflow(
        &bench,
        "asks",
        &[node("node", "conformance.secret.echo", &json!({"secretId": "none"}))],
        &[],
    );
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve_with_canary(&bench);
    let client = Client { port: host.port, key: &key };
    let mut bodies = vec![client.get("/.well-known/openwop").text];
    let (shown, events) = run(&client, "openwop-smoke-byok-roundtrip");
    assert_eq!(shown["status"], "completed", "{shown:#}");
    let bytes = countersign_model::Digest::of(CANARY.as_bytes()).into_bytes();
    let sha: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    for place in [&shown["variables"], &shown["variables"]["resolve-secret"]] {
        assert_eq!(place["secretSha256"], json!(sha));
        assert_eq!(place["secretLength"], CANARY.len());
    }
    assert_eq!(count(&events, "node.completed"), 1);
    let (told, more) = run(&client, "tells");
    let read = told["variables"]["memoryReadback"]["content"].as_str().unwrap();
    assert!(read.contains("[REDACTED:openwop-conformance-canary-secret]"), "{read}");
    let (asked, _) = run(&client, "asks");
    assert_eq!(asked["error"]["code"], "credential_not_found");
    bodies.extend([&events, &more].map(|events| json!(events).to_string()));
    for shown in [&shown, &told, &asked] {
        let run = shown["runId"].as_str().unwrap();
        for path in ["", "/events", "/debug-bundle", "/events/poll?timeout=1"] {
            bodies.push(client.get(&format!("/v1/runs/{run}{path}")).text);
        }
    }
    let path = format!(
        "/v1/runs/{}:diff?against={}",
        shown["runId"].as_str().unwrap(),
        told["runId"].as_str().unwrap()
    );
    bodies.push(client.get(&path).text);
    for body in &bodies {
        assert!(!body.contains(CANARY), "{body}");
    }
    let mut files = 0;
    assert_eq!(holding(&bench.home(), CANARY, &mut files), Vec::<String>::new());
    assert!(files > 90, "{files}");
    assert!(fs::metadata(bench.home().join("serve.log")).unwrap().len() > 0, "there is a log");
    drop(host);
    assert_eq!(holding(&bench.home(), CANARY, &mut files), Vec::<String>::new());
    bench.verify();
}

fn program(client: &Client<'_>, replies: &Value) {
    let given = json!({"nodeId": "structured-call", "program": replies});
    client.post("/v1/host/sample/test/mock-ai/program", &given).is(200);
}

#[test]
fn models_say_what_they_are_told_and_the_run_copes() {
    let bench = Bench::new();
    if fixtures(&bench).is_none() {
        return;
    }
    let (one, two) = (key(&bench, "agent:a", "one", ALL), key(&bench, "agent:b", "two", ALL));
    let host = serve(&bench, &["--conformance"]);
    let [client, other] = [&one, &two].map(|key| Client { port: host.port, key });
    let envelope = |name: &str| run(&client, &format!("conformance-envelope-{name}"));
    let good = json!({"content": "{\"valid\":true}", "stopReason": "end_turn"});

    program(&client, &json!([{"content": "no json CANARY-REPLY"}, good]));
    let (shown, events) = envelope("retry-attempted");
    assert_eq!(
        (shown["status"].as_str(), count(&events, "envelope.retry.attempted")),
        (Some("completed"), 1)
    );
    let retry = &events[place(&events, "envelope.retry.attempted")]["payload"];
    assert_eq!((&retry["attempt"], &retry["reason"]), (&json!(2), &json!("parse-error")));
    assert!(!json!(events).to_string().contains("CANARY-REPLY"));

    program(
        &client,
        &json!([{"content": "x"}, {"content": "y"}, {"content": "z"}, {"content": "w"}]),
    );
    let (shown, events) = envelope("retry-exhausted");
    assert_eq!(shown["error"]["code"], "envelope_payload_invalid");
    assert_eq!(count(&events, "envelope.retry.exhausted"), 1);
    assert!(place(&events, "envelope.retry.exhausted") < place(&events, "node.failed"));

    program(&client, &json!([{"stopReason": "safety", "refusalText": "CANARY-REFUSAL"}]));
    let (shown, events) = envelope("refusal");
    assert_eq!(shown["error"]["code"], "envelope_refused_by_provider");
    assert_eq!(
        (count(&events, "envelope.refusal"), count(&events, "envelope.retry.attempted")),
        (1, 0)
    );
    assert!(!shown.to_string().contains("CANARY-REFUSAL"));
    program(&client, &json!([{"mode": "refusal", "refusalReason": "no"}]));
    assert_eq!(count(&envelope("refusal").1, "envelope.refusal"), 1);

    let cut = json!({"stopReason": "max_tokens", "content": "{\"valid\":"});
    program(&client, &json!([cut, good]));
    let (shown, events) = envelope("truncated");
    assert_eq!(shown["status"], "completed");
    let told = &events[place(&events, "envelope.truncated")]["payload"];
    assert_eq!(
        (&told["stopReason"], &told["partialPayloadAvailable"]),
        (&json!("max_tokens"), &json!(false))
    );
    let budget = "/v1/host/sample/test/mock-ai/last-dispatch-budget?nodeId=structured-call";
    assert_eq!(client.get(budget).is(200)["maxTokens"], 100, "twice the room");
    assert_eq!(other.get(budget).is(200)["maxTokens"], Value::Null);
    program(&client, &json!([{"content": "{}"}, good]));
    assert_eq!(envelope("truncated").0["status"], "completed");
    assert_eq!(client.get(budget).is(200)["maxTokens"], 50, "a wrong form gets no more room");

    program(&client, &json!([cut, cut, cut, cut, cut]));
    let (shown, events) = envelope("truncation-cap-exhaustion");
    assert_eq!(shown["error"]["code"], "envelope_truncation_unrecoverable");
    assert_eq!(count(&events, "envelope.truncated"), 3);
    let told = &events[place(&events, "envelope.retry.exhausted")]["payload"];
    assert_eq!(told["finalReason"], "truncation");

    let words = json!({"content": "Sure, the result is fine."});
    program(&client, &json!([words, words, words, {"content": "{\"result\":\"coerced-ok\"}"}]));
    let (_, events) = envelope("nl-to-format-engaged");
    assert_eq!(count(&events, "envelope.nlToFormat.engaged"), 1);
    let done = &events[place(&events, "node.completed")];
    assert!(done.to_string().contains("coerced-ok"), "{done}");

    program(&client, &json!([{"content": "```json\n{\"result\":\"fenced\"}\n```"}]));
    let (_, events) = envelope("recovery-applied");
    assert_eq!(count(&events, "envelope.retry.attempted"), 0);
    assert_eq!(
        events[place(&events, "envelope.recovery.applied")]["payload"]["path"],
        "markdown-fence"
    );

    // Nobody told it anything: it says nothing, and that is no value.
    program(&client, &json!([good]));
    let (shown, _) = run(&other, "conformance-phase4-replay-divergence");
    assert_eq!(shown["error"]["code"], "envelope_payload_invalid", "another tenant's program");
    client.post("/v1/host/sample/test/reset", &json!({})).is(200);
    let (shown, _) = run(&client, "conformance-phase4-replay-divergence");
    assert_eq!(shown["error"]["code"], "envelope_payload_invalid");

    // A replay goes by what was recorded, whatever the model would say now.
    program(&client, &json!([good]));
    let (shown, events) = run(&client, "conformance-phase4-nondet-tool");
    program(&client, &json!([{"stopReason": "safety", "refusalText": "no"}]));
    let path = format!("/v1/runs/{}:fork", shown["runId"].as_str().unwrap());
    let fork = client.post(&path, &json!({"mode": "replay", "fromSeq": 0})).is(201);
    let fork = fork["runId"].as_str().unwrap().to_owned();
    assert_eq!(client.until(&fork, is_over)["status"], "completed");
    let said = |events: &[Value]| -> Vec<Value> {
        events.iter().map(|e| json!([e["type"], e["nodeId"], e["payload"]])).collect()
    };
    assert_eq!(said(&client.events(&fork)), said(&events));

    for (bad, status) in [
        (json!({"nodeId": "n"}), 400),
        (json!({"nodeId": "", "program": []}), 400),
        (json!({"nodeId": "n", "program": [{"mode": "song"}]}), 400),
        (json!({"nodeId": "n", "program": vec![json!({}); 300]}), 400),
    ] {
        let refused = client.post("/v1/host/sample/test/mock-ai/program", &bad);
        fits("error-envelope.schema.json", &refused.json());
        assert_eq!(refused.status, status, "{refused:?}");
    }
    drop(host);
    bench.verify();
}

#[test]
fn gates_release_for_whoever_may_and_say_who_it_was() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &["--conformance"]);
    let client = Client { port: host.port, key: &key };
    let authorization = &client.get("/.well-known/openwop").is(200)["authorization"];
    assert_eq!(
        (&authorization["supported"], &authorization["failClosed"]),
        (&json!(true), &json!(true))
    );
    let ask = |scenario: &str, principal: &str, reason: Option<&str>| {
        let mut body = json!({"scenario": scenario, "principal": principal});
        if let Some(reason) = reason {
            body["reason"] = json!(reason);
        }
        client.post("/v1/host/sample/governance/approval-gate", &body)
    };
    let (approver, owner) = ("conformance-approver-principal", "conformance-owner-principal");
    for (scenario, who, reason, released, told) in [
        (
            "unauthorized-grant",
            "conformance-unauthorized-principal",
            None,
            false,
            "authorization.decided",
        ),
        ("unauthorized-grant", "agent:a", None, false, "authorization.decided"),
        ("grant", approver, None, true, "approval.granted"),
        ("grant", "somebody", None, false, "authorization.decided"),
        ("reject", approver, Some("not now"), false, "approval.rejected"),
        ("override", owner, Some("conformance emergency publish"), true, "approval.overridden"),
        ("quorum", approver, None, true, "approval.granted"),
        ("quorum", "somebody", None, false, "approval.granted"),
    ] {
        let answer = ask(scenario, who, reason).is(200);
        assert_eq!(answer["released"], released, "{scenario}: {answer:#}");
        assert_eq!(answer["event"]["type"], told, "{scenario}: {answer:#}");
        check(&answer["event"]);
        let run = answer["runId"].as_str().unwrap();
        let events = client.events(run);
        events.iter().for_each(check);
        assert!(events.contains(&answer["event"]), "it is in the log");
        assert!(is_over(client.run(run)["status"].as_str().unwrap()), "nothing is left waiting");
        match scenario {
            "override" => assert_eq!(answer["event"]["payload"]["reason"], reason.unwrap()),
            "quorum" if released => {
                let progress = &answer["event"]["payload"]["quorumProgress"];
                assert_eq!(progress, &json!({"granted": 2, "required": 2}));
            }
            _ => {}
        }
    }
    // An override that nobody can account for is none.
    assert_eq!(ask("override", owner, None).status, 400);
    assert!(ask("override", approver, Some("me")).is(200)["released"] == false);
    fits("error-envelope.schema.json", &ask("dance", owner, None).json());
    drop(host);
    bench.verify();
}

#[test]
fn runs_have_owners_and_neighbours_cannot_read_them() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &["--conformance"]);
    let client = Client { port: host.port, key: &key };
    let owned = client.get("/v1/host/sample/identity/owned-run").is(200);
    fits("run-snapshot.schema.json", &owned);
    assert_eq!(owned["owner"]["tenant"], "one");
    let again = client.get("/v1/host/sample/identity/owned-run").is(200);
    assert_eq!(again["runId"], owned["runId"], "one is enough");
    let refused = client.post("/v1/host/sample/identity/cross-workspace-read", &json!({}));
    fits("error-envelope.schema.json", &refused.json());
    assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("run_forbidden")));
    let absent = client.get("/v1/runs/run-nowhere");
    assert_eq!(refused.json()["details"]["clientStatus"], absent.status);
    assert_eq!(refused.json()["details"]["clientError"], absent.json()["error"]);
}

#[test]
fn recorded_events_are_found_by_what_they_are_about() {
    let bench = Bench::new();
    workflow(
        &bench,
        "two",
        &[node("a", "core.noop", &json!({})), node("b", "core.noop", &json!({}))],
        &[json!({"id": "e", "sourceNodeId": "a", "targetNodeId": "b"})],
    );
    let (one, two) = (key(&bench, "agent:a", "one", ALL), key(&bench, "agent:b", "two", ALL));
    let host = serve(&bench, &["--conformance"]);
    let [client, other] = [&one, &two].map(|key| Client { port: host.port, key });
    let run = client.start("two", &json!({}));
    client.until(&run, is_over);
    let path = |id: &str, query: &str| format!("/v1/host/sample/test/runs/{id}/events{query}");
    let read = |client: &Client<'_>, id: &str, query: &str| {
        let found = client.get(&path(id, query)).is(200);
        found["events"].as_array().unwrap().clone()
    };
    assert_eq!(read(&client, &run, ""), client.events(&run));
    assert_eq!(read(&client, &run, "?type=node.completed").len(), 2);
    assert_eq!(read(&client, &run, "?type=node.completed&nodeId=b").len(), 1);
    assert_eq!(read(&client, &run, "?causationId=nothing").len(), 0);
    // What is not there, and what is another's, look alike.
    for (client, id) in [(&client, "__probe__"), (&client, "..%2f"), (&other, run.as_str())] {
        assert_eq!(client.get(&path(id, "")).is(200), json!({"events": []}), "{id}");
    }
}

/// Paths of seams, and some that belong to what is not built.
const SEAMS: [(&str, &str); 16] = [
    ("GET", "test/runs/__probe__/events"),
    ("POST", "test/mock-ai/program"),
    ("GET", "test/mock-ai/last-dispatch-budget?nodeId=x"),
    ("POST", "test/reset"),
    ("POST", "governance/approval-gate"),
    ("GET", "identity/owned-run"),
    ("POST", "identity/cross-workspace-read"),
    ("POST", "toolhooks/invoke"),
    ("POST", "http/safe-fetch"),
    ("POST", "egress/decide"),
    ("POST", "credentials/echo"),
    ("POST", "authorization/decide"),
    ("POST", "subrun/attest"),
    ("POST", "agentloop/run"),
    ("POST", "test/capability-toggle"),
    ("POST", "test/sandbox-invoke"),
];

#[test]
fn without_the_switch_there_are_no_seams() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", ALL);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let unknown = client.post("/v1/nothing/of/the/kind", &json!({}));
    for (method, path) in SEAMS {
        let body = (method == "POST").then(|| json!({}));
        let answer = client.send(method, &format!("/v1/host/sample/{path}"), body.as_ref());
        assert_eq!((answer.status, &answer.text), (404, &unknown.text), "{path}");
        let stranger = Client { port: host.port, key: "nobody" };
        let refused = stranger.send(method, &format!("/v1/host/sample/{path}"), body.as_ref());
        assert_eq!(refused.status, 401, "{path}");
    }
    let found = client.get("/.well-known/openwop").is(200);
    for family in ["memory", "secrets", "authorization", "agents", "envelopes", "conformance"] {
        assert!(found.get(family).is_none(), "{family}");
    }
    assert_eq!(client.get("/v1/workflows/countersign-sample-owned").status, 404);
    let openapi = client.get("/v1/openapi.json").text;
    assert!(!openapi.contains("/v1/host/sample"));
}

#[test]
fn with_the_switch_seams_still_want_a_key_and_what_is_not_built_is_not_there() {
    let bench = Bench::new();
    let reader = key(&bench, "agent:a", "one", "runs:read");
    let host = serve(&bench, &["--conformance"]);
    for (place, (method, path)) in SEAMS.into_iter().enumerate() {
        let path = format!("/v1/host/sample/{path}");
        let body = (method == "POST").then(|| json!({}));
        let stranger = Client { port: host.port, key: "nobody" };
        assert_eq!(stranger.send(method, &path, body.as_ref()).status, 401, "{path}");
        let client = Client { port: host.port, key: &reader };
        let answer = client.send(method, &path, body.as_ref());
        let expected: &[u16] = match (place < 7, method) {
            (false, _) => &[404],
            // Whoever may only read begins no runs.
            (true, "POST") => &[403],
            (true, _) => &[200, 403],
        };
        assert!(expected.contains(&answer.status), "{path}: {answer:?}");
    }
}
