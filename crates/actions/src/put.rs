//! `put_artifact`: a file becomes an artifact of a run. Its content is in the store before the call,
//! where nothing names it; the call gives it a name.

use std::io::Read;

use countersign_host::Host;
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_model::effect::Artifact;
use countersign_model::{Digest, Failure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::door::{Asker, run};
use crate::envelope::{ActionContext, ActionRequest, ActionResult};
use crate::left::{Left, arguments, reads_workspace};

#[derive(Debug, Deserialize)]
struct Arguments {
    name: String,
    media_type: String,
    sha256: Digest,
    size: u64,
}

#[derive(Debug)]
pub(crate) struct PutArtifact;

impl NativeTool for PutArtifact {
    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        reads_workspace(place)
    }

    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        let Arguments { name, media_type, sha256, size } = arguments(input)?;
        context.check_blob(&sha256, size)?;
        let id = context.artifact_id(&name);
        let mut left = Left::default();
        let summary = format!("{name}: {size} bytes");
        let media_type = Some(media_type);
        left.adopt(context, Artifact { digest: sha256, media_type, name, size })?;
        Ok(json!({"summary": summary, "artifacts": left.list(), "artifact_id": id, "size": size}))
    }
}

/// Takes a content in, however long, and makes it an artifact of the run.
pub fn put(
    host: &Host,
    (name, media_type): (&str, &str),
    content: impl Read,
    run_id: countersign_model::RunId,
    context: ActionContext,
    asker: Asker,
) -> Result<ActionResult, Failure> {
    let taken = host.take_input(name, content)?;
    let fields = [
        ("name", json!(name)),
        ("media_type", json!(media_type)),
        ("sha256", json!(taken.sha256)),
        ("size", json!(taken.size)),
    ];
    let inputs: Map<String, Value> =
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let action = "put_artifact".to_owned();
    run(host, ActionRequest { action, run_id, inputs, context }, asker)
}
