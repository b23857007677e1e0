//! One artifact: what is known about it, and whether its content is whole.

use clap::Args;
use countersign_host::Home;
use countersign_model::{ArtifactRecord, ExecutionId};
use serde_json::json;

use super::Which;
use super::verify::{Content, look};
use crate::ui::{BAD, BOLD, Done, GOOD, Ui, WARN, bytes, inert, paint, wrap};

/// Show one artifact: where it came from, who used it, and whether its content is whole
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    which: Which,
}

pub(super) fn run(ui: Ui, home: &Home, args: &ShowArgs) -> Done {
    let record = args.which.find(home)?;
    let consumers = home.store.consumers(&record.id)?;
    let content = look(home, &record, &mut |_| {})?;
    if ui.json {
        return ui.json(&json!({
            "artifact": record,
            "consumers": consumers,
            "content": content,
        }));
    }
    print(ui, home, &record, &consumers, content)
}

fn print(
    ui: Ui,
    home: &Home,
    record: &ArtifactRecord,
    consumers: &[ExecutionId],
    content: Content,
) -> Done {
    ui.line(paint(BOLD, inert(&record.name)))?;
    let style = match content {
        Content::Whole => GOOD,
        Content::LetGo => WARN,
        Content::Missing | Content::Damaged => BAD,
    };
    let mut facts = vec![
        ("id", record.id.to_string()),
        ("content", format!("{}, {}", bytes(record.size), paint(style, content.as_str()))),
        ("sha256", record.digest.to_string()),
    ];
    facts.extend(record.media_type.as_ref().map(|kind| ("media type", inert(kind))));
    facts.extend(record.run.as_ref().map(|run| ("run", run.to_string())));
    facts.extend(record.workspace.as_ref().map(|id| ("workspace", id.to_string())));
    facts.push(("made by", call(home, record.producer)));
    facts.push(("made at", record.at.to_string()));
    facts.extend(record.collected_at.map(|at| ("let go of", at.to_string())));
    facts.extend(consumers.iter().map(|one| ("used by", call(home, *one))));
    for (name, value) in facts {
        ui.line(wrap(&format!("  {name:<11} {value}"), 14))?;
    }
    Ok(())
}

/// A call, with its tool if the journal can be read that far.
fn call(home: &Home, execution: ExecutionId) -> String {
    match home.store.call(execution) {
        Ok(Some(call)) => format!("{} as {}, {execution}", call.tool, call.principal),
        _ => execution.to_string(),
    }
}
