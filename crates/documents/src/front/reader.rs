//! Lines to entries.

use super::scalar::{self, Scalar};
use super::{Entry, Front, Item, Pair, Value};
use crate::code::Code;
use crate::reason::Findings;
use crate::text::{Line, Source};

const FENCE: &str = "---";

/// More keys than an item of any schema has, and few enough to compare each with each.
const MAX_PAIRS: usize = 8;

/// Reads the front matter that a document begins with. Lines that cannot be read are findings and
/// leave the others standing; `None` means that there is no front matter at all.
pub fn read(source: &Source<'_>, findings: &mut Findings) -> Option<Front> {
    let mut lines = source.lines_from(0);
    if lines.next().is_none_or(|first| first.text != FENCE) {
        findings.add(Code::FrontMatterMissing, 0, "the first line is not `---`");
        return None;
    }
    let mut reader = Reader::new(findings);
    for line in lines {
        if line.text == FENCE {
            let entries = reader.finish();
            let body = (line.at + FENCE.len() + 1).min(source.text().len());
            return Some(Front { entries, end: line.at, body });
        }
        // A body without an end of front matter would be a complaint in every line.
        if line.text.starts_with("## ") {
            break;
        }
        reader.line(line);
    }
    findings.add(Code::FrontMatterMissing, 0, "no second line `---` ends the front matter");
    None
}

struct Reader<'f> {
    findings: &'f mut Findings,
    entries: Vec<Entry>,
    /// How far the dashes of the list at hand are indented; its first item decides.
    dash: Option<usize>,
}

/// A line, and what it begins with.
enum Form<'a> {
    Key { key: &'a str, rest: &'a str, indent: usize },
    Dash { rest: &'a str, indent: usize },
    Neither,
}

impl<'f> Reader<'f> {
    fn new(findings: &'f mut Findings) -> Self {
        Reader { findings, entries: Vec::new(), dash: None }
    }

    fn finish(self) -> Vec<Entry> {
        self.entries
    }

    fn line(&mut self, line: Line<'_>) {
        let (before, entries) = (self.findings.total(), self.entries.len());
        self.read(line);
        let below = self.entries.len() == entries;
        if below && self.findings.total() > before {
            self.entries.last_mut().into_iter().for_each(|entry| entry.spoilt = true);
        }
    }

    fn read(&mut self, line: Line<'_>) {
        let content = line.text.trim_start_matches(' ');
        if content.is_empty() || content.starts_with('#') {
            return;
        }
        match form(line.text) {
            Form::Key { key, rest, indent: 0 } => self.key(line, key, rest),
            Form::Key { key, rest, indent } => self.pair_below(line, key, rest, indent),
            Form::Dash { rest, indent } => self.item(line, rest, indent),
            Form::Neither => self.refuse(line),
        }
    }

    fn key(&mut self, line: Line<'_>, key: &str, rest: &str) {
        self.dash = None;
        let at = line.at + key.len() + 1;
        let end = line.at + scalar::without_comment(line.text).len();
        let value = if scalar::without_comment(rest).trim_start_matches(' ') == "[]" {
            Value::EmptyList
        } else {
            let before = self.findings.total();
            match scalar::read(rest, at, self.findings) {
                Some(scalar) => Value::Scalar(scalar),
                None if self.findings.total() > before => Value::Unreadable,
                None => Value::Nothing,
            }
        };
        let end = match &value {
            Value::Scalar(scalar) => scalar.end,
            _ => end,
        };
        self.entries.push(Entry { key: key.to_owned(), at: line.at, end, value, spoilt: false });
    }

    /// Below a key that could not be read, nothing more is said.
    fn is_lost(&self) -> bool {
        matches!(self.entries.last(), Some(Entry { value: Value::Unreadable, .. }))
    }

    fn item(&mut self, line: Line<'_>, rest: &str, indent: usize) {
        if self.is_lost() {
            return;
        }
        if !matches!(indent, 0 | 2) || self.dash.is_some_and(|dash| dash != indent) {
            let fix = "put the dashes of a list at the margin, or indent all of them by two";
            let message = "a list item that is indented differently";
            return self.findings.add_fix(Code::FrontMatterSyntax, line.at, message, fix);
        }
        let Some(Entry { value, .. }) = self.entries.last_mut() else {
            return self.findings.add(Code::FrontMatterSyntax, line.at, "a list without a key");
        };
        self.dash = Some(indent);
        match form(rest) {
            Form::Key { key, rest: inner, indent: 0 } => {
                let at = line.at + indent + 2;
                let Some(pair) = pair(key, inner, at, self.findings) else { return };
                start_pairs(value, Item { at: line.at + indent, pairs: vec![pair] })
            }
            _ => {
                let at = line.at + indent + 2;
                let before = self.findings.total();
                match scalar::read(rest, at, self.findings) {
                    Some(scalar) => start_scalar(value, scalar),
                    None if self.findings.total() > before => return,
                    None => {
                        let fix = "write the value behind the dash";
                        self.findings.add_fix(Code::EmptyValue, line.at, "an empty list item", fix);
                        return;
                    }
                }
            }
        }
        .unwrap_or_else(|message| {
            self.findings.add(Code::FrontMatterSyntax, line.at + indent, message);
        });
    }

