//! The live file: what was done to it behind our back is found, and what is no journal is refused
//! by name and left as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs;
use std::path::Path;

use common::{batch, check, check_live, issued, journal, reopen, signer, stranger};
use countersign_journal::verify::Fault;
use countersign_journal::{AppendError, JournalError, SqliteStore, Store};
use rusqlite::Connection;

/// Does `sql` to a closed journal of 12 entries.
fn after(sql: &str) -> (tempfile::TempDir, Result<SqliteStore, JournalError>) {
    let journal = journal(12);
    let path = journal.path();
    let dir = journal.close();
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (dir, reopen(&path))
}

fn live_fault(sql: &str) -> Fault {
    let (_dir, store) = after(sql);
    check_live(&store.unwrap()).unwrap_err()
}

#[test]
fn a_changed_or_deleted_row_is_found_and_named() {
    for seq in [0, 5, 10] {
        let changed = format!(
            "UPDATE entries SET body = replace(body, '1770653101000', '1770653101009') WHERE seq = {seq}"
        );
        assert_eq!(live_fault(&changed).entry(), Some(seq), "changed, as text");
        let blob = format!(
            "UPDATE entries SET body = CAST(replace(body, '1770653101000', '1770653101009') AS BLOB) WHERE seq = {seq}"
        );
        assert_eq!(live_fault(&blob).entry(), Some(seq), "changed, as a blob");
        let removed = format!("DELETE FROM entries WHERE seq = {seq}");
        assert_eq!(live_fault(&removed).entry(), Some(seq), "removed");
        let emptied = format!("UPDATE entries SET body = 7 WHERE seq = {seq}");
        assert_eq!(live_fault(&emptied).entry(), Some(seq), "another type");
    }
    // The opening cost does not grow, so it cannot have looked at entry 5.
    let (_dir, store) = after("UPDATE entries SET body = x'00' WHERE seq = 5");
    let store = store.unwrap();
    let error = store.visit(0..12, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error, JournalError::Corrupt("entry 5 does not match its hash".into()));
    let (_dir, store) = after("UPDATE entries SET hash = 'text' WHERE seq = 5");
    let error = store.unwrap().visit(0..12, &mut |_| Ok(())).unwrap_err();
    assert!(matches!(error, JournalError::Corrupt(_)), "{error}");
    let (_dir, store) = after("DELETE FROM entries WHERE seq BETWEEN 3 AND 9");
    let mut seen = Vec::new();
    let walk = store.unwrap().visit(0..u64::MAX, &mut |entry| {
        seen.push(entry.entry.seq);
        Ok(())
    });
    assert_eq!((walk, seen), (Ok(()), vec![0, 1, 2, 10, 11]));
}

#[test]
fn a_cut_tail_or_a_changed_head_is_refused_at_the_door() {
    for sql in [
        "DELETE FROM entries WHERE seq = 11",
        "DELETE FROM entries WHERE seq > 5",
        "DELETE FROM entries",
        "DELETE FROM head",
        "UPDATE entries SET body = x'00' WHERE seq = 11",
        "UPDATE entries SET hash = zeroblob(32) WHERE seq = 11",
        "UPDATE head SET size = 11",
        "UPDATE head SET size = -1",
        "UPDATE head SET hash = zeroblob(32)",
        "UPDATE head SET hash = x'00'",
        "UPDATE head SET peaks = zeroblob(64)",
        "UPDATE head SET peaks = peaks || x'00'",
        "UPDATE head SET checkpoint = replace(checkpoint, char(10) || '12', char(10) || '11')",
        "UPDATE head SET checkpoint = ''",
        "INSERT INTO entries SELECT 12, hash, body FROM entries WHERE seq = 11",
        "DELETE FROM entries WHERE seq = 11; UPDATE head SET size = 11",
    ] {
        let (_dir, store) = after(sql);
        assert!(matches!(store, Err(JournalError::Corrupt(_))), "{sql}: {store:?}");
    }
    let journal = journal(12);
    let other = SqliteStore::open(&journal.path(), stranger());
    assert!(matches!(other, Err(JournalError::Corrupt(_))), "{other:?}");
}

/// Somebody changes the file under a running process: it must not sign what it finds.
#[test]
fn nothing_is_signed_on_top_of_a_change() {
    for sql in [
        "DELETE FROM entries WHERE seq = 11",
        "DELETE FROM entries; DELETE FROM head",
        "UPDATE head SET hash = zeroblob(32)",
        "UPDATE head SET peaks = zeroblob(64)",
        "UPDATE entries SET body = x'00' WHERE seq = 11",
        "INSERT INTO entries SELECT 12, hash, body FROM entries WHERE seq = 11",
    ] {
        for reopened in [false, true] {
            let mut journal = journal(12);
            if reopened {
                journal.store = reopen(&journal.path()).unwrap();
            }
            journal.raw().execute_batch(sql).unwrap();
            let refused = journal.store.append(batch([issued(50)]));
            let corrupt = matches!(refused, Err(AppendError::Journal(JournalError::Corrupt(_))));
            assert!(corrupt, "{sql}: {refused:?}");
            let again = journal.store.append(batch([issued(51)]));
            assert_eq!(again, Err(JournalError::Poisoned.into()), "{sql}");
        }
    }
}

