//! Workspaces, the calls of a run, what they left and what was done before: tables that follow the
//! facts of the journal.

use countersign_model::effect::Artifact;
use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactEvent, ArtifactId, ArtifactRecord, Consumed, Digest, ExecutionId, RunId, Timestamp,
    Workspace, WorkspaceEvent, WorkspaceId,
};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use uuid::Uuid;

use super::{collect, rows, schema};
use crate::error::JournalError;
use crate::mark::Mark;
use crate::store::{ArtifactFilter, WorkCounts};

const ARTIFACTS: &str = "SELECT body, id, run, name, call FROM artifacts";

fn id_of(execution: ExecutionId) -> [u8; 16] {
    *execution.as_uuid().as_bytes()
}

/// A call of a run, when it begins.
pub(super) fn put_call(connection: &Connection, call: &CallSummary) -> Result<(), JournalError> {
    let Some(work) = &call.work else { return Ok(()) };
    let sql = "INSERT OR IGNORE INTO run_calls (run, call) VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![work.run.as_str(), id_of(call.execution)])?;
    Ok(())
}

pub(super) fn put_mark(
    connection: &Connection,
    seq: u64,
    call: &CallSummary,
    mark: &Mark,
) -> Result<(), JournalError> {
    match mark {
        Mark::Given(given) => given.iter().try_for_each(|one| consume(connection, call, one)),
        Mark::Made(at, made) => {
            made.iter().try_for_each(|one| put_artifact(connection, seq, *at, call, one))
        }
        Mark::Once(key) => put_key(connection, "INSERT", key, call),
        Mark::Done => match &call.key {
            Some(key) => put_key(connection, "INSERT OR REPLACE", key, call),
            None => Ok(()),
        },
        // What may have happened is not done again by anybody.
        Mark::Undone { unknown: true } => Ok(()),
        Mark::Undone { unknown: false } => match &call.key {
            Some(key) => free_key(connection, key, call),
            None => Ok(()),
        },
    }
}

fn consume(
    connection: &Connection,
    call: &CallSummary,
    given: &Consumed,
) -> Result<(), JournalError> {
    let sql = "INSERT OR IGNORE INTO consumers (artifact, call) VALUES (?1, ?2)";
    let values = params![given.artifact.as_str(), id_of(call.execution)];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn put_artifact(
    connection: &Connection,
    seq: u64,
    at: Timestamp,
    call: &CallSummary,
    made: &Artifact,
) -> Result<(), JournalError> {
    let record = ArtifactRecord::of(at, call, made);
    let sql = "INSERT OR REPLACE INTO artifacts (id, seq, run, name, call, body)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    connection.prepare_cached(sql)?.execute(params![
        record.id.as_str(),
        seq,
        record.run.as_ref().map(RunId::as_str),
        record.name,
        id_of(call.execution),
        rows::to_json(&record)?,
    ])?;
    Ok(())
}

fn put_key(
    connection: &Connection,
    verb: &str,
    key: &Digest,
    call: &CallSummary,
) -> Result<(), JournalError> {
    let sql = format!("{verb} INTO keyed (key, call) VALUES (?1, ?2)");
    let values = params![key.as_bytes(), id_of(call.execution)];
    connection.prepare_cached(&sql)?.execute(values)?;
    Ok(())
}

fn free_key(connection: &Connection, key: &Digest, call: &CallSummary) -> Result<(), JournalError> {
    let sql = "DELETE FROM keyed WHERE key = ?1 AND call = ?2";
    let values = params![key.as_bytes(), id_of(call.execution)];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// The call that did the same, or is about to.
pub(super) fn keyed(
    connection: &Connection,
    key: &Digest,
) -> Result<Option<ExecutionId>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(None);
    }
    let sql = "SELECT call FROM keyed WHERE key = ?1";
    let found = connection.prepare_cached(sql)?.query_row([key.as_bytes()], |row| row.get(0));
    found.optional()?.map(|bytes: Vec<u8>| execution(&bytes)).transpose()
}

fn execution(bytes: &[u8]) -> Result<ExecutionId, JournalError> {
    let uuid = Uuid::from_slice(bytes)
        .map_err(|_| JournalError::Corrupt("a call has no proper id".to_owned()))?;
    Ok(ExecutionId::from_uuid(uuid))
}

pub(super) fn put_workspace(
    connection: &Connection,
    event: &WorkspaceEvent,
) -> Result<(), JournalError> {
    match event {
        WorkspaceEvent::Added { workspace } => {
            let sql = "INSERT INTO workspaces (id, body) VALUES (?1, ?2)";
            let values = params![workspace.id.as_str(), rows::to_json(workspace)?];
            connection.prepare_cached(sql)?.execute(values)?;
        }
        WorkspaceEvent::Reset { workspace, .. } => {
            if !workspaces(connection)?.iter().any(|one| one.id == *workspace) {
                return Err(never_added(workspace));
            }
        }
        WorkspaceEvent::Removed { workspace, .. } => {
            let sql = "DELETE FROM workspaces WHERE id = ?1";
            if connection.prepare_cached(sql)?.execute([workspace.as_str()])? == 0 {
                return Err(never_added(workspace));
            }
        }
    }
    Ok(())
}

fn never_added(workspace: &WorkspaceId) -> JournalError {
    JournalError::Unrecordable(format!("workspace `{workspace}` was never added"))
}

