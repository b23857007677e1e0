//! Whether a grant may be made. Whether the grantor has the authority to make one is for the
//! caller to decide; these rules hold for whoever has.

use crate::capability::Capability;
use crate::error::Failure;
use crate::grant::{Grant, GrantBody};
use crate::grantee::Grantee;
use crate::id::GrantId;
use crate::principal::Principal;
use crate::scope::Scope;
use crate::time::Timestamp;

/// A root may be handed on three times.
pub const MAX_DEPTH: u8 = 3;

/// A year and a day: whatever is needed for longer deserves a second look.
pub const MAX_LIFETIME_MILLIS: i64 = 366 * 24 * 60 * 60 * 1000;

/// How far ahead another host's clock may be before its grants are not valid yet.
pub const CLOCK_SKEW_MILLIS: i64 = 5_000;

/// The rules every new grant obeys, root or delegated. `held` says whether the grantee holds a
/// capability now; it is asked about the prerequisites.
pub fn check_issue(
    body: &GrantBody,
    held: impl Fn(Capability) -> bool,
    now: Timestamp,
) -> Result<(), Failure> {
    check_scope(&body.scope)?;
    check_lifetime(body, now)?;
    check_place(body)?;
    check_prerequisites(body, held)
}

fn check_scope(scope: &Scope) -> Result<(), Failure> {
    if !scope.is_empty() {
        return Ok(());
    }
    Err(Failure::validation("GRANT_SCOPE_EMPTY", "a grant with an empty scope allows nothing")
        .hint("name what it is for, or '**' for everything"))
}

fn check_lifetime(body: &GrantBody, now: Timestamp) -> Result<(), Failure> {
    if body.expires_at <= now {
        let message = format!("the grant would have expired already, at {}", body.expires_at);
        return Err(Failure::validation("GRANT_EXPIRED", message).hint("choose a later expiry"));
    }
    if body.issued_at > now.plus_millis(CLOCK_SKEW_MILLIS) {
        let message = format!("the grant says it is issued later, at {}", body.issued_at);
        return Err(Failure::validation("GRANT_NOT_YET_VALID", message));
    }
    // Measured from the earlier moment, so that neither an old nor a new date stretches it.
    let lifetime = body.expires_at.millis_since(body.issued_at.min(now));
    if lifetime > MAX_LIFETIME_MILLIS {
        let message = "a grant lasts at most 366 days";
        return Err(Failure::validation("GRANT_TOO_LONG", message).hint("choose an earlier expiry"));
    }
    Ok(())
}

/// A root stands at depth 0, and nothing else does.
fn check_place(body: &GrantBody) -> Result<(), Failure> {
    if body.depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if body.parent.is_none() != (body.depth == 0) {
        let message = format!("depth {} does not fit the grant's parent", body.depth);
        return Err(Failure::validation("GRANT_DEPTH_INVALID", message));
    }
    Ok(())
}

fn check_prerequisites(body: &GrantBody, held: impl Fn(Capability) -> bool) -> Result<(), Failure> {
    let missing = body.capability.requires_all().iter().find(|&&required| !held(required));
    let Some(missing) = missing else { return Ok(()) };
    let (grantee, capability) = (&body.grantee, body.capability);
    let message = format!("`{capability}` needs `{missing}`, which `{grantee}` does not hold");
    Err(Failure::authorization("GRANT_PREREQUISITE_MISSING", message)
        .hint(format!("grant `{missing}` to `{grantee}` first, for the same scope")))
}

/// What the holder of a grant asks to hand on.
#[derive(Debug, Clone)]
pub struct Delegation<'a> {
    pub id: GrantId,
    pub by: &'a Principal,
    pub to: Grantee,
    pub scope: Scope,
    pub expires_at: Timestamp,
    pub delegable: bool,
}

/// The body of a grant derived from `parent`: never wider, always shorter. Whether the parent is
/// still good is asked by `GrantBook::delegate`; `check_issue` applies to the result as well.
pub fn delegate(
    parent: &Grant,
    asked: Delegation<'_>,
    now: Timestamp,
) -> Result<GrantBody, Failure> {
    let depth = check_delegation(&parent.body, &asked)?;
    let body = GrantBody {
        id: asked.id,
        capability: parent.body.capability,
        grantee: asked.to,
        grantor: asked.by.clone(),
        scope: asked.scope,
        issued_at: now,
        expires_at: asked.expires_at,
        delegable: asked.delegable,
        parent: Some(parent.body.id),
        depth,
    };
    check_scope(&body.scope)?;
    check_lifetime(&body, now)?;
    Ok(body)
}

/// The depth of the child, if there may be one. Ownership comes first, so that a stranger learns
/// nothing else about the grant.
fn check_delegation(parent: &GrantBody, asked: &Delegation<'_>) -> Result<u8, Failure> {
    if !parent.grantee.is_principal(asked.by) {
        return Err(refused("GRANT_NOT_YOURS", &format!("`{}` does not hold it", asked.by)));
    }
    if !parent.delegable {
        return Err(refused("GRANT_NOT_DELEGABLE", "it may not be handed on")
            .hint("ask its grantor for a delegable one"));
    }
    if parent.depth >= MAX_DEPTH {
        return Err(too_deep());
    }
    check_narrower(parent, asked)?;
    Ok(parent.depth.saturating_add(1))
}

fn check_narrower(parent: &GrantBody, asked: &Delegation<'_>) -> Result<(), Failure> {
    if !parent.scope.covers(&asked.scope) {
        let held: Vec<_> = parent.scope.patterns().map(|p| format!("`{p}`")).collect();
        return Err(refused("GRANT_WIDER", "the scope asked for goes beyond it")
            .hint(format!("stay within {}", held.join(", "))));
    }
    if asked.expires_at >= parent.expires_at {
        let limit = parent.expires_at;
        let message = format!("it expires at {limit}, and what is handed on ends before that");
        return Err(refused("GRANT_OUTLIVES_PARENT", &message).hint("choose an earlier expiry"));
    }
    Ok(())
}

fn refused(code: &'static str, why: &str) -> Failure {
    Failure::authorization(code, format!("the grant cannot be delegated: {why}"))
}

fn too_deep() -> Failure {
    refused("GRANT_TOO_DEEP", "it was already handed on three times")
        .hint("ask someone nearer the root for a grant")
}
