//! Why a schema is not accepted.

use std::borrow::Cow;

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde::Serialize;

use super::violation::Violation;
use crate::error::Failure;
use crate::json::shorten;

/// A schema that cannot be used, and the place in it that is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct SchemaError {
    pub code: Cow<'static, str>,
    /// JSON pointer into the schema, `""` for its root.
    pub pointer: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl SchemaError {
    pub(super) fn new(
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        let (pointer, message) = (pointer.into(), message.into());
        SchemaError { code: Cow::Borrowed(code), pointer, message, hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn invalid(violation: Violation) -> Self {
        Self::new("SCHEMA_INVALID", violation.pointer, violation.message)
    }

    pub(super) fn pattern(pointer: impl Into<String>, pattern: &str) -> Self {
        let pattern = shorten(pattern, 80);
        Self::new(
            "SCHEMA_PATTERN_UNSUPPORTED",
            pointer,
            format!("`{pattern}` is not a pattern that can be matched in linear time"),
        )
        .hint("write it without look-around and backreferences, and with small repetition counts")
    }

    pub(super) fn too_complex(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new("SCHEMA_TOO_COMPLEX", pointer, message)
            .hint("reuse definitions at fewer places, or split the schema")
    }

    /// What the validator's compiler refuses once the schema satisfies the meta-schema.
    pub(super) fn of_build(error: &ValidationError<'_>) -> Self {
        let pointer = error.schema_path().to_string();
        match error.kind() {
            ValidationErrorKind::Format { format } if format == "regex" => {
                Self::pattern(pointer, error.instance().as_str().unwrap_or_default())
            }
            _ if pointer.ends_with("/format") => {
                let format = error.instance().as_str().map(|name| shorten(name, 80));
                Self::format(pointer, &format.unwrap_or_default())
            }
            _ => Self::new("SCHEMA_INVALID", pointer, shorten(&error.to_string(), 300)),
        }
    }

    pub(super) fn format(pointer: impl Into<String>, name: &str) -> Self {
        let message = format!("the format `{name}` is not one that can be checked");
        Self::new("SCHEMA_FORMAT_UNKNOWN", pointer, message)
            .hint("use a format of JSON Schema 2020-12, or a `pattern`")
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        let details = serde_json::json!({ "pointer": error.pointer });
        let failure = Failure::validation("SCHEMA_UNUSABLE", error.message).details(details);
        Failure { code: error.code, hint: error.hint, ..failure }
    }
}
