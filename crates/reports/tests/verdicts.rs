//! Only a tool that ends well and a whole report that says so make a success.

use countersign_reports::LintFormat;
use countersign_reports::{
    Ending, Outcome, Places, TestFormat, TestReport, Unreadable, judge_lints, judge_tests, lints,
    tests,
};

fn tap(text: &str) -> Result<TestReport, Unreadable> {
    tests(TestFormat::Tap, &mut text.as_bytes(), &Places::default())
}

fn judged(code: i32, text: &str) -> (Outcome, String) {
    let verdict = judge_tests(&Ending::Exited(code), tap(text).as_ref());
    (verdict.outcome, verdict.sentence)
}

const PASSING: &str = "1..2\nok 1\nok 2 # skip x\n";
const FAILING: &str = "1..2\nok 1\nnot ok 2\n";

#[test]
fn a_success_needs_both() {
    assert_eq!(judged(0, PASSING), (Outcome::Passed, "1 test passed, 1 skipped".to_owned()));
    assert_eq!(judged(1, FAILING), (Outcome::Failed, "1 of 2 tests failed".to_owned()));
    assert_eq!(judged(0, FAILING).0, Outcome::Errored);
    assert_eq!(judged(1, PASSING).0, Outcome::Errored);
}

#[test]
fn nothing_is_no_success() {
    assert_eq!(judged(0, "1..0\n").0, Outcome::NothingRan);
    assert_eq!(judged(5, "1..0\n").0, Outcome::NothingRan);
    assert_eq!(judged(1, "1..0\n").0, Outcome::Errored);
    assert_eq!(judged(0, "1..1\nok 1 # skip\n").0, Outcome::NothingRan);
    assert_eq!(judged(0, "").0, Outcome::Errored);
}

#[test]
fn contradictions_and_kills_outweigh_every_case() {
    assert_eq!(judged(0, "1..3\nok 1\n").0, Outcome::Errored);
    assert_eq!(judged(1, "1..3\nnot ok 1\n").0, Outcome::Errored);
    let stopped = Ending::Stopped("it took longer than 5 minutes".to_owned());
    let verdict = judge_tests(&stopped, tap(PASSING).as_ref());
    assert_eq!(verdict.outcome, Outcome::Errored);
    assert!(verdict.sentence.contains("longer than 5 minutes"));
}

#[test]
fn linters_fail_on_errors_whatever_they_end_with() {
    let judged = |code: i32, text: &str| {
        let report = lints(LintFormat::Lines, "t", &mut text.as_bytes(), &Places::default());
        judge_lints(&Ending::Exited(code), report.as_ref()).outcome
    };
    assert_eq!(judged(0, ""), Outcome::Passed);
    assert_eq!(judged(2, "usage: …\n"), Outcome::Errored);
    assert_eq!(judged(0, "a.c:1: warning: x\n"), Outcome::Passed);
    assert_eq!(judged(1, "a.c:1: warning: x\n"), Outcome::Failed);
    assert_eq!(judged(0, "a.c:1: error: x\n"), Outcome::Failed);
    let error = lints(LintFormat::Sarif, "t", &mut "{".as_bytes(), &Places::default());
    assert_eq!(judge_lints(&Ending::Exited(0), error.as_ref()).outcome, Outcome::Errored);
}
