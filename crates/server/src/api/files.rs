//! Files of a tenant's workspace: a flat list of texts with versions. Whoever writes says which
//! version it saw, and of two writers who saw the same one, one wins.

mod path;
mod seen;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use countersign_journal::Record;
use countersign_model::{KeyScope, Timestamp};
use countersign_workflow::Engine;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::records::{self, Change, Written};
use super::{Api, answer};
use crate::auth::{Caller, blocking};
use crate::body::Json;
use crate::error::Refusal;
use crate::gate::Repeatable;
use crate::query::Query;
use crate::route::Route;
use crate::schema::{self, MAX_WHOLE};
use path::FilePath;
use seen::{Seen, conflict};

/// What is known of files, by path; their contents stand apart, so that lists need not read them.
const FILES: &str = "workspace";
const CONTENTS: &str = "workspace-contents";

pub(super) const MOST_BYTES: usize = 256 * 1024;
pub(super) const MOST_FILES: usize = 1000;
/// Earlier versions that can still be read.
pub(super) const MOST_VERSIONS: u64 = 10;
/// Every byte of a content may be written in six.
const MOST_BODY: usize = 6 * MOST_BYTES + 4096;
const MOST_TRIES: u32 = 100;

const PLAIN: &str = "text/markdown";

pub(super) fn routes() -> Vec<Route<Api>> {
    let one = "/v1/host/workspace/files/{*path}";
    // Any text may be an etag that was seen somewhere; one that is not ours fits no version.
    let seen = json!({"type": "string", "pattern": "^[\\t -~]*$"});
    vec![
        Route::new(Method::GET, "/v1/host/workspace/files", "listWorkspaceFiles", list)
            .summary("The files of the workspace, without their contents")
            .scope(KeyScope::WorkspaceRead)
            .parameter("prefix", json!({"type": "string", "maxLength": path::LONGEST}))
            .answer(200, "The files", schema::of("WorkspaceFiles"))
            .refuses(&[400, 401, 403, 429]),
        Route::new(Method::GET, one, "getWorkspaceFile", read)
            .summary("One file, as it is or as it was")
            .scope(KeyScope::WorkspaceRead)
            .parameter("version", json!({"type": "integer", "minimum": 1, "maximum": MAX_WHOLE}))
            .answer(200, "The file", schema::of("WorkspaceFile"))
            .refuses(&[400, 401, 403, 404, 429]),
        Route::new(Method::PUT, one, "putWorkspaceFile", put)
            .summary("Write one file, whole")
            .scope(KeyScope::WorkspaceWrite)
            .header("If-Match", seen.clone())
            .header("If-None-Match", json!({"const": "*"}))
            .max_body(MOST_BODY)
            .request(wanted())
            .answer(200, "The file", schema::of("WorkspaceFile"))
            .refuses(&[400, 401, 403, 409, 413, 429]),
        Route::new(Method::DELETE, one, "deleteWorkspaceFile", delete)
            .summary("Remove one file")
            .scope(KeyScope::WorkspaceWrite)
            .header("If-Match", seen)
            .answer(204, "Removed", Value::Null)
            .refuses(&[400, 401, 403, 404, 409, 429]),
    ]
}

/// How many bytes a content has a shape cannot say; more than so many characters are always too many.
fn wanted() -> Value {
    let kind = json!({"type": ["string", "null"], "pattern": "^[ -~]{1,128}$"});
    let content = json!({"type": "string", "maxLength": MOST_BYTES});
    schema::closed(&["content"], json!({"content": content, "contentType": kind}))
}

/// One version of a file, without its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Version {
    at: Timestamp,
    content_type: String,
    size: u64,
    version: u64,
}

/// Oldest first; the last one is how the file stands.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Kept {
    versions: Vec<Version>,
}

impl Version {
    fn etag(&self) -> String {
        format!("\"{}\"", self.version)
    }

    fn told(&self, path: &str) -> Value {
        json!({
            "path": path,
            "version": self.version,
            "etag": self.etag(),
            "contentType": self.content_type,
            "updatedAt": self.at.to_string(),
        })
    }
}

/// A file as the journal has it.
struct Found {
    /// Also counts removals.
    at: u64,
    kept: Option<Kept>,
}

impl Found {
    fn of(record: Option<Record>) -> Result<Found, Refusal> {
        let Some(record) = record else { return Ok(Found { at: 0, kept: None }) };
        let kept = record.value.as_deref().map(records::read).transpose()?;
        Ok(Found { at: record.version, kept })
    }

