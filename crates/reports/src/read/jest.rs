//! `jest --json`, which vitest writes as well.

use std::collections::HashMap;
use std::io::BufRead;

use serde::Deserialize;

use super::json::{Bounded, Plain, each_in};
use super::place;
use crate::place::Places;
use crate::report::{Case, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::first_line;
use crate::unreadable::Unreadable;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    name: Option<String>,
    status: Option<String>,
    message: Option<String>,
    #[serde(default)]
    assertion_results: Bounded<Assertion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assertion {
    #[serde(default)]
    ancestor_titles: Bounded<String>,
    title: String,
    status: String,
    duration: Option<f64>,
    failure_messages: Option<Bounded<String>>,
    location: Option<Location>,
}

#[derive(Deserialize)]
struct Location {
    line: Option<u32>,
}

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<TestReport, Unreadable> {
    let mut tally = Tally::default();
    let mut totals: HashMap<&'static str, u64> = HashMap::new();
    let mut interrupted = false;
    each_in(
        reader,
        "testResults",
        |file: File| add_file(&mut tally, &file, places),
        |key, value| {
            if key == "wasInterrupted" {
                interrupted = value == Plain::Bool(true);
            }
            if let Some(key) = TOTALS.iter().find(|known| **known == key)
                && let Plain::Number(number) = value
            {
                totals.insert(key, number);
            }
        },
    )?;
    check(&mut tally, &totals);
    if interrupted {
        tally.problem(ProblemKind::BailedOut, "the run was interrupted");
    }
    Ok(tally.done(TestFormat::JestJson))
}

const TOTALS: [&str; 3] = ["numFailedTests", "numPassedTests", "numTotalTests"];

fn add_file(tally: &mut Tally, file: &File, places: &Places<'_>) {
    let path = file.name.as_deref().map(|name| places.relative(name));
    for assertion in &file.assertion_results.0 {
        tally.add(case(assertion, path.as_deref(), places));
    }
    // A file that could not be loaded has a message and no test.
    let failed = file.status.as_deref() == Some("failed");
    let none_failed = file.assertion_results.0.iter().all(|a| status(&a.status) != Status::Failed);
    if failed && none_failed {
        let message = file.message.as_deref().unwrap_or_default();
        let mut case = Case::new("(file)", Status::Errored);
        case.suite.clone_from(&path);
        case.file = path;
        case.message = Some(first_line(message).to_owned());
        case.details = Some(message.to_owned());
        place(&mut case, places.spot_in(message));
        tally.add(case);
    }
}

fn case(told: &Assertion, path: Option<&str>, places: &Places<'_>) -> Case {
    let mut case = Case::new(&told.title, status(&told.status));
    let titles = told.ancestor_titles.0.join(" > ");
    case.suite = if titles.is_empty() { path.map(str::to_owned) } else { Some(titles) };
    case.duration_ms = told.duration.and_then(|millis| crate::text::millis(millis / 1000.0));
    if case.status.is_failing() {
        let said = told.failure_messages.as_ref().map(|said| said.0.join("\n")).unwrap_or_default();
        case.file = path.map(str::to_owned);
        place(&mut case, places.spot_in(&said));
        if case.line.is_none() {
            case.line = told.location.as_ref().and_then(|location| location.line);
        }
        case.message = Some(first_line(&said).to_owned());
        case.details = Some(said);
    }
    case
}

fn status(word: &str) -> Status {
    match word {
        "passed" => Status::Passed,
        "failed" => Status::Failed,
        "pending" | "skipped" | "todo" | "disabled" => Status::Skipped,
        // Interrupted, or something new: not a success.
        _ => Status::Errored,
    }
}

fn check(tally: &mut Tally, totals: &HashMap<&'static str, u64>) {
    let counts = tally.counts();
    let seen = [counts.failed, counts.passed, counts.total];
    let Some(told) = TOTALS.iter().map(|key| totals.get(key).copied()).collect::<Option<Vec<_>>>()
    else {
        tally.problem(ProblemKind::Truncated, "the totals are missing");
        return;
    };
    // Files that could not be loaded are not among jest's tests.
    let tests = counts.total.saturating_sub(counts.errored);
    let agrees = told.iter().zip(seen).take(2).all(|(told, seen)| *told == seen);
    let total = told.last().copied().unwrap_or(0);
    if !agrees || !(tests..=counts.total).contains(&total) {
        let message = format!("the totals (failed, passed, all) are {told:?}, the tests {seen:?}");
        tally.problem(ProblemKind::CountsDisagree, message);
    }
}
