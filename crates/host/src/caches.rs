//! The tables that answers are made from, derived anew from the journal and compared.
//!
//! Calls, grants, principals, keys, policy sets, state, workspaces and artifacts are kept in tables
//! of their own, changed in the same transaction as the entries that say so. Whoever edits a table
//! by hand is found here.

mod work;

use std::collections::BTreeMap;

use countersign_journal::{CallFilter, Entry, GrantRow, JournalError, Store};
use countersign_model::effect::Effect;
use countersign_model::event::{CallEvent, CallFact, Fact, GrantEvent};
use countersign_model::record::{CallFold, CallRecord};
use countersign_model::{Digest, GrantId, KeyBook, PolicyAdopted, PolicyEvent, Timestamp};

use self::work::WorkTables;
use crate::inspect::Unsound;

pub(crate) struct Caches<'s> {
    store: &'s dyn Store,
    /// Ended calls are compared when they end, open ones at the end.
    calls: CallFold,
    declared: u64,
    grants: BTreeMap<GrantId, GrantRow>,
    people: KeyBook,
    /// Each as it was first taken up, in that order.
    policies: Vec<PolicyAdopted>,
    keys: BTreeMap<String, Digest>,
    work: WorkTables,
}

impl<'s> Caches<'s> {
    pub(crate) fn new(store: &'s dyn Store) -> Self {
        Caches {
            store,
            calls: CallFold::default(),
            declared: 0,
            grants: BTreeMap::new(),
            people: KeyBook::default(),
            policies: Vec::new(),
            keys: BTreeMap::new(),
            work: WorkTables::default(),
        }
    }

    /// Takes in one entry, which the verifier has found possible.
    pub(crate) fn entry(&mut self, bytes: &[u8]) -> Result<(), Unsound> {
        match Entry::parse(bytes).map(|entry| (entry.time, entry.fact)) {
            Ok((at, Fact::Call(call))) => self.call(at, &call),
            Ok((_, Fact::Grant(event))) => {
                self.grant(event);
                Ok(())
            }
            Ok((_, Fact::Policy(PolicyEvent::Adopted(adopted)))) => {
                self.policy(adopted);
                Ok(())
            }
            Ok((_, Fact::Workspace(event))) => {
                self.work.workspace(event);
                Ok(())
            }
            Ok((_, Fact::Run(fact))) => {
                self.work.run(&fact);
                Ok(())
            }
            Ok((_, Fact::Record(fact))) => {
                self.work.record(fact);
                Ok(())
            }
            Ok((_, Fact::Artifact(event))) => {
                self.work.artifact(&event);
                Ok(())
            }
            Ok((_, fact)) => {
                // What is impossible the verifier has already refused.
                let _ = self.people.take_in(&fact);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn call(&mut self, at: Timestamp, call: &CallFact) -> Result<(), Unsound> {
        if let CallEvent::Committed(committed) = &call.event {
            committed.effects.iter().for_each(|effect| self.effect(effect));
        }
        self.declared += u64::from(matches!(call.event, CallEvent::Declared(_)));
        // A story that is impossible the verifier has already refused.
        let Ok(record) = self.calls.take_in(at, call) else { return Ok(()) };
        self.work.call(at, &record.summary, &call.event);
        if record.state.is_terminal() { compare_call(self.store, record) } else { Ok(()) }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::StatePut { key, after, .. } => {
                self.keys.insert(key.clone(), *after);
            }
            Effect::StateDeleted { key, .. } => {
                self.keys.remove(key);
            }
            _ => {}
        }
    }

    fn grant(&mut self, event: GrantEvent) {
        match event {
            GrantEvent::Issued { grant } => {
                self.grants.insert(grant.body.id, GrantRow { grant, revoked_at: None });
            }
            GrantEvent::Revoked { grant, at, .. } => {
                if let Some(row) = self.grants.get_mut(&grant) {
                    row.revoked_at = row.revoked_at.or(Some(at));
                }
            }
        }
    }

    fn policy(&mut self, adopted: PolicyAdopted) {
        if !self.policies.iter().any(|known| known.policy.digest == adopted.policy.digest) {
            self.policies.push(adopted);
        }
    }

    /// Compares everything with the tables. `size` is how far the journal was read; when others
    /// have appended since, what they said is taken in and the comparison made again.
    pub(crate) fn compare(&mut self, mut size: u64) -> Result<(), Unsound> {
        loop {
            let compared = self.compare_all();
            let grown = self.store.head()?.size;
            if compared.is_ok() || grown == size {
                return compared;
            }
            let mut taken = Ok(());
            self.store.visit_raw(size..grown, &mut |bytes| {
                if taken.is_ok() {
                    taken = self.entry(&bytes);
                }
                Ok(())
            })?;
            taken?;
            size = grown;
        }
    }

    fn compare_all(&self) -> Result<(), Unsound> {
        self.calls.open().try_for_each(|record| compare_call(self.store, record))?;
        self.compare_grants()?;
        self.compare_people()?;
        self.compare_policies()?;
        self.compare_keys()?;
        self.work.compare(self.store)?;
        let mut calls = 0;
        self.store.visit_calls(&CallFilter::default(), &mut |_| {
            calls += 1;
            Ok(())
        })?;
        if calls == self.declared { Ok(()) } else { Err(differs("the number of calls")) }
    }

    fn compare_grants(&self) -> Result<(), Unsound> {
        let rows = self.store.grants()?;
        let foreign = rows.iter().find(|row| self.grants.get(&row.grant.body.id) != Some(row));
        match foreign {
            Some(row) => Err(differs(&format!("grant {}", row.grant.body.id))),
            None if rows.len() == self.grants.len() => Ok(()),
            None => Err(differs("the number of grants")),
        }
    }

    fn compare_people(&self) -> Result<(), Unsound> {
        let kept = self.store.people()?.book;
        if kept == self.people { Ok(()) } else { Err(differs("the list of principals and keys")) }
    }

    fn compare_policies(&self) -> Result<(), Unsound> {
        match self.store.policies()? == self.policies {
            true => Ok(()),
            false => Err(differs("the list of policy sets")),
        }
    }

    fn compare_keys(&self) -> Result<(), Unsound> {
        let (mut count, mut foreign) = (0, None);
        self.store.visit_keys(&mut |key, value| {
            count += 1;
            if self.keys.get(&key) != Some(&Digest::of(&value)) {
                foreign = Some(key);
            }
            Ok::<_, JournalError>(())
        })?;
        match foreign {
            Some(key) => Err(differs(&format!("state key `{key}`"))),
            None if count == self.keys.len() => Ok(()),
            None => Err(differs("the number of state keys")),
        }
    }
}

fn compare_call(store: &dyn Store, record: &CallRecord) -> Result<(), Unsound> {
    let execution = record.summary.execution;
    match store.call(execution)? {
        Some(cached) if cached == record.summary => Ok(()),
        // More may have happened since the head that is being verified.
        Some(cached) if cached.events > record.summary.events => Ok(()),
        _ => Err(differs(&format!("the record of execution {execution}"))),
    }
}

fn differs(what: &str) -> Unsound {
    Unsound::Cache { what: what.to_owned() }
}
