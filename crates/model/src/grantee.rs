//! Who holds a grant: a principal, or a tool for whoever calls it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Failure;
use crate::id::ToolId;
use crate::principal::Principal;

/// `human:ada`, `agent:builder`, `service:ci` or `tool:file.read`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grantee {
    Principal(Principal),
    Tool(ToolId),
}

impl Grantee {
    pub fn is_principal(&self, principal: &Principal) -> bool {
        matches!(self, Grantee::Principal(held_by) if held_by == principal)
    }
}

impl From<Principal> for Grantee {
    fn from(principal: Principal) -> Self {
        Grantee::Principal(principal)
    }
}

impl From<ToolId> for Grantee {
    fn from(tool: ToolId) -> Self {
        Grantee::Tool(tool)
    }
}

impl FromStr for Grantee {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parsed = match text.strip_prefix("tool:") {
            Some(tool) => tool.parse().map(Grantee::Tool),
            None => text.parse().map(Grantee::Principal),
        };
        parsed.map_err(|_| {
            let message = format!("`{text}` cannot hold a grant");
            Failure::validation("GRANTEE_INVALID", message)
                .hint("write human:NAME, agent:NAME, service:NAME or tool:TOOL.ID")
        })
    }
}

impl fmt::Display for Grantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Grantee::Principal(principal) => principal.fmt(f),
            Grantee::Tool(tool) => write!(f, "tool:{tool}"),
        }
    }
}

impl Serialize for Grantee {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grantee {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grantees_are_principals_or_tools() {
        for good in ["human:ada", "agent:x", "service:ci", "tool:file.read"] {
            let grantee: Grantee = good.parse().unwrap();
            assert_eq!(grantee.to_string(), good);
            let json = serde_json::to_string(&grantee).unwrap();
            assert_eq!(serde_json::from_str::<Grantee>(&json).unwrap(), grantee);
        }
        for bad in ["", "ada", "tool:", "tool:file", "tool:human:ada", "role:admin", "file.read"] {
            assert_eq!(bad.parse::<Grantee>().unwrap_err().code, "GRANTEE_INVALID", "{bad}");
        }
    }
}
