//! A host on a real socket, and a client that can send whatever it likes.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    unreachable_pub,
    reason = "shared by tests that each use a part, and stop at the first surprise"
)]

pub mod authority;
pub mod runs;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::Method;
use axum::response::Response;
use countersign_model::{
    Failure, HeldKey, KeyBook, KeyId, KeyRecord, KeyScope, PrincipalRecord, Timestamp, Token,
};
use countersign_server::auth::{Keys, blocking};
use countersign_server::body::{BodyBounds, Json, answer};
use countersign_server::clock::{Clock, SystemClock};
use countersign_server::discovery::{self, Family, Limits, Offer};
use countersign_server::gate::{App, Closing};
use countersign_server::idempotency::MemoryShelf;
use countersign_server::inflight::Inflight;
use countersign_server::limit::{Limiter, Rates};
use countersign_server::openapi;
use countersign_server::place::Place;
use countersign_server::query::Query;
use countersign_server::serve::{Ended, TlsFiles};
use countersign_server::trace::Trace;
use countersign_server::{Bounds, Caller, Edge, Listener, Refusal, Route, Settings, Table, serve};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// Keys in memory, judged by the rules of the model.
#[derive(Debug, Default)]
pub struct Ring(Mutex<Vec<HeldKey>>);

impl Keys for Ring {
    fn authenticate(&self, token: &Token, now: Timestamp) -> Result<KeyRecord, Failure> {
        let keys = self.0.lock().unwrap().clone();
        let principals = keys.iter().map(|key| PrincipalRecord {
            added_at: Timestamp::from_millis(0),
            added_by: "human:ada".parse().unwrap(),
            description: None,
            principal: key.record.principal.clone(),
            removed_at: None,
        });
        let book = KeyBook::from_records(principals.collect::<Vec<_>>(), keys.clone());
        Ok(book.authenticate(token, now)?.record.clone())
    }
}

impl Ring {
    pub fn add(&self, n: u8, tenant: Option<&str>, scopes: &[KeyScope]) -> String {
        self.add_until(n, tenant, scopes, i64::MAX / 4)
    }

    pub fn add_until(
        &self,
        n: u8,
        tenant: Option<&str>,
        scopes: &[KeyScope],
        until: i64,
    ) -> String {
        let id = KeyId::from_uuid(uuid::Uuid::from_u128(u128::from(n)));
        let token = Token::new(id, [n; 32]);
        let record = KeyRecord {
            created_at: Timestamp::from_millis(0),
            created_by: "human:ada".parse().unwrap(),
            expires_at: Timestamp::from_millis(until),
            hash: token.hash(),
            id,
            principal: "service:ci".parse().unwrap(),
            replaces: None,
            scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
            tenant: tenant.map(str::to_owned),
            verifier: token.verifier(),
        };
        let authority = token.signing_key();
        let signature = KeyRecord { expires_at: Timestamp::from_millis(1), ..record.clone() }
            .sign(&authority)
            .unwrap();
        self.0.lock().unwrap().push(HeldKey::new(record, signature));
        token.reveal().to_string()
    }

    pub fn revoke(&self, place: usize) {
        self.0.lock().unwrap()[place].revoked_at = Some(Timestamp::from_millis(1));
    }
}

#[derive(Debug, Clone)]
pub struct Desk {
    pub counted: Arc<AtomicUsize>,
    pub runs: runs::Runs,
    pub closing: Closing,
}

async fn echo(caller: Caller, Json(body): Json<Value>) -> Response {
    axum_json(&json!({"tenant": caller.tenant, "body": body}))
}

pub fn axum_json(value: &Value) -> Response {
    answer(axum::http::StatusCode::OK, value)
}

async fn thing(Path(id): Path<String>) -> Result<Response, Refusal> {
    match countersign_server::route::is_id(&id) && id != "absent" {
        true => Ok(axum_json(&json!({"id": id}))),
        false => Err(Refusal::named_not_found("run_not_found")),
    }
}

async fn count(State(desk): State<Desk>) -> Result<Response, Refusal> {
    let n = blocking(move || Ok(desk.counted.fetch_add(1, Ordering::SeqCst))).await?;
    Ok(answer(axum::http::StatusCode::CREATED, &json!({"n": n})))
}

async fn slow(State(desk): State<Desk>) -> Response {
    tokio::time::sleep(Duration::from_millis(400)).await;
    desk.counted.fetch_add(1, Ordering::SeqCst);
    axum_json(&json!({"slow": true}))
}

async fn broken() -> Result<Response, Refusal> {
    Err(Failure::state("JOURNAL_DAMAGED", "sector 7 is gone").into())
}

async fn panics() -> Response {
    panic!("a mistake in a handler")
}

