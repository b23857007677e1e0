//! Which version a writer saw before it wrote.

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::json;

use super::Version;
use crate::error::Refusal;

/// What a writer saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Whatever,
    Nothing,
    Something,
    One(Vec<String>),
    /// That there is a file and that there is none: nobody can have seen that.
    Both,
}

impl Seen {
    pub(super) fn of(headers: &HeaderMap) -> Result<Seen, Refusal> {
        let text = |name: header::HeaderName| -> Result<Option<String>, Refusal> {
            let Some(value) = headers.get(&name) else { return Ok(None) };
            let told = value.to_str().map(|text| text.trim().to_owned());
            told.map(Some).map_err(|_| Refusal::invalid(format!("`{name}` has to be an etag")))
        };
        match (text(header::IF_MATCH)?, text(header::IF_NONE_MATCH)?) {
            (None, None) => Ok(Seen::Whatever),
            (None, Some(any)) if any == "*" => Ok(Seen::Nothing),
            (Some(any), None) if any == "*" => Ok(Seen::Something),
            (Some(tags), None) => Ok(Seen::One(
                tags.split(',').map(|tag| tag.trim().trim_matches('"').to_owned()).collect(),
            )),
            (Some(_), Some(any)) if any == "*" => Ok(Seen::Both),
            _ => Err(Refusal::invalid("`If-None-Match` has to be `*`")),
        }
    }

    pub(super) fn check(&self, newest: Option<&Version>) -> Result<(), Refusal> {
        let fits = match (self, newest) {
            (Seen::Whatever, _) | (Seen::Nothing, None) | (Seen::Something, Some(_)) => true,
            (Seen::One(tags), Some(version)) => {
                tags.iter().any(|tag| *tag == version.version.to_string())
            }
            _ => false,
        };
        match fits {
            true => Ok(()),
            false => Err(conflict(newest)),
        }
    }
}

pub(super) fn conflict(newest: Option<&Version>) -> Refusal {
    let version = newest.map_or(0, |version| version.version);
    let message = "somebody else has written this file meanwhile";
    let refusal = Refusal::new(StatusCode::CONFLICT, "workspace_conflict", message);
    refusal.detail("currentVersion", json!(version))
}
