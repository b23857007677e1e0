//! Answers to what runs wait for: by who shows a key, or by who holds a signed token.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use countersign_flow::{Actor, Command, Resolution, Target};
use countersign_model::{Answer as Said, KeyScope, RunId};
use countersign_workflow::{Engine, Trouble};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Api, answer};
use crate::auth::{Caller, bearer};
use crate::body::Json;
use crate::error::Refusal;
use crate::route::{Access, Route};
use crate::schema;
use crate::token::{Claims, Intent, Useless};

pub(super) fn routes() -> Vec<Route<Api>> {
    let request = schema::closed(&["resumeValue"], json!({"resumeValue": schema::of("Any")}));
    let taken = schema::of("InterruptTaken");
    vec![
        Route::new(
            Method::POST,
            "/v1/runs/{runId}/interrupts/{nodeId}",
            "resolveInterrupt",
            by_node,
        )
        .summary("Answer what a node waits for")
        .scope(KeyScope::ApprovalsRespond)
        .request(request.clone())
        .answer(200, "Taken in", taken.clone())
        .refuses(&[400, 401, 403, 404, 409, 410, 422, 429]),
        Route::new(Method::GET, "/v1/interrupts/{token}", "inspectInterrupt", inspect)
            .summary("What the holder of a token is asked")
            .access(Access::Token)
            .answer(200, "The question", schema::of("InterruptShown"))
            .refuses(&[400, 403, 404, 410, 429]),
        Route::new(Method::POST, "/v1/interrupts/{token}", "resolveInterruptByToken", by_token)
            .summary("Answer as the holder of a token")
            .access(Access::Token)
            .request(request)
            .answer(200, "Taken in", taken)
            .refuses(&[400, 403, 404, 409, 410, 422, 429]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Answered {
    resume_value: Value,
}

async fn by_node(
    State(api): State<Api>,
    caller: Caller,
    Path((id, node)): Path<(String, String)>,
    headers: HeaderMap,
    Json(given): Json<Answered>,
) -> Result<Response, Refusal> {
    let run = api.run_of(&caller, &id).await?;
    let who = caller.principal.to_string();
    let actor = Actor {
        roles: api.0.roles.of(&who),
        machine: !caller.principal.is_human(),
        principal: Some(who),
        scopes: caller.scopes.iter().map(ToString::to_string).collect(),
    };
    let token = bearer(&headers)?;
    let status = api
        .ask(move |engine| {
            // A call that waits for people is answered by signing what it shows, with a human's key.
            if let Some(execution) = engine.waiting_call(&run, &node)? {
                let said = said(&given.resume_value)?;
                engine.host().answer(execution, &token, said, None)?;
            }
            let target = Target::Node(node);
            Ok(resolved(engine, &run, Resolution { target, value: given.resume_value, actor })?)
        })
        .await?;
    Ok(answer(StatusCode::OK, &status))
}

fn said(value: &Value) -> Result<Said, Refusal> {
    match value.get("action").and_then(Value::as_str) {
        Some("accept") => Ok(Said::Yes),
        Some("reject") => Ok(Said::No),
        _ => Err(Refusal::invalid("`action` is `accept` or `reject`")),
    }
}

fn resolved(engine: &Engine, run: &RunId, resolution: Resolution) -> Result<Value, Trouble> {
    let node = match &resolution.target {
        Target::Node(node) => node.clone(),
        Target::Interrupt(id) => {
            let view = engine.view(run)?;
            let open = view.state.interrupts.iter().find(|open| open.id == *id);
            open.map_or_else(String::new, |open| open.node.clone())
        }
    };
    engine.command(run, &Command::Resolve(resolution))?;
    let status = engine.view(run)?.state.status();
    Ok(json!({"runId": run, "nodeId": node, "status": status.as_str()}))
}

impl Api {
    fn claims(&self, token: &str, wanted: Intent) -> Result<Claims, Refusal> {
        let now = self.engine().host().clock().now();
        self.0.signer.check(token, now, wanted).map_err(|useless| match useless {
            // What was never made here looks like what is gone.
            Useless::Malformed | Useless::Forged => Refusal::named_not_found("interrupt_not_found"),
            Useless::Expired => {
                Refusal::new(StatusCode::GONE, "interrupt_expired", "this token has expired")
            }
            Useless::WrongIntent => Refusal::forbidden("this token is only good for looking"),
        })
    }
}

async fn inspect(State(api): State<Api>, Path(token): Path<String>) -> Result<Response, Refusal> {
    let claims = api.claims(&token, Intent::Inspect)?;
    let shown = api
        .ask(move |engine| {
            let run: RunId = claims.run_id.parse()?;
            let view = engine.view(&run)?;
            let open = view.state.interrupts.iter().find(|open| open.id == claims.interrupt_id);
            let open = open.ok_or_else(gone)?;
            refuse_bearerless(open.requires_bearer())?;
            Ok(json!({"runId": run, "nodeId": open.node, "interruptId": open.id,
                "kind": open.kind, "key": open.key, "data": open.data}))
        })
        .await?;
    Ok(answer(StatusCode::OK, &shown))
}

async fn by_token(
    State(api): State<Api>,
    Path(token): Path<String>,
    Json(given): Json<Answered>,
) -> Result<Response, Refusal> {
    let claims = api.claims(&token, Intent::Resolve)?;
    let status = api
        .ask(move |engine| {
            let run: RunId = claims.run_id.parse()?;
            let view = engine.view(&run)?;
            let open = view.state.interrupts.iter().find(|open| open.id == claims.interrupt_id);
            let open = open.ok_or_else(gone)?;
            // No token answers for a human who has to sign.
            let signs = engine.waiting_call(&run, &open.node)?.is_some();
            refuse_bearerless(open.requires_bearer() || signs)?;
            let target = Target::Interrupt(claims.interrupt_id.clone());
            let actor = Actor::default();
            Ok(resolved(engine, &run, Resolution { target, value: given.resume_value, actor })?)
        })
        .await?;
    Ok(answer(StatusCode::OK, &status))
}

fn gone() -> Refusal {
    Refusal::new(StatusCode::GONE, "interrupt_gone", "nobody waits for this answer any more")
}

fn refuse_bearerless(bearer_needed: bool) -> Result<(), Refusal> {
    match bearer_needed {
        false => Ok(()),
        true => Err(Refusal::forbidden("this has to be answered with a key, not with a token")),
    }
}
