//! What the host knows about a call before it runs: what policies bind, and what a person is shown.
//! Computed by the host, never taken from the caller's word.

use semver::Version;
use serde::{Deserialize, Serialize};

use crate::authorize::Need;
use crate::capability::{Capability, Risk};
use crate::digest::Digest;
use crate::id::ToolId;
use crate::mode::SandboxMode;
use crate::principal::Principal;
use crate::time::Timestamp;

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
