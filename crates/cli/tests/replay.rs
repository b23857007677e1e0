//! Replays, comparisons and collections, as people ask for them.

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

use common::{Bench, Output};
use serde_json::{Value, json};

/// A repository in `ws/`, registered as `app`, on which `agent:a` may work.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.write("README.md", "# App\n");
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .current_dir(bench.ws())
            .args(["-c", "user.name=T", "-c", "user.email=t@localhost"])
            .args(args)
            .status();
        assert!(done.unwrap().success(), "{args:?}");
    };
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    bench.run(&["workspace", "add", "app", "."]).ok();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench
}

fn action(bench: &Bench, name: &str, run: &str, input: &Value) -> Value {
    let input = input.to_string();
    let args = ["action", "run", name, "--workspace", "app", "--run", run, "--as", "agent:a"];
    let args = [&args[..], &["--input", &input]].concat();
    bench.json(&args).ok().json()
}

fn execution(result: &Value) -> String {
    result["execution_id"].as_str().unwrap().to_owned()
}

fn diff(bench: &Bench, a: &str, b: &str) -> Output {
    bench.json(&["diff", a, b])
}

#[test]
fn a_call_is_reconstructed_verified_and_compared() {
    let bench = bench();
    let first = execution(&action(&bench, "build_context_pack", "r1", &json!({})));
    let out = bench.dir().join("out");
    let saved = bench.run(&["replay", &first, "--out", out.to_str().unwrap()]).ok();
    assert!(saved.stdout.contains("exact: 1 calls, 3 contents"), "{saved:?}");
    let output: Value =
        serde_json::from_slice(&fs::read(out.join("output.json")).unwrap()).unwrap();
    let pack = fs::read(out.join("artifacts/context_pack")).unwrap();
    assert!(serde_json::from_slice::<Value>(&pack).is_ok() && output["digest"].is_string());
    bench.json(&["replay", &first, "--out", out.to_str().unwrap()]).fails(2, "DIRECTORY_IN_USE");

    let verified = bench.json(&["replay", "r1", "--mode", "verify"]).ok().json();
    assert_eq!(verified["same"], true, "{verified}");
    assert_eq!(verified["verified"][0]["execution"], first.as_str());
    bench.json(&["replay", &first, "--mode", "verify", "--as", "agent:a"]).fails(3, "PEOPLE_ONLY");

    let second = execution(&action(&bench, "build_context_pack", "r2", &json!({"history": 0})));
    let same = diff(&bench, &first, &first).ok().json();
    assert_eq!(same["equal"], true);
    let other = diff(&bench, &first, &second);
    assert_eq!(other.code, 1, "{other:?}");
    let about: Vec<_> = other.json()["calls"][0]["gaps"].as_array().unwrap().clone();
    assert_eq!(about[0]["about"], "input", "{about:#?}");
    assert_eq!(about[0]["difference"]["pointer"], "/history");
    diff(&bench, "r1", &first).fails(2, "NOT_COMPARABLE");
    diff(&bench, "nothing", &first).fails(2, "SUBJECT_UNKNOWN");
    bench.verify();
}

#[test]
fn what_was_let_go_of_cannot_be_reconstructed_and_that_is_said() {
    let bench = bench();
    let first = execution(&action(&bench, "build_context_pack", "r1", &json!({})));
    let gc = |more: &[&str]| bench.json(&[&["artifact", "gc", "--keep-days", "0"], more].concat());
    gc(&["--as", "agent:a"]).fails(3, "PEOPLE_ONLY");
    let dry = gc(&["--dry-run"]).ok().json();
    assert_eq!(
        (dry["dryRun"].clone(), dry["artifacts"].as_array().unwrap().len()),
        (json!(true), 2)
    );
    let done = gc(&[]).ok().json();
    assert_eq!(done["artifacts"].as_array().unwrap().len(), 2);
    assert_eq!((done["removed"].clone(), done["left"].clone()), (json!(0), json!(2)), "too young");
    assert_eq!(gc(&[]).ok().json()["artifacts"].as_array().unwrap().len(), 0);
    let get = ["artifact", "get", "context_pack", "--run", "r1"];
    let gone = bench.json(&get);
    assert_eq!(gone.json()["error"]["code"], "ARTIFACT_COLLECTED", "{gone:?}");
    let out = bench.dir().join("out");
    let refused = bench.json(&["replay", &first, "--out", out.to_str().unwrap()]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let obstacles = refused.json()["obstacles"].as_array().unwrap().clone();
    assert_eq!(obstacles.len(), 2);
    assert!(obstacles.iter().all(|one| one["code"] == "CONTENT_COLLECTED"), "{obstacles:?}");
    assert!(!out.exists());
    bench.verify();
}
