//! The section Outputs: the same files as in the front matter, with the same hashes.

use std::collections::BTreeMap;

use super::fields::{FrontMatter, artifact_path};
use super::lines::Value;
use super::note::is_none;
use super::{Artifact, OUTPUTS};
use crate::code::Code;
use crate::reason::Findings;
use crate::request::lists::{self, MAX_TEXT, digest};
use crate::sections::{Section, Sections};
use crate::text::Line;

/// Holds the section against the front matter; the descriptions are returned.
pub(super) fn compare(
    sections: &Sections<'_>,
    fields: &FrontMatter,
    findings: &mut Findings,
) -> Vec<Value> {
    let Some(section) = sections.get(OUTPUTS) else { return Vec::new() };
    let mut descriptions = Vec::new();
    let rows = rows(section, &mut descriptions, findings);
    if let (Some(rows), Some(artifacts)) = (rows, &fields.artifacts) {
        differences(section.at, &rows, artifacts, findings);
    }
    descriptions
}

fn differences(
    section: usize,
    rows: &[(Artifact, usize)],
    artifacts: &[Artifact],
    findings: &mut Findings,
) {
    let mut listed: BTreeMap<&str, &Artifact> =
        artifacts.iter().map(|artifact| (artifact.path.as_str(), artifact)).collect();
    for (row, at) in rows {
        match listed.remove(row.path.as_str()) {
            Some(artifact) if artifact.sha256 == row.sha256 => {}
            Some(_) => {
                let message = "has another hash in the front matter";
                findings.quote(Code::ArtifactsDiffer, *at, &row.path, message);
            }
            None => {
                let message = "is not in the front matter, or listed twice";
                findings.quote(Code::ArtifactsDiffer, *at, &row.path, message);
            }
        }
    }
    for path in listed.keys() {
        findings.quote(Code::ArtifactsDiffer, section, path, "is not listed in this section");
    }
}

/// The rows of the section, or nothing when one of them cannot be read.
fn rows(
    section: &Section<'_>,
    descriptions: &mut Vec<Value>,
    findings: &mut Findings,
) -> Option<Vec<(Artifact, usize)>> {
    let lines: Vec<Line<'_>> = section.filled().collect();
    if let [only] = lines.as_slice()
        && is_none(only.text.strip_prefix("- ").unwrap_or(only.text))
    {
        return Some(Vec::new());
    }
    let mut rows = Vec::new();
    let mut complete = true;
    let mut described = true;
    for line in lines {
        if let Some(item) = line.text.strip_prefix("- ") {
            described = false;
            match row(item.trim_end_matches(' '), line.at + 2, findings) {
                Some(artifact) => rows.push((artifact, line.at)),
                None => complete = false,
            }
        } else {
            below(line, &mut described, descriptions, findings);
        }
    }
    complete.then_some(rows)
}

/// `/out/PATH sha256: HEX`
fn row(item: &str, at: usize, findings: &mut Findings) -> Option<Artifact> {
    let parts = item.split_once(' ').map(|(path, rest)| (path, rest.trim_start_matches(' ')));
    let parts = parts.and_then(|(path, rest)| Some((path, rest.strip_prefix("sha256:")?)));
    let Some((path, hash)) = parts.filter(|(path, _)| path.starts_with("/out/")) else {
        let message = "not of the form `- /out/PATH sha256: HEX`";
        findings.add(Code::LineUnknown, at, message);
        return None;
    };
    let hash = hash.trim_start_matches(' ');
    let sha256 = digest(hash, at + item.len() - hash.len(), findings);
    Some(Artifact { path: artifact_path(path, at, findings)?, sha256: sha256? })
}

/// A description below a row, once, and what goes on with it.
fn below(
    line: Line<'_>,
    described: &mut bool,
    descriptions: &mut Vec<Value>,
    findings: &mut Findings,
) {
    let content = line.text.trim_matches(' ');
    let indented = line.text.starts_with("  ");
    match content.strip_prefix("Description:") {
        Some(text) if indented && !*described => {
            *described = true;
            let (text, at) = (text.trim_start_matches(' ').to_owned(), line.at);
            if text.is_empty() {
                findings.add(Code::EmptyValue, at, "the description is empty");
            }
            lists::text(&text, at, MAX_TEXT, findings);
            descriptions.push(Value { text, at });
        }
        None if indented && *described && !descriptions.is_empty() => {
            lists::text(content, line.at, MAX_TEXT, findings);
            descriptions.push(Value { text: content.to_owned(), at: line.at });
        }
        Some(_) if indented && !descriptions.is_empty() => {
            findings.add(Code::LineDuplicate, line.at, "a second description");
        }
        _ => {
            let fix = "write `- /out/PATH sha256: HEX`, and below it perhaps an indented `Description: ...`";
            findings.add_fix(
                Code::LineUnknown,
                line.at,
                "this line is not a file of the list",
                fix,
            );
        }
    }
}
