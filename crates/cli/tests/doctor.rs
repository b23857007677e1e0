//! `doctor`, `sandbox explain`, `sandbox syscalls` and `bench sandbox`: the sandbox in words.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use common::Bench;
use common::boxes::{Place, Who, everybody};
use serde_json::{Value, json};

#[test]
fn the_doctor_says_what_is_and_what_can_be_enforced() {
    let Some(place) = Place::new() else { return };
    for who in everybody() {
        let text = place.run(who, &["doctor"]);
        for name in ["kernel", "namespaces", "landlock", "seccomp", "cgroup", "overlay", "swap"] {
            assert!(text.stdout.contains(&format!("\n  {name:<13} ")), "{name}: {text:#?}");
        }
        let report = place.run(who, &["doctor", "--json"]).json();
        let user = if who == Who::Nobody { 65534 } else { rustix::process::geteuid().as_raw() };
        assert_eq!(report["user"], user);
        assert!(report["interpreters"]["sh"].is_string(), "{report:#}");
        assert_eq!(report["egressProxy"], json!({"works": true, "private": []}));
        let memories = report["webAssembly"]["memories"].as_str().unwrap();
        assert!(memories.starts_with("from a pool") || memories.starts_with("made for each call"));
        assert!(
            text.stdout.contains("WebAssembly   works")
                && text.stdout.contains("egress proxy  works")
        );
        let levels = report["levels"].as_array().unwrap();
        let numbers: Vec<_> = levels.iter().map(|level| level["level"].as_u64().unwrap()).collect();
        assert_eq!(numbers, [0, 1, 2]);
        assert_eq!(levels[0]["enforced"], true, "nothing is asked for");
        let ready = levels[2]["enforced"] == true;
        assert_eq!((text.code, &report["success"]), (if ready { 0 } else { 6 }, &json!(ready)));
        assert!(text.stdout.contains(if ready { "ready:" } else { "not ready:" }), "{text:#?}");
        for barrier in levels.iter().flat_map(|level| level["barriers"].as_array().unwrap()) {
            let says = if barrier["enforced"] == true { "how" } else { "fix" };
            assert!(barrier[says].as_str().is_some_and(|text| !text.is_empty()), "{barrier}");
        }
    }
}

/// The steps, without those that depend on what the machine has: what it shows of itself, and how
/// it counts.
fn steps(text: &str) -> Vec<&str> {
    let depends = ["show /", "link /bin", "link /sbin", "link /lib", "limit ", "landlock"];
    text.lines()
        .filter_map(|line| line.trim_start().split_once(". ").map(|(_, step)| step))
        .filter(|step| !depends.iter().any(|start| step.starts_with(start)))
        .collect()
}

#[test]
fn a_plan_is_every_step_in_order() {
    let Some(place) = Place::new() else { return };
    let args = ["sandbox", "explain", "--memory", "20", "--", "echo", "a\nb"];
    let text = place.run(Who::Me, &args).ok().stdout;
    let expected = [
        "new namespaces: user, mount, net",
        "be user 1000, group 1000 inside",
        "new empty root in memory",
        "directory /dev",
        "directory /dev/shm",
        "directory /in",
        "directory /out",
        "directory /proc",
        "directory /tmp",
        "directory /tool",
        "directory /workspace",
        "device /dev/null",
        "device /dev/zero",
        "device /dev/full",
        "device /dev/random",
        "device /dev/urandom",
        "file /etc/passwd, made up",
        "file /etc/group, made up",
        "file /etc/hosts, made up",
        "file /etc/nsswitch.conf, made up",
        "link /dev/fd to /proc/self/fd",
        "link /dev/stdin to /proc/self/fd/0",
        "link /dev/stdout to /proc/self/fd/1",
        "link /dev/stderr to /proc/self/fd/2",
        "make the root read-only",
        "new namespaces: mount, pid, ipc, uts, cgroup",
        "host name sandbox",
        "scratch space in memory: 268435456 bytes, 20000 files",
        "/tmp on the scratch space",
        "/dev/shm on the scratch space",
        "/out on the scratch space",
        "/proc with this sandbox's processes only",
        "enter the new root and let go of the host's",
        "new namespaces: user",
        "be user 1000, group 1000 inside",
        "a session without terminal",
        "be the first to go when memory runs out",
        "be no more urgent than others",
        "work in /tmp",
        "close all descriptors but 0, 1 and 2",
        "no new privileges, ever",
        "drop all Linux capabilities",
        "seccomp: only listed system calls (no network)",
        "take the call's input and output when it begins",
        "run echo a\\nb",
    ];
    let found = steps(&text);
    let hidden_memory = |step: &&str| step.replace(", no hidden memory", "");
    let found: Vec<String> = found.iter().map(hidden_memory).collect();
    assert_eq!(found, expected, "{text}");
    assert!(text.contains("\nNetwork: none.\n"), "{text}");
    assert!(text.contains("\n  memory        20.0 MiB\n"), "{text}");

    let plan = place.run(Who::Me, &[&args[..2], &["--json"], &args[2..]].concat()).ok().json();
    assert_eq!(plan["command"], json!(["echo", "a\nb"]));
    assert_eq!(plan["limits"]["memory"], 20 << 20);
    let program = plan["program"].as_array().unwrap();
    let last: Vec<_> = program.iter().rev().take(3).map(|step| &step["op"]).collect();
    assert_eq!(last, ["limit", "streams", "seccomp"], "only what needs the streams comes later");
}

