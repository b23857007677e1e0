//! Policy sets in the journal: on record once, whoever says so, and absent from older journals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{adopted, batch, check_live, journal, reopen};
use countersign_journal::Store;
use countersign_model::event::Fact;
use countersign_model::{Digest, PolicyAdopted, PolicyEvent};
use rusqlite::Connection;

fn told(fact: &Fact) -> PolicyAdopted {
    let Fact::Policy(PolicyEvent::Adopted(adopted)) = fact else { panic!("{fact:?}") };
    adopted.clone()
}

#[test]
fn sets_are_listed_in_the_order_in_which_they_were_taken_up() {
    let journal = journal(4);
    assert_eq!(journal.store.policies().unwrap(), []);
    let facts = ["b", "a", "c"].map(|text| adopted(text, 1_000));
    journal.append(facts.clone());
    let expected: Vec<_> = facts.iter().map(told).collect();
    assert_eq!(journal.store.policies().unwrap(), expected);
    assert!(journal.store.has_policy(&Digest::of(b"a")).unwrap());
    assert!(!journal.store.has_policy(&Digest::of(b"d")).unwrap());
    check_live(&journal.store).unwrap();
}

#[test]
fn a_set_that_two_hosts_take_up_is_kept_as_the_first_said() {
    let journal = journal(4);
    let (first, second) = (adopted("a", 1_000), adopted("a", 2_000));
    journal.append([first.clone(), second]);
    assert_eq!(journal.store.policies().unwrap(), [told(&first)]);
    check_live(&journal.store).unwrap();
}

/// What version 1.1 made: everything but the table of policy sets.
#[test]
fn a_journal_of_version_1_1_is_read_as_it_is_and_grows_with_the_first_write() {
    let journal = journal(12);
    let path = journal.path();
    let _dir = journal.close();
    let sql = "DROP TABLE policies; PRAGMA user_version = 65537;";
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    let store = reopen(&path).unwrap();
    assert_eq!(store.policies().unwrap(), []);
    assert!(!store.has_policy(&Digest::of(b"a")).unwrap());
    store.append(batch([adopted("a", 1_000)])).unwrap();
    assert!(store.has_policy(&Digest::of(b"a")).unwrap());
    assert_eq!(reopen(&path).unwrap().policies().unwrap().len(), 1);
}

/// A table that is gone is damage, not an empty table.
#[test]
fn a_missing_table_of_this_version_is_no_empty_table() {
    let journal = journal(4);
    journal.raw().execute_batch("DROP TABLE policies").unwrap();
    assert!(journal.store.policies().is_err());
}
