//! What a program left beside its output: files from `/out`, and what it said.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_host::Home;
use countersign_model::effect::Payload;
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{ExecutionId, Failure};
use serde::Serialize;
use serde_json::json;

use crate::output_file::{self, unwritable};
use crate::save::{Names, safe_path, save};
use crate::ui::{DIM, Done, GOOD, Ui, bytes, inert, paint, shown, wrap};

/// List what a program left in /out and said on its streams, and save it
#[derive(Debug, Args)]
pub(crate) struct ArtifactsArgs {
    /// The execution's id, or `last`
    execution: String,

    /// Put everything into this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
}

impl ArtifactsArgs {
    pub(super) fn execution(&self) -> &str {
        &self.execution
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Item {
    /// `artifact`, `stdout` or `stderr`.
    kind: &'static str,
    /// The path beneath `/out` of an artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    attempt: u32,
    #[serde(flatten)]
    payload: Payload,
    /// Where `--save` puts it, beneath its directory.
    file: String,
}

pub(super) fn run(ui: Ui, home: &Home, call: &CallSummary, args: &ArtifactsArgs) -> Done {
    let items = items(home, call)?;
    if let Some(directory) = &args.save {
        let fill = |aside: &Path| {
            items.iter().try_for_each(|item| write(home, call.execution, item, aside))
        };
        save(directory, fill)?;
    }
    if ui.json {
        let saved = args.save.as_ref().map(|directory| directory.display().to_string());
        return ui
            .json(&json!({"executionId": call.execution, "artifacts": items, "saved": saved}));
    }
    if items.is_empty() {
        return ui.line("the call left no artifacts and said nothing on its streams");
    }
    for item in &items {
        let digest = paint(DIM, item.payload.digest.short());
        let size = bytes(item.payload.size);
        ui.line(wrap(&format!("{size:>12}  {}  {digest}", inert(&item.file)), 14))?;
    }
    match &args.save {
        None => Ok(()),
        Some(directory) => ui.line(format!("{} in {}", paint(GOOD, "saved"), shown(directory))),
    }
}

fn items(home: &Home, call: &CallSummary) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    let mut names = Names::default();
    let mut attempt = 1;
    for stored in home.store.call_entries(call.execution)? {
        let Fact::Call(fact) = stored.entry.fact else { continue };
        let (artifacts, streams) = match fact.event {
            CallEvent::Started(started) => {
                attempt = started.attempt;
                continue;
            }
            CallEvent::Committed(done) => {
                (done.artifacts, [("stdout", None), ("stderr", done.stderr)])
            }
            CallEvent::RolledBack(back) => {
                (Vec::new(), [("stdout", back.stdout), ("stderr", back.stderr)])
            }
            _ => continue,
        };
        for artifact in artifacts {
            let payload = Payload { digest: artifact.digest, size: artifact.size };
            let file = names.free(&format!("out/{}", safe_path(&artifact.name)));
            let name = Some(artifact.name);
            items.push(Item { kind: "artifact", name, attempt, payload, file });
        }
        for (kind, said) in streams {
            // Those of earlier attempts stand aside.
            let aside = if attempt < call.attempts { format!(".{attempt}") } else { String::new() };
            let file = format!("{kind}{aside}");
            let item = |payload| Item { kind, name: None, attempt, payload, file };
            items.extend(said.map(item));
        }
    }
    Ok(items)
}

fn write(home: &Home, execution: ExecutionId, item: &Item, aside: &Path) -> Result<(), Failure> {
    let path = aside.join(&item.file);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| unwritable(&path, &error))?;
    }
    output_file::write(&path, |out| home.copy_payload(execution, &item.payload, out))
}
