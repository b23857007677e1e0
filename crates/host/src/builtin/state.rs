//! `state.get`, `state.put`, `state.delete`: values under keys, committed with the call.

use countersign_model::digest::canonical_json;
use countersign_model::{Capability, Digest, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::tool::{Footprint, NativeTool, Place, ToolContext};

#[derive(Debug, Deserialize)]
struct KeyArguments {
    key: String,
}

#[derive(Debug, Deserialize)]
struct PutArguments {
    key: String,
    value: Value,
}

const MAX_KEY: usize = 256;

fn key_of(input: &Value) -> Result<String, Failure> {
    let KeyArguments { key } = arguments(input)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let sound = |part: &str| !matches!(part, "" | "." | "..") && part.chars().all(plain);
    if key.len() <= MAX_KEY && key.split('/').all(sound) {
        return Ok(key);
    }
    Err(Failure::validation("KEY_INVALID", format!("`{key}` is not a state key"))
        .hint("keys are letters, digits and . _ - in parts divided by /, up to 256 characters"))
}

#[derive(Debug)]
pub(super) struct Get;

impl NativeTool for Get {
    fn is_prompt(&self) -> bool {
        true
    }

    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        Ok(Footprint::needs(Capability::StateRead, key_of(input)?))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let key = key_of(input)?;
        let Some(bytes) = context.get_key(&key)? else {
            return Ok(json!({"found": false, "value": null}));
        };
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| {
            Failure::state("STATE_DAMAGED", format!("the value of `{key}` is damaged"))
        })?;
        Ok(json!({"found": true, "value": value}))
    }
}

#[derive(Debug)]
pub(super) struct Put;

impl NativeTool for Put {
    fn is_prompt(&self) -> bool {
        true
    }

    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        let key = key_of(input)?;
        Ok(Footprint::needs(Capability::StateWrite, key.clone()).may_change_key(key))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let PutArguments { key, value } = arguments(input)?;
        let bytes = canonical_json(&value)
            .map_err(|error| Failure::validation("VALUE_INVALID", error.to_string()))?;
        let sha256 = Digest::of(&bytes);
        let created = context.put_key(&key, bytes)?;
        Ok(json!({"created": created, "sha256": sha256}))
    }
}

#[derive(Debug)]
pub(super) struct Delete;

impl NativeTool for Delete {
    fn is_prompt(&self) -> bool {
        true
    }

    fn footprint(&self, input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        let key = key_of(input)?;
        Ok(Footprint::needs(Capability::StateDelete, key.clone()).may_change_key(key))
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let deleted = context.delete_key(&key_of(input)?)?;
        Ok(json!({"deleted": deleted}))
    }
}
