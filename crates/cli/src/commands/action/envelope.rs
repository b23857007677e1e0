//! What came of an action, for people, programs and scripts.

use countersign_actions::{ActionResult, Status};
use countersign_model::{ErrorClass, Failure};
use serde_json::Value;

use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Lines of an error's details that are shown.
const DETAILS: usize = 40;

/// Programs get exactly the envelope.
pub(crate) fn report(ui: Ui, name: &str, result: &ActionResult) -> Done<Exit> {
    match ui.json {
        true => ui.json(result)?,
        false => print(ui, name, result)?,
    }
    Ok(exit(result))
}

fn exit(result: &ActionResult) -> Exit {
    match &result.error {
        None => Exit::Done,
        Some(failure) => Exit::of_failure(failure),
    }
}

fn print(ui: Ui, name: &str, result: &ActionResult) -> Done {
    let (style, word) = match result.status {
        Status::Success => (GOOD, "success"),
        Status::Replayed => (GOOD, "replayed"),
        Status::Failed => (BAD, "failed"),
        Status::Blocked => (BAD, "blocked"),
        Status::ApprovalRequired => (WARN, "approval required"),
        Status::TimedOut => (BAD, "timed out"),
        Status::Cancelled => (WARN, "cancelled"),
    };
    let code = result.error.as_ref().map(|failure| paint(DIM, format!(" [{}]", failure.code)));
    let (name, said) = (paint(BOLD, inert(name)), inert(&result.summary));
    let code = code.unwrap_or_default();
    ui.line(wrap(&format!("{} {name}: {said}{code}", paint(style, word)), 2))?;
    if let Some(earlier) = result.replayed_from {
        ui.line(wrap(&format!("  nothing ran: execution {earlier} did the same"), 2))?;
    }
    for artifact in &result.artifacts {
        let id = paint(DIM, &artifact.artifact_id);
        ui.line(wrap(&format!("  left {} {id}", inert(&artifact.name)), 4))?;
    }
    if let Some(failure) = &result.error {
        explain(ui, failure)?;
    }
    let call = result.execution_id.map(|id| format!(", execution {id}")).unwrap_or_default();
    ui.line(wrap(&paint(DIM, format!("run {}{call}", result.run_id)), 0))
}

fn explain(ui: Ui, failure: &Failure) -> Done {
    // Who may do what, and who is asked until when, stands in the message.
    let is_told = failure.class == ErrorClass::AuthorizationError;
    if let Some(details) = failure.details.as_ref().filter(|_| !is_told) {
        print_details(ui, details)?;
    }
    match &failure.hint {
        None => Ok(()),
        Some(hint) => ui.line(wrap(&format!("{} {}", paint(BOLD, "hint:"), inert(hint)), 0)),
    }
}

fn print_details(ui: Ui, details: &Value) -> Done {
    let text = serde_json::to_string_pretty(details).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().take(DETAILS) {
        ui.line(paint(DIM, format!("  {}", inert(line))))?;
    }
    match lines.len().saturating_sub(DETAILS) {
        0 => Ok(()),
        more => ui.line(format!("  and {more} more lines; --json shows them all")),
    }
}
