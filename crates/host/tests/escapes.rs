//! Nothing outside the root is read or written, and nothing of the home, whatever a path is called.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "a test that cannot run here says so")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use common::{Bench, ending};
use countersign_host::{Host, Outcome};
use countersign_model::Lifecycle::{Completed, Failed, RolledBack};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use serde_json::{Value, json};

const SECRET: &str = "outside";

fn bench_with_outside() -> (Bench, Host) {
    let bench = Bench::new();
    fs::create_dir(bench.path().join("outside")).unwrap();
    fs::write(bench.path().join("outside/secret"), SECRET).unwrap();
    let host = bench.host();
    (bench, host)
}

/// Tries everything there is to do with a path; every try must end with one of these codes.
fn all_refused(bench: &Bench, host: &Host, path: &str, codes: &[&str]) {
    let tries = [
        ("file.read", json!({"path": path})),
        ("file.write", json!({"path": path, "content": "x"})),
        ("file.write", json!({"path": path, "content": "x", "createDirectories": true})),
        ("file.delete", json!({"path": path})),
        ("file.list", json!({"path": path})),
    ];
    for (tool, input) in tries {
        let outcome = bench.call(host, tool, &input);
        let (state, _, code) = ending(&outcome);
        assert!(codes.contains(&code), "{tool} {input}: {code}");
        assert!(matches!(state, RolledBack | Failed), "{tool} {input}: {state}");
    }
    let secret = fs::read_to_string(bench.path().join("outside/secret")).unwrap();
    assert_eq!(secret, SECRET);
    assert_eq!(fs::read_dir(bench.path().join("outside")).unwrap().count(), 1);
}

#[test]
fn spelling_does_not_lead_outside() {
    let (bench, host) = bench_with_outside();
    let absolute = bench.path().join("outside/secret").to_str().unwrap().to_owned();
    for path in ["../outside/secret", "..", "a/../../outside/secret", &absolute, "./x", "a//b"] {
        all_refused(&bench, &host, path, &["PATH_INVALID"]);
    }
}

#[test]
fn links_are_not_followed() {
    let (bench, host) = bench_with_outside();
    let outside = bench.path().join("outside");
    symlink(&outside, bench.root().join("middle")).unwrap();
    symlink(outside.join("secret"), bench.root().join("final")).unwrap();
    symlink("nowhere", bench.root().join("dangling")).unwrap();
    symlink("loop", bench.root().join("loop")).unwrap();
    for path in ["middle/secret", "middle/new", "final", "dangling", "loop", "middle"] {
        all_refused(&bench, &host, path, &["PATH_SYMLINK"]);
    }
    fs::hard_link(outside.join("secret"), bench.root().join("hard")).unwrap();
    all_refused(&bench, &host, "hard", &["PATH_HARD_LINK", "NOT_A_DIRECTORY"]);
    assert!(bench.root().join("final").is_symlink());
}

#[test]
fn the_root_itself_may_be_named_through_a_link() {
    let (bench, host) = bench_with_outside();
    let alias = bench.path().join("alias");
    symlink(bench.root(), &alias).unwrap();
    let mut command = bench.command("file.write", &json!({"path": "f", "content": "x"}));
    command.root = Some(alias);
    let outcome = host.call(command).unwrap();
    assert_eq!(outcome.state, Completed);
    assert_eq!(bench.text("f").unwrap(), "x");
    let summary = host.home().store.call(outcome.execution).unwrap().unwrap();
    let real = bench.root().canonicalize().unwrap();
    assert_eq!(summary.root.as_deref(), real.to_str(), "grants and facts name the real place");
}

#[test]
fn what_is_no_regular_file_is_left_alone() {
    let (bench, host) = bench_with_outside();
    fs::create_dir(bench.root().join("dir")).unwrap();
    mknodat(CWD, bench.root().join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    for tool in ["file.read", "file.write", "file.delete"] {
        for name in ["dir", "fifo", "."] {
            let mut input = json!({"path": name});
            if tool == "file.write" {
                input["content"] = json!("x");
            }
            let outcome = bench.call(&host, tool, &input);
            assert_eq!(ending(&outcome).2, "NOT_A_FILE", "{tool} {name}");
        }
    }
    let outcome = bench.call(&host, "file.list", &json!({"path": "fifo"}));
    assert_eq!(ending(&outcome).2, "NOT_A_DIRECTORY");

    let device = bench.root().join("null");
    let made =
        mknodat(CWD, &device, FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3));
    match made {
        Err(error) => println!("skipped: no device can be made here: {error}"),
        Ok(()) => {
            all_refused(&bench, &host, "null", &["NOT_A_FILE", "NOT_A_DIRECTORY", "FILE_FORBIDDEN"])
        }
    }
}