async fn asked(trace: Trace, query: Query) -> Response {
    axum_json(&json!({"trace": trace.id(), "q": query.get("q")}))
}

async fn big(Path(kib): Path<usize>) -> Vec<u8> {
    vec![b'x'; kib * 1024]
}

pub fn table() -> Table<Desk> {
    let object = || json!({"type": "object"});
    Table::default()
        .with(discovery::route(offer().document().unwrap()))
        .with(
            Route::new(Method::POST, "/v1/echo", "echo", echo)
                .scope(KeyScope::RunsCreate)
                .request(json!({"type": "object"}))
                .answer(200, "the same", object()),
        )
        .with(
            Route::new(Method::GET, "/v1/things/{id}", "getThing", thing)
                .scope(KeyScope::RunsRead)
                .answer(200, "a thing", object())
                .refuses(&[404]),
        )
        .with(Route::new(Method::POST, "/v1/things/{id}:poke", "pokeThing", thing).answer(
            200,
            "poked",
            object(),
        ))
        .with(Route::new(Method::POST, "/v1/count", "count", count).answer(
            201,
            "counted",
            object(),
        ))
        .with(Route::new(Method::POST, "/v1/slow", "slow", slow).answer(200, "slow", object()))
        .with(Route::new(Method::GET, "/v1/broken", "broken", broken).answer(
            200,
            "never",
            object(),
        ))
        .with(Route::new(Method::GET, "/v1/panics", "panics", panics).answer(
            200,
            "never",
            object(),
        ))
        .with(
            Route::new(Method::POST, "/v1/small", "small", asked)
                .max_body(10)
                .parameter("q", json!({"type": "string"}))
                .answer(200, "what was asked", object()),
        )
        .with(Route::new(Method::GET, "/v1/big/{kib}", "big", big).answer(200, "bytes", object()))
        .with(Route::new(Method::GET, "/v1/runs/{runId}/events", "events", runs::events).answer_as(
            200,
            "events",
            "text/event-stream",
            json!({"type": "string"}),
        ))
        .with(
            Route::new(Method::GET, "/v1/runs/{runId}/events/poll", "pollEvents", runs::poll)
                .answer(200, "events", object()),
        )
}

pub fn offer() -> Offer {
    Offer {
        name: "countersign".to_owned(),
        version: "0.1.0".to_owned(),
        vendor: "countersign".to_owned(),
        engine_version: 1,
        event_log_schema_version: 2,
        envelopes: vec!["clarification.request".to_owned()],
        schema_versions: std::collections::BTreeMap::new(),
        limits: Limits {
            clarification_rounds: 3,
            max_node_executions: Some(1000),
            max_run_duration_ms: Some(60_000),
            max_loop_iterations: Some(100),
            max_request_body_bytes: Some(1 << 20),
            ..Limits::default()
        },
        fixtures: vec!["conformance-noop".to_owned()],
        families: vec![
            Family::DebugBundle,
            Family::Replay { modes: vec!["replay", "branch"] },
            Family::PauseResume { drain_policies: vec!["immediate", "drain-current-node"] },
            Family::Webhooks,
            Family::Auth {
                profiles: vec!["openwop-audit-log-integrity"],
                audit_log_integrity: Some(json!({"hashChain": true})),
            },
            Family::Production { inflight_cap: 100, retry_after_seconds: 1 },
            Family::Feedback { targets: vec!["run"], signals: vec!["rating"] },
            Family::Interrupts { profiles: vec!["quorum"], signed_tokens: true },
            Family::SubWorkflow { input_mapping: true },
            Family::Orchestrator,
            Family::Dispatch,
            Family::Workspace { max_file_bytes: 1 << 20, max_files: 100, max_versions: 3 },
            Family::Testing { mock_providers: vec![], test_key_prefix: None },
            Family::Other("conversationPrimitive", json!(true)),
        ],
    }
}

/// What a test changes.
pub struct Setup {
    pub bounds: Bounds,
    pub rates: Rates,
    pub inflight: usize,
    pub body: BodyBounds,
    pub tls: Option<TlsFiles>,
    pub keys: Option<Arc<dyn Keys>>,
    pub clock: Arc<dyn Clock>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            bounds: Bounds::default(),
            rates: Rates::default(),
            inflight: 10_000,
            body: BodyBounds { max_bytes: 1024 * 1024, within: Duration::from_secs(5) },
            tls: None,
            keys: None,
            clock: Arc::new(SystemClock),
        }
    }
}

pub struct Bench {
    pub address: SocketAddr,
    pub ring: Arc<Ring>,
    pub desk: Desk,
    /// Good for everything a machine may do.
    pub key: String,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<Ended>>,
}

pub fn all_scopes() -> Vec<KeyScope> {
    KeyScope::ALL.into_iter().filter(|scope| !scope.is_for_humans()).collect()
}

