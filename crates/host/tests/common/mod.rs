//! The bench that the host's tests work on: a home in a temporary directory, a clock that is moved
//! by hand, tools that misbehave on purpose, and a store that can be made to fail or to kill.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, unreachable_pub, reason = "each test file uses its own part")]

pub mod boxes;
pub mod office;
pub mod store;
pub mod tools;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use countersign_host::grants::IssueCommand;
use countersign_host::home::Layout;
use countersign_host::{CallCommand, Clock, Home, Host, Outcome};
use countersign_journal::verify::{Edges, Verified, Verifier};
use countersign_journal::{SqliteStore, Store, keys};
use countersign_model::event::{CallEvent, Fact};
use countersign_model::{
    Capability, ErrorClass, ExecutionId, Failure, GrantId, Lifecycle, Principal, Scope, Timestamp,
};
use countersign_sandbox::backend::StagedForm;
use serde_json::Value;
use tempfile::TempDir;

use self::boxes::{Boxes, program};
use self::store::TestStore;
use self::tools::{Hook, declarations, handlers};

pub const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);
pub const HOUR: i64 = 3_600_000;
/// Longer than anything takes here, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Stands still until it is moved. Pauses are noted, not taken.
#[derive(Debug)]
pub struct ManualClock {
    now: AtomicI64,
    pub pauses: Mutex<Vec<Duration>>,
}

impl ManualClock {
    pub fn new() -> Arc<Self> {
        let now = AtomicI64::new(START.as_millis());
        Arc::new(ManualClock { now, pauses: Mutex::default() })
    }

    pub fn advance(&self, millis: i64) {
        self.now.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }

    fn sleep(&self, pause: Duration) {
        self.pauses.lock().unwrap().push(pause);
    }

    fn jitter(&self, max: u64) -> u64 {
        max
    }
}

/// The capabilities that the bench's agent holds, prerequisites first.
pub const HELD: [Capability; 7] = [
    Capability::FilesystemRead,
    Capability::FilesystemWrite,
    Capability::FilesystemDelete,
    Capability::StateRead,
    Capability::StateWrite,
    Capability::StateDelete,
    Capability::NetworkHttps,
];

pub struct Bench {
    dir: TempDir,
    pub clock: Arc<ManualClock>,
    /// Run once by the next `test.many`, between the beginning and the commit.
    pub hook: Hook,
}

impl Bench {
    /// A home where `agent:x` may do everything.
    pub fn new() -> Self {
        let bench = Self::bare();
        bench.grant_all(&bench.host());
        bench
    }

    /// A home where nothing is granted.
    pub fn bare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let bench = Bench { dir, clock: ManualClock::new(), hook: Hook::default() };
        Home::create(&bench.home(), &*bench.clock).unwrap();
        for (name, text) in declarations() {
            std::fs::write(bench.home().join("tools").join(name), text).unwrap();
        }
        std::fs::create_dir(bench.root()).unwrap();
        bench
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn home(&self) -> PathBuf {
        home_in(self.path())
    }

    pub fn root(&self) -> PathBuf {
        root_in(self.path())
    }

    pub fn host(&self) -> Host {
        let home = Home::open(&self.home()).unwrap();
        Host::start(home, &handlers(&self.hook), self.clock.clone()).unwrap()
    }

    /// A host whose store does what the test tells it.
    pub fn host_on(&self, store: Arc<TestStore>) -> Host {
        let home = Home::with_store(&self.home(), store).unwrap();
        Host::start(home, &handlers(&self.hook), self.clock.clone()).unwrap()
    }

    /// A host that runs programs in pretended boxes.
    pub fn host_with(&self, boxes: &Arc<Boxes>) -> Host {
        self.host_with_on(Home::open(&self.home()).unwrap(), boxes)
    }

    pub fn host_with_on(&self, home: Home, boxes: &Arc<Boxes>) -> Host {
        let backends = boxes.backends();
        Host::start_with(home, &handlers(&self.hook), self.clock.clone(), backends).unwrap()
    }

    /// Declares a program, changed as the test wants it.
    pub fn declare_program(&self, id: &str, change: impl FnOnce(&mut Value)) {
        declare_program_in(&self.home(), id, change);
    }

    pub fn store(&self) -> Arc<TestStore> {
        Arc::new(TestStore::over(open_store(&self.home())))
    }

    pub fn grant_all(&self, host: &Host) -> Vec<GrantId> {
        HELD.iter().map(|&capability| self.grant(host, capability, "**", HOUR)).collect()
    }

    pub fn grant(&self, host: &Host, capability: Capability, scope: &str, lasts: i64) -> GrantId {
        let command = IssueCommand {
            capability,
            to: "agent:x".parse().unwrap(),
            by: operator(),
            scope: Scope::parse([scope]).unwrap(),
            expires_at: self.clock.now().plus_millis(lasts),
            delegable: true,
        };
        host.issue_grant(command).unwrap().body.id
    }

