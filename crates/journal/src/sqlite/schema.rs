//! The tables, and how a connection is set up.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::error::JournalError;

/// `CSGN`: lets `file(1)` and us tell this database from any other.
const APPLICATION_ID: i32 = 0x4353_474e;
/// Readers of the same major version understand each other; a minor version only adds.
const MAJOR: i32 = 1;
const MINOR: i32 = 5;
/// The minor version that brought principals and keys.
const PEOPLE: i32 = 1;
/// The minor version that brought the policy sets.
const POLICIES: i32 = 2;
/// The minor version that brought workspaces, runs and artifacts.
const WORK: i32 = 4;
/// The minor version that brought workflows, documents of tenants and answers to repeat.
const RUNS: i32 = 5;

/// How long to wait for another process to finish its commit.
const BUSY: Duration =
    if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(20) };

/// Negative: SQLite takes it as KiB, not as pages.
const CACHE_KIB: i32 = -16 * 1024;
/// 16 MiB of log.
const LOG_PAGES: i32 = 4096;

/// `entries` and `head` are the journal. `nodes` keeps every eighth level of the Merkle tree so that
/// a proof reads a few hundred hashes, not all of them. The rest are caches of the journal
/// (`calls`, `grants`), the values it pins (`payloads`) and the state that calls work on (`keys`,
/// `claims`), changed in the same transaction as the entry that says so.
///
/// Calls and payloads are kept in the order of call ids, which is the order of time: a commit
/// touches the right edge of each tree and not a page here and there.
const TABLES: &str = "
CREATE TABLE entries (seq INTEGER PRIMARY KEY, hash BLOB NOT NULL, body BLOB NOT NULL);
CREATE TABLE head (one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL,
    hash BLOB NOT NULL, peaks BLOB NOT NULL, checkpoint TEXT NOT NULL,
    grants_version INTEGER NOT NULL);
CREATE TABLE nodes (height INTEGER NOT NULL, idx INTEGER NOT NULL, hash BLOB NOT NULL,
    PRIMARY KEY (height, idx)) WITHOUT ROWID;
