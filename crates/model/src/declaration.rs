//! What a tool says about itself before anything may call it (RFC-0001 section 4.1).

use std::fmt;
use std::str::FromStr;

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::capability::Capability;
use crate::digest::Digest;
use crate::error::Failure;
use crate::id::ToolId;
use crate::json::{JsonLimits, parse_strict};
use crate::lint::{Finding, lint};

/// A declaration is two schemas of 256 KiB at most; the rest is small.
const LIMITS: JsonLimits = JsonLimits { max_bytes: 512 * 1024, max_depth: 72 };

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
}

/// What one call may use. Time is in milliseconds, memory and files are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceLimits {
    pub max_execution_time: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_descriptors: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_size: Option<u64>,
    pub max_memory: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_processes: Option<u32>,
}

/// What runs the tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub enum Runtime {
    /// Code of this program, trusted as it is.
    Builtin { handler: String },
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
