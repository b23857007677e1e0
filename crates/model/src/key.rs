//! What a home keeps of a key: everything but the secret, which is in `token` and nowhere else.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::digest::{Digest, canonical_json};
use crate::error::Failure;
use crate::grant::GrantSignature;
use crate::id::KeyId;
use crate::principal::Principal;
use crate::time::Timestamp;

/// What a key is good for. The list is closed: a new word is a decision. No scope implies another.
///
/// The first four are for this machine; those with a colon are for the HTTP host, in the words of
/// OpenWOP. New ones come last: the order is that of the signed records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyScope {
    /// Change principals, keys, grants, tools, policy and configuration.
    #[serde(rename = "admin")]
    Admin,
    /// Decide on what waits for a human.
    #[serde(rename = "approve")]
    Approve,
    /// Call tools, as far as grants and policy allow.
    #[serde(rename = "call")]
    Call,
    /// Read what the key's principal may see.
    #[serde(rename = "read")]
    Read,
    #[serde(rename = "manifest:read")]
    ManifestRead,
    #[serde(rename = "runs:create")]
    RunsCreate,
    #[serde(rename = "runs:read")]
    RunsRead,
    #[serde(rename = "runs:cancel")]
    RunsCancel,
    #[serde(rename = "artifacts:read")]
    ArtifactsRead,
    #[serde(rename = "webhooks:manage")]
    WebhooksManage,
    #[serde(rename = "approvals:respond")]
    ApprovalsRespond,
    #[serde(rename = "audit:read")]
    AuditRead,
    #[serde(rename = "workspace:read")]
    WorkspaceRead,
    #[serde(rename = "workspace:write")]
    WorkspaceWrite,
    #[serde(rename = "prompts:read")]
    PromptsRead,
    #[serde(rename = "prompts:write")]
    PromptsWrite,
    #[serde(rename = "packs:read")]
    PacksRead,
    #[serde(rename = "packs:publish")]
    PacksPublish,
    #[serde(rename = "packs:yank")]
    PacksYank,
    #[serde(rename = "packs:yank-revert")]
    PacksYankRevert,
}

impl KeyScope {
    pub const ALL: [KeyScope; 20] = [
        KeyScope::Admin,
        KeyScope::Approve,
        KeyScope::Call,
        KeyScope::Read,
        KeyScope::ManifestRead,
        KeyScope::RunsCreate,
        KeyScope::RunsRead,
        KeyScope::RunsCancel,
        KeyScope::ArtifactsRead,
        KeyScope::WebhooksManage,
        KeyScope::ApprovalsRespond,
        KeyScope::AuditRead,
        KeyScope::WorkspaceRead,
        KeyScope::WorkspaceWrite,
        KeyScope::PromptsRead,
        KeyScope::PromptsWrite,
        KeyScope::PacksRead,
        KeyScope::PacksPublish,
        KeyScope::PacksYank,
        KeyScope::PacksYankRevert,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            KeyScope::Admin => "admin",
            KeyScope::Approve => "approve",
            KeyScope::Call => "call",
            KeyScope::Read => "read",
            KeyScope::ManifestRead => "manifest:read",
            KeyScope::RunsCreate => "runs:create",
            KeyScope::RunsRead => "runs:read",
            KeyScope::RunsCancel => "runs:cancel",
            KeyScope::ArtifactsRead => "artifacts:read",
            KeyScope::WebhooksManage => "webhooks:manage",
            KeyScope::ApprovalsRespond => "approvals:respond",
            KeyScope::AuditRead => "audit:read",
            KeyScope::WorkspaceRead => "workspace:read",
            KeyScope::WorkspaceWrite => "workspace:write",
            KeyScope::PromptsRead => "prompts:read",
            KeyScope::PromptsWrite => "prompts:write",
            KeyScope::PacksRead => "packs:read",
            KeyScope::PacksPublish => "packs:publish",
            KeyScope::PacksYank => "packs:yank",
            KeyScope::PacksYankRevert => "packs:yank-revert",
        }
    }

    /// Whether no agent and no service may ever have it: each would let a machine widen its own
    /// rights.
    pub fn is_for_humans(self) -> bool {
        matches!(self, KeyScope::Admin | KeyScope::Approve)
    }

    /// All words there are, for messages.
    pub(crate) fn hint() -> String {
        let words = KeyScope::ALL.map(KeyScope::as_str).join(", ");
        format!("scopes of keys are {words}")
    }

    /// What a key is good for when nobody says so: never to change the rules.
    pub fn defaults(principal: &Principal) -> BTreeSet<KeyScope> {
        let usual = |scope: &KeyScope| match scope {
            KeyScope::Admin => false,
            KeyScope::Approve => principal.is_human(),
            KeyScope::Call | KeyScope::Read => true,
            // What reaches over the network is asked for by name.
            _ => false,
        };
        KeyScope::ALL.into_iter().filter(usual).collect()
    }
}

