//! Requests whose scripts do their worst: each has a conforming result all the same, with nothing of
//! the script outside of the lines that are its own. The scripts are explained in
//! `hostile/documents/README.md`.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use common::desk::{ADA, Ask, Delivered, elsewhere};
use common::{Bench, collect, output};
use countersign_model::Digest;
use serde_json::{Value, json};

/// What every script says, so that its words are known wherever they turn up.
const MARK: &str = "quokka";

/// A script, and what its first lines say about it.
struct Script {
    name: String,
    text: String,
}

impl Script {
    fn says(&self, key: &str) -> Vec<&str> {
        let prefix = format!("# {key}: ");
        self.text.lines().filter_map(|line| line.strip_prefix(&prefix)).collect()
    }

    fn one(&self, key: &str) -> &str {
        let said = self.says(key);
        assert_eq!(said.len(), 1, "{}: {key}", self.name);
        said[0]
    }

    fn words(&self, key: &str) -> Vec<&str> {
        self.says(key).into_iter().flat_map(str::split_whitespace).collect()
    }
}

fn scripts(group: &str) -> Vec<Script> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile/documents").join(group);
    let read = |path: PathBuf| Script {
        name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
        text: fs::read_to_string(&path).unwrap(),
    };
    let mut all: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| read(entry.unwrap().path())).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(!all.is_empty());
    all
}

/// A listener of the host that nobody may reach.
fn listener() -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let reached = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&reached);
    thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || answer(stream.unwrap()));
        }
    });
    (port, reached)
}

fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    if stream.read(&mut bytes).is_ok_and(|read| read > 0) {
        let said = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        let _ = stream.write_all(said.as_bytes());
    }
}

/// Runs every script of a group, and says everything that was not as announced.
fn run_group(group: &str) {
    let Some(bench) = Bench::for_requests() else { return };
    let (port, reached) = listener();
    let host = format!("{}\n{port}\n", bench.home().display());
    let mut wrong = Vec::new();
    for script in scripts(group) {
        let delivered = run(&bench, &script, &host);
        let found = problems(&script, &delivered);
        if !found.is_empty() {
            let (name, text) = (&script.name, &delivered.text);
            wrong.push(format!("{name}: {}\n{:#}\n{text}", found.join("; "), delivered.said));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert_eq!(reached.load(Ordering::SeqCst), 0, "somebody reached the host");
    assert_eq!(bench.folder("quarantine"), Default::default());
    bench.verify();
}

fn run(bench: &Bench, script: &Script, host: &str) -> Delivered {
    let slug = script.name.replace('_', "-");
    let mut ask = Ask::python(&slug, &script.text, &script.words("outputs"));
    ask.files.push(("host.txt", host.as_bytes()));
    let id = bench.approved(&ask.with(&script.words("more"))).id;
    let mut command = bench.command(&["--json", "request", "run", &id]);
    command.env("SECRET_TOKEN", "what only the host knows");
    let delivered = Delivered::of(&output(&mut command));
    delivered.conforms(bench);
    delivered.keeps_behind_bars(MARK);
    delivered
}

fn problems(script: &Script, delivered: &Delivered) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, expected: &str, found: &str| {
        if !expected.split(" or ").any(|expected| fits(expected, found)) {
            wrong.push(format!("{what} is {found}, not {expected}"));
        }
    };
    same("the end of `request run`", script.one("run"), &delivered.exit.to_string());
    same("exit_code", script.one("exit_code"), delivered.front("exit_code"));
    same("unexpected behavior", script.one("notes"), delivered.notes());
    let (mut left, mut names) = (script.words("left"), delivered.names());
    left.sort_unstable();
    names.sort();
    same("what is left", &left.join(" "), &names.join(" "));
    for line in script.says("shows") {
        let shown = format!("| {line}");
        if !delivered.stdout().contains(&shown.as_str()) {
            wrong.push(format!("does not show {shown:?}"));
        }
    }
    for text in script.says("hides") {
        if delivered.text.contains(text) {
            wrong.push(format!("shows {text:?}"));
        }
    }
    wrong
}

/// A `*` at the end stands for any number.
fn fits(expected: &str, found: &str) -> bool {
    match expected.strip_suffix('*') {
        Some(start) => found.strip_prefix(start).is_some_and(|rest| rest.parse::<u64>().is_ok()),
        None => expected == found,
    }
}

#[test]
fn only_announced_files_come_out() {
    run_group("files");
}

#[test]
fn no_words_of_a_script_are_structure() {
    run_group("streams");
}

#[test]
fn dirty_streams_are_withheld() {
    run_group("dirty");
}

#[test]
fn every_ending_has_a_result() {
    run_group("endings");
}

#[test]
fn scripts_see_and_reach_nothing_of_the_host() {
    run_group("walls");
}

/// The most memory that a process had at once, in kilobytes, until it ended.
fn peak(child: &mut Child) -> u64 {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let words = line.and_then(|line| line.split_whitespace().next());
        peak = words.and_then(|word| word.parse().ok()).unwrap_or(peak).max(peak);
        thread::sleep(Duration::from_millis(5));
    }
    peak
}

