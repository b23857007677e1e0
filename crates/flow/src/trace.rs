//! Where a run stands in a distributed trace, and the spans that its log tells. Spans are named
//! after what they stand for, so that they are the same whoever asks and however often.

use std::collections::BTreeMap;

use countersign_model::{Digest, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::event::{Event, RunEvent};
use crate::seed::Seed;

/// What began a run, as W3C trace context has it. It is kept with the beginning of a run and not in
/// its events: two runs of the same do not differ by who asked for them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// `00-<trace>-<span>-<flags>`, of whoever began it.
    pub traceparent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
}

impl Trace {
    fn part(&self, place: usize) -> Option<&str> {
        self.traceparent.split('-').nth(place)
    }

    pub fn id(&self) -> Option<&str> {
        self.part(1)
    }

    /// The span of whoever began the run.
    pub fn span(&self) -> Option<&str> {
        self.part(2)
    }

    /// The same trace, for what a span begins.
    #[must_use]
    pub fn under(&self, span: &str) -> Trace {
        let (id, flags) = (self.id().unwrap_or_default(), self.part(3).unwrap_or("01"));
        let traceparent = format!("00-{id}-{span}-{flags}");
        Trace { traceparent, tracestate: self.tracestate.clone() }
    }
}

pub fn run_span(run: &str) -> String {
    named(&format!("run\n{run}"))
}

/// A node that is begun again, in a loop or after a failure, has a span for each time.
pub fn node_span(run: &str, node: &str, round: u64, attempt: u64) -> String {
    named(&format!("node\n{run}\n{node}\n{round}\n{attempt}"))
}

fn named(text: &str) -> String {
    let digest = Digest::of(text.as_bytes());
    digest.as_bytes().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// A span that has begun.
struct Span {
    name: String,
    id: String,
    parent: Option<String>,
    from: Timestamp,
    to: Option<Timestamp>,
    attributes: Value,
}

/// The spans of a run and its nodes, in the order in which they began.
pub fn spans<'e>(seed: &Seed, events: impl IntoIterator<Item = &'e RunEvent>) -> Vec<Value> {
    let mut all = vec![whole(seed, seed.created_at)];
    let mut rounds: BTreeMap<&str, u64> = BTreeMap::new();
    for event in events {
        match &event.event {
            Event::NodeStarted { node_id, type_id, attempt } => {
                let round = rounds.entry(node_id).or_default();
                *round = round.saturating_add(u64::from(*attempt == 0));
                let id = node_span(&seed.run_id, node_id, *round, *attempt);
                all.push(node(seed, (node_id, type_id, *attempt), id, event.at));
            }
            Event::NodeCompleted { node_id, .. }
            | Event::NodeFailed { node_id, .. }
            | Event::NodeRetried { node_id, .. }
            | Event::NodeCancelled { node_id, .. } => end(&mut all, node_id, event.at),
            over if over.is_terminal() => {
                all.iter_mut().for_each(|span| span.to = span.to.or(Some(event.at)));
            }
            _ => {}
        }
    }
    let trace = seed.trace.as_ref().and_then(Trace::id);
    all.into_iter().map(|span| span.shown(trace)).collect()
}

fn whole(seed: &Seed, from: Timestamp) -> Span {
    let mut attributes = json!({
        "openwop.run_id": seed.run_id,
        "openwop.workflow_id": seed.workflow_id,
    });
    if let (Some(parent), Some(told)) = (&seed.parent, attributes.as_object_mut()) {
        told.insert("openwop.parent.run_id".to_owned(), json!(parent.run_id));
        told.insert("openwop.parent.node_id".to_owned(), json!(parent.node_id));
    }
    let parent = seed.trace.as_ref().and_then(Trace::span).map(str::to_owned);
    let (name, id) = ("openwop.run".to_owned(), run_span(&seed.run_id));
    Span { name, id, parent, from, to: None, attributes }
}

fn node(
    seed: &Seed,
    (node, kind, attempt): (&str, &str, u64),
    id: String,
    from: Timestamp,
) -> Span {
    let attributes = json!({
        "openwop.run_id": seed.run_id,
        "openwop.workflow_id": seed.workflow_id,
        "openwop.node_id": node,
        "openwop.node_type": kind,
        "openwop.node_attempt": attempt,
    });
    let parent = Some(run_span(&seed.run_id));
    Span { name: format!("openwop.node.{kind}"), id, parent, from, to: None, attributes }
}

fn end(all: &mut [Span], node: &str, at: Timestamp) {
    let is_its = |span: &&mut Span| span.attributes.get("openwop.node_id") == Some(&json!(node));
    if let Some(span) = all.iter_mut().rev().find(is_its) {
        span.to = span.to.or(Some(at));
    }
}

impl Span {
    fn shown(self, trace: Option<&str>) -> Value {
        let mut shown = Map::new();
        let ended = self.to.map(|at| at.to_string());
        let members = [
            ("name", json!(self.name)),
            ("spanId", json!(self.id)),
            ("parentSpanId", json!(self.parent)),
            ("startedAt", json!(self.from.to_string())),
            ("endedAt", json!(ended)),
            ("attributes", self.attributes),
        ];
        shown.extend(members.map(|(name, value)| (name.to_owned(), value)));
        shown.extend(trace.map(|id| ("traceId".to_owned(), json!(id))));
        Value::Object(shown)
    }
}
