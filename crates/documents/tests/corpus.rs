//! The corpus of requests: every document is judged as its table says, and every code is in it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;

use common::{cases, codes, folder, judged, stage, told};
use countersign_documents::request::Stage;
use countersign_documents::{Code, Judgement};

#[test]
fn good_requests_are_accepted() {
    let cases = cases("accept");
    assert!(cases.len() >= 55, "only {} documents to accept", cases.len());
    let refused: Vec<String> = cases
        .iter()
        .map(|case| (case, judged(&case.bytes, &case.name, stage(&case.column))))
        .filter(|(_, judgement)| matches!(judgement, Judgement::Reject(_)))
        .map(|(case, judgement)| format!("{}\n{}", case.name, told(&judgement)))
        .collect();
    assert!(refused.is_empty(), "{} good requests refused\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn bad_requests_are_refused_for_exactly_what_is_wrong() {
    let cases = cases("reject");
    assert!(cases.len() >= 125, "only {} documents to reject", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let judgement = judged(&case.bytes, &case.name, Stage::Approved);
        if codes(&judgement) != case.column {
            let (found, expected) = (codes(&judgement), &case.column);
            let told = told(&judgement);
            wrong.push(format!("{}\n  found    {found}\n  expected {expected}\n{told}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} judged otherwise\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_code_is_in_a_table() {
    let mut seen = BTreeSet::new();
    for kind in ["requests", "results"] {
        let table = folder("reject").join(format!("../../{kind}/reject/expected.tsv"));
        let text = fs::read_to_string(table).unwrap_or_default();
        for row in text.lines().skip(1) {
            seen.extend(row.split('\t').nth(1).unwrap().split(' ').map(str::to_owned));
        }
    }
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !seen.contains(code.as_str())).collect();
    assert!(missing.is_empty(), "no document for {missing:?}");
}

#[test]
fn what_is_refused_is_told_in_order_and_inside_of_the_document() {
    for case in cases("reject") {
        let judgement = judged(&case.bytes, &case.name, Stage::Approved);
        let reasons = judgement.reasons();
        assert!(reasons.is_sorted_by_key(|reason| (reason.line, reason.column)), "{}", case.name);
        let text = String::from_utf8_lossy(&case.bytes);
        let lines: Vec<&str> = text.split('\n').collect();
        for reason in reasons {
            let line = lines.get(reason.line as usize - 1).expect("a line of the document");
            assert!(reason.column as usize <= line.chars().count() + 1, "{}", case.name);
            assert!(!reason.message.is_empty() && !reason.fix.is_empty());
        }
    }
}
