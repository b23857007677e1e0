//! Two runs side by side: a pure function of their logs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use crate::definition::Definition;
use crate::event::{RunEvent, wire};
use crate::run::RunState;
use crate::seed::Seed;
use crate::view::snapshot;

/// Differences that are listed; more are only announced.
const MOST: usize = 500;

/// Members that name runs, entries or moments, and differ without meaning anything.
const INCIDENTAL: [&str; 7] =
    ["childRunId", "parentRunId", "sourceRunId", "runId", "memoryId", "writtenAt", "decidedAt"];

/// One of the runs.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    pub definition: &'a Definition,
    pub seed: &'a Seed,
    pub events: &'a [RunEvent],
}

pub fn diff(a: Side<'_>, b: Side<'_>) -> Value {
    let (left, right) = (told(a), told(b));
    let length = left.len().max(right.len());
    let pair = |place: usize| (left.get(place).copied(), right.get(place).copied());
    let mut found = (0..length).filter_map(|place| compare(a, b, pair(place)));
    let listed: Vec<Value> = found.by_ref().take(MOST).collect();
    let truncated = found.next().is_some();
    let first = listed.first().and_then(|diff| diff.get("seq")).cloned().unwrap_or(Value::Null);
    json!({
        "a": a.seed.run_id,
        "b": b.seed.run_id,
        "divergedAtSeq": first,
        "eventDiffs": listed,
        "stateDiff": states(a, b),
        "truncated": truncated,
    })
}

/// Which process advanced a run is no difference between runs.
fn told(side: Side<'_>) -> Vec<&RunEvent> {
    side.events.iter().filter(|event| !event.event.is_takeover()).collect()
}

fn compare(
    a: Side<'_>,
    b: Side<'_>,
    (left, right): (Option<&RunEvent>, Option<&RunEvent>),
) -> Option<Value> {
    let shown = |side: Side<'_>, event: &RunEvent| wire(side.definition, &side.seed.run_id, event);
    match (left, right) {
        (Some(left), Some(right)) if meaning(a, left) != meaning(b, right) => Some(json!({
            "seq": left.sequence, "op": "changed",
            "aEvent": shown(a, left), "bEvent": shown(b, right),
        })),
        (Some(left), None) => {
            Some(json!({"seq": left.sequence, "op": "removed", "aEvent": shown(a, left)}))
        }
        (None, Some(right)) => {
            Some(json!({"seq": right.sequence, "op": "added", "bEvent": shown(b, right)}))
        }
        _ => None,
    }
}

/// What an event says, without ids and moments.
fn meaning(side: Side<'_>, event: &RunEvent) -> Value {
    let mut shown = wire(side.definition, &side.seed.run_id, event);
    let take = |name: &str| shown.get(name).cloned().unwrap_or_default();
    let (kind, node, mut payload) = (take("type"), take("nodeId"), take("payload"));
    strip(&mut payload);
    // Nor by whom and how the run was begun.
    if kind == "run.started"
        && let Some(payload) = payload.as_object_mut()
    {
        payload.retain(|name, _| !["owner", "transport"].contains(&name.as_str()));
    }
    shown = json!([kind, node, payload]);
    shown
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|name, _| !INCIDENTAL.contains(&name.as_str()));
            map.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn folded(side: Side<'_>) -> Value {
    let mut state = RunState::new(side.definition, side.seed);
    // A log that cannot be is shown as far as it can.
    let _ = side.events.iter().try_for_each(|event| state.apply(event));
    let mut shown = snapshot(side.definition, side.seed, &state, &[]);
    strip(&mut shown);
    shown
}

fn states(a: Side<'_>, b: Side<'_>) -> Map<String, Value> {
    let (left, right) = (folded(a), folded(b));
    let mut found = Map::new();
    for member in ["status", "variables", "channels", "nodeStates", "error"] {
        let (left, right) = (left.get(member), right.get(member));
        match (left.and_then(Value::as_object), right.and_then(Value::as_object)) {
            (Some(left), Some(right)) => {
                let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
                let changed = names.into_iter().filter(|name| left.get(*name) != right.get(*name));
                let pairs: Map<String, Value> = changed
                    .map(|name| (name.clone(), json!({"a": left.get(name), "b": right.get(name)})))
                    .collect();
                if !pairs.is_empty() {
                    found.insert(member.to_owned(), Value::Object(pairs));
                }
            }
            _ if left != right => {
                found.insert(member.to_owned(), json!({"a": left, "b": right}));
            }
            _ => {}
        }
    }
    found.into_iter().map(|(name, value)| (name, scrubbed(value))).collect()
}

static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let pattern = r"sk-|api[_-]?key|secret|bearer\s";
    RegexBuilder::new(pattern).case_insensitive(true).build().ok()
});

/// Whatever looks like a secret, in names as well, is not worth comparing.
fn scrubbed(value: Value) -> Value {
    let suspicious = |text: &str| SECRETS.as_ref().is_none_or(|pattern| pattern.is_match(text));
    match value {
        Value::String(text) if suspicious(&text) => json!("[REDACTED]"),
        Value::Array(items) => items.into_iter().map(scrubbed).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(name, value)| match suspicious(&name) {
                true => ("[REDACTED]".to_owned(), json!("[REDACTED]")),
                false => (name, scrubbed(value)),
            })
            .collect(),
        other => other,
    }
}
