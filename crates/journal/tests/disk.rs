//! A full disk and a read-only one, for real: each in a mount of its own, seen by one process only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "a test that was skipped says so")]

mod common;

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{batch, check_live, home, issued, journal, reopen, signer};
use countersign_journal::{AppendError, JournalError, SqliteStore, Store};

/// Set for the processes that these tests start: the directory to work in.
const DIR: &str = "JOURNAL_TEST_DIR";

const SMALL_DISK: &str = "mount -t tmpfs -o size=1m tmpfs \"$0\"";
const READ_ONLY: &str = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\"";

fn in_mount(dir: &Path, mount: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(format!("{mount} && exec \"$@\"")).arg(dir);
    command
}

/// Runs the test called `child` again, in a process that sees `dir` through `mount`.
fn run(child: &str, dir: &Path, mount: &str) {
    let allowed = in_mount(dir, mount).arg("true").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: this machine does not let us make a mount of our own");
        return;
    }
    let output = in_mount(dir, mount)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", child, "--nocapture"])
        .env(DIR, dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
}

fn given_dir() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

#[test]
fn a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    run("child_on_a_small_disk", dir.path(), SMALL_DISK);
}

/// Writes until nothing more fits, then gives `left` bytes back.
fn fill(path: &Path, left: u64) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for size in [64 << 10, 4 << 10, 1] {
        let full = loop {
            if let Err(error) = file.write_all(&vec![0; size]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
    let length = file.metadata().unwrap().len();
    file.set_len(length.saturating_sub(left)).unwrap();
}

/// Appends until the disk is full; the next free number.
fn append_until_full(store: &SqliteStore, first: u64) -> u64 {
    for n in first.. {
        match store.append(batch([issued(n)])) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error, AppendError::Journal(JournalError::Full));
                return n;
            }
        }
    }
    unreachable!("the disk is small")
}

#[test]
fn child_on_a_small_disk() {
    let Some(dir) = given_dir() else { return };
    let path = dir.join("journal.db");
    let filler = dir.join("filler");
    let store = SqliteStore::create(&path, signer()).unwrap();
    store.append(batch([home()])).unwrap();
    let mut n = 1;
    for pages in 0..16 {
        fill(&filler, pages * 4096);
        n = append_until_full(&store, n);
        for _ in 0..3 {
            let again = store.append(batch([issued(n)]));
            assert_eq!(again, Err(JournalError::Full.into()), "full, not broken");
        }
        assert_eq!(check_live(&store).unwrap().size, n, "all that was acknowledged, no more");
        assert_eq!(reopen(&path).unwrap().head().unwrap().size, n);
        fs::remove_file(&filler).unwrap();
        store.append(batch([issued(n)])).unwrap();
        n += 1;
        assert_eq!(check_live(&store).unwrap().size, n, "free again: it goes on");
    }
    drop(store);
    // A process that starts while the disk is full reads, or says that it is full.
    fill(&filler, 0);
    match reopen(&path) {
        Ok(store) => assert_eq!(check_live(&store).unwrap().size, n),
        Err(error) => assert_eq!(error, JournalError::Full),
    }
    fs::remove_file(&filler).unwrap();
    let store = reopen(&path).unwrap();
    store.append(batch([issued(n)])).unwrap();
    assert_eq!(check_live(&store).unwrap().size, n + 1);
}

/// A file that cannot grow any further: to SQLite an I/O error, after which nobody can know what
/// reached the disk. The process must stop writing; the next one starts from what is there.
#[test]
fn an_io_error() {
    let journal = journal(12);
    let path = journal.path();
    let dir = journal.close();
    let output = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 400; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "child_with_a_limit", "--nocapture"])
        .env(DIR, dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{complained}");
    let store = reopen(&path).unwrap();
    let size = check_live(&store).unwrap().size;
    store.append(batch([issued(90_000)])).unwrap();
    assert_eq!(check_live(&store).unwrap().size, size + 1);
}

#[test]
fn child_with_a_limit() {
    let Some(dir) = given_dir() else { return };
    let store = reopen(&dir.join("journal.db")).unwrap();
    let mut size = 12;
    let failed = loop {
        match store.append(batch([issued(1000 + size)])) {
            Ok(appended) => size = appended.entries.end,
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, AppendError::Journal(JournalError::Internal(_))), "{failed}");
    assert_eq!(store.append(batch([issued(999)])), Err(JournalError::Poisoned.into()));
    assert_eq!(check_live(&store).unwrap().size, size, "reading goes on");
}

#[test]
fn a_read_only_directory() {
    let open = journal(12);
    open.append([issued(50)]);
    run("child_on_a_read_only_disk", open.dir.path(), READ_ONLY);
    let dir = open.close();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    run("child_on_a_read_only_disk", dir.path(), READ_ONLY);
    // A name that would mean something else inside a URI.
    let odd = dir.path().join("50% of #1?mode=rw");
    fs::create_dir(&odd).unwrap();
    fs::rename(dir.path().join("journal.db"), odd.join("journal.db")).unwrap();
    run("child_on_a_read_only_disk", &odd, READ_ONLY);
}

/// What a killed process leaves: a log beside the journal, and nobody to read it in.
#[test]
fn a_read_only_copy_of_an_unfinished_journal() {
    let open = journal(12);
    open.append([issued(50)]);
    let copy = tempfile::tempdir().unwrap();
    for name in ["journal.db", "journal.db-wal"] {
        fs::copy(open.dir.path().join(name), copy.path().join(name)).unwrap();
    }
    run("child_on_an_unfinished_copy", copy.path(), READ_ONLY);
}

#[test]
fn child_on_a_read_only_disk() {
    let Some(dir) = given_dir() else { return };
    let store = reopen(&dir.join("journal.db")).unwrap();
    for _ in 0..2 {
        assert_eq!(check_live(&store).unwrap().size, 13);
        let refused = store.append(batch([issued(60)])).unwrap_err();
        assert!(matches!(refused, AppendError::Journal(JournalError::ReadOnly(_))), "{refused}");
    }
    let made = SqliteStore::create(&dir.join("new.db"), signer()).unwrap_err();
    assert!(matches!(made, JournalError::ReadOnly(_)), "{made}");
}

#[test]
fn child_on_an_unfinished_copy() {
    let Some(dir) = given_dir() else { return };
    match reopen(&dir.join("journal.db")) {
        // Never the journal without its last entries.
        Ok(store) => assert_eq!(check_live(&store).unwrap().size, 13),
        Err(error) => assert!(matches!(error, JournalError::ReadOnly(_)), "{error}"),
    }
}
