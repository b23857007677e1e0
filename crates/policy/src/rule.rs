//! The short table of rules: policy for those who do not want Cedar on the first day.

use countersign_model::{Capability, Risk, SandboxMode};
use serde::{Deserialize, Serialize};

/// One row of `[[policy.rules]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// How many people must agree; only where the outcome is `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvers: Option<u32>,
    /// How long they may take, such as `4h`; only where the outcome is `ask`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Its id is `rules/NAME`.
    pub name: String,
    pub outcome: RuleOutcome,
    /// `agent:builder`, `agent:*` or `*`; nothing means anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// What those are told who are stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `file.write`, `file.*` or `*`.
    pub tool: String,
    #[serde(default)]
    pub when: Conditions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleOutcome {
    /// It may run, without a human.
    Allow,
    /// It may run when a human agrees.
    Ask,
    /// It may not run, whatever other rules say.
    Block,
}

/// All that are given must hold.
///
/// `paths` and `hosts` bind what a call touches, one thing at a time. A row that allows or asks
/// then permits those things and nothing else: a row with `paths` alone does not permit a call to
/// reach a host or to change state, another row must. A call that touches nothing is permitted.
/// A row that blocks or asks stops whatever matches, and also what stands for a whole tree of files
/// or hosts, since that can hold a match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// To allow: the tool declares nothing beyond these and what they require. To block or to ask:
    /// it declares one of these; with `paths` or `hosts`, it uses one of these on what matched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// As declarations write them: `api.example.org`, `*.example.org`, `api.example.org:8443`. No
    /// port means HTTPS where a row permits, and any port where it stops.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_risk: Option<Risk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_risk: Option<Risk>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub modes: Vec<SandboxMode>,
    /// Globs as in grants, such as `src/**`, `*.md`, `**/.env` or `/etc/**`. Those that do not
    /// start with `/` are relative to the workspace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// The set of tools that must be active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
}
