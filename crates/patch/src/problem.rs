//! What is wrong with a patch, each with its place.

use std::fmt;

use serde::Serialize;

use crate::code::Code;

/// One thing that is wrong with the bytes of a patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    pub code: Code,
    /// The line in the patch, from 1.
    pub line: u64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl Problem {
    pub(crate) fn new(code: Code, line: u64, message: impl Into<String>) -> Problem {
        Problem { code, line, message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Problem {
        self.hint = Some(hint);
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} ({})", self.line, self.message, self.code)
    }
}

/// Why a patch is refused: the first problems, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    pub problems: Vec<Problem>,
    pub left_out: u64,
}

impl Refusal {
    pub fn codes(&self) -> Vec<Code> {
        self.problems.iter().map(|problem| problem.code).collect()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{problem}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Collects problems up to a cap: a hostile patch can have a million.
#[derive(Debug)]
pub(crate) struct Problems {
    kept: Vec<Problem>,
    left_out: u64,
    cap: usize,
}

impl Problems {
    pub(crate) fn new(cap: usize) -> Problems {
        Problems { kept: Vec::new(), left_out: 0, cap: cap.max(1) }
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        if self.kept.len() < self.cap {
            self.kept.push(problem);
        } else {
            self.left_out = self.left_out.saturating_add(1);
        }
    }

    pub(crate) fn into_result<T>(mut self, good: T) -> Result<T, Refusal> {
        if self.kept.is_empty() {
            return Ok(good);
        }
        self.kept.sort_by_key(|problem| problem.line);
        Err(Refusal { problems: self.kept, left_out: self.left_out })
    }
}
