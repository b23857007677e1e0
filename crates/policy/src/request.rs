//! A call's facts as Cedar sees them: entities, and the part of the context that all effects share.

use std::collections::BTreeMap;

use cedar_policy::{Entities, Entity, RestrictedExpression as Value};
use countersign_model::{CallFacts, Digest, Principal, Timestamp};

use crate::arguments::Arguments;
use crate::effect::{Pair, pair, text};
use crate::names::Names;
use crate::reads::Reads;
use crate::table::level;

const WEEKDAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Attributes of the context that depend on the call and not on its input or one effect.
const OF_THE_CALL: [&str; 11] = [
    "asked",
    "chain",
    "hosts",
    "mode",
    "origin",
    "reversible",
    "risk",
    "riskLevel",
    "time",
    "toolset",
    "workspace",
];

/// What every question about one call shares.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) entities: Entities,
    pub(crate) pairs: Vec<Pair>,
}

impl Shared {
    /// What rules look at, and nothing else. `base` holds the principal and the tool.
    pub(crate) fn of(
        names: &Names,
        reads: &Reads,
        facts: &CallFacts,
        input: &serde_json::Value,
        base: Entities,
    ) -> Option<Self> {
        let shared = Shared { entities: base, pairs: call_pairs(reads, facts) };
        if reads.has_input() { shared.with_input(names, reads, input) } else { Some(shared) }
    }

    fn with_input(self, names: &Names, reads: &Reads, input: &serde_json::Value) -> Option<Self> {
        let Shared { entities, mut pairs } = self;
        let arguments = Arguments::read(input);
        if reads.has("input") {
            pairs.push(pair("input", text(&Digest::of_json(input).ok()?.to_string())));
        }
        pairs.push(pair("complete", Value::new_bool(!arguments.partial)));
        for (name, uid) in [
            ("flag", &names.flags),
            ("list", &names.lists),
            ("number", &names.numbers),
            ("text", &names.texts),
        ] {
            pairs.push(pair(name, Value::new_entity_uid(uid.clone())));
        }
        let entities = entities.add_entities(tagged(names, &arguments)?, None).ok()?;
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

fn call_pairs(reads: &Reads, facts: &CallFacts) -> Vec<Pair> {
    let value = |name: &&str| Some(pair(name, call_value(name, facts)?));
    OF_THE_CALL.iter().filter(|name| reads.has(name)).filter_map(value).collect()
}

/// None where there is nothing to say.
fn call_value(name: &str, facts: &CallFacts) -> Option<Value> {
    let spelt = |principals: &[Principal]| principals.iter().map(ToString::to_string).collect();
    let (chain, asker): (Vec<String>, _) = (spelt(&facts.chain), facts.principal.to_string());
    let chained = chain.iter().map(String::as_str);
    Some(match name {
        "asked" => set(chained.chain([asker.as_str()])),
        "chain" => set(chained),
        "hosts" => set(facts.hosts.iter().map(String::as_str)),
        "mode" => text(facts.mode.as_str()),
        "origin" => text(chain.last().unwrap_or(&asker)),
        "reversible" => Value::new_bool(facts.is_reversible()),
        "risk" => text(risk_name(level(facts.risk()))),
        "riskLevel" => Value::new_long(level(facts.risk())),
        "time" => time(facts.time)?,
        "toolset" => text(facts.toolset.as_deref()?),
        "workspace" => text(facts.workspace.as_deref()?),
        _ => return None,
    })
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
