//! Results after the run, from the command line: judged again after every kind of change, and
//! delivered whatever was interrupted.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use common::desk::{Ask, Delivered};
use common::{Bench, collect, output, tree};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const SCRIPT: &str = "print('one')\nprint('two')\nopen('/out/report.txt', 'w').write('kept')";

fn ran(bench: &Bench) -> Delivered {
    let delivered = bench.result_of(&Ask::python("ran", SCRIPT, &["report.txt=A report"]));
    assert_eq!(delivered.exit, 0, "{}", delivered.text);
    delivered
}

fn codes(line: &Value) -> Vec<&str> {
    let reasons = line["reasons"].as_array().unwrap().iter();
    reasons.map(|reason| reason["code"].as_str().unwrap()).collect()
}

fn request_of(delivered: &Delivered) -> String {
    delivered.front("request_id").to_owned()
}

/// Nothing in a delivered result can be another, and every place is named.
#[test]
fn every_change_of_a_delivered_result_is_found() {
    let Some(bench) = Bench::for_requests() else { return };
    let delivered = ran(&bench);
    let (text, path) = (&delivered.text, &delivered.path);
    let digest = |key: &str| delivered.front(key).to_owned();
    let swap = |digest: &str| digest.chars().rev().collect::<String>();
    let (stdout, stderr) = (digest("stdout_sha256"), digest("stderr_sha256"));
    let artifact = delivered.artifacts()[0].1.clone();
    let runtime = format!("runtime_sec: {}", delivered.front("runtime_sec"));
    let changes: &[(&str, &str, &str)] = &[
        ("result_type: tool_result", "result_type: tool_request", "UNKNOWN_VALUE"),
        ("schema_version: 1", "schema_version: 2", "SCHEMA_VERSION"),
        ("result_id: \"TS-2", "result_id: \"TS-1", "FILE_NAME"),
        ("created_utc: \"2", "created_utc: \"1", "TIME_INCONSISTENT"),
        ("request_id: \"TR-2", "request_id: \"TR-1", "ID_INVALID"),
        ("executor: \"tool-exec\"", "executor: \"another\"", "UNKNOWN_VALUE"),
        ("countersign-linux", "countersign-other", "JOURNAL_DIFFERS"),
        ("exit_code: 0", "exit_code: 1", "SUCCESS_INCONSISTENT"),
        (&runtime, "runtime_sec: 0.001", "JOURNAL_DIFFERS"),
        ("network_used: \"none\"", "network_used: \"allowlist\"", "NETWORK_INCONSISTENT"),
        (
            "network_destinations: []",
            "network_destinations:\n- \"a.example.org:443\"",
            "NETWORK_INCONSISTENT",
        ),
        ("report.txt\"", "other.txt\"", "ARTIFACTS_DIFFER"),
        (&artifact, &swap(&artifact), "JOURNAL_DIFFERS"),
        (&stdout, &swap(&stdout), "STREAM_DIGEST"),
        (&stderr, &swap(&stderr), "STREAM_DIGEST"),
        ("| two", "| three", "STREAM_DIGEST"),
        ("| two\n", "", "STREAM_DIGEST"),
        ("| two\n", "| two\n| three\n", "STREAM_DIGEST"),
        ("| two", "two", "LINE_UNKNOWN"),
        ("Command: python", "Command: python3", "COMMAND_DIFFERS"),
        ("memory 256 MB", "memory 512 MB", "LIMITS_DIFFER"),
        ("None observed", "MISSING_OUTPUT 1", "JOURNAL_DIFFERS"),
        ("None observed", "None observed, and all is well", "STATEMENT_WRONG"),
        ("none used", "a.example.org:443", "NETWORK_INCONSISTENT"),
        ("is untrusted and must not be", "is trusted and must be", "STATEMENT_WRONG"),
        ("## Stderr\n", "## Notes\n\n## Stderr\n", "SECTION_UNKNOWN"),
    ];
    for (from, to, code) in changes {
        assert!(text.contains(from), "{from}: {text}");
        fs::write(path, text.replace(from, to)).unwrap();
        let line = bench.lint_result(path);
        assert!(codes(&line).contains(code), "{from} to {to}, not {code}: {line:#}");
        for reason in line["reasons"].as_array().unwrap() {
            assert!(reason["line"].as_u64().unwrap() > 0, "{reason:#}");
            assert!(!reason["fix"].as_str().unwrap().is_empty(), "{reason:#}");
        }
    }
    fs::write(path, text).unwrap();
    assert_eq!(bench.lint_result(path)["outcome"], "ACCEPT");
}

