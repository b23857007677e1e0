//! May this call touch what it is about to touch? Pure: the book and the clock come in, the
//! decision goes out. Nothing found means no.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::book::{GrantBook, GrantRecord, Held};
use crate::capability::Capability;
use crate::denial::{Asked, Denial, Fault, Flaw};
use crate::grant::GrantBody;
use crate::grantee::Grantee;
use crate::id::{GrantId, ToolId};
use crate::issue::{CLOCK_SKEW_MILLIS, MAX_DEPTH};
use crate::principal::Principal;
use crate::scope::Scope;
use crate::time::Timestamp;

/// Something a call is about to touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Need {
    pub capability: Capability,
    /// The resource is a pattern, and a grant must cover everything that the pattern stands for:
    /// who is to see a whole tree may not hold a grant for a part of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub every: bool,
    pub resource: String,
}

impl Need {
    /// One resource.
    pub fn one(capability: Capability, resource: impl Into<String>) -> Self {
        Need { capability, resource: resource.into(), every: false }
    }

    /// Everything that a pattern stands for.
    pub fn every(capability: Capability, pattern: impl Into<String>) -> Self {
        Need { capability, resource: pattern.into(), every: true }
    }

    /// Whether a resource is part of what is needed.
    pub fn covers(&self, resource: &str) -> bool {
        match self.every {
            false => self.resource == resource,
            true => Scope::parse([&self.resource]).is_ok_and(|scope| scope.contains(resource)),
        }
    }
}

/// What a grant is held against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent<'a> {
    /// At least something.
    Any,
    One(&'a str),
    Every(&'a str),
}

impl<'a> Extent<'a> {
    fn of(need: &'a Need) -> Self {
        if need.every { Extent::Every(&need.resource) } else { Extent::One(&need.resource) }
    }

    fn is_in(self, scope: &Scope) -> bool {
        match self {
            Extent::Any => !scope.is_empty(),
            Extent::One(resource) => scope.contains(resource),
            // A pattern that cannot be read is covered by nothing.
            Extent::Every(pattern) => Scope::parse([pattern]).is_ok_and(|part| scope.covers(&part)),
        }
    }

    pub(crate) fn resource(self) -> Option<&'a str> {
        match self {
            Extent::Any => None,
            Extent::One(resource) | Extent::Every(resource) => Some(resource),
        }
    }
}

/// What a call was allowed, and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use = "an authorisation is the reason to run a call; record it"]
pub struct Authorization {
    /// Every grant the decision rests on, ancestors included, sorted. Revoking one ends the call.
    pub grants: Vec<GrantId>,
    /// What the tool declared, sorted. A prerequisite that was not declared is not in here.
    pub capabilities: Vec<Capability>,
    /// When the first of the grants expires; none if the call needed no grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Decides one call. `required` is what the tool declares, `needs` what this call will touch; the
/// grants of the principal and of the tool count alike.
pub fn authorize(
    required: &[Capability],
    needs: &[Need],
    principal: &Principal,
    tool: &ToolId,
    book: &GrantBook,
    now: Timestamp,
) -> Result<Authorization, Denial> {
    if let Some(need) = needs.iter().find(|need| !required.contains(&need.capability)) {
        return Err(Denial::undeclared(need, tool));
    }
    let mut desk = Desk::open(principal, tool, book, now);
    for &capability in required {
        if !needs.iter().any(|need| need.capability == capability) {
            desk.admit(capability, Extent::Any)?;
        }
    }
    for need in needs {
        desk.admit(need.capability, Extent::of(need))?;
    }
    Ok(desk.close(required))
}

/// One decision in the making.
struct Desk<'a> {
    principal: &'a Principal,
    tool: &'a ToolId,
    book: &'a GrantBook,
    held: [Option<&'a Held>; 2],
    now: Timestamp,
    grants: Vec<GrantId>,
    expires_at: Option<Timestamp>,
}

impl<'a> Desk<'a> {
    fn open(
        principal: &'a Principal,
        tool: &'a ToolId,
        book: &'a GrantBook,
        now: Timestamp,
    ) -> Self {
        let holders = [Grantee::from(principal.clone()), Grantee::from(tool.clone())];
        let held = holders.map(|holder| book.held_by(&holder));
        Desk { principal, tool, book, held, now, grants: Vec::new(), expires_at: None }
    }

    /// Prerequisites first, deepest first: the order in which missing grants have to be issued.
    fn admit(&mut self, capability: Capability, resource: Extent<'_>) -> Result<(), Denial> {
        for &required in capability.requires_all().iter().chain([&capability]) {
            let found = self.best(required, resource);
            let (record, expires_at) =
                found.ok_or_else(|| self.deny(required, capability, resource))?;
            self.rest_on(record, expires_at);
        }
        Ok(())
    }

