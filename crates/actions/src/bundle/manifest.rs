//! What is in a bundle.

use std::collections::BTreeSet;

use countersign_model::digest::canonical_json;
use countersign_model::{
    ArtifactId, ArtifactRecord, Digest, ExecutionId, Failure, Lifecycle, Principal, RunId,
    WorkspaceId,
};
use serde::{Deserialize, Serialize};

use crate::summary::Told;

/// Where it stands: first in the archive.
pub(super) const PATH: &str = "manifest.json";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub contract: u32,
    pub kind: String,
    pub run: RunId,
    pub workspace: WorkspaceId,
    pub branch: String,
    pub base: String,
    /// What was bundled. A worktree that is anything else has changed since.
    pub tree: String,
    /// The key that the receipts are verified with. Whoever verifies should know it from elsewhere.
    pub key: String,
    pub calls: Vec<BundledCall>,
    pub entries: Vec<BundledEntry>,
}

/// A call of the run, for readers; its receipt proves it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledCall {
    pub execution: ExecutionId,
    pub tool: String,
    pub principal: Principal,
    pub state: Lifecycle,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Principal>,
}

impl BundledCall {
    pub(super) fn of(told: &Told) -> Self {
        BundledCall {
            execution: told.execution,
            tool: told.tool.clone(),
            principal: told.principal.clone(),
            state: told.state,
            approved_by: told.approved_by.clone(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Diff,
    Artifact,
    Receipt,
}

/// One file of the archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledEntry {
    pub path: String,
    pub role: Role,
    pub sha256: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_id: Option<ArtifactId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<ExecutionId>,
}

impl BundledEntry {
    pub(super) fn of_diff(sha256: Digest, size: u64) -> Self {
        BundledEntry {
            path: "diff.patch".to_owned(),
            role: Role::Diff,
            sha256,
            size,
            name: None,
            media_type: None,
            artifact_id: None,
            execution: None,
        }
    }

    pub(super) fn of_artifact(record: &ArtifactRecord) -> Self {
        BundledEntry {
            path: format!("artifacts/{}", record.id),
            role: Role::Artifact,
            name: Some(record.name.clone()),
            media_type: record.media_type.clone(),
            artifact_id: Some(record.id.clone()),
            execution: Some(record.producer),
            ..Self::of_diff(record.digest, record.size)
        }
    }

    pub(super) fn of_receipt(execution: ExecutionId, receipt: &[u8]) -> Self {
        BundledEntry {
            path: format!("receipts/{execution}.json"),
            role: Role::Receipt,
            execution: Some(execution),
            ..Self::of_diff(Digest::of(receipt), receipt.len() as u64)
        }
    }
}

impl Manifest {
    pub(super) fn bytes(&self) -> Result<Vec<u8>, Failure> {
        canonical_json(self).map_err(|error| Failure::state("INTERNAL", error.to_string()))
    }

    pub fn digest(&self) -> Result<Digest, Failure> {
        Ok(Digest::of(&self.bytes()?))
    }

    /// Every file has a place of its own.
    pub(super) fn check_paths(&self) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        match self.entries.iter().find(|entry| !seen.insert(entry.path.as_str())) {
            None => Ok(()),
            Some(twice) => {
                let message = format!("`{}` is named twice", twice.path);
                Err(Failure::validation("ARTIFACT_TWICE", message))
            }
        }
    }
}
