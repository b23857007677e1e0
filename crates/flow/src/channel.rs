//! Channels: named state that writes are folded into, each by the reducer it was written with.

use countersign_model::CompiledSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::condition::same;
use crate::definition::as_whole;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel {
    pub reducer: Reducer,
    pub schema: Option<Value>,
    pub default: Option<Value>,
    #[serde(default, deserialize_with = "whole")]
    pub max_size: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub ttl_ms: Option<u64>,
    #[serde(default)]
    pub access: Access,
    #[serde(default, deserialize_with = "whole")]
    pub schema_version: Option<u64>,
    #[serde(default, deserialize_with = "wholes")]
    pub compatible_with: Vec<u64>,
    #[serde(default)]
    pub sensitive: bool,
    /// `schema`, ready to judge what the channel holds.
    #[serde(skip)]
    pub compiled: Option<CompiledSchema>,
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.as_ref().and_then(as_whole))
}

fn wholes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    Ok(Vec::<Value>::deserialize(deserializer)?.iter().filter_map(as_whole).collect())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reducer {
    Replace,
    Append,
    Merge,
    Counter,
    Votes,
    Feedback,
    Message,
    /// Named, and nothing more: its rules are somebody else's.
    Vendor(String),
}

impl Reducer {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name {
            "replace" => Reducer::Replace,
            "append" => Reducer::Append,
            "merge" => Reducer::Merge,
            "counter" => Reducer::Counter,
            "votes" => Reducer::Votes,
            "feedback" => Reducer::Feedback,
            "message" => Reducer::Message,
            vendor if vendor.starts_with("vendor.") => Reducer::Vendor(vendor.to_owned()),
            _ => return None,
        })
    }

    pub fn name(&self) -> &str {
        match self {
            Reducer::Replace => "replace",
            Reducer::Append => "append",
            Reducer::Merge => "merge",
            Reducer::Counter => "counter",
            Reducer::Votes => "votes",
            Reducer::Feedback => "feedback",
            Reducer::Message => "message",
            Reducer::Vendor(name) => name,
        }
    }

    fn ages(&self) -> bool {
        matches!(self, Reducer::Append | Reducer::Votes | Reducer::Feedback)
    }
}

impl Serialize for Reducer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Reducer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Reducer::of(&name).ok_or_else(|| serde::de::Error::custom("not the name of a reducer"))
    }
}

/// Who may read and write; `None` is everybody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    readers: Option<Vec<String>>,
    writers: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for Access {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let side = |name: &str| {
            let list = value.get(name)?.as_array()?;
            Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        Ok(match value.as_str() {
            Some("private") => Access { readers: Some(Vec::new()), writers: Some(Vec::new()) },
            Some(_) => Access::default(),
            None => Access { readers: side("readers"), writers: side("writers") },
        })
    }
}

impl Access {
    pub fn may_read(&self, node: &str, type_id: &str) -> bool {
        allows(self.readers.as_deref(), node, type_id)
    }

    pub fn may_write(&self, node: &str, type_id: &str) -> bool {
        allows(self.writers.as_deref(), node, type_id)
    }
}

fn allows(list: Option<&[String]>, node: &str, type_id: &str) -> bool {
    let matches = |entry: &String| match entry.strip_suffix('*') {
        Some(prefix) => type_id.starts_with(prefix),
        None => entry == node || entry == type_id,
    };
    list.is_none_or(|entries| entries.iter().any(matches))
}

/// One write, with all that folding it needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Write<'a> {
    pub reducer: &'a Reducer,
    pub value: &'a Value,
    /// Milliseconds since the epoch: the moment of the event.
    pub at: i64,
    pub ttl_ms: Option<u64>,
    pub max_size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("the reducer `{0}` is not one of this engine")]
    Unknown(String),
    #[error("`{0}` cannot take this value")]
    Value(&'static str),
    #[error("what was written with version {0} of the schema cannot be read any more")]
    Breaking(u64),
}

