//! A report that cannot be read at all: never a success.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(deny_unknown_fields)]
#[error("{message}")]
pub struct Unreadable {
    pub why: Why,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The bytes could not be had.
    Input,
    /// There is nothing in it.
    Empty,
    /// It is not what it should be, or it stops in the middle.
    Malformed,
    /// Larger or deeper than is read.
    TooLarge,
    /// XML with a document type: those can name other files and grow without end.
    DocumentType,
}

impl Unreadable {
    pub(crate) fn new(why: Why, message: impl Into<String>) -> Unreadable {
        Unreadable { why, message: message.into() }
    }

    pub(crate) fn malformed(message: impl Into<String>) -> Unreadable {
        Unreadable::new(Why::Malformed, message)
    }
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Unreadable {
        Unreadable::new(Why::Input, format!("the report could not be read: {error}"))
    }
}
