//! `cargo … --message-format=json`: what the compiler and clippy found.

use std::collections::HashSet;
use std::io::BufRead;

use serde::Deserialize;

use super::empty;
use crate::findings::Findings;
use crate::lines::{Line, each_line};
use crate::place::Places;
use crate::report::{
    Case, Diagnostic, LintFormat, LintReport, MAX_DIAGNOSTICS, ProblemKind, Severity, Status,
};
use crate::tally::Tally;
use crate::unreadable::Unreadable;

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut build = Build::default();
    each_line(reader, |line| build.line(&line, places))?;
    if !build.heard {
        return Err(empty());
    }
    match build.finished {
        // A build that fails says why; one that says nothing broke elsewhere.
        Some(false) if build.findings.counts().error == 0 => {
            build.findings.problem(ProblemKind::BuildFailed, "the build failed without an error");
        }
        Some(_) => {}
        None => build.findings.problem(ProblemKind::Truncated, "the build never finished"),
    }
    Ok(build.findings.done(LintFormat::CargoJson))
}

#[derive(Deserialize)]
pub(super) struct Message {
    reason: String,
    message: Option<Said>,
    success: Option<bool>,
}

#[derive(Deserialize)]
struct Said {
    message: String,
    level: String,
    code: Option<Code>,
    #[serde(default)]
    spans: Vec<Span>,
}

#[derive(Deserialize)]
struct Code {
    code: String,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    line_start: u32,
    line_end: u32,
    column_start: u32,
    column_end: u32,
    is_primary: bool,
}

impl Message {
    pub(super) fn of(line: &str) -> Option<Message> {
        line.starts_with("{\"reason\":").then(|| serde_json::from_str(line).ok()).flatten()
    }
}

/// File, line, column and message.
type Told = (Option<String>, Option<u32>, Option<u32>, String);

/// What is heard of a build.
#[derive(Default)]
pub(super) struct Build {
    findings: Findings,
    /// The same finding is told again for each target that holds the file.
    told: HashSet<Told>,
    finished: Option<bool>,
    heard: bool,
}

impl Build {
    fn line(&mut self, line: &Line<'_>, places: &Places<'_>) {
        if let Some(message) = Message::of(line.text) {
            self.hear(&message, places);
        } else if line.text.starts_with("{\"reason\":") {
            let why = if line.cut { "is too long" } else { "is not what cargo writes" };
            let message = format!("a line of the build {why}");
            self.findings.problem(ProblemKind::NotUnderstood, message);
        }
    }

    pub(super) fn hear(&mut self, message: &Message, places: &Places<'_>) {
        self.heard = true;
        if message.reason == "build-finished" {
            self.finished = message.success;
        }
        if let Some(found) = message.message.as_ref().and_then(|said| diagnostic(said, places))
            && self.is_new(&found)
        {
            self.findings.add(found);
        }
    }

    fn is_new(&mut self, found: &Diagnostic) -> bool {
        let key = (found.file.clone(), found.line, found.column, found.message.clone());
        self.told.len() >= MAX_DIAGNOSTICS || self.told.insert(key)
    }

    /// For a test run: a build that failed is no test that failed, and each error is told.
    pub(super) fn conclude(self, tally: &mut Tally) {
        if !self.heard {
            return;
        }
        match self.finished {
            Some(true) => return,
            Some(false) => tally.problem(ProblemKind::BuildFailed, "the tests could not be built"),
            None => tally.problem(ProblemKind::Truncated, "the build never finished"),
        }
        for found in self.findings.kept() {
            if found.severity == Severity::Error {
                tally.add(broken(found));
            }
        }
    }
}

fn broken(found: Diagnostic) -> Case {
    Case {
        suite: Some("build".to_owned()),
        file: found.file,
        line: found.line,
        message: Some(found.message),
        ..Case::new(found.rule.as_deref().unwrap_or("build"), Status::Errored)
    }
}

fn diagnostic(said: &Said, places: &Places<'_>) -> Option<Diagnostic> {
    let severity = severity(&said.level)?;
    let span = said.spans.iter().find(|span| span.is_primary);
    if span.is_none() && is_summary(said) {
        return None;
    }
    let rule = said.code.as_ref().map(|code| code.code.clone());
    let clippy = rule.as_deref().is_some_and(|rule| rule.starts_with("clippy::"));
    let tool = if clippy { "clippy" } else { "rustc" };
    Some(Diagnostic {
        rule,
        file: span.map(|span| places.relative(&span.file_name)),
        line: span.map(|span| span.line_start),
        column: span.map(|span| span.column_start),
        end_line: span.map(|span| span.line_end),
        end_column: span.map(|span| span.column_end),
        ..Diagnostic::new(tool, severity, &said.message)
    })
}

fn severity(level: &str) -> Option<Severity> {
    match level {
        "warning" => Some(Severity::Warning),
        "note" => Some(Severity::Note),
        "help" => Some(Severity::Help),
        // Advice on how to read errors.
        "failure-note" => None,
        // Also `error: internal compiler error`, and whatever comes to be.
        _ => Some(Severity::Error),
    }
}

/// `2 warnings emitted` and `aborting due to 1 previous error` count what was told before.
fn is_summary(said: &Said) -> bool {
    said.code.is_none()
        && (said.message.ends_with(" emitted") || said.message.starts_with("aborting due to"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNUSED: &str = r#"{"reason":"compiler-message","message":{"message":"unused","level":"warning","code":{"code":"clippy::x"},"spans":[{"file_name":"src/lib.rs","line_start":4,"line_end":4,"column_start":18,"column_end":24,"is_primary":true}]}}"#;
    const BROKEN: &str = r#"{"reason":"compiler-message","message":{"message":"mismatched","level":"error","code":{"code":"E0308"},"spans":[]}}"#;
    const ABORT: &str = r#"{"reason":"compiler-message","message":{"message":"aborting due to 1 previous error","level":"error","code":null,"spans":[]}}"#;
    const DONE: &str = r#"{"reason":"build-finished","success":true}"#;
    const FAILED: &str = r#"{"reason":"build-finished","success":false}"#;

    fn read_lines(lines: &[&str]) -> LintReport {
        read(&mut lines.join("\n").as_bytes(), &Places::default()).unwrap()
    }

    #[test]
    fn lints_are_rules_and_told_once() {
        let report = read_lines(&[UNUSED, UNUSED, DONE]);
        assert_eq!((report.counts.total, report.counts.warning), (1, 1));
        let found = &report.diagnostics[0];
        assert_eq!((found.tool.as_str(), found.rule.as_deref()), ("clippy", Some("clippy::x")));
        assert_eq!((found.line, found.column, found.end_column), (Some(4), Some(18), Some(24)));
        assert_eq!(report.problems, []);
    }

    #[test]
    fn a_build_that_failed_or_never_ended_is_told() {
        let report = read_lines(&[BROKEN, ABORT, FAILED]);
        assert_eq!((report.counts.error, report.problems.len()), (1, 0));
        assert_eq!(read_lines(&[FAILED]).problems[0].kind, ProblemKind::BuildFailed);
        assert_eq!(read_lines(&[UNUSED]).problems[0].kind, ProblemKind::Truncated);
        let torn = read_lines(&[&UNUSED[..80], DONE]);
        assert_eq!(torn.problems[0].kind, ProblemKind::NotUnderstood);
        assert!(read(&mut "".as_bytes(), &Places::default()).is_err());
    }
}
