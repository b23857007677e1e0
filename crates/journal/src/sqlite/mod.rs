//! The embedded store: one SQLite file in WAL mode, safe for several processes at once.

mod append;
mod people;
mod policies;
mod prepared;
mod queue;
mod rows;
mod runs;
mod schema;
#[cfg(test)]
mod tests;
mod trust;
mod work;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactId, ArtifactRecord, Digest, ExecutionId, PolicyAdopted, RunId, RunSummary, Timestamp,
    Workspace,
};
use rusqlite::{Connection, OptionalExtension, Row, Rows, params_from_iter};

use self::append::{NODE_STRIDE, commit_group};
use self::prepared::Prepared;
use self::queue::{Job, Queue};
use self::trust::Trusted;
use crate::checkpoint::NoteSigner;
use crate::error::{AppendError, JournalError};
use crate::merkle::{self, NodeSource, node_hash};
use crate::store::{
    Appended, ArtifactFilter, Batch, CallFilter, GrantRow, Head, People, Record, RecordKey, Reply,
    ReplyKey, RunFilter, Store, StoredEntry, WorkCounts,
};

/// How many entries are fetched at a time when a range is walked.
const PAGE: u64 = 1024;

/// What SQLite can count to.
const MAX_SEQ: u64 = i64::MAX as u64;

#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    signer: NoteSigner,
    queue: Queue,
    /// Dropped before the pen: the last connection to close moves the log into the database, and a
    /// reader cannot.
    readers: Mutex<Vec<Connection>>,
    pen: Mutex<Pen>,
    poisoned: AtomicBool,
}

/// What appending needs.
#[derive(Debug)]
struct Pen {
    /// Opened by the first append: commands that only read need no write access.
    connection: Option<Connection>,
    trusted: Option<Trusted>,
}

impl SqliteStore {
    /// Makes a new, empty journal. Fails if there is a file already.
    pub fn create(path: &Path, signer: NoteSigner) -> Result<Self, JournalError> {
        if path.exists() {
            return Err(JournalError::Internal(format!("{} exists", path.display())));
        }
        let connection = schema::create(path)?;
        Ok(Self::with(path, signer, Pen { connection: Some(connection), trusted: None }))
    }

    /// Opens a journal and checks that its head is whole and signed; the cost does not grow with
    /// the number of entries.
    pub fn open(path: &Path, signer: NoteSigner) -> Result<Self, JournalError> {
        if !path.try_exists()? {
            return Err(JournalError::Corrupt(format!("{} is missing", path.display())));
        }
        let reader = schema::open_reader(path)?;
        let trusted = Some(check_head(&reader, &signer)?);
        let store = Self::with(path, signer, Pen { connection: None, trusted });
        store.keep(reader);
        Ok(store)
    }

    /// Opens a journal without judging its head, so that verification can say what is wrong.
    pub fn open_for_inspection(path: &Path, signer: NoteSigner) -> Result<Self, JournalError> {
        let reader = schema::open_reader(path)?;
        let store = Self::with(path, signer, Pen { connection: None, trusted: None });
        store.keep(reader);
        Ok(store)
    }

    fn with(path: &Path, signer: NoteSigner, pen: Pen) -> Self {
        SqliteStore {
            path: path.to_owned(),
            signer,
            queue: Queue::default(),
            pen: Mutex::new(pen),
            readers: Mutex::new(Vec::new()),
            poisoned: AtomicBool::new(false),
        }
    }

