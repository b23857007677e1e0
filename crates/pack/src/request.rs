//! What somebody asks for.

use std::collections::BTreeSet;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

use crate::tokens::Tokenizer;

/// Kinds of context, in the order in which they go in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Include {
    Instructions,
    Paths,
    Diffs,
    ChangedFiles,
    Tree,
    History,
}

impl Include {
    pub const ALL: [Include; 6] = [
        Include::Instructions,
        Include::Paths,
        Include::Diffs,
        Include::ChangedFiles,
        Include::Tree,
        Include::History,
    ];
}

/// What goes into a pack and how large it may be. Unknown fields are errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub token_budget: u64,
    pub include: BTreeSet<Include>,
    /// Paths, directories and globs: `*` and `?` stay inside one component, `**` is any number of
    /// them.
    pub paths: Vec<String>,
    /// The same; what has no `/` counts at every depth.
    pub exclude: Vec<String>,
    /// What one item may have at most; a quarter of the budget if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_tokens: Option<u64>,
    pub tokenizer: Tokenizer,
}

impl Default for Request {
    fn default() -> Self {
        Request {
            task: None,
            token_budget: Self::DEFAULT_BUDGET,
            include: Include::ALL.into(),
            paths: Vec::new(),
            exclude: Vec::new(),
            max_file_tokens: None,
            tokenizer: Tokenizer::default(),
        }
    }
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
impl Request {
    pub const DEFAULT_BUDGET: u64 = 32_000;
    pub const LEAST_BUDGET: u64 = 256;
    pub const MOST_BUDGET: u64 = 2_000_000;
    pub const MAX_PATTERNS: usize = 64;
    /// A cut file of fewer tokens says nothing.
    pub const LEAST_FILE_TOKENS: u64 = 128;

    pub(crate) fn check(&self) -> Result<(), Failure> {
        let budget = Self::LEAST_BUDGET..=Self::MOST_BUDGET;
        in_range("token_budget", self.token_budget, budget)?;
        if let Some(tokens) = self.max_file_tokens {
            in_range("max_file_tokens", tokens, Self::LEAST_FILE_TOKENS..=Self::MOST_BUDGET)?;
        }
        if !self.paths.is_empty() && !self.include.contains(&Include::Paths) {
            let message = "`paths` are named, but `include` does not have `paths`";
            return Err(invalid(message).hint("add `paths` to `include`, or name none"));
        }
        let most = self.paths.len().max(self.exclude.len());
        if most > Self::MAX_PATTERNS {
            return Err(invalid(format!("a list of patterns has at most 64, this one {most}")));
        }
        Ok(())
    }

    pub(crate) fn max_item_tokens(&self) -> u64 {
        let quarter = (self.token_budget / 4).max(Self::LEAST_FILE_TOKENS);
        self.max_file_tokens.unwrap_or(quarter)
    }
}

#[allow(
    clippy::result_large_err,
    reason = "`Failure` is the one error shape, and refusals are rare"
)]
fn in_range(name: &str, value: u64, range: std::ops::RangeInclusive<u64>) -> Result<(), Failure> {
    let (least, most) = (range.start(), range.end());
    let message = || format!("`{name}` is {value}, and must be {least} to {most}");
    if range.contains(&value) { Ok(()) } else { Err(invalid(message())) }
}

pub(crate) fn invalid(message: impl Into<String>) -> Failure {
    Failure::validation("PACK_REQUEST_INVALID", message)
}
