//! Rows to values and back.

use countersign_model::record::CallSummary;
use countersign_model::{Digest, ExecutionId, GrantId, Principal, Timestamp};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::entry::Entry;
use crate::error::JournalError;
use crate::merkle::{Frontier, leaf_hash};
use crate::store::{GrantRow, StoredEntry};

pub(super) struct HeadRow {
    pub(super) frontier: Frontier,
    pub(super) hash: Digest,
    pub(super) checkpoint: String,
    pub(super) grants_version: u64,
}

pub(super) fn head(connection: &Connection) -> Result<HeadRow, JournalError> {
    let sql = "SELECT size, hash, peaks, checkpoint, grants_version FROM head WHERE one = 1";
    let row = connection.prepare_cached(sql)?.query_row([], |row| {
        Ok((
            row.get::<_, u64>(0)?,
            digest(row, 1)?,
            row.get::<_, Vec<u8>>(2)?,
            row.get(3)?,
            row.get(4)?,
        ))
    });
    let Some((size, hash, peaks, checkpoint, grants_version)) = row.optional()? else {
        return Ok(HeadRow {
            frontier: Frontier::default(),
            hash: Digest::ZERO,
            checkpoint: String::new(),
            grants_version: 0,
        });
    };
    let frontier = frontier(size, &peaks)
        .ok_or_else(|| JournalError::Corrupt("the head does not fit its size".to_owned()))?;
    Ok(HeadRow { frontier, hash, checkpoint, grants_version })
}

fn frontier(size: u64, peaks: &[u8]) -> Option<Frontier> {
    let (whole, rest) = peaks.as_chunks::<32>();
    let peaks = whole.iter().map(|bytes| Digest::from_bytes(*bytes)).collect();
    rest.is_empty().then(|| Frontier::from_peaks(size, peaks))?
}

pub(super) fn put_head(connection: &Connection, head: &HeadRow) -> Result<(), JournalError> {
    let peaks: Vec<u8> = head.frontier.peaks().iter().flat_map(|peak| *peak.as_bytes()).collect();
    let sql = "INSERT OR REPLACE INTO head (one, size, hash, peaks, checkpoint, grants_version)
        VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    connection.prepare_cached(sql)?.execute(params![
        head.frontier.size(),
        head.hash.as_bytes(),
        peaks,
        head.checkpoint,
        head.grants_version
    ])?;
    Ok(())
}

/// The bytes of an entry as they stand, whatever somebody made of them.
pub(super) fn body(row: &Row<'_>) -> Result<Vec<u8>, JournalError> {
    Ok(row.get_ref(2)?.as_bytes_or_null().ok().flatten().unwrap_or_default().to_vec())
}

/// A stored entry, checked against its hash and its place: what does not match is never handed out.
pub(super) fn entry(row: &Row<'_>) -> Result<StoredEntry, JournalError> {
    let seq: u64 = row.get(0)?;
    let hash = digest(row, 1)?;
    let bytes: Vec<u8> = row.get(2)?;
    if leaf_hash(&bytes) != hash {
        return Err(JournalError::Corrupt(format!("entry {seq} does not match its hash")));
    }
    let entry = Entry::parse(&bytes)
        .map_err(|e| JournalError::Corrupt(format!("entry {seq} cannot be read: {e}")))?;
    if entry.seq != seq {
        let why = format!("entry {} stands in the place of entry {seq}", entry.seq);
        return Err(JournalError::Corrupt(why));
    }
    Ok(StoredEntry { entry, hash, bytes })
}

pub(super) fn call(row: &Row<'_>) -> Result<CallSummary, JournalError> {
    from_json(&row.get::<_, Vec<u8>>(0)?, "a call")
}

pub(super) fn grant(row: &Row<'_>) -> Result<GrantRow, JournalError> {
    let grant = from_json(&row.get::<_, Vec<u8>>(0)?, "a grant")?;
    let revoked_at = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_millis);
    Ok(GrantRow { grant, revoked_at })
}