/// What a channel holds after `write`.
pub fn fold(state: Option<&Value>, write: &Write<'_>) -> Result<Value, ChannelError> {
    let value = write.value;
    match write.reducer {
        Reducer::Replace => Ok(value.clone()),
        Reducer::Merge => merge(state, value),
        Reducer::Counter => count(state, value),
        Reducer::Vendor(name) => Err(ChannelError::Unknown(name.clone())),
        Reducer::Message => message(state, write),
        Reducer::Votes => vote(state, write),
        Reducer::Append | Reducer::Feedback => {
            Ok(Value::Array(append(pruned(state, write), write)))
        }
    }
}

fn merge(state: Option<&Value>, value: &Value) -> Result<Value, ChannelError> {
    let new = value.as_object().ok_or(ChannelError::Value("merge"))?;
    let mut map = state.and_then(Value::as_object).cloned().unwrap_or_default();
    map.extend(new.iter().map(|(key, value)| (key.clone(), value.clone())));
    Ok(Value::Object(map))
}

fn count(state: Option<&Value>, value: &Value) -> Result<Value, ChannelError> {
    let refused = ChannelError::Value("counter");
    let state = state.unwrap_or(&Value::Null);
    let whole = state.as_i64().or(state.is_null().then_some(0)).zip(value.as_i64());
    if let Some(sum) = whole.and_then(|(a, b)| a.checked_add(b)) {
        return Ok(json!(sum));
    }
    let sum = state.as_f64().unwrap_or_default() + value.as_f64().ok_or(refused.clone())?;
    serde_json::Number::from_f64(sum).map(Value::Number).ok_or(refused)
}

fn message(state: Option<&Value>, write: &Write<'_>) -> Result<Value, ChannelError> {
    let id = write.value.get("messageId").filter(|id| id.is_string());
    let id = id.ok_or(ChannelError::Value("message"))?;
    let mut items = pruned(state, write);
    if items.iter().all(|item| item.get("messageId") != Some(id)) {
        items = append(items, write);
    }
    Ok(Value::Array(items))
}

fn vote(state: Option<&Value>, write: &Write<'_>) -> Result<Value, ChannelError> {
    let user = write.value.get("userId").ok_or(ChannelError::Value("votes"))?;
    let mut items = pruned(state, write);
    items.retain(|item| unwrap_entry(item).get("userId").is_none_or(|other| !same(other, user)));
    Ok(Value::Array(append(items, write)))
}

/// What is in the channel and still young enough when `write` happens.
fn pruned(state: Option<&Value>, write: &Write<'_>) -> Vec<Value> {
    let mut items = state.and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(ttl) = write.ttl_ms.filter(|_| write.reducer.ages()) {
        let oldest = write.at.saturating_sub(i64::try_from(ttl).unwrap_or(i64::MAX));
        let young =
            |item: &Value| item.get("_ts").and_then(Value::as_i64).is_none_or(|ts| ts > oldest);
        items.retain(young);
    }
    items
}

fn append(mut items: Vec<Value>, write: &Write<'_>) -> Vec<Value> {
    let aged = write.ttl_ms.is_some() && write.reducer.ages();
    items.push(if aged {
        json!({"value": write.value, "_ts": write.at})
    } else {
        write.value.clone()
    });
    let most = write.max_size.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    let excess = items.len().saturating_sub(most);
    items.drain(..excess);
    items
}

/// The value of an entry, with or without its time.
pub fn unwrap_entry(item: &Value) -> &Value {
    match item.get("_ts") {
        Some(_) => item.get("value").unwrap_or(item),
        None => item,
    }
}

impl Channel {
    /// Whether a write with `version` of the schema can be read with the schema of today.
    pub fn reads(&self, version: u64) -> Result<(), ChannelError> {
        let current = self.schema_version.unwrap_or(1);
        match version == current || self.compatible_with.contains(&version) {
            true => Ok(()),
            false => Err(ChannelError::Breaking(version)),
        }
    }

