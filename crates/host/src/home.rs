//! A home: configuration, declarations, keys, journal and blobs in one directory.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_journal::{Batch, Blobs, JournalError, NoteSigner, SqliteStore, Store, keys};
use countersign_model::digest::Hasher;
use countersign_model::effect::Payload;
use countersign_model::event::{Fact, HomeEvent};
use countersign_model::{ExecutionId, Failure, HomeId, RunId, WorkspaceId};
use countersign_policy::DEFAULT_POLICY;

use crate::builtin;
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::recorder::Recorder;
use crate::work::RunDirectory;

/// Values up to this size stand in the journal's database; larger ones become blobs.
const INLINE_PAYLOAD: usize = 64 << 10;

#[derive(Debug)]
pub struct Home {
    path: PathBuf,
    pub config: Config,
    pub store: Arc<dyn Store>,
    pub blobs: Blobs,
    /// Signs grants.
    pub authority: NoteSigner,
    /// Signs checkpoints.
    pub journal_key: NoteSigner,
}

impl Home {
    /// Makes a home with the built-in tools declared and nothing granted. It is built aside and
    /// moved into place: a home is whole or absent.
    pub fn create(path: &Path, clock: &dyn Clock) -> Result<(), Failure> {
        // An empty directory is as good as none.
        let is_empty = fs::read_dir(path).is_ok_and(|mut files| files.next().is_none());
        if path.exists() && !is_empty {
            let message = format!("{} exists already", path.display());
            return Err(Failure::validation("HOME_EXISTS", message)
                .hint("use it as it is, or choose another place with --home"));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or_else(|| Path::new("."));
        let aside = parent.join(format!(".countersign-new-{}", clock.new_id()));
        let built = build(&aside, clock).and_then(|()| {
            fs::rename(&aside, path)?;
            Ok(sync(parent)?)
        });
        if built.is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        built.map_err(|error| {
            let message = format!("the home {} cannot be made: {error}", path.display());
            Failure::state("HOME_UNWRITABLE", message)
                .hint("choose a writable place with --home, or free some space")
        })
    }

    pub fn open(path: &Path) -> Result<Self, Failure> {
        let layout = Layout(path);
        layout.check()?;
        let journal_key = keys::load(&layout.journal_key())?;
        let store = SqliteStore::open(&layout.journal(), journal_key.clone())?;
        Self::with_store(path, Arc::new(store))
    }

    /// Opens a home whose journal may be damaged, to find out what is wrong with it.
    pub fn open_for_inspection(path: &Path) -> Result<Self, Failure> {
        let layout = Layout(path);
        layout.check()?;
        let signer = keys::load(&layout.journal_key())?;
        let store = SqliteStore::open_for_inspection(&layout.journal(), signer)?;
        Self::with_store(path, Arc::new(store))
    }

    /// A home whose journal is served by `store`.
    pub fn with_store(path: &Path, store: Arc<dyn Store>) -> Result<Self, Failure> {
        let layout = Layout(path);
        Ok(Home {
            path: path.to_owned(),
            config: Config::load(&layout.config())?,
            blobs: Blobs::new(layout.blobs()),
            authority: keys::load(&layout.authority_key())?,
            journal_key: keys::load(&layout.journal_key())?,
            store,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn tools(&self) -> PathBuf {
        Layout(&self.path).tools()
    }

    /// Where policies stand.
    pub fn policy(&self) -> PathBuf {
        Layout(&self.path).policy()
    }

    /// Where definitions of workflows stand; homes made by older versions lack it.
    pub fn workflows(&self) -> PathBuf {
        Layout(&self.path).workflows()
    }

    /// Where blueprints stand; homes made by older versions lack it.
    pub fn blueprints(&self) -> PathBuf {
        Layout(&self.path).blueprints()
    }

    pub(crate) fn hosts(&self) -> PathBuf {
        Layout(&self.path).hosts()
    }

    /// Where compiled WebAssembly is kept between processes.
    pub fn wasm_cache(&self) -> PathBuf {
        Layout(&self.path).state().join("cache").join("wasm")
    }

    /// A secret for one purpose, which tells nothing about the key that it is made from.
    pub fn derive_key(&self, purpose: &str) -> [u8; 32] {
        let mut hasher = Hasher::default();
        hasher.update(purpose.as_bytes());
        hasher.update(&[0]);
        hasher.update(&self.journal_key.signing_key().to_bytes());
        hasher.finish().into_bytes()
    }

    /// Where output of programs that is too long for memory goes, in files without names.
    pub fn staging(&self) -> PathBuf {
        let staging = Layout(&self.path).staging();
        // Homes made by older versions lack it; without it, such output is kept in memory.
        let _ = DirBuilder::new().mode(0o700).recursive(true).create(&staging);
        staging
    }

    /// Where a run works.
    pub(crate) fn worktree(&self, workspace: &WorkspaceId, run: &RunId) -> RunDirectory {
        let worktrees = self.worktrees(workspace);
        RunDirectory::new(worktrees.join(run.as_str()))
    }

    /// The worktrees of all runs on a workspace.
    pub(crate) fn worktrees(&self, workspace: &WorkspaceId) -> PathBuf {
        Layout(&self.path).state().join("worktrees").join(workspace.as_str())
    }

    pub(crate) fn recovery_lock(&self) -> PathBuf {
        Layout(&self.path).recovery_lock()
    }

    /// Keeps a value that a fact pins, beside the facts or as a blob.
    pub(crate) fn keep(
        &self,
        recorder: &mut Recorder,
        payload: Payload,
        bytes: Vec<u8>,
    ) -> Result<(), Failure> {
        if bytes.len() > INLINE_PAYLOAD {
            self.blobs.put(&bytes)?;
        } else {
            recorder.keep(payload.digest, bytes);
        }
        Ok(())
    }

    /// A value that the facts of a call pin, wherever it is kept, checked against its digest.
    pub fn payload(&self, execution: ExecutionId, payload: &Payload) -> Result<Vec<u8>, Failure> {
        match self.store.payload(execution, &payload.digest)? {
            Some(bytes) => Ok(bytes),
            None => Ok(self.blobs.get(&payload.digest)?),
        }
    }

    /// Writes such a value to `target` without holding a large one in memory. When this fails, a
    /// part of it may have been written.
    pub fn copy_payload(
        &self,
        execution: ExecutionId,
        payload: &Payload,
        target: &mut dyn Write,
    ) -> Result<(), Failure> {
        match self.store.payload(execution, &payload.digest)? {
            Some(bytes) => Ok(target.write_all(&bytes).map_err(JournalError::from)?),
            None => Ok(self.blobs.copy_to(&payload.digest, target)?),
        }
    }
}

/// Where things stand in a home.
#[derive(Debug, Clone, Copy)]
pub struct Layout<'p>(pub &'p Path);

impl Layout<'_> {
    /// Whether there is a home at all, and a journal in it.
    fn check(self) -> Result<(), Failure> {
        if self.journal().exists() {
            return Ok(());
        }
        if self.key_dir().exists() {
            let missing = format!("{} is missing", self.journal().display());
            return Err(JournalError::Corrupt(missing).into());
        }
        let message = format!("there is no home at {}", self.0.display());
        Err(Failure::validation("HOME_MISSING", message)
            .hint("make one with `countersign init`, or name another with --home"))
    }

    fn config(self) -> PathBuf {
        self.0.join("countersign.toml")
    }
    fn tools(self) -> PathBuf {
        self.0.join("tools")
    }
    fn policy(self) -> PathBuf {
        self.0.join("policy")
    }
    fn workflows(self) -> PathBuf {
        self.0.join("workflows")
    }
    fn blueprints(self) -> PathBuf {
        self.0.join("blueprints")
    }
    fn state(self) -> PathBuf {
        self.0.join("state")
    }
    pub fn journal(self) -> PathBuf {
        self.state().join("journal.db")
    }
    fn blobs(self) -> PathBuf {
        self.state().join("blobs")
    }
    fn hosts(self) -> PathBuf {
        self.state().join("hosts")
    }
    fn staging(self) -> PathBuf {
        self.state().join("staging")
    }
    fn recovery_lock(self) -> PathBuf {
        self.state().join("recovery.lock")
    }
    fn key_dir(self) -> PathBuf {
        self.state().join("keys")
    }
    pub fn journal_key(self) -> PathBuf {
        self.key_dir().join("journal.key")
    }
    /// Directories that hold what nobody else may see or change.
    pub(crate) fn private(self) -> [PathBuf; 8] {
        [
            self.tools(),
            self.policy(),
            self.workflows(),
            self.blueprints(),
            self.state(),
            self.blobs(),
            self.hosts(),
            self.key_dir(),
        ]
    }
    fn authority_key(self) -> PathBuf {
        self.key_dir().join("authority.key")
    }
}

fn build(path: &Path, clock: &dyn Clock) -> Result<(), JournalError> {
    let layout = Layout(path);
    // Inputs, old file contents and private keys live here: nobody else may look.
    let mut private = DirBuilder::new();
    private.mode(0o700).recursive(true);
    let plain = [layout.tools(), layout.policy(), layout.workflows(), layout.blueprints()];
    for directory in plain.into_iter().chain([layout.blobs(), layout.hosts(), layout.key_dir()]) {
        private.create(directory)?;
    }
    write_synced(&layout.config(), config::DEFAULT)?;
    write_synced(&layout.policy().join("default.cedar"), DEFAULT_POLICY)?;
    for (name, text) in builtin::DECLARATIONS {
        write_synced(&layout.tools().join(name), text)?;
    }
    let home = HomeId::from_uuid(clock.new_id());
    let journal = keys::create(&layout.journal_key(), &format!("countersign/{home}"))?;
    let authority =
        keys::create(&layout.authority_key(), &format!("countersign-authority/{home}"))?;
    let created = Fact::Home(HomeEvent::Created {
        home,
        journal_key: journal.verifier().to_string(),
        authority_key: authority.verifier().to_string(),
    });
    let store = SqliteStore::create(&layout.journal(), journal)?;
    let batch = Batch { facts: vec![(clock.now(), created)], ..Batch::default() };
    store.append(batch).map_err(|error| JournalError::Internal(error.to_string()))?;
    // A power cut after the first call must not take the keys with it.
    let made = layout.private().into_iter().chain([path.to_owned()]);
    made.into_iter().try_for_each(|directory| Ok(sync(&directory)?))
}

fn write_synced(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = fs::File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync(directory: &Path) -> std::io::Result<()> {
    fs::File::open(directory)?.sync_all()
}
