//! Issuing, delegating and revoking grants, and the book that calls are decided from.

use std::sync::{Arc, PoisonError};

use countersign_journal::{Batch, Expect};
use countersign_model::event::{Fact, GrantEvent};
use countersign_model::issue::MAX_DEPTH;
use countersign_model::{
    Capability, Delegation, Failure, Grant, GrantBody, GrantBook, GrantId, GrantRecord, Grantee,
    Principal, Scope, Timestamp, ToolRef, authorize, check_issue,
};

use crate::host::Host;

/// What an operator asks to be granted.
#[derive(Debug, Clone)]
pub struct IssueCommand {
    pub capability: Capability,
    pub to: Grantee,
    pub by: Principal,
    pub scope: Scope,
    pub expires_at: Timestamp,
    pub delegable: bool,
}

/// What the holder of a grant asks to hand on.
#[derive(Debug, Clone)]
pub struct DelegateCommand {
    pub parent: GrantId,
    pub to: Grantee,
    pub by: Principal,
    pub scope: Scope,
    pub expires_at: Timestamp,
    pub delegable: bool,
}

impl Host {
    /// The grants as they stand. Asking costs one small read; the book is rebuilt only when a grant
    /// was issued or revoked, by whichever process.
    pub fn grant_book(&self) -> Result<Arc<GrantBook>, Failure> {
        let version = self.home.store.grants_version()?;
        {
            let cached = self.book.read().unwrap_or_else(PoisonError::into_inner);
            if cached.0 == version {
                return Ok(Arc::clone(&cached.1));
            }
        }
        self.reload(version)
    }

    /// Whether a principal, or the tool, holds any grant of each capability that the tool requires.
    /// Who does not need not be looked after further; who does is judged by what the call touches.
    pub fn check_holder(&self, tool: &ToolRef, principal: &Principal) -> Result<(), Failure> {
        let declaration = &self.registry.resolve(tool)?.declaration;
        let (required, now) = (&declaration.required_capabilities, self.clock.now());
        let book = self.grant_book()?;
        let _held = authorize(required, &[], principal, &declaration.id, &book, now)?;
        Ok(())
    }

    fn reload(&self, version: u64) -> Result<Arc<GrantBook>, Failure> {
        let key = *self.home.authority.verifier().verifying_key();
        let rows = self.home.store.grants()?;
        let mut cached = self.book.write().unwrap_or_else(PoisonError::into_inner);
        let known = Arc::clone(&cached.1);
        let book: GrantBook = rows
            .into_iter()
            .map(|row| {
                // A signature that was checked once is not checked again.
                let seen = known.get(&row.grant.body.id).filter(|seen| seen.grant == row.grant);
                let genuine = seen.map_or_else(|| row.grant.verify(&key).is_ok(), |s| s.genuine);
                GrantRecord { grant: row.grant, revoked_at: row.revoked_at, genuine }
            })
            .collect();
        *cached = (version, Arc::new(book));
        Ok(Arc::clone(&cached.1))
    }

    pub fn issue_grant(&self, command: IssueCommand) -> Result<Grant, Failure> {
        let now = self.clock.now();
        let book = self.grant_book()?;
        let admin = Capability::AdminCapabilityGrant;
        let authority = find_authority(&book, &command.by, admin, command.capability, now)?;
        check_not_self(&command)?;
        let body = GrantBody {
            id: GrantId::from_uuid(self.clock.new_id()),
            capability: command.capability,
            grantee: command.to,
            grantor: command.by,
            scope: command.scope,
            issued_at: now,
            expires_at: command.expires_at,
            delegable: command.delegable,
            parent: None,
            depth: 0,
        };
        self.seal(&book, body, authority, now)
    }

    pub fn delegate_grant(&self, command: DelegateCommand) -> Result<Grant, Failure> {
        let now = self.clock.now();
        let book = self.grant_book()?;
        let asked = Delegation {
            id: GrantId::from_uuid(self.clock.new_id()),
            by: &command.by,
            to: command.to,
            scope: command.scope,
            expires_at: command.expires_at,
            delegable: command.delegable,
        };
        let body = book.delegate(&command.parent, asked, now)?;
        self.seal(&book, body, Some(command.parent), now)
    }

