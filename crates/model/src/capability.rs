//! The closed tree of permissions. What a capability may be used on is a scope's business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Failure;

/// One leaf of the tree of RFC-0003. A parent such as `filesystem` is not a capability, so holding
/// one leaf never implies another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    FilesystemRead,
    FilesystemWrite,
    FilesystemDelete,
    FilesystemExecute,
    NetworkHttp,
    NetworkHttps,
    NetworkTcp,
    NetworkUdp,
    ProcessSpawn,
    ProcessKill,
    ProcessSignal,
    SystemEnv,
    SystemTime,
    SystemInfo,
    StateRead,
    StateWrite,
    StateDelete,
    AdminCapabilityGrant,
    AdminCapabilityRevoke,
    AdminToolInstall,
}

/// How much harm a careless or hostile use can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Risk {
    Low,
    Medium,
    High,
    Critical,
}

impl Capability {
    /// Every capability there is, in the order of the tree.
    pub const ALL: &'static [Capability] = &[
        Capability::FilesystemRead,
        Capability::FilesystemWrite,
        Capability::FilesystemDelete,
        Capability::FilesystemExecute,
        Capability::NetworkHttp,
        Capability::NetworkHttps,
        Capability::NetworkTcp,
        Capability::NetworkUdp,
        Capability::ProcessSpawn,
        Capability::ProcessKill,
        Capability::ProcessSignal,
        Capability::SystemEnv,
        Capability::SystemTime,
        Capability::SystemInfo,
        Capability::StateRead,
        Capability::StateWrite,
        Capability::StateDelete,
        Capability::AdminCapabilityGrant,
        Capability::AdminCapabilityRevoke,
        Capability::AdminToolInstall,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Capability::FilesystemRead => "filesystem.read",
            Capability::FilesystemWrite => "filesystem.write",
            Capability::FilesystemDelete => "filesystem.delete",
            Capability::FilesystemExecute => "filesystem.execute",
            Capability::NetworkHttp => "network.http",
            Capability::NetworkHttps => "network.https",
            Capability::NetworkTcp => "network.tcp",
            Capability::NetworkUdp => "network.udp",
            Capability::ProcessSpawn => "process.spawn",
            Capability::ProcessKill => "process.kill",
            Capability::ProcessSignal => "process.signal",
            Capability::SystemEnv => "system.env",
            Capability::SystemTime => "system.time",
            Capability::SystemInfo => "system.info",
            Capability::StateRead => "state.read",
            Capability::StateWrite => "state.write",
            Capability::StateDelete => "state.delete",
            Capability::AdminCapabilityGrant => "admin.capability.grant",
            Capability::AdminCapabilityRevoke => "admin.capability.revoke",
            Capability::AdminToolInstall => "admin.tool.install",
        }
    }

    /// What must be held as well, one step away.
    pub const fn requires(self) -> &'static [Capability] {
        match self {
            Capability::FilesystemWrite
            | Capability::FilesystemDelete
            | Capability::FilesystemExecute => &[Capability::FilesystemRead],
            Capability::ProcessSpawn => &[Capability::FilesystemExecute],
            _ => &[],
        }
    }

    /// Everything that must be held as well, however many steps away, deepest first: the order in
    /// which a person has to grant them. Written out because every call asks.
    pub const fn requires_all(self) -> &'static [Capability] {
        match self {
            Capability::ProcessSpawn => {
                &[Capability::FilesystemRead, Capability::FilesystemExecute]
            }
            other => other.requires(),
        }
    }

    /// RFC-0003 rates the first three branches; the rest are our choice, with the reason beside it.
    pub const fn risk(self) -> Risk {
        match self {
            Capability::FilesystemRead => Risk::Medium,
            Capability::FilesystemWrite | Capability::FilesystemDelete => Risk::High,
            Capability::FilesystemExecute => Risk::Critical,
            Capability::NetworkHttp | Capability::NetworkHttps => Risk::Medium,
            Capability::NetworkTcp | Capability::NetworkUdp => Risk::High,
            Capability::ProcessSpawn => Risk::Critical,
            Capability::ProcessKill => Risk::High,
            Capability::ProcessSignal => Risk::Medium,
            // Environment variables are where secrets are kept most often.
            Capability::SystemEnv => Risk::High,
            // These tell a tool when and on what it runs: they cost determinism, nothing else.
            Capability::SystemTime | Capability::SystemInfo => Risk::Low,
            // State lives inside the host's transactions: a read leaks only what tools put there,
            // a write can be undone by another, a deleted key is gone once the call completes.
            Capability::StateRead => Risk::Low,
            Capability::StateWrite => Risk::Medium,
            Capability::StateDelete => Risk::High,
            // Whoever holds one of these can reach every other capability.
            Capability::AdminCapabilityGrant
            | Capability::AdminCapabilityRevoke
            | Capability::AdminToolInstall => Risk::Critical,
        }
    }

    fn list(choose: impl Fn(&str) -> bool) -> String {
        let names: Vec<_> = Self::ALL.iter().map(|c| c.as_str()).filter(|n| choose(n)).collect();
        names.join(", ")
    }
}