pub(super) fn put_artifact_event(
    connection: &Connection,
    event: &ArtifactEvent,
) -> Result<(), JournalError> {
    let ArtifactEvent::Collected { artifacts, at, .. } = event;
    for id in artifacts {
        let found = artifact(connection, id)?;
        let found = found
            .ok_or_else(|| JournalError::Unrecordable(format!("artifact {id} was never made")))?;
        let record = ArtifactRecord { collected_at: Some(*at), ..found };
        let sql = "UPDATE artifacts SET body = ?2 WHERE id = ?1";
        let values = params![id.as_str(), rows::to_json(&record)?];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

pub(super) fn workspaces(connection: &Connection) -> Result<Vec<Workspace>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare_cached("SELECT body FROM workspaces ORDER BY id")?;
    let parse = |row: &Row<'_>| rows::from_json(&row.get::<_, Vec<u8>>(0)?, "a workspace");
    collect(&mut statement.query([])?, parse)
}

/// Oldest first.
pub(super) fn run_calls(
    connection: &Connection,
    run: &RunId,
) -> Result<Vec<ExecutionId>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT run_calls.call FROM run_calls JOIN calls ON calls.id = run_calls.call
        WHERE run = ?1 ORDER BY calls.declared_at, run_calls.call";
    let mut statement = connection.prepare_cached(sql)?;
    collect(&mut statement.query([run.as_str()])?, |row| execution(&row.get::<_, Vec<u8>>(0)?))
}

/// Ids are version 7, so the first is the oldest.
pub(super) fn first_call(
    connection: &Connection,
    run: &RunId,
) -> Result<Option<ExecutionId>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(None);
    }
    let sql = "SELECT call FROM run_calls WHERE run = ?1 ORDER BY call LIMIT 1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([run.as_str()], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    found.map(|id| execution(&id)).transpose()
}

/// What a record is found by stands beside it; both must say the same.
fn record(row: &Row<'_>) -> Result<ArtifactRecord, JournalError> {
    let record: ArtifactRecord = rows::from_json(&row.get::<_, Vec<u8>>(0)?, "an artifact")?;
    let (id, run, name): (String, Option<String>, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
    let producer = execution(&row.get::<_, Vec<u8>>(4)?)?;
    let same = record.id.as_str() == id
        && record.run.as_ref().map(RunId::as_str) == run.as_deref()
        && record.name == name
        && record.producer == producer;
    match same {
        true => Ok(record),
        false => {
            Err(JournalError::Corrupt(format!("artifact {id} is not the one it is listed as")))
        }
    }
}

pub(super) fn artifact(
    connection: &Connection,
    id: &ArtifactId,
) -> Result<Option<ArtifactRecord>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(None);
    }
    let mut statement = connection.prepare_cached(&format!("{ARTIFACTS} WHERE id = ?1"))?;
    statement.query_row([id.as_str()], |row| Ok(record(row))).optional()?.transpose()
}

/// Newest first.
pub(super) fn visit_artifacts(
    connection: &Connection,
    filter: &ArtifactFilter,
    visitor: &mut dyn FnMut(ArtifactRecord) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
    if !schema::has_work(connection)? {
        return Ok(());
    }
    let mut conditions = vec!["1"];
    let mut values: Vec<Value> = Vec::new();
    if let Some(run) = &filter.run {
        conditions.push("run = ?");
        values.push(Value::Text(run.to_string()));
    }
    if let Some(name) = &filter.name {
        conditions.push("name = ?");
        values.push(Value::Text(name.clone()));
    }
    if let Some(call) = filter.producer {
        conditions.push("call = ?");
        values.push(Value::Blob(id_of(call).to_vec()));
    }
    let limit = filter.limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
    let conditions = conditions.join(" AND ");
    let sql = format!("{ARTIFACTS} WHERE {conditions} ORDER BY seq DESC, id{limit}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut found = statement.query(params_from_iter(values))?;
    while let Some(row) = found.next()? {
        visitor(record(row)?)?;
    }
    Ok(())
}

/// Calls that were given the artifact.
pub(super) fn consumers(
    connection: &Connection,
    id: &ArtifactId,
) -> Result<Vec<ExecutionId>, JournalError> {
    if !schema::has_work(connection)? {
        return Ok(Vec::new());
    }
    let sql = "SELECT call FROM consumers WHERE artifact = ?1 ORDER BY call";
    let mut statement = connection.prepare_cached(sql)?;
    collect(&mut statement.query([id.as_str()])?, |row| execution(&row.get::<_, Vec<u8>>(0)?))
}

pub(super) fn counts(connection: &Connection) -> Result<WorkCounts, JournalError> {
    let (work, runs) = (schema::has_work(connection)?, schema::has_runs(connection)?);
    let count = |there: bool, table: &str| match there {
        false => Ok(0),
        true => {
            let sql = format!("SELECT count(*) FROM {table}");
            connection.prepare_cached(&sql)?.query_row([], |row| row.get(0))
        }
    };
    Ok(WorkCounts {
        artifacts: count(work, "artifacts")?,
        consumers: count(work, "consumers")?,
        keyed: count(work, "keyed")?,
        records: count(runs, "records")?,
        run_calls: count(work, "run_calls")?,
        run_facts: count(runs, "run_facts")?,
        runs: count(runs, "runs")?,
    })
}
