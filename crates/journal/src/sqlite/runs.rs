//! Runs, documents of tenants and answers to repeat: tables that follow the facts of the journal, or
//! stand beside them for a while.

use countersign_model::effect::Payload;
use countersign_model::{Digest, RecordFact, RunId, RunSummary, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};

use super::prepared::PreparedRun;
use super::{collect, rows, schema};
use crate::error::JournalError;
use crate::store::{Record, RecordKey, Reply, ReplyKey, RunFilter};

/// Values of a run are kept where those of calls are.
fn owner(run: &RunId) -> [u8; 16] {
    let digest = Digest::of(format!("run:{run}").as_bytes());
    let mut owner = [0; 16];
    owner.iter_mut().zip(digest.as_bytes()).for_each(|(to, from)| *to = *from);
    owner
}

/// Where a fact of a run stands.
pub(super) fn put_fact(
    connection: &Connection,
    run: &RunId,
    first: u64,
    seq: u64,
) -> Result<(), JournalError> {
    let sql = "INSERT INTO run_facts (run, first, seq) VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![run.as_str(), first, seq])?;
    Ok(())
}

pub(super) fn put_run(
    connection: &Connection,
    prepared: &PreparedRun,
    values: &[(Digest, Vec<u8>)],
) -> Result<(), JournalError> {
    let PreparedRun { run, json } = prepared;
    let sql = "INSERT OR REPLACE INTO runs
        (id, tenant, scope, parent, status, events, open, created_at, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    connection.prepare_cached(sql)?.execute(params![
        run.run.as_str(),
        run.tenant,
        run.scope,
        run.parent.as_ref().map(RunId::as_str),
        run.status,
        run.events,
        run.ended_at.is_none(),
        run.created_at.as_millis(),
        json,
    ])?;
    let sql = "INSERT OR IGNORE INTO payloads (call, digest, bytes) VALUES (?1, ?2, ?3)";
    for (digest, bytes) in values {
        let values = params![owner(&run.run), digest.as_bytes(), bytes];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// How many events of a run there are; none if there is no such run.
pub(super) fn events(connection: &Connection, run: &RunId) -> Result<u64, JournalError> {
    let sql = "SELECT events FROM runs WHERE id = ?1";
    let found = connection.prepare_cached(sql)?.query_row([run.as_str()], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

/// The live run of a scope.
pub(super) fn active(
    connection: &Connection,
    tenant: &str,
    scope: &str,
) -> Result<Option<RunId>, JournalError> {
    let sql = "SELECT id FROM runs WHERE tenant = ?1 AND scope = ?2 AND open = 1 LIMIT 1";
    let found =
        connection.prepare_cached(sql)?.query_row([tenant, scope], |row| row.get::<_, String>(0));
    found.optional()?.map(|id| parsed(&id)).transpose()
}

fn parsed(id: &str) -> Result<RunId, JournalError> {
    id.parse().map_err(|_| JournalError::Corrupt(format!("`{id}` is no run")))
}

const RUNS: &str = "SELECT body, id, tenant, status, events, open FROM runs";

/// What a run is found by stands beside it; both must say the same.
fn summary(row: &Row<'_>) -> Result<RunSummary, JournalError> {
    let run: RunSummary = rows::from_json(&row.get::<_, Vec<u8>>(0)?, "a run")?;
    let (id, tenant, status): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    let (events, open): (u64, bool) = (row.get(4)?, row.get(5)?);
    let same = (run.run.as_str(), run.tenant.as_str(), run.status.as_str())
        == (id.as_str(), tenant.as_str(), status.as_str())
        && (run.events, run.ended_at.is_none()) == (events, open);
    match same {
        true => Ok(run),
        false => Err(JournalError::Corrupt(format!("run {id} is not the one it is listed as"))),
    }
}

pub(super) fn run(connection: &Connection, id: &RunId) -> Result<Option<RunSummary>, JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&format!("{RUNS} WHERE id = ?1"))?;
    statement.query_row([id.as_str()], |row| Ok(summary(row))).optional()?.transpose()
}

/// Newest first: ids of runs that we name are in the order of time.
pub(super) fn visit(
    connection: &Connection,
    filter: &RunFilter,
    visitor: &mut dyn FnMut(RunSummary) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(());
    }
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    let mut ask = |condition: &'static str, value: Option<Value>| {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(value);
        }
    };
    ask("tenant = ?", filter.tenant.clone().map(Value::Text));
    ask("parent = ?", filter.parent.as_ref().map(|run| Value::Text(run.to_string())));
    ask("status = ?", filter.status.clone().map(Value::Text));
    ask("id < ?", filter.before.as_ref().map(|run| Value::Text(run.to_string())));
    if filter.open {
        conditions.push("open = 1");
    }
    let limit = filter.limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
    let conditions = conditions.join(" AND ");
    let sql = format!("{RUNS} WHERE {conditions} ORDER BY created_at DESC, id DESC{limit}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(values))?;
    while let Some(row) = found.next()? {
        visitor(summary(row)?)?;
    }
    Ok(())
}

/// Where the facts stand that hold events of a run from a number on, in order.
pub(super) fn facts(
    connection: &Connection,
    run: &RunId,
    from: u64,
) -> Result<Vec<u64>, JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT seq FROM run_facts WHERE run = ?1 AND first >= ifnull(
        (SELECT max(first) FROM run_facts WHERE run = ?1 AND first <= ?2), 0) ORDER BY first";
    let mut statement = connection.prepare_cached(sql)?;
    collect(&mut statement.query(params![run.as_str(), from])?, |row| Ok(row.get(0)?))
}

