//! The one error shape: what every surface shows, and what the journal keeps.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::ExecutionId;

/// The six classes of RFC-0001 section 7.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorClass {
    ValidationError,
    AuthorizationError,
    ResourceError,
    ExecutionError,
    TimeoutError,
    StateError,
}

impl fmt::Display for ErrorClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why something did not happen, in the user's words.
///
/// `code` is stable and in SCREAMING_SNAKE_CASE; `message` says what was wrong; `hint` says what to
/// do next. Internal detail belongs in the log, never here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[error("{message}")]
pub struct Failure {
    pub class: ErrorClass,
    pub code: Cow<'static, str>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

impl Failure {
    pub fn new(class: ErrorClass, code: &'static str, message: impl Into<String>) -> Self {
        Failure {
            class,
            code: Cow::Borrowed(code),
            message: message.into(),
            hint: None,
            execution_id: None,
            details: None,
        }
    }

    pub fn validation(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::ValidationError, code, message)
    }

    pub fn authorization(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::AuthorizationError, code, message)
    }

    pub fn resource(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::ResourceError, code, message)
    }

    pub fn execution(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::ExecutionError, code, message)
    }

    pub fn timeout(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::TimeoutError, code, message)
    }

    pub fn state(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorClass::StateError, code, message)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    #[must_use]
    pub fn of_execution(mut self, id: ExecutionId) -> Self {
        self.execution_id = Some(id);
        self
    }
}
