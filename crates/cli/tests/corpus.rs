//! One corpus of calls, as data, through two front doors: the library and the command line. Both
//! must end the same way, leave the same files and keys behind, and tell a legal story.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use common::{BIN, Bench, tree};
use countersign_host::grants::{DelegateCommand, IssueCommand};
use countersign_host::inspect::verify_home;
use countersign_host::stats::{self, Stats};
use countersign_host::{Backends, CallCommand, Clock, Home, Host, SystemClock, builtin};
use countersign_journal::CallFilter;
use countersign_model::{Failure, GrantId, Scope, Timestamp, ToolRef};
use countersign_sandbox_linux::{LauncherCommand, LinuxSandbox};
use countersign_sandbox_wasm::{Options, WasmBackend};
use serde::Deserialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    tool: String,
    #[serde(rename = "as", default = "agent")]
    principal: String,
    #[serde(default)]
    input: Input,
    /// `.` is the workspace; nothing means that no root is named.
    #[serde(default = "workspace")]
    root: Option<String>,
    #[serde(default)]
    config: Option<String>,
    #[serde(default)]
    declare: Vec<Declare>,
    #[serde(default)]
    grants: Vec<GrantSpec>,
    #[serde(default)]
    files: BTreeMap<String, FileSpec>,
    #[serde(default)]
    keys: BTreeMap<String, Value>,
    expect: Expect,
}

fn agent() -> String {
    "agent:a".to_owned()
}

fn workspace() -> Option<String> {
    Some(".".to_owned())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum Input {
    #[default]
    Empty,
    Json(Value),
    Raw(String),
    Bytes(Vec<u8>),
    /// An object whose `text` has so many bytes.
    TextOf(usize),
    /// `{"path": …, "content": …}` with so many bytes of content.
    WriteOf(usize),
    /// Arrays within arrays.
    Nested(usize),
}

impl Input {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Input::Empty => b"{}".to_vec(),
            Input::Json(value) => value.to_string().into_bytes(),
            Input::Raw(text) => text.clone().into_bytes(),
            Input::Bytes(bytes) => bytes.clone(),
            Input::TextOf(size) => json!({"text": "x".repeat(*size)}).to_string().into_bytes(),
            Input::WriteOf(size) => {
                json!({"path": "big.txt", "content": "x".repeat(*size)}).to_string().into_bytes()
            }
            Input::Nested(depth) => {
                format!("{}{}", "[".repeat(*depth), "]".repeat(*depth)).into_bytes()
            }
        }
    }
}

/// A built-in's declaration with some members replaced, by JSON pointer. With files, it stands beside
/// them in a folder of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Declare {
    from: String,
    #[serde(default)]
    set: Map<String, Value>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrantSpec {
    capability: String,
    #[serde(default = "agent")]
    to: String,
    /// File patterns are relative to the workspace unless they are absolute or `**`.
    scope: Vec<String>,
    #[serde(default)]
    expired: bool,
    #[serde(default)]
    revoked: bool,
    #[serde(default)]
    delegable: bool,
    /// Delegated from the grant with this place in the list, by this holder.
    #[serde(default)]
    from: Option<(usize, String)>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum FileSpec {
    Text(String),
    Bytes(Vec<u8>),
    Size(usize),
    Symlink(String),
    /// Another name for a file outside the workspace.
    HardLink(String),
    Directory,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    /// None when no call comes to be.
    state: Option<String>,
    #[serde(default)]
    class: Option<String>,
    #[serde(default)]
    code: Option<String>,
    exit: i32,
    /// Members that the output must have; the others are not looked at.
    #[serde(default)]
    output: Option<Value>,
    /// What the message or the hint must say.
    #[serde(default)]
    says: Option<String>,
    /// Places that the violations must name.
    #[serde(default)]
    pointers: Vec<String>,
    /// The exact story, where it is not the usual one.
    #[serde(default)]
    story: Option<Vec<String>>,
    /// Files that changed: new content, or null for gone. Everything else must be as it was.
    #[serde(default)]
    files: BTreeMap<String, Option<String>>,
    #[serde(default)]
    keys: BTreeMap<String, Option<Value>>,
}

/// How a call ended, seen through either door.
#[derive(Debug, PartialEq)]
struct Ending {
    state: Option<String>,
    error: Option<Value>,
    output: Option<Value>,
    attempts: u64,
}

impl Ending {
    /// Where in a module a guest trapped is told by the compiler, which may name the instruction or
    /// the one after it.
    fn without_offsets(&self) -> String {
        let text = format!("{self:?}");
        let mut parts = text.split("0x");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |all, part| {
            all + "0x…" + part.trim_start_matches(|c: char| c.is_ascii_hexdigit())
        })
    }
}

