//! The keys of a schema: which there are, of which type, and which must be there.

use std::collections::BTreeMap;

use super::{Entry, Front, Item, Kind, Scalar, Value};
use crate::code::Code;
use crate::reason::Findings;

/// A key of a schema.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    pub shape: Shape,
    pub required: bool,
}

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Text,
    /// Text that may be empty or absent in a draft.
    OptionalText,
    Integer,
    /// A number with or without a decimal point.
    Number,
    Texts,
    /// Items with exactly these keys, all of them text; which may be missing is for the caller.
    Items(&'static [&'static str]),
}

/// The entries of a document that are keys of its schema and have its types.
#[derive(Debug)]
pub struct Fields<'d> {
    known: BTreeMap<&'static str, &'d Entry>,
    front: &'d Front,
}

impl Front {
    /// Holds the entries against the keys of a schema.
    pub fn fields(&self, keys: &[Key], findings: &mut Findings) -> Fields<'_> {
        let mut seen: BTreeMap<&str, bool> = BTreeMap::new();
        let mut known = BTreeMap::new();
        for entry in &self.entries {
            let Some(key) = keys.iter().find(|key| key.name == entry.key) else {
                findings.quote(Code::UnknownKey, entry.at, &entry.key, "is no key of the schema");
                continue;
            };
            if seen.insert(key.name, true).is_some() {
                findings.quote(Code::DuplicateKey, entry.at, key.name, "stands twice");
            } else if has_shape(entry, key.shape, findings) && !entry.spoilt {
                known.insert(key.name, entry);
            }
        }
        for key in keys.iter().filter(|key| key.required && !seen.contains_key(key.name)) {
            let message = format_args!("the key `{}` is missing", key.name);
            findings.add(Code::MissingKey, self.end, message);
        }
        Fields { known, front: self }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }
}

impl<'d> Fields<'d> {
    fn value(&self, key: &str) -> Option<&'d Value> {
        self.known.get(key).map(|entry| &entry.value)
    }

    /// The value of a key that has one of text.
    pub fn text(&self, key: &str) -> Option<&'d Scalar> {
        match self.value(key)? {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The digits of a number fit, or the caller's bound on it is not met anyway.
    pub fn integer(&self, key: &str) -> Option<(u64, usize)> {
        let scalar = self.text(key)?;
        Some((scalar.text.parse().unwrap_or(u64::MAX), scalar.at))
    }

    pub fn texts(&self, key: &str) -> Option<&'d [Scalar]> {
        match self.value(key)? {
            Value::Scalars(items) => Some(items),
            Value::EmptyList => Some(&[]),
            _ => None,
        }
    }

    pub fn items(&self, key: &str) -> Option<&'d [Item]> {
        match self.value(key)? {
            Value::Pairs(items) => Some(items),
            Value::EmptyList => Some(&[]),
            _ => None,
        }
    }

    /// Whether the key is there with a value that the schema does not allow: that was said.
    pub fn is_refused(&self, key: &str) -> bool {
        self.front.entry(key).is_some() && !self.known.contains_key(key)
    }

    /// Where a key stands; the end of the front matter for one that is not there.
    pub fn at(&self, key: &str) -> usize {
        self.front.entry(key).map_or(self.front.end, |entry| entry.at)
    }
}

