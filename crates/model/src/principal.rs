//! Who asks.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Failure;

/// Only humans may hold authority of their own; agents and services act on what they were granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PrincipalKind {
    Human,
    Agent,
    Service,
}

/// `human:<name>`, `agent:<name>` or `service:<name>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Principal {
    kind: PrincipalKind,
    name: String,
}

impl Principal {
    const MAX_NAME: usize = 64;

    pub fn kind(&self) -> PrincipalKind {
        self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn is_human(&self) -> bool {
        self.kind == PrincipalKind::Human
    }
}

/// Names are plain ASCII, so that no two principals look alike.
pub(crate) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    name.len() <= Principal::MAX_NAME
        && chars.next().is_some_and(|c| c.is_ascii_alphanumeric())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@'))
}

impl FromStr for Principal {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let parsed = text.split_once(':').and_then(|(kind, name)| {
            let kind = match kind {
                "human" => PrincipalKind::Human,
                "agent" => PrincipalKind::Agent,
                "service" => PrincipalKind::Service,
                _ => return None,
            };
            is_name(name).then(|| Principal { kind, name: name.to_owned() })
        });
        parsed.ok_or_else(|| {
            Failure::validation("PRINCIPAL_INVALID", format!("`{text}` is not a principal")).hint(
                "write human:NAME, agent:NAME or service:NAME; names use letters, digits and . _ - @",
            )
        })
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PrincipalKind::Human => "human",
            PrincipalKind::Agent => "agent",
            PrincipalKind::Service => "service",
        };
        write!(f, "{kind}:{}", self.name)
    }
}

impl Serialize for Principal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Principal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_have_a_kind_and_a_plain_name() {
        for good in ["human:ada", "agent:builder-2", "service:ci.main", "human:ada@example.org"] {
            assert_eq!(good.parse::<Principal>().unwrap().to_string(), good);
        }
        for bad in ["ada", "root:ada", "human:", "human:а", "agent:a b", "human:-x", "HUMAN:ada"] {
            assert_eq!(bad.parse::<Principal>().unwrap_err().code, "PRINCIPAL_INVALID", "{bad}");
        }
    }
}
