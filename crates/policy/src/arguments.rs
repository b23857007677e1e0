//! The input of a call as tags: what policies can say about arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Strangers send these: what is beyond is left out, and the call is not complete.
const MAX_DEPTH: usize = 8;
const MAX_COUNT: usize = 256;
const MAX_TEXT: usize = 4096;
const MAX_LIST: usize = 64;

/// Arguments by their dotted place.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Arguments<'a> {
    pub(crate) texts: BTreeMap<String, &'a str>,
    pub(crate) numbers: BTreeMap<String, i64>,
    pub(crate) flags: BTreeMap<String, bool>,
    pub(crate) lists: BTreeMap<String, Vec<&'a str>>,
    /// Something was left out.
    pub(crate) partial: bool,
    count: usize,
}

impl<'a> Arguments<'a> {
    pub(crate) fn read(input: &'a Value) -> Self {
        let mut arguments = Arguments::default();
        match input {
            Value::Object(map) => arguments.object("", map, 1),
            _ => arguments.partial = true,
        }
        arguments
    }

    /// A name with a dot could pass for another place.
    fn object(&mut self, prefix: &str, map: &'a Map<String, Value>, depth: usize) {
        for (name, value) in map {
            if name.contains('.') || name.len() > MAX_TEXT || self.count >= MAX_COUNT {
                self.partial = true;
                continue;
            }
            self.count += 1;
            let place = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            self.value(place, value, depth);
        }
    }

    fn value(&mut self, place: String, value: &'a Value, depth: usize) {
        match value {
            Value::String(text) if text.len() <= MAX_TEXT => {
                self.texts.insert(place, text);
            }
            Value::Bool(flag) => {
                self.flags.insert(place, *flag);
            }
            Value::Number(number) => match number.as_i64() {
                Some(number) => {
                    self.numbers.insert(place, number);
                }
                None => self.partial = true,
            },
            Value::Array(items) => match texts(items) {
                Some(list) => {
                    self.lists.insert(place, list);
                }
                None => self.partial = true,
            },
            Value::Object(map) if depth < MAX_DEPTH => self.object(&place, map, depth + 1),
            _ => self.partial = true,
        }
    }
}

fn texts(items: &[Value]) -> Option<Vec<&str>> {
    let text = |item: &'_ Value| item.as_str().is_some_and(|text| text.len() <= MAX_TEXT);
    (items.len() <= MAX_LIST && items.iter().all(text))
        .then(|| items.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_are_named_by_their_place() {
        let input = json!({"path": "a", "n": -3, "o": {"force": true, "deep": {"tags": ["x"]}}});
        let arguments = Arguments::read(&input);
        assert_eq!(arguments.texts["path"], "a");
        assert_eq!(arguments.numbers["n"], -3);
        assert!(arguments.flags["o.force"]);
        assert_eq!(arguments.lists["o.deep.tags"], ["x"]);
        assert!(!arguments.partial);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_admitted() {
        let deep = (0..9).fold(json!(1), |inner, _| json!({"a": inner}));
        let many: Map<String, Value> = (0..300).map(|n| (format!("k{n}"), json!(n))).collect();
        for input in [
            json!({"a": 0.5}),
            json!({"a": u64::MAX}),
            json!({"a": null}),
            json!({"a": [1]}),
            json!({"a": vec!["x"; 65]}),
            json!({"a": "x".repeat(4097)}),
            json!({"a.b": true}),
            json!(["a"]),
            deep,
            Value::Object(many),
        ] {
            let arguments = Arguments::read(&input);
            assert!(arguments.partial, "{input:.60}");
            assert!(arguments.flags.is_empty() && arguments.texts.is_empty());
        }
        assert!(!Arguments::read(&json!({"a": {}, "b": []})).partial);
    }
}
