//! Builders shared by the tests of the journal: a fixed key, numbered ids, legal lives of calls.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod receipts;

use std::ops::Range;
use std::path::{Path, PathBuf};

use countersign_journal::verify::{Edges, Fault, Verified, Verifier};
use countersign_journal::{
    Appended, Batch, Entry, JournalError, NoteSigner, SqliteStore, Store, VerifierKey, export,
    merkle,
};
use countersign_model::effect::Payload;
use countersign_model::event::{
    Authorized, CallEvent, CallFact, Committed, Completed, Declared, Denied, Enforcement, Fact,
    GrantEvent, HomeEvent, RolledBack, Started, Usage, WriteSet,
};
use countersign_model::record::{CallRecord, CallSummary};
use countersign_model::{
    Capability, Digest, ExecutionId, Failure, Grant, GrantBody, GrantId, HomeId, HostId, KeyEvent,
    KeyId, KeyRecord, KeyScope, PolicyAdopted, PolicyEvent, PrincipalEvent, RecordFact,
    ResourceLimits, RunFact, SandboxMode, Scope, Timestamp, Token, TransactionId,
};
use ed25519_dalek::SigningKey;
use tempfile::TempDir;
use uuid::Uuid;

pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_770_653_101_000);

pub(crate) fn signer() -> NoteSigner {
    NoteSigner::new("countersign/test", SigningKey::from_bytes(&[7; 32]))
}

/// The same name, another key.
pub(crate) fn stranger() -> NoteSigner {
    NoteSigner::new("countersign/test", SigningKey::from_bytes(&[8; 32]))
}

pub(crate) fn key() -> VerifierKey {
    signer().verifier().clone()
}

pub(crate) fn uuid(n: u64) -> Uuid {
    format!("019a7c3e-0000-7000-8000-{n:012x}").parse().unwrap()
}

pub(crate) fn call_id(n: u64) -> ExecutionId {
    ExecutionId::from_uuid(uuid(n))
}

pub(crate) fn grant_id(n: u64) -> GrantId {
    GrantId::from_uuid(uuid(n))
}

pub(crate) fn call_fact(n: u64, event: CallEvent) -> Fact {
    Fact::Call(CallFact { execution: call_id(n), event })
}

pub(crate) fn home() -> Fact {
    Fact::Home(HomeEvent::Created {
        home: HomeId::from_uuid(uuid(0)),
        journal_key: key().to_string(),
        authority_key: key().to_string(),
    })
}

pub(crate) fn issued(n: u64) -> Fact {
    let body = GrantBody {
        id: grant_id(n),
        capability: Capability::FilesystemRead,
        grantee: "agent:x".parse().unwrap(),
        grantor: "human:ada".parse().unwrap(),
        scope: Scope::parse(&["/srv/app/**"]).unwrap(),
        issued_at: NOW,
        expires_at: NOW.plus_millis(3_600_000),
        delegable: false,
        parent: None,
        depth: 0,
    };
    let grant = Grant::sign(body, signer().signing_key()).unwrap();
    Fact::Grant(GrantEvent::Issued { grant })
}

pub(crate) fn revoked(n: u64) -> Fact {
    let by = "human:ada".parse().unwrap();
    Fact::Grant(GrantEvent::Revoked { grant: grant_id(n), by, at: NOW, reason: None })
}

pub(crate) fn key_id(n: u64) -> KeyId {
    KeyId::from_uuid(uuid(n))
}

pub(crate) fn added(principal: &str) -> Fact {
    let (at, by, principal) = (NOW, "human:ada".parse().unwrap(), principal.parse().unwrap());
    Fact::Principal(PrincipalEvent::Added { at, by, description: None, principal })
}

/// A set whose text is `text` was taken up.
pub(crate) fn adopted(text: &str, at: i64) -> Fact {
    Fact::Policy(PolicyEvent::Adopted(PolicyAdopted {
        at: Timestamp::from_millis(at),
        policy: Payload::of(text.as_bytes()),
        rules: 1,
        sources: vec!["default.cedar".to_owned()],
    }))
}

pub(crate) fn removed(principal: &str) -> Fact {
    let (at, by, principal) = (NOW, "human:ada".parse().unwrap(), principal.parse().unwrap());
    Fact::Principal(PrincipalEvent::Removed { at, by, principal, reason: None })
}

pub(crate) fn key_record(n: u64, principal: &str, scope: KeyScope) -> KeyRecord {
    let token = Token::new(key_id(n), [3; 32]);
    KeyRecord {
        created_at: NOW,
        created_by: "human:ada".parse().unwrap(),
        expires_at: NOW.plus_millis(3_600_000),
        hash: token.hash(),
        id: token.id(),
        principal: principal.parse().unwrap(),
        replaces: None,
        scopes: [scope].into(),
        tenant: None,
        verifier: token.verifier(),
    }
}

/// What a run recorded at once, told by the types of its events.
pub(crate) fn run_fact(run: &str, first: u64, types: &[&str]) -> Fact {
    let event = |name: &&str| serde_json::json!({"payload": {}, "type": name});
    Fact::Run(RunFact {
        events: types.iter().map(event).collect(),
        first,
        run: run.parse().unwrap(),
        seed: (first == 0).then(|| Payload::of(SEED)),
    })
}

