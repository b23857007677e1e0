//! Documents that tenants keep here: annotations, files, webhooks. Each is a record of the journal,
//! and stands under the tenant of the key that wrote it.

use axum::Extension;
use countersign_host::Host;
use countersign_journal::{AppendError, Batch, Conflict, Expect, JournalError};
use countersign_journal::{Record, RecordKey, Reply};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Principal, RecordFact, Timestamp};
use serde_json::Value;

use super::Api;
use super::shelf;
use crate::auth::Caller;
use crate::error::Refusal;
use crate::gate::Repeatable;

/// One document as it shall be, and the version that it stands at now: 0 if it never was.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) space: &'static str,
    pub(super) key: String,
    pub(super) version: u64,
    /// None removes it.
    pub(super) value: Option<Vec<u8>>,
}

/// Who writes, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Author<'a> {
    pub(super) tenant: &'a str,
    pub(super) principal: &'a Principal,
}

impl<'a> From<&'a Caller> for Author<'a> {
    fn from(caller: &'a Caller) -> Author<'a> {
        Author { tenant: &caller.tenant, principal: &caller.principal }
    }
}

/// Whether a change was made, or somebody else was faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Done,
    Overtaken,
}

fn place(tenant: &str, space: &str, key: &str) -> RecordKey {
    RecordKey { tenant: tenant.to_owned(), space: space.to_owned(), key: key.to_owned() }
}

/// A document as it stands; also one that was removed, whose versions go on.
pub(super) fn find(
    host: &Host,
    tenant: &str,
    space: &str,
    key: &str,
) -> Result<Option<Record>, Refusal> {
    let found = host.home().store.record(&place(tenant, space, key));
    found.map_err(refused)
}

/// Documents whose key begins so, in the order of their keys.
pub(super) fn list(
    host: &Host,
    tenant: &str,
    space: &str,
    prefix: &str,
) -> Result<Vec<Record>, Refusal> {
    let found = host.home().store.records(Some(tenant), space, prefix);
    Ok(found.map_err(refused)?.into_iter().map(|(_, record)| record).collect())
}

/// All changes or none, and with them the answer that is given to whoever asks the same again.
pub(super) fn write(
    host: &Host,
    author: Author<'_>,
    now: Timestamp,
    changes: Vec<Change>,
    reply: Option<Reply>,
) -> Result<Written, Refusal> {
    let mut batch = Batch { reply, ..Batch::default() };
    for change in changes {
        let Change { space, key, version, value } = change;
        let record = place(author.tenant, space, &key);
        batch.expect.push(Expect::RecordAt { record, version });
        let pinned = value.as_ref().map(|bytes| Payload::of(bytes));
        let fact = RecordFact {
            at: now,
            by: author.principal.clone(),
            key,
            space: space.to_owned(),
            tenant: author.tenant.to_owned(),
            value: pinned,
            version: version.saturating_add(1),
        };
        batch.facts.push((now, Fact::Record(fact)));
        batch.values.extend(pinned.map(|pinned| pinned.digest).zip(value));
    }
    match host.home().store.append(batch) {
        Ok(_) => Ok(Written::Done),
        Err(AppendError::Conflict(Conflict::Record(_))) => Ok(Written::Overtaken),
        Err(AppendError::Conflict(Conflict::Reply)) => Err(crate::idempotency::in_flight()),
        Err(error) => Err(countersign_model::Failure::from(error).into()),
    }
}

fn refused(error: JournalError) -> Refusal {
    countersign_model::Failure::from(error).into()
}

/// A document that was written here before.
pub(super) fn read<T: serde::de::DeserializeOwned>(value: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(value).map_err(|error| {
        tracing::error!(%error, "a document cannot be read");
        Refusal::internal()
    })
}

impl Api {
    /// The answer as it is kept beside what it answers, if the client may ask the same again.
    pub(super) fn reply(
        &self,
        repeatable: Option<&Extension<Repeatable>>,
        now: Timestamp,
        status: u16,
        body: Option<&Value>,
    ) -> Result<Option<Reply>, Refusal> {
        let Some(Extension(Repeatable { key, body: request })) = repeatable else {
            return Ok(None);
        };
        let text = body.map(ToString::to_string).unwrap_or_default();
        let key = shelf::named(key);
        let body = shelf::sealed(&self.0.answers, &key, text.as_bytes())?;
        Ok(Some(Reply { key, request: *request, at: now, status, body }))
    }
}
