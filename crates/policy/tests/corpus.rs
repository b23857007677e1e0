//! The corpus of decisions: principal, facts and policies to verdict, rules and approvers.
//! `corpus/README.md` says how a case is written.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use common::{facts, source};
use countersign_policy::{DEFAULT_POLICY, Policies, Rule, Source};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "for readers")]
    about: String,
    #[serde(default)]
    sets: BTreeMap<String, Set>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    #[serde(default)]
    files: BTreeMap<String, Text>,
    #[serde(default)]
    rules: Vec<Rule>,
}

/// A text, or its lines.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    One(String),
    Lines(Vec<String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    set: Option<String>,
    #[serde(default)]
    when: Option<String>,
    #[serde(default)]
    facts: Value,
    #[serde(default)]
    input: Option<Value>,
    decision: String,
    #[serde(default)]
    rules: Option<Vec<String>>,
    #[serde(default)]
    approvers: Option<u32>,
    #[serde(default)]
    expires_after_ms: Option<u64>,
    /// Effects of the reasons, each once: `forbid`, `missing`, `error`.
    #[serde(default)]
    effects: Option<Vec<String>>,
}

impl Set {
    fn compile(&self) -> Policies {
        let sources: Vec<Source> =
            self.files.iter().map(|(name, text)| source(name, &text.whole())).collect();
        Policies::compile(&sources, &self.rules).unwrap_or_else(|found| panic!("{found:#?}"))
    }
}

impl Text {
    fn whole(&self) -> String {
        match self {
            Text::One(text) if text == "DEFAULT_POLICY" => DEFAULT_POLICY.to_owned(),
            Text::One(text) => text.clone(),
            Text::Lines(lines) => lines.join("\n"),
        }
    }
}

/// Everything may run, but not when the condition holds.
fn forbid_when(condition: &str) -> Policies {
    let text = format!(
        "@id(\"base\") permit (principal, action, resource);
         @id(\"when\") forbid (principal, action == Action::\"invoke\", resource) when {{ {condition} }};"
    );
    Policies::compile(&[source("a.cedar", &text)], &[])
        .unwrap_or_else(|found| panic!("{condition}: {found:#?}"))
}

fn run(case: &Case, policies: &Policies) {
    let input = case.input.clone().unwrap_or_else(|| serde_json::json!({}));
    let verdict = policies.decide(&facts(&case.facts), &input);
    let name = &case.name;
    assert_eq!(verdict.decision.as_str(), case.decision, "{name}: {:#?}", verdict.reasons);
    assert_eq!(verdict.policy, policies.digest(), "{name}");
    assert!(verdict.reasons.is_sorted(), "{name}");
    assert!(!verdict.reasons.is_empty(), "{name}");
    if let Some(rules) = &case.rules {
        assert_eq!(&verdict.rules(), rules, "{name}");
    }
    if let Some(effects) = &case.effects {
        let found: BTreeSet<String> = verdict
            .reasons
            .iter()
            .map(|reason| serde_json::to_value(reason.effect).unwrap().as_str().unwrap().to_owned())
            .collect();
        assert_eq!(&Vec::from_iter(found), effects, "{name}");
    }
    match case.decision.as_str() {
        "require_approval" => assert!(verdict.approvers >= 1, "{name}"),
        _ => assert_eq!((verdict.approvers, verdict.expires_after_ms), (0, None), "{name}"),
    }
    if let Some(approvers) = case.approvers {
        assert_eq!(verdict.approvers, approvers, "{name}");
    }
    if case.expires_after_ms.is_some() {
        assert_eq!(verdict.expires_after_ms, case.expires_after_ms, "{name}");
    }
}

#[test]
fn every_case_of_the_corpus_decides_as_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let file: File =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let sets: BTreeMap<_, _> = file.sets.iter().map(|(n, set)| (n, set.compile())).collect();
        for case in &file.cases {
            assert!(names.insert(case.name.clone()), "{} stands twice", case.name);
            match (&case.set, &case.when) {
                (Some(set), None) => run(case, &sets[set]),
                (None, Some(condition)) => run(case, &forbid_when(condition)),
                _ => panic!("{}: one of set and when", case.name),
            }
        }
    }
    assert!(names.len() >= 150, "only {} cases", names.len());
}
