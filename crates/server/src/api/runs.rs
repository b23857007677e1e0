//! Runs: begun, read, stopped, forked, compared.

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use countersign_flow::fork::ForkRequest;
use countersign_flow::view::snapshot;
use countersign_flow::{Command, ForkMode, PausePolicy, Status};
use countersign_model::{KeyScope, RunId};
use countersign_workflow::{Begin, Begun, Engine, Trouble, View};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Api, answer, mine};
use crate::auth::Caller;
use crate::body::{Json, MaybeJson};
use crate::error::Refusal;
use crate::gate::Repeatable;
use crate::query::Query;
use crate::route::Route;
use crate::token::{Claims, Intent, Signer};

pub(super) fn routes() -> Vec<Route<Api>> {
    let begun = json!({"type": "object", "required": ["runId", "status", "eventsUrl"]});
    let status = json!({"type": "object", "required": ["runId", "status"]});
    vec![
        Route::new(Method::POST, "/v1/runs", "createRun", create)
            .summary("Begin a run")
            .scope(KeyScope::RunsCreate)
            .request(wanted())
            .answer(201, "The run", begun.clone())
            .refuses(&[400, 401, 403, 404, 409, 422, 429, 503]),
        Route::new(Method::POST, "/v1/runs:bulk-cancel", "bulkCancelRuns", bulk_cancel)
            .summary("Cancel several runs")
            .scope(KeyScope::RunsCancel)
            .request(json!({"type": "object", "required": ["runIds"], "properties": {
                "runIds": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST},
                "reason": {"type": "string", "maxLength": 512}}, "additionalProperties": false}))
            .answer(200, "What became of each", json!({"type": "object", "required": ["results"]}))
            .refuses(&[400, 401, 403, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}", "getRun", read)
            .summary("A run as it stands")
            .scope(KeyScope::RunsRead)
            .answer(200, "The snapshot", status.clone())
            .refuses(&[401, 403, 404, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}/cancel", "cancelRun", cancel)
            .summary("Cancel a run")
            .scope(KeyScope::RunsCancel)
            .request(reason())
            .answer(200, "Where it stands", status.clone())
            .refuses(&[400, 401, 403, 404, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:pause", "pauseRun", pause)
            .summary("Pause a run")
            .scope(KeyScope::RunsCancel)
            .request(json!({"type": "object", "properties": {"reason": {"type": "string"},
                "drainPolicy": {"enum": ["immediate", "drain-current-node"]}},
                "additionalProperties": false}))
            .answer(202, "It pauses", status.clone())
            .refuses(&[400, 401, 403, 404, 409, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:resume", "resumeRun", resume)
            .summary("Resume a paused run")
            .scope(KeyScope::RunsCancel)
            .request(reason())
            .answer(202, "It goes on", status)
            .refuses(&[400, 401, 403, 404, 409, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:fork", "forkRun", fork)
            .summary("Begin a run with the past of another")
            .scope(KeyScope::RunsCreate)
            .request(json!({"type": "object", "required": ["mode"], "properties": {
                "mode": {"enum": ["replay", "branch"]}, "fromSeq": {"type": "integer"},
                "runOptionsOverlay": {"type": "object"}}, "additionalProperties": false}))
            .answer(201, "The fork", begun)
            .refuses(&[400, 401, 403, 404, 422, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}:diff", "diffRuns", diff)
            .summary("What differs between two runs")
            .scope(KeyScope::RunsRead)
            .parameter("against", json!({"type": "string"}))
            .answer(200, "The differences", json!({"type": "object", "required": ["a", "b", "eventDiffs", "stateDiff"]}))
            .refuses(&[400, 401, 403, 404, 429]),
    ]
}

fn reason() -> Value {
    json!({"type": "object", "properties": {"reason": {"type": "string"}},
        "additionalProperties": false})
}

fn wanted() -> Value {
    json!({"type": "object", "required": ["workflowId"], "properties": {
        "workflowId": {"type": "string"}, "inputs": {"type": "object"},
        "tenantId": {"type": "string"}, "scopeId": {"type": "string"},
        "callbackUrl": {"type": "string"}, "configurable": {"type": "object"},
        "tags": {"type": "array", "items": {"type": "string"}}, "metadata": {"type": "object"}}})
}

/// Unknown members are let pass: newer clients send more than this host knows.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    workflow_id: String,
    #[serde(default)]
    inputs: Map<String, Value>,
    #[serde(default)]
    configurable: Map<String, Value>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    metadata: Map<String, Value>,
    tenant_id: Option<String>,
    scope_id: Option<String>,
    mode: Option<String>,
}

async fn create(
    State(api): State<Api>,
    caller: Caller,
    headers: HeaderMap,
    repeatable: Option<Extension<Repeatable>>,
    Json(wanted): Json<Wanted>,
) -> Result<Response, Refusal> {
    if wanted.mode.is_some() {
        return Err(Refusal::not_provided("only plain runs are offered here"));
    }
    if wanted.tenant_id.as_ref().is_some_and(|tenant| *tenant != caller.tenant) {
        return Err(Refusal::forbidden("this key belongs to another tenant"));
    }
    let dedup = headers.get("x-dedup").is_some_and(|value| value == "enforce");
    let begin = Begin {
        inputs: wanted.inputs,
        configurable: wanted.configurable,
        tags: wanted.tags,
        metadata: wanted.metadata,
        scope: dedup.then(|| wanted.scope_id.unwrap_or_default()),
        transport: Some("rest".to_owned()),
        ..Begin::new(wanted.workflow_id, caller.tenant, caller.principal)
    };
    let body = api.ask(move |engine| begin_run(engine, begin, repeatable)).await?;
    Ok(answer(StatusCode::CREATED, &body))
}

fn begin_run(
    engine: &Engine,
    begin: Begin,
    repeatable: Option<Extension<Repeatable>>,
) -> Result<Value, Refusal> {
    let begun = match repeatable {
        None => engine.create(begin)?,
        // The answer is recorded with the run, so that it is given again even if we die now.
        Some(Extension(Repeatable { key, body })) => {
            let told = |run: &RunId| {
                (
                    201,
                    started(&Begun { run: run.clone(), status: Status::Running })
                        .to_string()
                        .into_bytes(),
                )
            };
            engine.create_once(begin, super::shelf::named(&key), body, &told)?
        }
    };
    Ok(started(&Begun { status: Status::Running, ..begun }))
}

/// A run that was begun is told as running, however quickly it ended: the protocol has no other
/// word for it here.
fn started(begun: &Begun) -> Value {
    let (run, status) = (&begun.run, begun.status.as_str());
    json!({
        "runId": run,
        "status": status,
        "eventsUrl": format!("/v1/runs/{run}/events"),
        "statusUrl": format!("/v1/runs/{run}"),
    })
}

async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let signs = caller.may(KeyScope::ApprovalsRespond);
    let shown = {
        let (api, run) = (api.clone(), run.clone());
        crate::auth::blocking(move || {
            let view = api.engine().view(&run)?;
            let now = api.engine().host().clock().now();
            Ok(shown(&view, signs.then_some(&api.0.signer), now))
        })
        .await?
    };
    Ok(answer(StatusCode::OK, &shown))
}

/// The snapshot, with a token to answer what it waits for.
pub(super) fn shown(
    view: &View,
    signer: Option<&Signer>,
    now: countersign_model::Timestamp,
) -> Value {
    let mut shown = snapshot(&view.definition, &view.seed, &view.state, &view.children);
    let open = view.state.interrupts.first();
    if let (Some(signer), Some(open)) = (signer, open.filter(|open| !open.requires_bearer())) {
        let token = signer.sign(&Claims {
            expires_at: Signer::expiry(now, open.expires_at),
            intent: Intent::Resolve,
            interrupt_id: open.id.clone(),
            node_id: open.node.clone(),
            run_id: view.seed.run_id.clone(),
        });
        if let Some(interrupt) = shown.get_mut("interrupt").and_then(Value::as_object_mut) {
            interrupt.insert("callbackUrl".to_owned(), json!(format!("/v1/interrupts/{token}")));
            interrupt.insert("interruptToken".to_owned(), json!(token));
        }
    }
    shown
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    reason: Option<String>,
}

async fn cancel(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    MaybeJson(why): MaybeJson<Reason>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let by = caller.principal.to_string();
    let status = api.ask(move |engine| Ok(cancelled(engine, &run, why.reason, &by)?)).await?;
    Ok(answer(StatusCode::OK, &json!({"runId": id, "status": status.as_str()})))
}

fn cancelled(
    engine: &Engine,
    run: &RunId,
    reason: Option<String>,
    by: &str,
) -> Result<Status, Trouble> {
    let wanted = Command::Cancel { reason, by: Some(by.to_owned()), parent: None };
    engine.command(run, &wanted)?;
    Ok(engine.view(run)?.state.status())
}

const MOST: usize = 100;
const LONGEST: usize = 512;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Several {
    run_ids: Vec<String>,
    reason: Option<String>,
}

async fn bulk_cancel(
    State(api): State<Api>,
    caller: Caller,
    Json(several): Json<Several>,
) -> Result<Response, Refusal> {
    let count = several.run_ids.len();
    if !(1..=MOST).contains(&count) {
        return Err(Refusal::invalid(format!("1 to {MOST} runs can be cancelled at a time"))
            .detail("maxRunIds", json!(MOST)));
    }
    if several.reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST) {
        return Err(Refusal::invalid(format!("a reason has at most {LONGEST} characters")));
    }
    let results = api
        .ask(move |engine| {
            let one = |id: &String| one_of_many(engine, &caller, id, several.reason.clone());
            Ok(several.run_ids.iter().map(one).collect::<Vec<_>>())
        })
        .await?;
    Ok(answer(StatusCode::OK, &json!({"results": results})))
}

fn one_of_many(engine: &Engine, caller: &Caller, id: &str, reason: Option<String>) -> Value {
    let by = caller.principal.to_string();
    let told = |code: &str, message: String| json!({"runId": id, "ok": false, "error": {"code": code, "message": message}});
    let run = match mine(engine, &caller.tenant, id) {
        Ok(run) => run,
        Err(refusal) => return told("not_found", refusal.message),
    };
    let before = engine.view(&run).map(|view| view.state.status());
    match before {
        Ok(status @ (Status::Completed | Status::Failed)) => {
            told("run_terminal", format!("the run is {}", status.as_str()))
        }
        _ => match cancelled(engine, &run, reason, &by) {
            Ok(status) => json!({"runId": id, "ok": true, "status": status.as_str()}),
            Err(trouble) => told("internal_error", Refusal::from(trouble).message),
        },
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PauseAsk {
    reason: Option<String>,
    drain_policy: Option<PausePolicy>,
}

async fn pause(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    MaybeJson(asked): MaybeJson<PauseAsk>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let policy = asked.drain_policy.unwrap_or(PausePolicy::DrainCurrentNode);
    let wanted = Command::Pause { policy, reason: asked.reason };
    let at = api.ask(move |engine| paused(engine, &run, &wanted)).await?;
    Ok(answer(StatusCode::ACCEPTED, &json!({"runId": id, "status": "paused", "pausedAt": at})))
}

fn paused(engine: &Engine, run: &RunId, wanted: &Command) -> Result<String, Refusal> {
    engine.command(run, wanted)?;
    let state = engine.view(run)?.state;
    let at = match state.pause {
        countersign_flow::run::Pause::Paused(at) => at,
        _ => engine.host().clock().now(),
    };
    Ok(at.to_string())
}

async fn resume(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    MaybeJson(why): MaybeJson<Reason>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let wanted = Command::Resume { reason: why.reason };
    let now = api
        .ask(move |engine| {
            engine.command(&run, &wanted)?;
            Ok(engine.host().clock().now())
        })
        .await?;
    let body = json!({"runId": id, "status": "running", "resumedAt": now.to_string()});
    Ok(answer(StatusCode::ACCEPTED, &body))
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForkAsk {
    mode: String,
    from_seq: Option<i64>,
    #[serde(default)]
    run_options_overlay: Map<String, Value>,
}

async fn fork(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    Json(asked): Json<ForkAsk>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let mode = match asked.mode.as_str() {
        "replay" => ForkMode::Replay,
        "branch" => ForkMode::Branch,
        _ => return Err(Refusal::invalid("`mode` is `replay` or `branch`")),
    };
    let request = ForkRequest {
        run_id: String::new(),
        mode,
        from_sequence: asked.from_seq,
        overlay: asked.run_options_overlay,
    };
    let begun = api.ask(move |engine| Ok(engine.fork(&run, request)?)).await?;
    let mut body = started(&Begun { status: Status::Running, ..begun });
    let more = [
        ("sourceRunId", json!(id)),
        ("mode", json!(asked.mode)),
        ("fromSeq", json!(asked.from_seq.unwrap_or(0))),
    ];
    if let Some(members) = body.as_object_mut() {
        members.extend(more.map(|(name, value)| (name.to_owned(), value)));
    }
    Ok(answer(StatusCode::CREATED, &body))
}

async fn diff(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let query = Query::parse(query.as_deref().unwrap_or_default())?;
    let against = query.get("against").ok_or_else(|| Refusal::invalid("`against` is missing"))?;
    let run = api.run_of(&caller, &id).await?;
    let other = api.run_of(&caller, against).await?;
    let differs = api.ask(move |engine| Ok(engine.diff(&run, &other)?)).await?;
    Ok(answer(StatusCode::OK, &differs))
}
