//! Many runs, one after the other, leave no descriptor, no process and no memory behind.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;

use common::{launchers, run, sandbox, shell, spec};
use countersign_sandbox::{Ending, Spec};
use rustix::process::Pid;

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Memory that is its own, in KiB.
fn data(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn two_hundred_runs_leave_nothing() {
    let sandbox = sandbox();
    let long = "x".repeat(8 << 10);
    let environment = [("LONG".to_owned(), long.clone())].into();
    let specs = [
        Spec { environment, ..shell("true") },
        spec(&[&["sh", "-c", "exit 1", &long], &["many"; 2000][..]].concat()),
        shell("sleep 0.001 & (true & true) & exit 0"),
    ];
    let run_some = |count: usize| {
        for spec in specs.iter().cycle().take(count) {
            let ended = run(&sandbox, spec);
            assert!(matches!(ended.ending, Ending::Exited { .. }), "{:?}", ended.ending);
        }
    };
    run_some(30);
    let launcher = launchers();
    assert_eq!(launcher.len(), 1);
    let (files, memory) = (descriptors(), data(launcher[0]));
    run_some(200);
    assert_eq!(launchers(), launcher, "one launcher made all of them, and nothing else is a child");
    assert_eq!(descriptors(), files);
    let grown = data(launcher[0]).saturating_sub(memory);
    // The heap may have grown once; what every box left behind would be a megabyte and more.
    assert!(grown <= 256, "the launcher grew by {grown} KiB");
}
