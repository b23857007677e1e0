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

/// What a key is good for. The list is closed: a new word is a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    /// Change principals, keys, grants, tools, policy and configuration.
    Admin,
    /// Decide on what waits for a human.
    Approve,
    /// Call tools, as far as grants and policy allow.
    Call,
    /// Read what the key's principal may see.
    Read,
}

impl KeyScope {
    pub const ALL: [KeyScope; 4] =
        [KeyScope::Admin, KeyScope::Approve, KeyScope::Call, KeyScope::Read];

    pub fn as_str(self) -> &'static str {
        match self {
            KeyScope::Admin => "admin",
            KeyScope::Approve => "approve",
            KeyScope::Call => "call",
            KeyScope::Read => "read",
        }
    }

    /// Whether no agent and no service may ever have it: each would let a machine widen its own
    /// rights.
    pub fn is_for_humans(self) -> bool {
        matches!(self, KeyScope::Admin | KeyScope::Approve)
    }

    /// What a key is good for when nobody says so: never to change the rules.
    pub fn defaults(principal: &Principal) -> BTreeSet<KeyScope> {
        let usual = |scope: &KeyScope| match scope {
            KeyScope::Admin => false,
            KeyScope::Approve => principal.is_human(),
            KeyScope::Call | KeyScope::Read => true,
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
                .hint("scopes of keys are admin, approve, call and read")
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
        for bad in ["", "Call", "write", "approve ", "*"] {
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
}