    /// Whether the channel may hold `state`.
    pub fn admits(&self, state: &Value) -> bool {
        let Some(schema) = &self.compiled else { return true };
        match state {
            Value::Array(items) => {
                let plain = items.iter().map(|item| unwrap_entry(item).clone()).collect();
                schema.is_valid(&Value::Array(plain))
            }
            other => schema.is_valid(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(
        reducer: &Reducer,
        writes: &[(i64, Value)],
        ttl: Option<u64>,
        most: Option<u64>,
    ) -> Value {
        writes.iter().fold(Value::Null, |state, (at, value)| {
            let write = Write { reducer, value, at: *at, ttl_ms: ttl, max_size: most };
            let state = (!state.is_null()).then_some(&state);
            fold(state, &write).unwrap()
        })
    }

    #[test]
    fn reducers_fold_as_they_say() {
        let writes = |values: &[Value]| values.iter().map(|v| (0, v.clone())).collect::<Vec<_>>();
        let of = |reducer, values: &[Value]| folded(&reducer, &writes(values), None, None);
        assert_eq!(of(Reducer::Replace, &[json!(1), json!("b")]), json!("b"));
        assert_eq!(of(Reducer::Append, &[json!(1), json!(1)]), json!([1, 1]));
        assert_eq!(
            of(Reducer::Merge, &[json!({"a": 1, "b": {"x": 1}}), json!({"b": {}})]),
            json!({"a": 1, "b": {}})
        );
        assert_eq!(of(Reducer::Counter, &[json!(2), json!(-5), json!(0.5)]), json!(-2.5));
        let ada = |n: i64| json!({"userId": "ada", "n": n});
        let bob = json!({"userId": "bob"});
        assert_eq!(of(Reducer::Votes, &[ada(1), bob.clone(), ada(2)]), json!([bob, ada(2)]));
        let m = |id: &str| json!({"messageId": id});
        assert_eq!(of(Reducer::Message, &[m("1"), m("2"), m("1")]), json!([m("1"), m("2")]));
    }

    #[test]
    fn entries_age_when_something_is_written_and_only_then() {
        let writes = [(0, json!("a")), (10, json!("b")), (300, json!("c")), (450, json!("d"))];
        let shown = |value: &Value| {
            value.as_array().unwrap().iter().map(unwrap_entry).cloned().collect::<Vec<_>>()
        };
        assert_eq!(
            shown(&folded(&Reducer::Append, &writes, Some(200), None)),
            [json!("c"), json!("d")]
        );
        assert_eq!(shown(&folded(&Reducer::Append, &writes, Some(200), Some(1))), [json!("d")]);
        assert_eq!(folded(&Reducer::Append, &writes, None, Some(2)), json!(["c", "d"]));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        for (reducer, value) in [
            (Reducer::Merge, json!(1)),
            (Reducer::Counter, json!("1")),
            (Reducer::Votes, json!({})),
            (Reducer::Message, json!({"messageId": 1})),
            (Reducer::Vendor("vendor.acme.max".to_owned()), json!(1)),
        ] {
            let write =
                Write { reducer: &reducer, value: &value, at: 0, ttl_ms: None, max_size: None };
            assert!(fold(None, &write).is_err(), "{reducer:?}");
        }
    }

    #[test]
    fn access_lists_go_by_node_and_type() {
        let access: Access =
            serde_json::from_value(json!({"writers": ["core.ai.*", "n1"]})).unwrap();
        assert!(access.may_write("n1", "core.noop") && access.may_write("x", "core.ai.callPrompt"));
        assert!(!access.may_write("x", "core.noop") && access.may_read("x", "core.noop"));
        let private: Access = serde_json::from_value(json!("private")).unwrap();
        assert!(!private.may_read("n", "t") && !private.may_write("n", "t"));
        let open: Access = serde_json::from_value(json!("public")).unwrap();
        assert!(open.may_read("n", "t"));
    }
}
