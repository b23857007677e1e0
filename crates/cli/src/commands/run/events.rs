//! The events of a run, also while they come.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::Args;
use countersign_flow::RunEvent;
use countersign_flow::event::wire;
use countersign_model::RunId;
use countersign_workflow::{Engine, View};
use serde_json::Value;

use crate::Context;
use crate::exit::Exit;
use crate::runs::{find, looking, told};
use crate::signals;
use crate::ui::{BOLD, DIM, Done, Ui, inert, paint, width};

/// How often a run that another process advances is looked at.
const GLANCE: Duration = Duration::from_millis(100);

/// Print the events of a run, in order
///
/// With --json, one event a line. With -f, goes on until the run has ended, whichever process
/// advances it.
#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// The run's id, or `last`
    run: String,

    /// Wait for further events until the run ends
    #[arg(long, short)]
    follow: bool,

    /// Only events from this number on; they are counted from 0
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
}

pub(super) fn run(context: &Context, args: &EventsArgs) -> Done<Exit> {
    let (ui, engine) = (context.ui, looking(&context.home)?);
    let summary = find(&engine, &args.run)?;
    let view = engine.view(&summary.run).map_err(told)?;
    let stop = signals::cancelled();
    let mut from = args.from;
    loop {
        // Asked before the events are read, so that none comes after the last look.
        let ended = ended(&engine, &summary.run)?;
        for event in engine.events(&summary.run, from).map_err(told)? {
            print(ui, &view, &event)?;
            from = event.sequence + 1;
        }
        if ended || !args.follow || stop.load(Ordering::Relaxed) {
            return Ok(Exit::Done);
        }
        thread::sleep(GLANCE);
    }
}

fn ended(engine: &Engine, run: &RunId) -> Done<bool> {
    let summary = engine.summary(run).map_err(told)?;
    Ok(summary.is_none_or(|summary| summary.ended_at.is_some()))
}

fn print(ui: Ui, view: &View, event: &Arc<RunEvent>) -> Done {
    let shown = wire(&view.definition, &view.seed.run_id, event);
    if ui.json {
        return ui.json_line(&shown);
    }
    let text = |name: &str| shown.get(name).and_then(Value::as_str).unwrap_or_default();
    let node = shown.get("nodeId").and_then(Value::as_str).map(|node| format!(" {}", inert(node)));
    let line = format!("{:>4} {} {}", event.sequence, event.at, paint(BOLD, text("type")));
    let more = payload(&shown);
    let room = width().map(|width| width.saturating_sub(34 + text("type").chars().count()));
    let said = format!("{}{}", node.unwrap_or_default(), more);
    let said: String = said.chars().take(room.unwrap_or(usize::MAX)).collect();
    ui.line(format!("{line}{}", paint(DIM, said)))
}

/// What it says, without the node that was named already.
fn payload(shown: &Value) -> String {
    let mut members = shown.get("payload").and_then(Value::as_object).cloned().unwrap_or_default();
    members.remove("nodeId");
    if members.is_empty() {
        String::new()
    } else {
        format!(" {}", inert(&Value::Object(members).to_string()))
    }
}
