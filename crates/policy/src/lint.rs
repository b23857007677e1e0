//! Rules that parse and check, and still do nothing: the worst kind, since their authors rely on
//! them.

use cedar_policy::{EntityUid, ValidationWarning};
use countersign_model::{Principal, Question, SafetyTier, SandboxMode, Timestamp, ToolId};
use serde_json::Value;

use crate::index::{What, Who};
use crate::notes::KNOWN;
use crate::problem::Problem;
use crate::source::Entry;

/// What exists here. A list that is empty is not known, and nothing is held against it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub tools: Vec<ToolId>,
    pub toolsets: Vec<String>,
    pub principals: Vec<Principal>,
}

pub(crate) const NEVER_MATCHES: &str = "POLICY_NEVER_MATCHES";

pub(crate) fn code_of(warning: &ValidationWarning) -> &'static str {
    match warning {
        ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_) => {
            NEVER_MATCHES
        }
        _ => "POLICY_CONFUSABLE",
    }
}

pub(crate) fn lint(entries: &[Entry], known: &Known) -> Vec<Problem> {
    let alone = entries.iter().flat_map(|entry| {
        let mut found = annotations(entry);
        found.extend(entry.policy.entity_literals().iter().filter_map(|uid| unknown(uid, known)));
        found.extend(entry.policy.to_json().iter().flat_map(impossible_words));
        found.extend(misses_trees(entry));
        found.into_iter().map(|problem| entry.blame(problem)).collect::<Vec<_>>()
    });
    let mut found: Vec<_> = alone.chain(shadowed(entries)).collect();
    found.sort();
    found.dedup();
    found
}

pub(crate) fn expired(entries: &[Entry], now: Timestamp) -> Vec<Problem> {
    let past = |entry: &&Entry| entry.notes.until.is_some_and(|until| until <= now);
    let say = |entry: &Entry| {
        let problem =
            Problem::warning("POLICY_EXPIRED", "its @until has passed: it counts no more");
        entry.blame(problem.hint("remove the rule, or give it a later @until"))
    };
    entries.iter().filter(past).map(say).collect()
}

fn annotations(entry: &Entry) -> Vec<Problem> {
    let mut found = Vec::new();
    for name in entry.annotations().keys().filter(|name| !KNOWN.contains(&name.as_str())) {
        let message = format!("@{name} means nothing here");
        found.push(
            Problem::warning("POLICY_ANNOTATION_UNKNOWN", message)
                .hint(format!("annotations are @{}", KNOWN.join(", @"))),
        );
    }
    let asks = !entry.is_permit() && entry.questions.contains(&Question::InvokeUnattended);
    if !asks && (entry.notes.approvers.is_some() || entry.notes.expires_after_ms.is_some()) {
        let message = "@approvers and @expires_after count only where a rule asks a human";
        found.push(
            Problem::warning("POLICY_ANNOTATION_IDLE", message)
                .hint("put them on a forbid of Action::\"invoke_unattended\""),
        );
    }
    found
}

/// An entity that does not exist.
fn unknown(uid: &EntityUid, known: &Known) -> Option<Problem> {
    let kind = uid.type_name().to_string();
    let name: &str = uid.id().as_ref();
    let exists = match kind.as_str() {
        "Tool" => known.tools.is_empty() || known.tools.iter().any(|tool| tool.as_str() == name),
        "Family" => known.tools.is_empty() || known.tools.iter().any(|tool| is_in(tool, name)),
        "Toolset" => known.toolsets.is_empty() || known.toolsets.iter().any(|set| set == name),
        "Human" | "Agent" | "Service" => is_principal(&kind, name, known),
        _ => true,
    };
    let say = || {
        Problem::warning("POLICY_UNKNOWN_NAME", format!("there is no {uid}: it can never match"))
            .hint("check the spelling; names of principals and tools are in lower case")
    };
    (!exists).then(say)
}

fn is_in(tool: &ToolId, family: &str) -> bool {
    tool.as_str().strip_prefix(family).is_some_and(|rest| rest.starts_with('.'))
}

fn is_principal(kind: &str, name: &str, known: &Known) -> bool {
    let parsed = format!("{}:{name}", kind.to_ascii_lowercase()).parse::<Principal>();
    parsed.is_ok_and(|it| known.principals.is_empty() || known.principals.contains(&it))
}

/// A text that is compared with an attribute of a closed list, and is not in the list.
fn impossible_words(json: &Value) -> Vec<Problem> {
    let mut found = Vec::new();
    walk(json, &mut |operator, operands| {
        if !matches!(operator, "==" | "contains") {
            return;
        }
        let (Some(left), Some(right)) = (operands.get("left"), operands.get("right")) else {
            return;
        };
        for (attribute, words) in [(left, right), (right, left)] {
            let list = closed_list(attribute);
            found.extend(list.iter().flat_map(|list| strangers(words, list)));
        }
    });
    found
}

