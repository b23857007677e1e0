//! All grants a host knows of, found by holder and capability.

use std::collections::{BTreeMap, BTreeSet};

use ed25519_dalek::VerifyingKey;

use crate::authorize::{Extent, judge};
use crate::capability::Capability;
use crate::error::Failure;
use crate::grant::{Grant, GrantBody};
use crate::grantee::Grantee;
use crate::id::GrantId;
use crate::issue::{Delegation, delegate};
use crate::time::Timestamp;

/// A grant and what has become of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRecord {
    pub grant: Grant,
    pub revoked_at: Option<Timestamp>,
    /// Whether the signature was verified. Done once, when the grant is read, not at every call.
    pub genuine: bool,
}

impl GrantRecord {
    /// A grant as it was read, verified on the spot.
    pub fn read(grant: Grant, key: &VerifyingKey) -> Self {
        let genuine = grant.verify(key).is_ok();
        GrantRecord { grant, revoked_at: None, genuine }
    }
}

pub(crate) type Held = BTreeMap<Capability, BTreeSet<GrantId>>;

/// Grants by id, with an index by holder and capability and one by parent.
#[derive(Debug, Clone, Default)]
pub struct GrantBook {
    records: BTreeMap<GrantId, GrantRecord>,
    held: BTreeMap<Grantee, Held>,
    children: BTreeMap<GrantId, BTreeSet<GrantId>>,
}

impl GrantBook {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a grant, or replaces the one with the same id, which is given back. A revocation
    /// outlives the replacement: the same grant read twice must not come back to life.
    pub fn insert(&mut self, mut record: GrantRecord) -> Option<GrantRecord> {
        let replaced = self.remove(&record.grant.body.id);
        let earlier = replaced.as_ref().and_then(|old| old.revoked_at);
        record.revoked_at = [earlier, record.revoked_at].into_iter().flatten().min();
        let body = &record.grant.body;
        let held = self.held.entry(body.grantee.clone()).or_default();
        held.entry(body.capability).or_default().insert(body.id);
        if let Some(parent) = body.parent {
            self.children.entry(parent).or_default().insert(body.id);
        }
        self.records.insert(body.id, record);
        replaced
    }

    fn remove(&mut self, id: &GrantId) -> Option<GrantRecord> {
        let record = self.records.remove(id)?;
        let body = &record.grant.body;
        let held = self.held.get_mut(&body.grantee).and_then(|held| held.get_mut(&body.capability));
        if let Some(ids) = held {
            ids.remove(id);
        }
        let siblings = body.parent.and_then(|parent| self.children.get_mut(&parent));
        if let Some(ids) = siblings {
            ids.remove(id);
        }
        Some(record)
    }

    /// Whether this changed anything: an unknown grant cannot be revoked, and of two revocations
    /// the first counts. Everything delegated from the grant dies with it.
    pub fn revoke(&mut self, id: &GrantId, at: Timestamp) -> bool {
        match self.records.get_mut(id) {
            Some(record) if record.revoked_at.is_none() => {
                record.revoked_at = Some(at);
                true
            }
            _ => false,
        }
    }

    pub fn get(&self, id: &GrantId) -> Option<&GrantRecord> {
        self.records.get(id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &GrantRecord> {
        self.records.values()
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Everything delegated from a grant, directly or not: what a revocation takes along.
    pub fn subtree(&self, id: &GrantId) -> BTreeSet<GrantId> {
        let mut found = BTreeSet::new();
        let mut open = vec![*id];
        while let Some(next) = open.pop() {
            let children = self.children.get(&next).into_iter().flatten();
            // A forged book may hold a ring; whoever was found is not asked again.
            open.extend(children.copied().filter(|child| child != id && found.insert(*child)));
        }
        found
    }

    /// The grants of a holder that are good now, for at least something.
    pub fn live<'a>(
        &'a self,
        grantee: &Grantee,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a GrantRecord> {
        let ids = self.held_by(grantee).into_iter().flat_map(BTreeMap::values).flatten();
        ids.filter_map(|id| self.get(id)).filter(move |r| judge(self, r, Extent::Any, now).is_ok())
    }

    /// Whether a holder has a capability now, for at least something.
    pub fn holds(&self, grantee: &Grantee, capability: Capability, now: Timestamp) -> bool {
        self.live(grantee, now).any(|record| record.grant.body.capability == capability)
    }

    /// As [`delegate`], from a grant in this book that must itself be good now.
    pub fn delegate(
        &self,
        parent: &GrantId,
        asked: Delegation<'_>,
        now: Timestamp,
    ) -> Result<GrantBody, Failure> {
        let unknown = || {
            let message = format!("there is no grant `{parent}`");
            Failure::authorization("GRANT_MISSING", message)
        };
        let record = self.get(parent).ok_or_else(unknown)?;
        // Asked first: it refuses strangers before anything is said about the grant.
        let body = delegate(&record.grant, asked, now)?;
        judge(self, record, Extent::Any, now).map_err(|fault| {
            let message = format!("grant `{parent}` cannot be delegated: it {}", fault.why());
            Failure::authorization(fault.code(), message)
        })?;
        Ok(body)
    }

    pub(crate) fn held_by(&self, grantee: &Grantee) -> Option<&Held> {
        self.held.get(grantee)
    }
}

impl FromIterator<GrantRecord> for GrantBook {
    fn from_iter<I: IntoIterator<Item = GrantRecord>>(records: I) -> Self {
        let mut book = GrantBook::new();
        for record in records {
            book.insert(record);
        }
        book
    }
}
