//! All principals and keys a home knows of, folded from facts. The writer, verification and every
//! decision use this one fold.

use std::collections::BTreeMap;

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use crate::error::Failure;
use crate::event::Fact;
use crate::grant::GrantSignature;
use crate::id::KeyId;
use crate::key::{KeyRecord, KeyScope};
use crate::people::{KeyEvent, PrincipalEvent, PrincipalRecord};
use crate::principal::Principal;
use crate::time::Timestamp;
use crate::token::Token;

/// A key and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeldKey {
    /// When it really ends: a rotation may have brought that forward.
    pub expires_at: Timestamp,
    pub record: KeyRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    pub signature: GrantSignature,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyStatus {
    Live,
    /// Good still, but replaced: it ends early.
    Retiring,
    Expired,
    Revoked,
}

impl KeyStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            KeyStatus::Live => "live",
            KeyStatus::Retiring => "retiring",
            KeyStatus::Expired => "expired",
            KeyStatus::Revoked => "revoked",
        }
    }

    pub fn is_good(self) -> bool {
        matches!(self, KeyStatus::Live | KeyStatus::Retiring)
    }
}

impl HeldKey {
    /// A key as it was made.
    pub fn new(record: KeyRecord, signature: GrantSignature) -> Self {
        HeldKey { expires_at: record.expires_at, record, revoked_at: None, signature }
    }

    pub fn status(&self, now: Timestamp) -> KeyStatus {
        match self {
            // A revocation counts at once, whatever the clocks say.
            key if key.revoked_at.is_some() => KeyStatus::Revoked,
            key if key.expires_at <= now => KeyStatus::Expired,
            key if key.expires_at < key.record.expires_at => KeyStatus::Retiring,
            _ => KeyStatus::Live,
        }
    }

    pub(crate) fn check_good(&self, now: Timestamp) -> Result<(), Failure> {
        let id = self.record.id;
        match self.status(now) {
            KeyStatus::Live | KeyStatus::Retiring => Ok(()),
            KeyStatus::Revoked => Err(refused("KEY_REVOKED", format!("key `{id}` was revoked"))),
            KeyStatus::Expired => {
                let message = format!("key `{id}` expired at {}", self.expires_at);
                Err(refused("KEY_EXPIRED", message))
            }
        }
    }
}

