//! Everything about one run for whoever looks for a mistake, without what is nobody's business.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use countersign_flow::RunEvent;
use countersign_flow::event::wire;
use countersign_flow::seed::Parent;
use countersign_flow::trace::spans;
use countersign_model::KeyScope;
use countersign_workflow::{Engine, View};
use serde_json::{Value, json};

use super::{Api, answer, runs};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;
use crate::schema::{self, MAX_WHOLE};

/// No bundle is larger.
const MOST_BYTES: usize = 8_000_000;

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/runs/{runId}/debug-bundle", "getDebugBundle", read)
            .summary("A run with its events, redacted")
            .scope(KeyScope::RunsRead)
            .parameter("maxEvents", json!({"type": "integer", "minimum": 0, "maximum": MAX_WHOLE}))
            .answer(200, "The bundle", schema::of("DebugBundle"))
            .refuses(&[400, 401, 403, 404, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}/ancestry", "getRunAncestry", ancestry)
            .summary("Where a run comes from")
            .scope(KeyScope::RunsRead)
            .answer(200, "Its parent", schema::of("RunAncestry"))
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
    let most = query.number("maxEvents", 0, MAX_WHOLE)?;
    let bundle = api
        .ask(move |engine| {
            let view = engine.view(&run)?;
            let events = engine.events(&run, 0)?;
            Ok(bundled(engine, &view, &events, most))
        })
        .await?;
    let mut response = answer(StatusCode::OK, &bundle);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A prefix of the events, as long as there is room, and their spans.
fn bundled(engine: &Engine, view: &View, events: &[Arc<RunEvent>], most: Option<u64>) -> Value {
    let now = engine.host().clock().now();
    let mut run = runs::shown(view, None, now);
    if let Some(run) = run.as_object_mut() {
        ["inputs", "configurable", "metadata"].iter().for_each(|name| drop(run.remove(*name)));
    }
    let total = events.len();
    let wanted = most.map_or(total, |most| usize::try_from(most).unwrap_or(total).min(total));
    let mut room = MOST_BYTES.saturating_sub(run.to_string().len() + 4096);
    let mut fits = |event: &Value| {
        let size = event.to_string().len() + 1;
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    };
    let shown = events.iter().map(|event| wire(&view.definition, &view.seed.run_id, event));
    let kept: Vec<Value> = shown.take(wanted).take_while(&mut fits).collect();
    let all = spans(&view.seed, events.iter().take(kept.len()).map(AsRef::as_ref));
    let count = all.len();
    let spans: Vec<Value> = all.into_iter().take_while(&mut fits).collect();
    let reason = match kept.len() {
        _ if spans.len() < count => Some("size"),
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
        "spans": spans,
        "redactionApplied": true,
        "redactionMode": "mask",
        "truncated": reason.is_some(),
    });
    if let (Some(reason), Some(members)) = (reason, bundle.as_object_mut()) {
        members.insert("truncatedReason".to_owned(), json!(reason));
    }
    bundle
}

/// The type of the node that began a run.
fn cause(engine: &Engine, parent: &Parent) -> String {
    let above = parent.run_id.parse().ok().and_then(|run| engine.view(&run).ok());
    let node = above.as_ref().and_then(|above| above.definition.node(&parent.node_id));
    node.map_or_else(|| "core.subWorkflow".to_owned(), |node| node.type_id.clone())
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
                json!({"runId": parent.run_id, "hostId": host, "cause": cause(engine, parent)})
            });
            Ok(json!({"runId": run, "hostId": host, "parent": parent}))
        })
        .await?;
    Ok(answer(StatusCode::OK, &found))
}
