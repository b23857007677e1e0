//! Tools written by us, run inside this process at isolation level 0.
//!
//! A native tool never touches the world itself. It says beforehand what it will touch, and then
//! works through a [`ToolContext`], which checks every step against what was authorised, charges
//! it to the limits, and stages every change until the commit. The tool sees its own changes;
//! nobody else does.

mod artifacts;
mod links;
mod place;
mod programs;
mod progress;
mod refs;
mod rehearsal;

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::sync::{Arc, OnceLock};

use countersign_journal::Store;
use countersign_model::effect::{Artifact, Image};
use countersign_model::event::Usage;
use countersign_model::{
    Capability, Digest, ExecutionId, Failure, Need, Principal, SandboxMode, Timestamp,
    WorkspaceAccess,
};
use countersign_repository::Credential;
use serde_json::Value;

use crate::meter::Meter;
use crate::path::RelPath;
use crate::root::{Listed, Root, not_found, too_large};
use crate::snapshot::Snapshot;

pub use self::links::Stands;
pub use self::place::Place;
pub(crate) use self::place::{Services, present};
pub use self::programs::{Command, Ran};
pub use self::progress::{News, Progress};
pub use self::refs::RefMove;
pub(crate) use self::rehearsal::{Rehearsed, comparable};

pub trait NativeTool: Send + Sync + fmt::Debug {
    /// What a call with this input will touch. Pure: it looks at nothing but the input.
    fn footprint(&self, input: &Value, place: &Place) -> Result<Footprint, Failure>;

    /// Whether every call is certain to end by itself, and soon: the tool waits for nothing and goes
    /// over nothing but its input and the values of keys. Such a tool runs on the caller's thread;
    /// all others get a thread that the host can abandon.
    fn is_prompt(&self) -> bool {
        false
    }

    /// Whether doing it again would make a difference.
    fn repeats(&self) -> Repeats {
        Repeats::Always
    }

    /// Whether what an earlier call gave may be given again.
    fn stands(&self, _output: &Value) -> bool {
        true
    }

    /// Whether it runs programs, each in a box of its own.
    fn runs_programs(&self) -> bool {
        false
    }

    /// Where else the effects of a call go, as `host:port`: what was sent there cannot be taken back.
    fn hosts(&self, _input: &Value) -> Vec<String> {
        Vec::new()
    }

    /// How many people must agree, whatever policy says.
    fn people(&self) -> u32 {
        0
    }

    /// Does the work. The input has passed the tool's schema and the footprint was authorised.
    fn run(&self, input: &Value, context: &mut ToolContext) -> Result<Value, Failure>;
}

/// Whether a call may be answered with what an earlier one did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// Every call does its work.
    Always,
    /// The result depends on nothing but input, declaration and workspace: an earlier one will do.
    Idempotent,
    /// It must not be done twice.
    Once,
}

/// Everything that a call is about to touch.
#[derive(Debug, Clone)]
pub struct Footprint {
    /// What must be granted.
    pub needs: Vec<Need>,
    /// What may be changed: files, directories that may be made, and keys.
    pub files: Vec<RelPath>,
    pub directories: Vec<RelPath>,
    pub keys: Vec<String>,
    /// Symbolic links that may be changed.
    pub links: Vec<RelPath>,
    /// All of the root, for a program that sees it as its workspace.
    pub workspace: Option<WorkspaceAccess>,
    /// What the call is asked to do takes this mode at least.
    pub least_mode: SandboxMode,
}

impl Footprint {
    /// A call that touches nothing.
    pub fn nothing() -> Self {
        Footprint {
            needs: Vec::new(),
            files: Vec::new(),
            directories: Vec::new(),
            keys: Vec::new(),
            links: Vec::new(),
            workspace: None,
            least_mode: SandboxMode::ReadOnly,
        }
    }

    pub fn needs(capability: Capability, resource: String) -> Self {
        Footprint { needs: vec![Need::one(capability, resource)], ..Self::nothing() }
    }

    #[must_use]
    pub fn may_change_file(mut self, path: RelPath) -> Self {
        self.files.push(path);
        self
    }

    #[must_use]
    pub fn may_make_directories(mut self, paths: Vec<RelPath>) -> Self {
        self.directories = paths;
        self
    }

    #[must_use]
    pub fn may_change_key(mut self, key: String) -> Self {
        self.keys.push(key);
        self
    }
}

/// A file as it will be: its new bytes, or gone.
#[derive(Debug, Clone)]
pub(crate) struct NewFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) image: Image,
}

/// Changes that nobody else can see yet.
#[derive(Debug, Clone, Default)]
pub(crate) struct Staged {
    pub(crate) directories: Vec<RelPath>,
    pub(crate) files: BTreeMap<RelPath, Option<NewFile>>,
    pub(crate) keys: BTreeMap<String, Option<Vec<u8>>>,
    pub(crate) links: BTreeMap<RelPath, Option<String>>,
    pub(crate) artifacts: Vec<Artifact>,
    /// Contents of artifacts that are not in the store yet.
    pub(crate) contents: Vec<(Digest, Vec<u8>)>,
    pub(crate) refs: Vec<RefMove>,
}

