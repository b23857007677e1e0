//! `sandbox run`: what a command sees, what it may use, how it ends, and what its caller is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use common::boxes::{Place, Who, everybody};
use common::collect;
use serde_json::{Value, json};

const SH: [&str; 2] = ["sh", "-c"];

fn shell(text: &str) -> Vec<&str> {
    [&SH[..], &[text]].concat()
}

#[test]
fn a_command_runs_and_its_end_is_ours() {
    let Some(place) = Place::new() else { return };
    for who in everybody() {
        let run = |command: &[&str]| place.boxed(who, &[], command);
        let done = run(&shell("echo out; echo err >&2"));
        assert_eq!((done.code, &*done.stdout, &*done.stderr), (0, "out\n", "err\n"), "{who:?}");
        let failed = run(&shell("echo why >&2; exit 3"));
        assert_eq!((failed.code, &*failed.stderr), (3, "why\n"), "its own words are enough");
        let killed = run(&shell("kill -9 $$"));
        assert_eq!(killed.code, 137, "{killed:#?}");
        assert!(killed.stderr.contains("signal 9"), "{killed:#?}");
        let absent = run(&["no-such-program"]);
        assert_eq!(absent.code, 127, "{absent:#?}");
        assert!(absent.stderr.contains("no-such-program"), "{absent:#?}");
        assert!(absent.stderr.contains("[COMMAND_NOT_STARTED]"), "{absent:#?}");
    }
    assert!(!place.path().join(".countersign").exists(), "it needs no home and makes none");
}

#[test]
fn a_command_sees_a_small_world_of_its_own() {
    let Some(place) = Place::new() else { return };
    for who in everybody() {
        let look = "id -u; pwd; hostname; echo $HOME; ls /proc/1/root 2>&1 | grep -c denied; cat";
        let seen = place.boxed(who, &[], &shell(look)).stdout;
        assert_eq!(seen, "1000\n/tmp\nsandbox\n/tmp\n1\n", "{who:?}");
        let environment = place.boxed(who, &[], &["env"]).stdout;
        assert!(!environment.contains("USER="), "{environment}");
        let hidden = place.path().display().to_string();
        let outside = place.boxed(who, &[], &["ls", &hidden]);
        assert_eq!(outside.code, 2, "{outside:#?}");
    }
}

/// Options, a program that needs more, and the limit that must be named.
/// Programs linger at the limit: what one did that is gone already nobody can tell for sure.
const LIMITS: [(&[&str], &str, &str); 11] = [
    (
        &["--memory", "48"],
        "for i in 1 2 3 4 5 6; do head -c 15000000 /dev/zero | tail -c 15000000 | sleep 9 & done; wait",
        "memory",
    ),
    (&["--time", "0.3"], "exec sleep 9", "wallTime"),
    (&["--time", "0.4"], "trap '' TERM; while :; do :; done", "wallTime"),
    (&["--cpu-time", "0.2"], "while :; do :; done", "cpuTime"),
    (
        &["--pids", "8"],
        "(i=0; while [ $i -lt 30 ]; do sleep 9 & i=$((i+1)); done; wait); exec sleep 9",
        "processes",
    ),
    (
        // Where no control group counts memory, a thread's whole stack counts before it is used.
        &["--threads", "80", "--pids", "10", "--memory", "4096"],
        "exec python3 -c 'import threading, time\ntry:\n  while 1: threading.Thread(target=time.sleep, args=(9,)).start()\nexcept RuntimeError: time.sleep(9)'",
        "threads",
    ),
    (
        &["--files", "16"],
        "exec python3 -c 'import time\nopen_files = []\ntry:\n  while 1: open_files.append(open(\"/dev/null\"))\nexcept OSError: time.sleep(9)'",
        "openFiles",
    ),
    (&["--file-size", "1"], "head -c 3000000 /dev/zero > /tmp/x", "fileSize"),
    (
        &["--total-size", "2"],
        "for i in 1 2 3 4; do head -c 900000 /dev/zero > /out/$i || exit 1; done",
        "totalSize",
    ),
    (&["--inodes", "64"], "for i in $(seq 200); do : > /tmp/$i || exit 1; done", "inodes"),
    (&["--output-bytes", "1000"], "yes >&2", "output"),
];

