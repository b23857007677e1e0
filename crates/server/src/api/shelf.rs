//! Answers to repeat, on the journal. Who is at work is known to this process alone; an answer is
//! recorded together with what it answers wherever that is a run, so a host that dies in between
//! leaves either both or neither.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use countersign_host::Host;
use countersign_journal::{AppendError, Batch, Conflict, Reply, ReplyKey};
use countersign_model::{Failure, Timestamp};

use crate::idempotency::{Claim, Entry, KEPT_MILLIS, OperationKey, Shelf, Stored};
use crate::vault::Vault;

#[derive(Debug)]
pub struct JournalShelf {
    host: Arc<Host>,
    vault: Vault,
    at_work: Mutex<HashMap<OperationKey, Claim>>,
}

impl JournalShelf {
    pub fn new(host: Arc<Host>) -> JournalShelf {
        let vault = vault(&host);
        JournalShelf { host, vault, at_work: Mutex::default() }
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<OperationKey, Claim>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers may hold what a client must keep to itself, such as the secret of a webhook.
pub(super) fn vault(host: &Host) -> Vault {
    Vault::new(host.home().derive_key("answers"))
}

/// Stands before an answer that is sealed; JSON begins otherwise.
const SEALED: u8 = 0;

fn about(key: &ReplyKey) -> String {
    format!("{}\n{}\n{}", key.tenant, key.operation, key.key)
}

pub(super) fn sealed(vault: &Vault, key: &ReplyKey, answer: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut sealed = vec![SEALED];
    sealed.extend(vault.seal(&about(key), answer)?);
    Ok(sealed)
}

pub(super) fn named(key: &OperationKey) -> ReplyKey {
    let OperationKey { key, operation, tenant } = key.clone();
    ReplyKey { tenant, operation, key }
}

impl Shelf for JournalShelf {
    fn look_or_claim(
        &self,
        key: &OperationKey,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<Option<Entry>, Failure> {
        let mut claims = self.claims();
        if let Some(held) = claims.get(key) {
            let entry = Entry::InFlight(held.clone());
            if entry.counts(now) {
                return Ok(Some(entry));
            }
        }
        let kept = self.host.home().store.reply(&named(key))?;
        match kept.and_then(|reply| done(&self.vault, reply)) {
            Some(entry) if entry.counts(now) => return Ok(Some(entry)),
            // It stands where the new answer will: nobody can ask for it again.
            Some(_) => self.sweep(now)?,
            None => {}
        }
        claims.insert(key.clone(), claim.clone());
        Ok(None)
    }

    fn settle(
        &self,
        key: &OperationKey,
        claim: &Claim,
        stored: Option<&Stored>,
    ) -> Result<(), Failure> {
        if self.claims().get(key).is_none_or(|held| held.holder != claim.holder) {
            return Ok(());
        }
        let written = stored.map_or(Ok(()), |stored| self.write(key, stored));
        self.claims().remove(key);
        written
    }

    fn sweep(&self, now: Timestamp) -> Result<(), Failure> {
        Ok(self.host.home().store.forget_replies(now.plus_millis(-KEPT_MILLIS))?)
    }
}

impl JournalShelf {
    fn write(&self, key: &OperationKey, stored: &Stored) -> Result<(), Failure> {
        let (key, store) = (named(key), &self.host.home().store);
        if store.reply(&key)?.is_some() {
            return Ok(());
        }
        let Stored { answer, at, body, status } = stored.clone();
        let answer = sealed(&self.vault, &key, answer.as_bytes())?;
        let reply = Reply { key, request: body, at, status, body: answer };
        match store.append(Batch { reply: Some(reply), ..Batch::default() }) {
            // Another process answered the same.
            Ok(_) | Err(AppendError::Conflict(Conflict::Reply)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn done(vault: &Vault, reply: Reply) -> Option<Entry> {
    let answer = match reply.body.split_first() {
        Some((&SEALED, sealed)) => vault.open(&about(&reply.key), sealed)?,
        _ => reply.body,
    };
    let answer = String::from_utf8(answer).ok()?;
    Some(Entry::Done(Stored { answer, at: reply.at, body: reply.request, status: reply.status }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_host::{Home, SystemClock};
    use countersign_model::Digest;
    use uuid::Uuid;

    #[test]
    fn a_key_is_free_again_when_its_answer_has_aged() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        Home::create(&home, &SystemClock).unwrap();
        let shelf = JournalShelf::new(Arc::new(Host::open(&home).unwrap()));
        let word = |text: &str| text.to_owned();
        let key = OperationKey { key: word("k"), operation: word("o"), tenant: word("t") };
        let (body, first) = (Digest::of(b"b"), Timestamp::from_millis(1_000));
        let ask = |now: Timestamp, n: u128, answer: &str| {
            let claim = Claim { body, holder: Uuid::from_u128(n), since: now };
            let found = shelf.look_or_claim(&key, &claim, now).unwrap();
            let stored = Stored { answer: word(answer), at: now, body, status: 201 };
            shelf.settle(&key, &claim, Some(&stored)).unwrap();
            found
        };
        let told = |entry: Option<Entry>| match entry {
            Some(Entry::Done(stored)) => Some(stored.answer),
            _ => None,
        };
        assert_eq!(told(ask(first, 1, "one")), None);
        assert_eq!(told(ask(first.plus_millis(KEPT_MILLIS - 1), 2, "two")), Some(word("one")));
        let aged = first.plus_millis(KEPT_MILLIS + 1);
        assert_eq!(told(ask(aged, 3, "three")), None);
        assert_eq!(told(ask(aged, 4, "four")), Some(word("three")));
    }
}
