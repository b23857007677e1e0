//! Reports as bytes to typed results: one file for each format.

mod cargo;
mod eslint;
mod go_test;
mod jest;
mod json;
mod junit;
mod libtest;
mod libtest_json;
mod located;
mod pytest;
mod ruff;
mod rustfmt;
mod sarif;
mod summary;
mod tap;
mod tap_yaml;
mod unittest;
mod xml;

use std::io::BufRead;

use crate::lines::{Line, each_line};
use crate::place::{Places, Spot};
use crate::report::{Case, LintFormat, LintReport, TestFormat, TestReport};
use crate::unreadable::{Unreadable, Why};

/// Reads what a test tool said. Formats made of lines are read in constant memory, however long
/// the log is; documents are limited in what is held at once.
pub fn tests<R: BufRead + ?Sized>(
    format: TestFormat,
    reader: &mut R,
    places: &Places<'_>,
) -> Result<TestReport, Unreadable> {
    match format {
        TestFormat::Junit => junit::read(reader, places),
        TestFormat::JestJson => jest::read(reader, places),
        TestFormat::LibtestText => told(reader, libtest::Libtest::new(places)),
        TestFormat::LibtestJson => told(reader, libtest_json::LibtestJson::new(places)),
        TestFormat::PytestText => told(reader, pytest::Pytest::new(places)),
        TestFormat::UnittestText => told(reader, unittest::Unittest::new(places)),
        TestFormat::GoTestJson => told(reader, go_test::GoTest::new(places)),
        TestFormat::Tap => told(reader, tap::Tap::new(places)),
        TestFormat::Text => any_text(reader, places),
    }
}

/// Reads what a linter said. The name of the tool is for formats that do not tell it.
pub fn lints<R: BufRead + ?Sized>(
    format: LintFormat,
    tool: &str,
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    match format {
        LintFormat::Sarif => sarif::read(reader, places),
        LintFormat::CargoJson => cargo::read(reader, places),
        LintFormat::RuffJson => ruff::read(reader, places),
        LintFormat::EslintJson => eslint::read(reader, places),
        LintFormat::Rustfmt => rustfmt::read(reader, places),
        LintFormat::Lines => located::read(tool, reader, places),
    }
}

/// A reader that is told one line after the other.
trait Told {
    fn line(&mut self, line: &Line<'_>);
    fn done(self: Box<Self>) -> Result<TestReport, Unreadable>;
}

fn told<R: BufRead + ?Sized>(
    reader: &mut R,
    mut told: impl Told,
) -> Result<TestReport, Unreadable> {
    each_line(reader, |line| told.line(&line))?;
    Box::new(told).done()
}

/// Lets every reader of text listen, and takes the one that understood the most.
fn any_text<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<TestReport, Unreadable> {
    let mut listeners: Vec<Box<dyn Told + '_>> = vec![
        Box::new(libtest::Libtest::new(places)),
        Box::new(pytest::Pytest::new(places)),
        Box::new(unittest::Unittest::new(places)),
        Box::new(tap::Tap::new(places)),
        Box::new(go_test::GoTest::new(places)),
        Box::new(summary::Summary::new()),
    ];
    each_line(reader, |line| listeners.iter_mut().for_each(|told| told.line(&line)))?;
    let reports = listeners.into_iter().filter_map(|told| told.done().ok());
    let best = reports.reduce(|best, other| if is_better(&other, &best) { other } else { best });
    let report = best.filter(|report| report.counts.total > 0 || !report.problems.is_empty());
    report.map(|report| TestReport { format: TestFormat::Text, ..report }).ok_or_else(|| {
        Unreadable::malformed("the output is in no format of tests that is known here")
    })
}

/// A contradiction is told rather than hidden behind a reader that understood less.
fn is_better(one: &TestReport, than: &TestReport) -> bool {
    let weight = |report: &TestReport| (report.counts.total, report.cases.len());
    weight(one) > weight(than)
}

fn empty() -> Unreadable {
    Unreadable::new(Why::Empty, "the report is empty")
}

/// Gives a failing case its place, unless the tool told one.
fn place(case: &mut Case, spot: Option<Spot>) {
    if let Some(spot) = spot
        && case.line.is_none()
        && case.file.as_deref().is_none_or(|file| file == spot.file)
    {
        case.file = Some(spot.file);
        case.line = Some(spot.line);
    }
}
