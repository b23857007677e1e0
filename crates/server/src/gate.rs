//! The one gate that every request passes, in this order: where it comes from, whose key it shows,
//! whether there is such a route, how often it may ask, what its key is good for, whether there is
//! room, what its body is, whether it was answered before.

mod once;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use countersign_model::Timestamp;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::auth::{self, Caller, Keys};
use crate::body::{self, BodyBounds, Whole};
use crate::clock::Clock;
use crate::error::{PlainNotFound, Refusal, finish};
use crate::idempotency::Shelf;
use crate::inflight::{Inflight, hold};
use crate::limit::{Limiter, Whose};
use crate::place::Place;
use crate::route::{Access, Facts, Map};
use crate::trace::Trace;

/// What the gate goes by.
#[derive(Debug)]
pub struct Edge {
    pub keys: Arc<dyn Keys>,
    pub shelf: Arc<dyn Shelf>,
    pub clock: Arc<dyn Clock>,
    pub place: Place,
    pub limiter: Limiter,
    pub inflight: Inflight,
    pub body: BodyBounds,
    pub closing: Closing,
}

/// Under what a request is known if it comes again; for handlers that keep their answer themselves.
#[derive(Debug, Clone)]
pub struct Repeatable {
    pub key: crate::idempotency::OperationKey,
    pub body: countersign_model::Digest,
}

/// Tells streams that the host is about to end.
#[derive(Debug, Clone)]
pub struct Closing(watch::Sender<bool>);

impl Default for Closing {
    fn default() -> Self {
        Closing(watch::Sender::new(false))
    }
}

impl Closing {
    pub fn close(&self) {
        self.0.send_replace(true);
    }

    pub fn is_closing(&self) -> bool {
        *self.0.borrow()
    }

    /// Ends when the host is about to.
    pub async fn wait(&self) {
        let mut seen = self.0.subscribe();
        // An error means that nobody is left to close anything.
        let _ = seen.wait_for(|closing| *closing).await;
    }
}

/// Routes behind the gate.
#[derive(Debug, Clone)]
pub struct App {
    router: Router,
    map: Arc<Map>,
    edge: Arc<Edge>,
}

impl App {
    pub(crate) fn new(router: Router, map: Arc<Map>, edge: Arc<Edge>) -> App {
        let gate = Gate { map: Arc::clone(&map), edge: Arc::clone(&edge) };
        let layer = from_fn(move |request: Request, next: Next| {
            let gate = gate.clone();
            async move { gate.pass(request, next).await }
        });
        App { router: router.layer(layer), map, edge }
    }

    pub fn edge(&self) -> &Arc<Edge> {
        &self.edge
    }

    /// Answers one request.
    pub async fn call(self, mut request: Request) -> Response {
        let rewritten = self.map.rewrite(request.uri().path());
        // What cannot be a path of ours goes to the gate all the same, which says so in its turn.
        let path = rewritten.unwrap_or_else(|| "/~".to_owned());
        if path != request.uri().path() {
            *request.uri_mut() = with_path(request.uri(), &path);
        }
        match TowerToHyperService::new(self.router).call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        }
    }
}

fn with_path(uri: &Uri, path: &str) -> Uri {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    Uri::from_parts(parts).unwrap_or_else(|_| Uri::from_static("/~"))
}

#[derive(Debug, Clone)]
struct Gate {
    map: Arc<Map>,
    edge: Arc<Edge>,
}

impl Gate {
    async fn pass(self, request: Request, next: Next) -> Response {
        let (trace, began) = (trace_of(request.headers()), Instant::now());
        let (id, method) = (trace.id(), request.method().clone());
        let told = HeaderValue::from_str(&trace.header());
        // After chunks nothing is read on, in case somebody else counted another end.
        let chunked = request.headers().contains_key(header::TRANSFER_ENCODING);
        let judged = self.judge(request, trace, next).await;
        let mut response = finish(judged.unwrap_or_else(Refusal::into_response), &id);
        if chunked {
            response.headers_mut().insert(header::CONNECTION, CLOSE);
        }
        // Not on what caches keep: others would take it for theirs.
        if let (Ok(told), false) = (told, is_public(&response)) {
            response.headers_mut().insert(TRACEPARENT, told);
        }
        note(&response, &method, &id, began.elapsed());
        response
    }

