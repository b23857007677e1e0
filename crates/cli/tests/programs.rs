//! Programs as tools, end to end: declared, checked, granted, called, explained.
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
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::Command;

use common::boxes::{Place, Who, everybody};
use common::tools::{declaration, ended};
use common::{BIN, Bench, clean, collect, output, tree};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn mode(bench: &Bench, path: &str) -> u32 {
    fs::metadata(bench.ws().join(path)).unwrap().permissions().mode() & 0o7777
}

const CHANGES: &str = "\
echo working >&2
cat > /out/input.json
echo new > new.txt
echo changed > changed.txt
rm gone.txt
chmod 640 mode.txt
ln -sf changed.txt link
mkdir -p made/deep && echo x > made/deep/file
rm -r old
mkdir -p /out/sub && printf 0123456789 > /out/sub/data.bin
echo '{\"done\": true}'
";

fn workspace(bench: &Bench) {
    for (path, content) in [
        ("changed.txt", "old\n"),
        ("gone.txt", "x"),
        ("mode.txt", "m"),
        ("old/a", "a"),
        ("kept", "k"),
    ] {
        bench.write(path, content);
    }
    symlink("kept", bench.ws().join("link")).unwrap();
}

#[test]
fn what_a_program_did_is_published_kept_and_explained() {
    let Some(bench) = Bench::for_programs() else { return };
    workspace(&bench);
    bench.declare_writer("test.changes", CHANGES, |_| {});
    let call = bench.call("test.changes", &json!({"q": "é"})).ok();
    assert_eq!(call.stderr, "");
    let call = call.json();
    let members = [
        "success",
        "executionId",
        "state",
        "output",
        "durationMs",
        "attempts",
        "receipt",
        "artifacts",
        "stderr",
    ];
    assert_eq!(keys(&call), BTreeSet::from(members));
    assert_eq!((&call["state"], &call["output"]), (&json!("COMPLETED"), &json!({"done": true})));
    assert_eq!(call["stderr"]["size"], 8);
    let names: Vec<_> = call["artifacts"].as_array().unwrap().iter().map(|a| &a["name"]).collect();
    assert_eq!(names, ["input.json", "sub/data.bin"]);

    let expected = [
        ("changed.txt", "changed\n"),
        ("kept", "k"),
        ("link", "-> changed.txt"),
        ("made/", ""),
        ("made/deep/", ""),
        ("made/deep/file", "x\n"),
        ("mode.txt", "m"),
        ("new.txt", "new\n"),
    ];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.to_owned()));
    assert_eq!(tree(&bench.ws()), expected.into());
    assert_eq!((mode(&bench, "mode.txt"), mode(&bench, "kept")), (0o640, 0o644));

    let told = bench.told();
    let plan = bench.fact("started")["plan"]["digest"].as_str().unwrap().to_owned();
    for words in [
        &format!("plan {} (", &plan[..12]),
        "limits 60000 ms, 256.0 MiB",
        "isolation 2",
        "seccomp    list of allowed system calls",
        "landlock   ",
        "memory     ",
        "staging    ",
        "created new.txt (4 bytes)",
        "replaced changed.txt (8 bytes, was 4 bytes)",
        "deleted gone.txt",
        "changed mode.txt to 640 (was 644)",
        "linked link to changed.txt",
        "made made/deep/",
        "deleted old/",
        "left /out/sub/data.bin (10 bytes)",
        "it said on standard error:",
        "│ working",
        "COMPLETED",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    let text = bench.run(&["execution", "plan", "last"]).ok().stdout;
    let root = bench.ws().display().to_string();
    for words in
        [&format!("show {root} as /workspace"), "run sh /tool/main", "Network: none.", &plan]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let stored = bench.json(&["execution", "plan", "last"]).ok().json();
    assert_eq!(stored["plan"]["command"], json!(["sh", "/tool/main"]));
    // What is explained is what is called.
    let explained = bench.json(&["sandbox", "explain", "test.changes", "--root", "."]).ok().json();
    assert_eq!(stored["plan"], explained);
    bench.verify();
}

