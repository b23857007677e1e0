//! Sections made of labelled lines: Summary and Provenance.

use super::fields::FrontMatter;
use super::note::is_none;
use super::{Note, PROVENANCE, SUMMARY};
use crate::code::Code;
use crate::reason::Findings;
use crate::request::lists::{self, MAX_TEXT};
use crate::sections::{Section, Sections};

/// What stands behind a label, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) at: usize,
}

/// The values of the labels of a section, each of which stands once, in this order. A line that is
/// indented by two goes on with the one before.
pub(super) fn labelled<const N: usize>(
    section: &Section<'_>,
    labels: [&'static str; N],
    findings: &mut Findings,
) -> [Option<Value>; N] {
    let mut values: [Option<Value>; N] = std::array::from_fn(|_| None);
    let mut last: Option<usize> = None;
    for line in section.filled() {
        let content = line.text.strip_prefix("- ").or_else(|| line.text.strip_prefix("* "));
        let content = content.unwrap_or(line.text);
        let label =
            |label: &&str| content.strip_prefix(*label).is_some_and(|rest| rest.starts_with(':'));
        if let Some(index) = labels.iter().position(label) {
            let length = labels.get(index).map_or(0, |label| label.len() + 1);
            let text = content.get(length..).unwrap_or_default();
            let at = line.at + line.text.len() - text.trim_start_matches(' ').len();
            take(
                &mut values,
                index,
                Value { text: text.trim_matches(' ').to_owned(), at },
                findings,
            );
            if last.is_some_and(|last| last > index) {
                findings.quote(Code::LineOrder, line.at, content, "stands too late");
            }
            last = Some(index.max(last.unwrap_or(0)));
        } else if let (Some(index), true) = (last, line.text.starts_with("  ")) {
            let value = values.get_mut(index).and_then(Option::as_mut);
            value.into_iter().for_each(|value| {
                value.text.push(' ');
                value.text.push_str(line.text.trim_matches(' '));
            });
        } else {
            let fix = format!(
                "write one line each for {}",
                labels.map(|label| format!("`{label}:`")).join(", ")
            );
            findings.add_fix(Code::LineUnknown, line.at, "this line is none of the section's", fix);
        }
    }
    missing(section, &labels, &values, findings);
    values
}

fn take(values: &mut [Option<Value>], index: usize, value: Value, findings: &mut Findings) {
    let Some(place) = values.get_mut(index) else { return };
    if place.is_some() {
        findings.add(Code::LineDuplicate, value.at, "this line stands twice");
    } else {
        *place = Some(value);
    }
}

fn missing(
    section: &Section<'_>,
    labels: &[&str],
    values: &[Option<Value>],
    findings: &mut Findings,
) {
    for (label, value) in labels.iter().zip(values) {
        match value {
            None => {
                let message = format_args!("the line `{label}:` is missing");
                findings.add(Code::LineMissing, section.at, message);
            }
            Some(value) if value.text.is_empty() => {
                findings.add(Code::EmptyValue, value.at, format_args!("`{label}:` is empty"));
            }
            Some(value) if *label != COMMAND => {
                lists::text(&value.text, value.at, MAX_TEXT, findings)
            }
            Some(_) => {}
        }
    }
}

const COMMAND: &str = "Command";

/// The sentences of the summary, which anybody may word as they like.
pub(super) fn summary(
    sections: &Sections<'_>,
    fields: &FrontMatter,
    notes: &[(Note, u64)],
    findings: &mut Findings,
) -> Vec<Value> {
    let Some(section) = sections.get(SUMMARY) else { return Vec::new() };
    let labels = ["What ran", "Whether it succeeded", "What outputs were produced"];
    let [ran, success, produced] = labelled(section, labels, findings);
    if let Some(success) = &success {
        let refused = notes.iter().any(|(note, _)| *note == Note::OutputsRefused);
        agrees(success, fields.exit_code, refused, findings);
    }
    if let Some(produced) = produced.as_ref().filter(|produced| is_none(&produced.text))
        && fields.artifacts.as_ref().is_some_and(|artifacts| !artifacts.is_empty())
    {
        let message = "`none`, although there are artifacts";
        findings.add(Code::ArtifactsDiffer, produced.at, message);
    }
    [ran, success, produced].into_iter().flatten().collect()
}

/// Whether it succeeded is said in the first word. A program that ended well has not succeeded when
/// nothing that it left was taken.
fn agrees(success: &Value, exit_code: Option<u8>, refused: bool, findings: &mut Findings) {
    let word = success.text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    let said = match word.to_ascii_lowercase().as_str() {
        "" if success.text.is_empty() => return,
        "yes" | "success" | "succeeded" | "successful" => true,
        "no" | "failed" | "failure" | "unsuccessful" => false,
        _ => {
            let fix = "begin with `yes` or `no`";
            findings.add_fix(Code::LineUnknown, success.at, "neither yes nor no", fix);
            return;
        }
    };
    if let Some(code) = exit_code.filter(|code| (*code == 0 && !refused) != said) {
        let message = format_args!("the exit code is {code}");
        findings.add(Code::SuccessInconsistent, success.at, message);
    }
}

/// The command, the limits and the line about the backend.
pub(super) fn provenance(
    sections: &Sections<'_>,
    fields: &FrontMatter,
    findings: &mut Findings,
) -> (Option<Value>, Option<Value>, Option<Value>) {
    let Some(section) = sections.get(PROVENANCE) else { return (None, None, None) };
    let labels = [COMMAND, "Backend", "Resource limits"];
    let [command, backend, limits] = labelled(section, labels, findings);
    let named = |name: &str, line: &str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    };
    if let (Some(line), Some(name)) = (&backend, &fields.backend)
        && !line.text.is_empty()
        && !named(name, &line.text)
    {
        let message = format_args!("the front matter names `{name}`");
        findings.add(Code::BackendDiffers, line.at, message);
    }
    (command, limits, backend)
}
