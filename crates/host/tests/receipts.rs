//! Receipts of calls that really ran: what is in them, what is left out, and that they verify.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::boxes::{Boxes, DONE};
use common::{Bench, ending};
use countersign_host::{Host, receipts};
use countersign_journal::receipt::{Report, verify};
use countersign_model::ExecutionId;
use countersign_model::Lifecycle::{Completed, Denied, Failed, RolledBack};
use countersign_sandbox::Ending;
use countersign_sandbox::backend::StagedForm::Whole;
use serde_json::json;

fn receipt(host: &Host, execution: ExecutionId, with_content: bool) -> Vec<u8> {
    receipts::create(host.home(), host.registry(), execution, with_content).unwrap()
}

#[track_caller]
fn verified(host: &Host, file: &[u8]) -> Report {
    let report = verify(file, host.home().journal_key.verifier());
    assert!(report.is_verified(), "{:#?}", report.problems);
    report
}

fn is_open(report: &Report, what: &str) -> bool {
    report.unchecked.iter().any(|line| line.starts_with(what))
}

#[test]
fn calls_of_every_ending_verify() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("a.txt", "a");
    let table = [
        ("file.read", json!({"path": "a.txt"}), Completed),
        ("file.write", json!({"path": "b.txt", "content": "b"}), Completed),
        ("state.put", json!({"key": "k", "value": 1}), Completed),
        ("file.read", json!({"wrong": 1}), Failed),
        ("file.read", json!({"path": "gone.txt"}), RolledBack),
        ("test.flaky", json!({"fails": 2}), Completed),
        ("test.flaky", json!({"fails": 99}), RolledBack),
    ];
    for (tool, input, state) in table {
        let outcome = bench.call(&host, tool, &input);
        assert_eq!(outcome.state, state, "{tool} {input}");
        let report = verified(&host, &receipt(&host, outcome.execution, false));
        let call = report.call.clone().unwrap();
        assert_eq!((call.execution, call.state), (outcome.execution, state));
        assert!(!is_open(&report, "the declaration"), "{:?}", report.unchecked);
        assert!(is_open(&report, "the input"), "{:?}", report.unchecked);
        assert_eq!(report.proven.unwrap().last, outcome.receipt.hash);
    }
}

/// Whoever takes back what a call rests on does not change what was right then.
#[test]
fn receipts_outlive_grants_and_declarations() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("a.txt", "a");
    let outcome = bench.call(&host, "file.read", &json!({"path": "a.txt"}));
    for grant in host.home().store.grants().unwrap() {
        host.revoke_grant(grant.grant.body.id, common::operator(), None).unwrap();
    }
    std::fs::remove_file(bench.home().join("tools/file.read.json")).unwrap();
    let host = bench.host();
    let report = verified(&host, &receipt(&host, outcome.execution, false));
    assert!(is_open(&report, "the declaration"));
    assert!(!report.grants.is_empty());
}

#[test]
fn a_denied_call_rests_on_nothing_and_says_why() {
    let bench = Bench::bare();
    let host = bench.host();
    let outcome = bench.call(&host, "file.read", &json!({"path": "a.txt"}));
    assert_eq!(ending(&outcome).0, Denied);
    let report = verified(&host, &receipt(&host, outcome.execution, false));
    assert!(report.grants.is_empty());
    assert!(report.call.unwrap().error.is_some());
}

#[test]
fn contents_are_in_it_only_if_somebody_says_so() {
    let bench = Bench::new();
    let host = bench.host();
    bench.write("secret.txt", "the launch code is 0000");
    let outcome = bench.call(&host, "file.read", &json!({"path": "secret.txt"}));
    let decoded = |file: &[u8]| {
        use base64::Engine as _;
        let envelope: serde_json::Value = serde_json::from_slice(file).unwrap();
        let engine = base64::engine::general_purpose::STANDARD;
        let payload = engine.decode(envelope["payload"].as_str().unwrap()).unwrap();
        let statement: serde_json::Value = serde_json::from_slice(&payload).unwrap();
        let values = statement["predicate"]["values"].as_array().unwrap().clone();
        let content =
            |value: &serde_json::Value| engine.decode(value["content"].as_str().unwrap()).unwrap();
        values.iter().map(content).map(|v| String::from_utf8(v).unwrap()).collect::<String>()
    };
    let bare = receipt(&host, outcome.execution, false);
    assert!(!decoded(&bare).contains("launch code"));
    let full = receipt(&host, outcome.execution, true);
    assert!(decoded(&full).contains("launch code"));
    let report = verified(&host, &full);
    assert_eq!(report.unchecked, [""; 0]);
}

/// Also artifacts with the same content as something else: subjects go by name.
#[test]
fn a_program_leaves_its_plan_and_its_artifacts() {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    let boxes = Boxes::new(Whole, |inside| {
        std::fs::write(inside.out.join("report.txt"), "{}").unwrap();
        inside.stderr = b"working\n".to_vec();
        if inside.input["fail"] == true { Ending::Exited { code: 3 } } else { DONE }
    });
    let host = bench.host_with(&boxes);
    for (input, state) in [(json!({}), Completed), (json!({"fail": true}), RolledBack)] {
        let outcome = bench.call(&host, "test.program", &input);
        assert_eq!(outcome.state, state);
        let report = verified(&host, &receipt(&host, outcome.execution, false));
        assert!(!is_open(&report, "the sandbox's plan"), "{:?}", report.unchecked);
        assert!(is_open(&report, "what the program said"), "{:?}", report.unchecked);
        let report = verified(&host, &receipt(&host, outcome.execution, true));
        assert_eq!(report.unchecked, [""; 0]);
    }
}

#[test]
fn a_call_that_is_not_there_has_no_receipt() {
    let bench = Bench::new();
    let host = bench.host();
    let nobody = "019a7c3e-0000-7000-8000-000000000001".parse().unwrap();
    let failure = receipts::create(host.home(), host.registry(), nobody, false).unwrap_err();
    assert_eq!(failure.code, "EXECUTION_UNKNOWN");
}
