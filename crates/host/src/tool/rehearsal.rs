//! A tool that runs outside of a call: what it would have done can be looked at, and nothing else.

use std::sync::Arc;

use countersign_model::effect::{Artifact, Effect};
use countersign_model::{Digest, Failure};
use serde_json::{Value, json};

use super::{NativeTool, ToolContext};
use crate::pipeline::native_effects;

/// What a tool would have given, left and changed. The staged changes themselves are gone: there is
/// no way from here to a commit.
#[derive(Debug)]
pub(crate) struct Rehearsed {
    pub(crate) output: Value,
    pub(crate) artifacts: Vec<Artifact>,
    /// In the form of [`comparable`].
    pub(crate) effects: Vec<Value>,
}

impl ToolContext {
    /// Runs a tool, and keeps nothing of what it staged but a description.
    pub(crate) fn rehearse(
        mut self,
        native: &dyn NativeTool,
        input: &Value,
    ) -> Result<Rehearsed, Failure> {
        let output = native.run(input, &mut self)?;
        self.check()?;
        let snapshot = Arc::clone(&self.snapshot);
        let made = self.place.services().made.clone();
        let (staged, _) = self.finish();
        staged.keep_outputs(&made)?;
        let effects = comparable(&native_effects(&snapshot, &staged));
        Ok(Rehearsed { output, artifacts: staged.artifacts, effects })
    }
}

/// Effects as two executions can be compared by them. A tree knows files, links and who may execute
/// them, but no other permissions and no empty directories, so neither is part of this.
pub(crate) fn comparable(effects: &[Effect]) -> Vec<Value> {
    let file =
        |digest: &Digest, mode: u32| json!({"sha256": digest, "executable": mode & 0o100 != 0});
    let mut told: Vec<(String, Value)> = Vec::new();
    for effect in effects {
        let (kind, before, after) = match effect {
            Effect::DirectoryChanged { .. }
            | Effect::DirectoryCreated { .. }
            | Effect::DirectoryDeleted { .. } => continue,
            Effect::FileWritten { after, before, .. } => (
                "file",
                json!(before.map(|before| file(&before.digest, before.mode))),
                file(&after.digest, after.mode),
            ),
            Effect::FileDeleted { before, .. } => {
                ("file", file(&before.digest, before.mode), Value::Null)
            }
            Effect::LinkWritten { after, before, .. } => ("link", json!(before), json!(after)),
            Effect::LinkDeleted { before, .. } => ("link", json!(before), Value::Null),
            // Commits hold the moment they were made at.
            Effect::RefMoved { .. } => ("branch", Value::Null, Value::Null),
            Effect::StatePut { after, before, .. } => ("state", json!(before), json!(after)),
            Effect::StateDeleted { before, .. } => ("state", json!(before), Value::Null),
        };
        let target = effect.target().to_owned();
        let value = json!({"kind": kind, "what": target, "before": before, "after": after});
        told.push((target, value));
    }
    told.sort_by(|(a, _), (b, _)| a.cmp(b));
    told.into_iter().map(|(_, value)| value).collect()
}
