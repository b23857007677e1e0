//! Files of a tenant's workspace over HTTP: versions, writers who meet, and paths that lead nowhere.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod serving;

use std::sync::Barrier;

use common::Bench;
use judge::fits;
use serde_json::{Value, json};
use serving::{Answer, Client, key, serve};

const BOTH: &str = "workspace:read,workspace:write";
const ALL: &str = "/v1/host/workspace/files";

fn at(path: &str) -> String {
    format!("{ALL}/{path}")
}

fn put(client: &Client<'_>, path: &str, content: &str, seen: Option<&str>) -> Answer {
    let seen: Vec<_> = seen.map(|etag| ("If-Match", etag)).into_iter().collect();
    let body = json!({"content": content});
    client.try_send("PUT", &at(path), &seen, Some(&body)).unwrap()
}

fn paths(client: &Client<'_>, prefix: &str) -> Vec<String> {
    let listed = client.get(&format!("{ALL}?prefix={prefix}")).is(200);
    let files = listed["files"].as_array().unwrap().clone();
    assert!(files.iter().all(|file| file.get("content").is_none()));
    files.iter().map(|file| file["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_are_written_read_listed_and_removed() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let found = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    assert_eq!(found["workspace"]["supported"], true);
    let most = found["workspace"]["maxFileBytes"].as_u64().unwrap() as usize;
    assert_eq!(paths(&client, ""), [] as [&str; 0]);
    let first = put(&client, "AGENTS.md", "one", None);
    assert!(first.head.contains("etag: \"1\""), "{}", first.head);
    let first = first.is(200);
    fits("workspace-file.schema.json", &first);
    assert_eq!((&first["version"], &first["contentType"]), (&json!(1), &json!("text/markdown")));
    let second = json!({"content": "zwei ü", "contentType": "text/plain"});
    let second = client.send("PUT", &at("AGENTS.md"), Some(&second)).is(200);
    assert_eq!((&second["version"], &second["content"]), (&json!(2), &json!("zwei ü")));
    assert_eq!(client.get(&at("AGENTS.md")).is(200), second);
    let old = client.get(&at("AGENTS.md?version=1")).is(200);
    assert_eq!(old, first);
    put(&client, "notes/a.md", "a", None).is(200);
    put(&client, "notes/b.md", "b", None).is(200);
    assert_eq!(paths(&client, ""), ["AGENTS.md", "notes/a.md", "notes/b.md"]);
    assert_eq!(paths(&client, "notes/"), ["notes/a.md", "notes/b.md"]);
    assert_eq!(paths(&client, "%25"), [] as [&str; 0], "a prefix is no pattern");
    assert_eq!(client.send("DELETE", &at("notes/a.md"), None).status, 204);
    for gone in ["notes/a.md", "notes/a.md?version=1", "notes", "AGENTS.md?version=3"] {
        assert_eq!(client.get(&at(gone)).status, 404, "{gone}");
    }
    assert_eq!(client.send("DELETE", &at("notes/a.md"), None).status, 404);
    let again = put(&client, "notes/a.md", "anew", None).is(200);
    assert_eq!(again["version"], 3, "a removal counts");
    assert_eq!(client.get(&at("notes/a.md?version=1")).status, 404);
    put(&client, "large", &"x".repeat(most), None).is(200);
    let large = put(&client, "large", &"x".repeat(most + 1), None).is(413);
    fits("error-envelope.schema.json", &large);
    assert_eq!(large["error"], "workspace_too_large");
    drop(host);
    bench.verify();
}

#[test]
fn old_versions_are_kept_for_a_while_and_are_what_they_were() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for version in 1..=25 {
        put(&client, "f", &format!("content {version}"), None).is(200);
    }
    for version in 1..=25 {
        let found = client.get(&at(&format!("f?version={version}")));
        match version < 15 {
            true => assert_eq!(found.status, 404, "{version}"),
            false => assert_eq!(found.is(200)["content"], format!("content {version}")),
        }
    }
}

#[test]
fn who_saw_something_else_does_not_write() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let conflict = |answer: Answer, version: u64| {
        let told = answer.is(409);
        fits("error-envelope.schema.json", &told);
        assert_eq!(told["error"], "workspace_conflict");
        assert_eq!(told["details"]["currentVersion"], version);
    };
    conflict(put(&client, "f", "x", Some("\"1\"")), 0);
    let made = put(&client, "f", "one", None).is(200);
    let etag = made["etag"].as_str().unwrap();
    put(&client, "f", "two", Some(etag)).is(200);
    conflict(put(&client, "f", "three", Some(etag)), 2);
    conflict(put(&client, "f", "three", Some("nonsense")), 2);
    let none = [("If-None-Match", "*")];
    let body = json!({"content": "x"});
    conflict(client.try_send("PUT", &at("f"), &none, Some(&body)).unwrap(), 2);
    client.try_send("PUT", &at("new"), &none, Some(&body)).unwrap().is(200);
    let stale = [("If-Match", etag)];
    conflict(client.try_send("DELETE", &at("f"), &stale, None).unwrap(), 2);
    assert_eq!(client.get(&at("f")).is(200)["content"], "two");
    // Nobody can have seen both, and whoever sees something else asks for something else.
    let both = [("If-Match", "\"2\""), ("If-None-Match", "*")];
    conflict(client.try_send("PUT", &at("f"), &both, Some(&body)).unwrap(), 2);
    let once = [("Idempotency-Key", "k"), ("If-Match", "*")];
    let made = client.try_send("PUT", &at("new"), &once, Some(&body)).unwrap().is(200);
    let again = client.try_send("PUT", &at("new"), &once, Some(&body)).unwrap().is(200);
    assert_eq!((&made["version"], &again), (&json!(2), &made));
    for other in [("If-Match", "\"1\""), ("If-None-Match", "*")] {
        let other = [once[0], other];
        let refused = client.try_send("PUT", &at("new"), &other, Some(&body)).unwrap().is(409);
        assert_ne!(refused["error"], "workspace_conflict", "{refused}");
    }
    let now = [("If-Match", "\"2\"")];
    assert_eq!(client.try_send("DELETE", &at("f"), &now, None).unwrap().status, 204);
}

