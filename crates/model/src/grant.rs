//! Signed statements that a grantee holds a capability. Whether one may be made is decided in
//! `issue`, whether one is good enough for a call in `authorize`.

use std::fmt;
use std::str::FromStr;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::capability::Capability;
use crate::digest::canonical_json;
use crate::error::Failure;
use crate::grantee::Grantee;
use crate::id::GrantId;
use crate::principal::Principal;
use crate::scope::Scope;
use crate::time::Timestamp;

/// Everything a grant says. All of it is signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GrantBody {
    pub id: GrantId,
    pub capability: Capability,
    pub grantee: Grantee,
    pub grantor: Principal,
    pub scope: Scope,
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// Whether the grantee may hand on a narrower, shorter grant of its own.
    pub delegable: bool,
    /// The grant this one was delegated from; none for a root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<GrantId>,
    /// Steps from the root, which has depth 0.
    pub depth: u8,
}

/// A body and its Ed25519 signature, as JSON one flat object: the body's fields and `signature`.
///
/// The body is open to reading and change, but only an unchanged one verifies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Wire")]
pub struct Grant {
    pub body: GrantBody,
    pub signature: GrantSignature,
}

/// An Ed25519 signature, written as 128 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct GrantSignature([u8; 64]);

/// Keeps these signatures apart from every other use of the same key.
const DOMAIN: &[u8] = b"countersign-grant-v1\n";

impl Grant {
    pub fn sign(body: GrantBody, key: &SigningKey) -> Result<Grant, Failure> {
        let message = body.signed_bytes().ok_or_else(|| {
            Failure::validation("GRANT_UNSIGNABLE", "the grant's times are too far away to sign")
        })?;
        let signature = GrantSignature(key.sign(&message).to_bytes());
        Ok(Grant { body, signature })
    }

    pub fn verify(&self, key: &VerifyingKey) -> Result<(), Failure> {
        let signature = Signature::from_bytes(&self.signature.0);
        let genuine = self
            .body
            .signed_bytes()
            .is_some_and(|message| key.verify_strict(&message, &signature).is_ok());
        genuine.then_some(()).ok_or_else(|| {
            let message = format!("the signature of grant `{}` does not fit it", self.body.id);
            Failure::authorization("GRANT_FORGED", message)
                .hint("it was changed, or signed with another home's key; ask for a new one")
        })
    }
}

impl GrantBody {
    /// A name for the contract, then the canonical JSON of every field.
    fn signed_bytes(&self) -> Option<Vec<u8>> {
        let exact = self.issued_at.is_exact() && self.expires_at.is_exact();
        let json = exact.then(|| canonical_json(self).ok())??;
        Some([DOMAIN, &json].concat())
    }
}

impl GrantSignature {
    pub const fn from_bytes(bytes: [u8; 64]) -> Self {
        GrantSignature(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 64] {
        &self.0
    }
}

impl FromStr for GrantSignature {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        decode(text).map(GrantSignature).ok_or_else(|| {
            let message = "a grant's signature is 128 lowercase hexadecimal digits";
            Failure::validation("GRANT_SIGNATURE_INVALID", message)
        })
    }
}

fn decode(text: &str) -> Option<[u8; 64]> {
    let mut bytes = [0u8; 64];
    if text.len() != 128 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = pair.iter().try_fold(0u8, |acc, &c| Some((acc << 4) | nibble(c)?))?;
    }
    Some(bytes)
}

/// Capitals are refused: a grant has one spelling only.
fn nibble(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for GrantSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for GrantSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GrantSignature({self})")
    }
}

impl Serialize for GrantSignature {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GrantSignature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The flat form. serde's `flatten` would let unknown fields through, and an unknown field of a
/// grant is one that nobody signed.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    id: GrantId,
    capability: Capability,
    grantee: Grantee,
    grantor: Principal,
    scope: Scope,
    issued_at: Timestamp,
    expires_at: Timestamp,
    delegable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<GrantId>,
    depth: u8,
    signature: GrantSignature,
}

#[rustfmt::skip]
impl From<Wire> for Grant {
    fn from(wire: Wire) -> Self {
        let Wire {
            id, capability, grantee, grantor, scope, issued_at, expires_at, delegable, parent,
            depth, signature,
        } = wire;
        let body = GrantBody {
            id, capability, grantee, grantor, scope, issued_at, expires_at, delegable, parent,
            depth,
        };
        Grant { body, signature }
    }
}

#[rustfmt::skip]
impl From<Grant> for Wire {
    fn from(Grant { body, signature }: Grant) -> Self {
        let GrantBody {
            id, capability, grantee, grantor, scope, issued_at, expires_at, delegable, parent,
            depth,
        } = body;
        Wire {
            id, capability, grantee, grantor, scope, issued_at, expires_at, delegable, parent,
            depth, signature,
        }
    }
}
