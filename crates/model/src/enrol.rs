//! Whether a principal may be added and a key be made. Decided from a book and a moment; the host
//! makes sure that the book still holds when the fact is written.

use crate::error::Failure;
use crate::id::KeyId;
use crate::issue::MAX_LIFETIME_MILLIS;
use crate::key::{KeyRecord, KeyScope};
use crate::keys::{HeldKey, KeyBook};
use crate::principal::{Principal, is_name};
use crate::time::Timestamp;

/// A line for people, not a document.
const MAX_DESCRIPTION: usize = 256;

/// Whatever it holds, a machine manages neither principals nor keys: one of its own making would
/// widen its rights.
pub fn check_human(by: &Principal) -> Result<(), Failure> {
    if by.is_human() {
        return Ok(());
    }
    let message = format!(
        "`{by}` may not manage principals and keys: agents and services can never widen their own rights"
    );
    Err(Failure::authorization("HUMANS_ONLY", message).hint("ask a human operator"))
}

pub fn check_addition(
    book: &KeyBook,
    principal: &Principal,
    description: Option<&str>,
) -> Result<(), Failure> {
    if book.knows(principal) {
        let message = format!("`{principal}` is there already");
        return Err(Failure::validation("PRINCIPAL_EXISTS", message)
            .hint("list them with `countersign principal list`"));
    }
    if description.is_some_and(|text| text.chars().count() > MAX_DESCRIPTION) {
        let message = format!("a description has at most {MAX_DESCRIPTION} characters");
        return Err(Failure::validation("DESCRIPTION_TOO_LONG", message));
    }
    Ok(())
}

pub fn check_known(book: &KeyBook, principal: &Principal) -> Result<(), Failure> {
    if book.knows(principal) {
        return Ok(());
    }
    Err(Failure::validation("PRINCIPAL_UNKNOWN", format!("there is no principal `{principal}`"))
        .hint(format!("add it with `countersign principal add {principal}`")))
}

/// The rules every new key obeys.
pub fn check_key(book: &KeyBook, key: &KeyRecord, now: Timestamp) -> Result<(), Failure> {
    check_known(book, &key.principal)?;
    check_scopes(key)?;
    check_tenant(key.tenant.as_deref())?;
    check_lifetime(key, now)
}

fn check_scopes(key: &KeyRecord) -> Result<(), Failure> {
    if key.scopes.is_empty() {
        let message = "a key without a scope is good for nothing";
        return Err(Failure::validation("KEY_SCOPE_EMPTY", message).hint(KeyScope::hint()));
    }
    let Some(scope) = key.forbidden_scope() else { return Ok(()) };
    let message = format!(
        "`{}` cannot have a key to {scope}: only humans approve and administer",
        key.principal
    );
    Err(Failure::authorization("HUMANS_ONLY", message).hint("leave it out, or name a human"))
}

/// Tenants are spelt like the names of principals.
fn check_tenant(tenant: Option<&str>) -> Result<(), Failure> {
    match tenant {
        Some(tenant) if !is_name(tenant) => {
            let message = format!("`{tenant}` is not the name of a tenant");
            Err(Failure::validation("TENANT_INVALID", message)
                .hint("names use letters, digits and . _ - @, at most 64"))
        }
        _ => Ok(()),
    }
}

fn check_lifetime(key: &KeyRecord, now: Timestamp) -> Result<(), Failure> {
    if key.expires_at <= now {
        let message = format!("the key would have expired already, at {}", key.expires_at);
        return Err(Failure::validation("KEY_EXPIRED", message).hint("choose a later expiry"));
    }
    if key.expires_at.millis_since(now) > MAX_LIFETIME_MILLIS {
        let message = "a key lasts at most 366 days";
        return Err(Failure::validation("KEY_TOO_LONG", message)
            .hint("choose an earlier expiry and rotate it in time"));
    }
    Ok(())
}

pub fn find_key<'b>(book: &'b KeyBook, id: &KeyId) -> Result<&'b HeldKey, Failure> {
    book.get(id).ok_or_else(|| {
        Failure::validation("KEY_UNKNOWN", format!("there is no key `{id}`"))
            .hint("list them with `countersign key list`")
    })
}

/// The key to rotate: good still, and not rotated before, so that keys form a line and not a tree.
pub fn check_rotation<'b>(
    book: &'b KeyBook,
    id: &KeyId,
    now: Timestamp,
) -> Result<&'b HeldKey, Failure> {
    let old = find_key(book, id)?;
    old.check_good(now).map_err(|failure| failure.hint("make a new one instead"))?;
    match book.successor(id) {
        None => Ok(old),
        Some(next) => {
            let message = format!("key `{id}` was rotated already");
            Err(Failure::validation("KEY_ROTATED", message)
                .hint(format!("rotate its successor, {}", next.record.id)))
        }
    }
}
