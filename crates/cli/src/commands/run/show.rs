//! One run in words.

use clap::Args;
use countersign_model::RunSummary;
use countersign_workflow::{Engine, View};
use serde_json::Value;

use super::report::{self, block};
use super::waits;
use crate::Context;
use crate::exit::Exit;
use crate::runs::{find, looking, told};
use crate::ui::{BOLD, DIM, Done, Ui, inert, paint, wrap};

/// Show one run: its nodes, its variables, what it waits for and how to answer
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The run's id, or `last`
    run: String,
}

pub(super) fn run(context: &Context, args: &ShowArgs) -> Done<Exit> {
    let (ui, engine) = (context.ui, looking(&context.home)?);
    let summary = find(&engine, &args.run)?;
    let view = engine.view(&summary.run).map_err(told)?;
    match ui.json {
        true => ui.json(&report::shown(&view))?,
        false => print(ui, &engine, &summary, &view)?,
    }
    Ok(Exit::Done)
}

fn print(ui: Ui, engine: &Engine, summary: &RunSummary, view: &View) -> Done {
    let events = engine.events(&summary.run, 0).map_err(told)?;
    report::title(ui, engine, view)?;
    let by = format!(
        "  begun {} by {}, tenant {}",
        summary.created_at,
        summary.principal,
        inert(&summary.tenant)
    );
    ui.line(wrap(&paint(DIM, by), 2))?;
    if let Some(origin) = &view.seed.forked_from {
        let how = if origin.replay { "a replay" } else { "a branch" };
        let text =
            format!("  {how} of {} from event {}", inert(&origin.run_id), origin.from_sequence);
        ui.line(wrap(&paint(DIM, text), 2))?;
    }
    if let Some(parent) = &view.seed.parent {
        let (run, node) = (inert(&parent.run_id), inert(&parent.node_id));
        ui.line(wrap(&paint(DIM, format!("  begun by {run}, node {node}")), 2))?;
    }
    if !view.seed.tags.is_empty() {
        ui.line(wrap(&format!("  tags {}", inert(&view.seed.tags.join(", "))), 2))?;
    }
    report::nodes(ui, engine, view, &events)?;
    members(ui, view, "variables")?;
    members(ui, view, "channels")?;
    report::outcome(ui, view)?;
    waits::print(ui, view)
}

fn members(ui: Ui, view: &View, name: &str) -> Done {
    let shown = report::shown(view);
    match shown.get(name).filter(|value| value.as_object().is_some_and(|all| !all.is_empty())) {
        None => Ok(()),
        Some(all) => {
            ui.line(paint(BOLD, name))?;
            values(ui, all)
        }
    }
}

fn values(ui: Ui, all: &Value) -> Done {
    for (name, value) in all.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) | Value::Array(_) => {
                ui.line(format!("  {}", inert(name)))?;
                block(ui, value)?;
            }
            plain => {
                ui.line(wrap(&format!("  {} = {}", inert(name), inert(&plain.to_string())), 4))?
            }
        }
    }
    Ok(())
}