pub(crate) const SEED: &[u8] = b"{}";

pub(crate) fn document(version: u64, value: Option<&str>) -> Fact {
    Fact::Record(RecordFact {
        at: NOW,
        by: "human:ada".parse().unwrap(),
        key: "k".to_owned(),
        space: "s".to_owned(),
        tenant: "t".to_owned(),
        value: value.map(|value| Payload::of(value.as_bytes())),
        version,
    })
}

pub(crate) fn created(n: u64, principal: &str) -> Fact {
    made(key_record(n, principal, KeyScope::Call))
}

pub(crate) fn made(key: KeyRecord) -> Fact {
    let signature = key.sign(signer().signing_key()).unwrap();
    Fact::Key(KeyEvent::Created { key: Box::new(key), signature })
}

pub(crate) fn key_revoked(n: u64) -> Fact {
    let (at, by) = (NOW, "human:ada".parse().unwrap());
    Fact::Key(KeyEvent::Revoked { at, by, key: key_id(n), reason: None })
}

pub(crate) fn retired(n: u64, millis: i64) -> Fact {
    let (at, by) = (NOW, "human:ada".parse().unwrap());
    let expires_at = NOW.plus_millis(millis);
    Fact::Key(KeyEvent::Retired { at, by, expires_at, key: key_id(n) })
}

pub(crate) fn declared() -> CallEvent {
    CallEvent::Declared(Declared {
        chain: Vec::new(),
        files: None,
        mode: SandboxMode::default(),
        toolset: None,
        tool: "file.read".parse().unwrap(),
        version: "1.0.0".parse().unwrap(),
        declaration: Digest::of(b"declaration"),
        principal: "agent:x".parse().unwrap(),
        input: Payload::of(b"{}"),
        root: Some("/srv/app".into()),
        consumes: Vec::new(),
        work: None,
    })
}

pub(crate) fn authorized() -> CallEvent {
    CallEvent::Authorized(Authorized {
        approval: None,
        attempt: 1,
        capabilities: vec![],
        facts: None,
        grants: vec![],
        verdict: None,
    })
}

fn started(n: u64) -> CallEvent {
    CallEvent::Started(Started {
        backend: None,
        hosts: Vec::new(),
        plan: None,
        attempt: 1,
        transaction: TransactionId::from_uuid(uuid(n)),
        host: HostId::from_uuid(uuid(1)),
        limits: ResourceLimits {
            max_execution_time: 1000,
            max_memory: 1 << 20,
            max_file_size: None,
            max_file_descriptors: None,
            max_processes: None,
            ..ResourceLimits::default()
        },
        enforcement: Enforcement {
            isolation: 1,
            time: "clock".into(),
            memory: "limit".into(),
            files: None,
            ..Enforcement::default()
        },
        writes: WriteSet::default(),
        before: Digest::ZERO,
        key: None,
        once: false,
    })
}

fn committed() -> CallEvent {
    CallEvent::Committed(Committed {
        output: Payload::of(b"out"),
        artifacts: Vec::new(),
        connections: Vec::new(),
        effects: Vec::new(),
        stderr: None,
        stdout: None,
    })
}

pub(crate) fn completed() -> CallEvent {
    CallEvent::Completed(Completed {
        output: Payload::of(b"out"),
        usage: Usage::default(),
        duration_ms: 3,
        unsettled: vec![],
    })
}

fn rolled_back() -> CallEvent {
    CallEvent::RolledBack(RolledBack {
        connections: Vec::new(),
        stdout: None,
        stderr: None,
        unknown: false,
        error: failure(),
        before: Digest::ZERO,
        after: Digest::ZERO,
        usage: Usage::default(),
        duration_ms: 4,
        retry: None,
    })
}

fn failure() -> Failure {
    Failure::timeout("TIMEOUT", "took “too” long\n")
}

/// The whole life of call `n`, one of four kinds.
pub(crate) fn life(n: u64) -> Vec<CallEvent> {
    let validated = CallEvent::Validated {};
    match n % 4 {
        0 => {
            vec![declared(), validated, authorized(), started(n), committed(), completed()]
        }
        1 => vec![declared(), CallEvent::Failed { error: failure() }],
        2 => vec![
            declared(),
            validated,
            CallEvent::Denied(Denied { error: failure(), facts: None, verdict: None }),
        ],
        _ => vec![
            declared(),
            validated,
            authorized(),
            started(n),
            CallEvent::Aborted { error: failure() },
            rolled_back(),
        ],
    }
}

/// A home, grants, and pairs of calls whose facts alternate: `count` facts in all.
pub(crate) fn story(count: usize) -> Vec<Fact> {
    let mut facts = vec![home(), issued(1), issued(2), revoked(1)];
    let mut n = 10;
    while facts.len() < count {
        let (mut a, mut b) = (life(n).into_iter(), life(n + 1).into_iter());
        while a.len() + b.len() > 0 {
            facts.extend(a.next().map(|event| call_fact(n, event)));
            facts.extend(b.next().map(|event| call_fact(n + 1, event)));
        }
        n += 2;
    }
    facts.truncate(count);
    facts
}