    fn candidates(&self, capability: Capability) -> impl Iterator<Item = &'a GrantRecord> {
        let book = self.book;
        let held = self.held.into_iter().flatten();
        let ids: fn(&'a BTreeSet<GrantId>) -> _ = BTreeSet::iter;
        held.filter_map(move |held| held.get(&capability))
            .flat_map(ids)
            .filter_map(move |id| book.get(id))
    }

    /// The grant that lasts longest, so that a long call is not cut short without need; of equals
    /// the one found first, so that the same book always gives the same answer.
    fn best(
        &self,
        capability: Capability,
        resource: Extent<'_>,
    ) -> Option<(&'a GrantRecord, Timestamp)> {
        let mut best: Option<(&GrantRecord, Timestamp)> = None;
        for record in self.candidates(capability) {
            let Ok(expires_at) = judge(self.book, record, resource, self.now) else { continue };
            if best.is_none_or(|(_, latest)| expires_at > latest) {
                best = Some((record, expires_at));
            }
        }
        best
    }

    fn rest_on(&mut self, record: &'a GrantRecord, expires_at: Timestamp) {
        let mut next = Some(record);
        while let Some(record) = next {
            self.grants.push(record.grant.body.id);
            // `judge` has walked this chain to its root, so it ends.
            next = record.grant.body.parent.and_then(|parent| self.book.get(&parent));
        }
        self.expires_at = Some(self.expires_at.map_or(expires_at, |e| e.min(expires_at)));
    }

    #[cold]
    fn deny(&self, capability: Capability, wanted: Capability, resource: Extent<'_>) -> Denial {
        let faults = self.candidates(capability).filter_map(|record| {
            let fault = judge(self.book, record, resource, self.now).err()?;
            Some((record.grant.body.id, fault))
        });
        let (principal, tool) = (self.principal, self.tool);
        Denial::of(&Asked { capability, wanted, resource, principal, tool }, faults.collect())
    }

    fn close(mut self, required: &[Capability]) -> Authorization {
        self.grants.sort_unstable();
        self.grants.dedup();
        let mut capabilities = required.to_vec();
        capabilities.sort_unstable();
        capabilities.dedup();
        Authorization { grants: self.grants, capabilities, expires_at: self.expires_at }
    }
}

/// Whether a grant is good for a resource now, and until when: the grant itself and every grant
/// it was delegated from. Without a resource, for at least something.
pub(crate) fn judge(
    book: &GrantBook,
    record: &GrantRecord,
    resource: Extent<'_>,
    now: Timestamp,
) -> Result<Timestamp, Fault> {
    let own = |flaw| Fault { flaw, inherited: false };
    let inherited = |flaw| Fault { flaw, inherited: true };
    check_alone(record, resource, now).map_err(own)?;
    let mut child = &record.grant.body;
    let mut expires_at = child.expires_at;
    // Each step up lowers the depth by one, so even a ring of forged parents ends.
    while let Some(id) = child.parent {
        let parent = book.get(&id).ok_or(own(Flaw::Orphaned))?;
        check_link(&parent.grant.body, child).map_err(own)?;
        check_alone(parent, resource, now).map_err(inherited)?;
        child = &parent.grant.body;
        expires_at = expires_at.min(child.expires_at);
    }
    if child.depth == 0 { Ok(expires_at) } else { Err(own(Flaw::Unfounded)) }
}

/// What is wrong with a grant by itself. Forgery comes first, since nothing a forged grant says
/// counts; then scope, since a grant for something else is no nearer for being alive.
fn check_alone(record: &GrantRecord, resource: Extent<'_>, now: Timestamp) -> Result<(), Flaw> {
    let body = &record.grant.body;
    match () {
        () if !record.genuine => Err(Flaw::Forged),
        () if !resource.is_in(&body.scope) => Err(Flaw::OutOfScope),
        () if record.revoked_at.is_some() => Err(Flaw::Revoked),
        () if body.expires_at <= now => Err(Flaw::Expired),
        () if body.issued_at > now.plus_millis(CLOCK_SKEW_MILLIS) => Err(Flaw::NotYetValid),
        () => Ok(()),
    }
}

/// The rules of delegation hold at use as well: who issued the child may have broken them.
fn check_link(parent: &GrantBody, child: &GrantBody) -> Result<(), Flaw> {
    let follows = child.depth <= MAX_DEPTH
        && parent.depth.checked_add(1) == Some(child.depth)
        && parent.capability == child.capability
        && parent.delegable
        && parent.grantee.is_principal(&child.grantor);
    follows.then_some(()).ok_or(Flaw::Unfounded)
}
