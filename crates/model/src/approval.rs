//! Human consent to one call: what is shown, who may say yes, and what their signature binds.

use std::fmt;

use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use serde::{Deserialize, Serialize};

use crate::declaration::ResourceLimits;
use crate::digest::{Digest, canonical_json};
use crate::effect::Payload;
use crate::error::Failure;
use crate::facts::CallFacts;
use crate::grant::GrantSignature;
use crate::id::{ExecutionId, KeyId};
use crate::principal::Principal;
use crate::time::Timestamp;
use crate::verdict::Verdict;

/// Exactly what people are shown and agree to. Its digest is the approval: whatever changes here
/// makes another one.
///
/// INVARIANT: fields stand in the order of their JSON names; see [`crate::event`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subject {
    pub execution: ExecutionId,
    pub expires_at: Timestamp,
    pub facts: CallFacts,
    pub input: Payload,
    pub limits: ResourceLimits,
    /// Why somebody is asked, the policy set included.
    pub verdict: Verdict,
    /// What the call would find where it writes.
    pub workspace: Digest,
}

impl Subject {
    pub fn digest(&self) -> Result<Payload, Failure> {
        Ok(Payload::of(&self.bytes()?))
    }

    /// The canonical form, which is what is kept and hashed.
    pub fn bytes(&self) -> Result<Vec<u8>, Failure> {
        canonical_json(self)
            .map_err(|error| Failure::state("INTERNAL", format!("no canonical form: {error}")))
    }

    /// What is no longer as it was shown, in words.
    pub fn changes(&self, now: &Subject) -> Vec<&'static str> {
        let (then, new) = (&self.facts, &now.facts);
        let pairs = [
            (then.tool != new.tool, "the tool"),
            (self.input != now.input, "the input"),
            (self.limits != now.limits, "the limits"),
            (then.principal != new.principal || then.chain != new.chain, "who asks"),
            (self.verdict.policy != now.verdict.policy, "the policies"),
            (self.verdict != now.verdict, "what the policies say"),
            (then.mode != new.mode || then.toolset != new.toolset, "the sandbox mode or toolset"),
            (then.effects != new.effects || then.hosts != new.hosts, "what it would touch"),
            (then.workspace != new.workspace || self.workspace != now.workspace, "the workspace"),
        ];
        pairs.into_iter().filter_map(|(changed, what)| changed.then_some(what)).collect()
    }
}

/// One person's answer, signed with a key that only they have.
///
/// INVARIANT: fields stand in the order of their JSON names; see [`crate::event`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Consent {
    pub answer: Answer,
    pub at: Timestamp,
    pub by: Principal,
    pub key: KeyId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub signature: GrantSignature,
    /// The digest of what was shown.
    pub subject: Digest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Yes,
    No,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Answer::Yes => "yes",
            Answer::No => "no",
        })
    }
}

/// Keeps these signatures apart from every other use of the same key.
const DOMAIN: &[u8] = b"countersign-approval-v1\n";

/// What is signed: everything but the signature.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Signed<'a> {
    answer: Answer,
    at: Timestamp,
    by: &'a Principal,
    key: KeyId,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    subject: Digest,
}

impl Consent {
    /// Signs an answer; `signature` of what is handed in is ignored.
    pub fn sign(mut self, key: &SigningKey) -> Result<Self, Failure> {
        let message = self.message().ok_or_else(|| {
            Failure::validation("APPROVAL_UNSIGNABLE", "the answer has no canonical form to sign")
        })?;
        self.signature = GrantSignature::from_bytes(key.sign(&message).to_bytes());
        Ok(self)
    }

    pub fn is_genuine(&self, key: &VerifyingKey) -> bool {
        let signature = Signature::from_bytes(self.signature.as_bytes());
        self.message().is_some_and(|message| key.verify_strict(&message, &signature).is_ok())
    }

    fn message(&self) -> Option<Vec<u8>> {
        let Consent { answer, at, by, key, reason, subject, .. } = self;
        let reason = reason.as_deref();
        let signed = Signed { answer: *answer, at: *at, by, key: *key, reason, subject: *subject };
        let json = at.is_exact().then(|| canonical_json(&signed).ok())??;
        Some([DOMAIN, &json].concat())
    }
}

/// Whether somebody may answer, whatever the answer is. Nobody answers for themselves, and only
/// humans answer at all.
pub fn may_answer(facts: &CallFacts, by: &Principal, given: &[Consent]) -> Result<(), Failure> {
    if !by.is_human() {
        return Err(Failure::authorization("APPROVER_NOT_HUMAN", format!("`{by}` is not a human"))
            .hint("only humans approve; show the key of a human"));
    }
    if facts.is_asked_by(by) {
        let message =
            format!("`{by}` asked for this call, and nobody approves what they asked for");
        return Err(
            Failure::authorization("APPROVAL_OWN", message).hint("somebody else must look at it")
        );
    }
    if given.iter().any(|consent| consent.by == *by) {
        return Err(Failure::authorization("APPROVAL_TWICE", format!("`{by}` has agreed already"))
            .hint("it takes different people"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn consent() -> Consent {
        Consent {
            answer: Answer::Yes,
            at: Timestamp::from_millis(1_000),
            by: "human:ann".parse().unwrap(),
            key: "019a7c3e-0000-7000-8000-000000000001".parse().unwrap(),
            reason: Some("looked at it".to_owned()),
            signature: GrantSignature::from_bytes([0; 64]),
            subject: Digest::of(b"shown"),
        }
    }

    #[test]
    fn a_signature_binds_every_field() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let signed = consent().sign(&key).unwrap();
        assert!(signed.is_genuine(&key.verifying_key()));
        let changed = [
            Consent { answer: Answer::No, ..signed.clone() },
            Consent { at: Timestamp::from_millis(1_001), ..signed.clone() },
            Consent { by: "human:bob".parse().unwrap(), ..signed.clone() },
            Consent {
                key: "019a7c3e-0000-7000-8000-000000000002".parse().unwrap(),
                ..signed.clone()
            },
            Consent { reason: None, ..signed.clone() },
            Consent { subject: Digest::of(b"other"), ..signed.clone() },
        ];
        for changed in changed {
            assert!(!changed.is_genuine(&key.verifying_key()), "{changed:?}");
        }
        let other = SigningKey::from_bytes(&[8; 32]);
        assert!(!signed.is_genuine(&other.verifying_key()));
    }
}