    async fn judge(&self, request: Request, trace: Trace, next: Next) -> Result<Response, Refusal> {
        let (mut parts, body) = request.into_parts();
        let admission = match self.admit(&parts) {
            Ok(Some(admission)) => admission,
            Ok(None) => return Ok(PlainNotFound.into_response()),
            Err(refusal) => {
                body::linger(body, &parts.headers, self.edge.body.within).await;
                return Err(refusal);
            }
        };
        let Admission { facts, caller, place } = admission;
        let max_bytes = facts.max_body.unwrap_or(self.edge.body.max_bytes);
        let bounds = BodyBounds { max_bytes, ..self.edge.body };
        let whole = body::read(body, &parts.headers, bounds).await?;
        let tenant = caller.as_ref().map(|caller| caller.tenant.clone());
        parts.extensions.insert(Whole(whole.clone()));
        parts.extensions.insert(trace);
        caller.map(|caller| parts.extensions.insert(caller));
        let request = Request::from_parts(parts, Body::from(whole.clone()));
        let answered = self.run(&facts, tenant.clone(), request, &whole, next).await;
        let mut response = answered.unwrap_or_else(Refusal::into_response);
        response.extensions_mut().insert(Seen { operation: facts.operation, tenant });
        Ok(match place {
            Some(place) => hold(response, place),
            None => response,
        })
    }

    /// Everything that can be said without the body. Nothing where an envelope would say too much.
    fn admit(&self, parts: &Parts) -> Result<Option<Admission>, Refusal> {
        let (edge, headers) = (&self.edge, &parts.headers);
        edge.place.check(parts.version, &parts.uri, headers)?;
        check_framing(headers)?;
        if is_registry(parts.uri.path()) {
            return Ok(None);
        }
        let matched = parts.extensions.get::<MatchedPath>();
        let routes = matched.map_or(&[][..], |matched| self.map.at(matched.as_str()));
        let (found, now) = (find(routes, &parts.method), edge.clock.now());
        let peer = parts.extensions.get::<Peer>().map(|peer| Whose::at(peer.0));
        let caller = match needs_key(routes, found.as_ref().ok()) {
            true => Some(self.authenticate(headers, peer.as_ref(), now)?),
            false => None,
        };
        let facts = found?;
        self.limit(&facts, caller.as_ref(), peer, now)?;
        if let (Access::Scope(scope), Some(caller)) = (facts.access, &caller) {
            caller.needs(scope)?;
            refuse_forced(headers)?;
        }
        let place = match facts.access {
            Access::Open => None,
            _ => Some(edge.inflight.enter()?),
        };
        Ok(Some(Admission { facts, caller, place }))
    }

    /// Whoever shows no good key is told so, but not without end.
    fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&Whose>,
        now: Timestamp,
    ) -> Result<Caller, Refusal> {
        let known = auth::authenticate(&*self.edge.keys, headers, now);
        if let (Err(refusal), Some(peer)) = (&known, peer)
            && refusal.status == StatusCode::UNAUTHORIZED
        {
            self.edge.limiter.take(std::slice::from_ref(peer), now)?;
        }
        known
    }

    fn limit(
        &self,
        facts: &Facts,
        caller: Option<&Caller>,
        peer: Option<Whose>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if facts.access == Access::Open {
            return Ok(());
        }
        let mut whose = vec![Whose::Global];
        if caller.is_none() {
            whose.extend(peer);
        }
        if let Some(caller) = caller {
            let (tenant, operation) = (caller.tenant.clone(), facts.operation);
            whose.push(Whose::Tenant(tenant.clone()));
            whose.push(Whose::Route { tenant, operation });
            whose.push(Whose::Key(caller.key.to_string()));
        }
        self.edge.limiter.take(&whose, now)
    }
}