#[test]
fn of_many_writers_who_saw_the_same_one_wins() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    put(&client, "f", "0", None).is(200);
    for round in 1..=5 {
        let (start, etag) = (Barrier::new(8), format!("\"{round}\""));
        let answers: Vec<(usize, Answer)> = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8)
                .map(|n| {
                    let (start, etag, client) = (&start, &etag, &client);
                    scope.spawn(move || {
                        start.wait();
                        (n, put(client, "f", &format!("{round}-{n}"), Some(etag)))
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).collect()
        });
        let won: Vec<_> = answers.iter().filter(|(_, answer)| answer.status == 200).collect();
        assert_eq!(won.len(), 1, "{answers:#?}");
        assert!(answers.iter().all(|(_, answer)| [200, 409].contains(&answer.status)));
        let stands = client.get(&at("f")).is(200);
        assert_eq!(stands["content"], format!("{round}-{}", won[0].0));
        assert_eq!(stands["version"], round + 1);
    }
    // Without a condition nobody is turned away, and every write counts.
    std::thread::scope(|scope| {
        for n in 0..8 {
            let client = &client;
            scope.spawn(move || put(client, "g", &n.to_string(), None).is(200));
        }
    });
    assert_eq!(client.get(&at("g")).is(200)["version"], 8);
    drop(host);
    bench.verify();
}

