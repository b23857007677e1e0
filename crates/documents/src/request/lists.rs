//! Inputs and outputs: in the front matter, in their sections, and the same in both.

use std::collections::{BTreeMap, BTreeSet};

use countersign_model::Digest;

use super::{INPUT_FILES, Input, OUTPUTS, Output};
use crate::code::Code;
use crate::front::{Fields, Item, Scalar};
use crate::reason::Findings;
use crate::sections::{Section, Sections};
use crate::text::Line;

const MAX_ENTRIES: usize = 64;
const MAX_NAME: usize = 128;
const MAX_PATH: usize = 255;
pub(crate) const MAX_TEXT: usize = 1000;

/// Something that the front matter lists, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Listed<T> {
    pub(super) value: T,
    pub(super) at: usize,
}

/// `None` when the list cannot be compared with anything; entries that are wrong are left out.
pub(super) fn inputs(fields: &Fields<'_>, findings: &mut Findings) -> Option<Vec<Listed<Input>>> {
    let items = bounded(fields, "inputs", findings)?;
    let listed: Vec<_> = items.iter().map(|item| input(item, findings)).collect();
    let names = listed.iter().flatten().map(|listed| (listed.value.name.as_str(), listed.at));
    duplicates(names, findings);
    listed.into_iter().collect()
}

pub(super) fn outputs(fields: &Fields<'_>, findings: &mut Findings) -> Option<Vec<Listed<Output>>> {
    let items = bounded(fields, "outputs_expected", findings)?;
    let listed: Vec<_> = items.iter().map(|item| output(item, findings)).collect();
    let paths = || listed.iter().flatten().map(|listed| (listed.value.path.as_str(), listed.at));
    duplicates(paths(), findings);
    nested(paths(), findings);
    listed.into_iter().collect()
}

fn bounded<'d>(fields: &Fields<'d>, key: &str, findings: &mut Findings) -> Option<&'d [Item]> {
    let items = fields.items(key)?;
    if items.len() > MAX_ENTRIES {
        let message = format_args!("`{key}` has more than {MAX_ENTRIES} entries");
        findings.add(Code::TooManyEntries, fields.at(key), message);
        return None;
    }
    Some(items)
}

fn input(item: &Item, findings: &mut Findings) -> Option<Listed<Input>> {
    let name = required(item, "name", Code::MissingKey, findings);
    let sha256 = required(item, "sha256", Code::HashMissing, findings);
    let name = name.filter(|name| {
        let fine = is_input_name(&name.text);
        if !fine {
            findings.quote(
                Code::InputNameInvalid,
                name.at,
                &name.text,
                "is not the name of a file",
            );
        }
        fine
    });
    let sha256 = sha256.and_then(|sha256| digest(&sha256.text, sha256.at, findings));
    Some(Listed { at: item.at, value: Input { name: name?.text.clone(), sha256: sha256? } })
}

fn output(item: &Item, findings: &mut Findings) -> Option<Listed<Output>> {
    let scalar = required(item, "path", Code::MissingKey, findings)?;
    let path = scalar.text.strip_prefix("/out/").unwrap_or(&scalar.text);
    if let Some(message) = path_complaint(path) {
        findings.quote(Code::OutputPathInvalid, scalar.at, &scalar.text, message);
        return None;
    }
    let description = item.get("description");
    if let Some(description) = description {
        text(&description.text, description.at, MAX_TEXT, findings);
    }
    let description = description.map(|text| text.text.clone()).unwrap_or_default();
    Some(Listed { at: item.at, value: Output { path: path.to_owned(), description } })
}

fn required<'i>(
    item: &'i Item,
    key: &str,
    code: Code,
    findings: &mut Findings,
) -> Option<&'i Scalar> {
    let value = item.get(key);
    match value {
        None => findings.add(code, item.at, format_args!("this item has no `{key}`")),
        Some(value) if value.text.is_empty() => {
            let code = if code == Code::HashMissing { code } else { Code::EmptyValue };
            findings.add(code, value.at, format_args!("`{key}` is empty"));
        }
        Some(value) => return Some(value),
    }
    None
}

pub(crate) fn digest(text: &str, at: usize, findings: &mut Findings) -> Option<Digest> {
    if is_placeholder(text) || text.starts_with("hex") {
        findings.quote(Code::Placeholder, at, text, "stands where a hash belongs");
        return None;
    }
    let digest = text.parse().ok().filter(|digest: &Digest| digest.to_string() == text);
    if digest.is_none() {
        findings.quote(Code::HashInvalid, at, text, "is not a SHA-256");
    }
    digest
}

