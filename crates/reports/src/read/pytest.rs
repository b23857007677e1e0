//! What pytest prints for people, when its JUnit report is not there.
//!
//! The line at the very end has the numbers; names come from the short summary before it and, with
//! `-v`, from the line of each test. Places come from the sections of failures.

use std::collections::{HashMap, HashSet};

use super::{Told, empty, place};
use crate::lines::Line;
use crate::place::{Places, Spot, leading_number};
use crate::report::{
    Case, Counts, MAX_FAILING, MAX_OTHERS, ProblemKind, Status, TestFormat, TestReport,
};
use crate::tally::Tally;
use crate::text::Block;
use crate::unreadable::Unreadable;

pub(super) struct Pytest<'a> {
    places: Places<'a>,
    tally: Tally,
    /// What the sections said, by their headings.
    sections: HashMap<String, Block>,
    section: Option<(String, Block)>,
    told: HashSet<String>,
    totals: Option<Counts>,
    heard: bool,
}

impl<'a> Pytest<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        Pytest {
            places: *places,
            tally: Tally::default(),
            sections: HashMap::new(),
            section: None,
            told: HashSet::new(),
            totals: None,
            heard: false,
        }
    }

    fn end_section(&mut self) {
        if let Some((name, said)) = self.section.take()
            && self.sections.len() < MAX_FAILING
        {
            self.sections.entry(name).or_insert(said);
        }
    }

    fn rule_line(&mut self, title: &str) {
        self.end_section();
        self.heard |= title == "test session starts";
        if let Some(totals) = totals(title).filter(|_| self.heard) {
            self.totals = Some(totals);
        }
    }

    /// `FAILED test_a.py::test_bad - assert 1 == 2`
    fn summary_line(&mut self, line: &str) {
        for (word, status) in [("FAILED ", Status::Failed), ("ERROR ", Status::Errored)] {
            let Some(rest) = line.strip_prefix(word) else { continue };
            let (id, message) = rest.split_once(" - ").unwrap_or((rest, ""));
            if id.contains(".py") {
                self.case(id, status, message);
            }
        }
    }

    /// `test_a.py::test_ok PASSED [ 16%]`
    fn verbose_line(&mut self, line: &str) {
        if !line.contains(".py::") {
            return;
        }
        // The percentage and the reason of a skip stand behind the outcome.
        let line = line.split(" [").next().unwrap_or(line).trim_end();
        let line = line.split(" (").next().unwrap_or(line).trim_end();
        let Some((id, said)) = line.rsplit_once(' ') else { return };
        match said {
            "PASSED" | "XPASS" => self.case(id, Status::Passed, ""),
            "SKIPPED" | "XFAIL" => self.case(id, Status::Skipped, ""),
            // Failing ones are told again in the summary, with a reason.
            _ => {}
        }
    }

    fn case(&mut self, id: &str, status: Status, message: &str) {
        let new = self.told.len() < MAX_OTHERS + MAX_FAILING && self.told.insert(id.to_owned());
        if !new {
            return;
        }
        let (file, name) = id.split_once("::").unwrap_or(("", id));
        let mut case = Case::new(name, status);
        case.suite = (!file.is_empty()).then(|| file.to_owned());
        case.message = Some(message.to_owned());
        if status.is_failing() {
            self.explain(&mut case, if file.is_empty() { id } else { file }, name);
        }
        self.tally.add(case);
    }

    fn explain(&self, case: &mut Case, file: &str, name: &str) {
        let heading = name.replace("::", ".");
        let ways = [
            heading.clone(),
            format!("ERROR at setup of {heading}"),
            format!("ERROR at teardown of {heading}"),
            format!("ERROR collecting {file}"),
        ];
        let said = ways.iter().find_map(|way| self.sections.get(way));
        let said = said.map(Block::as_str).unwrap_or_default();
        let told: Option<Spot> = self.places.spot_in(said);
        case.details = Some(said.to_owned());
        place(case, told);
        if case.file.is_none() {
            case.file = Some(self.places.relative(file));
        }
    }

    fn check(&mut self, totals: &Counts) {
        let seen = self.tally.counts();
        let unheard = |told: u64, seen: u64| told.checked_sub(seen);
        let (passed, skipped) =
            (unheard(totals.passed, seen.passed), unheard(totals.skipped, seen.skipped));
        match (passed, skipped) {
            (Some(passed), Some(skipped)) if seen.failing() <= totals.failing() => {
                self.tally.add_unlisted(Status::Passed, passed);
                self.tally.add_unlisted(Status::Skipped, skipped);
                let failed = totals.failed.saturating_sub(seen.failed);
                self.tally.add_unlisted(Status::Failed, failed);
                let errored = totals.errored.saturating_sub(seen.errored);
                self.tally.add_unlisted(Status::Errored, errored);
            }
            _ => {
                let message = "the totals at the end are not those of the tests";
                self.tally.problem(ProblemKind::CountsDisagree, message);
            }
        }
    }
}