/// Whether the value has the type that the schema says; otherwise that is a finding.
fn has_shape(entry: &Entry, shape: Shape, findings: &mut Findings) -> bool {
    match (&entry.value, shape) {
        (Value::Nothing, Shape::OptionalText)
        | (Value::EmptyList, Shape::Texts | Shape::Items(_)) => true,
        // Said already, where it stands.
        (Value::Unreadable, _) => false,
        (Value::Nothing, _) if entry.spoilt => false,
        (Value::Nothing, _) => {
            findings.quote(Code::EmptyValue, entry.at, &entry.key, "has no value");
            false
        }
        (Value::Scalar(scalar), Shape::OptionalText) => is_text(scalar, findings),
        (Value::Scalar(scalar), Shape::Text) => is_filled_text(scalar, findings),
        (Value::Scalar(scalar), Shape::Integer) => is_number(scalar, &[Kind::Integer], findings),
        (Value::Scalar(scalar), Shape::Number) => {
            is_number(scalar, &[Kind::Integer, Kind::Decimal], findings)
        }
        (Value::Scalars(items), Shape::Texts) => {
            items.iter().filter(|item| !is_filled_text(item, findings)).count() == 0
        }
        (Value::Pairs(items), Shape::Items(keys)) => {
            items.iter().filter(|item| !is_item(item, keys, findings)).count() == 0
        }
        _ => {
            findings.quote(
                Code::WrongType,
                entry.at,
                &entry.key,
                format_args!("is {}", expected(shape)),
            );
            false
        }
    }
}

fn expected(shape: Shape) -> &'static str {
    match shape {
        Shape::Text | Shape::OptionalText => "one text",
        Shape::Integer => "a whole number",
        Shape::Number => "a number",
        Shape::Texts => "a list of texts, or []",
        Shape::Items(_) => "a list of items with keys of their own, or []",
    }
}

fn is_text(scalar: &Scalar, findings: &mut Findings) -> bool {
    let text = scalar.kind() == Kind::Text;
    if !text {
        let fix = "put it in double quotes";
        let message = "is text in the schema, but read as something else without quotes";
        findings.quote_fix(Code::WrongType, scalar.at, &scalar.text, message, fix);
    }
    text
}

fn is_filled_text(scalar: &Scalar, findings: &mut Findings) -> bool {
    let empty = scalar.text.trim().is_empty();
    if empty {
        findings.add(Code::EmptyValue, scalar.at, "the value is empty");
    }
    !empty && is_text(scalar, findings)
}

fn is_number(scalar: &Scalar, kinds: &[Kind], findings: &mut Findings) -> bool {
    let number = kinds.contains(&scalar.kind());
    if !number {
        let fix = "write a number in plain decimal digits, without quotes, sign or leading zero";
        findings.quote_fix(Code::WrongType, scalar.at, &scalar.text, "is not a number here", fix);
    }
    number
}

