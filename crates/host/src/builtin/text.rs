//! `text.digest`: touches nothing, needs nothing. The smallest whole call there is.

use countersign_model::{Digest, Failure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::arguments;
use crate::tool::{Footprint, NativeTool, Place, ToolContext};

#[derive(Debug, Deserialize)]
struct Arguments {
    text: String,
}

#[derive(Debug)]
pub(super) struct TextDigest;

impl NativeTool for TextDigest {
    fn is_prompt(&self) -> bool {
        true
    }

    fn footprint(&self, _input: &Value, _place: &Place) -> Result<Footprint, Failure> {
        Ok(Footprint::nothing())
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let Arguments { text } = arguments(input)?;
        context.charge_memory(text.len() as u64)?;
        Ok(json!({"sha256": Digest::of(text.as_bytes()), "bytes": text.len()}))
    }
}