/// A clock of the day before yesterday, for grants that have expired.
#[derive(Debug)]
struct Earlier;

impl Clock for Earlier {
    fn now(&self) -> Timestamp {
        SystemClock.now().plus_millis(-2 * 86_400_000)
    }
}

fn corpus() -> Vec<Case> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut cases: Vec<Case> = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let some: Vec<Case> =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        cases.extend(some);
    }
    let names: BTreeSet<_> = cases.iter().map(|case| case.name.clone()).collect();
    assert_eq!(names.len(), cases.len(), "two cases share a name");
    cases
}

#[test]
fn every_case_ends_the_same_through_both_doors() {
    let cases = corpus();
    assert!(cases.len() >= 60, "{} cases", cases.len());
    let queue = Mutex::new(cases.into_iter());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().next() else { return };
                    let checked = std::panic::catch_unwind(|| check(&case));
                    if checked.is_err() {
                        failures.lock().unwrap().push(case.name);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "cases that went wrong: {failures:#?}");
}

fn check(case: &Case) {
    if !is_possible(case) {
        println!("skipped: programs cannot be contained here: {}", case.name);
        return;
    }
    let library = through(case, by_library);
    let command_line = through(case, by_command_line);
    assert_eq!(
        library.without_offsets(),
        command_line.without_offsets(),
        "{}: the doors disagree",
        case.name
    );
}

/// Sets a case up, makes its call through `door`, and judges the ending and what it left behind.
fn through(case: &Case, door: fn(&Case, &Bench) -> Ending) -> Ending {
    let bench = Bench::bare();
    Home::create(&bench.home(), &SystemClock).unwrap();
    set_up(case, &bench);
    let before = tree(&bench.dir().join("ws"));
    let outside = tree(&bench.dir().join("outside"));
    let calls_before = stats(&bench).executions;
    let ending = door(case, &bench);
    judge(case, &ending);
    judge_files(case, &bench, before);
    assert_eq!(tree(&bench.dir().join("outside")), outside, "{}: outside", case.name);
    judge_keys(case, &bench);
    judge_story(case, &bench, calls_before);
    masked(ending, &bench)
}

/// Paths and ids differ between two benches; everything else must not.
fn masked(mut ending: Ending, bench: &Bench) -> Ending {
    if let Some(error) = &mut ending.error {
        let text = error.to_string().replace(&bench.dir().display().to_string(), "BENCH");
        let mut value: Value = serde_json::from_str(&text).unwrap();
        let object = value.as_object_mut().unwrap();
        let named = object.remove("executionId").is_some();
        assert_eq!(named, ending.state.is_some(), "an execution is named if there is one");
        for key in ["message", "hint"] {
            if let Some(Value::String(text)) = object.get_mut(key) {
                // The command line adds which argument was wrong.
                let bare = text.split_once(">': ").map_or(text.as_str(), |(_, bare)| bare);
                *text = without_ids(bare);
            }
        }
        if object["class"] == "AuthorizationError" {
            object.remove("details");
        }
        *error = value;
    }
    ending
}