/// Where a request comes from, as far as its socket tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Only keys for tests may ask for another engine, and this host has no such keys.
fn refuse_forced(headers: &HeaderMap) -> Result<(), Refusal> {
    match headers.contains_key("x-force-engine-version") {
        false => Ok(()),
        true => {
            let message = "`X-Force-Engine-Version` is for test keys";
            let code = "force_engine_version_forbidden";
            Err(Refusal::new(StatusCode::FORBIDDEN, code, message))
        }
    }
}

/// What the log says of a request that was let in.
#[derive(Debug, Clone)]
struct Seen {
    operation: &'static str,
    tenant: Option<String>,
}

/// One line for each request. Paths are not in it: some carry tokens.
fn note(response: &Response, method: &Method, id: &str, took: Duration) {
    let seen = response.extensions().get::<Seen>();
    let error = response.extensions().get::<Refusal>().map(|refusal| refusal.code.as_ref());
    tracing::info!(
        %method,
        operation = seen.map_or("-", |seen| seen.operation),
        tenant = seen.and_then(|seen| seen.tenant.as_deref()).unwrap_or("-"),
        status = response.status().as_u16(),
        error = error.unwrap_or("-"),
        correlation_id = id,
        micros = took.as_micros(),
        "request"
    );
}

/// A request that may be served.
struct Admission {
    facts: Arc<Facts>,
    caller: Option<Caller>,
    place: Option<OwnedSemaphorePermit>,
}

/// Also for paths that are not there, and for methods that a path does not have: whoever shows no
/// key learns nothing.
fn needs_key(routes: &[Arc<Facts>], found: Option<&Arc<Facts>>) -> bool {
    let keyless = |facts: &Arc<Facts>| matches!(facts.access, Access::Open | Access::Token);
    match found {
        Some(facts) => !keyless(facts),
        None => routes.is_empty() || !routes.iter().all(keyless),
    }
}

fn is_public(response: &Response) -> bool {
    let told = response.headers().get(header::CACHE_CONTROL);
    told.is_some_and(|value| value.as_bytes().starts_with(b"public"))
}

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// A request whose end can be read in two ways is how one request is smuggled behind another.
fn check_framing(headers: &HeaderMap) -> Result<(), Refusal> {
    let (chunked, length) = (header::TRANSFER_ENCODING, header::CONTENT_LENGTH);
    if headers.contains_key(chunked) && headers.contains_key(length) {
        let message = "a request has a length or chunks, not both";
        return Err(Refusal::invalid(message).header(header::CONNECTION, "close"));
    }
    Ok(())
}

/// There is no registry of packs here. An envelope would look as if there were one.
fn is_registry(path: &str) -> bool {
    path == "/v1/packs" || path.starts_with("/v1/packs/") || path.starts_with("/v1/packs-test/")
}

fn find(routes: &[Arc<Facts>], method: &Method) -> Result<Arc<Facts>, Refusal> {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    if let Some(facts) = routes.iter().find(|facts| facts.method == *method) {
        return Ok(Arc::clone(facts));
    }
    if routes.is_empty() {
        return Err(Refusal::not_found());
    }
    let allowed: Vec<&str> = routes.iter().map(|facts| facts.method.as_str()).collect();
    let message = format!("this path answers {}", allowed.join(" and "));
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    Err(refusal.header(header::ALLOW, &allowed.join(", ")))
}

fn trace_of(headers: &HeaderMap) -> Trace {
    let mut fresh = [1; 24];
    // Without randomness a trace is only harder to find.
    let _ = getrandom::fill(&mut fresh);
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    Trace::adopt(text("traceparent"), text("tracestate"), fresh)
}