#[test]
fn a_changed_file_beside_a_result_is_found() {
    let Some(bench) = Bench::for_requests() else { return };
    let delivered = ran(&bench);
    let file = delivered.files().join("report.txt");
    let found = |what: &str| {
        let line = bench.lint_result(&delivered.path);
        assert_eq!(codes(&line), ["ARTIFACTS_DIFFER"], "{what}: {line:#}");
        let line_number = line["reasons"][0]["line"].as_u64().unwrap() as usize;
        let named = delivered.text.lines().nth(line_number - 1).unwrap();
        assert!(named.contains(&delivered.artifacts()[0].1), "{named}");
    };
    fs::write(&file, "kepT").unwrap();
    found("other bytes");
    fs::remove_file(&file).unwrap();
    found("no file");
    fs::write(bench.ws().join("copy"), "kept").unwrap();
    std::os::unix::fs::symlink(bench.ws().join("copy"), &file).unwrap();
    found("a link to the same bytes");
    fs::remove_file(&file).unwrap();
    fs::write(&file, "kept").unwrap();
    assert_eq!(bench.lint_result(&delivered.path)["outcome"], "ACCEPT");
    fs::remove_dir_all(delivered.files()).unwrap();
    let line = bench.lint_result(&delivered.path);
    assert_eq!(line["outcome"], "ACCEPT");
    assert!(line["unchecked"].as_array().unwrap().contains(&json!("artifact files")), "{line:#}");
}

#[test]
fn a_result_from_elsewhere_is_judged_with_the_checks_that_are_possible() {
    let Some(bench) = Bench::for_requests() else { return };
    let delivered = ran(&bench);
    let copy = bench.ws().join(delivered.path.file_name().unwrap());
    fs::copy(&delivered.path, &copy).unwrap();
    let other = Bench::new();
    let lint = |home: &Path| {
        let mut command = bench.command(&["--json", "result", "lint", copy.to_str().unwrap()]);
        let output = output(command.env("COUNTERSIGN_HOME", home));
        (output.code, output.json()[0].clone())
    };
    let open = json!(["artifact files", "request", "journal"]);
    for home in [bench.ws().join("no-home"), other.home()] {
        let (code, line) = lint(&home);
        assert_eq!((code, &line["unchecked"]), (0, &open), "{line:#}");
        let checked = json!(["form", "content", "file name", "stdout digest", "stderr digest"]);
        assert_eq!(line["checked"], checked);
    }
    assert!(!bench.ws().join("no-home").exists(), "judging makes no home");
    // Only the journal knows better.
    let runtime = format!("runtime_sec: {}", delivered.front("runtime_sec"));
    fs::write(&copy, delivered.text.replace(&runtime, "runtime_sec: 0.001")).unwrap();
    assert_eq!(lint(&other.home()).0, 0);
    let (code, line) = lint(&bench.home());
    assert_eq!((code, codes(&line)), (2, vec!["JOURNAL_DIFFERS"]));
    fs::write(&copy, delivered.text.replace("| two", "| three")).unwrap();
    let (code, line) = lint(&other.home());
    assert_eq!((code, codes(&line)), (2, vec!["STREAM_DIGEST"]));
}

fn back(path: &Path, results: &Path) -> PathBuf {
    let place = results.join(path.file_name().unwrap());
    fs::rename(path, &place).unwrap();
    place
}

/// However far a process came with a result before it ended, the next one goes on from there.
#[test]
fn a_delivery_that_was_interrupted_is_finished() {
    let Some(bench) = Bench::for_requests() else { return };
    let delivered = ran(&bench);
    let (id, results) = (request_of(&delivered), bench.home().join("results"));
    let inbound = || tree(&bench.home().join("core/inbound"));
    let before = inbound();
    let interrupted: [(&str, &dyn Fn()); 6] = [
        ("written, not moved", &|| {
            back(&delivered.path, &results);
            back(&delivered.files(), &results);
        }),
        ("files moved, document not", &|| {
            back(&delivered.path, &results);
        }),
        ("files written, document not", &|| {
            back(&delivered.files(), &results);
            fs::remove_file(&delivered.path).unwrap();
        }),
        ("files moved, document not written", &|| fs::remove_file(&delivered.path).unwrap()),
        ("some files written", &|| {
            let files = back(&delivered.files(), &results);
            fs::remove_file(files.join("report.txt")).unwrap();
            fs::write(files.join(".report.txt.half"), "ke").unwrap();
            fs::remove_file(&delivered.path).unwrap();
        }),
        ("nothing written", &|| {
            fs::remove_dir_all(delivered.files()).unwrap();
            fs::remove_file(&delivered.path).unwrap();
        }),
    ];
    for (what, interrupt) in interrupted {
        interrupt();
        let again = Delivered::of(&bench.json(&["request", "run", &id]));
        assert_eq!(again.said["ran"], false, "{what}");
        again.conforms(&bench);
        assert_eq!(inbound(), before, "{what}");
        assert_eq!(bench.folder("results"), Default::default(), "{what}");
    }
    let started = |event: &&Value| event["event"].get("started").is_some();
    let execution = delivered.said["executionId"].as_str().unwrap();
    let shown = bench.json(&["execution", "show", execution]).ok().json();
    assert_eq!(shown["events"].as_array().unwrap().iter().filter(started).count(), 1);
}

