//! libtest's own JSON lines, which cargo offers on nightly toolchains.

use serde::Deserialize;

use super::cargo::{Build, Message};
use super::libtest::explain;
use super::{Told, empty};
use crate::lines::Line;
use crate::place::Places;
use crate::report::{Case, Counts, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::millis;
use crate::unreadable::Unreadable;

pub(super) struct LibtestJson<'a> {
    places: Places<'a>,
    tally: Tally,
    /// How many tests the running suite announced, and what was seen of them.
    suite: Option<(u64, Counts)>,
    build: Build,
    heard: bool,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    event: String,
    name: Option<String>,
    test_count: Option<u64>,
    exec_time: Option<f64>,
    stdout: Option<String>,
    message: Option<String>,
    passed: Option<u64>,
    failed: Option<u64>,
    ignored: Option<u64>,
    measured: Option<u64>,
}

impl<'a> LibtestJson<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        let (tally, build) = (Tally::default(), Build::default());
        LibtestJson { places: *places, tally, suite: None, build, heard: false }
    }

    fn hear(&mut self, event: &Event) {
        self.heard = true;
        match (event.kind.as_str(), event.event.as_str()) {
            ("suite", "started") => {
                self.abandon();
                self.suite = Some((event.test_count.unwrap_or(0), Counts::default()));
            }
            ("suite", _) => self.end(event),
            ("test", "ok") | ("bench", _) => self.case(event, Status::Passed),
            ("test", "failed") => self.case(event, Status::Failed),
            ("test", "ignored") => self.case(event, Status::Skipped),
            // `started`, and `timeout`, which only warns; `report` is about doc-tests.
            _ => {}
        }
    }

    fn case(&mut self, event: &Event, status: Status) {
        let mut case = Case::new(event.name.as_deref().unwrap_or("?"), status);
        case.duration_ms = event.exec_time.and_then(millis);
        case.message.clone_from(&event.message);
        if status.is_failing() {
            let printed = event.stdout.as_deref().or(event.message.as_deref());
            explain(&mut case, printed.unwrap_or_default(), &self.places);
        }
        if let Some((_, seen)) = &mut self.suite {
            seen.add(status, 1);
        }
        self.tally.add(case);
    }

    fn end(&mut self, event: &Event) {
        let Some((announced, seen)) = self.suite.take() else {
            let message = "a suite ends that never began";
            self.tally.problem(ProblemKind::NotUnderstood, message);
            return;
        };
        let told = |number: Option<u64>| number.unwrap_or(0);
        let passed = told(event.passed).saturating_add(told(event.measured));
        let closing = (passed, told(event.failed), told(event.ignored));
        let counted = (seen.passed, seen.failed, seen.skipped);
        if closing != counted || announced != seen.total {
            let message = format!(
                "a suite of {announced} tests says (passed, failed, ignored) {closing:?}, and its \
                 tests say {counted:?}"
            );
            self.tally.problem(ProblemKind::CountsDisagree, message);
        }
    }

    fn abandon(&mut self) {
        if let Some((announced, seen)) = self.suite.take() {
            let message = format!("a suite ended after {} of {announced} tests", seen.total);
            self.tally.problem(ProblemKind::Truncated, message);
        }
    }
}

impl Told for LibtestJson<'_> {
    fn line(&mut self, line: &Line<'_>) {
        if let Some(message) = Message::of(line.text) {
            self.heard = true;
            self.build.hear(&message, &self.places);
            return;
        }
        if !line.text.trim_start().starts_with('{') {
            return;
        }
        match serde_json::from_str(line.text) {
            Ok(event) => self.hear(&event),
            // A program under test may print JSON of its own.
            Err(_) if !line.text.contains("\"event\"") => {}
            Err(_) => {
                let message = "a line is not what libtest writes, or it is cut";
                self.tally.problem(ProblemKind::NotUnderstood, message);
            }
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        self.abandon();
        if !self.heard {
            return Err(empty());
        }
        self.build.conclude(&mut self.tally);
        Ok(self.tally.done(TestFormat::LibtestJson))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(lines: &[&str]) -> TestReport {
        told(&mut lines.join("\n").as_bytes(), LibtestJson::new(&Places::default())).unwrap()
    }

    const BEGIN: &str = r#"{ "type": "suite", "event": "started", "test_count": 2 }"#;
    const OK: &str = r#"{ "type": "test", "name": "ok", "event": "ok", "exec_time": 0.5 }"#;
    const BAD: &str = r#"{ "type": "test", "name": "bad", "event": "failed", "stdout": "thread 'bad' panicked at src/lib.rs:6:42:\nboom\n" }"#;
    const END: &str = r#"{ "type": "suite", "event": "failed", "passed": 1, "failed": 1, "ignored": 0, "measured": 0, "filtered_out": 0, "exec_time": 0.1 }"#;

    #[test]
    fn a_suite_is_read() {
        let report = read(&[BEGIN, OK, BAD, END]);
        assert_eq!(report.problems, []);
        assert_eq!((report.counts.passed, report.counts.failed), (1, 1));
        assert_eq!(report.cases[0].duration_ms, Some(500));
        let bad = &report.cases[1];
        assert_eq!((bad.file.as_deref(), bad.line), (Some("src/lib.rs"), Some(6)));
        assert_eq!(bad.message.as_deref(), Some("boom"));
    }

    #[test]
    fn lost_lines_are_told() {
        assert_eq!(read(&[BEGIN, OK, END]).problems[0].kind, ProblemKind::CountsDisagree);
        assert_eq!(read(&[BEGIN, OK, BAD]).problems[0].kind, ProblemKind::Truncated);
        let torn = read(&[BEGIN, OK, &BAD[..60], END]);
        assert_eq!(torn.problems[0].kind, ProblemKind::NotUnderstood);
    }
}