    fn newest(&self) -> Option<&Version> {
        self.kept.as_ref()?.versions.last()
    }
}

fn look(engine: &Engine, tenant: &str, path: &str) -> Result<Found, Refusal> {
    Found::of(records::find(engine.host(), tenant, FILES, path)?)
}

/// Contents go around: a new one takes the place of the oldest.
fn slot(path: &str, version: u64) -> String {
    format!("{path}\n{}", version % (MOST_VERSIONS + 1))
}

async fn list(State(api): State<Api>, caller: Caller, query: Query) -> Result<Response, Refusal> {
    let prefix = query.get("prefix").unwrap_or_default().to_owned();
    if prefix.chars().count() > path::LONGEST {
        let message = format!("`prefix` has at most {} characters", path::LONGEST);
        return Err(Refusal::invalid(message));
    }
    let files = api
        .ask(move |engine| {
            let found = records::list(engine.host(), &caller.tenant, FILES, &prefix)?;
            let told = |record: Record| {
                let path = record.key.clone();
                Ok(Found::of(Some(record))?.newest().map(|version| version.told(&path)))
            };
            let told: Result<Vec<_>, Refusal> = found.into_iter().map(told).collect();
            Ok(told?.into_iter().flatten().collect::<Vec<Value>>())
        })
        .await?;
    Ok(answer(StatusCode::OK, &json!({"files": files})))
}

async fn read(
    State(api): State<Api>,
    caller: Caller,
    Path(path): Path<String>,
    query: Query,
) -> Result<Response, Refusal> {
    let path: FilePath = path.parse()?;
    let wanted = query.number("version", 1, MAX_WHOLE)?;
    let (told, etag) =
        api.ask(move |engine| one(engine, &caller.tenant, path.as_str(), wanted)).await?;
    Ok(tagged(answer(StatusCode::OK, &told), &etag))
}

fn one(
    engine: &Engine,
    tenant: &str,
    path: &str,
    wanted: Option<u64>,
) -> Result<(Value, String), Refusal> {
    let found = look(engine, tenant, path)?;
    let version = match wanted {
        None => found.newest(),
        Some(wanted) => {
            let versions = found.kept.iter().flat_map(|kept| &kept.versions);
            versions.into_iter().find(|version| version.version == wanted)
        }
    };
    let version = version.ok_or_else(Refusal::not_found)?;
    let content = records::find(engine.host(), tenant, CONTENTS, &slot(path, version.version))?;
    // Somebody wrote between the two looks, and the place was taken: that version is gone.
    let content = content.and_then(|record| record.value).and_then(|value| {
        let kept: Content = serde_json::from_slice(&value).ok()?;
        (kept.version == version.version).then_some(kept.content)
    });
    let content = content.ok_or_else(Refusal::not_found)?;
    Ok((with_content(version.told(path), content), version.etag()))
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    content: String,
    version: u64,
}

fn with_content(mut told: Value, content: String) -> Value {
    if let Some(members) = told.as_object_mut() {
        members.insert("content".to_owned(), Value::String(content));
    }
    told
}

