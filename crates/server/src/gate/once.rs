//! Running a handler: to its end, and at most once for each `Idempotency-Key`.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use countersign_model::Digest;
use http_body_util::BodyExt as _;
use uuid::Uuid;

use super::Gate;
use crate::auth::blocking;
use crate::error::{JSON, Refusal};
use crate::idempotency::{
    Claim, Entry, Judgement, OperationKey, REPLAY_HEADER, Shelf, Stored, chosen, in_flight,
    is_kept, judge, mismatch,
};
use crate::route::Facts;

/// What is asked, and on which condition: who changes either asks for something else.
fn asked(headers: &HeaderMap, body: &Bytes) -> Digest {
    let conditions = [header::IF_MATCH, header::IF_NONE_MATCH];
    conditions.iter().fold(Digest::of(body), |asked, name| match headers.get(name) {
        None => asked,
        Some(value) => {
            let condition = format!("{asked} {name} ");
            Digest::of(&[condition.as_bytes(), value.as_bytes()].concat())
        }
    })
}

impl Gate {
    /// A client that goes away does not stop what it asked for: a handler is never left half done.
    pub(super) async fn run(
        &self,
        facts: &Facts,
        tenant: Option<String>,
        request: Request,
        body: &Bytes,
        next: Next,
    ) -> Result<Response, Refusal> {
        let key = self.operation(facts, tenant, request.headers(), request.uri().path())?;
        let (gate, digest) = (self.clone(), asked(request.headers(), body));
        let work = tokio::spawn(async move {
            match key {
                Some(key) => gate.once(key, digest, request, next).await,
                None => Ok(next.run(request).await),
            }
        });
        // A handler that panicked is an error of this request, not of its connection.
        work.await.unwrap_or_else(|_| Err(Refusal::internal()))
    }

    fn operation(
        &self,
        facts: &Facts,
        tenant: Option<String>,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<Option<OperationKey>, Refusal> {
        let (true, Some(tenant)) = (facts.idempotent, tenant) else { return Ok(None) };
        let operation = format!("{} {path}", facts.method);
        Ok(chosen(headers)?.map(|key| OperationKey { key, operation, tenant }))
    }

    async fn once(
        &self,
        key: OperationKey,
        body: Digest,
        request: Request,
        next: Next,
    ) -> Result<Response, Refusal> {
        let now = self.edge.clock.now();
        let claim = Claim { body, holder: Uuid::now_v7(), since: now };
        let found = self.look(key.clone(), claim.clone()).await?;
        match judge(found.as_ref(), &body, now) {
            Judgement::Replay(stored) => Ok(replay(&stored)),
            Judgement::Mismatch => Err(mismatch()),
            Judgement::InFlight => Err(in_flight()),
            Judgement::Execute => {
                let unsettled = Unsettled { shelf: Arc::clone(&self.edge.shelf), key, claim };
                self.execute(unsettled, request, next).await
            }
        }
    }

    async fn look(&self, key: OperationKey, claim: Claim) -> Result<Option<Entry>, Refusal> {
        let shelf = Arc::clone(&self.edge.shelf);
        let now = claim.since;
        blocking(move || Ok(shelf.look_or_claim(&key, &claim, now)?)).await
    }

    async fn execute(
        &self,
        unsettled: Unsettled,
        mut request: Request,
        next: Next,
    ) -> Result<Response, Refusal> {
        let (key, body) = (unsettled.key.clone(), unsettled.claim.body);
        request.extensions_mut().insert(super::Repeatable { key, body });
        // In a task of its own, so that a panic is met here and the claim is let go.
        let response = tokio::spawn(next.run(request)).await;
        let response = match response {
            Ok(response) if is_kept(response.status().as_u16()) => response,
            Ok(response) => {
                unsettled.settle(None).await?;
                return Ok(response);
            }
            Err(_) => {
                unsettled.settle(None).await?;
                return Err(Refusal::internal());
            }
        };
        let (mut parts, body) = response.into_parts();
        let whole = body.collect().await.map_err(|_| Refusal::internal())?.to_bytes();
        let answer = String::from_utf8(whole.to_vec()).map_err(|_| Refusal::internal())?;
        let (at, body) = (self.edge.clock.now(), unsettled.claim.body);
        unsettled.settle(Some(Stored { answer, at, body, status: parts.status.as_u16() })).await?;
        parts.headers.insert(REPLAY_HEADER, HeaderValue::from_static("false"));
        Ok(Response::from_parts(parts, Body::from(whole)))
    }
}

struct Unsettled {
    shelf: Arc<dyn Shelf>,
    key: OperationKey,
    claim: Claim,
}

impl Unsettled {
    async fn settle(self, stored: Option<Stored>) -> Result<(), Refusal> {
        blocking(move || Ok(self.shelf.settle(&self.key, &self.claim, stored.as_ref())?)).await
    }
}

fn replay(stored: &Stored) -> Response {
    let mut response = Response::new(Body::from(stored.answer.clone()));
    *response.status_mut() = StatusCode::from_u16(stored.status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(REPLAY_HEADER, HeaderValue::from_static("true"));
    if !stored.answer.is_empty() {
        headers.insert(header::CONTENT_TYPE, JSON);
    }
    response
}