impl Told for Pytest<'_> {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        if let Some(title) = ruled(text, '=') {
            self.rule_line(title);
        } else if let Some(name) = ruled(text, '_').filter(|_| self.heard) {
            self.end_section();
            self.section = Some((name.to_owned(), Block::default()));
        } else if let Some((_, said)) = &mut self.section {
            said.push(text);
        } else if self.heard {
            self.summary_line(text);
            self.verbose_line(text);
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        self.end_section();
        if !self.heard {
            return Err(empty());
        }
        match self.totals {
            Some(totals) => self.check(&totals),
            None => {
                let message = "the totals at the end are missing";
                self.tally.problem(ProblemKind::Truncated, message);
            }
        }
        Ok(self.tally.done(TestFormat::PytestText))
    }
}

/// The title between two rules: `=== title ===`.
fn ruled(line: &str, rule: char) -> Option<&str> {
    let inner = line.strip_prefix(rule)?.strip_suffix(rule)?;
    let title = inner.trim_matches(rule);
    let title = title.strip_prefix(' ')?.strip_suffix(' ')?;
    (!title.is_empty() && title.starts_with(|c: char| c != rule)).then_some(title)
}

/// `1 failed, 2 passed, 1 skipped, 1 xfailed, 2 errors in 0.03s`
fn totals(title: &str) -> Option<Counts> {
    let (told, _) = title.rsplit_once(" in ")?;
    let mut counts = Counts::default();
    if told == "no tests ran" {
        return Some(counts);
    }
    for part in told.split(", ") {
        let (number, word) = part.split_once(' ')?;
        let number = u64::from(leading_number(number)?);
        let status = match word {
            "passed" | "xpassed" => Status::Passed,
            "failed" => Status::Failed,
            "skipped" | "xfailed" => Status::Skipped,
            "error" | "errors" => Status::Errored,
            "warning" | "warnings" | "deselected" | "rerun" | "subtests passed" => continue,
            _ => return None,
        };
        counts.add(status, number);
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(text: &str) -> TestReport {
        told(&mut text.as_bytes(), Pytest::new(&Places::default())).unwrap()
    }

    const START: &str = "==== test session starts ====\ncollected 3 items\n\n";
    const FAILURE: &str = "==== FAILURES ====\n____ T.test_bad ____\n\n>       assert x == 2\n\
        E       assert 1 == 2\n\ntest_a.py:5: AssertionError\n==== short test summary info ====\n\
        FAILED test_a.py::T::test_bad - assert 1 == 2\n";

    #[test]
    fn failures_come_from_the_summary_and_places_from_the_sections() {
        let report = read(&format!(
            "{START}test_a.py .Fs [100%]\n\n{FAILURE}==== 1 failed, 1 passed, 1 skipped in 0.03s ====\n"
        ));
        assert_eq!(report.problems, []);
        let counts = report.counts;
        assert_eq!((counts.total, counts.passed, counts.failed), (3, 1, 1));
        let bad = &report.cases[0];
        assert_eq!((bad.file.as_deref(), bad.line), (Some("test_a.py"), Some(5)));
        assert_eq!(bad.message.as_deref(), Some("assert 1 == 2"));
        assert_eq!(report.cases_left_out, 2);
    }

    #[test]
    fn verbose_lines_have_names() {
        let report = read(&format!(
            "{START}test_a.py::test_ok PASSED [ 50%]\ntest_a.py::test_s SKIPPED (why) [100%]\n\
             ==== 1 passed, 1 skipped in 0.03s ====\n"
        ));
        assert_eq!((report.cases.len(), report.cases_left_out), (2, 0));
        assert_eq!(report.problems, []);
    }

    #[test]
    fn ends_that_are_missing_or_disagree_are_told() {
        assert_eq!(read(START).problems[0].kind, ProblemKind::Truncated);
        let odd = read(&format!("{START}{FAILURE}==== 3 passed in 0.03s ====\n"));
        assert_eq!(odd.problems[0].kind, ProblemKind::CountsDisagree);
        assert!(read(&format!("{START}==== no tests ran in 0.01s ====\n")).ran_nothing());
    }
}
