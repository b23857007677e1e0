//! Counts and keeps diagnostics, within the limits.

use crate::report::{
    Diagnostic, LintCounts, LintFormat, LintReport, MAX_DIAGNOSTICS, Problem, ProblemKind, Severity,
};
use crate::tally::add_problem;
use crate::text::{MAX_MESSAGE, MAX_NAME, clean, clean_opt};

#[derive(Debug, Default)]
pub(crate) struct Findings {
    counts: LintCounts,
    kept: Vec<Diagnostic>,
    left_out: u64,
    problems: Vec<Problem>,
}

impl Findings {
    pub(crate) fn counts(&self) -> LintCounts {
        self.counts
    }

    /// Errors are kept when there is no more room for anything else: they are what fails.
    pub(crate) fn add(&mut self, found: Diagnostic) {
        self.counts.add(found.severity);
        let room = match found.severity {
            Severity::Error => MAX_DIAGNOSTICS,
            _ => MAX_DIAGNOSTICS / 2,
        };
        if self.kept.len() < room {
            self.kept.push(fitted(found));
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(crate) fn problem(&mut self, kind: ProblemKind, message: impl AsRef<str>) {
        add_problem(&mut self.problems, kind, message.as_ref());
    }

    pub(crate) fn kept(self) -> Vec<Diagnostic> {
        self.kept
    }

    pub(crate) fn done(self, format: LintFormat) -> LintReport {
        LintReport {
            format,
            counts: self.counts,
            diagnostics: self.kept,
            diagnostics_left_out: self.left_out,
            problems: self.problems,
        }
    }
}

fn fitted(found: Diagnostic) -> Diagnostic {
    let kept = |text: Option<String>| text.and_then(|text| clean_opt(&text, MAX_NAME));
    Diagnostic {
        tool: clean(&found.tool, MAX_NAME),
        message: clean(&found.message, MAX_MESSAGE),
        rule: kept(found.rule),
        file: kept(found.file),
        ..found
    }
}
