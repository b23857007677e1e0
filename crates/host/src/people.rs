//! Who there is, and which keys they hold: adding, removing, making, rotating, revoking, and
//! letting in whoever shows a key.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use countersign_journal::{AppendError, Batch, Conflict, Expect, People};
use countersign_model::enrol::{
    check_addition, check_human, check_key, check_known, check_rotation, find_key,
};
use countersign_model::event::Fact;
use countersign_model::{
    Failure, KeyBook, KeyEvent, KeyId, KeyRecord, KeyScope, Principal, PrincipalEvent, Timestamp,
    Token,
};

use crate::host::Host;

/// How often a change is decided anew because others changed principals or keys meanwhile.
const TRIES: u32 = 32;

#[derive(Debug, Clone)]
pub struct AddPrincipal {
    pub principal: Principal,
    pub description: Option<String>,
    pub by: Principal,
}

#[derive(Debug, Clone)]
pub struct CreateKey {
    pub principal: Principal,
    pub tenant: Option<String>,
    pub scopes: BTreeSet<KeyScope>,
    pub expires_at: Timestamp,
    pub by: Principal,
}

#[derive(Debug, Clone)]
pub struct RotateKey {
    pub key: KeyId,
    /// How long the old key stays good beside the new one.
    pub overlap_millis: i64,
    /// The new key lasts as long as the old one was made for, unless this says otherwise.
    pub expires_at: Option<Timestamp>,
    pub by: Principal,
}

/// What is to be written, and what to answer once it is.
type Change<T> = (Vec<Fact>, T);

