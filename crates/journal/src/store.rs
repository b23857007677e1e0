//! The narrow waist: what the rest of Countersign may ask of durable storage.
//!
//! Nothing here assumes that this process is the only one at work. SQLite serves the trait on one
//! machine; a database server can serve it for several.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use countersign_model::event::Fact;
use countersign_model::record::CallSummary;
use countersign_model::{
    ArtifactId, ArtifactRecord, Digest, ExecutionId, Failure, Grant, GrantId, KeyBook, Lifecycle,
    PolicyAdopted, Principal, RunId, RunSummary, Timestamp, ToolId, Workspace,
};

use crate::entry::Entry;
use crate::error::{AppendError, Conflict, JournalError};

/// A check that runs while nobody else can append, so that what it saw still holds at the commit.
pub struct Guard(Box<dyn FnOnce() -> Result<(), Failure> + Send>);

impl Guard {
    pub fn new(check: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Self {
        Guard(Box::new(check))
    }

    /// A check that panics has failed; it must not take down whoever commits for it.
    pub(crate) fn run(self) -> Result<(), Conflict> {
        let checked = catch_unwind(AssertUnwindSafe(self.0));
        checked
            .unwrap_or_else(|_| {
                Err(Failure::state("INTERNAL", "the check before the commit panicked"))
            })
            .map_err(Conflict::Guard)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guard")
    }
}

/// What must still be true for a batch to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// The journal holds exactly so many facts about this call. This is the fencing token: a
    /// process that lost its call to recovery finds another count and can write nothing.
    CallAt {
        execution: ExecutionId,
        events: u32,
    },
    GrantLive(GrantId),
    /// Nobody has changed principals or keys since: whatever was decided from that version holds.
    PeopleAt(u64),
    /// Fewer than so many calls of this principal wait for people.
    WaitingBelow {
        principal: Principal,
        most: u32,
    },
    /// The journal holds exactly so many events of this run: the fencing token of whoever advances
    /// it.
    RunAt {
        run: RunId,
        events: u64,
    },
    /// The tenant has no live run of this scope.
    ScopeFree {
        tenant: String,
        scope: String,
    },
    /// A document stands at this version; 0 if it never was.
    RecordAt {
        record: RecordKey,
        version: u64,
    },
    /// No other call does or did the same.
    FirstOf(Digest),
    /// Nobody has recorded anything since the journal had so many entries.
    SizeIs(u64),
    KeyIs {
        key: String,
        digest: Option<Digest>,
    },
}

/// A change of one key, committed together with the facts beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    pub key: String,
    pub value: Option<Vec<u8>>,
}

/// Everything that one append does, or does not do: all or nothing.
#[derive(Debug, Default)]
pub struct Batch {
    pub facts: Vec<(Timestamp, Fact)>,
    pub expect: Vec<Expect>,
    pub guard: Option<Guard>,
    /// Small values that the facts of the call pin by digest.
    pub payloads: Vec<(Digest, Vec<u8>)>,
    pub keys: Vec<KeyChange>,
    /// The call as it stands after the facts.
    pub call: Option<CallSummary>,
    /// The run as it stands after the facts.
    pub run: Option<RunSummary>,
    /// Small values that facts of runs and documents pin by digest.
    pub values: Vec<(Digest, Vec<u8>)>,
    /// What is answered if the same is asked again.
    pub reply: Option<Reply>,
    /// Resources that this call is about to publish, until it is completed.
    pub claims: Vec<String>,
    /// Resources that nobody else may be about to publish.
    pub unclaimed: Vec<String>,
    pub release_claims: Option<ExecutionId>,
}

/// Where the facts of a batch ended up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    pub entries: Range<u64>,
    /// The hash of the last of them.
    pub hash: Digest,
    /// A signed checkpoint that covers them.
    pub checkpoint: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub size: u64,
    pub hash: Digest,
    pub checkpoint: String,
}

/// An entry with its stored bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredEntry {
    pub entry: Entry,
    pub hash: Digest,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GrantRow {
    pub grant: Grant,
    pub revoked_at: Option<Timestamp>,
}

/// Principals and keys, and the version of the journal's that they show.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    pub version: u64,
    pub book: KeyBook,
}

/// Which calls to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    pub tool: Option<ToolId>,
    pub state: Option<Lifecycle>,
    pub principal: Option<Principal>,
    pub since: Option<Timestamp>,
    pub until: Option<Timestamp>,
    pub limit: Option<u64>,
    /// Only calls that have not ended.
    pub open: bool,
    /// Only calls of this run.
    pub run: Option<RunId>,
}

/// Which artifacts to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct ArtifactFilter {
    pub run: Option<RunId>,
    pub name: Option<String>,
    pub producer: Option<ExecutionId>,
    pub limit: Option<u64>,
}

/// Which runs to list, newest first.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    pub tenant: Option<String>,
    pub parent: Option<RunId>,
    pub status: Option<String>,
    /// Only runs that have not ended.
    pub open: bool,
    /// Only runs with an id before this one.
    pub before: Option<RunId>,
    pub limit: Option<u64>,
}

/// Where a document of a tenant is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordKey {
    pub tenant: String,
    pub space: String,
    pub key: String,
}

/// A document as it stands, or that it was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub key: String,
    pub version: u64,
    pub at: Timestamp,
    pub value: Option<Vec<u8>>,
}

/// By what a request is known when it is sent again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReplyKey {
    pub tenant: String,
    pub operation: String,
    pub key: String,
}

