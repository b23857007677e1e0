//! The policy sets that have decided here, each as it was first taken up.

use countersign_model::{Digest, PolicyAdopted, PolicyEvent};
use rusqlite::{Connection, OptionalExtension, params};

use super::{collect, rows, schema};
use crate::error::JournalError;

/// A set that two hosts take up at once is kept as the first of them said.
pub(super) fn put(
    connection: &Connection,
    seq: u64,
    event: &PolicyEvent,
) -> Result<(), JournalError> {
    let PolicyEvent::Adopted(adopted) = event;
    let sql = "INSERT OR IGNORE INTO policies (digest, seq, body) VALUES (?1, ?2, ?3)";
    let values = params![adopted.policy.digest.as_bytes(), seq, rows::to_json(adopted)?];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// In the order in which they were taken up.
pub(super) fn all(connection: &Connection) -> Result<Vec<PolicyAdopted>, JournalError> {
    if !schema::has_policies(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached("SELECT body FROM policies ORDER BY seq")?;
    let parse = |row: &rusqlite::Row<'_>| rows::from_json(&row.get::<_, Vec<u8>>(0)?, "a policy");
    collect(&mut statement.query([])?, parse)
}

pub(super) fn has(connection: &Connection, digest: &Digest) -> Result<bool, JournalError> {
    if !schema::has_policies(connection)? {
        return Ok(false);
    }
    let sql = "SELECT 1 FROM policies WHERE digest = ?1";
    let found = connection.prepare_cached(sql)?.query_row([digest.as_bytes()], |_| Ok(()));
    Ok(found.optional()?.is_some())
}
