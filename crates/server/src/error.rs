//! The one shape of every answer that is not a success: `{error, message, details?}`, closed.

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use countersign_model::{ErrorClass, Failure};
use serde_json::{Map, Value, json};

/// Why a request was not served. `code` is in snake_case, from the protocol's list where it has a
/// word for it.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub status: StatusCode,
    pub code: Cow<'static, str>,
    pub message: String,
    pub details: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            status,
            code: Cow::Borrowed(code),
            message: scrub(&message.into()),
            details: Map::new(),
            headers: Vec::new(),
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, "validation_error", message)
    }

    pub fn unauthenticated(message: impl Into<String>) -> Self {
        let refusal = Refusal::new(StatusCode::UNAUTHORIZED, "unauthenticated", message);
        refusal.challenge()
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn not_found() -> Self {
        Refusal::named_not_found("not_found")
    }

    /// Absent and another tenant's look alike: the same words whatever was asked for.
    pub fn named_not_found(code: &'static str) -> Self {
        Refusal::new(StatusCode::NOT_FOUND, code, "there is nothing here that this key may see")
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::CONFLICT, "conflict", message)
    }

    pub fn not_provided(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "capability_not_provided", message)
    }

    pub fn internal() -> Self {
        let message = "the host failed; `details.correlationId` names this in its log";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", message)
    }

    /// `details.retryAfter` and the header say the same number of seconds.
    pub fn unavailable(message: impl Into<String>, seconds: u32) -> Self {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "service_unavailable", message)
            .detail("retryAfter", json!(seconds))
            .header(header::RETRY_AFTER, &seconds.to_string())
    }

    #[must_use]
    pub fn detail(mut self, name: &str, value: Value) -> Self {
        self.details.insert(name.to_owned(), value);
        self
    }

    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.push((name, value));
        }
        self
    }

    fn challenge(self) -> Self {
        self.header(header::WWW_AUTHENTICATE, "Bearer")
    }

    /// For whatever the framework answered by itself.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            401 => return Refusal::unauthenticated("a bearer key is needed"),
            403 => "forbidden",
            404 => return Refusal::not_found(),
            405 => "method_not_allowed",
            408 => "request_timeout",
            409 => "conflict",
            413 => "payload_too_large",
            414 => "uri_too_long",
            415 => "unsupported_media_type",
            431 => "headers_too_large",
            400..=499 => "validation_error",
            503 => return Refusal::unavailable("the host cannot serve this now", 1),
            _ => return Refusal { status, ..Refusal::internal() },
        };
        let words = status.canonical_reason().unwrap_or("refused").to_lowercase();
        Refusal::new(status, code, words)
    }

    /// The body, as it is sent.
    pub fn envelope(&self) -> Value {
        let mut envelope = Map::new();
        envelope.insert("error".to_owned(), json!(self.code));
        envelope.insert("message".to_owned(), json!(self.message));
        if !self.details.is_empty() {
            envelope.insert("details".to_owned(), Value::Object(self.details.clone()));
        }
        Value::Object(envelope)
    }

    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.envelope().to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, JSON);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        self.headers.iter().for_each(|(name, value)| {
            headers.insert(name.clone(), value.clone());
        });
        response
    }
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

impl IntoResponse for Refusal {
    /// The refusal travels along, so that the gate can add what only the gate knows.
    fn into_response(self) -> Response {
        let mut response = self.response();
        response.extensions_mut().insert(self);
        response
    }
}

/// A 404 that is no envelope, for places where an envelope would mean that something is there.
#[derive(Debug, Clone, Copy)]
pub struct PlainNotFound;

impl IntoResponse for PlainNotFound {
    fn into_response(self) -> Response {
        let mut response = (StatusCode::NOT_FOUND, "not found\n").into_response();
        response.extensions_mut().insert(self);
        response
    }
}

