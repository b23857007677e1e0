//! Builders that the tests share: facts with defaults, and policy sets from JSON.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use std::collections::BTreeMap;

use countersign_model::CallFacts;
use countersign_policy::{Policies, Problem, Rule, Source, case_facts};
use serde_json::Value;

/// Facts as cases write them.
pub fn facts(changes: &Value) -> CallFacts {
    case_facts(changes, &BTreeMap::new()).unwrap_or_else(|error| panic!("{changes}: {error}"))
}

pub fn source(name: &str, text: &str) -> Source {
    Source { name: name.to_owned(), text: text.to_owned() }
}

pub fn rules(rows: Value) -> Vec<Rule> {
    serde_json::from_value(rows).unwrap()
}

pub fn compile(sources: &[(&str, &str)], rows: Value) -> Result<Policies, Vec<Problem>> {
    let sources: Vec<_> = sources.iter().map(|(name, text)| source(name, text)).collect();
    Policies::compile(&sources, &rules(rows))
}

pub fn codes(problems: &[Problem]) -> Vec<&'static str> {
    problems.iter().map(|problem| problem.code).collect()
}
