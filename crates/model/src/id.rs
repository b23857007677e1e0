//! Names that cannot be mixed up: every id is its own type, parsed once at the edge.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::error::Failure;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            pub const fn from_uuid(uuid: Uuid) -> Self {
                $name(uuid)
            }

            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Failure;

            fn from_str(text: &str) -> Result<Self, Failure> {
                Uuid::try_parse(text).map($name).map_err(|_| {
                    Failure::validation("ID_INVALID", format!(concat!("`{}` is not ", $what), text))
                        .hint("ids look like 019a7c3e-0000-7000-8000-000000000000")
                })
            }
        }
    };
}

uuid_id!(
    /// One execution of one tool. Version 7, so ids sort by the time they were made.
    ExecutionId,
    "an execution id"
);
uuid_id!(
    /// One signed grant.
    GrantId,
    "a grant id"
);
uuid_id!(
    /// One key of one principal. It says nothing about the secret.
    KeyId,
    "a key id"
);
uuid_id!(
    /// One attempt's transaction.
    TransactionId,
    "a transaction id"
);
uuid_id!(
    /// One home, for as long as its journal lives.
    HomeId,
    "a home id"
);
uuid_id!(
    /// One process at work on a home.
    HostId,
    "a host id"
);

/// The name of a tool: at least two dotted segments, such as `file.read`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ToolId(String);

impl ToolId {
    pub const PATTERN: &'static str = "^[a-z][a-z0-9-]*(\\.[a-z][a-z0-9-]*)+$";
    const MAX_LEN: usize = 128;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_valid(text: &str) -> bool {
        text.len() <= Self::MAX_LEN && text.contains('.') && text.split('.').all(is_segment)
    }
}

fn is_segment(segment: &str) -> bool {
    segment.starts_with(|c: char| c.is_ascii_lowercase())
        && segment.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

impl FromStr for ToolId {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        if Self::is_valid(text) {
            return Ok(ToolId(text.to_owned()));
        }
        Err(Failure::validation("TOOL_ID_INVALID", format!("`{text}` is not a tool id"))
            .hint(format!("tool ids match {} and have at most 128 characters", Self::PATTERN)))
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ToolId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ToolId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_ids_need_two_lowercase_segments() {
        for good in ["file.read", "a.b", "git-hub.issue-1.x2"] {
            assert!(good.parse::<ToolId>().is_ok(), "{good}");
        }
        for bad in ["", "file", "File.read", "file.", ".read", "file..read", "1a.b", "a.-b", "a.b "]
        {
            assert_eq!(bad.parse::<ToolId>().unwrap_err().code, "TOOL_ID_INVALID", "{bad}");
        }
        assert!(format!("a.{}", "b".repeat(127)).parse::<ToolId>().is_err());
    }

    #[test]
    fn ids_of_different_kinds_parse_only_uuids() {
        assert_eq!("x".parse::<ExecutionId>().unwrap_err().code, "ID_INVALID");
        let id: GrantId = "019a7c3e-0000-7000-8000-000000000000".parse().unwrap();
        assert_eq!(id.to_string(), "019a7c3e-0000-7000-8000-000000000000");
    }
}
