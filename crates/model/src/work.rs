//! Where actions work and what they leave: workspaces, runs and artifacts.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::digest::{Digest, Hasher};
use crate::effect::Artifact;
use crate::error::Failure;
use crate::id::ExecutionId;
use crate::principal::Principal;
use crate::record::CallSummary;
use crate::time::Timestamp;

/// A name that may stand in a path: letters, digits, `_`, `-` and `.`, not first.
fn is_name(text: &str, most: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    text.len() <= most
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $valid:expr, $what:literal, $code:literal, $hint:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Failure;

            fn from_str(text: &str) -> Result<Self, Failure> {
                let is_valid: fn(&str) -> bool = $valid;
                if is_valid(text) {
                    return Ok($name(text.to_owned()));
                }
                let shown = text.chars().take(80).collect::<String>();
                let message = format!(concat!("`{}` is not ", $what), shown.escape_debug());
                Err(Failure::validation($code, message).hint($hint))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

text_id!(
    /// A registered workspace.
    WorkspaceId,
    |text| is_name(text, 64),
    "a workspace id",
    "WORKSPACE_ID_INVALID",
    "up to 64 letters, digits, `_`, `-` and `.`, such as `app`"
);
text_id!(
    /// A row of calls that belong together and share a private worktree.
    RunId,
    |text| is_name(text, 64),
    "a run id",
    "RUN_ID_INVALID",
    "up to 64 letters, digits, `_`, `-` and `.`, such as `run_123`"
);
text_id!(
    /// One artifact of one call.
    ArtifactId,
    is_artifact_id,
    "an artifact id",
    "ARTIFACT_ID_INVALID",
    "artifact ids look like art_0123456789abcdef0123456789abcdef"
);

const ARTIFACT: &str = "art_";

fn is_artifact_id(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    text.strip_prefix(ARTIFACT).is_some_and(|rest| rest.len() == 32 && rest.chars().all(hex))
}

impl ArtifactId {
    /// Whether a text is meant as an id, not as a name.
    pub fn is_meant(text: &str) -> bool {
        is_artifact_id(text)
    }

    /// Every call has its own artifacts, even where the content is the same.
    pub fn of(execution: ExecutionId, name: &str) -> Self {
        let mut hasher = Hasher::default();
        hasher.update(execution.as_uuid().as_bytes());
        hasher.update(name.as_bytes());
        let digest = hasher.finish().to_string();
        ArtifactId(format!("{ARTIFACT}{}", digest.chars().take(32).collect::<String>()))
    }
}

/// On what a call of a run works: exactly this, whatever happens to the workspace meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Work {
    /// The commit that the run started from.
    pub base: String,
    pub run: RunId,
    /// All files of the run's worktree as the call found them: the id of a git tree.
    pub tree: String,
    pub workspace: WorkspaceId,
}

/// An artifact that a call was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consumed {
    pub artifact: ArtifactId,
    pub digest: Digest,
}

/// A registered workspace, as people named it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workspace {
    pub added_at: Timestamp,
    pub added_by: Principal,
    /// Where the branch stood when it was added; a run starts from where it stands then.
    pub base: String,
    pub branch: String,
    pub id: WorkspaceId,
    pub path: String,
}

/// What happens to workspaces.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum WorkspaceEvent {
    Added {
        workspace: Workspace,
    },
    /// What a run had not committed was put aside, and its worktree laid out anew.
    Reset {
        at: Timestamp,
        base: String,
        by: Principal,
        run: RunId,
        /// What stood there; the run's private repository keeps it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tree: Option<String>,
        workspace: WorkspaceId,
    },
    Removed {
        at: Timestamp,
        by: Principal,
        workspace: WorkspaceId,
    },
}

/// What happens to artifacts after the call that made them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ArtifactEvent {
    /// Their contents were let go of, as the rules of retention say.
    Collected { artifacts: Vec<ArtifactId>, at: Timestamp, by: Principal },
}

/// An artifact as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArtifactRecord {
    pub at: Timestamp,
    /// When its content was let go of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<Timestamp>,
    pub digest: Digest,
    pub id: ArtifactId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub name: String,
    pub producer: ExecutionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
}

impl ArtifactRecord {
    /// What a call left when it committed.
    pub fn of(at: Timestamp, call: &CallSummary, made: &Artifact) -> Self {
        let work = call.work.as_ref();
        ArtifactRecord {
            at,
            collected_at: None,
            digest: made.digest,
            id: ArtifactId::of(call.execution, &made.name),
            media_type: made.media_type.clone(),
            name: made.name.clone(),
            producer: call.execution,
            run: work.map(|work| work.run.clone()),
            size: made.size,
            workspace: work.map(|work| work.workspace.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere() {
        for good in ["a", "run_123", "A.b-c", "0"] {
            assert!(good.parse::<RunId>().is_ok(), "{good}");
            assert!(good.parse::<WorkspaceId>().is_ok(), "{good}");
        }
        let long = "a".repeat(65);
        for bad in ["", ".", "..", "-a", "_a", "a/b", "a b", "é", "a\n", &long] {
            assert_eq!(bad.parse::<RunId>().unwrap_err().code, "RUN_ID_INVALID", "{bad}");
            let code = bad.parse::<WorkspaceId>().unwrap_err().code;
            assert_eq!(code, "WORKSPACE_ID_INVALID", "{bad}");
        }
    }

    #[test]
    fn artifacts_are_named_after_call_and_name() {
        let one = "019a7c3e-0000-7000-8000-000000000001".parse().unwrap();
        let two = "019a7c3e-0000-7000-8000-000000000002".parse().unwrap();
        let id = ArtifactId::of(one, "log");
        assert_eq!(id.as_str().parse::<ArtifactId>().unwrap(), id);
        assert_ne!(id, ArtifactId::of(two, "log"));
        assert_ne!(id, ArtifactId::of(one, "lo"));
        assert!("art_x".parse::<ArtifactId>().is_err() && !ArtifactId::is_meant("report.xml"));
    }
}