    /// Runs `work` on a reader of the pool.
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, JournalError>,
    ) -> Result<T, JournalError> {
        let pooled = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match pooled {
            Some(connection) => connection,
            None => schema::open_reader(&self.path)?,
        };
        let result = work(&connection);
        self.keep(connection);
        result
    }

    fn keep(&self, reader: Connection) {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }

    fn commit(&self, jobs: Vec<Job>) -> Vec<(Job, Result<Appended, AppendError>)> {
        let mut pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        let Pen { connection, trusted } = &mut *pen;
        let connection = match self.ready(connection) {
            Ok(connection) => connection,
            Err(error) => {
                return jobs.into_iter().map(|job| (job, Err(error.clone().into()))).collect();
            }
        };
        let outcomes = commit_group(connection, &self.signer, trusted, jobs);
        if outcomes.iter().any(|(_, outcome)| is_doubtful(outcome)) {
            self.poisoned.store(true, Ordering::Release);
        }
        outcomes
    }

    fn ready<'w>(
        &self,
        writer: &'w mut Option<Connection>,
    ) -> Result<&'w mut Connection, JournalError> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(JournalError::Poisoned);
        }
        match writer {
            Some(connection) => Ok(connection),
            None => Ok(writer.insert(schema::open_writer(&self.path)?)),
        }
    }

    /// Walks a range of entries page by page, so that no read transaction stays open for long.
    fn walk<T>(
        &self,
        range: Range<u64>,
        parse: impl Fn(&Row<'_>) -> Result<T, JournalError>,
        visitor: &mut dyn FnMut(T) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let (mut first, end) = (range.start, range.end.min(MAX_SEQ));
        while first < end {
            let page = self.read(|connection| {
                let sql = "SELECT seq, hash, body FROM entries
                    WHERE seq >= ?1 AND seq < ?2 ORDER BY seq LIMIT ?3";
                let mut statement = connection.prepare_cached(sql)?;
                let mut found = statement.query([first, end, PAGE])?;
                collect(&mut found, |row| Ok((row.get::<_, u64>(0)?, parse(row)?)))
            })?;
            first = page.last().map_or(end, |(seq, _)| seq + 1);
            page.into_iter().try_for_each(|(_, value)| visitor(value))?;
        }
        Ok(())
    }
}