impl Host {
    /// Principals and keys as they stand. Asking costs one small read; the book is read again only
    /// when something changed, by whichever process.
    pub fn people(&self) -> Result<Arc<People>, Failure> {
        let version = self.home.store.people_version()?;
        let cached = Arc::clone(&self.people.read().unwrap_or_else(PoisonError::into_inner));
        if cached.version == version {
            return Ok(cached);
        }
        let authority = self.home.authority.verifier().verifying_key();
        let People { version, book } = self.home.store.people()?;
        let fresh = Arc::new(People { version, book: book.genuine(authority) });
        *self.people.write().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&fresh);
        Ok(fresh)
    }

    pub fn add_principal(&self, command: &AddPrincipal) -> Result<(), Failure> {
        self.change(&command.by, |book, now| {
            check_addition(book, &command.principal, command.description.as_deref())?;
            let added = PrincipalEvent::Added {
                at: now,
                by: command.by.clone(),
                description: command.description.clone(),
                principal: command.principal.clone(),
            };
            Ok((vec![Fact::Principal(added)], ()))
        })
    }

    /// Removes a principal; its keys stop working at once, in every process. Says which had worked.
    pub fn remove_principal(
        &self,
        principal: &Principal,
        by: &Principal,
        reason: Option<&str>,
    ) -> Result<Vec<KeyId>, Failure> {
        self.change(by, |book, now| {
            check_known(book, principal)?;
            let good = book.keys_of(principal).filter(|key| key.status(now).is_good());
            let ended = good.map(|key| key.record.id).collect();
            let removed = PrincipalEvent::Removed {
                at: now,
                by: by.clone(),
                principal: principal.clone(),
                reason: reason.map(str::to_owned),
            };
            Ok((vec![Fact::Principal(removed)], ended))
        })
    }

    /// The token is handed out here and can never be asked for again.
    pub fn create_key(&self, command: &CreateKey) -> Result<(KeyRecord, Token), Failure> {
        self.change(&command.by, |book, now| {
            let token = self.new_token()?;
            let record = KeyRecord {
                created_at: now,
                created_by: command.by.clone(),
                expires_at: command.expires_at,
                hash: token.hash(),
                id: token.id(),
                principal: command.principal.clone(),
                replaces: None,
                scopes: command.scopes.clone(),
                tenant: command.tenant.clone(),
                verifier: token.verifier(),
            };
            check_key(book, &record, now)?;
            Ok((vec![self.created(&record)?], (record, token)))
        })
    }

    /// A new key like the old one, which stays good until the overlap ends: both facts or neither.
    pub fn rotate_key(&self, command: &RotateKey) -> Result<(KeyRecord, Token), Failure> {
        self.change(&command.by, |book, now| {
            let old = check_rotation(book, &command.key, now)?;
            let token = self.new_token()?;
            let lifetime = old.record.expires_at.millis_since(old.record.created_at);
            let record = KeyRecord {
                created_at: now,
                created_by: command.by.clone(),
                expires_at: command.expires_at.unwrap_or_else(|| now.plus_millis(lifetime)),
                hash: token.hash(),
                id: token.id(),
                replaces: Some(command.key),
                verifier: token.verifier(),
                ..old.record.clone()
            };
            check_key(book, &record, now)?;
            let overlap = now.plus_millis(command.overlap_millis.max(0));
            let retired = KeyEvent::Retired {
                at: now,
                by: command.by.clone(),
                expires_at: old.expires_at.min(overlap),
                key: command.key,
            };
            Ok((vec![self.created(&record)?, Fact::Key(retired)], (record, token)))
        })
    }

    /// Effective at once, in every process. Revoking twice changes nothing.
    pub fn revoke_key(
        &self,
        key: KeyId,
        by: &Principal,
        reason: Option<&str>,
    ) -> Result<(), Failure> {
        self.change(by, |book, now| {
            if find_key(book, &key)?.revoked_at.is_some() {
                return Ok((Vec::new(), ()));
            }
            let reason = reason.map(str::to_owned);
            let revoked = KeyEvent::Revoked { at: now, by: by.clone(), key, reason };
            Ok((vec![Fact::Key(revoked)], ()))
        })
    }

    /// Who shows this key, if it is good now.
    pub fn authenticate(
        &self,
        token: &Token,
        now: Timestamp,
    ) -> Result<(Principal, KeyRecord), Failure> {
        let people = self.people()?;
        let record = &people.book.authenticate(token, now)?.record;
        Ok((record.principal.clone(), record.clone()))
    }

    /// Whether a key that was shown before is still good. Who cannot be asked says no.
    pub fn is_key_good(&self, key: &KeyId, now: Timestamp) -> bool {
        self.people().is_ok_and(|people| people.book.is_good(key, now))
    }

    /// Decides from the book, and writes only if the book still holds: what was decided from a book
    /// that others have changed meanwhile is decided anew.
    fn change<T>(
        &self,
        by: &Principal,
        decide: impl Fn(&KeyBook, Timestamp) -> Result<Change<T>, Failure>,
    ) -> Result<T, Failure> {
        check_human(by)?;
        for _ in 0..TRIES {
            let (people, now) = (self.people()?, self.clock.now());
            let (facts, answer) = decide(&people.book, now)?;
            if facts.is_empty() {
                return Ok(answer);
            }
            let facts = facts.into_iter().map(|fact| (now, fact)).collect();
            let expect = vec![Expect::PeopleAt(people.version)];
            match self.home.store.append(Batch { facts, expect, ..Batch::default() }) {
                Ok(_) => return Ok(answer),
                Err(AppendError::Conflict(Conflict::People)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Conflict::People.into())
    }

    fn created(&self, key: &KeyRecord) -> Result<Fact, Failure> {
        let signature = key.sign(self.home.authority.signing_key())?;
        Ok(Fact::Key(KeyEvent::Created { key: Box::new(key.clone()), signature }))
    }

    fn new_token(&self) -> Result<Token, Failure> {
        let mut secret = [0u8; 32];
        getrandom::fill(&mut secret).map_err(|error| {
            Failure::state("RANDOMNESS_MISSING", format!("no key can be made: {error}"))
        })?;
        Ok(Token::new(KeyId::from_uuid(self.clock.new_id()), secret))
    }
}
