//! JUnit XML in the dialects that tools write: nested suites, missing attributes, and totals that
//! count cases, suites or both.

use std::io::BufRead;

use super::place;
use super::xml::{Attributes, Piece, each_piece};
use crate::place::{Places, Spot};
use crate::report::{Case, Counts, ProblemKind, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::{Block, MAX_DETAILS, MAX_NAME, capped, first_line, millis};
use crate::unreadable::Unreadable;

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<TestReport, Unreadable> {
    let mut junit = Junit { places: *places, tally: Tally::default(), open: Vec::new(), suites: 0 };
    each_piece(reader, |piece| match piece {
        Piece::Open(name, attributes) => junit.open(name, &attributes),
        Piece::Close => junit.close(),
        Piece::Text(text) => junit.text(text),
    })?;
    if junit.suites == 0 {
        return Err(Unreadable::malformed("the XML has no `testsuite`, so it is no JUnit report"));
    }
    Ok(junit.tally.done(TestFormat::Junit))
}

struct Junit<'a> {
    places: Places<'a>,
    tally: Tally,
    open: Vec<Element>,
    suites: u64,
}

enum Element {
    Suite(Box<Suite>),
    Case(Box<OpenCase>),
    Reason(Reason),
    Other,
}

/// `testsuite` and `testsuites`.
#[derive(Default)]
struct Suite {
    name: String,
    file: Option<String>,
    tests: Option<u64>,
    failing: Option<u64>,
    own: Counts,
    all: Counts,
    /// `failure` and `error` elements: a case may have both.
    reasons: u64,
    children: u64,
}

struct OpenCase {
    case: Case,
    class: String,
    line: Option<u32>,
    reasons: Vec<Reason>,
    told: u64,
}

struct Reason {
    status: Status,
    todo: bool,
    message: String,
    said: Block,
    /// The last lines: some tools tell the place at the very end.
    spot: Option<Spot>,
    rest: String,
}

impl Junit<'_> {
    fn open(&mut self, name: &str, attributes: &Attributes) {
        let element = match name {
            "testsuite" | "testsuites" => {
                self.suites += 1;
                Element::Suite(Box::new(Suite::of(attributes)))
            }
            "testcase" => Element::Case(Box::new(self.case(attributes))),
            "failure" => Element::Reason(Reason::of(Status::Failed, attributes)),
            "error" => Element::Reason(Reason::of(Status::Errored, attributes)),
            "skipped" => Element::Reason(Reason::of(Status::Skipped, attributes)),
            _ => Element::Other,
        };
        self.open.push(element);
    }

    fn text(&mut self, text: &str) {
        if let Some(Element::Reason(reason)) = self.open.last_mut() {
            reason.text(text, &self.places);
        }
    }

    fn close(&mut self) {
        match self.open.pop() {
            Some(Element::Suite(suite)) => self.end_suite(&suite),
            Some(Element::Case(case)) => self.end_case(*case),
            Some(Element::Reason(mut reason)) => {
                reason.end_line(&self.places);
                self.give(reason);
            }
            Some(Element::Other) | None => {}
        }
    }

    fn case(&self, attributes: &Attributes) -> OpenCase {
        let class = capped(attributes.get("classname").unwrap_or_default(), MAX_NAME);
        let suites = self.open.iter().rev();
        let suite = suites.clone().find_map(|element| match element {
            Element::Suite(suite) if !suite.name.is_empty() => Some(suite.name.as_str()),
            _ => None,
        });
        let file = attributes.get("file").map(str::to_owned).or_else(|| {
            suites.clone().find_map(|element| match element {
                Element::Suite(suite) => suite.file.clone(),
                _ => None,
            })
        });
        // Node writes this word for every test.
        let class_name = Some(class.as_str()).filter(|class| !["", "test"].contains(class));
        let name = attributes.get("name").unwrap_or("(no name)");
        let mut case = Case::new(&capped(name, MAX_NAME), status_of(attributes));
        case.suite = class_name.or(suite).map(str::to_owned);
        case.file = file.map(|file| self.places.relative(&file));
        case.duration_ms = attributes.get("time").and_then(seconds).and_then(millis);
        let line = attributes.number("line").and_then(|line| u32::try_from(line).ok());
        OpenCase { case, class, line, reasons: Vec::new(), told: 0 }
    }

    fn give(&mut self, reason: Reason) {
        let failing = u64::from(reason.status.is_failing());
        match self.open.last_mut() {
            Some(Element::Case(case)) => {
                case.told += failing;
                // One failure and one error are the most that anybody tells.
                if case.reasons.len() < 4 {
                    case.reasons.push(reason);
                }
            }
            // An error of a whole suite, such as a file that could not be loaded.
            Some(Element::Suite(suite)) if failing > 0 => {
                let case = Case::new("(suite)", Status::Errored);
                let case = Case { suite: Some(suite.name.clone()), ..case };
                let line = None;
                let class = String::new();
                self.end_case(OpenCase { case, class, line, reasons: vec![reason], told: 1 });
            }
            _ => {}
        }
    }

    fn end_case(&mut self, mut open: OpenCase) {
        let todo = open.reasons.iter().any(|reason| reason.todo);
        let worst = open.reasons.iter().max_by_key(|reason| weight(reason.status));
        if let Some(reason) = worst {
            open.case.status = if todo { Status::Skipped } else { reason.status };
            explain(&mut open, self.places);
        }
        if let Some(Element::Suite(suite)) = self.open.last_mut() {
            suite.own.add(open.case.status, 1);
            suite.all.add(open.case.status, 1);
            suite.reasons += open.told;
        }
        self.tally.add(open.case);
    }

    fn end_suite(&mut self, suite: &Suite) {
        if let Some(problem) = suite.contradiction() {
            self.tally.problem(ProblemKind::CountsDisagree, problem);
        }
        if suite.own.total > 0 {
            self.tally.suite(&suite.name, suite.own);
        }
        if let Some(Element::Suite(above)) = self.open.last_mut() {
            above.children += 1;
            above.reasons += suite.reasons;
            for (status, many) in parts(suite.all) {
                above.all.add(status, many);
            }
        }
    }
}

