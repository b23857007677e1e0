//! Everything about one run for whoever looks for a mistake, without what is nobody's business.

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use countersign_flow::event::wire;
use countersign_model::KeyScope;
use countersign_workflow::{Engine, View};
use serde_json::{Value, json};

use super::{Api, answer, runs};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;

/// No bundle is larger.
const MOST_BYTES: usize = 8_000_000;

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/runs/{runId}/debug-bundle", "getDebugBundle", read)
            .summary("A run with its events, redacted")
            .scope(KeyScope::RunsRead)
            .parameter("maxEvents", json!({"type": "integer", "minimum": 0}))
            .answer(
                200,
                "The bundle",
                json!({"type": "object", "required": ["bundleVersion", "run", "events"]}),
            )
            .refuses(&[400, 401, 403, 404, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}/ancestry", "getRunAncestry", ancestry)
            .summary("Where a run comes from")
            .scope(KeyScope::RunsRead)
            .answer(
                200,
                "Its parent",
                json!({"type": "object", "required": ["runId", "hostId", "parent"]}),
            )
            .refuses(&[401, 403, 404, 429]),
    ]
}

async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let query = Query::parse(query.as_deref().unwrap_or_default())?;
    let most = query.number("maxEvents", 0, u64::MAX)?;
    let bundle = api
        .ask(move |engine| {
            let view = engine.view(&run)?;
            let events = engine.events(&run, 0)?;
            let shown = events.iter().map(|event| wire(&view.definition, run.as_str(), event));
            Ok(bundled(engine, &view, shown.collect(), most))
        })
        .await?;
    let mut response = answer(StatusCode::OK, &bundle);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A prefix of the events, as long as there is room.
fn bundled(engine: &Engine, view: &View, events: Vec<Value>, most: Option<u64>) -> Value {
    let now = engine.host().clock().now();
    let mut run = runs::shown(view, None, now);
    if let Some(run) = run.as_object_mut() {
        ["inputs", "configurable", "metadata"].iter().for_each(|name| drop(run.remove(*name)));
    }
    let total = events.len();
    let wanted = most.map_or(total, |most| usize::try_from(most).unwrap_or(total).min(total));
    let mut room = MOST_BYTES.saturating_sub(run.to_string().len() + 4096);
    let fits = |event: &Value| {
        let size = event.to_string().len() + 1;
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let kept: Vec<Value> = events.into_iter().take(wanted).take_while(fits).collect();
    let reason = match kept.len() {
        n if n == total => None,
        n if n == wanted => Some("maxEvents"),
        _ => Some("size"),
    };
    let mut bundle = json!({
        "bundleVersion": "1.0",
        "generatedAt": now.to_string(),
        "host": {"name": "countersign", "version": env!("CARGO_PKG_VERSION"), "vendor": "countersign"},
        "run": run,
        "metrics": {"eventCount": kept.len(), "nodeCount": view.definition.nodes.len()},
        "events": kept,
        "redactionApplied": true,
        "redactionMode": "mask",
        "truncated": reason.is_some(),
    });
    if let (Some(reason), Some(members)) = (reason, bundle.as_object_mut()) {
        members.insert("truncatedReason".to_owned(), json!(reason));
    }
    bundle
}

async fn ancestry(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let found = api
        .ask(move |engine| {
            let view = engine.view(&run)?;
            let host = engine.host().home().journal_key.verifier().name().to_owned();
            let parent = view.seed.parent.as_ref().map(|parent| {
                json!({"runId": parent.run_id, "hostId": host, "cause": "core.subWorkflow"})
            });
            Ok(json!({"runId": run, "hostId": host, "parent": parent}))
        })
        .await?;
    Ok(answer(StatusCode::OK, &found))
}
