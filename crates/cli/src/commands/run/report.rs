//! How a run stands, for people, programs and scripts.

use std::sync::Arc;

use countersign_flow::RunEvent;
use countersign_flow::event::RunError;
use countersign_flow::run::End;
use countersign_flow::view::{mirrored, snapshot};
use countersign_model::{ErrorClass, Failure, RunId};
use countersign_workflow::{Engine, View};
use serde_json::{Map, Value};

use super::rows::rows;
use super::waits;
use crate::exit::Exit;
use crate::runs::{duration, status_style, told};
use crate::ui::{BAD, BOLD, DIM, Done, Ui, inert, inert_lines, paint, wrap};

/// Lines of outputs that are shown.
const LINES: usize = 40;

pub(super) fn print(ui: Ui, engine: &Engine, run: &RunId) -> Done<Exit> {
    let view = engine.view(run).map_err(told)?;
    let exit = exit(&view);
    if ui.json {
        ui.json(&shown(&view))?;
        return Ok(exit);
    }
    let events = engine.events(run, 0).map_err(told)?;
    title(ui, engine, &view)?;
    nodes(ui, engine, &view, &events)?;
    outcome(ui, &view)?;
    waits::print(ui, &view)?;
    Ok(exit)
}

/// What programs get of a run, sensitive values masked.
pub(super) fn shown(view: &View) -> Value {
    snapshot(&view.definition, &view.seed, &view.state, &view.children)
}

pub(super) fn title(ui: Ui, engine: &Engine, view: &View) -> Done {
    let status = mirrored(&view.state, &view.children).as_str();
    let now = engine.host().clock().now();
    let until = view.state.ended_at.unwrap_or(now);
    let took = view.state.started_at.map(|begun| duration(until.millis_since(begun)));
    let took = took.map(|took| format!(", {took}")).unwrap_or_default();
    let (run, workflow) = (&view.summary.run, paint(BOLD, inert(&view.summary.workflow)));
    ui.line(wrap(
        &format!("{} {workflow}{took} {}", paint(status_style(status), status), paint(DIM, run)),
        2,
    ))
}

pub(super) fn nodes(ui: Ui, engine: &Engine, view: &View, events: &[Arc<RunEvent>]) -> Done {
    let all = rows(view, events, engine.host().clock().now());
    let longest = all.iter().map(|row| row.id.chars().count()).max().unwrap_or(0).min(40);
    let wide = crate::ui::width().is_none_or(|width| width >= 60);
    for row in all {
        let state = paint(row.style, format!("{:<9}", row.state));
        let text = match wide {
            true => format!("  {state} {:<longest$} {:>9}  {}", row.id, row.took, row.says),
            false => format!("  {state} {} {} {}", row.id, row.took, row.says),
        };
        ui.line(wrap(text.trim_end(), 12))?;
    }
    Ok(())
}

pub(super) fn outcome(ui: Ui, view: &View) -> Done {
    match &view.state.end {
        Some(End::Failed(error, node)) => failed(ui, error, node.as_deref()),
        Some(End::Cancelled { reason, by, .. }) => {
            let by = by.as_ref().map(|by| format!(" by {}", inert(by))).unwrap_or_default();
            let why = reason.as_ref().map(|why| format!(": {}", inert(why))).unwrap_or_default();
            ui.line(wrap(&format!("cancelled{by}{why}"), 2))
        }
        Some(End::Completed(_)) => outputs(ui, view),
        None => Ok(()),
    }
}

fn outputs(ui: Ui, view: &View) -> Done {
    let all = masked_outputs(view);
    if all.is_empty() {
        return Ok(());
    }
    ui.line(paint(BOLD, "outputs"))?;
    block(ui, &Value::Object(all))
}