/// All of it is kept, and far less of it is ever held in memory than there is.
#[test]
fn ten_million_lines_are_kept_in_little_memory() {
    let Some(bench) = Bench::for_requests() else { return };
    let script =
        "import sys\nfor _ in range(100):\n    sys.stdout.write('quokka says!\\n' * 100_000)\n";
    let id = bench.approved(&Ask::python("lines", script, &[])).id;
    let mut command = bench.command(&["--json", "request", "run", &id]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let peak = peak(&mut child);
    let delivered = Delivered::of(&collect(child.wait_with_output().unwrap()));
    assert_eq!((delivered.exit, delivered.notes()), (0, "None observed"));
    let stdout = delivered.stdout();
    let note = "[truncated: shown 200 of 10000000 lines; full text in stdout.txt]";
    assert_eq!((stdout.len(), stdout[200]), (201, note));
    let whole = fs::read(delivered.files().join("stdout.txt")).unwrap();
    assert_eq!(whole.len(), 130_000_000);
    assert_eq!(delivered.front("stdout_sha256"), Digest::of(&whole).to_string());
    assert!((1..100_000).contains(&peak), "{peak} kB at once, for {} kB", whole.len() / 1000);
}

const CLIENT: &str = r#"
import urllib.request
port = int(open("/in/host.txt").read().split("\n")[1])
for host in ["api.example.org", "other.example.org", "127.0.0.1"]:
    try:
        print(host, urllib.request.urlopen("http://%s:%d/" % (host, port), timeout=20).read())
    except OSError as error:
        print(host, "failed")
"#;

/// A name that the public would know leads to a listener of this machine, so that nothing leaves it.
#[test]
fn destinations_are_what_the_proxy_saw() {
    let Some(bench) = Bench::for_requests() else { return };
    let opened = "[network]\nprivate = [\"127.0.0.0/8\"]\n";
    fs::write(bench.home().join("countersign.toml"), opened).unwrap();
    let names = "127.0.0.1 localhost api.example.org other.example.org\n";
    fs::write(bench.dir().join("hosts"), names).unwrap();
    let (port, reached) = listener();
    let text = format!("{}\n{port}\n", bench.home().display());
    let allowed = format!("api.example.org:{port}");
    let mut ask = Ask::python("reach", CLIENT, &[]);
    ask.files.push(("host.txt", text.as_bytes()));
    let why = "It asks the service that it is about.";
    let ask = ask.with(&["--host", &allowed, "--network-rationale", why, "--risk", "medium"]);
    // A bare connection takes two.
    let drafted = bench.draft(&ask);
    bench.hire("human:bob");
    assert_eq!(bench.approve(&drafted.file, ADA).code, 4);
    bench.approve(&drafted.file, "human:bob").ok();
    let id = drafted.id;
    let mount = format!("mount --bind {}/hosts /etc/hosts", bench.dir().display());
    let run = ["--json", "request", "run", &id];
    let Some(output) = elsewhere(&bench, &mount, &run) else { return };
    let delivered = Delivered::of(&output);
    delivered.conforms(&bench);
    assert_eq!((delivered.exit, reached.load(Ordering::SeqCst)), (0, 1), "{}", delivered.text);
    let shown = ["| api.example.org b'hello'", "| other.example.org failed", "| 127.0.0.1 failed"];
    assert_eq!(delivered.stdout(), shown);
    assert_eq!(delivered.front("network_used"), "allowlist");
    assert!(delivered.text.contains(&format!("network_destinations:\n- \"{allowed}\"\n")));
    assert_eq!(delivered.labelled("## Safety Notes", "Network confirmation: "), allowed);
    assert_eq!(delivered.notes(), "CONNECTION_DENIED 2");
    let execution = delivered.said["executionId"].as_str().unwrap();
    let shown = bench.json(&["execution", "show", execution]).ok().json();
    let made = connections(&shown);
    assert_eq!(made.iter().filter(|made| made.get("denied").is_none()).count(), 1, "{made:#?}");
}

fn connections(shown: &Value) -> Vec<Value> {
    let events = shown["events"].as_array().unwrap().iter();
    let committed = events.map(|event| &event["event"]["committed"]);
    committed.filter_map(|fact| fact["connections"].as_array().cloned()).flatten().collect()
}

/// With the network declared and nobody reached, none was used.
#[test]
fn an_allowed_network_that_was_not_used_is_not_claimed() {
    let Some(bench) = Bench::for_requests() else { return };
    let why = "It may ask the service that it is about.";
    let ask = Ask::python("idle", "print('quokka')", &[]);
    let more = ["--host", "api.example.org", "--network-rationale", why, "--risk", "medium"];
    let delivered = bench.result_of(&ask.with(&more));
    assert_eq!((delivered.exit, delivered.front("network_used")), (0, "none"));
    assert_eq!(delivered.front("network_destinations"), "[]");
    assert_eq!(delivered.labelled("## Safety Notes", "Network confirmation: "), "none used");
    assert_eq!(delivered.said["error"], json!(null));
}
