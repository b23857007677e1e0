//! A call's facts as Cedar sees them: entities, and the part of the context that all effects share.

use std::collections::BTreeMap;

use cedar_policy::{Entities, Entity, RestrictedExpression as Value};
use countersign_model::{CallFacts, Digest, Timestamp};

use crate::arguments::Arguments;
use crate::effect::{Pair, pair, text};
use crate::names::Names;
use crate::table::level;

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// What every question about one call shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) entities: Entities,
    pub(crate) pairs: Vec<Pair>,
}

impl Shared {
    /// `base` holds the principal and the tool.
    pub(crate) fn of(
        names: &Names,
        facts: &CallFacts,
        input: &serde_json::Value,
        base: Entities,
    ) -> Option<Self> {
        let arguments = Arguments::read(input);
        let mut pairs = call_pairs(facts);
        pairs.push(pair("input", text(&Digest::of_json(input).ok()?.to_string())));
        pairs.push(pair("complete", Value::new_bool(!arguments.partial)));
        for (name, uid) in [
            ("flag", &names.flags),
            ("list", &names.lists),
            ("number", &names.numbers),
            ("text", &names.texts),
        ] {
            pairs.push(pair(name, Value::new_entity_uid(uid.clone())));
        }
        let entities = base.add_entities(tagged(names, &arguments)?, None).ok()?;
        Some(Shared { entities, pairs })
    }
}

/// Who asks for what. The same for call after call, so callers keep it.
pub(crate) fn base(names: &Names, facts: &CallFacts) -> Option<Entities> {
    Entities::from_entities([principal(names, facts)?, tool(names, facts)?], None).ok()
}

/// Arguments. An entity without tags is left out: `hasTag` is false of what does not exist.
fn tagged(names: &Names, arguments: &Arguments<'_>) -> Option<Vec<Entity>> {
    let Arguments { texts, numbers, flags, lists, .. } = arguments;
    let flag = |value: &bool| Value::new_bool(*value);
    let number = |value: &i64| Value::new_long(*value);
    let list = |value: &Vec<&str>| set(value.iter().copied());
    let all = [
        (&names.flags, tags(flags, flag)),
        (&names.lists, tags(lists, list)),
        (&names.numbers, tags(numbers, number)),
        (&names.texts, tags(texts, |value| text(value))),
    ];
    let some = all.into_iter().filter(|(_, tags)| !tags.is_empty());
    some.map(|(uid, tags)| Entity::new_with_tags(uid.clone(), [], [], tags).ok()).collect()
}

fn tags<T>(values: &BTreeMap<String, T>, value: impl Fn(&T) -> Value) -> Vec<Pair> {
    values.iter().map(|(place, argument)| pair(place, value(argument))).collect()
}

fn principal(names: &Names, facts: &CallFacts) -> Option<Entity> {
    let name = pair("name", text(facts.principal.name()));
    Entity::new_with_tags(names.principal(&facts.principal), [name], [], []).ok()
}

fn tool(names: &Names, facts: &CallFacts) -> Option<Entity> {
    let tool = &facts.tool;
    let mut attributes = vec![
        pair("capabilities", set(tool.capabilities.iter().map(|c| c.as_str()))),
        pair("declaration", text(&tool.declaration.to_string())),
        pair("id", text(tool.id.as_str())),
        pair("isolation", Value::new_long(i64::from(tool.isolation))),
        pair("runtime", text(tool.runtime.as_str())),
        pair("tier", text(tool.tier.as_str())),
        pair("version", text(&tool.version.to_string())),
    ];
    attributes.extend(tool.files.map(|files| pair("files", text(&files.to_string()))));
    let parents = names.parents(&tool.id, facts.toolset.as_deref());
    Entity::new_with_tags(names.tool(&tool.id), attributes, parents, []).ok()
}

fn call_pairs(facts: &CallFacts) -> Vec<Pair> {
    let asker = facts.principal.to_string();
    let chain: Vec<String> = facts.chain.iter().map(ToString::to_string).collect();
    let asked = chain.iter().map(String::as_str).chain([asker.as_str()]);
    let risk = facts.risk();
    let mut pairs = vec![
        pair("asked", set(asked)),
        pair("chain", set(chain.iter().map(String::as_str))),
        pair("hosts", set(facts.hosts.iter().map(String::as_str))),
        pair("mode", text(facts.mode.as_str())),
        pair("origin", text(chain.last().unwrap_or(&asker))),
        pair("reversible", Value::new_bool(facts.is_reversible())),
        pair("risk", text(risk_name(level(risk)))),
        pair("riskLevel", Value::new_long(level(risk))),
    ];
    pairs.extend(time(facts.time).map(|time| pair("time", time)));
    pairs.extend(facts.toolset.as_deref().map(|name| pair("toolset", text(name))));
    pairs.extend(facts.workspace.as_deref().map(|path| pair("workspace", text(path))));
    pairs
}

fn risk_name(level: i64) -> &'static str {
    match level {
        0 => "low",
        1 => "medium",
        2 => "high",
        _ => "critical",
    }
}

fn set<'a>(items: impl Iterator<Item = &'a str>) -> Value {
    Value::new_set(items.map(text))
}

fn time(moment: Timestamp) -> Option<Value> {
    let (unix, hour, weekday) = clock(moment);
    let pairs = [
        pair("hour", Value::new_long(hour)),
        pair("unix", Value::new_long(unix)),
        pair("weekday", text(weekday)),
    ];
    Value::new_record(pairs).ok()
}

/// Seconds, hour and weekday in UTC. The first of January 1970 was a Thursday.
fn clock(moment: Timestamp) -> (i64, i64, &'static str) {
    let unix = moment.as_millis().div_euclid(1000);
    let hour = unix.rem_euclid(86400) / 3600;
    let weekday = (unix.div_euclid(86400) + 3).rem_euclid(7);
    let name = usize::try_from(weekday).ok().and_then(|at| WEEKDAYS.get(at));
    (unix, hour, name.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_utc() {
        for (text, hour, weekday) in [
            ("1970-01-01T00:00:00Z", 0, "thursday"),
            ("1969-12-31T23:59:59Z", 23, "wednesday"),
            ("2026-02-09T16:05:01Z", 16, "monday"),
            ("2026-02-15T06:00:00Z", 6, "sunday"),
        ] {
            let moment: Timestamp = text.parse().unwrap();
            let found = clock(moment);
            assert_eq!((found.1, found.2), (hour, weekday), "{text}");
            assert_eq!(found.0, moment.as_millis().div_euclid(1000));
        }
    }
}
