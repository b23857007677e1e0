//! What can be looked at: declarations and their problems, tools, executions, statistics.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::process::Command;

use common::{BIN, Bench, clean, output};
use serde_json::{Value, json};

#[test]
fn lint_reports_every_problem_of_every_file() {
    let bench = Bench::new();
    let good = bench.declaration("file.read");
    let mut bad = good.clone();
    bad["id"] = json!("Read");
    bad["version"] = json!("1");
    bad["surprise"] = json!(true);
    bad["requiredCapabilities"] = json!(["filesystem.everything"]);
    bad["inputSchema"]["properties"]["path"] = json!({});
    bad["resourceLimits"]["maxMemory"] = json!(1);
    bench.write("good.json", good.to_string());
    bench.write("bad.json", bad.to_string());
    bench.write("torn.json", "{\"id\":");
    let files = ["good.json", "bad.json", "torn.json", "gone.json"];
    let output = bench.json(&[&["tool", "lint"], &files[..]].concat());
    assert_eq!(output.code, 2);
    let report = output.json();
    let of = |name: &str| {
        let found = report.as_array().unwrap().iter().find(|file| file["file"] == name);
        found.unwrap().clone()
    };
    assert_eq!((&of("good.json")["ok"], &of("good.json")["findings"]), (&json!(true), &json!([])));
    let places: Vec<_> = of("bad.json")["findings"].as_array().unwrap().clone();
    assert!(places.len() >= 7, "{places:#?}");
    for place in [
        "/id",
        "/version",
        "/surprise",
        "/requiredCapabilities/0",
        "/inputSchema/properties/path",
        "/resourceLimits/maxMemory",
    ] {
        assert!(places.iter().any(|finding| finding["pointer"] == place), "{place}: {places:#?}");
    }
    assert_eq!(of("torn.json")["ok"], false);
    assert_eq!(of("gone.json")["findings"][0]["code"], "FILE_UNREADABLE");

    let person = bench.run(&[&["tool", "lint"], &files[..]].concat());
    assert_eq!(person.code, 2);
    assert!(person.stdout.contains("ok good.json"), "{}", person.stdout);
    for finding in &places {
        assert!(person.stdout.contains(finding["code"].as_str().unwrap()), "{}", person.stdout);
    }
    let clean = output_of_bare(&["tool", "lint", "good.json"], &bench);
    assert_eq!(clean.code, 0, "lint needs no home: {clean:#?}");
}

fn output_of_bare(args: &[&str], bench: &Bench) -> common::Output {
    output(clean(Command::new(BIN)).args(args).current_dir(bench.ws()))
}

/// Eight tools that every home declares, and the actions.
fn built_in(bench: &Bench) -> usize {
    8 + bench.json(&["action", "list"]).ok().json().as_array().unwrap().len()
}

