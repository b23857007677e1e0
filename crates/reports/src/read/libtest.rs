//! What `cargo test` prints: one block for each test binary, maybe with cargo's JSON before them.
//!
//! Names are told first and the reasons of failures later, under a heading, so failing cases are
//! completed afterwards. The closing line of a binary is the authority on how many passed: tests
//! that print past the capture can tear a line apart.

use std::collections::HashMap;

use super::cargo::{Build, Message};
use super::{Told, empty, place};
use crate::lines::Line;
use crate::place::Places;
use crate::report::{Case, Counts, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::{Block, first_line};
use crate::unreadable::Unreadable;

pub(super) struct Libtest<'a> {
    places: Places<'a>,
    tally: Tally,
    suite: Option<String>,
    binary: Option<Binary>,
    /// A failing test whose output is being told.
    section: Option<(String, Block)>,
    build: Build,
    heard: bool,
}

/// A test binary that has begun to speak.
struct Binary {
    announced: u64,
    seen: Counts,
    /// Where the failing cases are kept, to be completed.
    failing: HashMap<String, usize>,
    torn: Option<String>,
}

impl<'a> Libtest<'a> {
    pub(super) fn new(places: &Places<'a>) -> Self {
        Libtest {
            places: *places,
            tally: Tally::default(),
            suite: None,
            binary: None,
            section: None,
            build: Build::default(),
            heard: false,
        }
    }

    fn begin(&mut self, announced: u64) {
        self.abandon();
        let seen = Counts::default();
        self.binary = Some(Binary { announced, seen, failing: HashMap::new(), torn: None });
    }

    /// A binary that never came to its closing line has crashed, or the log was cut.
    fn abandon(&mut self) {
        self.end_section();
        if let Some(binary) = self.binary.take() {
            let name = self.suite.as_deref().unwrap_or("a test binary");
            let message = format!(
                "{name} ended after {} of {} tests, without its closing line",
                binary.seen.total, binary.announced
            );
            self.tally.problem(ProblemKind::Truncated, message);
        }
    }

    fn test_line(&mut self, line: &str) {
        let Some(binary) = &mut self.binary else { return };
        if let Some(name) = binary.torn.take_if(|_| outcome(line).is_some()) {
            self.case(&name, line);
            return;
        }
        let Some((name, said)) = line.strip_prefix("test ").and_then(|l| l.rsplit_once(" ... "))
        else {
            return;
        };
        match outcome(said) {
            Some(_) => self.case(name, said),
            None => binary.torn = Some(name.to_owned()),
        }
    }

    fn case(&mut self, name: &str, said: &str) {
        let (Some(binary), Some((status, reason))) = (&mut self.binary, outcome(said)) else {
            return;
        };
        let name = name.strip_suffix(" - should panic").unwrap_or(name);
        binary.seen.add(status, 1);
        let mut case = Case::new(name, status);
        case.suite.clone_from(&self.suite);
        case.message = reason.map(str::to_owned);
        if let Some(index) = self.tally.add(case)
            && status.is_failing()
        {
            binary.failing.insert(name.to_owned(), index);
        }
    }

    /// `---- name stdout ----` opens what a failing test printed. In there anything may stand, so
    /// only the name of another failing test and the list of failures close it.
    fn section_line(&mut self, line: &str) -> bool {
        if let Some(name) = heading(line).filter(|name| self.is_failing(name)) {
            self.end_section();
            self.section = Some((name.to_owned(), Block::default()));
            return true;
        }
        if line == "failures:" {
            self.end_section();
        }
        let Some((_, block)) = &mut self.section else { return false };
        block.push(line);
        true
    }

    fn is_failing(&self, name: &str) -> bool {
        self.binary.as_ref().is_some_and(|binary| binary.failing.contains_key(name))
    }

    fn end_section(&mut self) {
        let Some((name, block)) = self.section.take() else { return };
        let Some(index) = self.binary.as_mut().and_then(|binary| binary.failing.remove(&name))
        else {
            return;
        };
        let places = self.places;
        self.tally.amend(index, |case| explain(case, block.as_str(), &places));
    }

