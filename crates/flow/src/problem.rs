//! What is wrong with a definition or a blueprint, all of it at once.

use std::fmt;

use serde::Serialize;

/// Problems told for one document: whoever has more fixes these first.
const MOST: usize = 100;

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Stable, in SCREAMING_SNAKE_CASE.
    pub code: &'static str,
    /// JSON pointer into the document, `""` for its root.
    pub pointer: String,
    /// The line of a blueprint, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pointer.is_empty() { "the top" } else { &self.pointer };
        match self.line {
            Some(line) => write!(f, "line {line}: {} [{}]", self.message, self.code),
            None => write!(f, "{place}: {} [{}]", self.message, self.code),
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    problems: Vec<Problem>,
    line: Option<usize>,
}

impl Report {
    pub(crate) fn add(
        &mut self,
        code: &'static str,
        pointer: impl Into<String>,
        message: impl Into<String>,
    ) {
        if self.problems.len() < MOST {
            let (pointer, message) = (pointer.into(), message.into());
            self.problems.push(Problem { code, pointer, line: self.line, message });
        }
    }

    /// The line that the problems to come belong to.
    pub(crate) fn at_line(&mut self, line: usize) -> &mut Self {
        self.line = Some(line);
        self
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Takes over what another report told, under another code.
    pub(crate) fn adopt(&mut self, other: Report, code: &'static str) {
        for problem in other.problems {
            self.add(code, problem.pointer, problem.message);
        }
    }

    /// `Ok` when nothing was told.
    pub(crate) fn finish(self) -> Result<(), Vec<Problem>> {
        if self.problems.is_empty() { Ok(()) } else { Err(self.problems) }
    }
}

/// At most `most` characters of a stranger's text, for messages.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// `base/segment` with the segment escaped as RFC 6901 says.
pub(crate) fn join(base: &str, segment: &str) -> String {
    format!("{base}/{}", segment.replace('~', "~0").replace('/', "~1"))
}