impl FromStr for Capability {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        Self::ALL.iter().copied().find(|c| c.as_str() == text).ok_or_else(|| unknown(text))
    }
}

fn unknown(text: &str) -> Failure {
    let children = Capability::list(|name| is_parent(text, name));
    if !children.is_empty() {
        let message = format!("`{text}` is a group of capabilities, not a capability");
        return Failure::validation("CAPABILITY_UNKNOWN", message)
            .hint(format!("name the ones you mean: {children}"));
    }
    let hint = match nearest(text) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the capabilities are {}", Capability::list(|_| true)),
    };
    Failure::validation("CAPABILITY_UNKNOWN", format!("`{text}` is not a capability")).hint(hint)
}

fn is_parent(text: &str, name: &str) -> bool {
    name.strip_prefix(text).is_some_and(|rest| rest.starts_with('.'))
}

/// Three slips of the finger at most; beyond that a suggestion is a guess.
fn nearest(text: &str) -> Option<Capability> {
    const MAX_SLIPS: usize = 3;
    // Strangers send this text: a long one is not worth comparing.
    let short = (text.len() <= 64).then_some(text)?;
    let scored = Capability::ALL.iter().map(|&c| (slips(short, c.as_str()), c));
    scored.min().filter(|&(slips, _)| slips <= MAX_SLIPS).map(|(_, capability)| capability)
}

/// Levenshtein's distance, one row at a time.
fn slips(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.bytes().enumerate() {
        let (mut diagonal, mut left) = (i, i + 1);
        for (cell, to) in row.iter_mut().skip(1).zip(b.bytes()) {
            let swapped = diagonal + usize::from(from != to);
            diagonal = *cell;
            left = swapped.min(left + 1).min(*cell + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_default()
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Capability {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Capability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> Failure {
        let failure = text.parse::<Capability>().unwrap_err();
        assert_eq!(failure.code, "CAPABILITY_UNKNOWN");
        failure
    }

    #[test]
    fn every_capability_round_trips_and_is_listed_once() {
        assert_eq!(Capability::ALL.len(), 20);
        assert!(Capability::ALL.is_sorted_by(|a, b| a < b));
        for &capability in Capability::ALL {
            assert_eq!(capability.as_str().parse::<Capability>().unwrap(), capability);
            let json = serde_json::to_string(&capability).unwrap();
            assert_eq!(json, format!("\"{capability}\""));
            assert_eq!(serde_json::from_str::<Capability>(&json).unwrap(), capability);
        }
    }

    #[test]
    fn a_parent_is_not_a_capability_and_names_its_children() {
        let failure = refusal("filesystem");
        assert_eq!(failure.message, "`filesystem` is a group of capabilities, not a capability");
        let children = "filesystem.read, filesystem.write, filesystem.delete, filesystem.execute";
        assert!(failure.hint.unwrap().ends_with(children));
        assert!(refusal("admin.capability").hint.unwrap().contains("admin.capability.revoke"));
    }

    #[test]
    fn a_slip_is_corrected_and_a_guess_gets_the_list() {
        assert_eq!(refusal("filesystem.raed").hint.unwrap(), "did you mean `filesystem.read`?");
        assert_eq!(refusal("network.htps").hint.unwrap(), "did you mean `network.https`?");
        for text in ["", "files", "Filesystem.Read.All", "a".repeat(100_000).as_str()] {
            assert!(refusal(text).hint.unwrap().contains("admin.tool.install"), "{text:.20}");
        }
    }

    #[test]
    fn requires_all_is_the_closure_of_requires() {
        for &capability in Capability::ALL {
            let mut closure = Vec::new();
            let mut open = capability.requires().to_vec();
            while let Some(next) = open.pop() {
                closure.push(next);
                open.extend(next.requires());
            }
            closure.reverse();
            assert_eq!(capability.requires_all(), closure, "{capability}");
        }
    }

    #[test]
    fn nothing_is_riskier_than_what_needs_it() {
        for &capability in Capability::ALL {
            assert!(capability.requires_all().iter().all(|r| r.risk() <= capability.risk()));
        }
    }
}
