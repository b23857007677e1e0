//! Artifacts that an input names, found before anything is judged: by id, or by name within the run.

use countersign_host::Host;
use countersign_journal::ArtifactFilter;
use countersign_model::{ArtifactId, ArtifactRecord, Consumed, Failure, RunId, WorkspaceId};
use serde_json::{Map, Value};

use crate::catalogue::Action;

/// The inputs with every name of an artifact replaced by its id, and what was named.
pub(crate) fn resolve(
    host: &Host,
    action: &Action,
    run: &RunId,
    workspace: &WorkspaceId,
    mut inputs: Map<String, Value>,
) -> Result<(Map<String, Value>, Vec<Consumed>), Failure> {
    let mut consumed = Vec::new();
    for field in action.references {
        let Some(value) = inputs.get_mut(*field) else { continue };
        let named = match value {
            Value::Array(items) => items.iter_mut().collect(),
            one => vec![one],
        };
        for value in named {
            // Anything else is for the schema to refuse.
            let Value::String(text) = value else { continue };
            let record = find(host, run, text)?;
            check(&record, workspace)?;
            *text = record.id.to_string();
            consumed.push(Consumed { artifact: record.id, digest: record.digest });
        }
    }
    Ok((inputs, consumed))
}

fn find(host: &Host, run: &RunId, named: &str) -> Result<ArtifactRecord, Failure> {
    let store = &host.home().store;
    let mut found = None;
    if ArtifactId::is_meant(named) {
        found = store.artifact(&named.parse()?)?;
    } else {
        let filter = ArtifactFilter {
            run: Some(run.clone()),
            name: Some(named.to_owned()),
            limit: Some(1),
            ..ArtifactFilter::default()
        };
        store.visit_artifacts(&filter, &mut |record| {
            found = Some(record);
            Ok(())
        })?;
    }
    host.present_artifact(found, named)
}

/// Who may see one workspace may not see what was made on another.
fn check(record: &ArtifactRecord, workspace: &WorkspaceId) -> Result<(), Failure> {
    if record.workspace.as_ref() == Some(workspace) {
        return Ok(());
    }
    let message = format!("`{}` was not made on workspace `{workspace}`", record.id);
    Err(Failure::authorization("ARTIFACT_FOREIGN", message)
        .hint("put the file into this run with `countersign artifact put`"))
}