    /// `authority` is the grant that allows this one; it must still stand at the append.
    fn seal(
        &self,
        book: &GrantBook,
        body: GrantBody,
        authority: Option<GrantId>,
        now: Timestamp,
    ) -> Result<Grant, Failure> {
        check_issue(&body, |capability| book.holds(&body.grantee, capability, now), now)?;
        let grant = Grant::sign(body, self.home.authority.signing_key())?;
        self.append(GrantEvent::Issued { grant: grant.clone() }, book, authority)?;
        Ok(grant)
    }

    /// Takes a grant back, and with it everything delegated from it. Effective at once, in every
    /// process: live calls that rely on it are ended.
    pub fn revoke_grant(
        &self,
        id: GrantId,
        by: Principal,
        reason: Option<String>,
    ) -> Result<Vec<GrantId>, Failure> {
        let now = self.clock.now();
        let book = self.grant_book()?;
        let record = book.get(&id).ok_or_else(|| unknown_grant(id))?;
        let (admin, revoked) = (Capability::AdminCapabilityRevoke, record.grant.body.capability);
        let authority = match record.grant.body.grantor == by {
            true => None,
            false => find_authority(&book, &by, admin, revoked, now)?,
        };
        if record.revoked_at.is_none() {
            let event = GrantEvent::Revoked { grant: id, by, at: now, reason };
            self.append(event, &book, authority)?;
        }
        Ok(std::iter::once(id).chain(book.subtree(&id)).collect())
    }

    fn append(
        &self,
        event: GrantEvent,
        book: &GrantBook,
        authority: Option<GrantId>,
    ) -> Result<(), Failure> {
        let expect = chain(book, authority).map(Expect::GrantLive).collect();
        let facts = vec![(self.clock.now(), Fact::Grant(event))];
        self.home.store.append(Batch { facts, expect, ..Batch::default() })?;
        Ok(())
    }
}

/// A grant and all that it was delegated from.
fn chain(book: &GrantBook, from: Option<GrantId>) -> impl Iterator<Item = GrantId> {
    std::iter::successors(from, |id| book.get(id).and_then(|record| record.grant.body.parent))
        .take(usize::from(MAX_DEPTH) + 1)
}

pub fn unknown_grant(id: GrantId) -> Failure {
    Failure::validation("GRANT_UNKNOWN", format!("there is no grant `{id}`"))
        .hint("list them with `countersign grant list`")
}

/// A human who can reach the home's keys is its operator. Agents and services have only the
/// authority that they were granted, for the capabilities in its scope.
/// `None` for a human, who needs no grant.
fn find_authority(
    book: &GrantBook,
    by: &Principal,
    admin: Capability,
    over: Capability,
    now: Timestamp,
) -> Result<Option<GrantId>, Failure> {
    if by.is_human() {
        return Ok(None);
    }
    let holder = Grantee::from(by.clone());
    let held = book.live(&holder, now).find(|record| {
        let body = &record.grant.body;
        body.capability == admin && body.scope.contains(over.as_str())
    });
    let message = format!("`{by}` may not do this: it does not hold `{admin}` for `{over}`");
    held.map(|record| Some(record.grant.body.id)).ok_or_else(|| {
        Failure::authorization("AUTHORITY_MISSING", message)
            .hint("a human operator can do it, or grant the capability")
    })
}

/// Whatever it holds, a machine cannot widen its own rights.
fn check_not_self(command: &IssueCommand) -> Result<(), Failure> {
    if command.by.is_human() || !command.to.is_principal(&command.by) {
        return Ok(());
    }
    let message = format!("`{}` cannot grant anything to itself", command.by);
    Err(Failure::authorization("GRANT_TO_SELF", message).hint("ask a human operator"))
}
