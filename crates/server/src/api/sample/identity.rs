//! Whose a run is, and who may read it.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_journal::RunFilter;
use countersign_model::{KeyScope, RunId};
use countersign_workflow::{Begin, Engine};
use serde_json::{Map, Value, json};

use super::workflow;
use crate::api::{Api, answer, mine, runs};
use crate::auth::Caller;
use crate::body::MaybeJson;
use crate::error::Refusal;
use crate::route::Route;

const OWNED: &str = "countersign-sample-owned";

/// A tenant that is not the caller's.
const NEIGHBOUR: &str = "countersign sample neighbour";

pub(super) fn workflows() -> Vec<Value> {
    vec![workflow(OWNED, "core.noop", &json!({}))]
}

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/host/sample/identity/owned-run", "sampleOwnedRun", owned)
            .summary("A run of the caller's tenant, with its owner")
            .scope(KeyScope::RunsRead)
            .answer(200, "The snapshot", json!({"type": "object", "required": ["runId"]}))
            .refuses(&[401, 403, 429]),
        Route::new(
            Method::POST,
            "/v1/host/sample/identity/cross-workspace-read",
            "sampleCrossWorkspaceRead",
            across,
        )
        .summary("Read a run of another tenant; refused")
        .scope(KeyScope::RunsRead)
        .answer(200, "What must not be seen", json!({"type": "object"}))
        .refuses(&[400, 401, 403, 429]),
    ]
}

fn begun(engine: &Engine, caller: &Caller, tenant: &str) -> Result<RunId, Refusal> {
    caller.needs(KeyScope::RunsCreate)?;
    let begin = Begin::new(OWNED, tenant, caller.principal.clone());
    Ok(engine.create(begin)?.run)
}

fn snapshot(engine: &Engine, run: &RunId) -> Result<Value, Refusal> {
    let now = engine.host().clock().now();
    Ok(runs::shown(&engine.view(run)?, None, now))
}

/// The newest run of the tenant; a first one is begun.
async fn owned(State(api): State<Api>, caller: Caller) -> Result<Response, Refusal> {
    let shown = api
        .ask(move |engine| {
            let tenant = Some(caller.tenant.clone());
            let newest = RunFilter { tenant, limit: Some(1), ..RunFilter::default() };
            let run = match engine.list(&newest)?.pop() {
                Some(found) => found.run,
                None => begun(engine, &caller, &caller.tenant)?,
            };
            snapshot(engine, &run)
        })
        .await?;
    Ok(answer(StatusCode::OK, &shown))
}

/// A run of another tenant is begun and then asked for as any client would ask. What a client is
/// told of a run that is not there is in the details: this route is there, so it says why.
async fn across(
    State(api): State<Api>,
    caller: Caller,
    MaybeJson(_): MaybeJson<Map<String, Value>>,
) -> Result<Response, Refusal> {
    let shown = api
        .ask(move |engine| {
            let run = begun(engine, &caller, NEIGHBOUR)?;
            let told = match mine(engine, &caller.tenant, run.as_str()) {
                Ok(run) => return snapshot(engine, &run),
                Err(told) if told.status == StatusCode::NOT_FOUND => told,
                Err(other) => return Err(other),
            };
            let message = "the run belongs to another tenant";
            Err(Refusal::new(StatusCode::FORBIDDEN, "run_forbidden", message)
                .detail("clientStatus", json!(told.status.as_u16()))
                .detail("clientError", json!(told.code)))
        })
        .await?;
    Ok(answer(StatusCode::OK, &shown))
}
