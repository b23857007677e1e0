//! Bodies: read whole, within bounds, and as strict JSON.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use countersign_model::json::{JsonLimits, parse_strict};
use http_body_util::BodyExt as _;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize as _, Deserializer, Serialize};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::error::{JSON, Refusal};
use crate::schema::MAX_WHOLE;

/// The whole body of a request, as the gate read it.
#[derive(Debug, Clone, Default)]
pub struct Whole(pub Bytes);

/// How much is read, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct BodyBounds {
    pub max_bytes: usize,
    pub within: Duration,
}

/// What a client may still send after it was refused, so that it can read why: a connection that
/// is closed on unread bytes is reset, and the answer is lost with it.
const LINGER_BYTES: usize = 32 * 1024 * 1024;

/// Reads a body of at most so many bytes.
pub(crate) async fn read(
    mut body: Body,
    headers: &HeaderMap,
    bounds: BodyBounds,
) -> Result<Bytes, Refusal> {
    if announced(headers).is_some_and(|length| length > bounds.max_bytes) {
        linger(body, headers, bounds.within).await;
        return Err(too_large(bounds.max_bytes));
    }
    let deadline = Instant::now() + bounds.within;
    let mut whole = Vec::new();
    loop {
        let frame = timeout_at(deadline, body.frame()).await.map_err(|_| too_slow())?;
        let Some(frame) = frame else { return Ok(Bytes::from(whole)) };
        let frame = frame.map_err(|_| Refusal::invalid("the body broke off"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len().saturating_add(data.len()) > bounds.max_bytes {
            linger(body, headers, bounds.within).await;
            return Err(too_large(bounds.max_bytes));
        }
        whole.extend_from_slice(&data);
    }
}

/// Lets go of what is still coming, up to a limit. A client that asked before sending
/// (`Expect: 100-continue`) has sent nothing yet.
pub(crate) async fn linger(mut body: Body, headers: &HeaderMap, within: Duration) {
    let length = announced(headers);
    if headers.contains_key(header::EXPECT) || length.is_some_and(|n| n > LINGER_BYTES) {
        return;
    }
    let deadline = Instant::now() + within;
    let mut seen = 0_usize;
    while let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await {
        seen = seen.saturating_add(frame.data_ref().map_or(0, Bytes::len));
        if seen > LINGER_BYTES {
            return;
        }
    }
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn too_large(most: usize) -> Refusal {
    let message = format!("a body has at most {most} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large", message)
        .detail("maxBytes", serde_json::json!(most))
        .header(header::CONNECTION, "close")
}

fn too_slow() -> Refusal {
    let message = "the body did not arrive in time";
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message)
        .header(header::CONNECTION, "close")
}

/// A body that is JSON, and says so. Missing members and other types are told with their place.
#[derive(Debug, Clone)]
pub struct Json<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Json<T>, Refusal> {
        let whole = parts.extensions.get::<Whole>().cloned().unwrap_or_default();
        let value = json_value(&parts.headers, &whole.0)?;
        serde_json::from_value(value)
            .map(Json)
            .map_err(|error| Refusal::invalid(format!("the body does not fit: {error}")))
    }
}

/// As [`Json`], for routes where a body may be left out: then it is an empty object.
#[derive(Debug, Clone)]
pub struct MaybeJson<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for MaybeJson<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<MaybeJson<T>, Refusal> {
        let empty = parts.extensions.get::<Whole>().is_none_or(|whole| whole.0.is_empty());
        if !empty {
            return Json::from_request_parts(parts, state)
                .await
                .map(|Json(value)| MaybeJson(value));
        }
        serde_json::from_value(Value::Object(serde_json::Map::new()))
            .map(MaybeJson)
            .map_err(|error| Refusal::invalid(format!("a body is needed: {error}")))
    }
}

/// A whole number in any spelling: to JSON `3.0` is `3`.
pub(crate) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let Some(number) = Option::<serde_json::Number>::deserialize(deserializer)? else {
        return Ok(None);
    };
    let exact = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() <= MAX_WHOLE as f64);
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the line above holds it inside of the exact whole numbers"
    )]
    let found = number.as_i64().or(exact.map(|n| n as i64));
    found.map(Some).ok_or_else(|| D::Error::custom(format!("`{number}` is not a whole number")))
}

/// An object inside of a body. A list of its members in their order is none, though it could be read
/// as one.
pub(crate) fn object<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let members = serde_json::Map::deserialize(deserializer)?;
    T::deserialize(members).map_err(D::Error::custom)
}

/// Whether a client asks for one kind of answer, and not for another.
pub(crate) fn prefers(headers: &HeaderMap, wanted: &str, usual: &str) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kinds =
        accepted.flat_map(|value| value.split(',')).filter_map(|part| part.split(';').next());
    let kinds: Vec<&str> = kinds.map(str::trim).collect();
    let asks = |kind: &str| kinds.iter().any(|asked| asked.eq_ignore_ascii_case(kind));
    asks(wanted) && !asks(usual)
}

/// An answer with a JSON body.
pub fn answer(status: StatusCode, value: &impl Serialize) -> Response {
    // Only a map with keys that are no texts cannot be written, and no answer has one.
    let Ok(text) = serde_json::to_vec(value) else { return Refusal::internal().into_response() };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn json_value(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, Refusal> {
    if !is_json(headers) {
        let message = "send JSON, with `Content-Type: application/json`";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Refusal::new(status, "unsupported_media_type", message));
    }
    let limits = JsonLimits { max_bytes: usize::MAX, ..JsonLimits::default() };
    let value = parse_strict(bytes, &limits)?;
    match value.is_object() {
        true => Ok(value),
        false => Err(Refusal::invalid("the body has to be a JSON object")),
    }
}

/// `application/json`, or a type that is JSON by its suffix, with whatever parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    let kind = kind.trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}
