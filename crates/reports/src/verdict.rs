//! What a run is worth: how the tool ended, weighed together with what it reported.
//!
//! A success needs both: a tool that ends well, and a whole report that says so. Whatever else
//! there is, nobody may take it for one.

use serde::{Deserialize, Serialize};

use crate::report::{LintReport, Problem, TestReport};
use crate::unreadable::Unreadable;

/// How the tool ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ending {
    Exited(i32),
    /// It was ended, or never began: a signal, a limit, the time. The reason is part of a sentence.
    Stopped(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Passed,
    Failed,
    /// Nobody can tell: it crashed, its report cannot be read, or the two contradict each other.
    Errored,
    NothingRan,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub outcome: Outcome,
    pub sentence: String,
}

impl Verdict {
    fn new(outcome: Outcome, sentence: impl Into<String>) -> Verdict {
        Verdict { outcome, sentence: sentence.into() }
    }
}

/// pytest and unittest end with this when they found no test.
const NO_TESTS: i32 = 5;

pub fn judge_tests(ending: &Ending, report: Result<&TestReport, &Unreadable>) -> Verdict {
    let code = match ended(ending) {
        Ok(code) => code,
        Err(verdict) => return verdict,
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => return unreadable(code, error),
    };
    if let Some(problem) = report.problems.first() {
        return contradictory(code, problem, report.problems.len());
    }
    let counts = &report.counts;
    let failing = counts.failing();
    match (failing, report.ran_nothing()) {
        (0, true) if code == 0 || code == NO_TESTS => nothing_ran(report),
        (0, _) if code == 0 => {
            let skipped = skipped(counts.skipped);
            let sentence = format!("{} passed{skipped}", tests(counts.passed));
            Verdict::new(Outcome::Passed, sentence)
        }
        (0, _) => {
            let sentence = format!(
                "the tool ended with {code}, although none of {} failed",
                tests(counts.total)
            );
            Verdict::new(Outcome::Errored, sentence)
        }
        _ if code == 0 => {
            let sentence = format!(
                "{failing} of {} failed, although the tool ended with 0",
                tests(counts.total)
            );
            Verdict::new(Outcome::Errored, sentence)
        }
        _ => {
            let skipped = skipped(counts.skipped);
            let sentence = format!("{failing} of {} failed{skipped}", tests(counts.total));
            Verdict::new(Outcome::Failed, sentence)
        }
    }
}

/// For linters an exit code of 0 does not outweigh an error that was found: many are told to end
/// with 0 whatever they find.
pub fn judge_lints(ending: &Ending, report: Result<&LintReport, &Unreadable>) -> Verdict {
    let code = match ended(ending) {
        Ok(code) => code,
        Err(verdict) => return verdict,
    };
    let report = match report {
        Ok(report) => report,
        Err(error) => return unreadable(code, error),
    };
    if let Some(problem) = report.problems.first() {
        return contradictory(code, problem, report.problems.len());
    }
    let counts = &report.counts;
    let found = format!("{} errors and {} warnings", counts.error, counts.warning);
    match (counts.error, counts.total) {
        (0, _) if code == 0 => Verdict::new(Outcome::Passed, found),
        (0, 0) => {
            let sentence = format!("the tool ended with {code} and found nothing");
            Verdict::new(Outcome::Errored, sentence)
        }
        _ => Verdict::new(Outcome::Failed, format!("{found}; the tool ended with {code}")),
    }
}

fn ended(ending: &Ending) -> Result<i32, Verdict> {
    match ending {
        Ending::Exited(code) => Ok(*code),
        Ending::Stopped(why) => {
            Err(Verdict::new(Outcome::Errored, format!("the tool did not end by itself: {why}")))
        }
    }
}

fn unreadable(code: i32, error: &Unreadable) -> Verdict {
    let sentence = format!("the tool ended with {code}, and what it said is not usable: {error}");
    Verdict::new(Outcome::Errored, sentence)
}

fn contradictory(code: i32, first: &Problem, many: usize) -> Verdict {
    let more = if many > 1 { format!(" (and {} more)", many - 1) } else { String::new() };
    let sentence = format!("the tool ended with {code}, and {}{more}", first.message);
    Verdict::new(Outcome::Errored, sentence)
}

fn nothing_ran(report: &TestReport) -> Verdict {
    let sentence = match report.counts.total {
        0 => "there was no test to run".to_owned(),
        total => format!("{} skipped, none was run", tests(total)),
    };
    Verdict::new(Outcome::NothingRan, sentence)
}

fn tests(many: u64) -> String {
    if many == 1 { "1 test".to_owned() } else { format!("{many} tests") }
}

fn skipped(many: u64) -> String {
    if many == 0 { String::new() } else { format!(", {many} skipped") }
}