fn parts(counts: Counts) -> [(Status, u64); 4] {
    [
        (Status::Passed, counts.passed),
        (Status::Failed, counts.failed),
        (Status::Errored, counts.errored),
        (Status::Skipped, counts.skipped),
    ]
}

impl Suite {
    fn of(attributes: &Attributes) -> Suite {
        let (failures, errors) = (attributes.number("failures"), attributes.number("errors"));
        let told = failures.is_some() || errors.is_some();
        Suite {
            name: capped(attributes.get("name").unwrap_or_default(), MAX_NAME),
            file: attributes.get("file").or(attributes.get("filepath")).map(str::to_owned),
            tests: attributes.number("tests"),
            failing: told.then(|| failures.unwrap_or(0).saturating_add(errors.unwrap_or(0))),
            ..Suite::default()
        }
    }

    /// Tools count differently: own cases, those of inner suites, inner suites as one each, and
    /// with or without skipped ones. Numbers that fit none of these ways are a contradiction.
    fn contradiction(&self) -> Option<String> {
        let (own, all) = (self.own, self.all);
        let ways = [own.total, all.total, own.total + self.children, own.tried(), all.tried()];
        if let Some(tests) = self.tests
            && !ways.contains(&tests)
            // A test that passes and breaks when it is taken down may count as two.
            && !(all.total..=all.total.saturating_add(self.reasons)).contains(&tests)
        {
            let name = &self.name;
            return Some(format!("suite `{name}` says {tests} tests and has {}", all.total));
        }
        let ways = [own.failing(), all.failing(), self.reasons];
        let failing = self.failing.filter(|failing| !ways.contains(failing))?;
        let name = &self.name;
        Some(format!("suite `{name}` says {failing} failures and has {}", all.failing()))
    }
}

impl Reason {
    fn of(status: Status, attributes: &Attributes) -> Reason {
        Reason {
            status,
            todo: status == Status::Skipped && attributes.get("type") == Some("todo"),
            message: attributes.get("message").unwrap_or_default().to_owned(),
            said: Block::default(),
            spot: None,
            rest: String::new(),
        }
    }

    /// Text comes in pieces that end anywhere; places are looked for in whole lines.
    fn text(&mut self, text: &str, places: &Places<'_>) {
        let mut lines = text.split('\n');
        self.rest.push_str(lines.next().unwrap_or_default());
        for line in lines {
            self.end_line(places);
            self.rest.push_str(line);
        }
        if self.rest.len() > MAX_DETAILS {
            self.end_line(places);
        }
    }

    fn end_line(&mut self, places: &Places<'_>) {
        let line = std::mem::take(&mut self.rest);
        self.said.push(&line);
        let python = self.spot.as_ref().is_none_or(|spot| spot.file.ends_with(".py"));
        if python && let Some(spot) = places.spots(&line).into_iter().next() {
            self.spot = Some(spot);
        }
    }
}

fn weight(status: Status) -> u8 {
    match status {
        Status::Passed => 0,
        Status::Skipped => 1,
        Status::Errored => 2,
        Status::Failed => 3,
    }
}

/// Some dialects say it in an attribute instead of an element.
fn status_of(attributes: &Attributes) -> Status {
    let told = attributes.get("status").into_iter().chain(attributes.get("result"));
    for word in told {
        match word.to_ascii_lowercase().as_str() {
            "notrun" | "skipped" | "disabled" | "suppressed" => return Status::Skipped,
            "failed" | "failure" => return Status::Failed,
            "error" => return Status::Errored,
            _ => {}
        }
    }
    Status::Passed
}

fn explain(open: &mut OpenCase, places: Places<'_>) {
    let OpenCase { case, class, line, reasons, .. } = open;
    let Some(reason) = reasons.iter().max_by_key(|reason| weight(reason.status)) else { return };
    let said = reason.said.as_str();
    let message = Some(reason.message.as_str()).filter(|message| !message.trim().is_empty());
    case.message = Some(message.unwrap_or_else(|| first_line(said)).to_owned());
    case.details = Some(said.to_owned());
    place(case, java_frame(class, said, places).or_else(|| reason.spot.clone()));
    if case.file.is_some() && case.line.is_none() {
        case.line = *line;
    }
}

/// Frames of the assertion library come first in Java; the one of the class itself is meant.
fn java_frame(class: &str, said: &str, places: Places<'_>) -> Option<Spot> {
    let name = class.rsplit('.').next().filter(|name| !name.is_empty())?;
    let own = |spot: &Spot| {
        let file = spot.file.rsplit('/').next().and_then(|file| file.rsplit_once('.'));
        file.is_some_and(|(stem, kind)| stem == name && ["java", "kt", "scala"].contains(&kind))
    };
    said.lines().flat_map(|line| places.spots(line)).find(own)
}

/// Some write thousands with a comma.
fn seconds(text: &str) -> Option<f64> {
    text.trim().replace(',', "").parse().ok()
}
