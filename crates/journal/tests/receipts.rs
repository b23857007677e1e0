//! Receipts of calls of every ending: they verify with the file and the key, and say what is open.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::receipts::{
    CALL, Case, approved_life, asked, check_receipt, consent, home_id, payload_of, token, verified,
};
use common::{NOW, call_fact, call_id, declared, journal, key, key_revoked, life, signer};
use countersign_journal::receipt::{self, Check, Outcome};
use countersign_model::event::{CallEvent, Withdrawn};
use countersign_model::{Answer, Consent, Digest, Lifecycle};
use serde_json::Value;

fn statement(file: &[u8]) -> Value {
    serde_json::from_slice(&payload_of(file)).unwrap()
}

#[test]
fn an_approved_call_verifies_with_everything_it_rests_on() {
    let file = Case::approved().receipt();
    let report = verified(&file);
    assert!(report.checks.iter().all(|checked| checked.outcome == Outcome::Passed));
    assert_eq!(report.checks.len(), Check::ALL.len());
    assert_eq!(report.unchecked, [""; 0]);
    assert_eq!(report.remarks, [""; 0]);
    let call = report.call.unwrap();
    assert_eq!((call.execution, call.state), (call_id(CALL), Lifecycle::Completed));
    assert_eq!(report.home, Some(home_id()));
    let who: Vec<_> = report.answers.iter().map(|answer| answer.by.to_string()).collect();
    assert_eq!(who, ["human:ada", "human:bob"]);
    assert_eq!(report.verdict.unwrap().rules(), ["two-people"]);
    assert_eq!(report.grants.len(), 1);
}

