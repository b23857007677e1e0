//! What policy says about a call, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    RequireApproval,
    Block,
}

/// The two questions behind every decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Question {
    /// May this call run at all?
    Invoke,
    /// May it run without a human?
    InvokeUnattended,
}

/// INVARIANT: fields stand in the order of their JSON names; see [`crate::event`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use = "a verdict decides whether a call runs"]
pub struct Verdict {
    /// How many people must agree, if anybody must.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub approvers: u32,
    pub decision: Decision,
    /// How long they may take, if a rule says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_after_ms: Option<u64>,
    /// The policy set that decided.
    pub policy: Digest,
    /// Sorted and without repetition: the same rules give the same words.
    pub reasons: Vec<Reason>,
}

/// One rule's part in a decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reason {
    /// What the rule was about, when it was about one thing that the call touches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub effect: RuleEffect,
    /// How many further things it was about that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
    pub question: Question,
    /// The rule's id; none when no rule matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What its author wrote for those who are stopped, or what went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    Permit,
    Forbid,
    /// No rule permitted it.
    Missing,
    /// The rule could not be evaluated.
    Error,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Decision {
    pub const fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::RequireApproval => "require_approval",
            Decision::Block => "block",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Verdict {
    /// Ids of the rules behind it, each once.
    pub fn rules(&self) -> Vec<String> {
        let mut rules: Vec<_> = self.reasons.iter().filter_map(|r| r.rule.clone()).collect();
        rules.sort_unstable();
        rules.dedup();
        rules
    }
}