#[test]
fn every_limit_ends_a_command_under_its_own_name() {
    let Some(place) = Place::new() else { return };
    for who in everybody() {
        for (options, program, limit) in LIMITS {
            let report = place.boxed_json(who, options, &shell(program));
            let ending = json!({"kind": "limit", "limit": limit});
            assert_eq!(report["ending"], ending, "{who:?} {options:?}: {report:#}");
            assert_eq!((&report["exitCode"], &report["stoppedBy"]), (&json!(5), &json!("sandbox")));
            let hint = report["error"]["hint"].as_str().unwrap();
            assert!(hint.contains(options[0]), "{hint}");
            let wall = report["usage"]["wallMs"].as_u64().unwrap();
            assert!(wall < 8_000, "{options:?} took {wall} ms");
        }
    }
}

#[test]
fn a_limit_is_said_on_stderr_and_output_before_it_is_kept() {
    let Some(place) = Place::new() else { return };
    let ended = place.boxed(Who::Me, &["--time", "0.5"], &shell("echo begun; exec sleep 9"));
    assert_eq!((ended.code, &*ended.stdout), (5, "begun\n"), "{ended:#?}");
    assert!(ended.stderr.contains("[TIME_LIMIT]") && ended.stderr.contains("--time"), "{ended:#?}");
    let flood = place.boxed(Who::Me, &["--output-bytes", "1000"], &["yes"]);
    assert_eq!((flood.code, flood.stdout.len()), (5, 1000), "{:?}", flood.stderr);
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_report_has_the_promised_members() {
    let Some(place) = Place::new() else { return };
    let members = [
        "success",
        "ending",
        "exitCode",
        "stoppedBy",
        "stdout",
        "stdoutBytes",
        "stdoutTruncated",
        "stderr",
        "stderrBytes",
        "stderrTruncated",
        "usage",
        "enforcement",
        "weaker",
        "network",
        "changes",
    ];
    let done = place.boxed_json(Who::Me, &[], &["printf", "a\\377"]);
    assert_eq!(keys(&done), BTreeSet::from(members));
    assert_eq!(done["ending"], json!({"kind": "exited", "code": 0}));
    assert_eq!(done["stoppedBy"], Value::Null);
    assert_eq!((&done["stdout"], &done["stdoutBytes"]), (&json!("a\u{fffd}"), &json!(2)));
    let usage = BTreeSet::from(["bytesRead", "bytesWritten", "cpuMicros", "peakMemory", "wallMs"]);
    assert_eq!(keys(&done["usage"]), usage);
    assert!(keys(&done["enforcement"]).contains("seccomp"), "{done:#}");

    let killed = place.boxed_json(Who::Me, &[], &shell("kill -SEGV $$"));
    assert_eq!(killed["ending"], json!({"kind": "signalled", "signal": 11}));
    assert_eq!((&killed["exitCode"], &killed["stoppedBy"]), (&json!(139), &Value::Null));

    let absent = place.boxed_json(Who::Me, &[], &["no-such-program"]);
    let with_error: BTreeSet<_> = members.into_iter().chain(["error"]).collect();
    assert_eq!(keys(&absent), with_error);
    assert_eq!(absent["ending"]["kind"], "notStarted");
    assert_eq!(absent["ending"]["code"], "COMMAND_NOT_STARTED");
    assert_eq!((&absent["exitCode"], &absent["stoppedBy"]), (&json!(127), &json!("sandbox")));

    // A command may end as the box does; only the report tells them apart.
    let alike = place.boxed_json(Who::Me, &[], &shell("exit 5"));
    assert_eq!((&alike["exitCode"], &alike["stoppedBy"]), (&json!(5), &Value::Null));
}

#[test]
fn input_is_nothing_a_file_or_ours() {
    let Some(place) = Place::new() else { return };
    let file = format!("{}/in.txt", place.directory("d", &[("in.txt", "from a file")]));
    assert_eq!(place.boxed(Who::Me, &[], &["cat"]).stdout, "");
    assert_eq!(place.boxed(Who::Me, &["--input", &file], &["cat"]).stdout, "from a file");
    let mut command = place.command(Who::Me, &["sandbox", "run", "--input", "-", "--", "cat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
    assert_eq!(collect(child.wait_with_output().unwrap()).stdout, "from a pipe");
}

#[test]
fn output_passes_as_it_is_and_can_be_kept_whole() {
    let Some(place) = Place::new() else { return };
    let kept = place.path().join("kept").display().to_string();
    let program = shell("head -c 1500000 /dev/zero; printf 'x\\033[0m' >&2");
    let report = place.boxed_json(Who::Me, &["--save-output", &kept], &program);
    assert_eq!(report["stdoutBytes"], 1_500_000);
    assert_eq!(report["stdoutTruncated"], true);
    assert_eq!(report["stdout"].as_str().unwrap().len(), 1 << 20);
    assert_eq!(report["stderrTruncated"], false);
    assert_eq!(fs::read(format!("{kept}/stdout")).unwrap(), vec![0; 1_500_000]);
    assert_eq!(fs::read(format!("{kept}/stderr")).unwrap(), b"x\x1b[0m");
    let live = place.boxed(Who::Me, &[], &program);
    assert_eq!((live.stdout.len(), &*live.stderr), (1_500_000, "x\u{1b}[0m"));
}

#[test]
fn directories_are_shown_and_only_staging_is_written() {
    let Some(place) = Place::new() else { return };
    let tool = place.directory("tool", &[("main.sh", "echo main")]);
    let inputs = place.directory("inputs", &[("a", "input")]);
    let workspace = place.directory("workspace", &[("file", "before")]);
    let options = ["--tool", &tool, "--in", &inputs, "--workspace", &workspace];
    let program = "sh /tool/main.sh; cat /in/a; pwd; cat file; echo after > file && cat file; \
                   rm file; : > new; touch /tool/x /in/x 2>/dev/null && echo written; exit 9";
    for who in everybody() {
        // Whoever may not write to the workspace may still not see changes that others made.
        let report = place.boxed_json(who, &options, &shell(program));
        assert_eq!(report["ending"], json!({"kind": "exited", "code": 9}), "{report:#}");
        if who == Who::Me {
            assert_eq!(report["stdout"], "main\ninput/workspace\nbeforeafter\n", "{report:#}");
        }
        let left = common::tree(workspace.as_ref());
        assert_eq!(left, [("file".to_owned(), "before".to_owned())].into(), "it failed: no trace");
        assert_eq!(report["changes"], json!([]));
    }
}

#[test]
fn wrong_options_are_explained() {
    let Some(place) = Place::new() else { return };
    for (options, code) in [
        (&["--memory", "0"][..], "USAGE"),
        (&["--memory", "much"], "USAGE"),
        (&["--memory", "99999999999999999999"], "USAGE"),
        (&["--time", "0"], "SECONDS_INVALID"),
        (&["--time", "-1"], "USAGE"),
        (&["--cpu-time", "1e300"], "SECONDS_INVALID"),
        (&["--pids", "0"], "USAGE"),
        (&["--files", "1"], "USAGE"),
        (&["--fast"], "USAGE"),
        (&["--may-be-weaker", "namespaces"], "USAGE"),
        (&["--workspace", "nowhere"], "DIRECTORY_UNUSABLE"),
        (&["--tool", "countersign"], "DIRECTORY_UNUSABLE"),
        (&["--input", "nowhere"], "INPUT_UNREADABLE"),
    ] {
        let args = [&["--json", "sandbox", "run"], options, &["--", "true"]].concat();
        place.run(Who::Me, &args).fails(2, code);
    }
    let bare = place.run(Who::Me, &["sandbox", "run", "true"]);
    assert_eq!(bare.code, 2, "{bare:#?}");
    assert!(bare.stderr.contains("-- <CMD>"), "{bare:#?}");
    place.run(Who::Me, &["--json", "sandbox", "run", "--", ""]).fails(2, "COMMAND_INVALID");
}

/// A command that has said that it is up, and whoever watches it in a group of their own.
fn started(place: &Place, program: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = place.command(Who::Me, &["sandbox", "run", "--", "sh", "-c", program]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    (child, stdout)
}

#[test]
fn a_signal_ends_the_box_politely() {
    let Some(place) = Place::new() else { return };
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let program = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done";
        let (mut child, mut stdout) = started(&place, program);
        // As a terminal does it: to the whole group, launcher and all.
        let group = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process_group(group, signal).unwrap();
        let (mut said, mut problems) = (String::new(), String::new());
        stdout.read_to_string(&mut said).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut problems).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(1), "{problems}");
        assert_eq!(said, "bye\n");
        assert!(problems.contains("[CANCELLED]"), "{problems}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let Some(place) = Place::new() else { return };
    let begun = Instant::now();
    let (mut child, stdout) = started(&place, "echo up; yes");
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(20));
}
