//! Definitions, as they were read.

use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_model::KeyScope;

use super::{Api, answer};
use crate::auth::Caller;
use crate::error::Refusal;
use crate::route::{Route, is_id};
use crate::schema;

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/workflows/{workflowId}", "getWorkflow", read)
            .summary("A workflow's definition, as it was read")
            .scope(KeyScope::ManifestRead)
            .answer(200, "The definition", schema::of("Workflow"))
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
    let library = api.engine().library();
    let found = Some(&id).filter(|id| is_id(id));
    let found = found.and_then(|id| library.of_tenant(id, &caller.tenant).ok());
    Ok(answer(StatusCode::OK, found.ok_or_else(unknown)?.source()))
}
