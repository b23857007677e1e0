//! What a call changes, described so that it can be published twice, checked, and undone.

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical_json};

/// A value kept outside the journal: the journal pins it by digest, so it can be checked on every
/// read, and could be erased without breaking the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payload {
    pub digest: Digest,
    pub size: u64,
}

impl Payload {
    pub fn of(bytes: &[u8]) -> Self {
        Payload { digest: Digest::of(bytes), size: bytes.len() as u64 }
    }
}

/// A file as it stood at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub digest: Digest,
    /// Permission bits only.
    pub mode: u32,
    pub size: u64,
}

/// A named output of a program, kept by its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    pub digest: Digest,
    #[serde(default, rename = "mediaType", skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Its path beneath `/out`, or as a built-in tool calls it.
    pub name: String,
    pub size: u64,
}

/// One change. Paths are relative to the call's root and use `/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Effect {
    /// Permission bits of a directory that stays.
    DirectoryChanged {
        after: u32,
        before: u32,
        path: String,
    },
    DirectoryCreated {
        /// Permission bits; without them the usual ones.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<u32>,
        path: String,
    },
    DirectoryDeleted {
        before: u32,
        path: String,
    },
    FileWritten {
        after: Image,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Image>,
        path: String,
    },
    FileDeleted {
        before: Image,
        path: String,
    },
    /// A symbolic link and what it points to.
    LinkWritten {
        after: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        path: String,
    },
    LinkDeleted {
        before: String,
        path: String,
    },
    /// A branch of a repository points to another commit.
    RefMoved {
        after: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        reference: String,
        repository: String,
    },
    StatePut {
        after: Digest,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<Digest>,
        key: String,
    },
    StateDeleted {
        before: Digest,
        key: String,
    },
}

impl Effect {
    /// Key-value changes commit together with the journal entry; only files are published after it.
    pub fn needs_publishing(&self) -> bool {
        !matches!(self, Effect::StatePut { .. } | Effect::StateDeleted { .. })
    }

    /// Whether it takes something away and puts nothing in its place.
    pub fn is_removal(&self) -> bool {
        matches!(
            self,
            Effect::DirectoryDeleted { .. }
                | Effect::FileDeleted { .. }
                | Effect::LinkDeleted { .. }
                | Effect::StateDeleted { .. }
        )
    }

    /// Whether it is a file, link or directory beneath the root.
    pub fn is_file(&self) -> bool {
        self.needs_publishing() && !matches!(self, Effect::RefMoved { .. })
    }

    /// What changed: a path, a reference or a key.
    pub fn target(&self) -> &str {
        match self {
            Effect::DirectoryChanged { path, .. }
            | Effect::DirectoryCreated { path, .. }
            | Effect::DirectoryDeleted { path, .. }
            | Effect::LinkWritten { path, .. }
            | Effect::LinkDeleted { path, .. }
            | Effect::FileWritten { path, .. }
            | Effect::FileDeleted { path, .. } => path,
            Effect::RefMoved { reference, .. } => reference,
            Effect::StatePut { key, .. } | Effect::StateDeleted { key, .. } => key,
        }
    }
}

/// The part of the world that a call may change, as it stands: every file and key in its write set.
///
/// Its digest is taken when the transaction begins and again after a rollback; equal digests are
/// the proof that nothing was left behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StateImage {
    pub files: Vec<(String, Option<Image>)>,
    pub keys: Vec<(String, Option<Digest>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<(String, Option<String>)>,
    /// Everything beneath the root, for a call that may change any of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Digest>,
}

impl StateImage {
    pub fn digest(&self) -> Digest {
        // Strings, digests and integers always have canonical JSON; an empty fallback would only
        // ever compare unequal, which is the safe direction.
        canonical_json(self).map_or(Digest::ZERO, |bytes| Digest::of(&bytes))
    }
}
