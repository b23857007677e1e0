//! Runs: begun, read, stopped, forked, compared.

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use countersign_flow::fork::ForkRequest;
use countersign_flow::run::OpenInterrupt;
use countersign_flow::view::snapshot;
use countersign_flow::{Command, ForkMode, PausePolicy, Status};
use countersign_model::{KeyScope, RunId};
use countersign_workflow::{Begin, Engine, Forker, Trouble, View};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Api, answer, mine};
use crate::auth::Caller;
use crate::body::{Json, MaybeJson, whole};
use crate::error::Refusal;
use crate::gate::Repeatable;
use crate::query::Query;
use crate::route::Route;
use crate::schema;
use crate::token::{Claims, Intent, Signer};
use crate::trace::Trace;

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::POST, "/v1/runs", "createRun", create)
            .summary("Begin a run")
            .scope(KeyScope::RunsCreate)
            .request(wanted())
            .header("X-Dedup", json!({"type": "string"}))
            .answer(201, "The run", schema::of("RunBegun"))
            .refuses(&[400, 401, 403, 404, 409, 422, 429, 501, 503]),
        Route::new(Method::POST, "/v1/runs:bulk-cancel", "bulkCancelRuns", bulk_cancel)
            .summary("Cancel several runs")
            .scope(KeyScope::RunsCancel)
            .request(several())
            .answer(200, "What became of each", schema::of("RunsCancelled"))
            .refuses(&[400, 401, 403, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}", "getRun", read)
            .summary("A run as it stands")
            .scope(KeyScope::RunsRead)
            .answer(200, "The snapshot", schema::of("RunSnapshot"))
            .refuses(&[401, 403, 404, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}/cancel", "cancelRun", cancel)
            .summary("Cancel a run")
            .scope(KeyScope::RunsCancel)
            .request(reason())
            .answer(200, "Where it stands", schema::of("RunStands"))
            .refuses(&[400, 401, 403, 404, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:pause", "pauseRun", pause)
            .summary("Pause a run")
            .scope(KeyScope::RunsCancel)
            .request(pausing())
            .answer(202, "It pauses", schema::of("RunPaused"))
            .refuses(&[400, 401, 403, 404, 409, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:resume", "resumeRun", resume)
            .summary("Resume a paused run")
            .scope(KeyScope::RunsCancel)
            .request(reason())
            .answer(202, "It goes on", schema::of("RunResumed"))
            .refuses(&[400, 401, 403, 404, 409, 429]),
        Route::new(Method::POST, "/v1/runs/{runId}:fork", "forkRun", fork)
            .summary("Begin a run with the past of another")
            .scope(KeyScope::RunsCreate)
            .request(forking())
            .answer(201, "The fork", schema::of("RunForked"))
            .refuses(&[400, 401, 403, 404, 422, 429]),
        Route::new(Method::GET, "/v1/runs/{runId}:diff", "diffRuns", diff)
            .summary("What differs between two runs")
            .scope(KeyScope::RunsRead)
            .required_parameter("against", schema::segment("runId"))
            .answer(200, "The differences", schema::of("RunDiff"))
            .refuses(&[400, 401, 403, 404, 429]),
    ]
}

fn reason() -> Value {
    schema::closed(&[], json!({"reason": schema::maybe_text()}))
}

fn several() -> Value {
    let ids =
        json!({"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": MOST});
    let reason = json!({"type": ["string", "null"], "maxLength": LONGEST});
    schema::closed(&["runIds"], json!({"runIds": ids, "reason": reason}))
}

fn pausing() -> Value {
    let policy = json!({"enum": ["immediate", "drain-current-node", null]});
    schema::closed(&[], json!({"reason": schema::maybe_text(), "drainPolicy": policy}))
}

/// A replay takes no options, and a branch has to say where.
fn forking() -> Value {
    let from = json!({"type": "integer", "minimum": 0, "maximum": schema::MAX_WHOLE});
    let mut perhaps = from.clone();
    if let Some(kind) = perhaps.get_mut("type") {
        *kind = json!(["integer", "null"]);
    }
    let anything = schema::of("Anything");
    let overlay = json!({"inputs": anything, "metadata": anything,
        "configurable": schema::of("Options"), "tags": schema::of("Tags")});
    let replay = json!({"mode": {"const": "replay"}, "fromSeq": perhaps,
        "runOptionsOverlay": schema::closed(&[], json!({}))});
    let branch = json!({"mode": {"const": "branch"}, "fromSeq": from,
        "runOptionsOverlay": schema::closed(&[], overlay)});
    json!({"type": "object", "required": ["mode"], "oneOf": [
        schema::closed(&["mode"], replay),
        schema::closed(&["mode", "fromSeq"], branch),
    ]})
}

fn wanted() -> Value {
    let anything = schema::of("Anything");
    json!({
        "type": "object",
        "required": ["workflowId"],
        "properties": {
            "workflowId": {"type": "string"},
            "inputs": anything,
            "configurable": schema::of("Options"),
            "tags": schema::of("Tags"),
            "metadata": anything,
            "tenantId": schema::maybe_text(),
            "scopeId": schema::maybe_text(),
            "callbackUrl": schema::beside::maybe_public_url(),
            "mode": {"type": "null", "description": "Only plain runs are offered."},
        },
        "additionalProperties": schema::of("Any"),
    })
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
    callback_url: Option<String>,
}

async fn create(
    State(api): State<Api>,
    caller: Caller,
    trace: Trace,
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
    api.check_callback(wanted.callback_url.as_deref())?;
    let dedup = headers.get("x-dedup").is_some_and(|value| value == "enforce");
    let begin = Begin {
        inputs: wanted.inputs,
        configurable: wanted.configurable,
        tags: wanted.tags,
        metadata: wanted.metadata,
        scope: dedup.then(|| wanted.scope_id.unwrap_or_default()),
        transport: Some("rest".to_owned()),
        trace: Some(trace.handed_on()),
        callback_url: wanted.callback_url,
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
            let told = |run: &str| (201, started(run).to_string().into_bytes());
            engine.create_once(begin, super::shelf::named(&key), body, &told)?
        }
    };
    Ok(started(begun.run.as_str()))
}

/// A run that was begun is told as running, however quickly it ended: the protocol has no other
/// word for it here.
fn started(run: &str) -> Value {
    json!({
        "runId": run,
        "status": Status::Running.as_str(),
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
    let view = match api.engine().view_at_hand(&run) {
        Some(view) => view,
        None => api.ask(move |engine| Ok(engine.view(&run)?)).await?,
    };
    let signs = caller.may(KeyScope::ApprovalsRespond) && may_answer(&caller, &view);
    let now = api.engine().host().clock().now();
    Ok(answer(StatusCode::OK, &shown(&view, signs.then_some(&api.0.signer), now)))
}

/// A token answers for whoever holds it, so no machine is given one for what a human decides.
fn may_answer(caller: &Caller, view: &View) -> bool {
    let human = view.state.interrupts.first().is_some_and(OpenInterrupt::needs_human);
    !human || caller.principal.is_human()
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
    #[serde(default, deserialize_with = "whole")]
    from_seq: Option<i64>,
    #[serde(default)]
    run_options_overlay: Map<String, Value>,
}

async fn fork(
    State(api): State<Api>,
    caller: Caller,
    trace: Trace,
    Path(id): Path<String>,
    repeatable: Option<Extension<Repeatable>>,
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
    // A client that is in no trace stays in the one of the source.
    let trace = trace.parent.is_some().then(|| trace.handed_on());
    let more =
        json!({"sourceRunId": id, "mode": asked.mode, "fromSeq": asked.from_seq.unwrap_or(0)});
    let told = move |run: &str| {
        let mut told = started(run);
        let both = told.as_object_mut().zip(more.as_object());
        both.into_iter().for_each(|(told, more)| told.extend(more.clone()));
        told
    };
    let body = api
        .ask(move |engine| {
            let kept = |run: &str| (201_u16, told(run).to_string().into_bytes());
            let answering = repeatable
                .map(|Extension(Repeatable { key, body })| (super::shelf::named(&key), body));
            let by = Forker {
                principal: caller.principal,
                trace,
                answering: answering.map(|(key, body)| (key, body, &kept as &dyn Fn(&str) -> _)),
            };
            Ok(told(engine.fork(&run, request, by)?.run.as_str()))
        })
        .await?;
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
