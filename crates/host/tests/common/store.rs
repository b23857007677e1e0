//! A store that passes everything on, and on the n-th append fails or kills the process.

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use countersign_journal::{
    AppendError, Appended, ArtifactFilter, Batch, CallFilter, GrantRow, Head, JournalError, People,
    Record, RecordKey, Reply, ReplyKey, RunFilter, SqliteStore, Store, StoredEntry, WorkCounts,
};
use countersign_model::event::Fact;
use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactId, ArtifactRecord, Digest, ExecutionId, PolicyAdopted, RunId, RunSummary, Timestamp,
    Workspace,
};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mishap {
    /// The append is refused; nothing was written.
    Fails,
    /// The append is durable, but the answer is lost.
    AnswerLost,
    /// The process dies before it.
    DiesBefore,
    /// The process dies after it.
    DiesAfter,
    /// From this append on, every append is refused.
    FailsFromHere,
}

/// Which append it befalls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum At {
    /// The n-th from now on; the first is 1.
    Append(u64),
    /// The next one that holds such a fact about a call.
    Fact(&'static str),
}

type Action = Box<dyn FnOnce() + Send>;

pub struct TestStore {
    inner: SqliteStore,
    plan: Mutex<Option<(At, Mishap)>>,
    after_commit: Mutex<Option<Action>>,
    before: Mutex<Option<(&'static str, Action)>>,
    before_grant: Mutex<Option<Action>>,
    appends: AtomicU64,
    /// Grants cannot be read.
    pub blind: AtomicBool,
}

impl TestStore {
    pub fn over(inner: SqliteStore) -> Self {
        TestStore {
            inner,
            plan: Mutex::new(None),
            after_commit: Mutex::new(None),
            before: Mutex::new(None),
            before_grant: Mutex::new(None),
            appends: AtomicU64::new(0),
            blind: AtomicBool::new(false),
        }
    }

    pub fn plan(&self, at: At, mishap: Mishap) {
        self.appends.store(0, Ordering::SeqCst);
        *self.plan.lock().unwrap() = Some((at, mishap));
    }

    /// Something that happens once, right after the next commit point is durable.
    pub fn after_commit(&self, action: impl FnOnce() + Send + 'static) {
        *self.after_commit.lock().unwrap() = Some(Box::new(action));
    }

    /// Something that happens once, right before such a fact about a call is appended.
    pub fn before(&self, fact: &'static str, action: impl FnOnce() + Send + 'static) {
        *self.before.lock().unwrap() = Some((fact, Box::new(action)));
    }

    /// Something that happens once, right before the next fact about a grant is appended.
    pub fn before_grant(&self, action: impl FnOnce() + Send + 'static) {
        *self.before_grant.lock().unwrap() = Some(Box::new(action));
    }

    fn pass_on(&self, batch: Batch) -> Result<Appended, AppendError> {
        let action = self.before.lock().unwrap().take_if(|(fact, _)| holds(&batch, fact));
        if let Some((_, action)) = action {
            action();
        }
        let is_grant = batch.facts.iter().any(|(_, fact)| matches!(fact, Fact::Grant(_)));
        let action = self.before_grant.lock().unwrap().take_if(|_| is_grant);
        if let Some(action) = action {
            action();
        }
        let commits = holds(&batch, "committed");
        let appended = self.inner.append(batch)?;
        let action = self.after_commit.lock().unwrap().take_if(|_| commits);
        if let Some(action) = action {
            action();
        }
        Ok(appended)
    }

    pub fn heal(&self) {
        *self.plan.lock().unwrap() = None;
    }

    pub fn appends(&self) -> u64 {
        self.appends.load(Ordering::SeqCst)
    }

    fn mishap(&self, batch: &Batch) -> Option<Mishap> {
        let append = self.appends.fetch_add(1, Ordering::SeqCst) + 1;
        let mut plan = self.plan.lock().unwrap();
        let (at, mishap) = (*plan)?;
        let is_now = match at {
            At::Append(n) => append == n,
            At::Fact(name) => holds(batch, name),
        };
        let lasts = mishap == Mishap::FailsFromHere;
        if is_now {
            *plan = lasts.then_some((At::Append(append + 1), mishap));
        }
        is_now.then_some(mishap)
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestStore")
    }
}

fn holds(batch: &Batch, name: &str) -> bool {
    let is_it = |fact: &Fact| matches!(fact, Fact::Call(call) if call.event.name() == name);
    batch.facts.iter().any(|(_, fact)| is_it(fact))
}

impl Store for TestStore {
    fn append(&self, batch: Batch) -> Result<Appended, AppendError> {
        match self.mishap(&batch) {
            None => self.pass_on(batch),
            Some(Mishap::Fails | Mishap::FailsFromHere) => Err(JournalError::Full.into()),
            Some(Mishap::AnswerLost) => {
                self.inner.append(batch)?;
                Err(JournalError::Busy.into())
            }
            Some(Mishap::DiesBefore) => std::process::abort(),
            Some(Mishap::DiesAfter) => {
                let _ = self.inner.append(batch);
                std::process::abort()
            }
        }
    }