/// The directory is swapped for a link to outside, over and over, while calls go through it.
#[test]
fn a_swap_in_the_wrong_moment_does_not_lead_outside() {
    let (bench, host) = bench_with_outside();
    let (inside, aside) = (bench.root().join("dir"), bench.root().join("aside"));
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("secret"), "inside").unwrap();
    symlink(bench.path().join("outside"), bench.root().join("link")).unwrap();
    let stop = AtomicBool::new(false);
    let end = Instant::now() + Duration::from_secs(2);
    thread::scope(|scope| {
        scope.spawn(|| swap(&inside, &aside, &bench.root().join("link"), &stop));
        let _stop = Stop(&stop);
        for round in 0..400 {
            if Instant::now() > end {
                break;
            }
            one_round(&bench, &host, round);
        }
    });
    let outside = bench.path().join("outside");
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 1, "nothing was left there");
}

/// Stops the swapping, also when a round has failed.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn swap(inside: &Path, aside: &Path, link: &Path, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        fs::rename(inside, aside).unwrap();
        fs::rename(link, inside).unwrap();
        fs::rename(inside, link).unwrap();
        fs::rename(aside, inside).unwrap();
    }
}

fn one_round(bench: &Bench, host: &Host, round: u32) {
    let read = bench.call(host, "file.read", &json!({"path": "dir/secret"}));
    if let Ok(output) = &read.result {
        assert_ne!(output["content"], SECRET);
    }
    let listed = bench.call(host, "file.list", &json!({"path": "dir"}));
    drop(listed);
    let content = format!("inside {round}");
    let written =
        bench.call(host, "file.write", &json!({"path": "dir/secret", "content": content}));
    drop(written);
    let name = format!("dir/new-{round}");
    drop(bench.call(host, "file.write", &json!({"path": name, "content": "n"})));
    drop(bench.call(host, "file.delete", &json!({"path": "dir/secret"})));
}

#[test]
fn the_home_is_out_of_reach_under_every_name() {
    let (bench, host) = bench_with_outside();
    let call = |root: &Path, tool: &str, input: &Value| -> Outcome {
        let mut command = bench.command(tool, input);
        command.root = Some(root.to_owned());
        host.call(command).unwrap()
    };
    // The home lies beneath the root.
    for path in ["home/countersign.toml", "home/state/journal.db", "home/new", "home/tools/x.json"]
    {
        for (tool, input) in [
            ("file.read", json!({"path": path})),
            ("file.write", json!({"path": path, "content": "x", "createDirectories": true})),
            ("file.delete", json!({"path": path})),
        ] {
            let outcome = call(bench.path(), tool, &input);
            assert_eq!(ending(&outcome).2, "PATH_IN_HOME", "{tool} {path}");
        }
    }
    for path in ["home", "home/tools", "home/state/keys"] {
        let outcome = call(bench.path(), "file.list", &json!({"path": path}));
        assert_eq!(ending(&outcome).2, "PATH_IN_HOME", "{path}");
    }
    // The root is the home, or lies beneath it, by whatever name.
    let alias = bench.path().join("alias");
    symlink(bench.home(), &alias).unwrap();
    let roots = [bench.home(), bench.home().join("state/keys"), alias.clone(), alias.join("tools")];
    for root in roots {
        let outcome = call(&root, "file.list", &json!({"path": "."}));
        assert_eq!(ending(&outcome).2, "PATH_IN_HOME", "{}", root.display());
    }
    let outcome = call(bench.path(), "file.list", &json!({"path": "alias"}));
    assert_eq!(ending(&outcome).2, "PATH_SYMLINK");
    assert!(bench.home().join("countersign.toml").exists());
}

#[test]
fn a_part_of_the_home_mounted_elsewhere_is_out_of_reach() {
    let (bench, host) = bench_with_outside();
    let place = bench.root().join("mounted");
    fs::create_dir(&place).unwrap();
    let mount = |args: &[&Path]| Command::new("mount").arg("--bind").args(args).output();
    let keys = bench.home().join("state/keys");
    match mount(&[&keys, &place]) {
        Ok(output) if output.status.success() => {}
        _ => return println!("skipped: nothing can be mounted here"),
    }
    let listed = bench.call(&host, "file.list", &json!({"path": "mounted"}));
    let read = bench.call(&host, "file.read", &json!({"path": "mounted/authority.key"}));
    let mut command = bench.command("file.list", &json!({"path": "."}));
    command.root = Some(place.clone());
    let as_root = host.call(command).unwrap();
    Command::new("umount").arg(&place).status().unwrap();
    for outcome in [listed, read, as_root] {
        assert_eq!(ending(&outcome).2, "PATH_IN_HOME");
    }
}