/// Empty values of known keys are for the caller: it knows what their absence means.
fn is_item(item: &Item, keys: &[&str], findings: &mut Findings) -> bool {
    let mut fits = true;
    for pair in &item.pairs {
        if !keys.contains(&pair.key.as_str()) {
            findings.quote(Code::UnknownKey, pair.at, &pair.key, "is no key of such an item");
            fits = false;
        } else {
            fits = is_text(&pair.value, findings) && fits;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::read;
    use crate::text::Source;

    const KEYS: &[Key] = &[
        Key { name: "title", shape: Shape::Text, required: true },
        Key { name: "by", shape: Shape::OptionalText, required: false },
        Key { name: "count", shape: Shape::Integer, required: false },
        Key { name: "took", shape: Shape::Number, required: false },
        Key { name: "hosts", shape: Shape::Texts, required: false },
        Key { name: "files", shape: Shape::Items(&["name", "sha256"]), required: false },
    ];

    fn check(lines: &str) -> Vec<(Code, u32, u32)> {
        let text = format!("---\n{lines}---\nbody\n");
        let source = Source::of(&text);
        let mut findings = Findings::new();
        let front = read(&source, &mut findings).unwrap();
        assert_eq!(text.get(front.body..), Some("body\n"));
        let _ = front.fields(KEYS, &mut findings);
        let reasons = findings.into_reasons(&source);
        reasons.iter().map(|reason| (reason.code, reason.line, reason.column)).collect()
    }

    #[test]
    fn the_forms_of_the_schema_are_read() {
        for fine in [
            "title: x\n",
            "title:    \"x\" # note\n\n# a comment\nby:\ncount: 3\n",
            "title: x\nhosts: []   # none\nfiles: []\n",
            "title: x\nhosts:\n- a\n- \"b\"\n",
            "title: x\nhosts: # two\n  - a\n\n  # between\n  - b\n",
            "title: x\nfiles:\n- name: a\n  sha256: b\n- sha256: c\n  name: d\n",
            "title: x\nfiles:\n  - name: \"a\"\n    sha256: \"b\"\ntook: 3.4\n",
        ] {
            assert_eq!(check(fine), [], "{fine}");
        }
    }

    #[test]
    fn everything_else_is_refused_where_it_stands() {
        use Code::{
            DuplicateKey, EmptyValue, FrontMatterSyntax, MissingKey, UnknownKey, WrongType,
            YamlFeature,
        };
        for (lines, expected) in [
            ("", (MissingKey, 2, 1)),
            ("title: x\ntitle: y\n", (DuplicateKey, 3, 1)),
            ("title: x\nTitle: y\n", (UnknownKey, 3, 1)),
            ("title:\n", (EmptyValue, 2, 1)),
            ("title: \"\"\n", (EmptyValue, 2, 8)),
            ("title: 7\n", (WrongType, 2, 8)),
            ("title: x\ncount: \"7\"\n", (WrongType, 3, 8)),
            ("title: x\ncount: 07\n", (WrongType, 3, 8)),
            ("title: x\ncount: 1.5\n", (WrongType, 3, 8)),
            ("title: x\ntook: 1e3\n", (WrongType, 3, 7)),
            ("title: x\nhosts: a\n", (WrongType, 3, 1)),
            ("title: x\nhosts:\n- a: b\n", (WrongType, 3, 1)),
            ("title: x\nfiles:\n- a\n", (WrongType, 3, 1)),
            ("title: x\nfiles:\n- name: a\n  size: b\n", (UnknownKey, 5, 3)),
            ("title: x\nfiles:\n- name: a\n  name: b\n", (DuplicateKey, 5, 3)),
            ("title: x\nfiles:\n- name: a\n    sha256: b\n", (FrontMatterSyntax, 5, 5)),
            ("title: x\nhosts:\n- a\n  - b\n", (FrontMatterSyntax, 5, 1)),
            ("title: x\nhosts:\n    - b\n", (FrontMatterSyntax, 4, 1)),
            ("title: x\nhosts:\n-\n", (EmptyValue, 4, 1)),
            ("title: x\nhosts: []\n- a\n", (FrontMatterSyntax, 4, 1)),
            ("title: x\n  more\n", (FrontMatterSyntax, 3, 3)),
            ("title: x\n by: y\n", (FrontMatterSyntax, 3, 2)),
            ("title: x\nby : y\n", (FrontMatterSyntax, 3, 1)),
            ("title: x\nby:y\n", (FrontMatterSyntax, 3, 1)),
            ("title: x\nhosts: [a]\n", (YamlFeature, 3, 8)),
            ("title: x\n\"by\": y\n", (YamlFeature, 3, 1)),
            ("title: x\n...\n", (YamlFeature, 3, 1)),
            ("%YAML 1.2\ntitle: x\n", (YamlFeature, 2, 1)),
            ("title: x\n<<: *a\n", (YamlFeature, 3, 1)),
            ("title: |\n  x\n  y: z\n", (YamlFeature, 2, 8)),
        ] {
            assert_eq!(check(lines).first(), Some(&expected), "{lines}");
        }
    }

    #[test]
    fn there_is_exactly_one_front_matter() {
        for text in ["", "a\n", " ---\n", "--- \n---\n", "---\na: b\n", "---\na: b\n## X\n---\n"] {
            let mut findings = Findings::new();
            assert_eq!(read(&Source::of(text), &mut findings), None, "{text}");
            assert!(findings.has(Code::FrontMatterMissing), "{text}");
        }
    }
}
