//! Builders that the tests share: facts with defaults, and policy sets from JSON.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use countersign_model::CallFacts;
use countersign_policy::{Policies, Problem, Rule, Source};
use serde_json::{Map, Value, json};

/// A call of `file.write` by an agent, on a Monday in February, which touches nothing.
fn default_facts() -> Value {
    json!({
        "mode": "workspace_write",
        "principal": "agent:builder",
        "time": "2026-02-09T16:05:01Z",
        "tool": {
            "capabilities": ["filesystem.read", "filesystem.write"],
            "declaration": "a".repeat(64),
            "id": "file.write",
            "isolation": 0,
            "runtime": "builtin",
            "tier": "write",
            "version": "1.2.0",
        },
        "workspace": "/srv/app",
    })
}

/// The defaults with some of them replaced. `null` removes; `effects` are short texts such as
/// `filesystem.write /srv/app/a` and `every filesystem.read /srv/app/**`; `time` is RFC 3339.
pub fn facts(changes: &Value) -> CallFacts {
    let mut facts = default_facts();
    merge(&mut facts, changes);
    let time = facts["time"].as_str().unwrap().parse::<countersign_model::Timestamp>().unwrap();
    facts["time"] = json!(time.as_millis());
    if let Some(effects) = facts.get_mut("effects") {
        *effects = effects.as_array().unwrap().iter().map(effect).collect();
    }
    serde_json::from_value(facts).unwrap_or_else(|error| panic!("{changes}: {error}"))
}

fn merge(into: &mut Value, changes: &Value) {
    for (name, change) in changes.as_object().unwrap_or(&Map::new()) {
        match change {
            Value::Null => drop(into.as_object_mut().unwrap().remove(name)),
            Value::Object(_) if into.get(name).is_some() => merge(&mut into[name], change),
            _ => into[name] = change.clone(),
        }
    }
}

fn effect(text: &Value) -> Value {
    let text = text.as_str().unwrap();
    let rest = text.strip_prefix("every ");
    let (capability, resource) = rest.unwrap_or(text).split_once(' ').unwrap();
    json!({"capability": capability, "resource": resource, "every": rest.is_some()})
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
