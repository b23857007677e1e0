//! Webhooks: registered here, kept as documents of the tenant, told by [`Post`].

mod book;
mod post;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_model::KeyScope;
use serde_json::{Value, json};

use super::{Api, answer};
use crate::auth::{Caller, blocking};
use crate::body::Json;
use crate::error::Refusal;
use crate::gate::Repeatable;
use crate::query::Query;
use crate::route::{Route, is_id};
use crate::schema;
use crate::webhook::{Registration, Target};

pub use post::{Post, PostSettings};

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::POST, "/v1/webhooks", "registerWebhook", register)
            .summary("Be told of events of runs")
            .scope(KeyScope::WebhooksManage)
            .request(Registration::shape())
            .answer(
                201,
                "The subscription, and the secret that signs what is sent",
                schema::of("Webhook"),
            )
            .refuses(&[400, 401, 403, 409, 429]),
        Route::new(Method::DELETE, "/v1/webhooks/{webhookId}", "deleteWebhook", remove)
            .summary("Be told no more")
            .scope(KeyScope::WebhooksManage)
            .parameter("tenantId", json!({"type": "string"}))
            .answer(204, "Removed", Value::Null)
            .refuses(&[400, 401, 403, 404, 429]),
    ]
}

fn check_tenant(caller: &Caller, named: Option<&str>) -> Result<(), Refusal> {
    match named.is_none_or(|tenant| tenant == caller.tenant) {
        true => Ok(()),
        false => Err(Refusal::forbidden("this key belongs to another tenant")),
    }
}

async fn register(
    State(api): State<Api>,
    caller: Caller,
    repeatable: Option<Extension<Repeatable>>,
    Json(body): Json<Value>,
) -> Result<Response, Refusal> {
    let post = api.post().clone();
    let wanted = Registration::parse(&body, post.policy())?;
    check_tenant(&caller, wanted.tenant.as_deref())?;
    post.check_addresses(&wanted.target).await?;
    let told = blocking(move || {
        let (now, book) = (api.engine().host().clock().now(), post.book());
        let made = book.make(&caller, wanted, now)?;
        let reply = api.reply(repeatable.as_ref(), now, 201, Some(&made.told))?;
        book.keep(&caller, &made, now, reply)?;
        Ok(made.told)
    })
    .await?;
    Ok(answer(StatusCode::CREATED, &told))
}

async fn remove(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<String>,
    query: Query,
) -> Result<Response, Refusal> {
    check_tenant(&caller, query.get("tenantId"))?;
    let unknown = || Refusal::named_not_found("subscription_not_found");
    let id = Some(id).filter(|id| is_id(id)).ok_or_else(unknown)?;
    let post = api.post().clone();
    let was_there = blocking(move || post.book().remove(&caller, &id)).await?;
    if !was_there {
        return Err(unknown());
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

impl Api {
    /// Where a run's end may be told, if its client wants that. The name is looked up when it is
    /// told, and judged then.
    pub(super) fn check_callback(&self, url: Option<&str>) -> Result<(), Refusal> {
        url.map_or(Ok(()), |url| Target::parse(url, self.post().policy()).map(drop))
            .map_err(|refusal| refusal.detail("field", json!("callbackUrl")))
    }
}