impl fmt::Display for KeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for KeyScope {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let found = KeyScope::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| {
            Failure::validation("KEY_SCOPE_INVALID", format!("`{text}` is not the scope of a key"))
                .hint(KeyScope::hint())
        })
    }
}

/// An Ed25519 public key, written like a digest: 64 lowercase hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PublicKey(Digest);

impl PublicKey {
    pub fn verifying_key(&self) -> Result<VerifyingKey, Failure> {
        VerifyingKey::from_bytes(self.0.as_bytes())
            .map_err(|_| Failure::state("KEY_DAMAGED", "the public half of a key is no point"))
    }
}

impl From<&VerifyingKey> for PublicKey {
    fn from(key: &VerifyingKey) -> Self {
        PublicKey(Digest::from_bytes(key.to_bytes()))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A key as it was made. Fields stand in the order of their JSON names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyRecord {
    pub created_at: Timestamp,
    pub created_by: Principal,
    pub expires_at: Timestamp,
    /// Of the secret. A plain hash will do: the secret is random, so nobody can try them all.
    pub hash: Digest,
    pub id: KeyId,
    pub principal: Principal,
    /// The key that this one follows in a rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<KeyId>,
    pub scopes: BTreeSet<KeyScope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Checks what was signed with the key; only its holder can sign.
    pub verifier: PublicKey,
}

/// Keeps these signatures apart from every other use of the same key.
const DOMAIN: &[u8] = b"countersign-key-record-v1\n";

impl KeyRecord {
    /// The home's word that it made this key, as for a grant: whoever can write to the database but
    /// has not the home's key cannot make one.
    pub fn sign(&self, authority: &SigningKey) -> Result<GrantSignature, Failure> {
        let message = self.signed_bytes().ok_or_else(|| {
            Failure::validation("KEY_UNSIGNABLE", "the key's times are too far away to sign")
        })?;
        Ok(GrantSignature::from_bytes(authority.sign(&message).to_bytes()))
    }

    pub fn is_genuine(&self, signature: &GrantSignature, authority: &VerifyingKey) -> bool {
        let signature = Signature::from_bytes(signature.as_bytes());
        self.signed_bytes().is_some_and(|m| authority.verify_strict(&m, &signature).is_ok())
    }

    fn signed_bytes(&self) -> Option<Vec<u8>> {
        let exact = self.created_at.is_exact() && self.expires_at.is_exact();
        let json = exact.then(|| canonical_json(self).ok())??;
        Some([DOMAIN, &json].concat())
    }

    /// A scope that this key's principal can never have.
    pub fn forbidden_scope(&self) -> Option<KeyScope> {
        let machine = !self.principal.is_human();
        self.scopes.iter().copied().find(|scope| machine && scope.is_for_humans())
    }

    pub fn allows(&self, scope: KeyScope) -> bool {
        self.scopes.contains(&scope) && (self.principal.is_human() || !scope.is_for_humans())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_a_closed_list() {
        for scope in KeyScope::ALL {
            assert_eq!(scope.to_string().parse::<KeyScope>().unwrap(), scope);
            assert_eq!(serde_json::to_string(&scope).unwrap(), format!("\"{scope}\""));
        }
        for bad in ["", "Call", "write", "approve ", "*", "runs", "runs:", "runs:*", "Runs:read"] {
            assert_eq!(bad.parse::<KeyScope>().unwrap_err().code, "KEY_SCOPE_INVALID", "{bad}");
        }
    }

    #[test]
    fn nobody_gets_admin_by_default_and_machines_never_approve() {
        let of = |who: &str| {
            let scopes = KeyScope::defaults(&who.parse().unwrap());
            scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(",")
        };
        assert_eq!(of("human:ada"), "approve,call,read");
        assert_eq!(of("agent:a"), "call,read");
        assert_eq!(of("service:ci"), "call,read");
    }

    /// Sets of scopes are signed as lists: the order of old ones must never change.
    #[test]
    fn new_scopes_come_after_the_old_ones() {
        let all: BTreeSet<KeyScope> = KeyScope::ALL.into_iter().collect();
        let written = serde_json::to_string(&all).unwrap();
        assert!(written.starts_with(r#"["admin","approve","call","read","manifest:read","#));
        assert_eq!(all.len(), KeyScope::ALL.len());
    }
}
