//! The shape every object of a declaration shares: known keys, required keys, expected types.

use serde_json::{Map, Value};

use super::report::{Report, below};
use super::spelling;
use crate::json::shorten;

/// Reports keys that do not belong to the object at `pointer`.
pub(super) fn unknown_keys(
    report: &mut Report,
    pointer: &str,
    map: &Map<String, Value>,
    known: &[&str],
) {
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        let message = format!("`{}` is not a field here", shorten(key, 80));
        report.add("FIELD_UNKNOWN", &below(pointer, key), message);
        let absent = known.iter().copied().filter(|name| !map.contains_key(*name));
        if let Some(hint) = spelling::hint(key, absent) {
            report.hint(hint);
        }
    }
}

/// The value of a required field; its absence is reported at the object that lacks it.
pub(super) fn required<'a>(
    report: &mut Report,
    pointer: &str,
    map: &'a Map<String, Value>,
    name: &str,
) -> Option<&'a Value> {
    let value = map.get(name);
    if value.is_none() {
        report.add("FIELD_MISSING", pointer, format!("the field `{name}` is missing"));
    }
    value
}

pub(super) fn text<'a>(report: &mut Report, pointer: &str, value: &'a Value) -> Option<&'a str> {
    expect(report, pointer, "a string", value.as_str())
}

pub(super) fn flag(report: &mut Report, pointer: &str, value: &Value) -> Option<bool> {
    expect(report, pointer, "true or false", value.as_bool())
}

pub(super) fn list<'a>(
    report: &mut Report,
    pointer: &str,
    value: &'a Value,
) -> Option<&'a Vec<Value>> {
    expect(report, pointer, "a list", value.as_array())
}

pub(super) fn object<'a>(
    report: &mut Report,
    pointer: &str,
    value: &'a Value,
) -> Option<&'a Map<String, Value>> {
    expect(report, pointer, "an object", value.as_object())
}

pub(super) fn expect<T>(
    report: &mut Report,
    pointer: &str,
    what: &str,
    value: Option<T>,
) -> Option<T> {
    if value.is_none() {
        report.add("FIELD_TYPE", pointer, format!("this must be {what}"));
    }
    value
}
