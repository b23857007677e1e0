//! Where each node of a run stands.

use std::sync::Arc;

use anstyle::Style;
use countersign_flow::RunEvent;
use countersign_flow::definition::Node;
use countersign_flow::run::{NodeState, OpenInterrupt, Phase};
use countersign_model::Timestamp;
use countersign_workflow::View;
use serde_json::Value;

use crate::runs::duration;
use crate::ui::{BAD, BOLD, DIM, GOOD, WARN, inert};

pub(super) struct Row {
    pub(super) id: String,
    pub(super) state: &'static str,
    pub(super) style: Style,
    pub(super) took: String,
    pub(super) says: String,
}

pub(super) fn rows(view: &View, events: &[Arc<RunEvent>], now: Timestamp) -> Vec<Row> {
    let known = view.definition.nodes.iter();
    known
        .filter_map(|node| Some(row(view, node, view.state.node(&node.id)?, events, now)))
        .collect()
}

fn row(view: &View, node: &Node, at: &NodeState, events: &[Arc<RunEvent>], now: Timestamp) -> Row {
    let (state, style) = word(at.phase);
    let took = took(at, events, view.state.ended_at.unwrap_or(now));
    let says = [says(view, node, at), again(at)].into_iter().flatten().collect::<Vec<_>>();
    Row { id: inert(&node.id), state, style, took, says: inert(&says.join(", ")) }
}

pub(super) fn word(phase: Phase) -> (&'static str, Style) {
    match phase {
        Phase::Idle => ("pending", DIM),
        Phase::Active => ("running", BOLD),
        Phase::Retrying => ("retrying", WARN),
        Phase::Suspended => ("waiting", WARN),
        Phase::Completed => ("completed", GOOD),
        Phase::Failed => ("failed", BAD),
        Phase::Skipped => ("skipped", DIM),
        Phase::Cancelled => ("cancelled", WARN),
    }
}

fn took(at: &NodeState, events: &[Arc<RunEvent>], now: Timestamp) -> String {
    let Some(begun) = at.started_at.filter(|_| at.phase != Phase::Skipped) else {
        return String::new();
    };
    let place = at.settled.and_then(|place| usize::try_from(place).ok());
    let settled = place.filter(|_| !at.is_busy()).and_then(|place| events.get(place));
    duration(settled.map_or(now, |event| event.at).millis_since(begun))
}

fn says(view: &View, node: &Node, at: &NodeState) -> Option<String> {
    match at.phase {
        Phase::Suspended => view.state.interrupt_of(&node.id).map(question),
        Phase::Failed | Phase::Retrying => {
            at.error.as_ref().map(|error| format!("{} [{}]", error.message, error.code))
        }
        Phase::Active => {
            let waits = |child: &&countersign_flow::run::Child| {
                child.node == node.id && child.end.is_none() && !child.abandoned
            };
            let child = view.state.children.iter().find(waits)?;
            child.run.as_ref().map(|run| format!("waits for {run}"))
        }
        Phase::Completed if !node.sensitive_outputs.iter().any(|name| name == "summary") => {
            at.outputs.get("summary").and_then(Value::as_str).map(str::to_owned)
        }
        _ => None,
    }
}

/// What is asked, in few words.
pub(super) fn question(open: &OpenInterrupt) -> String {
    let text = |name: &str| open.data.get(name).and_then(Value::as_str).filter(|t| !t.is_empty());
    let goal = open.data.pointer("/payload/goal").and_then(Value::as_str);
    let asked = open.data.pointer("/questions/0/question").and_then(Value::as_str);
    let event = text("eventType").map(|kind| format!("the event {kind}"));
    let said = text("title").or(goal).or(asked).or(text("prompt")).map(str::to_owned);
    said.or(event).unwrap_or_else(|| "an answer".to_owned())
}

fn again(at: &NodeState) -> Option<String> {
    match (at.rounds, at.attempt) {
        (0 | 1, 0) => None,
        (0 | 1, attempt) => Some(format!("attempt {}", attempt + 1)),
        (round, 0) => Some(format!("round {round}")),
        (round, attempt) => Some(format!("round {round}, attempt {}", attempt + 1)),
    }
}
