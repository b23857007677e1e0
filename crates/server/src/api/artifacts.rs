//! What the calls of a run left. An artifact belongs to a run if an event of the run says so.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_flow::Event;
use countersign_model::{ArtifactId, ArtifactRecord, KeyScope, RunId};
use countersign_workflow::Engine;
use serde_json::{Value, json};

use super::{Api, answer, mine};
use crate::auth::Caller;
use crate::body::prefers;
use crate::error::Refusal;
use crate::route::Route;
use crate::schema;

/// A longer content does not stand in the description.
const MOST_INLINE: u64 = 1024 * 1024;
/// A longer one is not sent at all: it would have to be held in memory.
const MOST_SENT: u64 = 8 * 1024 * 1024;

const BYTES: &str = "application/octet-stream";

pub(super) fn routes() -> Vec<Route<Api>> {
    vec![
        Route::new(Method::GET, "/v1/runs/{runId}/artifacts/{artifactId}", "getArtifact", read)
            .summary("What a call of a run left")
            .scope(KeyScope::ArtifactsRead)
            .answer(200, "What is known of it, with its content", schema::of("Artifact"))
            .answer_as(200, "Its content", BYTES, json!({"type": "string", "format": "binary"}))
            .refuses(&[401, 403, 404, 410, 413, 429]),
    ]
}

/// What a client can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Described,
    Bytes,
}

/// The bytes only for who asks for them and not for JSON.
fn form(headers: &HeaderMap) -> Form {
    match prefers(headers, BYTES, "application/json") {
        true => Form::Bytes,
        false => Form::Described,
    }
}

async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path((run, id)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let form = form(&headers);
    api.ask(move |engine| {
        // One answer for everything that is not there, whichever of the two it is.
        let run = mine(engine, &caller.tenant, &run).map_err(|_| Refusal::not_found())?;
        let (record, kind) = find(engine, &run, &id)?;
        match form {
            Form::Described => described(engine, &run, &record, &kind),
            Form::Bytes => sent(engine, &record),
        }
    })
    .await
}

/// The record, and the type that the run gave it.
fn find(engine: &Engine, run: &RunId, id: &str) -> Result<(ArtifactRecord, String), Refusal> {
    let id: ArtifactId = id.parse().map_err(|_| Refusal::not_found())?;
    let events = engine.events(run, 0)?;
    let kind = events.iter().find_map(|event| match &event.event {
        Event::ArtifactCreated { artifact_id, artifact_type, .. } if artifact_id == id.as_str() => {
            Some(artifact_type.clone())
        }
        _ => None,
    });
    let kind = kind.ok_or_else(Refusal::not_found)?;
    let record = engine.host().home().store.artifact(&id);
    let record = record.map_err(countersign_model::Failure::from)?;
    Ok((record.ok_or_else(Refusal::not_found)?, kind))
}

/// The content, checked against its digest.
fn content(engine: &Engine, record: &ArtifactRecord) -> Result<Vec<u8>, Refusal> {
    let bytes = engine.host().home().blobs.get(&record.digest);
    Ok(bytes.map_err(countersign_model::Failure::from)?)
}

fn described(
    engine: &Engine,
    run: &RunId,
    record: &ArtifactRecord,
    kind: &str,
) -> Result<Response, Refusal> {
    let mut told = json!({
        "artifactId": record.id,
        "runId": run,
        "artifactType": kind,
        "name": record.name,
        "size": record.size,
        "digest": format!("sha256:{}", record.digest),
        "createdAt": record.at.to_string(),
        "executionId": record.producer,
    });
    let mut tell = |name: &str, value: Value| {
        if let Some(members) = told.as_object_mut() {
            members.insert(name.to_owned(), value);
        }
    };
    if let Some(kind) = &record.media_type {
        tell("mediaType", json!(kind));
    }
    match record.collected_at {
        Some(at) => tell("collectedAt", json!(at.to_string())),
        None if record.size > MOST_INLINE => tell("contentOmitted", json!(true)),
        None => {
            let (encoding, text) = match String::from_utf8(content(engine, record)?) {
                Ok(text) => ("utf8", text),
                Err(other) => ("base64", BASE64.encode(other.as_bytes())),
            };
            tell("encoding", json!(encoding));
            tell("content", json!(text));
        }
    }
    Ok(answer(StatusCode::OK, &told))
}

/// As bytes of no kind: what a tool calls its output must not decide what a browser does with it.
fn sent(engine: &Engine, record: &ArtifactRecord) -> Result<Response, Refusal> {
    if record.collected_at.is_some() {
        let message = "the content of this artifact was let go of";
        return Err(Refusal::new(StatusCode::GONE, "artifact_gone", message));
    }
    if record.size > MOST_SENT {
        let message = format!("contents of at most {MOST_SENT} bytes are sent");
        let refusal = Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "artifact_too_large", message);
        return Err(refusal.detail("maxBytes", json!(MOST_SENT)));
    }
    let mut response = Response::new(Body::from(content(engine, record)?));
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_TYPE, BYTES),
        (header::CONTENT_DISPOSITION, "attachment"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(etag) = HeaderValue::from_str(&format!("\"{}\"", record.digest)) {
        headers.insert(header::ETAG, etag);
    }
    Ok(response)
}