/// The last hand on an answer: nothing leaves without the envelope, and server errors carry an id.
pub(crate) fn finish(mut response: Response, correlation: &str) -> Response {
    let status = response.status();
    if status.is_success() || status.is_informational() || status.is_redirection() {
        return response;
    }
    if response.extensions().get::<PlainNotFound>().is_some() {
        return response;
    }
    let known = response.extensions_mut().remove::<Refusal>();
    match known {
        Some(refusal) if !status.is_server_error() => keep(response, refusal),
        known => {
            let refusal = known.unwrap_or_else(|| Refusal::of_status(status));
            let refusal = match status.is_server_error() {
                true => refusal.detail("correlationId", json!(correlation)),
                false => refusal,
            };
            let mut fresh = refusal.response();
            copy_headers(&response, &mut fresh);
            *fresh.extensions_mut() = std::mem::take(response.extensions_mut());
            keep(fresh, refusal)
        }
    }
}

fn keep(mut response: Response, refusal: Refusal) -> Response {
    response.extensions_mut().insert(refusal);
    response
}

/// What the inner answer said beside its body, such as `Allow`.
fn copy_headers(from: &Response, to: &mut Response) {
    for (name, value) in from.headers() {
        if *name != header::CONTENT_TYPE && *name != header::CONTENT_LENGTH {
            to.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
    }
}

/// Codes of the model that the protocol has its own word for. Everything else goes by its class.
const KNOWN: &[(&str, StatusCode, &str)] = &[
    ("KEY_EXPIRED", StatusCode::UNAUTHORIZED, "key_expired"),
    ("KEY_REVOKED", StatusCode::UNAUTHORIZED, "key_revoked"),
    ("KEY_INVALID", StatusCode::UNAUTHORIZED, "unauthenticated"),
    ("KEY_UNKNOWN", StatusCode::UNAUTHORIZED, "unauthenticated"),
    ("PRINCIPAL_UNKNOWN", StatusCode::UNAUTHORIZED, "unauthenticated"),
    ("RUN_UNKNOWN", StatusCode::NOT_FOUND, "run_not_found"),
    ("WORKFLOW_UNKNOWN", StatusCode::NOT_FOUND, "workflow_not_found"),
    ("INTERRUPT_UNKNOWN", StatusCode::NOT_FOUND, "interrupt_not_found"),
    ("SUBSCRIPTION_UNKNOWN", StatusCode::NOT_FOUND, "subscription_not_found"),
    ("ARTIFACT_UNKNOWN", StatusCode::NOT_FOUND, "not_found"),
    ("WORKSPACE_UNKNOWN", StatusCode::NOT_FOUND, "not_found"),
    ("INTERRUPT_RESOLVED", StatusCode::CONFLICT, "interrupt_already_resolved"),
    ("INTERRUPT_EXPIRED", StatusCode::GONE, "interrupt_expired"),
    ("INTERRUPT_GONE", StatusCode::GONE, "interrupt_gone"),
    ("CORRELATION_MISMATCH", StatusCode::UNPROCESSABLE_ENTITY, "correlation_mismatch"),
    ("INPUT_TOO_LARGE", StatusCode::PAYLOAD_TOO_LARGE, "payload_too_large"),
    ("WEBHOOK_URL_REJECTED", StatusCode::BAD_REQUEST, "webhook_url_rejected"),
];

fn kind_of(failure: &Failure) -> (StatusCode, &'static str) {
    let known = KNOWN.iter().find(|(code, ..)| *code == failure.code);
    if let Some((_, status, code)) = known {
        return (*status, code);
    }
    match failure.class {
        ErrorClass::ValidationError => (StatusCode::BAD_REQUEST, "validation_error"),
        ErrorClass::AuthorizationError => (StatusCode::FORBIDDEN, "forbidden"),
        ErrorClass::ResourceError | ErrorClass::TimeoutError => {
            (StatusCode::SERVICE_UNAVAILABLE, "service_unavailable")
        }
        ErrorClass::StateError if is_conflict(&failure.code) => (StatusCode::CONFLICT, "conflict"),
        ErrorClass::ExecutionError | ErrorClass::StateError => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal_error")
        }
    }
}

