//! The corpus of decisions: principal, facts and policies to verdict, rules and approvers.
//! `corpus/README.md` says how a case is written; `countersign policy test` runs the same files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use countersign_model::{Decision, Digest, Verdict};
use countersign_policy::{Against, CaseFile};

/// What holds of every verdict, whatever a case compares.
fn check_form(name: &str, verdict: &Verdict) {
    assert_ne!(verdict.policy, Digest::ZERO, "{name}");
    assert!(verdict.reasons.is_sorted(), "{name}");
    assert!(!verdict.reasons.is_empty(), "{name}");
    match verdict.decision {
        Decision::RequireApproval => assert!(verdict.approvers >= 1, "{name}"),
        _ => assert_eq!((verdict.approvers, verdict.expires_after_ms), (0, None), "{name}"),
    }
}

#[test]
fn every_case_of_the_corpus_decides_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let file: CaseFile =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(!file.needs_policies(), "{}: it brings its own policies", path.display());
        for case in file.run(&Against::default()) {
            assert!(names.insert(case.name.clone()), "{} stands twice", case.name);
            assert!(case.failures.is_empty(), "{}: {:#?}", case.name, case);
            check_form(&case.name, &case.verdict.unwrap());
        }
    }
    assert!(names.len() >= 150, "only {} cases", names.len());
}