    pub fn command(&self, tool: &str, input: &Value) -> CallCommand {
        let (tool, input) = (tool.parse().unwrap(), serde_json::to_vec(input).unwrap());
        CallCommand { root: Some(self.root()), ..CallCommand::new(tool, input, agent()) }
    }

    pub fn call(&self, host: &Host, tool: &str, input: &Value) -> Outcome {
        host.call(self.command(tool, input)).unwrap()
    }

    /// Calls and expects success.
    pub fn done(&self, host: &Host, tool: &str, input: &Value) -> Value {
        let outcome = self.call(host, tool, input);
        assert_eq!(outcome.state, Lifecycle::Completed, "{tool} {input}: {:?}", outcome.result);
        outcome.result.unwrap()
    }

    pub fn write(&self, name: &str, content: &str) {
        std::fs::write(self.root().join(name), content).unwrap();
    }

    /// What a file beneath the root holds.
    pub fn text(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.root().join(name)).ok()
    }
}

pub fn declare_program_in(home: &Path, id: &str, change: impl FnOnce(&mut Value)) {
    let folder = home.join("tools").join(id);
    std::fs::create_dir_all(folder.join("files")).unwrap();
    std::fs::write(folder.join("files/main.py"), "print('hello')\n").unwrap();
    let mut declaration = program(id);
    change(&mut declaration);
    std::fs::write(folder.join("tool.json"), declaration.to_string()).unwrap();
}

pub fn home_in(dir: &Path) -> PathBuf {
    dir.join("home")
}

pub fn root_in(dir: &Path) -> PathBuf {
    dir.join("root")
}

pub fn agent() -> Principal {
    "agent:x".parse().unwrap()
}

pub fn operator() -> Principal {
    "human:ada".parse().unwrap()
}

pub fn open_store(home: &Path) -> SqliteStore {
    let layout = Layout(home);
    let key = keys::load(&layout.journal_key()).unwrap();
    SqliteStore::open(&layout.journal(), key).unwrap()
}

/// What a failed call ended in, and why.
pub fn ending(outcome: &Outcome) -> (Lifecycle, ErrorClass, &str) {
    match &outcome.result {
        Err(failure) => (outcome.state, failure.class, failure.code.as_ref()),
        Ok(output) => panic!("the call succeeded with {output}"),
    }
}

/// The facts of a call, oldest first.
pub fn facts(host: &Host, execution: ExecutionId) -> Vec<CallEvent> {
    let entries = host.home().store.call_entries(execution).unwrap();
    let event = |fact: Fact| match fact {
        Fact::Call(call) => call.event,
        other => panic!("not a fact of a call: {other:?}"),
    };
    entries.into_iter().map(|stored| event(stored.entry.fact)).collect()
}

pub fn names(host: &Host, execution: ExecutionId) -> Vec<&'static str> {
    facts(host, execution).iter().map(CallEvent::name).collect()
}

/// Checks every entry of the journal against its signed head.
pub fn verify_chain(host: &Host) -> Verified {
    let home = host.home();
    let head = home.store.head().unwrap();
    let key = home.journal_key.verifier().clone();
    let mut verifier =
        Verifier::new(key, &head.checkpoint, 0, head.size, Edges::default()).unwrap();
    home.store
        .visit_raw(0..head.size, &mut |bytes| {
            verifier.entry(&bytes).unwrap();
            Ok(())
        })
        .unwrap();
    verifier.finish().unwrap()
}

/// The value of a key, as JSON.
pub fn key(host: &Host, key: &str) -> Option<Value> {
    let bytes = host.home().store.key(key).unwrap()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

/// Waits, within reason, until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < patience, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs one test of this very program in a process of its own, which `role` tells what to do.
pub fn spawn_self(test: &str, role: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .envs(role.iter().map(|(key, value)| (key, value)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn failure_of(result: Result<Outcome, Failure>) -> Failure {
    match result {
        Err(failure) => failure,
        Ok(outcome) => panic!("the call ended in {outcome:?}"),
    }
}

/// A host for a process that is not the one that made the bench.
pub fn host_in(dir: &Path, store: Arc<dyn Store>) -> Host {
    let home = Home::with_store(&home_in(dir), store).unwrap();
    let backends = Boxes::new(StagedForm::Upper, boxes::obedient).backends();
    Host::start_with(home, &handlers(&Hook::default()), ManualClock::new(), backends).unwrap()
}

pub fn command_in(dir: &Path, tool: &str, input: &Value) -> CallCommand {
    let (tool, input) = (tool.parse().unwrap(), serde_json::to_vec(input).unwrap());
    CallCommand { root: Some(root_in(dir)), ..CallCommand::new(tool, input, agent()) }
}