    fn head(&self) -> Result<Head, JournalError> {
        self.inner.head()
    }

    fn visit_raw(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit_raw(range, visitor)
    }

    fn visit(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(StoredEntry) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit(range, visitor)
    }

    fn call(&self, execution: ExecutionId) -> Result<Option<CallSummary>, JournalError> {
        self.inner.call(execution)
    }

    fn call_entries(&self, execution: ExecutionId) -> Result<Vec<StoredEntry>, JournalError> {
        self.inner.call_entries(execution)
    }

    fn visit_calls(
        &self,
        filter: &CallFilter,
        visitor: &mut dyn FnMut(CallSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit_calls(filter, visitor)
    }

    fn open_calls(&self) -> Result<Vec<CallSummary>, JournalError> {
        self.inner.open_calls()
    }

    fn grants_version(&self) -> Result<u64, JournalError> {
        match self.blind.load(Ordering::SeqCst) {
            true => Err(JournalError::Busy),
            false => self.inner.grants_version(),
        }
    }

    fn grants(&self) -> Result<Vec<GrantRow>, JournalError> {
        self.inner.grants()
    }

    fn people_version(&self) -> Result<u64, JournalError> {
        self.inner.people_version()
    }

    fn people(&self) -> Result<People, JournalError> {
        self.inner.people()
    }

    fn policies(&self) -> Result<Vec<PolicyAdopted>, JournalError> {
        self.inner.policies()
    }

    fn has_policy(&self, digest: &Digest) -> Result<bool, JournalError> {
        self.inner.has_policy(digest)
    }

    fn workspaces(&self) -> Result<Vec<Workspace>, JournalError> {
        self.inner.workspaces()
    }

    fn first_call(&self, run: &RunId) -> Result<Option<ExecutionId>, JournalError> {
        self.inner.first_call(run)
    }

    fn run_calls(&self, run: &RunId) -> Result<Vec<ExecutionId>, JournalError> {
        self.inner.run_calls(run)
    }

    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactRecord>, JournalError> {
        self.inner.artifact(id)
    }

    fn visit_artifacts(
        &self,
        filter: &ArtifactFilter,
        visitor: &mut dyn FnMut(ArtifactRecord) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit_artifacts(filter, visitor)
    }

    fn consumers(&self, id: &ArtifactId) -> Result<Vec<ExecutionId>, JournalError> {
        self.inner.consumers(id)
    }

    fn keyed(&self, key: &Digest) -> Result<Option<ExecutionId>, JournalError> {
        self.inner.keyed(key)
    }

    fn run(&self, id: &RunId) -> Result<Option<RunSummary>, JournalError> {
        self.inner.run(id)
    }

    fn visit_runs(
        &self,
        filter: &RunFilter,
        visitor: &mut dyn FnMut(RunSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit_runs(filter, visitor)
    }

    fn run_entries(&self, id: &RunId, from: u64) -> Result<Vec<StoredEntry>, JournalError> {
        self.inner.run_entries(id, from)
    }

    fn run_payload(&self, id: &RunId, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner.run_payload(id, digest)
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Record>, JournalError> {
        self.inner.record(key)
    }

    fn records(
        &self,
        tenant: Option<&str>,
        space: &str,
        prefix: &str,
    ) -> Result<Vec<(String, Record)>, JournalError> {
        self.inner.records(tenant, space, prefix)
    }

    fn reply(&self, key: &ReplyKey) -> Result<Option<Reply>, JournalError> {
        self.inner.reply(key)
    }

    fn forget_replies(&self, before: Timestamp) -> Result<(), JournalError> {
        self.inner.forget_replies(before)
    }

    fn work_counts(&self) -> Result<WorkCounts, JournalError> {
        self.inner.work_counts()
    }

    fn payload(
        &self,
        execution: ExecutionId,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner.payload(execution, digest)
    }

    fn key(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError> {
        self.inner.key(key)
    }

    fn visit_keys(
        &self,
        visitor: &mut dyn FnMut(String, Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.visit_keys(visitor)
    }

    fn inclusion_path(&self, seq: u64, size: u64) -> Result<Vec<Digest>, JournalError> {
        self.inner.inclusion_path(seq, size)
    }

    fn tile_hashes(&self, range: Range<u64>) -> Result<Vec<Digest>, JournalError> {
        self.inner.tile_hashes(range)
    }
}