/// The schema's own words for "something belongs here".
pub(super) fn is_placeholder(text: &str) -> bool {
    const WORDS: [&str; 6] = [
        "...",
        "human_name_or_id",
        "One sentence describing why execution is needed.",
        "short text",
        "why network is needed (if any)",
        "<slug>",
    ];
    WORDS.contains(&text.trim())
}

/// A text for people: not the schema's example, and not a book.
pub(crate) fn text(value: &str, at: usize, max: usize, findings: &mut Findings) {
    if is_placeholder(value) {
        findings.quote(Code::Placeholder, at, value, "is the schema's own example");
    } else if value.chars().count() > max {
        findings.add(Code::TextTooLong, at, format_args!("more than {max} characters"));
    }
}

/// One part of a path: it cannot be taken for an option, be hidden, or lead elsewhere.
pub fn is_input_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(['.', '-'])
        && !name.ends_with('.')
}

fn path_complaint(path: &str) -> Option<&'static str> {
    if !path.split('/').all(is_input_name) || path.len() > MAX_PATH {
        Some("is not the path of a file below /out")
    } else if ["stdout.txt", "stderr.txt"].iter().any(|kept| path.eq_ignore_ascii_case(kept)) {
        Some("is where the host keeps long output; choose another name")
    } else {
        None
    }
}

/// File systems that do not tell cases apart would make one file of two.
fn duplicates<'i>(names: impl Iterator<Item = (&'i str, usize)>, findings: &mut Findings) {
    let mut seen = BTreeSet::new();
    for (name, at) in names {
        if !seen.insert(name.to_ascii_lowercase()) {
            findings.quote(Code::DuplicateEntry, at, name, "is listed twice");
        }
    }
}

/// A file cannot be the directory of another.
fn nested<'i>(paths: impl Iterator<Item = (&'i str, usize)>, findings: &mut Findings) {
    let paths: BTreeMap<&str, usize> = paths.collect();
    for path in paths.keys() {
        let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        for at in parents.filter_map(|parent| paths.get(parent)) {
            let message = "a file that is also the directory of another output";
            findings.add(Code::OutputPathInvalid, *at, message);
        }
    }
}

pub(super) fn compare_inputs(
    sections: &Sections<'_>,
    listed: &Option<Vec<Listed<Input>>>,
    findings: &mut Findings,
) {
    let Some(section) = sections.get(INPUT_FILES) else { return };
    let found = rows(section, findings, input_row);
    let Some(listed) = listed else { return };
    let key = |input: &Input| input.name.clone();
    compare(listed, &found, section.at, Code::InputsDiffer, key, findings);
    let declared: BTreeMap<&str, Digest> =
        listed.iter().map(|input| (input.value.name.as_str(), input.value.sha256)).collect();
    for row in &found.rows {
        if declared.get(row.value.name.as_str()).is_some_and(|digest| *digest != row.value.sha256) {
            let message = "has another hash in the front matter";
            findings.quote(Code::InputsDiffer, row.at, &row.value.name, message);
        }
    }
}

pub(super) fn compare_outputs(
    sections: &Sections<'_>,
    listed: &Option<Vec<Listed<Output>>>,
    findings: &mut Findings,
) {
    let Some(section) = sections.get(OUTPUTS) else { return };
    let found = rows(section, findings, output_row);
    let Some(listed) = listed else { return };
    let key = |output: &Output| output.path.clone();
    compare(listed, &found, section.at, Code::OutputsDiffer, key, findings);
}

fn compare<T>(
    listed: &[Listed<T>],
    found: &Rows<T>,
    section: usize,
    code: Code,
    key: impl Fn(&T) -> String,
    findings: &mut Findings,
) {
    let declared: BTreeSet<String> = listed.iter().map(|entry| key(&entry.value)).collect();
    let mut shown = BTreeSet::new();
    for row in &found.rows {
        let name = key(&row.value);
        if !declared.contains(&name) {
            findings.quote(code, row.at, &name, "is not in the front matter");
        }
        if !shown.insert(name) {
            findings.add(Code::LineDuplicate, row.at, "this file is listed already");
        }
    }
    // Behind a row that could not be read, any file may be.
    for name in declared.difference(&shown).filter(|_| found.complete) {
        findings.quote(code, section, name, "is not listed in this section");
    }
}

