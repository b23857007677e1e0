//! SARIF 2.1.0: findings of any analyser.

use std::io::BufRead;

use serde::Deserialize;

use super::json::{Bounded, First, Plain, each_in};
use crate::findings::Findings;
use crate::place::Places;
use crate::report::{Diagnostic, LintFormat, LintReport, ProblemKind, Severity};
use crate::unreadable::Unreadable;

#[derive(Deserialize)]
struct Run {
    tool: Tool,
    results: Option<Bounded<Found>>,
    #[serde(default)]
    invocations: First<Invocation>,
}

#[derive(Deserialize)]
struct Tool {
    driver: Driver,
}

#[derive(Deserialize)]
struct Driver {
    name: String,
    #[serde(default)]
    rules: Bounded<Rule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    id: String,
    default_configuration: Option<Configuration>,
}

#[derive(Deserialize)]
struct Configuration {
    level: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation {
    execution_successful: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    rule_id: Option<String>,
    rule_index: Option<i64>,
    kind: Option<String>,
    level: Option<String>,
    message: Message,
    #[serde(default)]
    locations: First<Location>,
    #[serde(default)]
    suppressions: First<Suppression>,
    baseline_state: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    text: Option<String>,
    markdown: Option<String>,
}

#[derive(Deserialize)]
struct Suppression {
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<Physical>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Physical {
    artifact_location: Option<Artifact>,
    region: Option<Region>,
}

#[derive(Deserialize)]
struct Artifact {
    uri: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<u32>,
    start_column: Option<u32>,
    end_line: Option<u32>,
    end_column: Option<u32>,
}

pub(super) fn read<R: BufRead + ?Sized>(
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut findings = Findings::default();
    let mut version = None;
    each_in(
        reader,
        "runs",
        |run: Run| add_run(&mut findings, &run, places),
        |key, value| {
            if let ("version", Plain::Text(text)) = (key, value) {
                version = Some(text);
            }
        },
    )?;
    match version.as_deref() {
        Some(version) if version.starts_with("2.1.") => Ok(findings.done(LintFormat::Sarif)),
        Some(_) => Err(Unreadable::malformed("the report is not of SARIF version 2.1.0")),
        None => Err(Unreadable::malformed("the report does not say its SARIF version")),
    }
}

fn add_run(findings: &mut Findings, run: &Run, places: &Places<'_>) {
    let tool = &run.tool.driver;
    if run.invocations.0.as_ref().is_some_and(|i| i.execution_successful == Some(false)) {
        let message = format!("{} says that it did not succeed", tool.name);
        findings.problem(ProblemKind::BailedOut, message);
    }
    let Some(results) = &run.results else {
        let message = format!("{} says nothing about what it found", tool.name);
        findings.problem(ProblemKind::Truncated, message);
        return;
    };
    for found in results.0.iter().filter(|found| found.counts()) {
        findings.add(diagnostic(found, tool, places));
    }
}

impl Found {
    /// What was accepted by somebody, is gone, or is no finding at all does not count.
    fn counts(&self) -> bool {
        let suppressed = self.suppressions.0.as_ref().is_some_and(|suppression| {
            matches!(suppression.status.as_deref(), None | Some("accepted"))
        });
        let gone = self.baseline_state.as_deref() == Some("absent");
        let none = matches!(self.kind.as_deref(), Some("pass" | "notApplicable"));
        !suppressed && !gone && !none
    }
}

fn diagnostic(found: &Found, tool: &Driver, places: &Places<'_>) -> Diagnostic {
    let rule = rule(found, tool);
    let configured = rule.and_then(|rule| rule.default_configuration.as_ref()?.level.as_deref());
    let level = found.level.as_deref().or(configured);
    let severity = match (found.kind.as_deref(), level) {
        (Some("informational" | "open" | "review"), _) => Severity::Note,
        (_, Some("error")) => Severity::Error,
        (_, Some("note" | "none")) => Severity::Note,
        _ => Severity::Warning,
    };
    let message = found.message.text.as_deref().or(found.message.markdown.as_deref());
    let place = found.locations.0.as_ref().and_then(|first| first.physical_location.as_ref());
    let region = place.and_then(|place| place.region.as_ref());
    let uri = place.and_then(|place| place.artifact_location.as_ref()?.uri.as_deref());
    Diagnostic {
        rule: found.rule_id.clone().or_else(|| rule.map(|rule| rule.id.clone())),
        file: uri.map(|uri| places.relative(&decoded(uri))),
        line: region.and_then(|region| region.start_line),
        column: region.and_then(|region| region.start_column),
        end_line: region.and_then(|region| region.end_line),
        end_column: region.and_then(|region| region.end_column),
        ..Diagnostic::new(&tool.name, severity, message.unwrap_or("(no message)"))
    }
}

/// By its index, which is what most tools write; looking for names would take quadratic time.
fn rule<'t>(found: &Found, tool: &'t Driver) -> Option<&'t Rule> {
    tool.rules.0.get(usize::try_from(found.rule_index?).ok()?)
}

/// `%20` and its like in a URI.
fn decoded(uri: &str) -> String {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        let pair = rest.clone().next().zip(rest.clone().nth(1));
        match pair.and_then(|(a, b)| hex(a)?.checked_mul(16)?.checked_add(hex(b)?)) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
