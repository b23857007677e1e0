//! Definitions, as they were read.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_model::KeyScope;
use serde_json::{Value, json};

use super::{Api, answer};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::route::{Route, is_id};

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/workflows/{workflowId}", "getWorkflow", read)
            .summary("A workflow's definition, as it was read")
            .scope(KeyScope::ManifestRead)
            .answer(200, "The definition", json!({"type": "object", "required": ["id", "nodes"]}))
            .refuses(&[401, 403, 404, 429]),
    ]
}

/// A definition that belongs to a tenant is not there for others.
async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Refusal> {
    let unknown = || Refusal::named_not_found("workflow_not_found");
    let definition =
        Some(&id).filter(|id| is_id(id)).and_then(|id| api.engine().library().get(id).ok());
    let source = definition.ok_or_else(unknown)?.source().clone();
    let owner = source.get("tenantId").and_then(Value::as_str);
    match owner.is_none_or(|owner| owner == caller.tenant) {
        true => Ok(answer(StatusCode::OK, &source)),
        false => Err(unknown()),
    }
}