/// A state key and its value, checked against its digest.
pub(super) fn key(row: &Row<'_>) -> Result<(String, Vec<u8>), JournalError> {
    let (key, value): (String, Vec<u8>) = (row.get(0)?, row.get(2)?);
    if Digest::of(&value) != digest(row, 1)? {
        return Err(JournalError::Corrupt(format!("the value of state key `{key}` was changed")));
    }
    Ok((key, value))
}

pub(super) fn digest(row: &Row<'_>, column: usize) -> rusqlite::Result<Digest> {
    row.get::<_, [u8; 32]>(column).map(Digest::from_bytes)
}

pub(super) fn call_events(connection: &Connection, id: ExecutionId) -> Result<u32, JournalError> {
    let sql = "SELECT events FROM calls WHERE id = ?1";
    let events = connection
        .prepare_cached(sql)?
        .query_row([id.as_uuid().as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(events.unwrap_or(0))
}

/// Where the facts of a call stand, oldest first.
pub(super) fn call_seqs(
    connection: &Connection,
    id: ExecutionId,
) -> Result<Vec<u64>, JournalError> {
    let sql = "SELECT entries FROM calls WHERE id = ?1";
    let bytes: Option<Vec<u8>> = connection
        .prepare_cached(sql)?
        .query_row([id.as_uuid().as_bytes()], |row| row.get(0))
        .optional()?;
    let (seqs, rest) = bytes.as_deref().unwrap_or_default().as_chunks::<8>();
    if !rest.is_empty() {
        return Err(JournalError::Corrupt(format!("the entries of execution {id} are not listed")));
    }
    Ok(seqs.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
}

pub(super) fn encode_seqs(seqs: &[u64]) -> Vec<u8> {
    seqs.iter().flat_map(|seq| seq.to_le_bytes()).collect()
}

pub(super) fn grant_is_live(connection: &Connection, id: GrantId) -> Result<bool, JournalError> {
    let sql = "SELECT revoked_at IS NULL FROM grants WHERE id = ?1";
    let live = connection
        .prepare_cached(sql)?
        .query_row([id.as_uuid().as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(live.unwrap_or(false))
}

/// Whether at least so many calls of a principal wait for people.
pub(super) fn are_waiting(
    connection: &Connection,
    principal: &Principal,
    most: u32,
) -> Result<bool, JournalError> {
    let sql = "SELECT 1 FROM calls INDEXED BY calls_waiting
        WHERE terminal = 0 AND state = 'VALIDATED' AND principal = ?1 LIMIT 1 OFFSET ?2";
    let values = params![principal.to_string(), most.saturating_sub(1)];
    let found = connection.prepare_cached(sql)?.query_row(values, |_| Ok(()));
    Ok(found.optional()?.is_some())
}

pub(super) fn key_digest(
    connection: &Connection,
    key: &str,
) -> Result<Option<Digest>, JournalError> {
    let sql = "SELECT digest FROM keys WHERE key = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([key], |row| digest(row, 0)).optional()?)
}

pub(super) fn claim(
    connection: &Connection,
    resource: &str,
) -> Result<Option<ExecutionId>, JournalError> {
    let sql = "SELECT call FROM claims WHERE resource = ?1";
    Ok(connection.prepare_cached(sql)?.query_row([resource], execution).optional()?)
}

/// Who is about to publish something beneath `resource`, which is then a directory and not a file.
pub(super) fn claim_beneath(
    connection: &Connection,
    resource: &str,
) -> Result<Option<ExecutionId>, JournalError> {
    // In the order of bytes, `0` is what follows `/`.
    let sql = "SELECT call FROM claims WHERE resource > ?1 || '/' AND resource < ?1 || '0' LIMIT 1";
    Ok(connection.prepare_cached(sql)?.query_row([resource], execution).optional()?)
}

fn execution(row: &Row<'_>) -> rusqlite::Result<ExecutionId> {
    Ok(ExecutionId::from_uuid(Uuid::from_bytes(row.get(0)?)))
}

pub(super) fn to_json<T: Serialize>(value: &T) -> Result<Vec<u8>, JournalError> {
    serde_json::to_vec(value).map_err(|e| JournalError::Internal(e.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, JournalError> {
    serde_json::from_slice(bytes)
        .map_err(|e| JournalError::Corrupt(format!("{what} cannot be read: {e}")))
}
