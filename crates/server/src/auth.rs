//! Who asks: a bearer key, and what it is good for.

use std::collections::BTreeSet;
use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use countersign_host::Host;
use countersign_model::{Failure, KeyId, KeyRecord, KeyScope, Principal, Timestamp, Token};
use serde_json::json;

use crate::error::Refusal;

/// The tenant of keys that name none.
pub const DEFAULT_TENANT: &str = "default";

/// Whoever knows the keys. Answers from memory, and compares in constant time.
pub trait Keys: fmt::Debug + Send + Sync {
    fn authenticate(&self, token: &Token, now: Timestamp) -> Result<KeyRecord, Failure>;
}

impl Keys for Host {
    fn authenticate(&self, token: &Token, now: Timestamp) -> Result<KeyRecord, Failure> {
        Host::authenticate(self, token, now).map(|(_, record)| record)
    }
}

/// Whose request this is. Only the gate makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub principal: Principal,
    pub tenant: String,
    pub scopes: BTreeSet<KeyScope>,
    pub key: KeyId,
}

impl Caller {
    pub(crate) fn of(record: &KeyRecord) -> Caller {
        // `allows` also minds what a machine may never do, whatever the record says.
        let scopes = record.scopes.iter().copied().filter(|scope| record.allows(*scope));
        Caller {
            principal: record.principal.clone(),
            tenant: record.tenant.clone().unwrap_or_else(|| DEFAULT_TENANT.to_owned()),
            scopes: scopes.collect(),
            key: record.id,
        }
    }

    pub fn may(&self, scope: KeyScope) -> bool {
        self.scopes.contains(&scope)
    }

    pub fn needs(&self, scope: KeyScope) -> Result<(), Refusal> {
        if self.may(scope) {
            return Ok(());
        }
        let message = format!("this key is not good for `{scope}`");
        Err(Refusal::forbidden(message).detail("requiredScope", json!(scope)))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    /// A handler that asks for a caller on an open route is a mistake of ours, not of the client.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Refusal> {
        parts.extensions.get::<Caller>().cloned().ok_or_else(Refusal::internal)
    }
}

/// The key that a request shows. What is wrong with it is told, its text never.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Token, Refusal> {
    let mut shown = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (shown.next(), shown.next()) else {
        return Err(Refusal::unauthenticated("show one key as `Authorization: Bearer KEY`"));
    };
    let text = value.to_str().ok().and_then(strip_scheme);
    let text = text
        .ok_or_else(|| Refusal::unauthenticated("show the key as `Authorization: Bearer KEY`"))?;
    Ok(text.parse::<Token>()?)
}

fn strip_scheme(value: &str) -> Option<&str> {
    let (scheme, key) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

/// Looks the key up where it stands: the book is in memory, and the one number that tells whether
/// it is still the newest costs less to read than another thread costs to wake.
pub(crate) fn authenticate(
    keys: &dyn Keys,
    headers: &HeaderMap,
    now: Timestamp,
) -> Result<Caller, Refusal> {
    let token = bearer(headers)?;
    Ok(Caller::of(&keys.authenticate(&token, now)?))
}

/// Runs what may wait for a disk or a lock. A panic in there is an internal error of this request.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(_) => Err(Refusal::internal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn refused(values: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
        }
        let refusal = bearer(&headers).unwrap_err();
        assert_eq!((refusal.status.as_u16(), &*refusal.code), (401, "unauthenticated"));
        refusal.envelope().to_string()
    }

    #[test]
    fn what_is_no_key_is_not_repeated() {
        let key = "csk_019a7c3e00007000800000000000000a_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc_9f0821";
        let bearing = format!("Bearer {key}");
        for values in [
            &[][..],
            &["Basic Zm9v"],
            &["Bearer"],
            &["Bearer "],
            &[key],
            &[&bearing],
            &[&bearing, &bearing],
        ] {
            assert!(!refused(values).contains("BwcH"), "{values:?}");
        }
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        let key = "csk_019a7c3e00007000800000000000000a_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc_9f0820";
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("bEARER  {key}").parse().unwrap());
        assert!(bearer(&headers).is_ok());
    }
}
