//! The corpus of results: every document is judged as its table says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod results;

use countersign_documents::Judgement;
use results::{cases, codes, judged, told};

#[test]
fn good_results_are_accepted() {
    let cases = cases("accept");
    assert!(cases.len() >= 35, "only {} documents to accept", cases.len());
    let judged = cases.iter().map(|case| (case, judged(&case.bytes, &case.name, &case.against)));
    let refused: Vec<String> = judged
        .filter(|(_, judgement)| matches!(judgement, Judgement::Reject(_)))
        .map(|(case, judgement)| format!("{}\n{}", case.name, told(&judgement)))
        .collect();
    assert!(refused.is_empty(), "{} good results refused\n{}", refused.len(), refused.join("\n"));
}

#[test]
fn bad_results_are_refused_for_exactly_what_is_wrong() {
    let cases = cases("reject");
    assert!(cases.len() >= 60, "only {} documents to reject", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let judgement = judged(&case.bytes, &case.name, &case.against);
        let (found, expected) = (codes(&judgement), &case.codes);
        if found != *expected {
            let told = told(&judgement);
            wrong.push(format!("{}\n  found    {found}\n  expected {expected}\n{told}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{} judged otherwise\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_refused_is_told_in_order_and_without_secrets() {
    for case in cases("reject") {
        let judgement = judged(&case.bytes, &case.name, &case.against);
        let reasons = judgement.reasons();
        assert!(reasons.is_sorted_by_key(|reason| (reason.line, reason.column)), "{}", case.name);
        let text = String::from_utf8_lossy(&case.bytes);
        let lines: Vec<&str> = text.split('\n').collect();
        for reason in reasons {
            let line = lines.get(reason.line as usize - 1).expect("a line of the document");
            assert!(reason.column as usize <= line.chars().count() + 1, "{}", case.name);
            assert!(!reason.message.is_empty() && !reason.fix.is_empty());
            let said = format!("{} {}", reason.message, reason.fix);
            assert!(
                !said.contains("Fake0Key1") && !said.contains("FAKE2KEY3"),
                "{}: {said}",
                case.name
            );
        }
    }
}
