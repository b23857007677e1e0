//! Runs that a test writes by hand, event by event.

use std::sync::{Arc, Mutex};

use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use countersign_model::Failure;
use countersign_server::Refusal;
use countersign_server::query::Query;
use countersign_server::stream::{Event, Page, PollAsk, Source, StreamAsk, list, modes, sse};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::{Desk, axum_json};

#[derive(Debug, Clone)]
pub struct Runs(pub Arc<Run>);

#[derive(Debug)]
pub struct Run {
    events: Mutex<Vec<Event>>,
    changed: watch::Sender<u64>,
    pub reads: Mutex<usize>,
}

impl Default for Runs {
    fn default() -> Self {
        let changed = watch::Sender::new(0);
        Runs(Arc::new(Run { events: Mutex::default(), changed, reads: Mutex::default() }))
    }
}

impl Runs {
    pub fn append(&self, kind: &str, payload: &Value) {
        let mut events = self.0.events.lock().unwrap();
        let sequence = events.len() as u64;
        let json = json!({
            "eventId": format!("e-{sequence}"), "runId": "run-1", "type": kind, "payload": payload,
            "timestamp": "2026-11-15T12:00:00Z", "sequence": sequence,
        });
        events.push(Event::new(json).unwrap());
        self.0.changed.send_replace(sequence + 1);
    }
}

impl Source for Run {
    fn read(&self, after: Option<u64>, most: usize) -> Result<Page, Failure> {
        *self.reads.lock().unwrap() += 1;
        let events = self.events.lock().unwrap();
        let from = after.map_or(0, |after| usize::try_from(after).unwrap().saturating_add(1));
        let page: Vec<Event> = events.iter().skip(from).take(most).cloned().collect();
        let ended = events.last().is_some_and(|event| modes::is_terminal(&event.kind));
        Ok(Page { complete: ended && from + page.len() >= events.len(), events: page })
    }

    fn snapshot(&self, after: u64) -> Result<Value, Failure> {
        Ok(json!({"runId": "run-1", "workflowId": "w", "status": "running", "seen": after}))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}

pub async fn events(
    State(desk): State<Desk>,
    Path(id): Path<String>,
    query: Query,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if id != "run-1" {
        return Err(Refusal::named_not_found("run_not_found"));
    }
    let ask = StreamAsk::parse(&query, &headers)?;
    let source: Arc<dyn Source> = desk.runs.0.clone();
    match ask.as_list {
        true => Ok(axum_json(&list(source, &ask).await?)),
        false => Ok(sse(source, &ask, desk.closing.clone(), Box::new(|| true))),
    }
}

pub async fn poll(State(desk): State<Desk>, query: Query) -> Result<Response, Refusal> {
    let ask = PollAsk::parse(&query)?;
    let source: Arc<dyn Source> = desk.runs.0.clone();
    Ok(axum_json(&countersign_server::stream::poll(source, ask, &desk.closing).await?))
}