#[test]
fn names_of_any_bytes_can_be_listed() {
    let (bench, host) = bench_with_outside();
    fs::write(bench.root().join(OsStr::from_bytes(b"\xff\xfe")), "").unwrap();
    fs::write(bench.root().join("two\nlines"), "").unwrap();
    fs::write(bench.root().join("plain"), "").unwrap();
    let listed = bench.done(&host, "file.list", &json!({"path": "."}));
    let names: Vec<_> =
        listed["entries"].as_array().unwrap().iter().map(|e| e["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plain", "two\nlines", "\u{fffd}\u{fffd}"]);
    let outcome = bench.call(&host, "file.write", &json!({"path": "two\nlines", "content": ""}));
    assert_eq!(ending(&outcome).2, "PATH_INVALID");
}

#[test]
fn a_replaced_file_keeps_its_mode() {
    let (bench, host) = bench_with_outside();
    for mode in [0o600, 0o640, 0o755, 0o400] {
        let path = bench.root().join("f");
        let _ = fs::remove_file(&path);
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        bench.done(&host, "file.write", &json!({"path": "f", "content": format!("{mode}")}));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
    let leftovers = fs::read_dir(bench.root()).unwrap().count();
    assert_eq!(leftovers, 1, "no temporary files");
}

/// Root may do everything, so these two run as someone else. `true` in the process that is to do
/// the work.
fn as_an_ordinary_user(test: &str) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let exe = std::env::current_exe().unwrap();
    let run = Command::new(exe).args(["--exact", test]).uid(65534).gid(65534).output();
    match run {
        Ok(output) if output.status.success() => {}
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => println!("skipped: this program cannot be run by another user: {error}"),
    }
    false
}

#[test]
fn a_directory_that_cannot_be_written_is_noticed_before_the_commit() {
    if !as_an_ordinary_user("a_directory_that_cannot_be_written_is_noticed_before_the_commit") {
        return;
    }
    let (bench, host) = bench_with_outside();
    let dir = bench.root().join("sealed");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("f"), "old").unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    for (tool, input) in [
        ("file.write", json!({"path": "sealed/f", "content": "x"})),
        ("file.write", json!({"path": "sealed/new", "content": "x"})),
        ("file.write", json!({"path": "sealed/d/f", "content": "x", "createDirectories": true})),
        ("file.delete", json!({"path": "sealed/f"})),
    ] {
        let outcome = bench.call(&host, tool, &input);
        assert_eq!((outcome.state, ending(&outcome).2), (RolledBack, "FILE_FORBIDDEN"), "{input}");
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_directory_may_be_passed_without_the_right_to_list_it() {
    if !as_an_ordinary_user("a_directory_may_be_passed_without_the_right_to_list_it") {
        return;
    }
    let (bench, host) = bench_with_outside();
    fs::create_dir_all(bench.root().join("hall/room")).unwrap();
    let closed = |mode| {
        for path in [bench.path().to_owned(), bench.root().join("hall")] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    closed(0o311);
    bench.done(&host, "file.write", &json!({"path": "hall/room/f", "content": "x"}));
    bench.done(&host, "file.read", &json!({"path": "hall/room/f"}));
    let outcome = bench.call(&host, "file.list", &json!({"path": "hall"}));
    assert_eq!(ending(&outcome).2, "FILE_FORBIDDEN");
    closed(0o755);
}

#[test]
fn a_file_in_the_way_of_a_directory_is_noticed() {
    let (bench, host) = bench_with_outside();
    bench.write("f", "file");
    let input = json!({"path": "f/x/y", "content": "x", "createDirectories": true});
    let outcome = bench.call(&host, "file.write", &input);
    assert_eq!((outcome.state, ending(&outcome).2), (RolledBack, "NOT_A_DIRECTORY"));
    let outcome = bench.call(&host, "file.write", &json!({"path": "no/f", "content": "x"}));
    assert_eq!((outcome.state, ending(&outcome).2), (RolledBack, "FILE_NOT_FOUND"));
    assert_eq!(bench.text("f").unwrap(), "file");
}
