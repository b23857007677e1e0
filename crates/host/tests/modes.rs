//! Sandbox modes: what a call may change whatever is granted, and what version control keeps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::boxes::{Box_, Boxes, DONE};
use common::{Bench, ending};
use countersign_host::{CallCommand, Outcome};
use countersign_model::{Lifecycle, SandboxMode};
use countersign_sandbox::backend::StagedForm;
use serde_json::json;

#[track_caller]
fn denied(outcome: &Outcome, code: &str) {
    assert_eq!((outcome.state, ending(outcome).2), (Lifecycle::Denied, code));
}

#[test]
fn modes_and_toolsets_only_narrow() {
    let bench = Bench::new();
    let toml = "[toolsets]\nreading = [\"file.read\", \"text.*\"]\n";
    std::fs::write(bench.home().join("countersign.toml"), toml).unwrap();
    let host = bench.host();
    let write = bench.command("file.write", &json!({"path": "b.txt", "content": "x"}));
    let outcome = host.call(CallCommand { mode: SandboxMode::ReadOnly, ..write.clone() });
    denied(&outcome.unwrap(), "MODE_FORBIDS");
    let toolset = Some("reading".to_owned());
    denied(&host.call(CallCommand { toolset, ..write.clone() }).unwrap(), "TOOLSET_EXCLUDES");
    let toolset = Some("raeding".to_owned());
    denied(&host.call(CallCommand { toolset, ..write.clone() }).unwrap(), "TOOLSET_UNKNOWN");
    let danger = CallCommand { mode: SandboxMode::DangerFullAccess, ..write };
    assert_eq!(ending(&host.call(danger).unwrap()).2, "APPROVAL_REQUIRED");

    let hook = json!({"path": ".git/hooks/pre-commit", "content": "x", "createDirectories": true});
    let mut command = bench.command("file.write", &hook);
    for (mode, code) in [
        (SandboxMode::WorkspaceWrite, Some("MODE_FORBIDS")),
        (SandboxMode::RepoWrite, Some("MODE_FORBIDS")),
        (SandboxMode::DangerFullAccess, Some("APPROVAL_REQUIRED")),
    ] {
        command.mode = mode;
        let outcome = host.call(command.clone()).unwrap();
        assert_eq!(outcome.result.err().map(|failure| failure.code.to_string()).as_deref(), code);
    }
    std::fs::create_dir(bench.root().join(".git")).unwrap();
    let head = json!({"path": ".git/HEAD", "content": "x"});
    let mut command = bench.command("file.write", &head);
    denied(&host.call(command.clone()).unwrap(), "MODE_FORBIDS");
    command.mode = SandboxMode::RepoWrite;
    assert_eq!(host.call(command).unwrap().state, Lifecycle::Completed);
}

#[test]
fn a_program_cannot_publish_what_its_mode_protects() {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    std::fs::create_dir(bench.root().join(".git")).unwrap();
    let boxes = Boxes::new(StagedForm::Upper, |program| {
        program.write(".git/HEAD", "elsewhere");
        DONE
    });
    let host = bench.host_with(&boxes);
    let mut command = bench.command("test.program", &json!({}));
    let outcome = host.call(command.clone()).unwrap();
    assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::RolledBack, "MODE_FORBIDS"));
    assert_eq!(bench.text(".git/HEAD"), None);
    command.mode = SandboxMode::RepoWrite;
    let outcome = host.call(command).unwrap();
    assert_eq!(outcome.state, Lifecycle::Completed, "{:?}", outcome.result);
    assert_eq!(bench.text(".git/HEAD").as_deref(), Some("elsewhere"));
}

#[test]
fn the_root_does_not_choose_what_a_mode_protects() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.root().join(".git/hooks")).unwrap();
    let host = bench.host();
    let input = json!({"path": "hooks/pre-commit", "content": "x"});
    let mut command = bench.command("file.write", &input);
    command.root = Some(bench.root().join(".git"));
    denied(&host.call(command).unwrap(), "MODE_FORBIDS");
}

