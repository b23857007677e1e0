//! Programs in real boxes: what they see, what is staged, and why some cannot be started.
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
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use common::{job, refusal, run, sandbox, shell, spec, stdout};
use countersign_model::{ErrorClass, WorkspaceAccess};
use countersign_sandbox::backend::{StagedForm, Unwatched};
use countersign_sandbox::{Backend, Ending, Machine, Spec, compile};
use rustix::fs::{Mode, OFlags, openat, readlinkat};

const SUCCESS: Ending = Ending::Exited { code: 0 };

#[test]
fn a_program_reads_and_writes() {
    let sandbox = sandbox();
    let plan = sandbox.plan(&shell("cat; echo problem >&2")).unwrap();
    let mut job = job(plan);
    job.input = b"hello\n".to_vec();
    let ended = sandbox.run(job, &mut Unwatched).unwrap();
    assert_eq!(ended.ending, SUCCESS);
    assert_eq!(ended.stdout.inline, b"hello\n");
    assert_eq!(ended.stderr.inline, b"problem\n");
}

#[test]
fn a_program_sees_a_world_of_its_own() {
    let sandbox = sandbox();
    let ended = run(&sandbox, &shell("id -u; pwd; hostname; ls /proc | grep -c '^[0-9]'; env"));
    assert_eq!(ended.ending, SUCCESS, "{ended:?}");
    let said = stdout(&ended);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[..3], ["1000", "/tmp", "sandbox"], "{said}");
    let processes: u32 = lines[3].parse().unwrap();
    assert!(processes <= 5, "the first process, the shell and what it starts: {said}");
    assert!(lines[4..].iter().all(|line| !line.starts_with("CARGO")), "{said}");
}

#[test]
fn a_program_is_no_more_urgent_than_others_even_if_its_host_is() {
    if rustix::process::setpriority_process(None, -5).is_err() {
        eprintln!("skipped: only root may be more urgent than others");
        return;
    }
    assert_eq!(stdout(&run(&sandbox(), &shell("nice"))), "0\n");
}

#[test]
fn a_box_is_used_once() {
    let sandbox = sandbox();
    let count =
        "ls -A /tmp /dev/shm /out | grep -c x; echo x > /tmp/x; cp /tmp/x /out; cp /tmp/x /dev/shm";
    for _ in 0..3 {
        assert_eq!(stdout(&run(&sandbox, &shell(count))), "0\n");
    }
    assert_eq!(common::launchers().len(), 1, "but its launcher is used again");
}

/// A directory with one of everything.
fn workspace() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("kept"), "kept\n").unwrap();
    fs::write(dir.path().join("changed"), "old\n").unwrap();
    fs::write(dir.path().join("removed"), "old\n").unwrap();
    fs::create_dir(dir.path().join("below")).unwrap();
    fs::write(dir.path().join("below/script"), "#!/bin/sh\necho ran\n").unwrap();
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(dir.path().join("below/script"), mode).unwrap();
    symlink("kept", dir.path().join("link")).unwrap();
    dir
}

fn works_in(path: &Path) -> Spec {
    let change = "below/script; cat link; echo new > changed; rm removed; mkdir made; echo x > made/x; \
                  ln -s made/x to; chmod 700 made/x";
    let path = path.canonicalize().unwrap();
    Spec { workspace: Some((path, WorkspaceAccess::Write)), ..shell(change) }
}