/// An older copy is put in place while a process is at work: its signature is good, but it is old.
#[test]
fn a_journal_that_was_cut_back_in_use_is_refused() {
    let journal = journal(12);
    let raw = journal.raw();
    raw.execute_batch("CREATE TABLE old AS SELECT * FROM head").unwrap();
    journal.append([issued(50)]);
    raw.execute_batch("DELETE FROM entries WHERE seq = 12; REPLACE INTO head SELECT * FROM old")
        .unwrap();
    let refused = journal.store.append(batch([issued(51)])).unwrap_err();
    let why = "it was cut back while it was in use".to_owned();
    assert_eq!(refused, JournalError::Corrupt(why).into());
}

/// The kept levels of the tree are a cache: a wrong one spoils proofs, never the journal.
#[test]
fn a_changed_node_is_found_and_a_planted_one_replaced() {
    let journal = journal(300);
    journal.raw().execute_batch("INSERT INTO nodes VALUES (8, 1, zeroblob(32))").unwrap();
    journal.append((1000..1300).map(issued));
    assert_eq!(check(&journal.export(520..600)).unwrap().size, 600);
    journal.raw().execute_batch("UPDATE nodes SET hash = zeroblob(32) WHERE idx = 0").unwrap();
    assert_eq!(check(&journal.export(520..600)), Err(Fault::WrongRoot { last: 599 }));
    assert_eq!(check_live(&journal.store).unwrap().size, 600);
}

fn refused(path: &Path) -> JournalError {
    let before = fs::read(path).unwrap();
    let error = SqliteStore::open(path, signer()).unwrap_err();
    assert_eq!(fs::read(path).unwrap(), before, "the file was touched");
    error
}

#[test]
fn what_is_no_journal_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.db");
    let missing = SqliteStore::open(&path, signer()).unwrap_err();
    assert!(matches!(&missing, JournalError::Corrupt(why) if why.ends_with("is missing")));
    assert!(!path.exists(), "opening must not make a journal");

    for content in [&b""[..], b"not a journal at all", &[0xff; 8192]] {
        fs::write(&path, content).unwrap();
        assert!(matches!(refused(&path), JournalError::Corrupt(_)));
        let made = SqliteStore::create(&path, signer());
        assert!(made.is_err(), "a file that exists is never taken over");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    for mode in ["DELETE", "WAL"] {
        fs::remove_file(&path).unwrap();
        let foreign = Connection::open(&path).unwrap();
        foreign.pragma_update(None, "journal_mode", mode).unwrap();
        foreign.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        drop(foreign);
        let foreign = JournalError::Corrupt("it is not a Countersign journal".into());
        assert_eq!(refused(&path), foreign, "{mode}");
    }
}

#[test]
fn another_major_version_is_refused_and_a_later_minor_one_read() {
    let version = |version: i32| {
        let (dir, _) = after(&format!("PRAGMA user_version = {version}"));
        let path = dir.path().join("journal.db");
        let before = fs::read(&path).unwrap();
        let opened = reopen(&path);
        assert_eq!(fs::read(&path).unwrap(), before);
        opened.map(|store| check_live(&store).unwrap().size)
    };
    let found = |found: &str| {
        Err(JournalError::Incompatible { found: found.into(), supported: "1.5".into() })
    };
    assert_eq!(version(2 << 16), found("2.0"));
    assert_eq!(version((2 << 16) | 3), found("2.3"));
    assert_eq!(version(0), found("0.0"));
    assert_eq!(version((1 << 16) | 7), Ok(12));
}

#[test]
fn a_torn_file_is_refused_or_found() {
    let journal = journal(300);
    let path = journal.path();
    let dir = journal.close();
    let whole = fs::read(&path).unwrap();
    for kept in [1, 99, 100, 4096, whole.len() / 2, whole.len() - 4096, whole.len() - 1] {
        fs::write(&path, &whole[..kept]).unwrap();
        match reopen(&path) {
            Err(error) => assert!(matches!(error, JournalError::Corrupt(_)), "{kept}: {error}"),
            // SQLite may not miss the last page until it is asked for it.
            Ok(store) => {
                let walk = store.visit(0..300, &mut |_| Ok(()));
                assert!(matches!(walk, Err(JournalError::Corrupt(_))), "{kept}: {walk:?}");
            }
        }
    }
    drop(dir);
}

#[test]
fn a_reader_needs_no_files_beside_the_journal() {
    let journal = journal(12);
    let path = journal.path();
    let dir = journal.close();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "closed: no -wal and no -shm");
    let store = reopen(&path).unwrap();
    assert_eq!(check_live(&store).unwrap().size, 12);
    store.append(batch([issued(50)])).unwrap();
    assert_eq!(check_live(&store).unwrap().size, 13);
}
