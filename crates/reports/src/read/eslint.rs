//! `eslint --format json`.

use std::io::BufRead;

use serde::Deserialize;

use super::json::{Bounded, each};
use crate::findings::Findings;
use crate::place::Places;
use crate::report::{Diagnostic, LintFormat, LintReport, ProblemKind, Severity};
use crate::unreadable::Unreadable;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    file_path: String,
    messages: Bounded<Message>,
    error_count: Option<u64>,
    warning_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    rule_id: Option<String>,
    severity: u8,
    message: String,
    line: Option<u32>,
    column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
}

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut findings = Findings::default();
    each(reader, |file: File| add_file(&mut findings, file, places))?;
    Ok(findings.done(LintFormat::EslintJson))
}

fn add_file(findings: &mut Findings, file: File, places: &Places<'_>) {
    let path = places.relative(&file.file_path);
    let before = findings.counts();
    for message in file.messages.0 {
        findings.add(diagnostic(message, &path));
    }
    let after = findings.counts();
    let seen = (after.error - before.error, after.warning - before.warning);
    let told = (file.error_count.unwrap_or(seen.0), file.warning_count.unwrap_or(seen.1));
    if told != seen {
        let message = format!("{path} has (errors, warnings) {seen:?} and says {told:?}");
        findings.problem(ProblemKind::CountsDisagree, message);
    }
}

fn diagnostic(message: Message, path: &str) -> Diagnostic {
    let severity = if message.severity == 1 { Severity::Warning } else { Severity::Error };
    Diagnostic {
        rule: message.rule_id,
        file: Some(path.to_owned()),
        line: message.line,
        column: message.column,
        end_line: message.end_line,
        end_column: message.end_column,
        ..Diagnostic::new("eslint", severity, &message.message)
    }
}
