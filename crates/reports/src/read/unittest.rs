//! What `python3 -m unittest -v` prints on the error stream: names with outcomes, then a section
//! for each failure, then the totals.

use std::collections::HashMap;

use super::{Told, empty, place};
use crate::lines::Line;
use crate::place::{Places, leading_number};
use crate::report::{Case, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::Block;
use crate::unreadable::Unreadable;

pub(super) struct Unittest<'a> {
    places: Places<'a>,
    tally: Tally,
    /// The name of a test whose description stands between it and its outcome.
    before: String,
    failing: HashMap<String, usize>,
    section: Option<Section>,
    ran: Option<u64>,
    totals: Option<Totals>,
}

struct Section {
    name: String,
    status: Status,
    said: Block,
}

#[derive(Default)]
struct Totals {
    failing: u64,
    skipped: u64,
    unexpected: u64,
}

impl<'a> Unittest<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        Unittest {
            places: *places,
            tally: Tally::default(),
            before: String::new(),
            failing: HashMap::new(),
            section: None,
            ran: None,
            totals: None,
        }
    }

    fn test_line(&mut self, text: &str) {
        let Some((name, said)) = text.rsplit_once(" ... ") else {
            text.clone_into(&mut self.before);
            return;
        };
        let Some((status, reason)) = outcome(said) else { return };
        let described = test_name(name).is_none() && test_name(&self.before).is_some();
        let before = std::mem::take(&mut self.before);
        let full = if described { before.as_str() } else { name };
        self.add(full.trim(), status, reason);
    }

    fn add(&mut self, full: &str, status: Status, reason: Option<&str>) {
        let (name, suite) = test_name(full).unwrap_or((full, None));
        let mut case = Case::new(name, status);
        case.suite = suite.map(str::to_owned);
        case.message = reason.map(str::to_owned);
        if let Some(index) = self.tally.add(case)
            && status.is_failing()
        {
            self.failing.insert(full.to_owned(), index);
        }
    }

    fn end_section(&mut self) {
        let Some(section) = self.section.take() else { return };
        if !self.failing.contains_key(&section.name) {
            // Without `-v` the names stand only here, as do those of modules that do not load.
            self.add(&section.name, section.status, None);
        }
        let Some(index) = self.failing.remove(&section.name) else { return };
        let places = self.places;
        self.tally.amend(index, |case| explain(case, section.said.as_str(), &places));
    }

    fn section_line(&mut self, text: &str) -> bool {
        for (prefix, status) in [("FAIL: ", Status::Failed), ("ERROR: ", Status::Errored)] {
            if let Some(name) = text.strip_prefix(prefix) {
                self.end_section();
                let said = Block::default();
                self.section = Some(Section { name: name.to_owned(), status, said });
                return true;
            }
        }
        match &mut self.section {
            Some(section) => {
                section.said.push(text);
                true
            }
            None => false,
        }
    }
}

impl Told for Unittest<'_> {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        if let Some(rest) = text.strip_prefix("Ran ")
            && let Some(ran) = ran(rest)
        {
            self.end_section();
            self.ran = Some(ran);
            self.totals = None;
        } else if self.ran.is_some() && self.totals.is_none() {
            self.totals = totals(text);
        } else if !self.section_line(text) {
            self.test_line(text);
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        self.end_section();
        let counts = self.tally.counts();
        let (Some(ran), Some(totals)) = (self.ran, &self.totals) else {
            if counts.total == 0 {
                return Err(empty());
            }
            self.tally.problem(ProblemKind::Truncated, "the totals at the end are missing");
            return Ok(self.tally.done(TestFormat::UnittestText));
        };
        let failing = totals.failing.saturating_add(totals.unexpected);
        // Without `-v` only failing ones are told by name: those of an unexpected success are not.
        let hidden = failing.saturating_sub(counts.failing());
        if counts.failing() > failing || hidden > totals.unexpected {
            let message =
                format!("{failing} failures at the end, and {} tests that fail", counts.failing());
            self.tally.problem(ProblemKind::CountsDisagree, message);
        } else {
            self.tally.add_unlisted(Status::Failed, hidden);
        }
        let skipped = totals.skipped.saturating_sub(counts.skipped);
        self.tally.add_unlisted(Status::Skipped, skipped);
        // A test with failing subtests is several failures; one that passes has its own line.
        let told = self.tally.counts().total;
        self.tally.add_unlisted(Status::Passed, ran.saturating_sub(told));
        Ok(self.tally.done(TestFormat::UnittestText))
    }
}

fn explain(case: &mut Case, said: &str, places: &Places<'_>) {
    let rule = |line: &&str| !line.starts_with("---") && !line.starts_with("===");
    let mut message = said.lines().filter(|line| !line.trim().is_empty()).filter(rule);
    case.message = message.rfind(|line| !line.starts_with(' ')).map(str::to_owned);
    place(case, places.spot_in(said));
    case.details = Some(said.lines().filter(rule).collect::<Vec<_>>().join("\n"));
}