#[test]
fn artifacts_and_streams_are_listed_and_saved_whole() {
    let Some(bench) = Bench::for_programs() else { return };
    bench.declare_script("test.leaves", &format!("set -e\n{CHANGES}"), |_| {});
    bench.declare_script(
        "test.fails",
        "printf partial; head -c 70000 /dev/zero | tr '\\0' e >&2; exit 3",
        |_| {},
    );
    bench.run(&["call", "text.digest", "--input", r#"{"text":""}"#]).ok();
    assert_eq!(bench.json(&["execution", "artifacts", "last"]).ok().json()["artifacts"], json!([]));
    bench.json(&["execution", "plan", "last"]).fails(2, "PLAN_MISSING");
    bench.json(&["execution", "artifacts", "none"]).fails(2, "ID_INVALID");

    // Without a workspace it fails half-way, and what it left in /out is gone.
    bench.call("test.leaves", &json!({})).fails(1, "TOOL_FAILED");
    let left = bench.json(&["execution", "artifacts", "last"]).ok().json();
    let files: Vec<_> = left["artifacts"].as_array().unwrap().iter().map(|a| &a["file"]).collect();
    assert_eq!(files, ["stderr"]);

    bench.call("test.fails", &json!({})).fails(1, "TOOL_FAILED");
    let saved = bench.json(&["execution", "artifacts", "last", "--save", "saved"]).ok().json();
    assert_eq!(saved["saved"], "saved");
    let said = "e".repeat(70_000);
    let expected = [("stdout".to_owned(), "partial".to_owned()), ("stderr".to_owned(), said)];
    assert_eq!(tree(&bench.ws().join("saved")), expected.into());
    bench.json(&["execution", "artifacts", "last", "--save", "saved"]).fails(2, "DIRECTORY_IN_USE");
    symlink("/tmp", bench.ws().join("elsewhere")).unwrap();
    let elsewhere = ["execution", "artifacts", "last", "--save", "elsewhere"];
    bench.json(&elsewhere).fails(2, "DIRECTORY_IN_USE");
    let nowhere = ["execution", "artifacts", "last", "--save", "no/where"];
    bench.json(&nowhere).fails(2, "FILE_UNWRITABLE");
    fs::create_dir(bench.ws().join("empty")).unwrap();
    bench.run(&["execution", "artifacts", "last", "--save", "empty"]).ok();
    assert_eq!(fs::read_dir(bench.ws()).unwrap().count(), 3, "nothing is left aside");

    // Content that is not what the journal pins is no artifact.
    let digest = saved["artifacts"][1]["digest"].as_str().unwrap();
    let blob = bench.home().join("state/blobs").join(&digest[..2]).join(&digest[2..]);
    fs::set_permissions(&blob, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&blob, "forged").unwrap();
    let forged = bench.json(&["execution", "artifacts", "last", "--save", "forged"]);
    assert_eq!(forged.code, 70, "{forged:#?}");
    assert!(!bench.ws().join("forged").exists());
}

#[test]
fn a_program_that_fails_leaves_every_byte_and_says_why() {
    let Some(bench) = Bench::for_programs() else { return };
    workspace(&bench);
    let before = (tree(&bench.ws()), mode(&bench, "mode.txt"));
    let script = format!("{CHANGES}printf 'why \\033[31mnot\\n' >&2; exit 9");
    bench.declare_writer("test.fails", &script, |_| {});
    let call = bench.call("test.fails", &json!({}));
    let error = call.fails(1, "TOOL_FAILED");
    assert_eq!(error["class"], "ExecutionError");
    assert!(error["message"].as_str().unwrap().contains("exit code 9"));
    assert_eq!(error["details"]["stderr"], "working\nwhy \u{fffd}[31mnot");
    assert_eq!(call.json()["state"], "ROLLED_BACK");
    assert_eq!((tree(&bench.ws()), mode(&bench, "mode.txt")), before);
    let back = bench.fact("rolledBack");
    assert_eq!(back["before"], back["after"]);

    for text in
        [bench.run(&["call", "test.fails", "--as", "agent:a", "--root", "."]).stdout, bench.told()]
    {
        assert!(text.contains("│ why \\u{1b}[31mnot"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    bench.declare_script("test.killed", "kill -SEGV $$", |_| {});
    bench.call("test.killed", &json!({})).fails(1, "TOOL_KILLED");
    bench.declare_script("test.absent", "", |d| {
        d["runtime"]["command"] = json!(["no-such-program"])
    });
    bench.call("test.absent", &json!({})).fails(1, "COMMAND_NOT_STARTED");
}

/// Limits, a program that needs more, and the code that must be named. Programs linger at the limit:
/// what one did that is gone already nobody can tell for sure.
fn limits() -> Vec<(Value, &'static str, &'static str, &'static str)> {
    let python_files = "exec python3 -c 'import time\nfiles = []\ntry:\n  while 1: files.append(open(\"/dev/null\"))\nexcept OSError: time.sleep(50)'";
    let python_threads = "exec python3 -c 'import threading, time\ntry:\n  while 1: threading.Thread(target=time.sleep, args=(50,)).start()\nexcept RuntimeError: time.sleep(50)'";
    vec![
        (json!({"maxExecutionTime": 300}), "exec sleep 50", "TIME_LIMIT", "maxExecutionTime"),
        (json!({"maxCpuTime": 200}), "while :; do :; done", "CPU_LIMIT", "maxCpuTime"),
        (
            json!({"maxMemory": 48 << 20}),
            "for i in 1 2 3 4 5 6; do head -c 15000000 /dev/zero | tail -c 15000000 | sleep 50 & done; wait",
            "MEMORY_LIMIT",
            "maxMemory",
        ),
        (
            json!({"maxProcesses": 8, "maxThreads": 8}),
            "(i=0; while [ $i -lt 30 ]; do sleep 50 & i=$((i+1)); done; wait); exec sleep 50",
            "PROCESS_LIMIT",
            "maxProcesses",
        ),
        (
            json!({"maxProcesses": 10, "maxThreads": 80, "maxMemory": 1 << 30}),
            python_threads,
            "THREAD_LIMIT",
            "maxThreads",
        ),
        (json!({"maxFileDescriptors": 16}), python_files, "OPEN_FILES_LIMIT", "maxFileDescriptors"),
        (
            json!({"maxFileSize": 1 << 20}),
            "head -c 3000000 /dev/zero > /tmp/x",
            "FILE_TOO_LARGE",
            "maxFileSize",
        ),
        (
            json!({"maxTotalSize": 2 << 20}),
            "for i in 1 2 3 4; do head -c 900000 /dev/zero > /out/$i || exit 1; done",
            "TOTAL_SIZE_LIMIT",
            "maxTotalSize",
        ),
        (
            json!({"maxInodes": 64}),
            "for i in $(seq 200); do : > /tmp/$i || exit 1; done",
            "INODE_LIMIT",
            "maxInodes",
        ),
        (json!({"maxOutput": 1000}), "yes >&2", "OUTPUT_LIMIT", "maxOutput"),
    ]
}

#[test]
fn every_limit_ends_a_call_under_its_own_name() {
    let Some(bench) = Bench::for_programs() else { return };
    for (limit, script, code, declared) in limits() {
        bench.declare_script("test.greedy", script, |declaration| {
            let limits = declaration["resourceLimits"].as_object_mut().unwrap();
            limits.extend(limit.as_object().unwrap().clone());
        });
        let call = bench.call("test.greedy", &json!({}));
        let error = call.fails(5, code);
        assert!(error["hint"].as_str().unwrap().contains(declared), "{error}");
        assert_eq!(call.json()["state"], "ROLLED_BACK", "{code}");
        assert!(bench.facts().iter().any(|fact| fact.get("aborted").is_some()), "{code}");
    }
    assert_eq!(bench.stats()["open"], 0);
}

#[test]
fn output_must_be_one_value_that_fits() {
    let Some(bench) = Bench::for_programs() else { return };
    let declare = |script: &str| {
        bench.declare_script("test.says", script, |declaration| {
            declaration["outputSchema"]["properties"] =
                json!({"n": {"type": "integer", "description": "A number"}});
            declaration["outputSchema"]["required"] = json!(["n"]);
        });
    };
    for (script, says) in [
        ("", "nothing"),
        ("echo hello", "hello"),
        ("echo '{\"n\":1}{\"n\":2}'", "cannot be used"),
        ("echo '{\"n\":1,\"n\":2}'", "cannot be used"),
        ("printf '{\"n\":\"\\377\"}'", "cannot be used"),
        ("echo '{\"n\":\"one\"}'", "outputSchema"),
        ("echo 7", "outputSchema"),
    ] {
        declare(script);
        let error = bench.call("test.says", &json!({})).fails(1, "OUTPUT_INVALID");
        assert!(error["message"].as_str().unwrap().contains(says), "{script}: {error}");
    }
    declare("echo \"{\\\"n\\\":1,\\\"x\\\":\\\"$(head -c 1100000 /dev/zero | tr '\\0' x)\\\"}\"");
    let error = bench.call("test.says", &json!({})).fails(5, "OUTPUT_TOO_LARGE");
    assert!(error["hint"].as_str().unwrap().contains("/out"), "{error}");
    declare("echo '{\"n\":1}'");
    assert_eq!(bench.call("test.says", &json!({})).ok().json()["output"], json!({"n": 1}));
}

/// A directory that programs are shown by the operator's configuration: what a test puts there, a
/// running program sees. Not beneath `/tmp`: of that, programs have their own.
fn signals(bench: &Bench) -> TempDir {
    let shown = TempDir::new_in("/var/tmp").unwrap();
    let config = format!("[sandbox]\nshow = [{:?}]\n", shown.path().display().to_string());
    fs::write(bench.home().join("countersign.toml"), config).unwrap();
    shown
}

fn waits_for(signal: &std::path::Path) -> String {
    format!("until [ -e {} ]; do sleep 0.02; done\n", signal.display())
}

#[test]
fn what_somebody_else_changed_meanwhile_is_a_conflict() {
    let Some(bench) = Bench::for_programs() else { return };
    let signals = signals(&bench);
    let go = signals.path().join("go");
    bench.write("a.txt", "before");
    let script = format!("{}echo mine > a.txt; echo mine > b.txt; echo '{{}}'", waits_for(&go));
    bench.declare_writer("test.slow", &script, |_| {});
    let child = bench.start_call("test.slow");
    bench.write("a.txt", "theirs");
    fs::write(&go, "").unwrap();
    ended(child).fails(1, "CONFLICT");
    assert_eq!(tree(&bench.ws()), [("a.txt".to_owned(), "theirs".to_owned())].into());
    // With nobody in its way it succeeds.
    bench.call("test.slow", &json!({})).ok();
    assert_eq!(bench.read("a.txt"), "mine\n");
}

#[test]
fn a_revoked_grant_and_a_signal_end_a_running_program() {
    let Some(bench) = Bench::for_programs() else { return };
    let signals = signals(&bench);
    let go = signals.path().join("never");
    let script = format!("trap '' TERM\necho x > x.txt\n{}", waits_for(&go));
    bench.declare_writer("test.slow", &script, |_| {});

    let child = bench.start_call("test.slow");
    let grants = bench.json(&["grant", "list"]).ok().json();
    let grant = grants.as_array().unwrap().iter().find(|g| g["capability"] == "filesystem.write");
    let id = grant.unwrap_or(&grants[0])["id"].as_str().unwrap().to_owned();
    bench.run(&["grant", "revoke", &id]).ok();
    ended(child).fails(3, "GRANT_REVOKED");

    bench.grant("agent:a", "filesystem.read,filesystem.write,filesystem.delete");
    for signal in [Signal::INT, Signal::TERM] {
        let mut command =
            bench.command(&["--json", "call", "test.slow", "--as", "agent:a", "--root", "."]);
        command
            .process_group(0)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let list = ["execution", "list", "--state", "EXECUTING"];
        while bench.json(&list).ok().json().as_array().unwrap().is_empty() {
            std::thread::yield_now();
        }
        kill_process_group(Pid::from_child(&child), signal).unwrap();
        ended(child).fails(1, "CANCELLED");
    }
    assert_eq!(tree(&bench.ws()), [].into());
    assert_eq!(bench.stats()["open"], 0);
}

#[test]
fn files_that_changed_after_they_were_read_are_refused() {
    let Some(bench) = Bench::for_programs() else { return };
    let signals = signals(&bench);
    let go = signals.path().join("go");
    let script = format!("{}echo x > x.txt; echo '{{}}'", waits_for(&go));
    bench.declare_writer("test.slow", &script, |_| {});
    let child = bench.start_call("test.slow");
    // Whichever of the two it comes to read: nobody can tell, so nothing of it is kept.
    fs::write(bench.home().join("tools/test.slow/files/main"), "echo '{}'").unwrap();
    fs::write(&go, "").unwrap();
    let error = ended(child).fails(70, "TOOL_FILES_CHANGED");
    assert!(error["hint"].as_str().unwrap().contains("start again"), "{error}");
    assert_eq!(tree(&bench.ws()), [].into());
    bench.call("test.slow", &json!({})).ok();
}

#[test]
fn nothing_runs_that_is_not_declared_well_and_granted() {
    let Some(bench) = Bench::for_programs() else { return };
    let lint = |name: &str, edit: &dyn Fn(&mut Value)| {
        let mut declared =
            declaration("test.bad", &json!({"kind": "process", "command": ["true"]}));
        edit(&mut declared);
        let file = bench.ws().join(name);
        fs::write(&file, declared.to_string()).unwrap();
        let report = bench.json(&["tool", "lint", &file.display().to_string()]);
        assert_eq!(report.code, 2, "{report:#?}");
        report.json()[0]["findings"][0]["code"].as_str().unwrap().to_owned()
    };
    let host = |d: &mut Value| d["runtime"]["hosts"] = json!(["127.0.0.1"]);
    assert_eq!(lint("host.json", &host), "HOST_INVALID");
    let undeclared = |d: &mut Value| d["runtime"]["hosts"] = json!(["example.org"]);
    assert_eq!(lint("undeclared.json", &undeclared), "CAPABILITY_UNDECLARED");
    let absent = |d: &mut Value| d["runtime"]["files"] = json!("./absent");
    assert_eq!(lint("absent.json", &absent), "TOOL_FILES_INVALID");
    let weaker = |d: &mut Value| d["runtime"]["mayBeWeaker"] = json!(["namespaces"]);
    assert_eq!(lint("weaker.json", &weaker), "BARRIER_UNKNOWN");
    let isolation = |d: &mut Value| d["runtime"]["isolation"] = json!(1);
    assert_eq!(lint("isolation.json", &isolation), "ISOLATION_TOO_LOW");
    let handler = |d: &mut Value| d["runtime"] = json!({"kind": "builtin", "handler": "no.such"});
    assert_eq!(lint("handler.json", &handler), "HANDLER_UNKNOWN");

    bench.declare_script("test.reads", "echo '{}'", |declaration| {
        declaration["requiredCapabilities"] = json!(["filesystem.read"]);
        declaration["runtime"]["workspace"] = json!("read");
    });
    let error = bench.call("test.reads", &json!({})).fails(3, "GRANT_MISSING");
    let command = error["hint"].as_str().unwrap().strip_prefix("countersign ").unwrap().to_owned();
    let mut shell = clean(Command::new("sh"));
    shell.args(["-c", &format!("{BIN} {command}")]).env("COUNTERSIGN_HOME", bench.home());
    output(&mut shell).ok();
    bench.call("test.reads", &json!({})).ok();
    bench.json(&["call", "test.reads", "--as", "agent:a"]).fails(2, "ROOT_REQUIRED");
    bench
        .json(&["call", "test.reads", "--as", "agent:a", "--input", "[]"])
        .fails(2, "INPUT_INVALID");
}

/// A project with its home inside is the usual case. A module is shown a copy, where nothing can be
/// hidden.
#[test]
fn the_home_is_hidden_in_a_workspace_around_it() {
    let Some(bench) = Bench::for_programs() else { return };
    let around = bench.dir().display().to_string();
    let scope = format!("{around}/**");
    let all = "filesystem.read,filesystem.write,filesystem.delete";
    bench.run(&["grant", "issue", "--to", "agent:a", "--capability", all, "--scope", &scope]).ok();
    let script = r#"n=$(ls -A home | wc -l); echo x > made; echo "{\"seen\": $n}""#;
    bench.declare_writer("test.looks", script, |_| {});
    let call = ["call", "test.looks", "--as", "agent:a", "--root", &around];
    let called = bench.json(&call);
    match called.code {
        0 => assert_eq!(called.json()["output"], json!({"seen": 0})),
        // Where staging is a copy.
        _ => drop(called.fails(6, "CANNOT_ENFORCE")),
    }
    if called.code == 0 {
        let stored = bench.json(&["execution", "plan", "last"]).ok().json();
        let explained = bench.json(&["sandbox", "explain", "test.looks", "--root", &around]);
        assert_eq!(stored["plan"], explained.ok().json());
        assert_eq!(fs::read_to_string(bench.dir().join("made")).unwrap(), "x\n");
    }
    bench.declare_module("test.module", "(module (func (export \"_start\")))", |declaration| {
        declaration["requiredCapabilities"] = json!(["filesystem.read"]);
        declaration["runtime"]["workspace"] = json!("read");
    });
    let refused = bench.json(&["call", "test.module", "--as", "agent:a", "--root", &around]);
    refused.fails(6, "CANNOT_ENFORCE");
    bench.verify();
}

#[test]
fn a_tool_is_shown_with_what_it_is_given() {
    let Some(bench) = Bench::for_programs() else { return };
    bench.declare_writer("test.much", "echo '{}'", |declaration| {
        declaration["requiredCapabilities"].as_array_mut().unwrap().push(json!("network.https"));
        let more = json!({"hosts": ["api.example.org"], "mayBeWeaker": ["landlock"], "warm": 2,
            "environment": {"LEVEL": "brief"}, "command": ["sh", "/tool/main", "a b"]});
        declaration["runtime"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        declaration["resourceLimits"]["maxProcesses"] = json!(3);
    });
    let text = bench.run(&["tool", "show", "test.much"]).ok().stdout;
    for words in [
        "runs as        process, isolation level 2",
        "command        sh /tool/main 'a b'",
        "files          ./files as /tool",
        "changes staged until the commit",
        "network        through the egress proxy to api.example.org",
        "environment    LEVEL",
        "may be weaker  landlock",
        "kept warm      2 sandboxes",
        "3 processes",
        "files pinned ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let shown = bench.json(&["tool", "show", "test.much"]).ok().json();
    assert_eq!(shown["filesDigest"].as_str().unwrap().len(), 64);
    let plan = bench.run(&["sandbox", "explain", "test.much"]).ok().stdout;
    assert!(plan.contains("to api.example.org:443."), "{plan}");
    assert!(plan.contains("ROOT OF THE CALL as /workspace"), "{plan}");
    bench.json(&["sandbox", "explain", "test.much", "--memory", "3"]).fails(2, "USAGE");
    bench.json(&["sandbox", "explain", "test.much", "--root", "nowhere"]).fails(2, "ROOT_INVALID");
}

/// Without control groups the kernel does not hold root to a number of processes.
#[test]
fn what_a_machine_cannot_enforce_stops_the_call_unless_it_may_be_weaker() {
    let Some(bench) = Bench::for_programs() else { return };
    let is_root = rustix::process::geteuid().is_root();
    let hide = "mount -t tmpfs none /sys/fs/cgroup && exec \"$@\"";
    let without_cgroups = |args: &[&str]| {
        let mut command = clean(Command::new("unshare"));
        command.args(["-m", "sh", "-c", hide, "sh", BIN, "--json"]).args(args);
        command.env("COUNTERSIGN_HOME", bench.home()).current_dir(bench.ws());
        output(&mut command)
    };
    let can_hide = Command::new("unshare").args(["-m", "sh", "-c", hide, "sh", "true"]).output();
    if !is_root || !can_hide.is_ok_and(|done| done.status.success()) {
        println!("skipped: hiding control groups takes root and `unshare`");
        return;
    }
    bench.declare_script("test.plain", "echo '{}'", |_| {});
    let call = ["call", "test.plain", "--as", "agent:a"];
    let refused = without_cgroups(&call);
    let error = refused.fails(6, "CANNOT_ENFORCE");
    assert!(error["message"].as_str().unwrap().contains("`processes`"), "{error}");
    assert!(error["hint"].as_str().unwrap().contains("ordinary user"), "{error}");
    assert_eq!(refused.json()["attempts"], 1);
    bench.declare_script("test.plain", "echo '{}'", |declaration| {
        declaration["runtime"]["mayBeWeaker"] = json!(["processes"]);
    });
    without_cgroups(&call).ok();
    assert_eq!(bench.fact("started")["enforcement"]["weaker"], json!(["processes"]));
    assert!(bench.told().contains("processes is not enforced here"), "{}", bench.told());
    bench.json(&call).ok();
    assert_eq!(bench.fact("started")["enforcement"].get("weaker"), None, "here it is enforced");
}

/// The whole way as a user without any rights.
#[test]
fn anybody_can_contain_programs() {
    let Some(place) = Place::new() else { return };
    for who in everybody() {
        let at = place.path().join(format!("{who:?}"));
        fs::create_dir(&at).unwrap();
        if who == Who::Nobody {
            std::os::unix::fs::chown(&at, Some(65534), Some(65534)).unwrap();
        }
        let at = at.display().to_string();
        let script = format!(
            "set -e; cd {at}; alias c={0}; c() {{ {0} \"$@\"; }}; export COUNTERSIGN_HOME={at}/home
             c init >&2; mkdir -p ws home/tools/t/files; cat > home/tools/t/tool.json
             echo 'echo made > made; echo {{}}' > home/tools/t/files/main
             c grant issue --to agent:a --capability filesystem.read,filesystem.write,filesystem.delete --scope 'ws/**' >&2
             c --json call test.writes --as agent:a --root ws",
            place.path().join("countersign").display()
        );
        let mut declared = declaration(
            "test.writes",
            &json!({"kind": "process", "command": ["sh", "/tool/main"], "files": "./files", "workspace": "write"}),
        );
        let all = ["filesystem.read", "filesystem.write", "filesystem.delete"];
        declared["requiredCapabilities"] = json!(all);
        let mut command = match who {
            Who::Me => clean(Command::new("sh")),
            Who::Nobody => {
                let mut command = clean(Command::new("setpriv"));
                command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh"]);
                command
            }
        };
        command.args(["-c", &script]).current_dir("/").stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        use std::io::Write;
        child.stdin.take().unwrap().write_all(declared.to_string().as_bytes()).unwrap();
        let done = collect(child.wait_with_output().unwrap());
        assert_eq!(done.code, 0, "{who:?}: {done:#?}");
        assert_eq!(fs::read_to_string(format!("{at}/ws/made")).unwrap(), "made\n", "{who:?}");
    }
}