fn walk(json: &Value, visit: &mut impl FnMut(&str, &Value)) {
    match json {
        Value::Object(map) => map.iter().for_each(|(name, value)| {
            visit(name, value);
            walk(value, visit);
        }),
        Value::Array(items) => items.iter().for_each(|item| walk(item, visit)),
        _ => {}
    }
}

/// The words that an attribute can hold, if they are a closed list.
fn closed_list(attribute: &Value) -> Option<Vec<&'static str>> {
    let access = attribute.get(".")?;
    let of = access.get("left")?.get("Var")?.as_str()?;
    match (of, access.get("attr")?.as_str()?) {
        ("context", "mode") => Some(SandboxMode::ALL.iter().map(|mode| mode.as_str()).collect()),
        ("context", "risk") => Some(vec!["low", "medium", "high", "critical"]),
        ("context", "capability") => Some(capabilities()),
        ("resource", "capabilities") => Some(capabilities()),
        ("resource", "runtime") => Some(vec!["builtin", "process", "wasm"]),
        ("resource", "tier") => Some(SafetyTier::ALL.iter().map(|tier| tier.as_str()).collect()),
        _ => None,
    }
}

fn capabilities() -> Vec<&'static str> {
    countersign_model::Capability::ALL.iter().map(|capability| capability.as_str()).collect()
}

fn strangers(words: &Value, list: &[&'static str]) -> Vec<Problem> {
    let set = words.get("Set").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let literals = set.iter().chain([words]).filter_map(|word| word.get("Value")?.as_str());
    literals
        .filter(|word| !list.contains(word))
        .map(|word| {
            Problem::warning("POLICY_UNKNOWN_WORD", format!("it is never equal to \"{word}\""))
                .hint(format!("it is one of {}", list.join(", ")))
        })
        .collect()
}

/// A forbid that looks at paths, hosts or keys, and does not see a tree that holds them.
fn misses_trees(entry: &Entry) -> Option<Problem> {
    let text = &entry.text;
    let binds = ["path", "relative", "host", "key", "target"].iter().any(|name| {
        text.contains(&format!("context has {name} ")) || text.contains(&format!("context.{name} "))
    });
    let sees = text.contains("context.every") || text.contains("Pattern");
    (!entry.is_permit() && binds && !sees).then(|| {
        Problem::warning("POLICY_MISSES_TREES", "it does not see calls that touch a whole tree")
            .hint("write `context.every || (context has path && ...)`")
    })
}

/// Permits that a forbid without conditions always beats.
fn shadowed(entries: &[Entry]) -> Vec<Problem> {
    let absolute: Vec<_> = entries
        .iter()
        .filter(|e| {
            !e.is_permit() && !e.policy.has_non_scope_constraint() && e.notes.until.is_none()
        })
        .collect();
    let shadow = |permit: &Entry| absolute.iter().find(|forbid| covers(forbid, permit)).copied();
    let say = |permit: &Entry| {
        let message = format!("`{}` always beats it", shadow(permit)?.id);
        let hint = "narrow the forbid, or remove this rule";
        Some(permit.blame(Problem::warning("POLICY_SHADOWED", message).hint(hint)))
    };
    entries.iter().filter(|entry| entry.is_permit()).filter_map(say).collect()
}

/// What may not run at all does not run alone either.
fn covers(forbid: &Entry, permit: &Entry) -> bool {
    let asked = |question| forbid.questions.contains(question);
    (asked(&Question::Invoke) || permit.questions.iter().all(asked))
        && covers_who(&who(forbid), &who(permit))
        && covers_what(&what(forbid), &what(permit))
}

fn who(entry: &Entry) -> Who {
    Who::of(entry.policy.principal_constraint())
}

fn what(entry: &Entry) -> What {
    What::of(entry.policy.resource_constraint())
}

fn covers_who(wide: &Who, narrow: &Who) -> bool {
    match (wide, narrow) {
        (Who::Any, _) => true,
        (Who::Kind(kind), Who::One(uid)) => uid.type_name() == kind,
        _ => wide == narrow,
    }
}

fn covers_what(wide: &What, narrow: &What) -> bool {
    match (wide, narrow) {
        (What::Any, _) => true,
        (What::In(wide), What::In(narrow)) if wide != narrow => {
            let (family, inside): (&str, &str) = (wide.id().as_ref(), narrow.id().as_ref());
            let below = inside.strip_prefix(family).is_some_and(|rest| rest.starts_with('.'));
            let kinds = (wide.type_name().to_string(), narrow.type_name().to_string());
            kinds.0 == "Family" && ["Family", "Tool"].contains(&kinds.1.as_str()) && below
        }
        _ => wide == narrow,
    }
}