/// As the last event shows them.
fn masked_outputs(view: &View) -> Map<String, Value> {
    let Some(End::Completed(outputs)) = &view.state.end else { return Map::new() };
    let mut shown = outputs.clone();
    for node in &view.definition.nodes {
        for port in &node.sensitive_outputs {
            let places = [port.clone(), format!("{}/{port}", node.id)];
            for place in places {
                let place = format!("/{place}");
                let mut whole = Value::Object(std::mem::take(&mut shown));
                if let Some(value) = whole.pointer_mut(&place) {
                    *value = Value::String(countersign_flow::event::MASK.to_owned());
                }
                if let Value::Object(members) = whole {
                    shown = members;
                }
            }
        }
    }
    shown
}

/// JSON, indented and not too much of it.
pub(super) fn block(ui: Ui, value: &Value) -> Done {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().take(LINES) {
        ui.line(format!("  {}", inert_lines(line)))?;
    }
    match lines.len().saturating_sub(LINES) {
        0 => Ok(()),
        more => ui.line(paint(DIM, format!("  and {more} more lines; --json shows them all"))),
    }
}

fn failed(ui: Ui, error: &RunError, node: Option<&str>) -> Done {
    let at = node.map(|node| format!(" at {}", inert(node))).unwrap_or_default();
    let code = paint(DIM, format!("[{}]", inert(&error.code)));
    let text = format!("{} {} {code}", paint(BAD, format!("failed{at}:")), inert(&error.message));
    ui.line(wrap(&text, 2))?;
    match error.details.as_ref().and_then(|details| details.get("hint")?.as_str()) {
        Some(hint) => ui.line(wrap(&format!("{} {}", paint(BOLD, "hint:"), inert(hint)), 0)),
        None => Ok(()),
    }
}

/// What a script learns: 4 for whatever somebody has to go on with.
pub(super) fn exit(view: &View) -> Exit {
    match &view.state.end {
        Some(End::Completed(_)) => Exit::Done,
        Some(End::Cancelled { .. }) => Exit::ToolFailed,
        Some(End::Failed(error, _)) => of_error(error),
        None => Exit::Waiting,
    }
}

fn of_error(error: &RunError) -> Exit {
    let detail = |name: &str| error.details.as_ref().and_then(|details| details.get(name)).cloned();
    match error.code.as_str() {
        "run_timeout" | "recursion_limit_exceeded" | "loop_limit_exceeded" => {
            return Exit::LimitReached;
        }
        "interrupt_rejected" | "interrupt_expired" => return Exit::Waiting,
        _ => {}
    }
    let child = detail("childError").and_then(|child| serde_json::from_value(child).ok());
    if let Some(child) = child {
        return of_error(&child);
    }
    let class: Option<ErrorClass> = detail("class").and_then(|c| serde_json::from_value(c).ok());
    let Some(class) = class else { return Exit::ToolFailed };
    let code = error.code.to_uppercase().into();
    let failure = Failure { class, code, ..Failure::validation("", "") };
    match Exit::of_failure(&failure) {
        // The command line was fine.
        Exit::Invalid | Exit::Internal => Exit::ToolFailed,
        exit => exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn exits_go_by_what_failed() {
        let exit = |code: &str, details: Value| {
            let details = details.as_object().cloned();
            of_error(&RunError { details, ..RunError::new(code, "") })
        };
        assert_eq!(exit("boom", json!({})), Exit::ToolFailed);
        assert_eq!(exit("run_timeout", json!({})), Exit::LimitReached);
        assert_eq!(exit("interrupt_rejected", json!({})), Exit::Waiting);
        let denied = json!({"class": "AuthorizationError"});
        assert_eq!(exit("grant_missing", denied.clone()), Exit::Denied);
        assert_eq!(exit("approval_refused", denied.clone()), Exit::Waiting);
        assert_eq!(exit("input_invalid", json!({"class": "ValidationError"})), Exit::ToolFailed);
        let child = json!({"code": "grant_missing", "message": "no", "details": denied});
        assert_eq!(exit("child_failed", json!({"childError": child})), Exit::Denied);
    }
}
