//! Where two contents differ.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// So much of a value or a line is told.
const MOST_SHOWN: usize = 200;

/// One place where two contents differ. What is absent on one side is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Difference {
    Value {
        pointer: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        then: Option<Value>,
        #[serde(skip_serializing_if = "Option::is_none")]
        now: Option<Value>,
    },
    Line {
        /// Counts from 1.
        line: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        then: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        now: Option<String>,
    },
    Byte {
        offset: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        then: Option<u8>,
        #[serde(skip_serializing_if = "Option::is_none")]
        now: Option<u8>,
    },
    /// Nobody can say where.
    Content { then: String, now: String },
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Value { pointer, then, now } => {
                let place = if pointer.is_empty() { "the whole value" } else { pointer };
                write!(f, "{place}: {} became {}", shown(then.as_ref()), shown(now.as_ref()))
            }
            Difference::Line { line, then, now } => {
                write!(f, "line {line}: {} became {}", quoted(then), quoted(now))
            }
            Difference::Byte { offset, then, now } => {
                let byte = |byte: &Option<u8>| {
                    byte.map_or_else(|| "the end".to_owned(), |byte| format!("0x{byte:02x}"))
                };
                write!(f, "byte {offset}: {} became {}", byte(then), byte(now))
            }
            Difference::Content { then, now } => write!(f, "{then} became {now}"),
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| cut(&value.to_string()))
}

fn quoted(line: &Option<String>) -> String {
    line.as_ref().map_or_else(|| "the end".to_owned(), |line| format!("`{line}`"))
}

fn cut(text: &str) -> String {
    if text.chars().nth(MOST_SHOWN).is_none() {
        return text.to_owned();
    }
    text.chars().take(MOST_SHOWN).chain(['…']).collect()
}

/// Every place where two values differ, in order, at most so many.
pub(super) fn values(then: &Value, now: &Value, most: usize) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(then), Some(now), most, &mut found);
    found
}

fn compare(
    pointer: String,
    then: Option<&Value>,
    now: Option<&Value>,
    most: usize,
    found: &mut Vec<Difference>,
) {
    if found.len() >= most || then == now {
        return;
    }
    match (then, now) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let only_new = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(only_new) {
                let place = format!("{pointer}/{}", escaped(name));
                compare(place, old.get(name), new.get(name), most, found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for at in 0..old.len().max(new.len()) {
                compare(format!("{pointer}/{at}"), old.get(at), new.get(at), most, found);
            }
        }
        _ => {
            let (then, now) = (then.map(short), now.map(short));
            found.push(Difference::Value { pointer, then, now });
        }
    }
}

/// Long texts are told by their beginning.
fn short(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(cut(text)),
        other => other.clone(),
    }
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Takes values out that are not to be compared.
pub(super) fn mask(value: &mut Value, pointers: &[&str]) {
    for pointer in pointers {
        let path: Vec<&str> = pointer.split('/').skip(1).collect();
        mask_one(value, &path);
    }
}

fn mask_one(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        *value = Value::Null;
        return;
    };
    match value {
        Value::Array(items) => {
            let wanted = first.parse::<usize>().ok();
            let meant = |at: &usize| *first == "*" || Some(*at) == wanted;
            let items = items.iter_mut().enumerate().filter(|(at, _)| meant(at));
            items.for_each(|(_, item)| mask_one(item, rest));
        }
        Value::Object(fields) => {
            let meant = |name: &str| *first == "*" || name == *first;
            let fields = fields.iter_mut().filter(|(name, _)| meant(name));
            fields.for_each(|(_, item)| mask_one(item, rest));
        }
        _ => {}
    }
}

/// The first place where two contents differ: a line of text, or a byte.
pub(super) fn bytes(then: &[u8], now: &[u8]) -> Option<Difference> {
    if then == now {
        return None;
    }
    let at = then.iter().zip(now).take_while(|(a, b)| a == b).count();
    match (std::str::from_utf8(then), std::str::from_utf8(now)) {
        (Ok(old), Ok(new)) => Some(line(old, new)),
        _ => Some(Difference::Byte {
            offset: at as u64,
            then: then.get(at).copied(),
            now: now.get(at).copied(),
        }),
    }
}

/// Line ends count: they are part of their lines.
fn line(then: &str, now: &str) -> Difference {
    let (old, new) = (then.split_inclusive('\n'), now.split_inclusive('\n'));
    let same = old.clone().zip(new.clone()).take_while(|(a, b)| a == b).count();
    let shown = |line: &str| cut(&line.escape_debug().to_string());
    Difference::Line {
        line: same as u64 + 1,
        then: old.clone().nth(same).map(shown),
        now: new.clone().nth(same).map(shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_difference_is_named_by_its_place() {
        let (then, now) =
            (json!({"a": [1, {"b/c": "x"}], "d": 1}), json!({"a": [1, {"b/c": "y"}]}));
        let found = values(&then, &now, 10);
        let told: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["/a/1/b~1c: \"x\" became \"y\"", "/d: 1 became nothing"]);
        assert_eq!(values(&then, &now, 1).len(), 1);
        assert!(values(&then, &then, 10).is_empty());
    }

    #[test]
    fn text_differs_by_line_and_all_else_by_byte() {
        let told = |then: &[u8], now: &[u8]| bytes(then, now).map(|found| found.to_string());
        assert_eq!(told(b"a\nb\n", b"a\nb\n"), None);
        assert_eq!(told(b"a\nb\n", b"a\nc\n").unwrap(), r"line 2: `b\n` became `c\n`");
        assert_eq!(told(b"a\n", b"a").unwrap(), r"line 1: `a\n` became `a`");
        assert_eq!(told(b"a\n", b"a\nb").unwrap(), "line 2: the end became `b`");
        assert_eq!(told(b"\xff\x00", b"\xff\x01").unwrap(), "byte 1: 0x00 became 0x01");
        assert_eq!(told(b"\xff", b"\xff\x01").unwrap(), "byte 1: the end became 0x01");
    }

    #[test]
    fn what_is_masked_is_not_compared() {
        let mut value = json!({"a": [{"t": 1, "k": 2}, {"t": 3}], "t": 4, "o": {"x": 5, "y": 6}});
        mask(&mut value, &["/a/*/t", "/t", "/o/*", "/no/such/place", "/a/7"]);
        let masked = json!({"a": [{"t": null, "k": 2}, {"t": null}], "t": null,
            "o": {"x": null, "y": null}});
        assert_eq!(value, masked);
    }
}