fn without_ids(text: &str) -> String {
    let word = |word: &str| {
        let is_id = word.len() >= 36 && word.matches('-').count() >= 4;
        if is_id { "ID".to_owned() } else { word.to_owned() }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

fn set_up(case: &Case, bench: &Bench) {
    fs::create_dir(bench.dir().join("outside")).unwrap();
    fs::write(bench.dir().join("outside/secret.txt"), "secret").unwrap();
    for (name, file) in &case.files {
        make_file(bench, name, file);
    }
    if let Some(config) = &case.config {
        fs::write(bench.home().join("countersign.toml"), config).unwrap();
    }
    for (number, declare) in case.declare.iter().enumerate() {
        let mut declaration = bench.declaration(&declare.from);
        for (pointer, value) in &declare.set {
            set(&mut declaration, pointer, value.clone());
        }
        if declare.files.is_empty() {
            bench.declare(&format!("extra-{number}.json"), &declaration);
            continue;
        }
        let folder = bench.home().join(format!("tools/extra-{number}"));
        for (name, content) in &declare.files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match name.strip_suffix(".wat") {
                // Readable in the table; tools have it as a binary.
                Some(_) => fs::write(path.with_extension("wasm"), wat::parse_str(content).unwrap()),
                None => fs::write(path, content),
            }
            .unwrap();
        }
        fs::write(folder.join("tool.json"), declaration.to_string()).unwrap();
    }
    put_keys(case, bench);
    make_grants(case, bench);
}

fn set(value: &mut Value, pointer: &str, new: Value) {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap();
    parent.as_object_mut().unwrap().insert(name.to_owned(), new);
}

fn make_file(bench: &Bench, name: &str, file: &FileSpec) {
    let path = bench.ws().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match file {
        FileSpec::Text(text) => fs::write(path, text).unwrap(),
        FileSpec::Bytes(bytes) => fs::write(path, bytes).unwrap(),
        FileSpec::Size(size) => fs::write(path, "x".repeat(*size)).unwrap(),
        FileSpec::Symlink(target) => symlink(target, path).unwrap(),
        FileSpec::HardLink(target) => fs::hard_link(bench.dir().join(target), path).unwrap(),
        FileSpec::Directory => fs::create_dir_all(path).unwrap(),
    }
}

fn put_keys(case: &Case, bench: &Bench) {
    if case.keys.is_empty() {
        return;
    }
    let host = Host::open(&bench.home()).unwrap();
    let setup = |capability: &str| IssueCommand {
        capability: capability.parse().unwrap(),
        to: "service:setup".parse().unwrap(),
        by: "human:tester".parse().unwrap(),
        scope: Scope::everything(),
        expires_at: SystemClock.now().plus_millis(3_600_000),
        delegable: false,
    };
    host.issue_grant(setup("state.write")).unwrap();
    for (key, value) in &case.keys {
        let input = json!({"key": key, "value": value}).to_string().into_bytes();
        let (tool, by) = ("state.put@1.0.0".parse().unwrap(), "service:setup".parse().unwrap());
        let outcome = host.call(CallCommand::new(tool, input, by));
        outcome.unwrap().result.unwrap();
    }
}

fn make_grants(case: &Case, bench: &Bench) {
    if case.grants.is_empty() {
        return;
    }
    let home = || Home::open(&bench.home()).unwrap();
    let now = Host::open(&bench.home()).unwrap();
    // Opening a host takes a while, and few cases need a second one.
    let earlier = case
        .grants
        .iter()
        .any(|spec| spec.expired)
        .then(|| Host::start(home(), &builtin::handlers(), Arc::new(Earlier)).unwrap());
    let mut made: Vec<GrantId> = Vec::new();
    for spec in &case.grants {
        let (host, clock): (_, &dyn Clock) = match &earlier {
            Some(earlier) if spec.expired => (earlier, &Earlier),
            _ => (&now, &SystemClock),
        };
        let capability = spec.capability.parse().unwrap();
        let scope = Scope::parse(spec.scope.iter().map(|p| full(bench, &spec.capability, p)));
        let (to, scope) = (spec.to.parse().unwrap(), scope.unwrap());
        let delegable = spec.delegable;
        let grant = match &spec.from {
            None => host.issue_grant(IssueCommand {
                capability,
                to,
                by: "human:tester".parse().unwrap(),
                scope,
                expires_at: clock.now().plus_millis(3_600_000),
                delegable,
            }),
            Some((parent, by)) => host.delegate_grant(DelegateCommand {
                parent: made[*parent],
                to,
                by: by.parse().unwrap(),
                scope,
                expires_at: clock.now().plus_millis(1_800_000),
                delegable,
            }),
        };
        made.push(grant.unwrap_or_else(|e| panic!("{}: {e:?}", case.name)).body.id);
    }
    for (spec, id) in case.grants.iter().zip(&made) {
        if spec.revoked {
            now.revoke_grant(*id, "human:tester".parse().unwrap(), None).unwrap();
        }
    }
}

fn full(bench: &Bench, capability: &str, pattern: &str) -> String {
    match pattern {
        _ if !capability.starts_with("filesystem.") => pattern.to_owned(),
        "**" => pattern.to_owned(),
        "." => bench.ws().display().to_string(),
        pattern => format!("{}/{pattern}", bench.ws().display()),
    }
}

fn root(case: &Case, bench: &Bench) -> Option<PathBuf> {
    case.root.as_ref().map(|root| bench.ws().join(root))
}

fn by_library(case: &Case, bench: &Bench) -> Ending {
    let called = || {
        let tool: ToolRef = case.tool.parse()?;
        let principal = case.principal.parse()?;
        let root = root(case, bench);
        let home = Home::open(&bench.home())?;
        let handlers = countersign_actions::handlers(&home.config.actions)?;
        let host = Host::start_with(home, &handlers, Arc::new(SystemClock), backends())?;
        let input = case.input.bytes();
        host.call(CallCommand { root, ..CallCommand::new(tool, input, principal) })
    };
    let called: Result<_, Failure> = called();
    match called {
        Err(failure) => {
            Ending { state: None, error: Some(json!(failure)), output: None, attempts: 0 }
        }
        Ok(outcome) => Ending {
            state: Some(outcome.state.to_string()),
            error: outcome.result.as_ref().err().map(|failure| json!(failure)),
            output: outcome.result.ok(),
            attempts: outcome.attempts.into(),
        },
    }
}

/// What runs programs, shared by all cases: the binary under test is the launcher.
fn backends() -> Backends {
    static BACKENDS: OnceLock<Backends> = OnceLock::new();
    let made = BACKENDS.get_or_init(|| {
        let arguments = vec!["__launcher".to_owned()];
        let command = LauncherCommand { program: BIN.into(), arguments };
        Backends {
            process: Some(Arc::new(LinuxSandbox::new(command))),
            wasm: Some(Arc::new(WasmBackend::new(Options::default()).unwrap())),
            gateway: None,
        }
    });
    made.clone()
}

/// Whether this machine can run what the case declares.
fn is_possible(case: &Case) -> bool {
    static CONTAINED: OnceLock<bool> = OnceLock::new();
    let is_process = |declare: &Declare| {
        declare.set.get("/runtime").is_some_and(|runtime| runtime["kind"] == "process")
    };
    let contained = || {
        let doctor = Bench::bare().json(&["doctor"]).json();
        doctor["levels"][2]["enforced"] == true
    };
    !case.declare.iter().any(is_process) || *CONTAINED.get_or_init(contained)
}

fn by_command_line(case: &Case, bench: &Bench) -> Ending {
    let root = root(case, bench).map(|root| root.display().to_string());
    let mut args = vec!["--json", "call", &case.tool, "--as", &case.principal, "--input", "-"];
    if let Some(root) = &root {
        args.extend(["--root", root]);
    }
    let output = bench.run_with_input(&args, &case.input.bytes());
    assert_eq!(output.code, case.expect.exit, "{}: {output:#?}", case.name);
    assert_eq!(output.stderr, "", "{}", case.name);
    let document = output.json();
    let of_programs = ["artifacts", "stdout", "stderr"];
    let keys = document.as_object().unwrap().keys().map(String::as_str);
    let keys: BTreeSet<_> = keys.filter(|key| !of_programs.contains(key)).collect();
    let result = if output.code == 0 { "output" } else { "error" };
    let promised = match case.expect.state {
        None => BTreeSet::from(["success", "error"]),
        Some(_) => BTreeSet::from([
            "success",
            "executionId",
            "state",
            result,
            "durationMs",
            "attempts",
            "receipt",
        ]),
    };
    assert_eq!(keys, promised, "{}", case.name);
    assert_eq!(document["success"], json!(output.code == 0), "{}", case.name);
    Ending {
        state: document["state"].as_str().map(str::to_owned),
        error: document.get("error").cloned(),
        output: document.get("output").cloned(),
        attempts: document["attempts"].as_u64().unwrap_or(0),
    }
}

fn judge(case: &Case, ending: &Ending) {
    let (name, expect) = (&case.name, &case.expect);
    assert_eq!(ending.state, expect.state, "{name}: {ending:#?}");
    let of_error = |key: &str| {
        let error = ending.error.as_ref()?;
        Some(error[key].as_str().unwrap().to_owned())
    };
    assert_eq!(of_error("class"), expect.class, "{name}: {ending:#?}");
    assert_eq!(of_error("code"), expect.code, "{name}: {ending:#?}");
    if let Some(says) = &expect.says {
        let error = ending.error.as_ref().unwrap();
        let said = format!("{} {}", error["message"], error["hint"]);
        assert!(said.contains(says), "{name}: {said}");
    }
    for pointer in &expect.pointers {
        let details = ending.error.as_ref().unwrap()["details"].as_array().unwrap().clone();
        assert!(details.iter().any(|v| v["pointer"] == **pointer), "{name}: {details:#?}");
    }
    if let Some(output) = &expect.output {
        let found = ending.output.as_ref().unwrap_or_else(|| panic!("{name}: {ending:#?}"));
        assert!(is_within(output, found), "{name}: {found:#}");
    }
}

/// Whether `found` has everything that `part` has; lists must be equally long.
fn is_within(part: &Value, found: &Value) -> bool {
    match (part, found) {
        (Value::Object(part), Value::Object(found)) => part
            .iter()
            .all(|(key, value)| found.get(key).is_some_and(|found| is_within(value, found))),
        (Value::Array(part), Value::Array(found)) => {
            part.len() == found.len() && part.iter().zip(found).all(|(p, f)| is_within(p, f))
        }
        (part, found) => part == found,
    }
}

fn judge_files(case: &Case, bench: &Bench, mut expected: BTreeMap<String, String>) {
    for (name, change) in &case.expect.files {
        match change {
            Some(content) => expected.insert(name.clone(), content.clone()),
            None => expected.remove(name),
        };
    }
    assert_eq!(tree(&bench.ws()), expected, "{}", case.name);
}

fn judge_keys(case: &Case, bench: &Bench) {
    let mut expected: BTreeMap<_, _> =
        case.keys.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    expected.extend(case.expect.keys.clone());
    let home = Home::open(&bench.home()).unwrap();
    for (key, value) in expected {
        let found = home.store.key(&key).unwrap();
        let found = found.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
        assert_eq!(found, value, "{}: key {key}", case.name);
    }
}

/// What may follow what, written down once more and apart from the code under test.
fn may_follow(state: &str) -> &'static [&'static str] {
    match state {
        "" => &["DECLARED"],
        "DECLARED" => &["VALIDATED", "FAILED"],
        "VALIDATED" => &["AUTHORIZED", "DENIED", "FAILED"],
        "AUTHORIZED" => &["EXECUTING", "ABORTED"],
        "EXECUTING" => &["COMPLETED", "ABORTED", "ROLLED_BACK"],
        "ABORTED" => &["ROLLED_BACK"],
        "ROLLED_BACK" => &["AUTHORIZED", "DENIED"],
        _ => &[],
    }
}

