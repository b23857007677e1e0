//! The recorded events of a run, filtered.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_flow::event::wire;
use countersign_model::KeyScope;
use countersign_workflow::{Engine, Trouble};
use serde_json::{Value, json};

use crate::api::{Api, answer, mine};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;

/// Members of an event that may be asked for.
const FILTERS: [&str; 4] = ["type", "correlationId", "causationId", "nodeId"];

pub(super) fn routes() -> Vec<Route<Api>> {
    let path = "/v1/host/sample/test/runs/{runId}/events";
    let route = Route::new(Method::GET, path, "sampleRunEvents", read)
        .summary("The recorded events of a run, filtered; none for a run that is not there")
        .scope(KeyScope::RunsRead)
        .answer(200, "Events", json!({"type": "object", "required": ["events"]}))
        .refuses(&[400, 401, 403, 429]);
    let text = || json!({"type": "string"});
    vec![FILTERS.into_iter().fold(route, |route, name| route.parameter(name, text()))]
}

/// A run that is not there, or another tenant's, has no events.
async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, Refusal> {
    let events = api
        .ask(move |engine| match mine(engine, &caller.tenant, &id) {
            Ok(run) => Ok(shown(engine, &run)?),
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Ok(Vec::new()),
            Err(refusal) => Err(refusal),
        })
        .await?;
    let wanted = |event: &Value| {
        let is =
            |name: &&str| query.get(name).is_none_or(|text| event.get(*name) == Some(&json!(text)));
        FILTERS.iter().all(is)
    };
    let events: Vec<Value> = events.into_iter().filter(wanted).collect();
    Ok(answer(StatusCode::OK, &json!({"events": events})))
}

fn shown(engine: &Engine, run: &countersign_model::RunId) -> Result<Vec<Value>, Trouble> {
    let definition = engine.view(run)?.definition;
    let events = engine.events(run, 0)?;
    Ok(events.iter().map(|event| wire(&definition, run.as_str(), event)).collect())
}