fn build(setup: Setup) -> (App, Arc<Ring>, Desk, String) {
    let ring = Arc::new(Ring::default());
    let key = ring.add(1, Some("acme"), &all_scopes());
    let keys = setup.keys.unwrap_or_else(|| Arc::clone(&ring) as Arc<dyn Keys>);
    let closing = Closing::default();
    let runs = runs::Runs::default();
    let desk = Desk { counted: Arc::default(), runs, closing: closing.clone() };
    let edge = Arc::new(Edge {
        keys,
        shelf: Arc::new(MemoryShelf::default()),
        clock: setup.clock,
        place: Place::new(&[], &[], setup.tls.is_some()),
        limiter: Limiter::new(setup.rates),
        inflight: Inflight::new(setup.inflight, 2),
        body: setup.body,
        closing,
    });
    let app = openapi::published(table(), "0.1.0").app(desk.clone(), edge);
    (app, ring, desk, key)
}

/// An application that nobody serves yet, and a key for it.
pub fn app() -> (App, String) {
    let (app, _, _, key) = build(Setup::default());
    (app, key)
}

impl Bench {
    pub fn start() -> Bench {
        Bench::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Bench {
        let tls = setup.tls.clone();
        let bounds = setup.bounds;
        let (app, ring, desk, key) = build(setup);
        let settings = Settings { tls, bounds, ..Settings::default() };
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let serving = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = Listener::bind(&settings).await.unwrap();
                tell.send(listener.address().unwrap()).unwrap();
                serve(listener, app, async { drop(stopped.await) }).await
            })
        });
        let address = told.recv().unwrap();
        Bench { address, ring, desk, key, stop: Some(stop), serving: Some(serving) }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// Sends bytes as they are, and reads one answer.
    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        Answer::read(&mut stream)
    }

    /// A proper request with a good key.
    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.raw(&self.request(method, path, headers, body))
    }

    pub fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> Vec<u8> {
        let json = if body.is_empty() { "" } else { "content-type: application/json\r\n" };
        let (length, key) = (body.len(), &self.key);
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             {json}content-length: {length}\r\n{headers}\r\n{body}"
        )
        .into_bytes()
    }

    pub fn tell_to_end(&mut self) {
        drop(self.stop.take());
    }

    pub fn ended(&mut self) -> Ended {
        self.tell_to_end();
        self.serving.take().unwrap().join().unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            let ended = serving.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the server panicked");
        }
    }
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn read(stream: &mut impl Read) -> Answer {
        Answer::try_read(stream).expect("an answer")
    }

    /// Nothing if the connection ended without one.
    pub fn try_read(stream: &mut impl Read) -> Option<Answer> {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return None,
            }
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = chunks(stream);
        } else if let Some(length) = answer.header("content-length") {
            let mut body = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut body).ok()?;
            answer.body = body;
        }
        Some(answer)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// An envelope with this status and code, closed and valid by the published schema.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let body = self.json();
        assert_eq!((self.status, body["error"].as_str()), (status, Some(code)), "{body}");
        check_envelope(&body);
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert!(self.header("access-control-allow-origin").is_none());
        if status >= 500 {
            let id = body["details"]["correlationId"].as_str().unwrap();
            assert_eq!(id.len(), 32, "{body}");
        }
        body
    }
}

fn chunks(stream: &mut impl Read) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = line(stream);
        let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        if stream.read_exact(&mut chunk).is_err() || size == 0 {
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

pub fn line(stream: &mut impl Read) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && matches!(stream.read(&mut byte), Ok(1)) {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

#[track_caller]
pub fn check_envelope(body: &Value) {
    let object = body.as_object().unwrap();
    for name in object.keys() {
        assert!(["error", "message", "details"].contains(&name.as_str()), "{body}");
    }
    assert!(object["error"].is_string() && !object["message"].as_str().unwrap().is_empty());
    assert!(object.get("details").is_none_or(Value::is_object), "{body}");
    if let Some(schema) = schema("error-envelope") {
        assert!(schema.is_valid(body), "{body}");
    }
}

fn published(name: &str) -> Option<Value> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("COUNTERSIGN_SHARED").map_or(beside, PathBuf::from);
    let text = std::fs::read(shared.join("openwop/schemas").join(name)).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

struct Beside;

impl jsonschema::Retrieve for Beside {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        published(name).ok_or_else(|| format!("no copy of {name}").into())
    }
}

/// A published schema, where there is a copy of them.
pub fn schema(name: &str) -> Option<jsonschema::Validator> {
    let Some(schema) = published(&format!("{name}.schema.json")) else {
        eprintln!("skipped: there is no copy of the published schema {name}");
        return None;
    };
    Some(jsonschema::options().with_retriever(Beside).build(&schema).unwrap())
}
