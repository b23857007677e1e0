//! Whatever our reader of front matter accepts means the same to a full reader of YAML.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::cases;
use countersign_documents::front::{self, Front, Kind, Scalar, Value as Ours};
use countersign_documents::{Findings, Source};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

fn scalar(scalar: &Scalar) -> Value {
    match scalar.kind() {
        Kind::Integer => json!(scalar.text.parse::<u64>().unwrap()),
        Kind::Decimal => json!(scalar.text.parse::<f64>().unwrap()),
        Kind::Text => json!(scalar.text),
        Kind::Other => panic!("`{}` is no value of a schema", scalar.text),
    }
}

fn value(value: &Ours) -> Value {
    match value {
        Ours::Nothing | Ours::Unreadable => Value::Null,
        Ours::EmptyList => json!([]),
        Ours::Scalar(text) => scalar(text),
        Ours::Scalars(items) => items.iter().map(scalar).collect(),
        Ours::Pairs(items) => items
            .iter()
            .map(|item| {
                let pairs = item.pairs.iter();
                Value::Object(pairs.map(|p| (p.key.clone(), scalar(&p.value))).collect())
            })
            .collect(),
    }
}

fn ours(front: &Front) -> Value {
    let entries = front.entries.iter();
    Value::Object(entries.map(|entry| (entry.key.clone(), value(&entry.value))).collect())
}

type Theirs = Result<Map<String, Value>, String>;

/// The front matter as ours and as theirs, if ours finds nothing wrong with it.
fn both(text: &str) -> Option<(Value, Theirs)> {
    let mut findings = Findings::new();
    let source = Source::read(text.as_bytes(), 65536, &mut findings)?;
    let front = front::read(&source, &mut findings).filter(|_| findings.is_empty())?;
    let yaml = &text[4..front.end];
    let theirs = serde_saphyr::from_str(yaml).map_err(|error| error.to_string());
    Some((ours(&front), theirs))
}

#[test]
fn accepted_documents_mean_the_same_to_both() {
    for case in cases("accept") {
        let text = String::from_utf8(case.bytes).unwrap();
        let (ours, theirs) = both(&text).expect("a document that is accepted");
        assert_eq!(ours, Value::Object(theirs.expect("YAML")), "{}", case.name);
    }
}

/// Values that are easily read in two ways.
fn tricky() -> impl Strategy<Value = String> {
    let words = select(vec![
        "a",
        "\"a\"",
        "a b",
        "a#b",
        "a #b",
        "#",
        "\"#\"",
        "a: b",
        "a:b",
        "\"a: b\"",
        "it's",
        "-",
        "- a",
        "-a",
        "?",
        "? a",
        "[]",
        "[a]",
        "{}",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a`",
        "'a'",
        "\"\\\"\"",
        "\"\\\\\"",
        "\"\\n\"",
        "1",
        "01",
        "1.5",
        "1e3",
        "0x1",
        "1_0",
        "true",
        "yes",
        "null",
        "~",
        "",
        " ",
        "2026-02-09",
        "2026-02-09T16:05:01Z",
        "12:30",
        ".5",
        "5.",
        "+1",
        "a,b",
        "a]",
        "a}",
        "=",
        "<<",
        "é",
        "日本",
        "a\\b",
        "\"a\" # c",
        "\"a\"#c",
        "a  ",
        "---",
        "...",
    ])
    .prop_map(str::to_owned);
    prop_oneof![4 => words, 1 => "[ -~]{0,12}", 1 => "\"[ -!#-\\[\\]-~]{0,12}\"", 1 => "\\PC{0,6}"]
}

fn lines() -> impl Strategy<Value = String> {
    let line = (
        select(vec![
            "", "", "", "", "  ", "- ", "  - ", "    ", "- x: ", "  - x: ", "  y: ", "    y: ",
        ]),
        "[a-z]{1,3}",
        any::<bool>(),
        tricky(),
    )
        .prop_map(|(start, key, keyed, value)| match (start, keyed) {
            ("", true) => format!("{key}: {value}"),
            ("", false) => format!("{key}:"),
            _ => format!("{start}{value}"),
        });
    prop::collection::vec(line, 0..6).prop_map(|lines| lines.join("\n"))
}

fn has_other(front: &Front) -> bool {
    let other = |scalar: &Scalar| scalar.kind() == Kind::Other;
    front.entries.iter().any(|entry| match &entry.value {
        Ours::Scalar(scalar) => other(scalar),
        Ours::Scalars(items) => items.iter().any(other),
        Ours::Pairs(items) => items.iter().flat_map(|item| &item.pairs).any(|p| other(&p.value)),
        _ => false,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_yaml_reads(lines in lines()) {
        let text = format!("---\n{lines}\n---\n");
        let mut findings = Findings::new();
        let source = Source::read(text.as_bytes(), 65536, &mut findings).unwrap();
        let front = front::read(&source, &mut findings);
        if !findings.is_empty() {
            return Ok(());
        }
        let front = front.unwrap();
        // Values that no schema has, empty values of pairs and repeated keys are refused later.
        let mut keys: Vec<_> = front.entries.iter().map(|entry| &entry.key).collect();
        keys.sort();
        let unique = keys.windows(2).all(|pair| pair[0] != pair[1]);
        let nothing = front.entries.iter().any(|entry| match &entry.value {
            Ours::Pairs(items) => items.iter().flat_map(|i| &i.pairs).any(|p| p.value.at == p.value.end),
            _ => false,
        });
        if !unique || nothing || has_other(&front) || front.entries.is_empty() {
            return Ok(());
        }
        let (ours, theirs) = both(&text).unwrap();
        let theirs = theirs.map_err(|error| TestCaseError::fail(format!("{text}\n{error}")))?;
        prop_assert_eq!(ours, Value::Object(theirs), "{}", text);
    }
}