/// New files are readable as the operator's umask says.
fn new_file_mode() -> u32 {
    static MODE: OnceLock<u32> = OnceLock::new();
    *MODE.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        let umask = line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok());
        0o666 & !umask.unwrap_or(0o022)
    })
}

/// A running tool's only way to the world.
#[derive(Debug)]
pub struct ToolContext {
    caller: Caller,
    place: Place,
    footprint: Footprint,
    store: Arc<dyn Store>,
    snapshot: Arc<Snapshot>,
    staged: Staged,
    meter: Meter,
}

/// Whose call it is, and what it is called.
#[derive(Debug, Clone)]
pub struct Caller {
    pub execution: ExecutionId,
    pub principal: Principal,
    pub mode: SandboxMode,
    pub started_at: Timestamp,
    pub progress: Progress,
    /// Given for this call alone, and recorded nowhere.
    pub credential: Option<Arc<Credential>>,
}

impl ToolContext {
    pub(crate) fn new(
        caller: Caller,
        place: Place,
        footprint: Footprint,
        snapshot: Arc<Snapshot>,
        meter: Meter,
    ) -> Self {
        let store = Arc::clone(&place.services().store);
        ToolContext { caller, place, footprint, store, snapshot, staged: Staged::default(), meter }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What the journal has, for tools that tell of it.
    pub fn journal(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    pub(crate) fn finish(self) -> (Staged, Usage) {
        let usage = self.meter.usage();
        (self.staged, usage)
    }

    /// To be called between steps of long work: ends it when time is up or the call is cancelled.
    pub fn check(&self) -> Result<(), Failure> {
        self.meter.check()
    }

    /// How long the call may still take.
    pub fn time_left_ms(&self) -> u64 {
        self.meter.time_left_ms()
    }

    /// A file without a name, for what is too long to hold in memory.
    pub fn scratch_file(&self) -> Result<std::fs::File, Failure> {
        countersign_sandbox::unnamed_file(&self.place.services().staging).map_err(|error| {
            Failure::resource("DISK_FULL", format!("there is no room for a file: {error}"))
                .hint("free some space and call again")
        })
    }

    /// To be called before holding on to that much memory.
    pub fn charge_memory(&mut self, bytes: u64) -> Result<(), Failure> {
        self.meter.charge_memory(bytes)
    }

    /// Capabilities are checked again where they are used: the footprint is a promise.
    fn permit(&self, capability: Capability, resource: &str) -> Result<(), Failure> {
        let granted = |need: &Need| need.capability == capability && need.covers(resource);
        if self.footprint.needs.iter().any(granted) {
            return Ok(());
        }
        let message =
            format!("the tool tried `{capability}` on `{resource}`, which it had not announced");
        Err(Failure::authorization("CAPABILITY_EXCEEDED", message))
    }

    fn permit_path(&self, capability: Capability, path: &RelPath) -> Result<&Arc<Root>, Failure> {
        let root = self.place.root()?;
        self.permit(capability, &root.resource(path))?;
        Ok(root)
    }

    /// What is not in the write set was not looked at when the transaction began: it could neither
    /// be compared at the commit nor be proven to be restored.
    fn permit_change(&self, announced: bool, what: &str) -> Result<(), Failure> {
        if announced {
            return Ok(());
        }
        let message = format!("the tool tried to change `{what}`, which it had not announced");
        Err(Failure::authorization("CAPABILITY_EXCEEDED", message))
    }

    pub fn read_file(&mut self, path: &RelPath) -> Result<Vec<u8>, Failure> {
        let root = self.permit_path(Capability::FilesystemRead, path)?;
        let bytes = match self.staged.files.get(path) {
            Some(staged) => staged.as_ref().map(|new| new.bytes.clone()),
            // Read already when the transaction began; the commit fails if it is not the same then.
            None => match self.snapshot.files.get(path) {
                Some(before) => before.as_ref().map(|content| content.bytes.clone()),
                None => root.read(path, self.meter.max_file_size())?.map(|content| content.bytes),
            },
        };
        let bytes = bytes.ok_or_else(|| not_found(path))?;
        self.meter.charge_memory(bytes.len() as u64)?;
        self.meter.note_read(bytes.len() as u64);
        Ok(bytes)
    }

    /// The first bytes of a file, at most so many.
    pub fn read_start(&mut self, path: &RelPath, most: u64) -> Result<Vec<u8>, Failure> {
        let root = Arc::clone(self.permit_path(Capability::FilesystemRead, path)?);
        let mut bytes = Vec::new();
        let read = root.content(path)?.0.take(most).read_to_end(&mut bytes);
        read.map_err(|error| Failure::execution("IO_ERROR", error.to_string()))?;
        self.meter.note_read(bytes.len() as u64);
        self.meter.check()?;
        Ok(bytes)
    }

    pub fn list_directory(&mut self, path: &RelPath) -> Result<Vec<Listed>, Failure> {
        let root = Arc::clone(self.permit_path(Capability::FilesystemRead, path)?);
        let meter = &mut self.meter;
        root.list(path, |name| meter.charge_memory(name.len() as u64 + 64))
    }

    /// The file as the tool sees it: as it stood before the call, or as the tool has staged it.
    pub fn existing(&self, path: &RelPath) -> Option<Image> {
        match self.staged.files.get(path) {
            Some(staged) => staged.as_ref().map(|new| new.image),
            None => self.before(path),
        }
    }

    fn before(&self, path: &RelPath) -> Option<Image> {
        self.snapshot.files.get(path).and_then(|content| content.as_ref()).map(|c| c.image)
    }

    pub fn write_file(&mut self, path: &RelPath, bytes: Vec<u8>) -> Result<Image, Failure> {
        self.write_file_with(path, bytes, None)
    }

    /// The same with permissions of its own.
    pub fn write_file_with(
        &mut self,
        path: &RelPath,
        bytes: Vec<u8>,
        mode: Option<u32>,
    ) -> Result<Image, Failure> {
        self.permit_path(Capability::FilesystemWrite, path)?;
        self.permit_change(self.snapshot.files.contains_key(path), path.as_str())?;
        let size = bytes.len() as u64;
        if size > self.meter.max_file_size() {
            return Err(too_large(path, self.meter.max_file_size()));
        }
        self.meter.charge_memory(size)?;
        self.stage_directories(path, size)?;
        let mode = mode.or_else(|| self.before(path).map(|image| image.mode));
        let mode = mode.unwrap_or_else(new_file_mode);
        let image = Image { digest: Digest::of(&bytes), size, mode };
        self.meter.note_written(size);
        self.staged.files.insert(path.clone(), Some(NewFile { bytes, image }));
        Ok(image)
    }

    /// Directories above `path` that do not exist yet, if the footprint says that they may be made.
    /// Fails while it still can if a file of `size` cannot be put there.
    fn stage_directories(&mut self, path: &RelPath, size: u64) -> Result<(), Failure> {
        let root = Arc::clone(self.place.root()?);
        let mut deepest = RelPath::default();
        for directory in path.ancestors() {
            if root.has_directory(&directory)? {
                deepest = directory;
                continue;
            }
            if !self.footprint.directories.contains(&directory) {
                return Err(not_found(&directory)
                    .hint("make the directory first, or set createDirectories"));
            }
            if !self.staged.directories.contains(&directory) {
                self.staged.directories.push(directory);
            }
        }
        root.check_writable(&deepest)?;
        root.check_room(&deepest, size)
    }

    pub fn delete_file(&mut self, path: &RelPath) -> Result<Image, Failure> {
        let root = Arc::clone(self.permit_path(Capability::FilesystemDelete, path)?);
        self.permit_change(self.snapshot.files.contains_key(path), path.as_str())?;
        self.meter.check()?;
        let image = self.existing(path).ok_or_else(|| not_found(path))?;
        if let Some((parent, _)) = path.split() {
            root.check_writable(&parent)?;
        }
        self.staged.files.insert(path.clone(), None);
        Ok(image)
    }

    pub fn get_key(&mut self, key: &str) -> Result<Option<Vec<u8>>, Failure> {
        self.permit(Capability::StateRead, key)?;
        let value = match self.staged.keys.get(key) {
            Some(staged) => staged.clone(),
            None => self.store.key(key)?,
        };
        let size = value.as_ref().map_or(0, |value| value.len() as u64);
        self.meter.charge_memory(size)?;
        self.meter.note_read(size);
        Ok(value)
    }

    /// Returns whether the key is new.
    pub fn put_key(&mut self, key: &str, value: Vec<u8>) -> Result<bool, Failure> {
        self.permit(Capability::StateWrite, key)?;
        self.permit_change(self.snapshot.keys.contains_key(key), key)?;
        self.meter.charge_memory(value.len() as u64)?;
        self.meter.note_written(value.len() as u64);
        let is_new = self.existing_key(key).is_none();
        self.staged.keys.insert(key.to_owned(), Some(value));
        Ok(is_new)
    }

    /// Returns whether the key was there.
    pub fn delete_key(&mut self, key: &str) -> Result<bool, Failure> {
        self.permit(Capability::StateDelete, key)?;
        self.permit_change(self.snapshot.keys.contains_key(key), key)?;
        self.meter.check()?;
        let was_there = self.existing_key(key).is_some();
        if was_there {
            self.staged.keys.insert(key.to_owned(), None);
        }
        Ok(was_there)
    }

    fn existing_key(&self, key: &str) -> Option<&Vec<u8>> {
        let staged = self.staged.keys.get(key);
        staged.or_else(|| self.snapshot.keys.get(key)).and_then(Option::as_ref)
    }
}