fn collect<T>(
    found: &mut Rows<'_>,
    parse: impl Fn(&Row<'_>) -> Result<T, JournalError>,
) -> Result<Vec<T>, JournalError> {
    let mut values = Vec::new();
    while let Some(row) = found.next()? {
        values.push(parse(row)?);
    }
    Ok(values)
}

fn check_head(connection: &Connection, signer: &NoteSigner) -> Result<Trusted, JournalError> {
    // One snapshot: another process may append between the reads.
    let snapshot = connection.unchecked_transaction()?;
    let head = rows::head(&snapshot)?;
    if head.frontier.size() == 0 {
        return Err(JournalError::Corrupt("it has no entries".to_owned()));
    }
    Trusted::check(&snapshot, &head, signer.verifier(), None)
}

/// After an I/O error nobody knows what reached the disk; going on could fork the chain.
fn is_doubtful(outcome: &Result<Appended, AppendError>) -> bool {
    matches!(
        outcome,
        Err(AppendError::Journal(JournalError::Internal(_) | JournalError::Corrupt(_)))
    )
}

impl Store for SqliteStore {
    fn append(&self, batch: Batch) -> Result<Appended, AppendError> {
        // Encoded on the caller's own thread, so that the leader has less to do.
        self.queue.append(Prepared::new(batch)?, |jobs| self.commit(jobs))
    }

    fn head(&self) -> Result<Head, JournalError> {
        self.read(|connection| {
            let head = rows::head(connection)?;
            let size = head.frontier.size();
            Ok(Head { size, hash: head.hash, checkpoint: head.checkpoint })
        })
    }

    fn visit_raw(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.walk(range, rows::body, visitor)
    }

    fn visit(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(StoredEntry) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.walk(range, rows::entry, visitor)
    }

    fn call(&self, execution: ExecutionId) -> Result<Option<CallSummary>, JournalError> {
        self.read(|connection| {
            let sql = "SELECT summary FROM calls WHERE id = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let id = execution.as_uuid().as_bytes();
            statement.query_row([id], |row| Ok(rows::call(row))).optional()?.transpose()
        })
    }

    fn call_entries(&self, execution: ExecutionId) -> Result<Vec<StoredEntry>, JournalError> {
        self.read(|connection| at_places(connection, rows::call_seqs(connection, execution)?))
    }

    fn visit_calls(
        &self,
        filter: &CallFilter,
        visitor: &mut dyn FnMut(CallSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let (sql, values) = calls_query(filter);
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            let mut found = statement.query(params_from_iter(values))?;
            while let Some(row) = found.next()? {
                visitor(rows::call(row)?)?;
            }
            Ok(())
        })
    }

    fn open_calls(&self) -> Result<Vec<CallSummary>, JournalError> {
        self.read(|connection| {
            // Those that have not begun are nobody's, and may wait for people in their thousands.
            let sql = "SELECT summary FROM calls WHERE terminal = 0
                AND state NOT IN ('DECLARED', 'VALIDATED') ORDER BY declared_at";
            let mut statement = connection.prepare_cached(sql)?;
            collect(&mut statement.query([])?, rows::call)
        })
    }

    fn grants_version(&self) -> Result<u64, JournalError> {
        self.read(|connection| {
            let sql = "SELECT grants_version FROM head";
            let version = connection.prepare_cached(sql)?.query_row([], |row| row.get(0));
            Ok(version.optional()?.unwrap_or(0))
        })
    }

    fn grants(&self) -> Result<Vec<GrantRow>, JournalError> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT body, revoked_at FROM grants ORDER BY id")?;
            collect(&mut statement.query([])?, rows::grant)
        })
    }

    fn people_version(&self) -> Result<u64, JournalError> {
        self.read(people::version)
    }

    fn people(&self) -> Result<People, JournalError> {
        self.read(|connection| {
            // One snapshot: a key must not be seen without its principal.
            let snapshot = connection.unchecked_transaction()?;
            Ok(People { version: people::version(&snapshot)?, book: people::book(&snapshot)? })
        })
    }

    fn policies(&self) -> Result<Vec<PolicyAdopted>, JournalError> {
        self.read(policies::all)
    }

    fn has_policy(&self, digest: &Digest) -> Result<bool, JournalError> {
        self.read(|connection| policies::has(connection, digest))
    }

    fn workspaces(&self) -> Result<Vec<Workspace>, JournalError> {
        self.read(work::workspaces)
    }

    fn run_calls(&self, run: &RunId) -> Result<Vec<ExecutionId>, JournalError> {
        self.read(|connection| work::run_calls(connection, run))
    }

    fn first_call(&self, run: &RunId) -> Result<Option<ExecutionId>, JournalError> {
        self.read(|connection| work::first_call(connection, run))
    }

    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactRecord>, JournalError> {
        self.read(|connection| work::artifact(connection, id))
    }

    fn visit_artifacts(
        &self,
        filter: &ArtifactFilter,
        visitor: &mut dyn FnMut(ArtifactRecord) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.read(|connection| work::visit_artifacts(connection, filter, visitor))
    }

    fn consumers(&self, id: &ArtifactId) -> Result<Vec<ExecutionId>, JournalError> {
        self.read(|connection| work::consumers(connection, id))
    }

    fn keyed(&self, key: &Digest) -> Result<Option<ExecutionId>, JournalError> {
        self.read(|connection| work::keyed(connection, key))
    }

    fn run(&self, id: &RunId) -> Result<Option<RunSummary>, JournalError> {
        self.read(|connection| runs::run(connection, id))
    }

    fn visit_runs(
        &self,
        filter: &RunFilter,
        visitor: &mut dyn FnMut(RunSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.read(|connection| runs::visit(connection, filter, visitor))
    }

    fn run_entries(&self, id: &RunId, from: u64) -> Result<Vec<StoredEntry>, JournalError> {
        self.read(|connection| at_places(connection, runs::facts(connection, id, from)?))
    }

    fn run_payload(&self, id: &RunId, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let bytes = self.read(|connection| runs::payload(connection, id, digest))?;
        match bytes {
            Some(bytes) if Digest::of(&bytes) != *digest => {
                Err(JournalError::Corrupt(format!("a value of run {id} was changed")))
            }
            found => Ok(found),
        }
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Record>, JournalError> {
        self.read(|connection| runs::one_record(connection, key))
    }

    fn records(
        &self,
        tenant: Option<&str>,
        space: &str,
        prefix: &str,
    ) -> Result<Vec<(String, Record)>, JournalError> {
        self.read(|connection| runs::records(connection, tenant, space, prefix))
    }

    fn reply(&self, key: &ReplyKey) -> Result<Option<Reply>, JournalError> {
        self.read(|connection| runs::reply(connection, key))
    }

    fn forget_replies(&self, before: Timestamp) -> Result<(), JournalError> {
        let mut pen = self.pen.lock().unwrap_or_else(PoisonError::into_inner);
        runs::forget_replies(self.ready(&mut pen.connection)?, before)
    }

    fn work_counts(&self) -> Result<WorkCounts, JournalError> {
        self.read(work::counts)
    }

    fn payload(
        &self,
        execution: ExecutionId,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>, JournalError> {
        let bytes: Option<Vec<u8>> = self.read(|connection| {
            let sql = "SELECT bytes FROM payloads WHERE call = ?1 AND digest = ?2";
            let place = (execution.as_uuid().as_bytes(), digest.as_bytes());
            Ok(connection.prepare_cached(sql)?.query_row(place, |row| row.get(0)).optional()?)
        })?;
        match bytes {
            Some(bytes) if Digest::of(&bytes) != *digest => Err(JournalError::Blob(*digest)),
            bytes => Ok(bytes),
        }
    }

    fn key(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        self.read(|connection| {
            let sql = "SELECT key, digest, value FROM keys WHERE key = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            let found =
                statement.query_row([key], |row| Ok(rows::key(row))).optional()?.transpose()?;
            Ok(found.map(|(_, value)| value))
        })
    }

    fn visit_keys(
        &self,
        visitor: &mut dyn FnMut(String, Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.read(|connection| {
            let sql = "SELECT key, digest, value FROM keys ORDER BY key";
            let mut statement = connection.prepare_cached(sql)?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                let (key, value) = rows::key(row)?;
                visitor(key, value)?;
            }
            Ok(())
        })
    }

    fn inclusion_path(&self, seq: u64, size: u64) -> Result<Vec<Digest>, JournalError> {
        self.read(|connection| merkle::inclusion_path(&Nodes(connection), seq, size))
    }

    fn tile_hashes(&self, range: Range<u64>) -> Result<Vec<Digest>, JournalError> {
        self.read(|connection| merkle::tile_hashes(&Nodes(connection), range))
    }
}

/// Calls come newest first; ids are version 7, so they sort by time.
fn calls_query(filter: &CallFilter) -> (String, Vec<String>) {
    // What has not ended is little, and has an index of its own.
    let (from, order) = match filter.open {
        true => ("calls INDEXED BY calls_open WHERE terminal = 0", "declared_at"),
        false => ("calls WHERE 1", "id"),
    };
    let mut sql = format!("SELECT summary FROM {from}");
    let mut values = Vec::new();
    let mut add = |condition: &str, value: Option<String>| {
        if let Some(value) = value {
            sql.push_str(&format!(" AND {condition}"));
            values.push(value);
        }
    };
    add("tool = ?", filter.tool.as_ref().map(ToString::to_string));
    add("state = ?", filter.state.map(|state| state.to_string()));
    add("principal = ?", filter.principal.as_ref().map(ToString::to_string));
    let run = filter.run.as_ref().map(ToString::to_string);
    add("id IN (SELECT call FROM run_calls WHERE run = ?)", run);
    let millis = |at: Timestamp| at.as_millis().to_string();
    add("declared_at >= CAST(? AS INTEGER)", filter.since.map(millis));
    add("declared_at < CAST(? AS INTEGER)", filter.until.map(millis));
    sql.push_str(&format!(" ORDER BY {order} DESC"));
    if let Some(limit) = filter.limit {
        sql.push_str(&format!(" LIMIT {limit}"));
    }
    (sql, values)
}

/// Inner nodes of the tree: kept ones are read, the others put together from below.
struct Nodes<'c>(&'c Connection);

impl NodeSource for Nodes<'_> {
    type Error = JournalError;

    fn subtree(&self, height: u32, index: u64) -> Result<Digest, JournalError> {
        if !height.is_multiple_of(NODE_STRIDE) {
            let left = self.subtree(height - 1, index * 2)?;
            return Ok(node_hash(&left, &self.subtree(height - 1, index * 2 + 1)?));
        }
        let found = if height == 0 {
            let sql = "SELECT hash FROM entries WHERE seq = ?1";
            self.0.prepare_cached(sql)?.query_row([index], |row| rows::digest(row, 0)).optional()?
        } else {
            let sql = "SELECT hash FROM nodes WHERE height = ?1 AND idx = ?2";
            let place = (height, index);
            self.0.prepare_cached(sql)?.query_row(place, |row| rows::digest(row, 0)).optional()?
        };
        found.ok_or_else(|| {
            JournalError::Corrupt(format!("the tree has no node {index} at height {height}"))
        })
    }
}

/// Entries that stand at these places, each checked against its hash.
fn at_places(connection: &Connection, seqs: Vec<u64>) -> Result<Vec<StoredEntry>, JournalError> {
    let sql = "SELECT seq, hash, body FROM entries WHERE seq = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let missing = |seq| JournalError::Corrupt(format!("entry {seq} is missing"));
    let mut one = |seq| {
        let found = statement.query_row([seq], |row| Ok(rows::entry(row))).optional()?;
        found.unwrap_or_else(|| Err(missing(seq)))
    };
    seqs.into_iter().map(&mut one).collect()
}
