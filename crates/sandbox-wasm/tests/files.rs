//! Directories: what is read-only, what is staged, and that no path leads out of them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(dead_code, unreachable_pub, reason = "every test uses a part of the common helpers")]

mod common;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use common::{Bench, CREATE, FIRST, OUT, READ, TMP, limit, module, open, start};
use countersign_model::WorkspaceAccess;
use countersign_sandbox::backend::StagedForm;
use countersign_sandbox::{Backend, Ending, LimitKind};

const NOT_PERMITTED: i32 = 63;

fn path_of(directory: &OwnedFd) -> PathBuf {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd())).unwrap()
}

#[test]
fn out_is_handed_over_and_then_removed() {
    let bench = Bench::new();
    let ended = bench.run(&bench.spec(open(OUT, "made", CREATE)));
    assert_eq!(ended.ending, Ending::Exited { code: 0 });
    let out = path_of(ended.staged.out.as_ref().unwrap());
    assert_eq!(fs::read(out.join("made")).unwrap(), b"hello");
    assert_eq!(ended.usage.bytes_written, 5);
    drop(ended);
    assert!(!out.exists());
    // What one call leaves in `/tmp` and `/out`, the next does not find.
    for directory in [TMP, OUT] {
        assert_eq!(bench.code(&bench.spec(open(directory, "x", CREATE))), 0);
        assert_ne!(bench.code(&bench.spec(open(directory, "x", READ))), 0);
    }
}

#[test]
fn tool_and_inputs_are_read_only() {
    let bench = Bench::new();
    let (tool, inputs) = (bench.directory("tool"), bench.directory("in"));
    for directory in [&tool, &inputs] {
        fs::write(directory.join("file"), "original").unwrap();
    }
    for directory in [FIRST, FIRST + 1] {
        let coded = |guest: String| {
            let mut spec = bench.spec(guest);
            (spec.tool, spec.inputs) = (Some(tool.clone()), Some(inputs.clone()));
            bench.code(&spec)
        };
        assert_eq!(coded(open(directory, "file", READ)), 0);
        assert_eq!(coded(open(directory, "file", CREATE)), NOT_PERMITTED);
        assert_eq!(coded(open(directory, "new", CREATE)), NOT_PERMITTED);
        for code in [
            "(call $path_create_directory (i32.const DIR) (i32.const 0) (i32.const 4))",
            "(call $path_unlink_file (i32.const DIR) (i32.const 0) (i32.const 4))",
            "(call $path_symlink (i32.const 0) (i32.const 4) (i32.const DIR) (i32.const 4) (i32.const 3))",
        ] {
            let code = code.replace("DIR", &directory.to_string());
            let guest = module(&format!(
                "(data (i32.const 0) \"filenew\") (func (export \"_start\") (call $proc_exit {code}))"
            ));
            assert_eq!(coded(guest), NOT_PERMITTED);
        }
    }
    assert_eq!(fs::read_dir(&tool).unwrap().count(), 1);
    assert_eq!(fs::read(tool.join("file")).unwrap(), b"original");
}

#[test]
fn no_path_leads_out() {
    let bench = Bench::new();
    let workspace = bench.directory("workspace");
    fs::write(bench.home.path().join("secret"), "secret").unwrap();
    fs::create_dir(workspace.join("sub")).unwrap();
    symlink("../secret", workspace.join("relative")).unwrap();
    symlink(bench.home.path().join("secret"), workspace.join("absolute")).unwrap();
    symlink("..", workspace.join("up")).unwrap();
    let absolute = bench.home.path().join("secret");
    let absolute = absolute.to_str().unwrap();
    let paths = [
        "../secret",
        "sub/../../secret",
        "./../secret",
        "up/secret",
        "relative",
        "absolute",
        "/etc/passwd",
        "//etc/passwd",
        "../../../../../../../../etc/passwd",
        absolute,
    ];
    for access in [WorkspaceAccess::Read, WorkspaceAccess::Write] {
        for path in paths {
            for flags in [READ, CREATE] {
                let mut spec = bench.spec(open(FIRST, path, flags));
                spec.workspace = Some((workspace.clone(), access));
                assert_ne!(bench.code(&spec), 0, "{path} {flags} {access:?}");
            }
        }
        let mut spec = bench.spec(open(FIRST, "sub/../sub/../sub", READ));
        spec.workspace = Some((workspace.clone(), access));
        assert_eq!(bench.code(&spec), 0);
    }
    assert_eq!(fs::read(absolute).unwrap(), b"secret");
}

