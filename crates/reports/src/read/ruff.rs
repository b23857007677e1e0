//! `ruff check --output-format json`.

use std::io::BufRead;

use serde::Deserialize;

use super::json::each;
use crate::findings::Findings;
use crate::place::Places;
use crate::report::{Diagnostic, LintFormat, LintReport, Severity};
use crate::unreadable::Unreadable;

#[derive(Deserialize)]
struct Found {
    code: Option<String>,
    filename: Option<String>,
    message: String,
    location: Option<Point>,
    end_location: Option<Point>,
    severity: Option<String>,
}

#[derive(Deserialize)]
struct Point {
    row: u32,
    column: u32,
}

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut findings = Findings::default();
    each(reader, |found: Found| findings.add(diagnostic(found, places)))?;
    Ok(findings.done(LintFormat::RuffJson))
}

fn diagnostic(found: Found, places: &Places<'_>) -> Diagnostic {
    // Versions that tell no severity fail on every finding.
    let severity = match found.severity.as_deref() {
        Some("warning") => Severity::Warning,
        Some("info") => Severity::Note,
        Some("help") => Severity::Help,
        _ => Severity::Error,
    };
    let (start, end) = (found.location.as_ref(), found.end_location.as_ref());
    Diagnostic {
        rule: found.code,
        file: found.filename.map(|file| places.relative(&file)),
        line: start.map(|point| point.row),
        column: start.map(|point| point.column),
        end_line: end.map(|point| point.row),
        end_column: end.map(|point| point.column),
        ..Diagnostic::new("ruff", severity, &found.message)
    }
}