#[test]
fn tools_are_listed_and_shown_with_all_their_versions() {
    let bench = Bench::new();
    let listed = bench.json(&["tool", "list"]).ok().json();
    assert_eq!(listed["tools"].as_array().unwrap().len(), built_in(&bench));
    assert_eq!(listed["broken"], json!([]));
    let mut newer = bench.declaration("text.digest");
    newer["version"] = json!("1.10.0");
    newer["description"] = json!("The newer one");
    bench.declare("newer.json", &newer);
    newer["version"] = json!("1.9.0");
    fs::create_dir(bench.home().join("tools/older")).unwrap();
    bench.declare("older/tool.json", &newer);
    let listed = bench.json(&["tool", "list"]).ok().json();
    let versions: Vec<_> = listed["tools"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|tool| tool["id"] == "text.digest")
        .map(|tool| tool["version"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(versions, ["1.0.0", "1.9.0", "1.10.0"]);
    let shown = |name: &str| bench.json(&["tool", "show", name]).ok().json()["version"].clone();
    assert_eq!(shown("text.digest"), "1.10.0");
    assert_eq!(shown("text.digest@1.9.0"), "1.9.0");
    bench.json(&["tool", "show", "text.digest@2.0.0"]).fails(2, "TOOL_VERSION_UNKNOWN");
    bench.json(&["tool", "show", "text.shred"]).fails(2, "TOOL_UNKNOWN");
    let person = bench.run(&["tool", "show", "file.write"]).ok().stdout;
    for word in
        ["filesystem.write", "createDirectories", "(optional)", "5000 ms", "file.write.json"]
    {
        assert!(person.contains(word), "{word}: {person}");
    }

    // The call is pinned to the version that answered, by digest.
    let call = bench.call("text.digest", &json!({"text": "x"})).ok().json();
    let id = call["executionId"].as_str().unwrap();
    let told = bench.json(&["execution", "show", id]).ok().json();
    assert_eq!(told["call"]["version"], "1.10.0");
    let digest = bench.json(&["tool", "show", "text.digest"]).ok().json()["digest"].clone();
    assert_eq!(told["call"]["declaration"], digest);
}

#[test]
fn a_broken_declaration_stops_calls_and_is_shown() {
    let bench = Bench::new();
    bench.declare("broken.json", &json!({"id": "file.read", "version": "2.0.0"}));
    let error = bench.call("text.digest", &json!({"text": "x"})).fails(2, "TOOLS_INVALID");
    assert!(error["message"].as_str().unwrap().contains("broken.json"), "{error}");
    let hint = error["hint"].as_str().unwrap();
    assert!(hint.contains("countersign tool lint") && hint.contains("broken.json"), "{hint}");
    let listed = bench.json(&["tool", "list"]);
    assert_eq!(listed.code, 2);
    let listed = listed.json();
    let shown = listed["tools"].as_array().unwrap().len();
    assert_eq!(shown, built_in(&bench), "the others are still shown");
    assert!(listed["broken"][0]["source"].as_str().unwrap().ends_with("broken.json"));
    assert!(!listed["broken"][0]["findings"].as_array().unwrap().is_empty());
    let person = bench.run(&["tool", "list"]);
    assert!(person.stdout.contains("problems") && person.stdout.contains("broken.json"));
    fs::remove_file(bench.home().join("tools/broken.json")).unwrap();
    bench.call("text.digest", &json!({"text": "x"})).ok();
}

#[test]
fn executions_are_listed_newest_first_and_filtered() {
    let bench = Bench::new();
    bench.grant("agent:a", "state.write");
    let as_agent = |text: &str| bench.call("text.digest", &json!({"text": text})).ok().json();
    let first = as_agent("1");
    bench.call("file.read", &json!({"path": "a"}));
    bench.call("text.digest", &json!({}));
    bench.run(&["call", "text.digest", "--input", r#"{"text":"2"}"#]).ok();
    let last = bench.call("state.put", &json!({"key": "k", "value": 1})).ok().json();
    let list = |args: &[&str]| -> Vec<Value> {
        let listed = bench.json(&[&["execution", "list"], args].concat()).ok().json();
        listed.as_array().unwrap().clone()
    };
    let all = list(&[]);
    assert_eq!(all.len(), 5);
    assert_eq!(all[0]["execution"], last["executionId"]);
    assert_eq!(all[4]["execution"], first["executionId"]);
    let count = |args: &[&str]| list(args).len();
    assert_eq!(count(&["--tool", "text.digest"]), 3);
    assert_eq!(count(&["--state", "COMPLETED"]), 3);
    assert_eq!(count(&["--state", "denied"]), 1);
    assert_eq!(count(&["--state", "rolled-back"]), 0);
    assert_eq!(count(&["--principal", "human:tester"]), 1);
    assert_eq!(count(&["--principal", "agent:a", "--tool", "text.digest"]), 2);
    assert_eq!(count(&["--limit", "2"]), 2);
    assert_eq!(count(&["--limit", "0"]), 0);
    assert_eq!(count(&["--since", "1h"]), 5);
    assert_eq!(count(&["--until", "1h"]), 0);
    assert_eq!(count(&["--since", "2000-01-01T00:00:00Z", "--until", "2000-01-02T00:00:00Z"]), 0);
    assert_eq!(count(&["--since", "2000-01-01T00:00:00Z"]), 5);
    // One moment divides the calls: what is since then and what is until then make all.
    let moment = all[2]["declaredAt"].as_i64().unwrap();
    let since = all.iter().filter(|call| call["declaredAt"].as_i64().unwrap() >= moment).count();
    let text = countersign_model::Timestamp::from_millis(moment).to_string();
    assert_eq!((count(&["--since", &text]), count(&["--until", &text])), (since, 5 - since));

    let shown = bench.json(&["execution", "show", "last"]).ok().json();
    assert_eq!(shown["call"]["execution"], last["executionId"]);
    assert_eq!(shown["input"], json!({"key": "k", "value": 1}));
    assert_eq!(shown["output"], last["output"]);
    let events = shown["events"].as_array().unwrap();
    assert_eq!(events.len(), 6, "five transitions and the commit point");
    assert_eq!(events[5]["entry"], last["receipt"]["entry"]);

    let person = bench.run(&["execution", "list"]).ok().stdout;
    assert_eq!(person.lines().count(), 5);
    for call in &all {
        assert!(person.contains(call["execution"].as_str().unwrap()), "{person}");
    }
    let id = first["executionId"].as_str().unwrap();
    let told = bench.run(&["execution", "show", id]).ok().stdout;
    for word in ["DECLARED", "VALIDATED", "AUTHORIZED", "EXECUTING", "COMPLETED", "input", "output"]
    {
        assert!(told.contains(word), "{word}: {told}");
    }
    let unknown = "00000000-0000-7000-8000-000000000000";
    bench.json(&["execution", "show", unknown]).fails(2, "EXECUTION_UNKNOWN");
    bench.json(&["execution", "show", "first"]).fails(2, "ID_INVALID");
    let none = Bench::new();
    let error = none.json(&["execution", "show", "last"]).fails(2, "EXECUTION_UNKNOWN");
    assert!(error["message"].as_str().unwrap().contains("nothing was called"), "{error}");
    assert_eq!(none.run(&["execution", "list"]).ok().stdout, "no calls\n");
}

#[test]
fn statistics_agree_with_what_was_called() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.write("a.txt", "12345");
    for text in ["1", "2", "3"] {
        bench.call("text.digest", &json!({"text": text})).ok();
    }
    bench.call("file.read", &json!({"path": "a.txt"})).ok();
    bench.call("file.write", &json!({"path": "b.txt", "content": "1234567"})).ok();
    bench.call("file.read", &json!({"path": "gone.txt"}));
    bench.call("file.delete", &json!({"path": "a.txt"}));
    bench.call("text.digest", &json!({"texts": 1}));
    bench.call("no.tool", &json!({}));
    let stats = bench.stats();
    for (key, count) in [
        ("executions", 8),
        ("completed", 5),
        ("failed", 1),
        ("denied", 1),
        ("denials", 1),
        ("rolledBack", 1),
        ("rollbacks", 1),
        ("retries", 0),
        ("open", 0),
        ("unknown", 0),
    ] {
        assert_eq!(stats[key], count, "{key}: {stats}");
    }
    let rate = |key: &str| stats[key].as_f64().unwrap();
    assert!((rate("successRate") - 5.0 / 8.0).abs() < 1e-9, "{stats}");
    assert!((rate("successRate") + rate("failureRate") - 1.0).abs() < 1e-9);
    assert_eq!(
        (&stats["usage"]["bytesRead"], &stats["usage"]["bytesWritten"]),
        (&json!(5), &json!(7))
    );
    let durations = &stats["durationMs"];
    let at = |key: &str| durations[key].as_u64().unwrap();
    assert!(at("p50") <= at("p95") && at("p95") <= at("p99") && at("p99") <= at("max"));
    let filtered = bench.json(&["stats", "--tool", "text.digest"]).ok().json();
    assert_eq!((&filtered["executions"], &filtered["completed"]), (&json!(4), &json!(3)));
    let person = bench.run(&["stats"]).ok().stdout;
    assert!(person.contains("8 (0 open)") && person.contains("62.5 %"), "{person}");
    let empty = Bench::new();
    assert_eq!(empty.stats()["successRate"], Value::Null);
    assert!(empty.run(&["stats"]).ok().stdout.contains("success rate   -"));
}

#[test]
fn nothing_is_left_to_recover() {
    let bench = Bench::new();
    bench.call("text.digest", &json!({"text": "x"})).ok();
    let size = bench.verify()["size"].clone();
    for _ in 0..2 {
        let done = bench.json(&["recover"]).ok().json();
        assert_eq!(
            done,
            json!({"completed": [], "pending": [], "rolledBack": [], "unsettled": []})
        );
    }
    assert_eq!(bench.run(&["recover"]).ok().stdout, "nothing was left unfinished\n");
    assert_eq!(bench.verify()["size"], size, "looking writes nothing");
}

#[test]
fn only_a_call_that_waits_can_be_given_up() {
    let bench = Bench::new();
    let unknown = "019a7c3e-0000-7000-8000-000000000000";
    bench.json(&["recover", "--give-up", unknown]).fails(2, "NOTHING_PENDING");
    let done = bench.call("text.digest", &json!({"text": "x"})).ok().json();
    let done = done["executionId"].as_str().unwrap();
    bench.json(&["recover", "--give-up", done]).fails(2, "NOTHING_PENDING");
}
