//! Making a receipt from a journal.

use countersign_model::digest::canonical_json;
use countersign_model::event::{CallEvent, Fact, HomeEvent};
use countersign_model::record::CallRecord;
use countersign_model::{ExecutionId, Failure, HomeId};

use super::MAX_RECEIPT;
use super::basis::Needs;
use super::dsse::{Bytes, Envelope};
use super::pins::{Pin, pins};
use super::statement::{Claims, Included, Predicate, Proven, Statement, Subject, event_of, left};
use crate::checkpoint::NoteSigner;
use crate::entry::Entry;
use crate::error::JournalError;
use crate::store::{Head, Store, StoredEntry};

/// Writes the receipt of a call as it stands now. `content` hands out the values that are to be in
/// it; what it does not hand out, or what is not the value that was pinned, stays a digest.
pub fn create(
    store: &dyn Store,
    signer: &NoteSigner,
    execution: ExecutionId,
    content: &mut dyn FnMut(&Pin) -> Option<Vec<u8>>,
) -> Result<Vec<u8>, Failure> {
    let head = store.head()?;
    let mut entries = store.call_entries(execution)?;
    // What was appended since is not covered by the checkpoint.
    entries.retain(|stored| stored.entry.seq < head.size);
    let call = fold(execution, &entries)?.ok_or_else(|| unknown(execution))?;
    let last = entries.last().map(|stored| stored.bytes.clone()).unwrap_or_default();
    let events: Vec<_> = events(execution, &entries).collect();
    let subjects = Subject::all(&call, &last, left(events.iter().copied()));
    let (home, basis) = basis(store, &head, &events)?;
    let predicate = Predicate {
        basis,
        entries: prove_all(store, &head, &entries)?,
        summary: Claims::of(home, &call),
        values: values(&events, content),
        checkpoint: head.checkpoint,
    };
    seal(&Statement::new(subjects, predicate), signer)
}

fn unknown(execution: ExecutionId) -> Failure {
    Failure::validation("EXECUTION_UNKNOWN", format!("there is no execution {execution}"))
        .hint("list them with `countersign execution list`")
}

fn events(execution: ExecutionId, entries: &[StoredEntry]) -> impl Iterator<Item = &CallEvent> {
    entries.iter().filter_map(move |stored| event_of(&stored.entry, execution))
}

fn fold(
    execution: ExecutionId,
    entries: &[StoredEntry],
) -> Result<Option<CallRecord>, JournalError> {
    let times = entries.iter().map(|stored| stored.entry.time);
    CallRecord::fold(execution, times.zip(events(execution, entries)))
        .map_err(|error| JournalError::Corrupt(format!("execution {execution}: {error}")))
}

fn prove_all(
    store: &dyn Store,
    head: &Head,
    entries: &[StoredEntry],
) -> Result<Vec<Proven>, JournalError> {
    let one = |stored: &StoredEntry| prove(store, head, stored.entry.seq, stored.bytes.clone());
    entries.iter().map(one).collect()
}

fn prove(store: &dyn Store, head: &Head, seq: u64, bytes: Vec<u8>) -> Result<Proven, JournalError> {
    Ok(Proven { entry: Bytes(bytes), path: store.inclusion_path(seq, head.size)?, seq })
}

/// The home, and the entries of everything that the call rests on, up to the checkpoint: what was
/// revoked after the call is told as well.
fn basis(
    store: &dyn Store,
    head: &Head,
    events: &[&CallEvent],
) -> Result<(HomeId, Vec<Proven>), JournalError> {
    let people = store.people()?.book;
    let replaced = |key: &_| people.get(key).and_then(|held| held.record.replaces);
    let needs = Needs::of(events.iter().copied(), replaced);
    let is_known = needs.people.iter().any(|who| people.principal(who).is_some());
    let is_rooted = is_known || !needs.grants.is_empty() || !needs.keys.is_empty();
    let end = if is_rooted { head.size } else { 1 };
    let (mut home, mut found, mut seq) = (None, Vec::new(), 0);
    store.visit_raw(0..end, &mut |bytes| {
        if let Some(fact) = other_fact(seq, &bytes)?.filter(|fact| needs.wants(fact)) {
            if let Fact::Home(HomeEvent::Created { home: id, .. }) = &fact {
                home = Some(*id);
            }
            found.push((seq, bytes));
        }
        seq += 1;
        Ok(())
    })?;
    let home =
        home.ok_or_else(|| JournalError::Corrupt("it says nothing of its home".to_owned()))?;
    let proven = found.into_iter().map(|(seq, bytes)| prove(store, head, seq, bytes));
    Ok((home, proven.collect::<Result<_, _>>()?))
}

/// A fact that is not about a call. Almost all are, and how their entries begin tells them apart.
fn other_fact(seq: u64, bytes: &[u8]) -> Result<Option<Fact>, JournalError> {
    if bytes.starts_with(br#"{"fact":{"call":"#) {
        return Ok(None);
    }
    let entry = Entry::parse(bytes)
        .map_err(|error| JournalError::Corrupt(format!("entry {seq} cannot be read: {error}")))?;
    Ok(Some(entry.fact))
}

/// In the order of their digests, each once.
fn values(
    events: &[&CallEvent],
    content: &mut dyn FnMut(&Pin) -> Option<Vec<u8>>,
) -> Vec<Included> {
    let mut values = Vec::new();
    for pin in pins(events.iter().copied()) {
        let bytes = content(&pin).filter(|bytes| pin.fits(bytes));
        values.extend(bytes.map(|bytes| Included { content: Bytes(bytes), digest: pin.digest }));
    }
    values.sort_unstable_by_key(|value| value.digest);
    values.dedup_by_key(|value| value.digest);
    values
}

fn seal(statement: &Statement, signer: &NoteSigner) -> Result<Vec<u8>, Failure> {
    let internal = |error: &dyn std::fmt::Display| {
        Failure::state("INTERNAL", format!("the receipt cannot be written: {error}"))
    };
    let payload = canonical_json(statement).map_err(|error| internal(&error))?;
    let envelope = Envelope::seal(payload, signer);
    let mut file = serde_json::to_vec(&envelope).map_err(|error| internal(&error))?;
    file.push(b'\n');
    if file.len() > MAX_RECEIPT {
        let message =
            format!("the receipt would have {} bytes, more than {MAX_RECEIPT}", file.len());
        return Err(Failure::validation("RECEIPT_TOO_LARGE", message)
            .hint("leave contents out, and hand them over beside the receipt"));
    }
    Ok(file)
}
