//! A finding, and the list that collects them.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::json::{push_segment, shorten};
use crate::schema::SchemaError;

/// One problem of a declaration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// Stable, in SCREAMING_SNAKE_CASE.
    pub code: Cow<'static, str>,
    /// JSON pointer into the declaration, `""` for its root.
    pub pointer: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    /// A declaration that passed the lint and still has no typed form: our mistake, not a panic.
    pub(crate) fn unreadable(error: &serde_json::Error) -> Self {
        let message =
            format!("the declaration cannot be read: {}", shorten(&error.to_string(), 200));
        Finding::new("DECLARATION_UNREADABLE", "", message)
    }

    pub(super) fn new(code: &'static str, pointer: &str, message: impl Into<String>) -> Self {
        let (pointer, message) = (pointer.to_owned(), message.into());
        Finding { code: Cow::Borrowed(code), pointer, message, hint: None }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the file" } else { &self.pointer };
        write!(f, "{place}: {} [{}]", self.message, self.code)?;
        self.hint.iter().try_for_each(|hint| write!(f, "; {hint}"))
    }
}

impl From<Failure> for Finding {
    fn from(failure: Failure) -> Self {
        let Failure { code, message, hint, .. } = failure;
        Finding { code, pointer: String::new(), message, hint }
    }
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn add(&mut self, code: &'static str, pointer: &str, message: impl Into<String>) {
        self.findings.push(Finding::new(code, pointer, message));
    }

    /// Says what to do about the finding added last.
    pub(super) fn hint(&mut self, hint: impl Into<String>) {
        if let Some(last) = self.findings.last_mut() {
            last.hint = Some(hint.into());
        }
    }

    /// A schema's own error, moved to where the schema stands, unless it was found already.
    pub(super) fn add_schema_error(&mut self, base: &str, error: SchemaError) {
        let pointer = format!("{base}{}", error.pointer);
        let known = |f: &Finding| f.code == error.code && f.pointer == pointer;
        if !self.findings.iter().any(known) {
            let SchemaError { code, message, hint, .. } = error;
            self.findings.push(Finding { code, pointer, message, hint });
        }
    }
}

/// The pointer of a member.
pub(super) fn below(pointer: &str, name: &str) -> String {
    let mut pointer = pointer.to_owned();
    push_segment(&mut pointer, name);
    pointer
}