    fn closing_line(&mut self, line: &str) {
        self.end_section();
        let Some(binary) = self.binary.take() else {
            let message = "a closing line without the beginning of its binary";
            self.tally.problem(ProblemKind::NotUnderstood, message);
            return;
        };
        let Some(Closing { passed, failed, ignored }) = Closing::of(line) else {
            self.tally.problem(ProblemKind::Truncated, format!("a closing line is cut: {line}"));
            return;
        };
        let seen = binary.seen;
        let agrees = failed == seen.failed && passed >= seen.passed && ignored >= seen.skipped;
        let told = passed.saturating_add(failed).saturating_add(ignored);
        if !agrees || told != binary.announced {
            let message = format!(
                "{} tests were announced, {} passed, {} failed and {} were skipped line by line, \
                 and the closing line says: {line}",
                binary.announced, seen.passed, seen.failed, seen.skipped
            );
            self.tally.problem(ProblemKind::CountsDisagree, message);
        } else {
            self.tally.add_unlisted(Status::Passed, passed - seen.passed);
            self.tally.add_unlisted(Status::Skipped, ignored - seen.skipped);
        }
        if let Some(suite) = self.suite.take() {
            self.tally.suite(&suite, seen);
        }
    }
}

impl Told for Libtest<'_> {
    fn line(&mut self, line: &Line<'_>) {
        if self.section.is_none()
            && let Some(message) = Message::of(line.text)
        {
            self.heard = true;
            self.build.hear(&message, &self.places);
            return;
        }
        let text = line.text;
        if self.section_line(text) {
        } else if let Some(announced) = announced(text) {
            self.heard = true;
            self.begin(announced);
        } else if let Some(suite) = suite_heading(text) {
            self.abandon();
            self.suite = Some(suite);
        } else if text.starts_with("test result: ") {
            self.closing_line(text);
        } else {
            self.test_line(text);
        }
    }

    fn done(mut self: Box<Self>) -> Result<TestReport, Unreadable> {
        self.abandon();
        if !self.heard {
            return Err(empty());
        }
        self.build.conclude(&mut self.tally);
        Ok(self.tally.done(TestFormat::LibtestText))
    }
}

fn heading(line: &str) -> Option<&str> {
    let heading = line.strip_prefix("---- ")?.strip_suffix(" ----")?;
    Some(heading.strip_suffix(" stdout").unwrap_or(heading))
}

/// `running 3 tests`
fn announced(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("running ")?;
    let (number, word) = rest.split_once(' ')?;
    matches!(word, "test" | "tests").then(|| number.parse().ok()).flatten()
}

/// Cargo tells on the other stream which binary runs; where both were joined, it is a name.
fn suite_heading(line: &str) -> Option<String> {
    if let Some(running) = line.strip_prefix("     Running ") {
        return Some(running.split(" (").next().unwrap_or(running).to_owned());
    }
    line.strip_prefix("   Doc-tests ").map(|name| format!("doc-tests {name}"))
}

fn outcome(said: &str) -> Option<(Status, Option<&str>)> {
    let said = said.trim_end();
    // `ok <0.001s>` with the option that tells times.
    let word = said.split(" <").next().unwrap_or(said);
    match word {
        "ok" => Some((Status::Passed, None)),
        "FAILED" => Some((Status::Failed, None)),
        "ignored" => Some((Status::Skipped, None)),
        _ if said.starts_with("bench:") => Some((Status::Passed, None)),
        _ if said.starts_with("FAILED (time limit") => Some((Status::Failed, Some(said))),
        _ => said.strip_prefix("ignored, ").map(|why| (Status::Skipped, Some(why))),
    }
}

