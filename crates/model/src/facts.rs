//! What the host knows about a call before it runs: what policies bind, and what a person is shown.
//! Computed by the host, never taken from the caller's word.

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::authorize::Need;
use crate::capability::{Capability, Risk};
use crate::digest::{CanonicalError, Digest};
use crate::id::ToolId;
use crate::mode::SandboxMode;
use crate::principal::Principal;
use crate::time::Timestamp;

/// What the tools of all orders are called: commands that people approve as documents. Nothing that
/// is declared in a home can be called so.
pub const ORDER_TOOL: &str = "order.run";

/// Everything but the input, which stands beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallFacts {
    /// On whose behalf the principal asks, nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chain: Vec<Principal>,
    /// What the call will touch, with paths resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effects: Vec<Need>,
    /// Hosts that it will be able to reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    pub mode: SandboxMode,
    /// How many people must agree whatever policy says: this kind of call is theirs to decide.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub people: u32,
    pub principal: Principal,
    pub time: Timestamp,
    pub tool: ToolFacts,
    /// The one set of tools that is active, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// The directory that it works in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolFacts {
    pub capabilities: Vec<Capability>,
    /// Digest of its declaration.
    pub declaration: Digest,
    /// Digest of a program's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<Digest>,
    pub id: ToolId,
    pub isolation: u8,
    pub runtime: RuntimeKind,
    pub tier: SafetyTier,
    pub version: Version,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuntimeKind {
    Builtin,
    Process,
    Wasm,
}

/// What a tool does to data, as the author of its declaration says; never derived from risk or from
/// whether somebody must approve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SafetyTier {
    Pure,
    Read,
    Write,
    Exec,
}

impl RuntimeKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            RuntimeKind::Builtin => "builtin",
            RuntimeKind::Process => "process",
            RuntimeKind::Wasm => "wasm",
        }
    }
}

impl SafetyTier {
    pub const ALL: [SafetyTier; 4] =
        [SafetyTier::Pure, SafetyTier::Read, SafetyTier::Write, SafetyTier::Exec];

    pub const fn as_str(self) -> &'static str {
        match self {
            SafetyTier::Pure => "pure",
            SafetyTier::Read => "read",
            SafetyTier::Write => "write",
            SafetyTier::Exec => "exec",
        }
    }
}

impl CallFacts {
    /// Every field is a name or a whole number and stands in canonical order, so any JSON writer
    /// puts it down canonically.
    pub fn to_canonical_json(&self) -> Result<Vec<u8>, CanonicalError> {
        Ok(serde_json::to_vec(self)?)
    }

    /// Whether two calls differ in nothing but the moment.
    pub fn is_same_but_time(&self, other: &CallFacts) -> bool {
        let CallFacts { chain, effects, hosts, mode, people, .. } = self;
        let CallFacts { principal, time: _, tool, toolset, workspace, .. } = self;
        *chain == other.chain
            && *effects == other.effects
            && *hosts == other.hosts
            && *mode == other.mode
            && *people == other.people
            && *principal == other.principal
            && *tool == other.tool
            && *toolset == other.toolset
            && *workspace == other.workspace
    }

    /// Whether rolling back restores all that the call can change. What was sent cannot be unsent.
    pub fn is_reversible(&self) -> bool {
        let sends = |capability: &Capability| capability.as_str().starts_with("network.");
        self.hosts.is_empty() && !self.tool.capabilities.iter().any(sends)
    }

    /// How much harm this call can do, given that files and state are staged and rolled back: what
    /// is not confined, or reaches out in ways that nobody can look into, weighs more than what is
    /// changed or sent.
    pub fn risk(&self) -> Risk {
        let is_confined = self.tool.runtime == RuntimeKind::Builtin || self.tool.isolation >= 2;
        let unconfined = if is_confined { Risk::Low } else { Risk::High };
        let danger = match self.mode {
            SandboxMode::DangerFullAccess => Risk::Critical,
            _ => Risk::Low,
        };
        let capabilities = self.tool.capabilities.iter().map(|capability| staged_risk(*capability));
        capabilities.chain([unconfined, danger]).max().unwrap_or(Risk::Low)
    }

    /// Whether a principal asked for this call, by itself or through others.
    pub fn is_asked_by(&self, principal: &Principal) -> bool {
        self.principal == *principal || self.chain.contains(principal)
    }
}

/// The risk of a capability inside a transaction and a sandbox.
fn staged_risk(capability: Capability) -> Risk {
    use Capability as C;
    match capability {
        C::AdminCapabilityGrant | C::AdminCapabilityRevoke | C::AdminToolInstall => Risk::Critical,
        C::NetworkTcp | C::NetworkUdp | C::ProcessKill => Risk::High,
        C::NetworkHttp
        | C::NetworkHttps
        | C::FilesystemWrite
        | C::FilesystemDelete
        | C::StateWrite
        | C::StateDelete
        | C::ProcessSignal
        | C::SystemEnv => Risk::Medium,
        C::FilesystemRead
        | C::FilesystemExecute
        | C::ProcessSpawn
        | C::StateRead
        | C::SystemTime
        | C::SystemInfo => Risk::Low,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::canonical_json;

    fn facts() -> CallFacts {
        CallFacts {
            chain: vec!["human:ada".parse().unwrap()],
            effects: vec![
                Need::one(Capability::FilesystemRead, "/a/\u{7f}\n\"é\u{1}"),
                Need::every(Capability::FilesystemWrite, "/a/**"),
            ],
            hosts: vec!["example.com:443".to_owned()],
            mode: SandboxMode::default(),
            people: 2,
            principal: "agent:writer".parse().unwrap(),
            time: Timestamp::from_millis(1_700_000_000_001),
            tool: ToolFacts {
                capabilities: vec![Capability::FilesystemRead],
                declaration: Digest::of(b"declaration"),
                files: Some(Digest::of(b"files")),
                id: "file.read".parse().unwrap(),
                isolation: 2,
                runtime: RuntimeKind::Process,
                tier: SafetyTier::Read,
                version: Version::new(1, 2, 3),
            },
            toolset: Some("reading".to_owned()),
            workspace: Some("/a".to_owned()),
        }
    }

    #[test]
    fn the_short_way_to_canonical_json_is_canonical() {
        let facts = facts();
        assert_eq!(facts.to_canonical_json().unwrap(), canonical_json(&facts).unwrap());
    }

    #[test]
    fn only_the_moment_may_differ() {
        let facts = facts();
        let later = CallFacts { time: facts.time.plus_millis(1), ..facts.clone() };
        assert!(facts.is_same_but_time(&later));
        for other in [
            CallFacts { chain: Vec::new(), ..facts.clone() },
            CallFacts { effects: Vec::new(), ..facts.clone() },
            CallFacts { hosts: Vec::new(), ..facts.clone() },
            CallFacts { mode: SandboxMode::ReadOnly, ..facts.clone() },
            CallFacts { people: 1, ..facts.clone() },
            CallFacts { principal: "agent:other".parse().unwrap(), ..facts.clone() },
            CallFacts { tool: ToolFacts { isolation: 1, ..facts.tool.clone() }, ..facts.clone() },
            CallFacts { toolset: None, ..facts.clone() },
            CallFacts { workspace: None, ..facts.clone() },
        ] {
            assert!(!facts.is_same_but_time(&other), "{other:?}");
        }
    }
}
