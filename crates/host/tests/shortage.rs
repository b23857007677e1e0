//! A machine that runs out of descriptors at the worst moments. Each case has a process of its own,
//! because the shortage hits all of it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs::File;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::tools::{Hook, handlers};
use common::{Bench, START, ending, failure_of, key, names, verify_chain};
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_host::{Clock, Home, Host};
use countersign_model::ErrorClass::StateError;
use countersign_model::Lifecycle::{Completed, RolledBack};
use countersign_model::{Capability, Failure, Timestamp};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

const ROLE: &str = "COUNTERSIGN_TEST_ROLE";

/// Runs the rest of a test in a process of its own; `true` in that process.
fn alone(test: &str) -> bool {
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum }).unwrap();
        return true;
    }
    let exe = std::env::current_exe().unwrap();
    let output = Command::new(exe).args(["--exact", test]).env(ROLE, test).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    false
}

/// Takes every descriptor there is, until it is emptied.
#[derive(Debug, Clone, Default)]
struct Hoard(Arc<Mutex<Vec<File>>>);

impl Hoard {
    fn fill(&self) {
        let mut hoard = self.0.lock().unwrap();
        while let Ok(file) = File::open("/dev/null") {
            hoard.push(file);
        }
    }

    fn empty(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// Exhausts the machine while it is asked what it will touch, so that its transaction cannot begin.
#[derive(Debug)]
struct Exhausting(Hoard);

impl NativeTool for Exhausting {
    fn footprint(&self, _input: &Value, place: &Place) -> Result<Footprint, Failure> {
        let path = countersign_host::path::RelPath::parse("f")?;
        let resource = place.resource(&path)?;
        self.0.fill();
        Ok(Footprint::needs(Capability::FilesystemWrite, resource).may_change_file(path))
    }

    fn run(&self, _input: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        context.write_file(&countersign_host::path::RelPath::parse("f")?, b"x".to_vec())?;
        Ok(json!({"done": true}))
    }
}

/// In the pause before a retry, lets go of the descriptors and has another host recover.
#[derive(Debug)]
struct Pausing {
    hoard: Hoard,
    other: Host,
}

impl Clock for Pausing {
    fn now(&self) -> Timestamp {
        START
    }

    fn sleep(&self, _pause: Duration) {
        self.hoard.empty();
        assert_eq!(self.other.recover().unwrap(), Default::default());
    }
}

fn declare_exhausting(bench: &Bench) {
    let capabilities = ["filesystem.read", "filesystem.write"];
    let text =
        common::tools::declare("test.exhaust", "test.exhaust", &json!({}), &capabilities, true);
    let path = bench.home().join("tools/test.exhaust.json");
    std::fs::write(path, text.to_string()).unwrap();
}

/// A call that is to be retried before it ever started names no host: nobody may take it over.
#[test]
fn a_call_that_could_not_begin_is_tried_again_by_its_own_host() {
    if !alone("a_call_that_could_not_begin_is_tried_again_by_its_own_host") {
        return;
    }
    let bench = Bench::new();
    let other = bench.host();
    declare_exhausting(&bench);
    let hoard = Hoard::default();
    let handlers = handlers(&Hook::default()).with("test.exhaust", Exhausting(hoard.clone()));
    let clock = Arc::new(Pausing { hoard, other });
    let host = Host::start(Home::open(&bench.home()).unwrap(), &handlers, clock).unwrap();
    bench.done(&host, "text.digest", &json!({"text": "opens what it needs"}));
    let outcome = bench.call(&host, "test.exhaust", &json!({}));
    assert_eq!((outcome.state, outcome.attempts), (Completed, 2), "{outcome:?}");
    let listed = names(&host, outcome.execution);
    let begun = ["authorized", "aborted", "rolledBack", "authorized", "started"];
    assert_eq!(listed[2..7], begun);
    assert_eq!(bench.text("f").unwrap(), "x");
    verify_chain(&host);
}

/// Past the commit point a shortage only delays: the call is finished by the next one.
#[test]
fn a_call_that_cannot_be_published_yet_is_published_later() {
    if !alone("a_call_that_cannot_be_published_yet_is_published_later") {
        return;
    }
    let bench = Bench::new();
    let store = bench.store();
    let host = bench.host_on(store.clone());
    bench.done(&host, "file.write", &json!({"path": "warm", "content": "up"}));
    let hoard = Hoard::default();
    let filling = hoard.clone();
    store.after_commit(move || filling.fill());
    let input = json!({
        "files": [{"name": "f", "value": "x"}, {"name": "d/g", "value": "y"}],
        "keys": [{"name": "k", "value": "z"}],
    });
    let failure = failure_of(host.call(bench.command("test.many", &input)));
    hoard.empty();
    assert_eq!((failure.class, failure.code.as_ref()), (StateError, "PUBLISH_PENDING"));
    assert_eq!((bench.text("f"), key(&host, "k")), (None, Some(json!("z"))));
    let execution = failure.execution_id.unwrap();

    // Another host leaves it alone, because ours lives, and cannot write there meanwhile.
    let other = bench.host();
    assert_eq!(other.recover().unwrap(), Default::default());
    let outcome = bench.call(&other, "file.write", &json!({"path": "f", "content": "theirs"}));
    assert_eq!(ending(&outcome), (RolledBack, StateError, "CONFLICT"));

    bench.done(&host, "text.digest", &json!({"text": "the next call"}));
    let summary = host.home().store.call(execution).unwrap().unwrap();
    assert_eq!((summary.state, summary.unsettled.len()), (Completed, 0));
    assert_eq!((bench.text("f").unwrap(), bench.text("d/g").unwrap()), ("x".into(), "y".into()));
    verify_chain(&host);
}
