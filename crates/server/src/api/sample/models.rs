//! What the mock of a model is to say, for runs of the caller's tenant.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_flow::ModelReply;
use countersign_model::KeyScope;
use countersign_workflow::Mock;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::{Api, answer};
use crate::auth::Caller;
use crate::body::{Json, MaybeJson};
use crate::error::Refusal;
use crate::query::Query;
use crate::route::Route;

pub(super) fn routes() -> Vec<Route<Api>> {
    let object = || json!({"type": "object"});
    vec![
        Route::new(
            Method::POST,
            "/v1/host/sample/test/mock-ai/program",
            "sampleProgramModel",
            program,
        )
        .summary("What the mock of a model says next to the node of this name")
        .scope(KeyScope::RunsCreate)
        .request(json!({"type": "object", "required": ["nodeId", "program"], "properties": {
            "nodeId": {"type": "string", "minLength": 1},
            "program": {"type": "array", "items": {"type": "object"}}}}))
        .answer(200, "Taken in", object())
        .refuses(&[400, 401, 403, 429]),
        Route::new(
            Method::GET,
            "/v1/host/sample/test/mock-ai/last-dispatch-budget",
            "sampleModelBudget",
            budget,
        )
        .summary("How many tokens the last request of a node left for the reply")
        .scope(KeyScope::RunsRead)
        .parameter("nodeId", json!({"type": "string"}))
        .answer(200, "The budget", json!({"type": "object", "required": ["maxTokens"]}))
        .refuses(&[400, 401, 403, 429]),
        Route::new(Method::POST, "/v1/host/sample/test/reset", "sampleReset", reset)
            .summary("Forget every program of the tenant")
            .scope(KeyScope::RunsCreate)
            .answer(200, "Forgotten", object())
            .refuses(&[400, 401, 403, 429]),
    ]
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Programmed {
    node_id: String,
    program: Vec<Said>,
}

/// One reply, in either of the two spellings that suites use.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Said {
    mode: Option<String>,
    envelope: Option<Value>,
    content: Option<String>,
    stop_reason: Option<String>,
    refusal_text: Option<String>,
}

impl Said {
    fn reply(self) -> Result<ModelReply, Refusal> {
        let envelope = self.envelope.map(|envelope| envelope.to_string());
        let refused = match self.mode.as_deref() {
            None | Some("envelope") => {
                self.refusal_text.is_some() || self.stop_reason.as_deref() == Some("safety")
            }
            Some("refusal") => true,
            Some(_) => return Err(Refusal::invalid("`mode` is `envelope` or `refusal`")),
        };
        let text = self.content.or(envelope).unwrap_or_default();
        Ok(ModelReply { text, stop_reason: self.stop_reason, refused })
    }
}

fn mock(api: &Api) -> Result<&Mock, Refusal> {
    api.engine().mock().ok_or_else(Refusal::not_found)
}

async fn program(
    State(api): State<Api>,
    caller: Caller,
    Json(given): Json<Programmed>,
) -> Result<Response, Refusal> {
    if given.node_id.is_empty() {
        return Err(Refusal::invalid("`nodeId` is empty"));
    }
    let replies = given.program.into_iter().map(Said::reply).collect::<Result<Vec<_>, _>>()?;
    let count = replies.len();
    mock(&api)?.program(&caller.tenant, &given.node_id, replies)?;
    Ok(answer(StatusCode::OK, &json!({"nodeId": given.node_id, "entries": count})))
}

async fn budget(State(api): State<Api>, caller: Caller, query: Query) -> Result<Response, Refusal> {
    let node = query.get("nodeId").ok_or_else(|| Refusal::invalid("`nodeId` is missing"))?;
    let room = mock(&api)?.room(&caller.tenant, node);
    Ok(answer(StatusCode::OK, &json!({"nodeId": node, "maxTokens": room})))
}

async fn reset(
    State(api): State<Api>,
    caller: Caller,
    MaybeJson(_): MaybeJson<Map<String, Value>>,
) -> Result<Response, Refusal> {
    mock(&api)?.reset(&caller.tenant);
    Ok(answer(StatusCode::OK, &json!({"ok": true})))
}
