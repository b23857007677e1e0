//! A verifier of receipts in another language, written from the documentation, agrees with ours.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "a test that was skipped says so")]

mod common;

use std::fs;
use std::process::Command;

use common::receipts::{Case, approved_life, consent, edited, payload_of, seal, verified};
use common::{key, key_id, life, stranger};
use countersign_model::Decision;
use countersign_model::event::{Authorized, CallEvent};
use serde_json::json;

const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent_receipt.py");

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

/// What the other verifier says; an answer that is neither yes nor no fails the test.
fn accepts(key: &str, receipt: &[u8]) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("receipt.json");
    fs::write(&path, receipt).unwrap();
    let output = Command::new("python3").args(["-I", VERIFIER, key]).arg(&path).output();
    let output = output.unwrap();
    let (said, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    match output.status.success() {
        true => assert!(said.unwrap().starts_with("verified:")),
        false => assert!(error.as_ref().unwrap().starts_with("refused:"), "{error:?}"),
    }
    output.status.success()
}

#[test]
fn it_accepts_what_is_genuine() {
    if !has_python() {
        return;
    }
    let waiting = approved_life()[..4].to_vec();
    for life in [approved_life(), waiting, life(0), life(1), life(2), life(3)] {
        let file = Case::of(life).receipt();
        verified(&file);
        assert!(accepts(&key().to_string(), &file));
    }
}

#[test]
fn it_refuses_what_is_not() {
    if !has_python() {
        return;
    }
    let key = key().to_string();
    let good = Case::approved().receipt();
    let payload = payload_of(&good);
    assert!(!accepts(&stranger().verifier().to_string(), &good), "another key");
    assert!(!accepts(&key, &seal(&payload, &stranger())), "another signer");
    assert!(!accepts(&key, &good[..good.len() / 2]), "cut");
    for at in (0..payload.len()).step_by(payload.len() / 8) {
        let mut changed = good.clone();
        let place = 12 + at;
        changed[place] = if changed[place] == b'A' { b'B' } else { b'A' };
        assert!(!accepts(&key, &changed), "byte {at}");
    }
    let lies = [
        edited(&good, |s| s["predicate"]["entries"][2]["path"] = json!([])),
        edited(&good, |s| s["predicate"]["entries"].as_array_mut().unwrap().swap(2, 3)),
        edited(&good, |s| s["predicate"]["values"][0]["content"] = json!("AAAA")),
        edited(&good, |s| s["subject"][0]["name"] = json!("other")),
        edited(&good, |s| s["predicate"]["note"] = json!("trust me")),
        edited(&good, |s| drop(s["predicate"]["basis"].as_array_mut().unwrap().remove(4))),
    ];
    for (n, lie) in lies.iter().enumerate() {
        assert!(!accepts(&key, lie), "lie {n}");
    }
    let unsigned = Case::approved().with(|event| match event {
        CallEvent::Approved(_) => {
            let mut consent = consent("human:ada", 1);
            consent.key = key_id(2);
            Some(CallEvent::Approved(consent))
        }
        _ => None,
    });
    assert!(!accepts(&key, &unsigned.receipt()), "an answer with another's key");
    let decided = |change: fn(&mut Authorized)| {
        let case = Case::approved().with(|event| {
            let CallEvent::Authorized(authorized) = event else { return None };
            let mut authorized = authorized.clone();
            change(&mut authorized);
            Some(CallEvent::Authorized(authorized))
        });
        accepts(&key, &case.receipt())
    };
    assert!(decided(|it| it.verdict.as_mut().unwrap().approvers = 1));
    assert!(!decided(|it| it.verdict.as_mut().unwrap().approvers = 3), "too few agreed");
    assert!(!decided(|it| it.verdict.as_mut().unwrap().decision = Decision::Block), "blocked");
}
