//! Builders shared by the tests of grants: a fixed key, a fixed clock, numbered ids.
#![allow(clippy::unwrap_used, reason = "a test that cannot build its input has failed")]
#![allow(dead_code, reason = "each test file uses its own part")]

use countersign_model::{
    Capability, Grant, GrantBody, GrantId, GrantRecord, Principal, Scope, Timestamp, ToolId,
};
use ed25519_dalek::SigningKey;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_770_653_101_000);
pub(crate) const HOUR: i64 = 3_600_000;

pub(crate) fn key() -> SigningKey {
    SigningKey::from_bytes(&[7; 32])
}

pub(crate) fn id(n: u32) -> GrantId {
    format!("019a7c3e-0000-7000-8000-{n:012x}").parse().unwrap()
}

pub(crate) fn who(text: &str) -> Principal {
    text.parse().unwrap()
}

pub(crate) fn tool() -> ToolId {
    "file.read".parse().unwrap()
}

pub(crate) fn scope(patterns: &[&str]) -> Scope {
    Scope::parse(patterns).unwrap()
}

/// A delegable root that `human:ada` gave `agent:x` an hour ago, for two hours.
pub(crate) fn body(n: u32, capability: Capability, patterns: &[&str]) -> GrantBody {
    GrantBody {
        id: id(n),
        capability,
        grantee: "agent:x".parse().unwrap(),
        grantor: who("human:ada"),
        scope: scope(patterns),
        issued_at: NOW.plus_millis(-HOUR),
        expires_at: NOW.plus_millis(HOUR),
        delegable: true,
        parent: None,
        depth: 0,
    }
}

/// A child of `parent` that its grantee gave `to`, a minute shorter.
pub(crate) fn child(n: u32, parent: &GrantBody, to: &str, patterns: &[&str]) -> GrantBody {
    GrantBody {
        id: id(n),
        grantee: to.parse().unwrap(),
        grantor: parent.grantee.to_string().parse().unwrap(),
        scope: scope(patterns),
        expires_at: parent.expires_at.plus_millis(-60_000),
        parent: Some(parent.id),
        depth: parent.depth + 1,
        ..parent.clone()
    }
}

pub(crate) fn signed(body: GrantBody) -> GrantRecord {
    GrantRecord::read(Grant::sign(body, &key()).unwrap(), &key().verifying_key())
}

/// Signing is slow and `authorize` does not look at the signature, only at `genuine`.
pub(crate) fn record(body: GrantBody) -> GrantRecord {
    let signature = "0".repeat(128).parse().unwrap();
    GrantRecord { grant: Grant { body, signature }, revoked_at: None, genuine: true }
}