fn tagged(mut response: Response, etag: &str) -> Response {
    if let Ok(etag) = HeaderValue::from_str(etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Put {
    content: String,
    content_type: Option<String>,
}

impl Put {
    fn check(self, engine: &Engine) -> Result<(String, String), Refusal> {
        if self.content.len() > MOST_BYTES {
            return Err(too_large(format!("a file has at most {MOST_BYTES} bytes")));
        }
        let kind = self.content_type.unwrap_or_else(|| PLAIN.to_owned());
        let plain =
            (1..=128).contains(&kind.len()) && kind.bytes().all(|b| (0x20..0x7f).contains(&b));
        if !plain {
            let message = "`contentType` has to be 1 to 128 visible ASCII characters";
            return Err(Refusal::invalid(message).detail("field", json!("contentType")));
        }
        // What looks like a credential is not kept, as everywhere.
        let mut content = Value::String(self.content);
        engine.clean(&mut content);
        Ok((content.as_str().unwrap_or_default().to_owned(), kind))
    }
}

fn too_large(message: String) -> Refusal {
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "workspace_too_large", message)
        .detail("maxFileBytes", json!(MOST_BYTES))
        .detail("maxFiles", json!(MOST_FILES))
}

async fn put(
    State(api): State<Api>,
    caller: Caller,
    Path(path): Path<String>,
    headers: HeaderMap,
    repeatable: Option<Extension<Repeatable>>,
    Json(wanted): Json<Put>,
) -> Result<Response, Refusal> {
    let path: FilePath = path.parse()?;
    let seen = Seen::of(&headers)?;
    let wanted = wanted.check(api.engine())?;
    let write = Write { path, seen, caller, repeatable };
    let (told, etag) = blocking(move || write.put(&api, &wanted)).await?;
    Ok(tagged(answer(StatusCode::OK, &told), &etag))
}

async fn delete(
    State(api): State<Api>,
    caller: Caller,
    Path(path): Path<String>,
    headers: HeaderMap,
    repeatable: Option<Extension<Repeatable>>,
) -> Result<Response, Refusal> {
    let path: FilePath = path.parse()?;
    let write = Write { path, seen: Seen::of(&headers)?, caller, repeatable };
    blocking(move || write.delete(&api)).await?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// What somebody wants to do to a file.
struct Write {
    path: FilePath,
    seen: Seen,
    caller: Caller,
    repeatable: Option<Extension<Repeatable>>,
}

impl Write {
    /// Looks, decides and writes; whoever is overtaken looks again, and then meets the other's
    /// version.
    fn settle<T>(
        &self,
        api: &Api,
        mut decide: impl FnMut(&Found, Timestamp) -> Result<(Vec<Change>, T, Option<Value>), Refusal>,
    ) -> Result<T, Refusal> {
        let engine = api.engine();
        for _ in 0..MOST_TRIES {
            let found = look(engine, &self.caller.tenant, self.path.as_str())?;
            self.seen.check(found.newest())?;
            let now = engine.host().clock().now();
            let (changes, done, body) = decide(&found, now)?;
            let status = if body.is_some() { 200 } else { 204 };
            let reply = api.reply(self.repeatable.as_ref(), now, status, body.as_ref())?;
            if records::write(engine.host(), (&self.caller).into(), now, changes, reply)?
                == Written::Done
            {
                return Ok(done);
            }
        }
        Err(conflict(look(engine, &self.caller.tenant, self.path.as_str())?.newest()))
    }

    fn put(
        &self,
        api: &Api,
        (content, kind): &(String, String),
    ) -> Result<(Value, String), Refusal> {
        let (engine, path) = (api.engine(), self.path.as_str());
        self.settle(api, |found, now| {
            self.check_room(engine, found)?;
            let version = found.at.saturating_add(1);
            let mut versions =
                found.kept.as_ref().map(|kept| kept.versions.clone()).unwrap_or_default();
            versions.retain(|old| old.version + MOST_VERSIONS >= version);
            let size = content.len() as u64;
            let newest = Version { at: now, content_type: kind.clone(), size, version };
            versions.push(newest.clone());
            let content = Content { content: content.clone(), version };
            let changes = vec![
                self.file(found, Some(&Kept { versions })),
                self.content(engine, version, Some(&content))?,
            ];
            let told = with_content(newest.told(path), content.content);
            Ok((changes, (told.clone(), newest.etag()), Some(told)))
        })
    }

    /// The contents of all versions go with it.
    fn delete(&self, api: &Api) -> Result<(), Refusal> {
        self.settle(api, |found, _| {
            let kept = found.kept.as_ref().ok_or_else(Refusal::not_found)?;
            let mut changes = vec![self.file(found, None)];
            for version in &kept.versions {
                changes.push(self.content(api.engine(), version.version, None)?);
            }
            Ok((changes, (), None))
        })
    }

    fn check_room(&self, engine: &Engine, found: &Found) -> Result<(), Refusal> {
        if found.kept.is_some() {
            return Ok(());
        }
        match records::list(engine.host(), &self.caller.tenant, FILES, "")?.len() < MOST_FILES {
            true => Ok(()),
            false => Err(too_large(format!("a workspace has at most {MOST_FILES} files"))),
        }
    }

    fn file(&self, found: &Found, kept: Option<&Kept>) -> Change {
        let value = kept.map(|kept| json!(kept).to_string().into_bytes());
        let key = self.path.as_str().to_owned();
        Change { space: FILES, key, version: found.at, value }
    }

    fn content(
        &self,
        engine: &Engine,
        version: u64,
        content: Option<&Content>,
    ) -> Result<Change, Refusal> {
        let key = slot(self.path.as_str(), version);
        let there = records::find(engine.host(), &self.caller.tenant, CONTENTS, &key)?;
        let value = content.map(|content| json!(content).to_string().into_bytes());
        let version = there.map_or(0, |record| record.version);
        Ok(Change { space: CONTENTS, key, version, value })
    }
}