/// A repository whose `.git` is somewhere else beneath the root: where, and what leads there.
fn elsewhere(case: &str) -> Bench {
    let bench = Bench::new();
    let root = bench.root();
    for directory in ["store/objects", "store/refs", "store/hooks", "work"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    bench.write("store/HEAD", "ref: refs/heads/main\n");
    match case {
        "file" => bench.write(".git", "gitdir: store\n"),
        "absolute file" => {
            let line =
                format!("gitdir: {}\n", root.canonicalize().unwrap().join("store").display());
            bench.write(".git", &line);
        }
        "file of another part" => bench.write("work/.git", "gitdir: ../store\n"),
        "link" => std::os::unix::fs::symlink("store", root.join(".git")).unwrap(),
        "worktree" => {
            std::fs::create_dir(root.join("own")).unwrap();
            std::fs::remove_file(root.join("store/HEAD")).unwrap();
            bench.write("own/commondir", "../store\n");
            bench.write(".git", "gitdir: own\n");
        }
        "link inside" => {
            std::fs::remove_file(root.join("store/HEAD")).unwrap();
            std::fs::create_dir(root.join(".git")).unwrap();
            std::os::unix::fs::symlink("../store/hooks", root.join(".git/hooks")).unwrap();
        }
        "nothing" => {}
        other => panic!("no case {other}"),
    }
    bench
}

const ELSEWHERE: [&str; 7] =
    ["file", "absolute file", "file of another part", "link", "worktree", "link inside", "nothing"];

#[test]
fn what_version_control_works_in_is_protected_by_any_name() {
    for case in ELSEWHERE {
        let bench = elsewhere(case);
        let host = bench.host();
        let write = |path: &str, mode| {
            let input = json!({"path": path, "content": "x"});
            let command = bench.command("file.write", &input);
            host.call(CallCommand { mode, ..command }).unwrap()
        };
        let (workspace, repo) = (SandboxMode::WorkspaceWrite, SandboxMode::RepoWrite);
        denied(&write("store/hooks/pre-commit", workspace), "MODE_FORBIDS");
        denied(&write("store/hooks/pre-commit", repo), "MODE_FORBIDS");
        assert_eq!(write("work/a", workspace).state, Lifecycle::Completed, "{case}");
        if case == "link inside" {
            continue;
        }
        denied(&write("store/refs/main", workspace), "MODE_FORBIDS");
        assert_eq!(write("store/refs/main", repo).state, Lifecycle::Completed, "{case}");
    }
}

#[test]
fn a_program_cannot_publish_into_what_version_control_works_in() {
    for case in ELSEWHERE {
        let bench = elsewhere(case);
        bench.declare_program("test.program", |_| {});
        let boxes = Boxes::new(StagedForm::Upper, |program| {
            program.write("store/hooks/pre-commit", "evil");
            DONE
        });
        let host = bench.host_with(&boxes);
        let outcome = bench.call(&host, "test.program", &json!({}));
        let expected = (Lifecycle::RolledBack, "MODE_FORBIDS");
        assert_eq!((outcome.state, ending(&outcome).2), expected, "{case}");
        assert_eq!(bench.text("store/hooks/pre-commit"), None);
    }
}

/// Nobody has looked at what is in a directory before it becomes one of version control.
#[test]
fn a_program_cannot_make_a_repository_of_what_it_brings_along() {
    let bench = Bench::new();
    bench.declare_program("test.program", |_| {});
    let whole = |program: &mut Box_<'_>| {
        for path in ["x/HEAD", "x/objects/a", "x/refs/b", "x/config"] {
            program.write(path, "x");
        }
        DONE
    };
    for mode in [SandboxMode::WorkspaceWrite, SandboxMode::RepoWrite] {
        let host = bench.host_with(&Boxes::new(StagedForm::Upper, whole));
        let command = bench.command("test.program", &json!({}));
        let outcome = host.call(CallCommand { mode, ..command }).unwrap();
        assert_eq!(ending(&outcome).2, "MODE_FORBIDS");
    }
    let host = bench.host();
    let write = |path: &str| {
        let input = json!({"path": path, "content": "x", "createDirectories": true});
        bench.call(&host, "file.write", &input)
    };
    for part in ["x/config", "x/objects/a"] {
        assert_eq!(write(part).state, Lifecycle::Completed, "{part}");
    }
    denied(&write("x/refs/a"), "MODE_FORBIDS");
}

/// A pipe that nobody writes to is no reason to wait.
#[test]
fn what_is_called_git_and_is_a_pipe_holds_nobody_up() {
    let bench = Bench::new();
    let pipe = bench.root().join(".git");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    bench.done(&bench.host(), "file.write", &json!({"path": "b", "content": "x"}));
}