struct Closing {
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Closing {
    /// `test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; …`, and
    /// nothing when it is cut before it has told all of its numbers.
    fn of(line: &str) -> Option<Closing> {
        let (_, told) = line.split_once(". ")?;
        let number = |word: &str| {
            let mut parts = told.split("; ");
            let number = parts.find_map(|part| part.strip_suffix(word)?.strip_suffix(' '))?;
            number.parse::<u64>().ok()
        };
        let passed = number("passed")?.saturating_add(number("measured")?);
        Some(Closing { passed, failed: number("failed")?, ignored: number("ignored")? })
    }
}

/// Fills in a failing case from what the test printed.
pub(super) fn explain(case: &mut Case, printed: &str, places: &Places<'_>) {
    let mut lines = printed.lines().skip_while(|line| !is_panic(line));
    let heading = lines.next();
    if let Some(heading) = heading {
        place(case, places.spots(heading).pop());
        let old_style = heading.split_once("panicked at '").map(|(_, said)| said);
        let said = old_style.and_then(|said| said.rsplit_once("', ")).map(|(said, _)| said);
        let said = said.or_else(|| lines.next()).unwrap_or(heading);
        case.message = Some(said.to_owned());
    } else {
        case.message.get_or_insert_with(|| first_line(printed).to_owned());
        place(case, places.spot_in(printed));
    }
    case.details = Some(printed.to_owned());
}

fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains("panicked at ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::told;

    fn read(text: &str) -> TestReport {
        told(&mut text.as_bytes(), Libtest::new(&Places::default())).unwrap()
    }

    #[test]
    fn several_binaries_are_summed() {
        let one = "running 2 tests\ntest a ... ok\ntest b - should panic ... ok\n\n\
                   test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let report = read(&format!("{one}{one}"));
        assert_eq!(report.problems, []);
        assert_eq!((report.counts.total, report.counts.passed), (4, 4));
        assert_eq!(report.cases[1].name, "b");
    }

    #[test]
    fn failures_get_place_and_message_in_both_styles() {
        let text = "running 2 tests\ntest new ... FAILED\ntest old ... FAILED\n\nfailures:\n\n\
            ---- new stdout ----\nsaid before x.rs:1:1\n\
            thread 'new' (7) panicked at src/lib.rs:6:42:\nboom: left\n  right\n\n\
            ---- old stdout ----\nthread 'old' panicked at 'it's bad', tests/o.rs:3:9\n\n\
            failures:\n    new\n    old\n\n\
            test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let report = read(text);
        assert_eq!(report.problems, []);
        let told: Vec<_> = report.failing().map(|case| (&case.file, case.line)).collect();
        let file = |name: &str| Some(name.to_owned());
        assert_eq!(told, [(&file("src/lib.rs"), Some(6)), (&file("tests/o.rs"), Some(3))]);
        assert_eq!(report.cases[0].message.as_deref(), Some("boom: left"));
        assert_eq!(report.cases[1].message.as_deref(), Some("it's bad"));
    }

    #[test]
    fn a_binary_without_its_closing_line_is_truncated() {
        let report = read("running 2 tests\ntest a ... ok\n");
        assert_eq!(report.problems[0].kind, ProblemKind::Truncated);
    }

    #[test]
    fn a_torn_line_is_put_together_and_a_lost_one_counted() {
        let text = "running 3 tests\ntest a ... noise of a child\nok\nxtest b ... ok\n\
            test c ... ignored, later\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n";
        let report = read(text);
        assert_eq!(report.problems, []);
        assert_eq!((report.counts.passed, report.counts.skipped), (2, 1));
        assert_eq!(report.cases_left_out, 1);
    }

    #[test]
    fn lines_that_contradict_the_closing_line_are_told() {
        let forged = "running 1 test\ntest a ... ok\ntest b ... ok\n\
            test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let hidden = "running 1 test\ntest a ... ok\n\
            test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        for text in [forged, hidden] {
            assert_eq!(read(text).problems[0].kind, ProblemKind::CountsDisagree);
        }
    }

    #[test]
    fn nothing_is_not_a_report() {
        assert!(told(&mut "hello\n".as_bytes(), Libtest::new(&Places::default())).is_err());
    }
}