pub(super) fn payload(
    connection: &Connection,
    run: &RunId,
    digest: &Digest,
) -> Result<Option<Vec<u8>>, JournalError> {
    let sql = "SELECT bytes FROM payloads WHERE call = ?1 AND digest = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row(params![owner(run), digest.as_bytes()], |row| row.get(0));
    Ok(found.optional()?)
}

fn version(connection: &Connection, key: &RecordKey) -> Result<u64, JournalError> {
    let sql = "SELECT version FROM records WHERE tenant = ?1 AND space = ?2 AND key = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([&key.tenant, &key.space, &key.key], |row| row.get(0));
    Ok(found.optional()?.unwrap_or(0))
}

pub(super) fn is_at(
    connection: &Connection,
    key: &RecordKey,
    wanted: u64,
) -> Result<bool, JournalError> {
    Ok(version(connection, key)? == wanted)
}

/// A removed document keeps its row, so that its versions go on.
pub(super) fn put_record(
    connection: &Connection,
    fact: &RecordFact,
    values: &[(Digest, Vec<u8>)],
) -> Result<(), JournalError> {
    let RecordFact { at, key, space, tenant, value, version: new, .. } = fact;
    let place = RecordKey { tenant: tenant.clone(), space: space.clone(), key: key.clone() };
    if version(connection, &place)? + 1 != *new {
        let why = format!("version {new} of `{key}` is not the next");
        return Err(JournalError::Unrecordable(why));
    }
    let bytes = value.as_ref().map(|value| kept(values, value)).transpose()?;
    let sql = "INSERT OR REPLACE INTO records (tenant, space, key, version, at, digest, value)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let digest = value.as_ref().map(|value| *value.digest.as_bytes());
    let values = params![tenant, space, key, new, at.as_millis(), digest, bytes];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn kept<'v>(values: &'v [(Digest, Vec<u8>)], pinned: &Payload) -> Result<&'v [u8], JournalError> {
    let found = values.iter().find(|(digest, _)| *digest == pinned.digest);
    found
        .map(|(_, bytes)| bytes.as_slice())
        .ok_or_else(|| JournalError::Unrecordable("a document came without its content".to_owned()))
}

const RECORDS: &str = "SELECT key, version, at, digest, value FROM records";

fn record(row: &Row<'_>) -> Result<Record, JournalError> {
    let (key, version, at): (String, u64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
    let digest: Option<Vec<u8>> = row.get(3)?;
    let value: Option<Vec<u8>> = row.get(4)?;
    let sound = match (&digest, &value) {
        (Some(digest), Some(value)) => Digest::of(value).as_bytes().as_slice() == digest.as_slice(),
        (None, None) => true,
        _ => false,
    };
    match sound {
        true => Ok(Record { key, version, at: Timestamp::from_millis(at), value }),
        false => Err(JournalError::Corrupt(format!("document `{key}` was changed"))),
    }
}

pub(super) fn one_record(
    connection: &Connection,
    key: &RecordKey,
) -> Result<Option<Record>, JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(None);
    }
    let sql = format!("{RECORDS} WHERE tenant = ?1 AND space = ?2 AND key = ?3");
    let mut statement = connection.prepare_cached(&sql)?;
    let place = [&key.tenant, &key.space, &key.key];
    statement.query_row(place, |row| Ok(record(row))).optional()?.transpose()
}

/// Documents whose key begins so, in the order of keys; removed ones are left out.
pub(super) fn records(
    connection: &Connection,
    tenant: Option<&str>,
    space: &str,
    prefix: &str,
) -> Result<Vec<(String, Record)>, JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(Vec::new());
    }
    // A range of keys, so that the index finds them; no text is behind the last of all characters.
    let whose = tenant.map_or("?4 IS NULL", |_| "tenant = ?4");
    let sql = format!(
        "SELECT key, version, at, digest, value, tenant FROM records
        WHERE {whose} AND space = ?1 AND key >= ?2 AND key < ?3
        AND value IS NOT NULL ORDER BY tenant, key"
    );
    let end = format!("{prefix}{}", char::MAX);
    let mut statement = connection.prepare_cached(&sql)?;
    collect(&mut statement.query(params![space, prefix, end, tenant])?, |row| {
        Ok((row.get(5)?, record(row)?))
    })
}

pub(super) fn put_reply(connection: &Connection, reply: &Reply) -> Result<(), JournalError> {
    let sql = "INSERT INTO replies (tenant, operation, key, request, at, status, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let ReplyKey { tenant, operation, key } = &reply.key;
    let request = reply.request.as_bytes();
    let values =
        params![tenant, operation, key, request, reply.at.as_millis(), reply.status, reply.body];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn reply(
    connection: &Connection,
    key: &ReplyKey,
) -> Result<Option<Reply>, JournalError> {
    if !schema::has_runs(connection)? {
        return Ok(None);
    }
    let sql = "SELECT request, at, status, body FROM replies
        WHERE tenant = ?1 AND operation = ?2 AND key = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([&key.tenant, &key.operation, &key.key], |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
    });
    Ok(found.optional()?.map(|(request, at, status, body)| Reply {
        key: key.clone(),
        request: Digest::from_bytes(request),
        at: Timestamp::from_millis(at),
        status,
        body,
    }))
}

/// Answers that nobody can ask for again.
pub(super) fn forget_replies(
    connection: &Connection,
    before: Timestamp,
) -> Result<(), JournalError> {
    let sql = "DELETE FROM replies WHERE at < ?1";
    connection.prepare_cached(sql)?.execute([before.as_millis()])?;
    Ok(())
}