/// Somebody else was faster, or it is too late: a client can do something about that.
fn is_conflict(code: &str) -> bool {
    ["_CONFLICT", "_RESOLVED", "_TERMINAL", "_ACTIVE"].iter().any(|end| code.ends_with(end))
}

/// How long whoever met a shortage should wait, when nothing better is known.
const SHORTAGE_SECONDS: u32 = 1;

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        let (status, code) = kind_of(&failure);
        let refusal = match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                tracing::warn!(code = %failure.code, message = %failure.message, "unavailable");
                Refusal::unavailable(failure.message, SHORTAGE_SECONDS)
            }
            status if status.is_server_error() => {
                tracing::error!(code = %failure.code, message = %failure.message, "failed");
                return Refusal::internal();
            }
            StatusCode::UNAUTHORIZED => Refusal::new(status, code, failure.message).challenge(),
            status => Refusal::new(status, code, failure.message),
        };
        let refusal = refusal.detail("code", json!(failure.code));
        match failure.hint {
            Some(hint) => refusal.detail("hint", json!(scrub(&hint))),
            None => refusal,
        }
    }
}

/// Keys of this product are easy to find, and are taken out of whatever is said.
fn scrub(text: &str) -> String {
    let mut parts = text.split("csk_");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let secret = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let rest = part.trim_start_matches(secret);
        // By itself it is only how keys begin.
        clean.push_str(if rest.len() < part.len() { "[key]" } else { "csk_" });
        clean.push_str(rest);
    }
    // An empty message would say nothing, and the protocol wants a word.
    if clean.is_empty() { "refused".to_owned() } else { clean }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_never_stand_in_a_message() {
        let key = "csk_019a7c3e00007000800000000000000a_BwcHBwcHBw_9f0820";
        let refusal = Refusal::invalid(format!("`{key}` is not a workflow, nor is {key}."));
        assert_eq!(refusal.message, "`[key]` is not a workflow, nor is [key].");
        let failure = Failure::validation("X", format!("no {key}")).hint(format!("not {key}"));
        assert!(!Refusal::from(failure).envelope().to_string().contains("BwcH"));
        assert_eq!(scrub(""), "refused");
    }

    #[test]
    fn failures_become_codes_of_the_protocol() {
        let of = |failure: Failure| {
            let refusal = Refusal::from(failure);
            (refusal.status.as_u16(), refusal.code.into_owned())
        };
        let expect = |status: u16, code: &str| (status, code.to_owned());
        assert_eq!(of(Failure::authorization("KEY_EXPIRED", "x")), expect(401, "key_expired"));
        assert_eq!(of(Failure::authorization("GRANT_MISSING", "x")), expect(403, "forbidden"));
        assert_eq!(of(Failure::validation("ANY", "x")), expect(400, "validation_error"));
        assert_eq!(of(Failure::state("RUN_TERMINAL", "x")), expect(409, "conflict"));
        assert_eq!(of(Failure::state("JOURNAL_DAMAGED", "x")), expect(500, "internal_error"));
        assert_eq!(of(Failure::timeout("SLOW", "x")), expect(503, "service_unavailable"));
        assert_eq!(of(Failure::validation("RUN_UNKNOWN", "x")), expect(404, "run_not_found"));
    }

    #[test]
    fn what_went_wrong_inside_is_not_told_outside() {
        let refusal = Refusal::from(Failure::state("DISK", "sector 7 of /dev/sda is gone"));
        assert!(!refusal.envelope().to_string().contains("sda"));
        let told = finish(refusal.into_response(), "trace-1");
        let refusal = told.extensions().get::<Refusal>().unwrap();
        assert_eq!(
            (told.status(), &refusal.details["correlationId"]),
            (refusal.status, &json!("trace-1"))
        );
    }
}