pub(crate) fn batch(facts: impl IntoIterator<Item = Fact>) -> Batch {
    Batch { facts: facts.into_iter().map(|fact| (NOW, fact)).collect(), ..Batch::default() }
}

/// A call as its first `events` facts leave it.
pub(crate) fn summary(n: u64, events: usize) -> CallSummary {
    let life = life(n);
    let facts = life.iter().take(events).map(|event| (NOW, event));
    CallRecord::fold(call_id(n), facts).unwrap().unwrap().summary
}

pub(crate) struct Journal {
    pub(crate) dir: TempDir,
    pub(crate) store: SqliteStore,
}

impl Journal {
    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("journal.db")
    }

    pub(crate) fn append(&self, facts: impl IntoIterator<Item = Fact>) -> Appended {
        self.store.append(batch(facts)).unwrap()
    }

    pub(crate) fn export(&self, range: Range<u64>) -> Vec<u8> {
        export_of(&self.store, range)
    }

    pub(crate) fn store_checkpoint(&self) -> String {
        self.store.head().unwrap().checkpoint
    }

    /// A connection behind the store's back.
    pub(crate) fn raw(&self) -> rusqlite::Connection {
        let raw = rusqlite::Connection::open(self.path()).unwrap();
        raw.busy_timeout(std::time::Duration::from_secs(60)).unwrap();
        raw
    }

    /// Closes the store and leaves the directory.
    pub(crate) fn close(self) -> TempDir {
        self.dir
    }
}

/// A journal of `count` entries, appended in batches of uneven size.
pub(crate) fn journal(count: usize) -> Journal {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::create(&dir.path().join("journal.db"), signer()).unwrap();
    let mut facts = story(count).into_iter();
    let mut size = 1;
    while facts.len() > 0 {
        store.append(batch(facts.by_ref().take(size))).unwrap();
        size = size * 2 % 97 + 1;
    }
    Journal { dir, store }
}

pub(crate) fn reopen(path: &Path) -> Result<SqliteStore, JournalError> {
    SqliteStore::open(path, signer())
}

pub(crate) fn export_of(store: &dyn Store, range: Range<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    export::write(store, range, &mut out).unwrap();
    out
}

pub(crate) fn check(export: &[u8]) -> Result<Verified, Fault> {
    export::verify(&mut &*export, &key(), &[])
}

/// Verifies the live store, as an auditor with access to the file would.
pub(crate) fn check_live(store: &dyn Store) -> Result<Verified, Fault> {
    let head = store.head().unwrap();
    let mut verifier =
        Verifier::new(key(), &head.checkpoint, 0, head.size, Edges::default()).unwrap();
    let mut fault = None;
    store
        .visit_raw(0..head.size, &mut |bytes| {
            if fault.is_none() {
                fault = verifier.entry(&bytes).err();
            }
            Ok(())
        })
        .unwrap();
    fault.map_or_else(|| verifier.finish(), Err)
}

pub(crate) fn lines(export: &[u8]) -> Vec<Vec<u8>> {
    export.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

pub(crate) fn entries(export: &[u8]) -> Vec<Entry> {
    lines(export)[1..].iter().map(|line| Entry::parse(line).unwrap()).collect()
}

/// Numbers entries from 0 and chains them anew, as a forger would.
pub(crate) fn rechain(mut entries: Vec<Entry>) -> Vec<Entry> {
    let mut prev = Digest::ZERO;
    for (seq, entry) in (0..).zip(&mut entries) {
        (entry.seq, entry.prev) = (seq, prev);
        prev = entry.seal().unwrap().hash;
    }
    entries
}

pub(crate) fn root_of(entries: &[Entry]) -> Digest {
    let mut frontier = merkle::Frontier::default();
    entries.iter().for_each(|entry| frontier.push(entry.seal().unwrap().hash, |_| {}));
    frontier.root()
}

pub(crate) fn checkpoint_of(entries: &[Entry], signer: &NoteSigner) -> String {
    signer.sign(entries.len() as u64, root_of(entries))
}

pub(crate) fn header(first: usize, end: usize, checkpoint: &str) -> Vec<u8> {
    let note = serde_json::to_string(checkpoint).unwrap();
    format!(
        "{{\"format\":\"countersign-journal/1\",\"first\":{first},\"end\":{end},\"left\":[],\"right\":[],\"checkpoint\":{note}}}\n"
    )
    .into_bytes()
}

pub(crate) fn body_lines(entries: &[Entry]) -> Vec<u8> {
    let line = |entry: &Entry| [entry.seal().unwrap().bytes, b"\n".to_vec()].concat();
    entries.iter().flat_map(line).collect()
}

/// A whole export of any entries, signed by anyone.
pub(crate) fn signed_export(entries: &[Entry], signer: &NoteSigner) -> Vec<u8> {
    let header = header(0, entries.len(), &checkpoint_of(entries, signer));
    [header, body_lines(entries)].concat()
}
