//! `countersign receipt` from the command line: written in one home, verified without any.
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

use common::{BIN, Bench, Output, output};
use serde_json::json;

/// A machine that has the binary and the file, and nothing else of ours.
fn elsewhere(args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    output(Command::new(BIN).args(args).current_dir(dir.path()).env_clear())
}

fn key(bench: &Bench) -> String {
    bench.run(&["audit", "key"]).ok().stdout.trim().to_owned()
}

#[test]
fn a_receipt_is_written_and_verified_anywhere() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.call("file.write", &json!({"path": "a.txt", "content": "secret words"})).ok();
    let made = bench.json(&["receipt", "last"]).ok().json();
    let id = made["executionId"].as_str().unwrap();
    assert_eq!(made["file"], format!("receipt-{id}.json"));
    assert_eq!(made["state"], "COMPLETED");
    let file = bench.ws().join(format!("receipt-{id}.json"));
    let (path, key) = (file.to_str().unwrap(), key(&bench));
    assert_eq!(made["key"], key);
    let said = elsewhere(&["receipt", "verify", path, "--key", &key]).ok().stdout;
    for words in
        ["verified", "file.write@1.0.0", "agent:a", "COMPLETED", "inclusion", "not checked:"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let report = elsewhere(&["--json", "receipt", "verify", path, "--key", &key]).ok().json();
    assert_eq!((&report["ok"], &report["call"]["execution"]), (&json!(true), &json!(id)));
    assert!(report["checks"].as_array().unwrap().iter().all(|c| c["outcome"] == "passed"));
    let by_id = bench.run(&["receipt", id, "--out", "-"]).ok().stdout;
    assert_eq!(by_id, fs::read_to_string(&file).unwrap());
    bench.write("journal.pub", format!("{key}\n"));
    bench.run(&["receipt", "verify", path, "--key", "journal.pub"]).ok();
    let full = bench.run(&["receipt", id, "--with-content", "--out", "full.json"]).ok().stdout;
    assert!(full.contains("countersign receipt verify full.json --key"), "{full}");
    let report = bench.json(&["receipt", "verify", "full.json", "--key", &key]).ok().json();
    assert_eq!(report["unchecked"], json!([]));
}

#[test]
fn what_does_not_verify_says_why() {
    let bench = Bench::new();
    bench.call("text.digest", &json!({"text": "x"})).ok();
    bench.run(&["receipt", "last", "--out", "r.json"]).ok();
    let key = key(&bench);
    let other = Bench::new();
    let path = bench.ws().join("r.json");
    let path = path.to_str().unwrap();
    let args = ["--json", "receipt", "verify", path, "--key"];
    let refused = elsewhere(&[&args[..], &[&self::key(&other)]].concat());
    let error = refused.fails(2, "RECEIPT_INVALID");
    let problems = error["details"]["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["code"] == "OTHER_KEY"), "{error}");
    let text = fs::read_to_string(path).unwrap();
    fs::write(path, &text[..text.len() / 2]).unwrap();
    let refused = elsewhere(&[&args[..], &[&key]].concat()).fails(2, "RECEIPT_INVALID");
    assert_eq!(refused["details"]["problems"][0]["code"], "RECEIPT_UNREADABLE");
    let said = elsewhere(&["receipt", "verify", path, "--key", &key]);
    assert_eq!(said.code, 2);
    assert!(said.stdout.contains("RECEIPT_UNREADABLE"), "{said:?}");
}

#[test]
fn wrong_usage_is_refused() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["receipt"]).code, 2);
    assert_eq!(bench.run(&["receipt", "verify", "r.json"]).code, 2);
    bench.json(&["receipt", "last"]).fails(2, "EXECUTION_UNKNOWN");
    bench.json(&["receipt", "verify", "r.json", "--key", "x"]).fails(2, "FILE_UNREADABLE");
    bench.json(&["receipt", "verify", "r.json", "--key", "a+b+c"]).fails(2, "KEY_INVALID");
}
