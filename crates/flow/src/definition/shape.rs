//! Shapes of JSON objects as tables, and the one function that holds a value against them.

use std::collections::HashSet;

use countersign_model::Timestamp;
use serde_json::{Map, Value};

use crate::problem::{Report, join, shorten};

/// What may stand in one place.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Any,
    Bool,
    Number,
    Object,
    Moment,
    /// A number from the first to the second.
    Between(f64, f64),
    Text {
        min: usize,
        max: usize,
    },
    /// A text that satisfies a rule, and the rule in words.
    Word(fn(&str) -> bool, &'static str),
    OneOf(&'static [&'static str]),
    Whole {
        min: f64,
        max: f64,
    },
    Shape(&'static Shape),
    List {
        item: &'static Kind,
        min: usize,
        max: usize,
        unique: bool,
    },
    MapOf(&'static Kind),
    /// Objects that differ by the text of a member.
    Tagged(&'static str, &'static [(&'static str, &'static Shape)]),
    /// A text of the first kind, or an object of the second.
    Either(&'static Kind, &'static Kind),
}

#[derive(Debug)]
pub(super) struct Field(pub &'static str, pub bool, pub Kind);

#[derive(Debug)]
pub(super) struct Shape {
    pub fields: &'static [Field],
    pub closed: bool,
    /// A last word about the whole object.
    pub not_both: Option<(&'static str, &'static str)>,
}

pub(super) const TEXT: Kind = Kind::Text { min: 0, max: usize::MAX };
pub(super) const SOME_TEXT: Kind = Kind::Text { min: 1, max: usize::MAX };

pub(super) fn check(report: &mut Report, value: &Value, kind: Kind, at: &str) {
    let wrong = match (kind, value) {
        (Kind::Any, _) | (Kind::Bool, Value::Bool(_)) | (Kind::Number, Value::Number(_)) => None,
        (Kind::Object, Value::Object(_)) => None,
        (Kind::Moment, Value::String(text)) => moment(text),
        (Kind::Between(min, max), Value::Number(number)) => {
            let within = number.as_f64().is_some_and(|n| (min..=max).contains(&n));
            (!within).then(|| format!("a number from {min} to {max} is expected here"))
        }
        (Kind::Text { min, max }, Value::String(text)) => length(text, min, max),
        (Kind::Word(rule, words), Value::String(text)) => {
            (!rule(text)).then(|| format!("`{}` is not {words}", shorten(text, 60)))
        }
        (Kind::OneOf(names), Value::String(text)) => one_of(text, names),
        (Kind::Whole { min, max }, Value::Number(number)) => whole(number.as_f64(), min, max),
        (Kind::Shape(shape), Value::Object(map)) => return object(report, map, shape, at),
        (Kind::MapOf(inner), Value::Object(map)) => {
            return map.iter().for_each(|(key, v)| check(report, v, *inner, &join(at, key)));
        }
        (Kind::Tagged(tag, shapes), Value::Object(map)) => {
            return tagged(report, map, tag, shapes, at);
        }
        (Kind::List { item, min, max, unique }, Value::Array(items)) => {
            for (index, inner) in items.iter().enumerate() {
                check(report, inner, *item, &join(at, &index.to_string()));
            }
            list(items, min, max, unique)
        }
        (Kind::Either(text, _), Value::String(_)) => return check(report, value, *text, at),
        (Kind::Either(_, other), _) => return check(report, value, *other, at),
        (kind, _) => Some(format!("{} is expected here", expected(kind))),
    };
    if let Some(message) = wrong {
        report.add("WORKFLOW_INVALID", at, message);
    }
}

fn expected(kind: Kind) -> &'static str {
    match kind {
        Kind::Bool => "true or false",
        Kind::Number | Kind::Between(..) => "a number",
        Kind::Whole { .. } => "a whole number",
        Kind::Object | Kind::Shape(_) | Kind::MapOf(_) | Kind::Tagged(..) => "an object",
        Kind::List { .. } => "a list",
        _ => "a text",
    }
}

fn moment(text: &str) -> Option<String> {
    let wrong = text.parse::<Timestamp>().is_err();
    wrong.then(|| format!("`{}` is not a moment", shorten(text, 40)))
}

fn length(text: &str, min: usize, max: usize) -> Option<String> {
    match text.chars().count() {
        n if n < min => Some("the text is empty".to_owned()),
        n if n > max => Some(format!("the text has more than {max} characters")),
        _ => None,
    }
}

fn one_of(text: &str, names: &[&str]) -> Option<String> {
    (!names.contains(&text))
        .then(|| format!("`{}` is not one of {}", shorten(text, 40), names.join(", ")))
}

fn whole(number: Option<f64>, min: f64, max: f64) -> Option<String> {
    match number {
        Some(n) if n.fract() != 0.0 => Some("a whole number is expected here".to_owned()),
        Some(n) if n < min => Some(format!("the number is less than {min}")),
        Some(n) if n > max => Some(format!("the number is more than {max}")),
        Some(_) => None,
        None => Some("a whole number is expected here".to_owned()),
    }
}

fn list(items: &[Value], min: usize, max: usize, unique: bool) -> Option<String> {
    match items.len() {
        n if n < min => Some(format!("at least {min} must stand here")),
        n if n > max => Some(format!("at most {max} may stand here")),
        _ if unique && has_twins(items) => Some("the same item stands here twice".to_owned()),
        _ => None,
    }
}

fn has_twins(items: &[Value]) -> bool {
    let mut seen = HashSet::new();
    items.iter().any(|item| !seen.insert(item.to_string()))
}

pub(super) fn object(report: &mut Report, map: &Map<String, Value>, shape: &Shape, at: &str) {
    for Field(name, required, kind) in shape.fields {
        match map.get(*name) {
            Some(value) => check(report, value, *kind, &join(at, name)),
            None if *required => {
                report.add("WORKFLOW_INVALID", at, format!("the member `{name}` is missing"));
            }
            None => {}
        }
    }
    let known = |key: &str| shape.fields.iter().any(|Field(name, ..)| *name == key);
    for key in map.keys().filter(|key| shape.closed && !known(key)) {
        let message = format!("the member `{}` is not known", shorten(key, 60));
        report.add("WORKFLOW_INVALID", join(at, key), message);
    }
    if let Some((a, b)) =
        shape.not_both.filter(|(a, b)| map.contains_key(*a) && map.contains_key(*b))
    {
        report.add("WORKFLOW_INVALID", at, format!("`{a}` and `{b}` exclude each other"));
    }
}

fn tagged(
    report: &mut Report,
    map: &Map<String, Value>,
    tag: &str,
    shapes: &[(&str, &'static Shape)],
    at: &str,
) {
    let found = map.get(tag).and_then(Value::as_str);
    match shapes.iter().find(|(name, _)| Some(*name) == found) {
        Some((_, shape)) => object(report, map, shape, at),
        None => {
            let names: Vec<_> = shapes.iter().map(|(name, _)| *name).collect();
            let message = format!("`{tag}` must be one of {}", names.join(", "));
            report.add("WORKFLOW_INVALID", join(at, tag), message);
        }
    }
}