    /// `key: value` with an indentation: a further pair of the item above.
    fn pair_below(&mut self, line: Line<'_>, key: &str, rest: &str, indent: usize) {
        if self.is_lost() {
            return;
        }
        let fits = self.dash.is_some_and(|dash| indent == dash + 2);
        let item = match self.entries.last_mut().map(|entry| &mut entry.value) {
            Some(Value::Pairs(items)) if fits => items.last_mut(),
            _ => None,
        };
        let Some(item) = item else { return self.refuse(line) };
        let Some(pair) = pair(key, rest, line.at + indent, self.findings) else { return };
        if item.pairs.len() >= MAX_PAIRS {
            self.findings.add(Code::TooManyEntries, pair.at, "too many keys in one item");
        } else if item.get(key).is_some() {
            self.findings.quote(Code::DuplicateKey, pair.at, key, "stands twice in this item");
        } else {
            item.pairs.push(pair);
        }
    }

    fn refuse(&mut self, line: Line<'_>) {
        let content = line.text.trim_start_matches(' ');
        if self.is_lost() && content.len() < line.text.len() {
            return;
        }
        let at = line.at + (line.text.len() - content.len());
        let (code, message) = describe(content, line.text);
        self.findings.add(code, at, message);
    }
}

/// What a line is that is neither key nor item.
fn describe(content: &str, line: &str) -> (Code, &'static str) {
    if line == "..." || line.starts_with("--- ") {
        (Code::YamlFeature, "a marker of YAML documents")
    } else if line.starts_with('%') {
        (Code::YamlFeature, "a directive of YAML")
    } else if content.starts_with("? ") || content.starts_with("<<") {
        (Code::YamlFeature, "a complex or merged key")
    } else if content.starts_with(['"', '\'', '{', '[', '&', '*', '!']) {
        (Code::YamlFeature, "keys are plain words of the schema")
    } else {
        (Code::FrontMatterSyntax, "neither `key: value` nor an item of a list")
    }
}

fn form(line: &str) -> Form<'_> {
    let content = line.trim_start_matches(' ');
    let indent = line.len() - content.len();
    if let Some(rest) = content.strip_prefix("- ") {
        return Form::Dash { rest, indent };
    }
    if content == "-" {
        return Form::Dash { rest: "", indent };
    }
    let Some((key, rest)) = content.split_once(':') else { return Form::Neither };
    let is_value = rest.is_empty() || rest.starts_with(' ');
    if is_value && is_key(key) { Form::Key { key, rest, indent } } else { Form::Neither }
}

fn is_key(key: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && key.bytes().all(allowed)
}

fn pair(key: &str, rest: &str, at: usize, findings: &mut Findings) -> Option<Pair> {
    let before = findings.total();
    let value_at = at + key.len() + 1;
    let value = scalar::read(rest, value_at, findings);
    if value.is_none() && findings.total() > before {
        return None;
    }
    // Nothing is an empty value, and whoever asks for it complains.
    let nothing = || Scalar { text: String::new(), quoted: true, at: value_at, end: value_at };
    Some(Pair { key: key.to_owned(), at, value: value.unwrap_or_else(nothing) })
}

fn start_pairs(value: &mut Value, item: Item) -> Result<(), &'static str> {
    match value {
        Value::Nothing => *value = Value::Pairs(vec![item]),
        Value::Pairs(items) => items.push(item),
        _ => return Err("a list below something that is not a list of pairs"),
    }
    Ok(())
}

fn start_scalar(value: &mut Value, scalar: Scalar) -> Result<(), &'static str> {
    match value {
        Value::Nothing => *value = Value::Scalars(vec![scalar]),
        Value::Scalars(items) => items.push(scalar),
        _ => return Err("a list below something that is not a list of values"),
    }
    Ok(())
}
