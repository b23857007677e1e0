//! Programs that are executed again, and what collections keep of orders.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use common::boxes::{Boxes, DONE};
use common::{Bench, HOUR, operator};
use countersign_host::again::{Finding, Rules, Verified};
use countersign_host::order::Order;
use countersign_host::{CallCommand, Cancel, Host};
use countersign_model::{ExecutionId, Lifecycle, ResourceLimits, ToolId};
use countersign_sandbox::backend::StagedForm;
use serde_json::json;

const DAY: i64 = 24 * HOUR;

fn exact(_: &ToolId) -> Rules {
    Rules::default()
}

/// A program that sees nothing but its input, and promises to give the same.
fn declare(bench: &Bench) {
    bench.declare_program("test.pure", |declaration| {
        declaration["deterministic"] = json!(true);
        declaration["requiredCapabilities"] = json!([]);
        declaration["runtime"].as_object_mut().unwrap().remove("workspace");
    });
}

fn call(bench: &Bench, host: &Host, tool: &str, root: bool) -> ExecutionId {
    let command = bench.command(tool, &json!({"what": "x"}));
    let command = if root { command } else { CallCommand { root: None, ..command } };
    let outcome = host.call(command).unwrap();
    assert_eq!(outcome.state, Lifecycle::Completed, "{:?}", outcome.result);
    outcome.execution
}

fn verify(host: &Host, execution: ExecutionId) -> Verified {
    host.verify_again(execution, &operator(), exact, &Cancel::default()).unwrap()
}

/// Writes an artifact that says how often the box was used, from a certain time on.
fn counting(honest_for: u64) -> Arc<Boxes> {
    let runs = AtomicU64::new(0);
    Boxes::new(StagedForm::Upper, move |inside| {
        let run = runs.fetch_add(1, Ordering::SeqCst);
        let told = if run < honest_for { 0 } else { run };
        fs::write(inside.out.join("told"), format!("{told}\n")).unwrap();
        inside.stdout = br#"{"done": true}"#.to_vec();
        DONE
    })
}

#[test]
fn a_program_that_sees_only_its_input_runs_again_in_a_box() {
    let bench = Bench::new();
    declare(&bench);
    let host = bench.host_with(&counting(2));
    let execution = call(&bench, &host, "test.pure", false);
    let before = host.home().store.head().unwrap();
    let verified = verify(&host, execution);
    assert!(verified.same, "{verified:?}");
    let verified = verify(&host, execution);
    let different: Vec<&str> = verified
        .findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::Different { what, .. } => Some(what.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(different, ["artifact `told`"], "{verified:?}");
    assert_eq!(host.home().store.head().unwrap(), before, "no fact was written");
}

#[test]
fn a_program_on_a_directory_has_no_recorded_tree() {
    let bench = Bench::new();
    declare(&bench);
    bench.declare_program("test.program", |declaration| {
        declaration["deterministic"] = json!(true);
    });
    let host = bench.host_with(&counting(9));
    let on_files = call(&bench, &host, "test.program", true);
    let beside_files = call(&bench, &host, "test.pure", true);
    let planned = host.plan_verification(&[on_files, beside_files], exact).unwrap();
    let codes: Vec<_> = planned.iter().map(|one| one.skip.as_ref().map(|skip| skip.code)).collect();
    assert_eq!(codes, [Some("NO_RECORDED_TREE"), None]);
    // Other files of the program are other code.
    let main = bench.home().join("tools/test.pure/files/main.py");
    fs::write(main, "print('other')\n").unwrap();
    let host = bench.host_with(&counting(9));
    let planned = host.plan_verification(&[beside_files], exact).unwrap();
    assert_eq!(planned[0].skip.as_ref().unwrap().code, "FILES_CHANGED");
}

fn age(directory: &Path, by: Duration) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => age(&path, by),
            false => File::open(&path).unwrap().set_modified(SystemTime::now() - by).unwrap(),
        }
    }
}

#[test]
fn what_an_order_reads_is_kept_while_people_think_and_afterwards() {
    let bench = Bench::new();
    let host = bench.host_with(&Boxes::new(StagedForm::Upper, |_| DONE));
    let input = host.take_input("input.csv", &b"a,b\n"[..]).unwrap();
    let nameless = host.take_input("other.csv", &b"of no order\n"[..]).unwrap();
    let order = Order {
        command: vec!["true".to_owned()],
        document: "the document".to_owned(),
        environment: BTreeMap::new(),
        hosts: Vec::new(),
        id: "TR-20260209-160501Z-stats".to_owned(),
        inputs: vec![input.clone()],
        limits: ResourceLimits {
            max_execution_time: 1_000,
            max_memory: 64 << 20,
            ..ResourceLimits::default()
        },
        outputs: Vec::new(),
        people: 1,
    };
    let made = "2026-02-09T16:05:01Z".parse().unwrap();
    let asked = host.order(&order, made, "agent:core".parse().unwrap(), Vec::new()).unwrap();
    assert_eq!(asked.state, Lifecycle::Validated);
    bench.clock.advance(400 * DAY);
    age(&bench.home().join("state/blobs"), Duration::from_secs(400 * 86_400));
    let collection = host.collect_artifacts(30, &operator(), false).unwrap();
    assert_eq!(collection.removed, 1, "{collection:?}");
    assert!(!host.home().blobs.holds(&nameless.sha256));
    assert_eq!(host.home().blobs.get(&input.sha256).unwrap(), b"a,b\n");
}