/// What was answered. Kept for a while beside the journal: it proves nothing, it only saves the
/// sender from having a thing done twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub key: ReplyKey,
    /// What was asked.
    pub request: Digest,
    pub at: Timestamp,
    pub status: u16,
    pub body: Vec<u8>,
}

/// How many rows there are about work, for whoever compares them with the entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkCounts {
    pub artifacts: u64,
    /// Pairs of an artifact and a call that was given it.
    pub consumers: u64,
    pub keyed: u64,
    pub records: u64,
    /// Pairs of a run and a call of it.
    pub run_calls: u64,
    /// Facts that hold events of runs.
    pub run_facts: u64,
    pub runs: u64,
}

pub trait Store: Send + Sync + fmt::Debug {
    /// Returns once the batch is durable, or nothing of it is.
    fn append(&self, batch: Batch) -> Result<Appended, AppendError>;

    fn head(&self) -> Result<Head, JournalError>;

    /// The stored bytes of entries, in order and unchecked: for verification and export. Bounded
    /// memory: pages are fetched as the visitor consumes them.
    fn visit_raw(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;
    /// Entries in order, each checked against its hash.
    fn visit(
        &self,
        range: Range<u64>,
        visitor: &mut dyn FnMut(StoredEntry) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;

    fn call(&self, execution: ExecutionId) -> Result<Option<CallSummary>, JournalError>;
    fn call_entries(&self, execution: ExecutionId) -> Result<Vec<StoredEntry>, JournalError>;
    fn visit_calls(
        &self,
        filter: &CallFilter,
        visitor: &mut dyn FnMut(CallSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;
    /// Calls that have begun and have not ended, oldest first.
    fn open_calls(&self) -> Result<Vec<CallSummary>, JournalError>;

    /// Changes whenever a grant is issued or revoked.
    fn grants_version(&self) -> Result<u64, JournalError>;
    fn grants(&self) -> Result<Vec<GrantRow>, JournalError>;

    /// Changes whenever something happens to a principal or a key; 0 if nothing ever has.
    fn people_version(&self) -> Result<u64, JournalError>;
    fn people(&self) -> Result<People, JournalError>;

    /// Every policy set that has decided here, oldest first.
    fn policies(&self) -> Result<Vec<PolicyAdopted>, JournalError>;
    fn has_policy(&self, digest: &Digest) -> Result<bool, JournalError>;

    fn workspaces(&self) -> Result<Vec<Workspace>, JournalError>;
    /// The calls of a run, oldest first.
    fn run_calls(&self, run: &RunId) -> Result<Vec<ExecutionId>, JournalError>;
    /// The first of them, which is found as quickly however many there are.
    fn first_call(&self, run: &RunId) -> Result<Option<ExecutionId>, JournalError>;
    fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactRecord>, JournalError>;
    fn visit_artifacts(
        &self,
        filter: &ArtifactFilter,
        visitor: &mut dyn FnMut(ArtifactRecord) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;
    /// The calls that were given an artifact.
    fn consumers(&self, id: &ArtifactId) -> Result<Vec<ExecutionId>, JournalError>;
    /// The call that did the same, or is about to.
    fn keyed(&self, key: &Digest) -> Result<Option<ExecutionId>, JournalError>;
    fn run(&self, id: &RunId) -> Result<Option<RunSummary>, JournalError>;
    fn visit_runs(
        &self,
        filter: &RunFilter,
        visitor: &mut dyn FnMut(RunSummary) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;
    /// The facts that hold the events of a run from a number on, in order; the first of them may
    /// begin earlier.
    fn run_entries(&self, id: &RunId, from: u64) -> Result<Vec<StoredEntry>, JournalError>;
    /// A value that the facts of a run pin by digest, checked against it.
    fn run_payload(&self, id: &RunId, digest: &Digest) -> Result<Option<Vec<u8>>, JournalError>;

    /// A document as it stands, checked against its digest.
    fn record(&self, key: &RecordKey) -> Result<Option<Record>, JournalError>;
    /// Documents whose key begins so, with their tenants, in order; of all tenants if none is
    /// named.
    fn records(
        &self,
        tenant: Option<&str>,
        space: &str,
        prefix: &str,
    ) -> Result<Vec<(String, Record)>, JournalError>;
    fn reply(&self, key: &ReplyKey) -> Result<Option<Reply>, JournalError>;
    /// Lets go of answers that are older.
    fn forget_replies(&self, before: Timestamp) -> Result<(), JournalError>;

    fn work_counts(&self) -> Result<WorkCounts, JournalError>;

    /// A small value that the facts of a call pin by digest, checked against it.
    fn payload(
        &self,
        execution: ExecutionId,
        digest: &Digest,
    ) -> Result<Option<Vec<u8>>, JournalError>;
    /// The value of a state key, checked against its digest.
    fn key(&self, key: &str) -> Result<Option<Vec<u8>>, JournalError>;
    /// Every state key and its value, in order.
    fn visit_keys(
        &self,
        visitor: &mut dyn FnMut(String, Vec<u8>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError>;

    /// The RFC 6962 audit path of one entry in the tree of the first `size` entries.
    fn inclusion_path(&self, seq: u64, size: u64) -> Result<Vec<Digest>, JournalError>;
    /// Hashes of the complete subtrees that tile a range, left to right.
    fn tile_hashes(&self, range: Range<u64>) -> Result<Vec<Digest>, JournalError>;
}