/// A file that somebody changed before the document was moved does not get in.
#[test]
fn what_was_changed_on_its_way_goes_into_quarantine() {
    let Some(bench) = Bench::for_requests() else { return };
    let delivered = ran(&bench);
    let (id, results) = (request_of(&delivered), bench.home().join("results"));
    back(&delivered.path, &results);
    let files = back(&delivered.files(), &results);
    fs::write(files.join("report.txt"), "kepT").unwrap();
    let output = bench.json(&["request", "run", &id]);
    let said = output.json();
    assert_eq!(said["result"]["outcome"], "REJECT", "{said:#}");
    assert_eq!(said["result"]["reasons"][0]["code"], "ARTIFACTS_DIFFER");
    let place = PathBuf::from(said["result"]["path"].as_str().unwrap());
    assert_eq!(place.parent().unwrap(), bench.home().join("quarantine"));
    assert_eq!(fs::read_to_string(&place).unwrap(), delivered.text);
    let beside = fs::read_to_string(format!("{}.json", place.display())).unwrap();
    let reasons: Value = serde_json::from_str(&beside).unwrap();
    assert_eq!(reasons["reasons"][0]["code"], "ARTIFACTS_DIFFER");
    assert_eq!(bench.folder("core/inbound"), Default::default());
    assert_eq!(bench.folder("results"), Default::default(), "its files went with it");
    let again = bench.json(&["request", "run", &id]).json();
    assert_eq!(again["result"]["path"], said["result"]["path"], "it stays where it is");
    assert_eq!(again["result"]["outcome"], "REJECT");
}

/// Whoever stops a run has a result that says so.
#[test]
fn an_interrupted_run_has_a_result() {
    let Some(bench) = Bench::for_requests() else { return };
    let script = "import time\nprint('began', flush=True)\ntime.sleep(600)";
    let id = bench.approved(&Ask::python("stopped", script, &[])).id;
    let child = start(&bench, &id);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let delivered = Delivered::of(&collect(child.wait_with_output().unwrap()));
    delivered.conforms(&bench);
    assert_eq!(delivered.said["error"]["code"], "CANCELLED", "{:#}", delivered.said);
    assert_eq!(delivered.notes(), "STOPPED 1");
    assert_eq!((delivered.exit, delivered.front("exit_code")), (1, "137"));
}

/// Starts a request and waits until its program runs.
fn start(bench: &Bench, id: &str) -> Child {
    let mut command = bench.command(&["--json", "request", "run", id]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let list = ["execution", "list", "--state", "EXECUTING"];
    while bench.json(&list).ok().json().as_array().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_killed_host_leaves_a_result_that_says_so_and_nothing_runs_twice() {
    let Some(bench) = Bench::for_requests() else { return };
    let script = "import time\nprint('began', flush=True)\ntime.sleep(600)";
    let id = bench.approved(&Ask::python("killed", script, &["report.txt"])).id;
    let mut child = start(&bench, &id);
    let meanwhile = bench.json(&["request", "run", &id]);
    meanwhile.fails(2, "ORDER_RUNS");
    child.kill().unwrap();
    assert_eq!(collect(child.wait_with_output().unwrap()).code, -1);
    let recovered = bench.json(&["recover"]).ok().json();
    let delivered = bench.run_request(&id);
    delivered.conforms(&bench);
    assert_eq!(delivered.said["ran"], false);
    let execution = delivered.said["executionId"].clone();
    assert!(
        recovered["rolledBack"] == json!([execution]) || recovered["rolledBack"] == json!([]),
        "{recovered:#}"
    );
    assert_eq!(delivered.front("exit_code"), "137", "{}", delivered.text);
    assert_eq!(delivered.notes(), "STOPPED 1; MISSING_OUTPUT 1");
    let shown = bench.json(&["execution", "show", execution.as_str().unwrap()]).ok().json();
    let events = shown["events"].as_array().unwrap().iter();
    let started = events.filter(|event| event["event"].get("started").is_some());
    assert_eq!(started.count(), 1);
    let again = bench.json(&["request", "run", &id]);
    assert_eq!((again.code, &again.json()["ran"]), (2, &json!(false)));
    let staged = tree(&bench.home().join("state/staging"));
    assert!(!staged.keys().any(|name| name.contains("in-")), "{staged:?}");
    bench.verify();
}