fn stats(bench: &Bench) -> Stats {
    let home = Home::open(&bench.home()).unwrap();
    stats::collect(&*home.store, &CallFilter::default()).unwrap()
}

fn judge_story(case: &Case, bench: &Bench, calls_before: u64) {
    let name = &case.name;
    let stats = stats(bench);
    let calls = stats.executions - calls_before;
    assert_eq!(calls, u64::from(case.expect.state.is_some()), "{name}: {stats:?}");
    assert_eq!(stats.open, 0, "{name}");
    verify_home(&Home::open(&bench.home()).unwrap(), &[], |_| {}).unwrap();
    let Some(state) = &case.expect.state else { return };
    let told = bench.json(&["audit", "list", "--principal", &case.principal]).ok().json();
    let events = told.as_array().unwrap();
    let story: Vec<&str> = events.iter().map(|event| event["state"].as_str().unwrap()).collect();
    let mut last = "";
    for &state in &story {
        assert!(may_follow(last).contains(&state), "{name}: {story:?}");
        last = state;
    }
    assert_eq!(last, state, "{name}: {story:?}");
    if let Some(exact) = &case.expect.story {
        assert_eq!(&story, exact, "{name}");
    }
    let error = events.last().unwrap()["error"]["code"].as_str().map(str::to_owned);
    assert_eq!(error, case.expect.code, "{name}: the last event says why");
}