#[test]
fn paths_and_bodies_that_do_not_fit_are_refused() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for path in [
        "../x",
        "a/../b",
        "..%2fx",
        "%2e%2e/x",
        "a/%2e%2e/b",
        "%2fetc/passwd",
        "/etc",
        "a//b",
        "a/",
        ".hidden",
        "-a",
        "a%00b",
        "a%0ab",
        "a%20b",
        "a%5cb",
        "a:b",
        "a%C3%A4",
        "%E2%80%AEa",
        &"a".repeat(257),
    ] {
        for (method, body) in
            [("GET", None), ("DELETE", None), ("PUT", Some(json!({"content": ""})))]
        {
            let refused = client.send(method, &at(path), body.as_ref());
            assert_eq!(refused.status, 400, "{method} {path}: {refused:?}");
            assert_eq!(refused.json()["details"]["field"], "path", "{path}");
        }
    }
    for (body, word) in [
        (json!({}), "content"),
        (json!({"content": 1}), "string"),
        (json!({"content": "x", "path": "y"}), "path"),
        (json!({"content": "x", "contentType": "a\nb"}), "contentType"),
    ] {
        let refused = client.send("PUT", &at("f"), Some(&body)).is(400);
        assert!(refused["message"].as_str().unwrap().contains(word), "{refused:#}");
    }
    assert_eq!(client.get(&at("f?version=0")).status, 400);
    assert_eq!(paths(&client, ""), [] as [&str; 0]);
}

#[test]
fn others_see_nothing_and_secrets_are_not_kept() {
    let bench = Bench::new();
    let (one, two) = (key(&bench, "agent:a", "one", BOTH), key(&bench, "agent:b", "two", BOTH));
    let reader = key(&bench, "agent:c", "one", "workspace:read");
    let writer = key(&bench, "agent:d", "one", "workspace:write");
    let host = serve(&bench, &[]);
    let client = |key| Client { port: host.port, key };
    let secret = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
    let kept = put(&client(&one), "f", &format!("key: {secret}"), None).is(200);
    assert!(!kept.to_string().contains(&secret), "{kept:#}");
    assert_eq!(client(&one).get(&at("f")).is(200), kept);
    let body = json!({"content": "theirs"});
    for (method, seen) in [("GET", &[][..]), ("DELETE", &[]), ("PUT", &[("If-Match", "\"1\"")])] {
        let body = (method == "PUT").then_some(&body);
        let theirs = client(&two).try_send(method, &at("f"), seen, body).unwrap();
        let absent = client(&two).try_send(method, &at("nowhere"), seen, body).unwrap();
        assert!([404, 409].contains(&theirs.status), "{theirs:?}");
        assert_eq!((theirs.status, theirs.text), (absent.status, absent.text));
        assert_eq!(client("").try_send(method, &at("f"), seen, body).unwrap().status, 401);
    }
    assert_eq!(paths(&client(&two), ""), [] as [&str; 0]);
    put(&client(&two), "f", "theirs", None).is(200);
    assert_eq!(client(&one).get(&at("f")).is(200), kept);
    assert_eq!(put(&client(&reader), "f", "x", None).status, 403);
    assert_eq!(client(&reader).send("DELETE", &at("f"), None).status, 403);
    assert_eq!(client(&writer).get(&at("f")).status, 403);
    assert_eq!(client(&writer).get(ALL).status, 403);
    assert_eq!(client(&one).send("POST", &at("f"), Some(&body)).status, 405);
}

#[test]
fn a_kill_loses_no_file_that_was_answered_for() {
    let bench = Bench::new();
    let key = key(&bench, "agent:a", "one", BOTH);
    let mut host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let kept: Vec<Value> =
        (0..5).map(|n| put(&client, &format!("f{n}"), "x", None).is(200)).collect();
    let once = [("Idempotency-Key", "k"), ("If-Match", "\"1\"")];
    let body = json!({"content": "y"});
    let written = client.try_send("PUT", &at("f0"), &once, Some(&body)).unwrap().is(200);
    host.child.kill().unwrap();
    host.child.wait().unwrap();
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let again = client.try_send("PUT", &at("f0"), &once, Some(&body)).unwrap();
    assert_eq!(again.is(200), written, "the same answer, although the version has moved on");
    for (n, file) in kept.iter().enumerate().skip(1) {
        assert_eq!(client.get(&at(&format!("f{n}"))).is(200), *file);
    }
    drop(host);
    bench.verify();
}