/// The list items of a section, and whether all of them could be read.
struct Rows<T> {
    rows: Vec<Listed<T>>,
    complete: bool,
}

fn rows<T>(
    section: &Section<'_>,
    findings: &mut Findings,
    row: impl Fn(&str, usize, &mut Findings) -> Option<T>,
) -> Rows<T> {
    let lines: Vec<Line<'_>> = section.filled().collect();
    if let [only] = lines.as_slice() {
        let text = only.text.strip_prefix("- ").unwrap_or(only.text).trim_matches(' ');
        if ["none", "none."].iter().any(|none| text.eq_ignore_ascii_case(none)) {
            return Rows { rows: Vec::new(), complete: true };
        }
    }
    let mut found = Rows { rows: Vec::new(), complete: true };
    let mut below = Below::Nothing;
    for line in lines {
        if let Some(item) = line.text.strip_prefix("- ") {
            below = Below::Item;
            match row(item.trim_end_matches(' '), line.at + 2, findings) {
                Some(value) => found.rows.push(Listed { value, at: line.at }),
                None => found.complete = false,
            }
        } else {
            below = below.next(line, findings);
        }
    }
    found
}

/// What may stand below an item: a description, once, and its further lines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Below {
    Nothing,
    Item,
    Description,
}

impl Below {
    fn next(self, line: Line<'_>, findings: &mut Findings) -> Below {
        let content = line.text.trim_start_matches(' ');
        let indented = line.text.len() - content.len() >= 2;
        let description = content.strip_prefix("Description:");
        match (self, description) {
            (Below::Item, Some(value)) if indented => {
                let at = line.at + (line.text.len() - value.len());
                if value.trim().is_empty() {
                    findings.add(Code::EmptyValue, at, "the description is empty");
                } else {
                    text(value.trim(), at, MAX_TEXT, findings);
                }
                Below::Description
            }
            (Below::Description, Some(_)) if indented => {
                findings.add(Code::LineDuplicate, line.at, "a second description");
                self
            }
            (Below::Description, None) if indented => {
                text(content, line.at, MAX_TEXT, findings);
                self
            }
            _ => {
                let fix = "write `- /in/NAME sha256: HEX` or `- /out/PATH`, and below it perhaps an indented `Description: ...`";
                findings.add_fix(
                    Code::LineUnknown,
                    line.at,
                    "this line is not a file of the list",
                    fix,
                );
                self
            }
        }
    }
}

fn input_row(item: &str, at: usize, findings: &mut Findings) -> Option<Input> {
    let path = item.split(' ').next().unwrap_or(item);
    let name = below(path, "/in/", at, findings)?;
    if !is_input_name(name) {
        findings.quote(Code::InputNameInvalid, at, path, "is not the place of an input file");
        return None;
    }
    let rest = item.get(path.len()..).unwrap_or_default().trim_start_matches(' ');
    let Some(hash) = rest.strip_prefix("sha256:") else {
        let (code, message) = match rest {
            "" => (Code::HashMissing, "this input has no hash"),
            _ => (Code::LineUnknown, "not of the form `- /in/NAME sha256: HEX`"),
        };
        findings.add(code, at, message);
        return None;
    };
    let hash = hash.trim_start_matches(' ');
    let hash_at = at + (item.len() - hash.len());
    if hash.is_empty() {
        findings.add(Code::HashMissing, at, "this input has no hash");
        return None;
    }
    Some(Input { name: name.to_owned(), sha256: digest(hash, hash_at, findings)? })
}

fn output_row(item: &str, at: usize, findings: &mut Findings) -> Option<Output> {
    let path = below(item, "/out/", at, findings)?;
    if let Some(message) = path_complaint(path) {
        findings.quote(Code::OutputPathInvalid, at, item, message);
        return None;
    }
    Some(Output { path: path.to_owned(), description: String::new() })
}

fn below<'i>(path: &'i str, root: &str, at: usize, findings: &mut Findings) -> Option<&'i str> {
    let rest = path.strip_prefix(root);
    if rest.is_none() {
        let (code, message) = match path.starts_with(['/', '~', '\\']) {
            true => (Code::HostPath, "is not below its root"),
            false => (Code::LineUnknown, "is not a path of the sandbox"),
        };
        let fix = format_args!("write the whole path, beginning with {root}").to_string();
        findings.quote_fix(code, at, path, message, fix);
    }
    rest
}