#[test]
fn a_workspace_and_hosts_are_in_the_plan() {
    let Some(place) = Place::new() else { return };
    let workspace = place.directory("ws", &[]);
    let options = ["--workspace", &workspace, "--allow-host", "example.org"];
    let args = [&["sandbox", "explain"], &options[..], &["--", "true"]].concat();
    let text = place.run(Who::Me, &args).ok().stdout;
    assert!(text.contains(&format!("{workspace} ")), "{text}");
    assert!(text.contains("work in /workspace"), "{text}");
    assert!(text.contains("Network: the egress proxy, to example.org."), "{text}");
}

#[test]
fn a_tool_that_is_built_in_has_no_plan() {
    let bench = Bench::new();
    bench.json(&["sandbox", "explain", "text.digest"]).fails(2, "NOT_SANDBOXED");
    bench.json(&["sandbox", "explain", "no.tool"]).fails(2, "TOOL_UNKNOWN");
    bench.json(&["sandbox", "explain"]).fails(2, "USAGE");
    bench.json(&["sandbox", "explain", "text.digest", "--", "true"]).fails(2, "USAGE");
}

#[test]
fn every_system_call_has_a_reason() {
    let bench = Bench::bare();
    let lines = bench.json(&["sandbox", "syscalls"]).ok().json();
    let allowed = |call: &str| {
        let has = |line: &&Value| line["calls"].as_array().unwrap().contains(&json!(call));
        lines.as_array().unwrap().iter().find(has).map(|line| line["allowed"] == true)
    };
    assert_eq!(allowed("read"), Some(true));
    assert_eq!(allowed("ptrace"), Some(false));
    assert_eq!(allowed("io_uring_setup"), None);
    let text = bench.run(&["sandbox", "syscalls"]).ok().stdout;
    for line in lines.as_array().unwrap() {
        let reason = line["reason"].as_str().unwrap();
        assert!(!reason.is_empty() && text.contains(reason), "{line}");
    }
}

#[test]
fn the_bench_compares_and_leaves_nothing() {
    let Some(place) = Place::new() else { return };
    let dir = place.directory("bench", &[]);
    let args = ["bench", "sandbox", "--rounds", "5", "--dir", &dir];
    let report = place.run(Who::Me, &[&args[..], &["--json"]].concat()).ok().json();
    for name in ["bareSpawn", "level2", "staging", "warm"] {
        assert!(report[name]["p50Micros"].as_f64().unwrap() > 0.0, "{name}: {report:#}");
        assert!(report[name]["p99Micros"].as_f64() >= report[name]["p90Micros"].as_f64());
    }
    let wasm = &report["wasm"];
    assert_eq!(wasm["calls"], 50);
    assert!(wasm["call"]["p50Micros"].as_f64() > wasm["nothing"]["p50Micros"].as_f64(), "{wasm}");
    assert!(report["bubblewrap"].is_object() != report["bubblewrapSkipped"].is_string());
    assert!(report["ratios"]["twoWorkersToOne"].as_f64().unwrap() > 0.0, "{report:#}");
    let text = place.run(Who::Me, &args).ok().stdout;
    assert!(text.contains("ours, level 2") && text.contains("(aim: "), "{text}");
    assert!(text.contains("beyond the work itself (aim: at most 100 µs)"), "{text}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}
