//! Principals and keys in the journal: kept with the entries that say so, refused when they cannot
//! be, and added to journals that were made before there were any.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::path::Path;

use common::{
    Journal, NOW, added, batch, check, check_live, created, issued, journal, key_id, key_revoked,
    removed, reopen, retired,
};
use countersign_journal::{AppendError, Batch, Conflict, Expect, JournalError, People, Store};
use countersign_model::KeyStatus;
use rusqlite::Connection;

fn is_unrecordable(error: &AppendError) -> bool {
    matches!(error, AppendError::Journal(JournalError::Unrecordable(_)))
}

#[test]
fn principals_and_keys_are_kept_with_the_entries() {
    let journal = journal(4);
    assert_eq!(journal.store.people().unwrap(), People::default());
    journal.append([added("human:ada"), added("agent:a"), created(2, "agent:a")]);
    journal.append([retired(2, 1000), issued(9)]);
    let people = journal.store.people().unwrap();
    assert_eq!(people.version, 8, "the size of the journal after the last fact about them");
    assert_eq!(journal.store.people_version().unwrap(), 8);
    let key = people.book.get(&key_id(2)).unwrap();
    assert_eq!((key.status(NOW), key.expires_at), (KeyStatus::Retiring, NOW.plus_millis(1000)));
    journal.append([removed("agent:a")]);
    let people = journal.store.people().unwrap().book;
    assert_eq!(people.get(&key_id(2)).unwrap().status(NOW), KeyStatus::Revoked);
    assert!(people.knows(&"human:ada".parse().unwrap()));
    check_live(&journal.store).unwrap();
    assert_eq!(check(&journal.export(0..10)).unwrap().end, 10);
}

#[test]
fn a_batch_with_an_impossible_fact_leaves_nothing() {
    let journal = journal(4);
    journal.append([added("agent:a"), created(2, "agent:a")]);
    let before = (journal.store.people().unwrap(), journal.store.head().unwrap());
    for impossible in
        [created(2, "agent:a"), created(3, "agent:b"), key_revoked(7), added("agent:a")]
    {
        let refused = journal.store.append(batch([added("agent:new"), impossible])).unwrap_err();
        assert!(is_unrecordable(&refused), "{refused}");
        assert_eq!((journal.store.people().unwrap(), journal.store.head().unwrap()), before);
    }
    check_live(&journal.store).unwrap();
}

#[test]
fn what_was_decided_from_an_older_version_is_not_written() {
    let journal = journal(4);
    let at =
        |version| Batch { expect: vec![Expect::PeopleAt(version)], ..batch([added("agent:b")]) };
    journal
        .store
        .append(Batch { expect: vec![Expect::PeopleAt(0)], ..batch([added("agent:a")]) })
        .unwrap();
    assert_eq!(journal.store.append(at(0)), Err(Conflict::People.into()));
    // Other facts do not count.
    journal.append([issued(9)]);
    journal.store.append(at(5)).unwrap();
}

/// Takes a journal back to what version 1.0 made.
fn age(path: &Path) {
    let raw = Connection::open(path).unwrap();
    let sql = "DROP TABLE principals; DROP TABLE key_records; DROP TABLE versions;
        DROP TABLE policies; DROP INDEX calls_waiting;
        PRAGMA user_version = 65536;";
    raw.execute_batch(sql).unwrap();
}

fn version(journal: &Path) -> i64 {
    let raw = Connection::open(journal).unwrap();
    raw.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn aged() -> (tempfile::TempDir, std::path::PathBuf) {
    let journal = journal(12);
    let path = journal.path();
    let dir = journal.close();
    age(&path);
    (dir, path)
}

#[test]
fn a_journal_of_version_1_0_is_read_as_it_is_and_grows_with_the_first_write() {
    let (dir, path) = aged();
    let store = reopen(&path).unwrap();
    assert_eq!(store.people().unwrap(), People::default());
    assert_eq!(store.people_version().unwrap(), 0);
    check_live(&store).unwrap();
    assert_eq!(version(&path), 0x1_0000, "reading changes nothing");
    store.append(batch([issued(900)])).unwrap();
    assert_eq!(version(&path), 0x1_0005, "writing makes the tables");
    let waiting = Expect::WaitingBelow { principal: "agent:a".parse().unwrap(), most: 1 };
    store.append(Batch { expect: vec![waiting], ..batch([issued(901)]) }).unwrap();
    // The same process, through the readers that it already had.
    store.append(batch([added("agent:a"), created(2, "agent:a")])).unwrap();
    assert_eq!(store.people().unwrap().version, 16);
    let journal = Journal { dir, store };
    check_live(&journal.store).unwrap();
    assert_eq!(reopen(&path).unwrap().people().unwrap(), journal.store.people().unwrap());
}

#[test]
fn two_processes_may_bring_an_old_journal_up_to_date_at_once() {
    let (_dir, path) = aged();
    let stores = [reopen(&path).unwrap(), reopen(&path).unwrap()];
    std::thread::scope(|scope| {
        for (n, store) in stores.iter().enumerate() {
            scope.spawn(move || store.append(batch([added(&format!("agent:a{n}"))])).unwrap());
        }
    });
    assert_eq!(stores[0].people().unwrap().book.principals().count(), 2);
    check_live(&stores[1]).unwrap();
}

/// A table that is gone is damage, not an empty table: keys that were revoked would be forgotten.
#[test]
fn a_missing_table_of_this_version_is_no_empty_table() {
    let journal = journal(4);
    journal.append([added("agent:a")]);
    journal.raw().execute_batch("DROP TABLE key_records").unwrap();
    assert!(journal.store.people().is_err());
}

#[test]
fn a_newer_minor_version_is_left_alone() {
    let journal = journal(4);
    let path = journal.path();
    let _dir = journal.close();
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 65545").unwrap();
    reopen(&path).unwrap().append(batch([added("agent:a")])).unwrap();
    assert_eq!(version(&path), 0x1_0009);
}