fn check_staging(machine: &Machine, form: StagedForm) {
    let (sandbox, dir) = (sandbox(), workspace());
    let plan = compile(&works_in(dir.path()), machine).unwrap();
    let ended = sandbox.run(job(plan), &mut Unwatched).unwrap();
    assert_eq!(ended.ending, SUCCESS, "{ended:?}");
    assert_eq!(stdout(&ended), "ran\nkept\n");
    let staged = ended.staged.workspace.unwrap();
    assert_eq!(staged.form, form);
    let read = |name: &str| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = openat(&staged.directory, name, flags, Mode::empty()).ok()?;
        Some(std::io::read_to_string(fs::File::from(file)).unwrap())
    };
    assert_eq!(read("changed").as_deref(), Some("new\n"));
    assert_eq!(read("made/x").as_deref(), Some("x\n"));
    assert_eq!(readlinkat(&staged.directory, "to", Vec::new()).unwrap(), *c"made/x");
    match form {
        StagedForm::Whole => {
            assert_eq!(read("kept").as_deref(), Some("kept\n"));
            assert_eq!(read("removed"), None);
            assert_eq!(readlinkat(&staged.directory, "link", Vec::new()).unwrap(), *c"kept");
        }
        StagedForm::Upper => assert_eq!(read("kept"), None, "what did not change is not staged"),
    }
    // The original is as it was.
    assert_eq!(fs::read_to_string(dir.path().join("changed")).unwrap(), "old\n");
    assert!(dir.path().join("removed").exists() && !dir.path().join("made").exists());
}

#[test]
fn changes_are_staged_in_an_overlay() {
    let machine = sandbox().machine().clone();
    if machine.overlay.is_ok() {
        check_staging(&machine, StagedForm::Upper);
    }
}

#[test]
fn without_overlays_the_workspace_is_copied() {
    let machine = Machine { overlay: Err("none here".to_owned()), ..sandbox().machine().clone() };
    check_staging(&machine, StagedForm::Whole);
}

#[test]
fn a_program_that_cannot_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let tool = dir.path().canonicalize().unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    for (name, content, mode) in [
        ("plain", "#!/bin/sh\n", 0o644),
        ("orphan", "#!/nowhere/interpreter\n", 0o755),
        ("garbage", "neither this nor that\n", 0o755),
    ] {
        fs::write(tool.join(name), content).unwrap();
        fs::set_permissions(tool.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let sandbox = sandbox();
    for (command, why) in [
        ("no-such-program", "there is no such program in the sandbox"),
        ("/tool/absent", "there is no such program in the sandbox"),
        ("/tool", "it is a directory"),
        ("/tool/plain", "it is not executable"),
        ("/tool/orphan", "the interpreter that it asks for is not in the sandbox"),
        ("/tool/garbage", "it is neither a program nor a script that begins with `#!`"),
    ] {
        let failure = refusal(&sandbox, &Spec { tool: Some(tool.clone()), ..spec(&[command]) });
        assert_eq!(failure.code, "COMMAND_NOT_STARTED", "{failure}");
        assert_eq!(failure.class, ErrorClass::ExecutionError);
        assert!(failure.message.contains(why), "{command}: {failure}");
        assert!(failure.message.contains(&format!("`{command}`")), "{failure}");
    }
    assert_eq!(run(&sandbox, &shell("true")).ending, SUCCESS, "and the next one starts");
}

#[test]
fn a_command_that_is_too_long_is_refused_before_anything_is_made() {
    let sandbox = sandbox();
    let long = |length: usize| "x".repeat(length);
    let with_variable = |value: String| Spec {
        environment: [("LONG".to_owned(), value)].into(),
        ..shell("echo ${#LONG}")
    };
    for spec in [
        // One word that the kernel does not take, words that no packet takes, and words that take
        // more room than they seem to.
        spec(&["echo", &long(128 << 10)]),
        spec(&["echo", &long(100 << 10), &long(100 << 10)]),
        spec(&["echo", &"\u{1}".repeat(40 << 10)]),
        with_variable(long(130 << 10)),
    ] {
        let failure = refusal(&sandbox, &spec);
        assert_eq!(
            (failure.code.as_ref(), failure.class),
            ("COMMAND_TOO_LONG", ErrorClass::ValidationError)
        );
    }
    for length in [10 << 10, 120 << 10] {
        let ended = run(&sandbox, &with_variable(long(length)));
        assert_eq!(stdout(&ended), format!("{length}\n"), "{:?}", ended.ending);
    }
}