#[test]
fn the_statement_is_one_that_in_toto_tools_understand() {
    let file = Case::approved().receipt();
    let envelope: Value = serde_json::from_slice(&file).unwrap();
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    let statement = statement(&file);
    assert_eq!(statement["_type"], "https://in-toto.io/Statement/v1");
    assert_eq!(statement["predicateType"], receipt::PREDICATE_TYPE);
    let subjects = statement["subject"].as_array().unwrap();
    let names: Vec<_> = subjects.iter().map(|s| s["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], format!("execution/{}", call_id(CALL)));
    assert_eq!(names[1..], ["output", "artifact/report.txt"]);
    let last = statement["predicate"]["entries"].as_array().unwrap().last().unwrap();
    let bytes = BASE64.decode(last["entry"].as_str().unwrap()).unwrap();
    assert_eq!(subjects[0]["digest"]["sha256"], Digest::of(&bytes).to_string());
    assert_eq!(subjects[1]["digest"]["sha256"], Digest::of(b"out").to_string());
    assert_eq!(subjects[2]["digest"]["sha256"], Digest::of(b"artifact").to_string());
}

/// What a stranger need not see is not there: other calls, other keys, other grants.
#[test]
fn nothing_else_is_in_it() {
    let file = Case::approved().receipt();
    let statement = statement(&file);
    let entries = |part: &str| -> Vec<String> {
        let list = statement["predicate"][part].as_array().unwrap();
        let text =
            |e: &Value| String::from_utf8(BASE64.decode(e["entry"].as_str().unwrap()).unwrap());
        list.iter().map(|entry| text(entry).unwrap()).collect()
    };
    assert_eq!(entries("entries").len(), approved_life().len());
    let basis = entries("basis");
    let of = |what: &str| basis.iter().filter(|entry| entry.starts_with(what)).count();
    assert_eq!(of(r#"{"fact":{"home""#), 1);
    assert_eq!(of(r#"{"fact":{"principal""#), 3, "who asked and who agreed");
    assert_eq!(of(r#"{"fact":{"key""#), 2, "the keys that signed");
    assert_eq!(of(r#"{"fact":{"grant""#), 1, "the grant it rests on");
    assert_eq!(basis.len(), 7);
}

#[test]
fn values_that_are_left_out_are_named() {
    let mut case = Case::approved();
    case.values.retain(|value| value.len() > 20);
    let report = verified(&case.receipt());
    for what in ["the declaration", "the input", "the output", "the sandbox's plan"] {
        assert!(report.unchecked.iter().any(|line| line.starts_with(what)), "{what}");
    }
    case.values.clear();
    let report = verified(&case.receipt());
    assert!(report.unchecked.iter().any(|line| line.contains("whether the grants cover")));
    // What is not what was pinned is never taken.
    let mut content = |_: &receipt::Pin| Some(b"something else".to_vec());
    let store = case.journal();
    let file = receipt::create(&store.store, &signer(), call_id(CALL), &mut content).unwrap();
    let none: [Value; 0] = [];
    assert_eq!(*statement(&file)["predicate"]["values"].as_array().unwrap(), none);
}

#[test]
fn calls_of_every_ending_have_receipts() {
    let no = |by: &str, n: u64| {
        let consent = Consent { answer: Answer::No, ..consent(by, n) };
        CallEvent::Refused(consent.sign(&token(n).signing_key()).unwrap())
    };
    let begin = || vec![declared(), CallEvent::Validated {}];
    let waiting = || [begin(), vec![asked()]].concat();
    let yes = || CallEvent::Approved(consent("human:ada", 1));
    let withdrawn = Withdrawn { by: "agent:x".parse().unwrap(), reason: None };
    let table = [
        ("completed", life(0), Lifecycle::Completed, true),
        ("failed", life(1), Lifecycle::Failed, true),
        ("denied", life(2), Lifecycle::Denied, true),
        ("rolled back", life(3), Lifecycle::RolledBack, true),
        ("refused", [waiting(), vec![no("human:ada", 1)]].concat(), Lifecycle::Denied, true),
        (
            "refused by the second",
            [waiting(), vec![yes(), no("human:bob", 2)]].concat(),
            Lifecycle::Denied,
            true,
        ),
        (
            "withdrawn",
            [waiting(), vec![CallEvent::Withdrawn(withdrawn)]].concat(),
            Lifecycle::Denied,
            true,
        ),
        ("declared", vec![declared()], Lifecycle::Declared, false),
        ("waiting", waiting(), Lifecycle::Validated, false),
        ("half agreed", [waiting(), vec![yes()]].concat(), Lifecycle::Validated, false),
        ("executing", approved_life()[..7].to_vec(), Lifecycle::Executing, false),
        ("committed", approved_life()[..8].to_vec(), Lifecycle::Executing, false),
    ];
    for (what, life, state, ended) in table {
        let file = Case::of(life).receipt();
        let report = check_receipt(&file);
        assert!(report.is_verified(), "{what}: {:#?}", report.problems);
        let call = report.call.unwrap();
        assert_eq!((call.state, call.terminal), (state, ended), "{what}");
        let says_so = report.remarks.iter().any(|line| line.contains("had not ended"));
        assert_eq!(says_so, !ended, "{what}");
        assert_eq!(statement(&file)["predicate"]["summary"]["ended"], ended, "{what}");
    }
}

/// Wherever the call stands in a journal, and however long that is.
#[test]
fn calls_verify_at_every_place_of_journals_of_every_length() {
    for after in 0..20 {
        let mut case = Case::approved();
        case.facts.extend((0..after).map(|n| call_fact(900 + n, declared())));
        let report = verified(&case.receipt());
        assert_eq!(report.proven.unwrap().size, case.facts.len() as u64);
    }
}

#[test]
fn a_call_that_is_not_there_has_none() {
    let made = receipt::create(&journal(9).store, &signer(), call_id(CALL), &mut |_| None);
    assert_eq!(made.unwrap_err().code, "EXECUTION_UNKNOWN");
}

#[test]
fn a_key_that_was_revoked_after_it_signed_is_told() {
    let mut case = Case::approved();
    case.facts.push(key_revoked(1));
    let report = verified(&case.receipt());
    assert!(report.remarks.iter().any(|line| line.contains("human:ada was revoked after")));
    // The one that nobody used is nobody's business.
    case.facts.push(key_revoked(3));
    assert_eq!(verified(&case.receipt()).remarks.len(), 1);
}

#[test]
fn a_receipt_is_the_same_whoever_makes_it() {
    let case = Case::approved();
    let journal = case.journal();
    assert_eq!(case.receipt_from(&journal.store), case.receipt_from(&journal.store));
    assert!(case.receipt().ends_with(b"}\n"));
}

#[test]
fn the_envelope_may_be_written_anew_by_other_tools() {
    let file = Case::approved().receipt();
    let envelope: Value = serde_json::from_slice(&file).unwrap();
    verified(serde_json::to_string_pretty(&envelope).unwrap().as_bytes());
}

#[test]
fn the_moment_and_the_key_are_told() {
    let report = verified(&Case::approved().receipt());
    let proven = report.proven.unwrap();
    assert_eq!(proven.origin, key().name());
    assert_eq!(report.call.unwrap().declared_at, NOW);
}