fn outcome(said: &str) -> Option<(Status, Option<&str>)> {
    let said = said.trim_end();
    match said {
        "ok" | "expected failure" => Some((Status::Passed, None)),
        "FAIL" => Some((Status::Failed, None)),
        "unexpected success" => Some((Status::Failed, Some(said))),
        "ERROR" => Some((Status::Errored, None)),
        _ => {
            let why = said.strip_prefix("skipped ")?;
            Some((Status::Skipped, Some(why.trim_matches(['\'', '"']))))
        }
    }
}

/// `test_x (module.Class.test_x)` as name and class; subtests keep their parameters.
fn test_name(full: &str) -> Option<(&str, Option<&str>)> {
    let (name, rest) = full.trim().split_once(" (")?;
    let class = rest.split(')').next()?;
    let is_name = |text: &str| !text.is_empty() && !text.contains(' ');
    if !is_name(name) || !is_name(class) {
        return None;
    }
    let suite = class.strip_suffix(name).and_then(|class| class.strip_suffix('.'));
    let shown = if rest.ends_with(')') && rest.contains(") ") { full.trim() } else { name };
    Some((shown, Some(suite.unwrap_or(class))))
}

/// `7 tests in 0.001s`
fn ran(rest: &str) -> Option<u64> {
    let (number, rest) = rest.split_once(' ')?;
    (rest.starts_with("test in ") || rest.starts_with("tests in ")).then_some(number.parse().ok()?)
}

/// `FAILED (failures=3, errors=1, skipped=1, expected failures=1, unexpected successes=1)`
fn totals(line: &str) -> Option<Totals> {
    let rest = ["OK", "FAILED", "NO TESTS RAN"].iter().find_map(|word| line.strip_prefix(word))?;
    let mut totals = Totals::default();
    let inner = rest.trim().trim_start_matches('(').trim_end_matches(')');
    for (name, number) in inner.split(", ").filter_map(|part| part.split_once('=')) {
        let number = leading_number(number).map_or(0, u64::from);
        match name {
            "failures" | "errors" => totals.failing = totals.failing.saturating_add(number),
            "skipped" => totals.skipped = number,
            "unexpected successes" => totals.unexpected = number,
            _ => {}
        }
    }
    Some(totals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(text: &str) -> TestReport {
        told(&mut text.as_bytes(), Unittest::new(&Places::default())).unwrap()
    }

    const FAILURE: &str = "\n======\nFAIL: test_bad (t.T.test_bad)\nDoc line\n------\n\
        Traceback (most recent call last):\n  File \"/workspace/t.py\", line 6, in test_bad\n    \
        self.assertEqual(1, 2)\nAssertionError: 1 != 2\n\n------\n";

    #[test]
    fn verbose_output_is_read() {
        let report = read(&format!(
            "test_bad (t.T.test_bad)\nDoc line ... FAIL\ntest_ok (t.T.test_ok) ... ok\n\
             test_skip (t.T.test_skip) ... skipped 'why'\n{FAILURE}Ran 3 tests in 0.001s\n\n\
             FAILED (failures=1, skipped=1)\n"
        ));
        assert_eq!(report.problems, []);
        assert_eq!((report.counts.total, report.counts.passed), (3, 1));
        let bad = &report.cases[0];
        assert_eq!((bad.name.as_str(), bad.suite.as_deref()), ("test_bad", Some("t.T")));
        assert_eq!((bad.file.as_deref(), bad.line), (Some("t.py"), Some(6)));
        assert_eq!(bad.message.as_deref(), Some("AssertionError: 1 != 2"));
        assert_eq!(report.cases[2].message.as_deref(), Some("why"));
    }

    #[test]
    fn terse_output_has_the_failures() {
        let report = read(&format!(".F.\n{FAILURE}Ran 3 tests in 0.001s\n\nFAILED (failures=1)\n"));
        assert_eq!((report.counts.total, report.counts.failed), (3, 1));
        assert_eq!(report.cases_left_out, 2);
    }

    /// A test may print what looks like the end of a run.
    #[test]
    fn an_end_in_the_middle_hides_nothing() {
        let report = read(&format!(
            "test_ok (t.T.test_ok) ... Ran\nRan 1 test in 0.1s\n\nOK\nok\n\
             test_bad (t.T.test_bad) ... FAIL\n{FAILURE}Ran 2 tests in 0.001s\n\n\
             FAILED (failures=1)\n"
        ));
        assert_eq!((report.counts.total, report.counts.failed), (2, 1));
        assert_eq!(report.problems, []);
    }

    #[test]
    fn ends_that_are_missing_or_disagree_are_told() {
        let cut = read("test_ok (t.T.test_ok) ... ok\n");
        assert_eq!(cut.problems[0].kind, ProblemKind::Truncated);
        let odd = read("test_ok (t.T.test_ok) ... FAIL\nRan 1 test in 0.001s\n\nOK\n");
        assert_eq!(odd.problems[0].kind, ProblemKind::CountsDisagree);
        assert!(read("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n").ran_nothing());
    }
}
