//! What comes out: the items, what was left out, and the digest over both.

use std::collections::BTreeMap;

use countersign_model::Digest;
use serde::{Deserialize, Serialize};

use crate::tokens::Tokenizer;

/// Context for an agent. The same request on the same workspace gives the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContextPack {
    /// The version of this form.
    pub contract: u32,
    /// What the workspace was compared with, as it was handed in.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub base: Option<String>,
    pub tokenizer: Tokenizer,
    pub token_budget: u64,
    /// What the rendered pack has: the items and the frame around them.
    pub total_tokens: u64,
    pub frame_tokens: u64,
    pub sensitivity: Sensitivity,
    /// In the order of their priority.
    pub items: Vec<Item>,
    /// The first of what was left out.
    pub excluded: Vec<Excluded>,
    /// All that was left out, counted by reason.
    pub excluded_counts: BTreeMap<Reason, u64>,
    pub redactions: Vec<Redaction>,
    /// SHA-256 over the canonical JSON of everything else here.
    pub context_digest: Digest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    #[serde(rename = "type")]
    pub kind: ItemType,
    /// A path, or what this is if it is no file.
    pub source: String,
    /// Of the content with its heading and its marks.
    pub tokens: u64,
    /// 1 is the first to go in.
    pub priority: u8,
    /// SHA-256 of the content as it stands here.
    pub digest: Digest,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cut: Option<Cut>,
    pub content: String,
}

/// Only the first lines went in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cut {
    pub lines: u64,
    /// How many there are, if anybody looked.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub of_lines: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ItemType {
    Task,
    Instructions,
    Path,
    Diff,
    ChangedFile,
    Tree,
    History,
}

impl ItemType {
    pub const fn priority(self) -> u8 {
        self as u8 + 1
    }

    pub const fn name(self) -> &'static str {
        match self {
            ItemType::Task => "task",
            ItemType::Instructions => "instructions",
            ItemType::Path => "path",
            ItemType::Diff => "diff",
            ItemType::ChangedFile => "changed_file",
            ItemType::Tree => "tree",
            ItemType::History => "history",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Excluded {
    /// What it would have been.
    #[serde(rename = "type")]
    pub kind: ItemType,
    pub source: String,
    pub reason: Reason,
    /// What it would have taken, where somebody counted.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tokens: Option<u64>,
}

/// Why something stayed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Reason {
    /// Nothing of it fits into what is left.
    Budget,
    Binary,
    /// Not one line of it fits into what one item may have.
    TooLarge,
    /// A secret by its name, or full of secrets.
    Secret,
    /// The request does not want it.
    Excluded,
    Unreadable,
    NotUtf8,
    /// Written by a program, for a program.
    Generated,
    /// A link, a submodule or a device.
    NotAFile,
    /// Nothing in the workspace has this name.
    NotFound,
    /// Its diff is in the pack and has all of it.
    Duplicate,
    /// Too much was read in vain before.
    WorkLimit,
}

/// A secret that is not there any more. Never the value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redaction {
    pub source: String,
    /// 0 when it stood in the name itself.
    pub line: u64,
    pub kind: String,
}

/// How careful whoever holds the pack should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    Low,
    /// Files were left out because they hold secrets.
    Medium,
    /// Secrets stood between what went in, and were redacted.
    High,
}
