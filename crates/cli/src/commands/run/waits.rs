//! What a run waits for, and how to answer.

use countersign_flow::event::InterruptKind;
use countersign_flow::run::OpenInterrupt;
use countersign_model::RunId;
use countersign_workflow::View;
use serde_json::{Value, json};

use super::rows::question;
use crate::runs::is_waiting;
use crate::ui::{BOLD, Done, Ui, WARN, inert, inert_lines, paint, shell_word, wrap};

pub(super) fn print(ui: Ui, view: &View) -> Done {
    for open in &view.state.interrupts {
        let (node, asked) = (paint(BOLD, inert(&open.node)), inert(&question(open)));
        ui.line(wrap(&format!("{} {node}: {asked}", paint(WARN, "waits at")), 2))?;
        more(ui, open)?;
        for way in ways(&view.summary.run, open) {
            ui.line(format!("  {way}"))?;
        }
    }
    for child in view.children.iter().filter(|child| is_waiting(child.status)) {
        let run = shell_word(&child.run_id);
        ui.line(wrap(&format!("{} the run that it began", paint(WARN, "waits for")), 2))?;
        ui.line(format!("  countersign run show {run}"))?;
    }
    Ok(())
}

/// What somebody has to know to answer.
fn more(ui: Ui, open: &OpenInterrupt) -> Done {
    if let Some(text) = open.data.get("description").and_then(Value::as_str) {
        ui.line(wrap(&format!("  {}", inert(text)), 2))?;
    }
    let listed = |place: &str| open.data.pointer(place).and_then(Value::as_array).cloned();
    for asked in listed("/questions").unwrap_or_default() {
        let text = |name: &str| asked.get(name).and_then(Value::as_str).unwrap_or_default();
        ui.line(wrap(&format!("  {}: {}", inert(text("id")), inert(text("question"))), 4))?;
    }
    let given = open
        .data
        .pointer("/payload/inputs")
        .filter(|v| v.as_object().is_some_and(|o| !o.is_empty()));
    if let Some(given) = given {
        let text = serde_json::to_string_pretty(given).unwrap_or_default();
        ui.line(format!("  given: {}", inert_lines(&text).replace('\n', "\n  ")))?;
    }
    match open.expires_at {
        Some(at) => ui.line(format!("  until {at}")),
        None => Ok(()),
    }
}

/// Commands that answer it, ready to be copied.
fn ways(run: &RunId, open: &OpenInterrupt) -> Vec<String> {
    let call = open.data.pointer("/artifactData/executionId").and_then(Value::as_str);
    if let (true, Some(call)) = (is_call(open), call) {
        let (run, call) = (shell_word(run), shell_word(call));
        return vec![
            format!("countersign approval show {call}"),
            format!("countersign approval approve {call}"),
            format!("countersign run resume {run}"),
        ];
    }
    let submit = |value: Value| {
        let (run, node) = (shell_word(run), shell_word(&open.node));
        let value = shell_word(inert(&value.to_string()));
        format!("countersign run submit {run} --node {node} --value {value}")
    };
    answers(open).into_iter().map(submit).collect()
}

pub(super) fn is_call(open: &OpenInterrupt) -> bool {
    open.data.get("artifactType").and_then(Value::as_str) == Some("tool-call")
}

/// Examples of answers.
fn answers(open: &OpenInterrupt) -> Vec<Value> {
    let listed = |place: &str| {
        let list = open.data.pointer(place).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    match open.kind {
        InterruptKind::Approval | InterruptKind::LowConfidence => {
            listed("/actions").into_iter().map(|action| json!({"action": action})).collect()
        }
        InterruptKind::Clarification => {
            let ids = listed("/questions");
            let named = ids.iter().filter_map(|question| question.get("id")?.as_str());
            let answers: serde_json::Map<_, _> =
                named.map(|id| (id.to_owned(), json!("…"))).collect();
            vec![json!({"answers": answers})]
        }
        InterruptKind::ExternalEvent => vec![json!({
            "eventType": open.data.get("eventType"),
            "correlation": open.data.get("correlation"),
        })],
        InterruptKind::Custom
            if open.data.get("customKind") == Some(&json!("countersign.agentStage")) =>
        {
            let named = listed("/payload/outputs");
            let outputs: serde_json::Map<_, _> = named
                .iter()
                .filter_map(|name| Some((name.as_str()?.to_owned(), json!("…"))))
                .collect();
            vec![
                json!({"status": "success", "outputs": outputs}),
                json!({"status": "failure", "message": "…"}),
            ]
        }
        InterruptKind::Custom | InterruptKind::Exchange => vec![json!({"text": "…"})],
    }
}