CREATE TABLE calls (id BLOB PRIMARY KEY, tool TEXT NOT NULL, principal TEXT NOT NULL,
    state TEXT NOT NULL, events INTEGER NOT NULL, terminal INTEGER NOT NULL,
    declared_at INTEGER NOT NULL, entries BLOB NOT NULL, summary BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX calls_open ON calls (declared_at) WHERE terminal = 0;
CREATE TABLE grants (id BLOB PRIMARY KEY, body BLOB NOT NULL, revoked_at INTEGER) WITHOUT ROWID;
CREATE TABLE payloads (call BLOB NOT NULL, digest BLOB NOT NULL, bytes BLOB NOT NULL,
    PRIMARY KEY (call, digest)) WITHOUT ROWID;
CREATE TABLE keys (key TEXT PRIMARY KEY, digest BLOB NOT NULL, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE claims (resource TEXT PRIMARY KEY, call BLOB NOT NULL) WITHOUT ROWID;
";

/// What minor versions have added. A journal without it is one in which none of it ever happened:
/// readers take it as empty, and whoever writes next makes the tables.
///
/// `principals`, `key_records` and `policies` are caches of the journal; `versions` says when the
/// first two changed. `calls_waiting` (minor version 3) counts what waits for people, by who asked;
/// only writers use it. The others (minor version 4) follow workspaces, runs, artifacts and what was
/// done before under the same key.
const ADDED: &str = "
CREATE TABLE IF NOT EXISTS versions (name TEXT PRIMARY KEY, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS principals (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS key_records (id BLOB PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS policies (digest BLOB PRIMARY KEY, seq INTEGER NOT NULL,
    body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS calls_waiting ON calls (principal)
    WHERE terminal = 0 AND state = 'VALIDATED';
CREATE TABLE IF NOT EXISTS workspaces (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run_calls (run TEXT NOT NULL, call BLOB NOT NULL,
    PRIMARY KEY (run, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS artifacts (id TEXT PRIMARY KEY, seq INTEGER NOT NULL, run TEXT,
    name TEXT NOT NULL, call BLOB NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS artifacts_by_run ON artifacts (run, name, seq);
CREATE INDEX IF NOT EXISTS artifacts_by_call ON artifacts (call);
CREATE INDEX IF NOT EXISTS artifacts_by_time ON artifacts (seq);
CREATE TABLE IF NOT EXISTS consumers (artifact TEXT NOT NULL, call BLOB NOT NULL,
    PRIMARY KEY (artifact, call)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS keyed (key BLOB PRIMARY KEY, call BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, scope TEXT,
    parent TEXT, status TEXT NOT NULL, events INTEGER NOT NULL, open INTEGER NOT NULL,
    created_at INTEGER NOT NULL, body BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS runs_open ON runs (created_at) WHERE open = 1;
CREATE INDEX IF NOT EXISTS runs_by_time ON runs (created_at, id);
CREATE INDEX IF NOT EXISTS runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_by_scope ON runs (tenant, scope)
    WHERE scope IS NOT NULL AND open = 1;
CREATE TABLE IF NOT EXISTS run_facts (run TEXT NOT NULL, first INTEGER NOT NULL,
    seq INTEGER NOT NULL, PRIMARY KEY (run, first)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (tenant TEXT NOT NULL, space TEXT NOT NULL, key TEXT NOT NULL,
    version INTEGER NOT NULL, at INTEGER NOT NULL, digest BLOB, value BLOB,
    PRIMARY KEY (tenant, space, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (tenant TEXT NOT NULL, operation TEXT NOT NULL,
    key TEXT NOT NULL, request BLOB NOT NULL, at INTEGER NOT NULL, status INTEGER NOT NULL,
    body BLOB NOT NULL, PRIMARY KEY (tenant, operation, key)) WITHOUT ROWID;
";

pub(crate) fn create(path: &Path) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = Connection::open_with_flags(path, flags | no_mutex())?;
    tune(&connection)?;
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(ADDED)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", (MAJOR << 16) | MINOR)?;
    transaction.commit()?;
    Ok(connection)
}

pub(crate) fn open_writer(path: &Path) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE;
    let mut connection = Connection::open_with_flags(path, flags | no_mutex())?;
    tune(&connection)?;
    check_format(&connection)?;
    upgrade(&mut connection)?;
    Ok(connection)
}

/// Brings a journal of an older minor version up to ours. Asked again under the write lock, because
/// another process may have done it meanwhile; what a newer one made is left alone.
fn upgrade(connection: &mut Connection) -> Result<(), JournalError> {
    if minor(connection)? >= MINOR {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if minor(&transaction)? < MINOR {
        transaction.execute_batch(ADDED)?;
        transaction.pragma_update(None, "user_version", (MAJOR << 16) | MINOR)?;
    }
    Ok(transaction.commit()?)
}

/// Whether the journal is young enough to have tables of principals and keys. Asked of the version
/// and not of the tables: a table that should be there and is not is no empty table.
pub(super) fn has_people(connection: &Connection) -> Result<bool, JournalError> {
    Ok(minor(connection)? >= PEOPLE)
}

/// Likewise for the policy sets.
pub(super) fn has_policies(connection: &Connection) -> Result<bool, JournalError> {
    Ok(minor(connection)? >= POLICIES)
}

/// Likewise for workspaces, runs and artifacts.
pub(super) fn has_work(connection: &Connection) -> Result<bool, JournalError> {
    Ok(minor(connection)? >= WORK)
}

/// Likewise for workflows, documents and answers.
pub(super) fn has_runs(connection: &Connection) -> Result<bool, JournalError> {
    Ok(minor(connection)? >= RUNS)
}

fn minor(connection: &Connection) -> Result<i32, JournalError> {
    Ok(version(connection)? & 0xffff)
}

/// Asked before almost every read, so the question is kept.
fn version(connection: &Connection) -> Result<i32, JournalError> {
    Ok(connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?)
}

pub(crate) fn open_reader(path: &Path) -> Result<Connection, JournalError> {
    match reader(path, OpenFlags::empty()) {
        Err(JournalError::ReadOnly(_)) if !has_log(path) => {
            reader(Path::new(&frozen(path)), OpenFlags::SQLITE_OPEN_URI)
        }
        result => result,
    }
}

fn reader(path: &Path, more: OpenFlags) -> Result<Connection, JournalError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | more;
    let connection = Connection::open_with_flags(path, flags | no_mutex())?;
    connection.busy_timeout(BUSY)?;
    check_format(&connection)?;
    Ok(connection)
}

/// Whether commits may wait beside the database to be moved into it.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    !matches!(Path::new(&log).try_exists(), Ok(false))
}

/// Names a journal that is read as it stands. On a read-only disk SQLite cannot make the files
/// through which processes agree with each other; without a log nobody is writing, and nothing that
/// was committed is missing from the database itself.
pub(super) fn frozen(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?immutable=1"
}

/// Each connection is used by one thread at a time, which Rust's types already guarantee.
fn no_mutex() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn tune(connection: &Connection) -> Result<(), JournalError> {
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // FULL: a commit has reached the disk when it returns. Nothing weaker is durable.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // The right edges of all tables stay in memory, and pages that are written again and again move
    // from the log into the database once.
    connection.pragma_update(None, "cache_size", CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn check_format(connection: &Connection) -> Result<(), JournalError> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |r| r.get(0))?;
    let version = version(connection)?;
    if application != APPLICATION_ID {
        return Err(JournalError::Corrupt("it is not a Countersign journal".to_owned()));
    }
    if version >> 16 != MAJOR {
        let found = format!("{}.{}", version >> 16, version & 0xffff);
        return Err(JournalError::Incompatible { found, supported: format!("{MAJOR}.{MINOR}") });
    }
    Ok(())
}
