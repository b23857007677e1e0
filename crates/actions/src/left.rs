//! What an action leaves: its artifacts, and the fields that every output has.

use std::io::Read;
use std::time::Duration;

use countersign_host::tool::{Footprint, Place, ToolContext};
use countersign_model::effect::Artifact;
use countersign_model::{Capability, Failure};
use countersign_repository::Leash;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Artifacts as they are made, in order.
#[derive(Debug, Default)]
pub(crate) struct Left(Vec<Value>);

impl Left {
    pub(crate) fn make(
        &mut self,
        context: &mut ToolContext,
        name: &str,
        media_type: &str,
        content: &mut impl Read,
    ) -> Result<Artifact, Failure> {
        let made = context.make_artifact(name, media_type, content)?;
        self.0.push(json!({"name": name, "artifact_id": context.artifact_id(name)}));
        Ok(made)
    }

    pub(crate) fn json(
        &mut self,
        context: &mut ToolContext,
        name: &str,
        value: &impl serde::Serialize,
    ) -> Result<Artifact, Failure> {
        let mut bytes = serde_json::to_vec_pretty(value)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        bytes.push(b'\n');
        self.make(context, name, "application/json", &mut bytes.as_slice())
    }

    pub(crate) fn adopt(
        &mut self,
        context: &mut ToolContext,
        artifact: Artifact,
    ) -> Result<(), Failure> {
        let name = artifact.name.clone();
        let id = context.adopt_artifact(artifact)?;
        self.0.push(json!({"name": name, "artifact_id": id}));
        Ok(())
    }

    /// The list of artifacts, as outputs have it.
    pub(crate) fn list(self) -> Value {
        Value::Array(self.0)
    }
}

/// What an action touches that only looks: all of its workspace, and it must have one.
pub(crate) fn reads_workspace(place: &Place) -> Result<Footprint, Failure> {
    place.work()?;
    let needs = vec![place.need_of_all(Capability::FilesystemRead)?];
    Ok(Footprint { needs, ..Footprint::nothing() })
}

/// The schema has judged the input: what cannot be read is a contradiction in our own code.
pub(crate) fn arguments<T: DeserializeOwned>(input: &Value) -> Result<T, Failure> {
    T::deserialize(input).map_err(|error| {
        Failure::validation("INPUT_UNSUITABLE", format!("this input cannot be used: {error}"))
    })
}

/// Something for git to do as long as the call goes on.
pub(crate) fn with_leash<T>(
    context: &ToolContext,
    work: impl FnOnce(&mut Leash<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut tick = || context.check();
    let mut leash = Leash::new(Duration::from_secs(24 * 3600), &mut tick);
    work(&mut leash)
}

/// `1 file`, `2 files`.
pub(crate) fn counted(number: impl Into<u64>, what: &str) -> String {
    match number.into() {
        1 => format!("1 {what}"),
        many => format!("{many} {what}s"),
    }
}