fn refused(code: &'static str, message: impl Into<String>) -> Failure {
    Failure::authorization(code, message).hint("ask a human operator for a new key")
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyBook {
    principals: BTreeMap<Principal, PrincipalRecord>,
    keys: BTreeMap<KeyId, HeldKey>,
}

impl KeyBook {
    /// A book as it was kept, not folded.
    pub fn from_records(
        principals: impl IntoIterator<Item = PrincipalRecord>,
        keys: impl IntoIterator<Item = HeldKey>,
    ) -> Self {
        let principals = principals.into_iter().map(|record| (record.principal.clone(), record));
        let keys = keys.into_iter().map(|key| (key.record.id, key));
        KeyBook { principals: principals.collect(), keys: keys.collect() }
    }

    /// The book without keys that the home has not signed: they count as absent.
    #[must_use]
    pub fn genuine(mut self, authority: &VerifyingKey) -> Self {
        self.keys.retain(|_, key| key.record.is_genuine(&key.signature, authority));
        self
    }

    /// Takes in one fact; those about other things change nothing. Says why if it cannot have
    /// happened, and then nothing has changed.
    pub fn take_in(&mut self, fact: &Fact) -> Result<(), String> {
        match fact {
            Fact::Principal(event) => self.principal_event(event),
            Fact::Key(event) => self.key_event(event),
            _ => Ok(()),
        }
    }

    fn principal_event(&mut self, event: &PrincipalEvent) -> Result<(), String> {
        match event {
            PrincipalEvent::Added { at, by, description, principal } => {
                if self.knows(principal) {
                    return Err(format!("principal {principal} was added already"));
                }
                let record = PrincipalRecord {
                    added_at: *at,
                    added_by: by.clone(),
                    description: description.clone(),
                    principal: principal.clone(),
                    removed_at: None,
                };
                self.principals.insert(principal.clone(), record);
                Ok(())
            }
            PrincipalEvent::Removed { at, principal, .. } => self.remove(principal, *at),
        }
    }

    fn remove(&mut self, principal: &Principal, at: Timestamp) -> Result<(), String> {
        let there = self.principals.get_mut(principal).filter(|record| record.removed_at.is_none());
        let record = there.ok_or_else(|| format!("principal {principal} was not there"))?;
        record.removed_at = Some(at);
        let held = self.keys.values_mut().filter(|key| key.record.principal == *principal);
        held.for_each(|key| key.revoked_at = key.revoked_at.or(Some(at)));
        Ok(())
    }

    fn key_event(&mut self, event: &KeyEvent) -> Result<(), String> {
        match event {
            KeyEvent::Created { key, signature } => {
                self.check_possible(key)?;
                self.keys.insert(key.id, HeldKey::new((**key).clone(), *signature));
            }
            KeyEvent::Retired { expires_at, key, .. } => {
                let held = self.known(key)?;
                if *expires_at > held.expires_at {
                    return Err(format!("key {key} cannot last longer than it was made for"));
                }
                held.expires_at = *expires_at;
            }
            // Of two revocations the first counts.
            KeyEvent::Revoked { at, key, .. } => {
                let held = self.known(key)?;
                held.revoked_at = held.revoked_at.or(Some(*at));
            }
        }
        Ok(())
    }

    fn known(&mut self, id: &KeyId) -> Result<&mut HeldKey, String> {
        self.keys.get_mut(id).ok_or_else(|| format!("key {id} was never made"))
    }

    fn check_possible(&self, key: &KeyRecord) -> Result<(), String> {
        let (id, principal) = (key.id, &key.principal);
        if self.keys.contains_key(&id) {
            return Err(format!("key {id} was made already"));
        }
        if !self.knows(principal) {
            return Err(format!("key {id} is for {principal}, who is not there"));
        }
        if let Some(scope) = key.forbidden_scope() {
            return Err(format!("{principal} can never have a key to {scope}"));
        }
        let same = |old: &HeldKey| old.record.principal == *principal;
        match key.replaces {
            Some(old) if !self.get(&old).is_some_and(same) => {
                Err(format!("key {id} replaces one that is not its principal's"))
            }
            _ => Ok(()),
        }
    }

    /// Whether a principal was added and not removed since.
    pub fn knows(&self, principal: &Principal) -> bool {
        self.principal(principal).is_some_and(|record| record.removed_at.is_none())
    }

    pub fn principal(&self, principal: &Principal) -> Option<&PrincipalRecord> {
        self.principals.get(principal)
    }

    /// Removed ones too.
    pub fn principals(&self) -> impl Iterator<Item = &PrincipalRecord> {
        self.principals.values()
    }

    pub fn get(&self, id: &KeyId) -> Option<&HeldKey> {
        self.keys.get(id)
    }

    pub fn keys(&self) -> impl Iterator<Item = &HeldKey> {
        self.keys.values()
    }

    pub fn keys_of(&self, principal: &Principal) -> impl Iterator<Item = &HeldKey> {
        self.keys().filter(move |key| key.record.principal == *principal)
    }

    /// The key that follows this one.
    pub fn successor(&self, id: &KeyId) -> Option<&HeldKey> {
        self.keys().find(|key| key.record.replaces == Some(*id))
    }

    /// Whose key this is, if it is good now. Whoever does not know the secret learns nothing about
    /// the key, not even that there is one.
    pub fn authenticate(&self, token: &Token, now: Timestamp) -> Result<&HeldKey, Failure> {
        let key = self.get(&token.id()).filter(|key| token.matches(&key.record));
        let key = key.ok_or_else(|| refused("KEY_UNKNOWN", "this home does not know this key"))?;
        self.check_held(key, now)?;
        Ok(key)
    }

    /// Whether a key that was shown before is still good.
    pub fn is_good(&self, id: &KeyId, now: Timestamp) -> bool {
        self.get(id).is_some_and(|key| self.check_held(key, now).is_ok())
    }

    /// Who may approve with this key now, and what verifies the signature. Never a machine,
    /// whatever the book says.
    pub fn approver(
        &self,
        id: &KeyId,
        now: Timestamp,
    ) -> Result<(&Principal, VerifyingKey), Failure> {
        let key = self.get(id);
        let key = key.ok_or_else(|| refused("KEY_UNKNOWN", "this home does not know this key"))?;
        self.check_held(key, now)?;
        let principal = &key.record.principal;
        if !principal.is_human() {
            let message = format!("`{principal}` may not approve: only humans may");
            return Err(refused("HUMANS_ONLY", message).hint("a human approves with a human's key"));
        }
        if !key.record.allows(KeyScope::Approve) {
            let message = format!("key `{id}` of `{principal}` is not good for approving");
            return Err(
                refused("KEY_SCOPE_MISSING", message).hint("use a key with scope `approve`")
            );
        }
        Ok((principal, key.record.verifier.verifying_key()?))
    }

    fn check_held(&self, key: &HeldKey, now: Timestamp) -> Result<(), Failure> {
        let principal = &key.record.principal;
        if !self.knows(principal) {
            let message = format!("`{principal}` was removed, and its keys with it");
            return Err(refused("PRINCIPAL_UNKNOWN", message));
        }
        key.check_good(now)
    }
}