#[test]
fn links_that_a_guest_makes_lead_nowhere() {
    let bench = Bench::new();
    // Makes a link in `/out` and opens what it names.
    let guest = module(
        "(data (i32.const 0) \"../../../../../../../../../../etc/passwd\") (data (i32.const 64) \"l\")
         (func (export \"_start\")
           (drop (call $path_symlink (i32.const 0) (i32.const 40) (i32.const 4) (i32.const 64) (i32.const 1)))
           (call $proc_exit (call $path_open (i32.const 4) (i32.const 1) (i32.const 64) (i32.const 1)
             (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 72))))",
    );
    let ended = bench.run(&bench.spec(guest));
    assert_eq!(ended.ending, Ending::Exited { code: NOT_PERMITTED });
    let out = path_of(ended.staged.out.as_ref().unwrap());
    assert!(out.join("l").symlink_metadata().unwrap().is_symlink());
}

#[test]
fn a_workspace_is_staged_whole_and_the_original_stays() {
    let bench = Bench::new();
    let workspace = bench.directory("workspace");
    fs::create_dir_all(workspace.join("a/b")).unwrap();
    fs::write(workspace.join("a/b/old"), "old").unwrap();
    fs::set_permissions(workspace.join("a/b/old"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(workspace.join("a/b"), fs::Permissions::from_mode(0o555)).unwrap();
    symlink("a/b/old", workspace.join("link")).unwrap();
    let mut spec = bench.spec(open(FIRST, "new", CREATE));
    spec.workspace = Some((workspace.clone(), WorkspaceAccess::Write));
    let ended = bench.run(&spec);
    assert_eq!(ended.ending, Ending::Exited { code: 0 });
    let staged = ended.staged.workspace.as_ref().unwrap();
    assert_eq!(staged.form, StagedForm::Whole);
    let copy = path_of(&staged.directory);
    assert_eq!(fs::read(copy.join("new")).unwrap(), b"hello");
    assert_eq!(fs::read(copy.join("link")).unwrap(), b"old");
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(copy.join("a/b/old")), mode(copy.join("a/b"))), (0o750, 0o555));
    assert!(!workspace.join("new").exists());
    drop(ended);
    assert!(!copy.exists());
    fs::set_permissions(workspace.join("a/b"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn copies_obey_the_limits() {
    let bench = Bench::new();
    let workspace = bench.directory("workspace");
    for name in 0..10 {
        fs::write(workspace.join(name.to_string()), vec![0; 1000]).unwrap();
    }
    let mut spec = bench.spec(start("nop"));
    spec.workspace = Some((workspace.clone(), WorkspaceAccess::Write));
    let refused = |change: &dyn Fn(&mut countersign_sandbox::Limits)| {
        let mut spec = spec.clone();
        change(&mut spec.limits);
        let job = bench.job(&spec, b"").unwrap();
        let mut unwatched = countersign_sandbox::backend::Unwatched;
        bench.backend.run(job, &mut unwatched).unwrap_err().code
    };
    assert_eq!(refused(&|limits| limits.inodes = 9), LimitKind::Inodes.code());
    assert_eq!(refused(&|limits| limits.total_size = 9_999), LimitKind::TotalSize.code());
    assert_eq!(refused(&|limits| limits.file_size = 999), LimitKind::FileSize.code());
    make_pipe(&workspace.join("pipe"));
    assert_eq!(refused(&|_| ()), "WORKSPACE_UNSUPPORTED");
}

fn make_pipe(path: &std::path::Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

#[test]
fn a_pipe_in_the_workspace_does_not_hold_the_host() {
    let bench = Bench::new();
    let workspace = bench.directory("workspace");
    make_pipe(&workspace.join("pipe"));
    let mut spec = bench.spec(open(FIRST, "pipe", READ));
    spec.workspace = Some((workspace, WorkspaceAccess::Read));
    spec.limits.wall_ms = 200;
    assert_eq!(bench.run(&spec).ending, limit(LimitKind::WallTime));
}
