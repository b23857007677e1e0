//! What a tool says about itself before anything may call it (RFC-0001 section 4.1).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::Capability;
use crate::digest::Digest;
use crate::error::Failure;
use crate::facts::SafetyTier;
use crate::id::ToolId;
use crate::json::{JsonLimits, parse_strict};
use crate::lint::{Finding, lint};

/// A declaration is two schemas of 256 KiB at most; the rest is small.
const LIMITS: JsonLimits = JsonLimits { max_bytes: 512 * 1024, max_depth: 72 };

/// Barriers of a sandbox that a declaration may do without where the machine lacks them.
pub const ALL_BARRIERS: &[&str] = &["memory", "processes", "landlock", "seccomp"];

/// How WebAssembly files are called. Text (`.wat`) is assembled by whoever writes it.
pub(crate) const WASM_EXTENSION: &str = ".wasm";

/// A tool's declaration. [`Declaration::parse`] is the way in: it refuses what [`lint`] finds.
/// Deserialising trusts that the text was accepted before, as a stored declaration was.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Declaration {
    pub id: ToolId,
    pub version: Version,
    pub name: String,
    pub description: String,
    pub input_schema: Value,
    pub output_schema: Value,
    pub required_capabilities: Vec<Capability>,
    pub resource_limits: ResourceLimits,
    pub deterministic: bool,
    pub idempotent: bool,
    pub runtime: Runtime,
    /// What it does to data, as its author says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub safety_tier: Option<SafetyTier>,
}

/// What one call may use. Time is in milliseconds, memory and files are in bytes.
///
/// INVARIANT: fields stand in the order of their JSON names; see [`crate::event`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceLimits {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cpu_time: Option<u64>,
    pub max_execution_time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_descriptors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_size: Option<u64>,
    /// Files, directories and links that a sandboxed program may make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_inodes: Option<u64>,
    pub max_memory: u64,
    /// What a sandboxed program may write to each of its output streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u32>,
    /// Threads of all processes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_threads: Option<u32>,
    /// Everything that a sandboxed program may write to files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_total_size: Option<u64>,
}

/// What runs the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub enum Runtime {
    /// Code of this program, trusted as it is.
    Builtin { handler: String },
    /// A program of the operating system, in a sandbox.
    Process(ProcessRuntime),
    /// A WebAssembly module or component.
    Wasm(WasmRuntime),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessRuntime {
    /// The program and its arguments; never a line for a shell.
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The tool's own files, seen as `/tool`: a directory beside the declaration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Hosts that it may reach, as `host` or `host:port`, through the egress proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default = "full_isolation")]
    pub isolation: u8,
    /// What may be enforced more weakly than asked where the machine lacks something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub may_be_weaker: Vec<String>,
    /// Sandboxes to keep prepared ahead.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warm: u32,
    /// Whether it sees the call's root as `/workspace`, and how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceAccess>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WasmRuntime {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The most instructions that one call may execute, as wasmtime counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// A `.wasm` file beside the declaration.
    pub module: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceAccess>,
}

/// How a sandboxed program sees the call's root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WorkspaceAccess {
    Read,
    /// Changes are staged and published by the commit.
    Write,
}

fn full_isolation() -> u8 {
    2
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Declaration {
    /// Reads a declaration, or says everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Finding>> {
        let value = parse_strict(bytes, &LIMITS).map_err(|failure| vec![failure.into()])?;
        Self::from_value(value)
    }

    pub fn from_value(value: Value) -> Result<Self, Vec<Finding>> {
        let findings = lint(&value);
        if !findings.is_empty() {
            return Err(findings);
        }
        serde_json::from_value(value).map_err(|error| vec![Finding::unreadable(&error)])
    }

    /// The digest calls are pinned to: SHA-256 over the canonical JSON of the whole declaration.
    pub fn digest(&self) -> Digest {
        // Every key is a string and every number finite, so there always is canonical JSON. If
        // that ever broke, the zero digest matches no declaration that was pinned before.
        Digest::of_json(self).unwrap_or(Digest::ZERO)
    }

    pub fn tool_ref(&self) -> ToolRef {
        ToolRef { id: self.id.clone(), version: Some(self.version.clone()) }
    }
}

/// How a caller names a tool: `file.read`, or `file.read@1.0.0` for exactly that version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolRef {
    pub id: ToolId,
    pub version: Option<Version>,
}

impl FromStr for ToolRef {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let Some((id, version)) = text.split_once('@') else {
            return Ok(ToolRef { id: text.parse()?, version: None });
        };
        let version = Version::parse(version).map_err(|_| {
            Failure::validation("TOOL_VERSION_INVALID", format!("`{version}` is not a version"))
                .hint("write the tool as id@1.2.3, or leave the version out")
        })?;
        Ok(ToolRef { id: id.parse()?, version: Some(version) })
    }
}

impl fmt::Display for ToolRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}@{version}", self.id),
            None => self.id.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_named_with_or_without_a_version() {
        for text in ["file.read", "file.read@1.0.0", "a.b@1.0.0-rc.1+x"] {
            assert_eq!(text.parse::<ToolRef>().unwrap().to_string(), text);
        }
        for (text, code) in [
            ("file", "TOOL_ID_INVALID"),
            ("file@1.0.0", "TOOL_ID_INVALID"),
            ("file.read@", "TOOL_VERSION_INVALID"),
            ("file.read@1.0", "TOOL_VERSION_INVALID"),
            ("file.read@1.0.0@2.0.0", "TOOL_VERSION_INVALID"),
        ] {
            assert_eq!(text.parse::<ToolRef>().unwrap_err().code, code, "{text}");
        }
    }
}
