//! Principals and keys in their tables. What a fact does to them is said once, in the model.

use countersign_model::{HeldKey, KeyBook, PrincipalRecord};
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;

use super::{collect, rows, schema};
use crate::error::JournalError;

const VERSION: &str = "people";

pub(super) fn version(connection: &Connection) -> Result<u64, JournalError> {
    if !schema::has_people(connection)? {
        return Ok(0);
    }
    let sql = "SELECT version FROM versions WHERE name = ?1";
    let found = connection.prepare_cached(sql)?.query_row([VERSION], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

pub(super) fn book(connection: &Connection) -> Result<KeyBook, JournalError> {
    if !schema::has_people(connection)? {
        return Ok(KeyBook::default());
    }
    let principals = "SELECT body FROM principals ORDER BY name";
    let keys = "SELECT body FROM key_records ORDER BY id";
    Ok(KeyBook::from_records(
        all::<PrincipalRecord>(connection, principals, "a principal")?,
        all::<HeldKey>(connection, keys, "a key")?,
    ))
}

fn all<T: DeserializeOwned>(
    connection: &Connection,
    sql: &str,
    what: &str,
) -> Result<Vec<T>, JournalError> {
    let mut statement = connection.prepare_cached(sql)?;
    collect(&mut statement.query([])?, |row| rows::from_json(&row.get::<_, Vec<u8>>(0)?, what))
}

/// Writes down what is different after a fact.
pub(super) fn put(
    connection: &Connection,
    before: &KeyBook,
    after: &KeyBook,
    version: u64,
) -> Result<(), JournalError> {
    let sql = "INSERT OR REPLACE INTO principals (name, body) VALUES (?1, ?2)";
    for record in after.principals().filter(|r| before.principal(&r.principal) != Some(r)) {
        let values = params![record.principal.to_string(), rows::to_json(record)?];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    let sql = "INSERT OR REPLACE INTO key_records (id, body) VALUES (?1, ?2)";
    for key in after.keys().filter(|key| before.get(&key.record.id) != Some(key)) {
        let values = params![key.record.id.as_uuid().as_bytes(), rows::to_json(key)?];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    let sql = "INSERT OR REPLACE INTO versions (name, version) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![VERSION, version])?;
    Ok(())
}
