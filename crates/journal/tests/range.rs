//! A look at a stretch of the journal: bounded, and it finds what was changed in it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{journal, key, stranger};
use countersign_journal::Store as _;
use countersign_journal::range::{Reach, walk};

const FAR: Reach = Reach { entries: u64::MAX, bytes: usize::MAX };

#[test]
fn every_stretch_of_a_whole_journal_is_sound() {
    let journal = journal(40);
    let size = journal.store.head().unwrap().size;
    for from in 0..size {
        for to in from..size {
            let walked = walk(&journal.store, &key(), (from, to), FAR).unwrap();
            assert!(walked.is_sound(), "{walked:?}");
            assert_eq!((walked.from, walked.to), (from, to));
        }
    }
    let beyond = walk(&journal.store, &key(), (size + 5, u64::MAX), FAR).unwrap();
    assert_eq!((beyond.from, beyond.to, beyond.is_sound()), (size - 1, size - 1, true));
    assert!(!walk(&journal.store, stranger().verifier(), (0, 3), FAR).unwrap().is_sound());
}

#[test]
fn one_look_goes_only_so_far_and_always_forward() {
    let journal = journal(40);
    let few = Reach { entries: 3, ..FAR };
    let walked = walk(&journal.store, &key(), (5, u64::MAX), few).unwrap();
    assert_eq!((walked.from, walked.to, walked.is_sound()), (5, 7, true));
    let small = Reach { bytes: 1, ..FAR };
    let walked = walk(&journal.store, &key(), (5, u64::MAX), small).unwrap();
    assert_eq!((walked.from, walked.to, walked.is_sound()), (5, 5, true));
}

#[test]
fn every_change_is_found_in_every_stretch_that_holds_it() {
    let journal = journal(20);
    let size = journal.store.head().unwrap().size;
    let raw = journal.raw();
    for seq in 0..size {
        let sql = "SELECT body FROM entries WHERE seq = ?1";
        let genuine: Vec<u8> = raw.query_row(sql, [seq], |row| row.get(0)).unwrap();
        let mut changed = genuine.clone();
        let at = changed.len() - 2;
        changed[at] = if changed[at] == b'0' { b'1' } else { b'0' };
        let put = |body: &[u8]| {
            let sql = "UPDATE entries SET body = ?2 WHERE seq = ?1";
            raw.execute(sql, rusqlite::params![seq, body]).unwrap();
        };
        put(&changed);
        for from in 0..=seq {
            for to in seq..size {
                let walked = walk(&journal.store, &key(), (from, to), FAR).unwrap();
                assert!(!walked.is_sound() && !walked.fits, "{seq} in {from}..={to}: {walked:?}");
                assert!(!walked.breaks.is_empty(), "{seq} in {from}..={to}");
                let near = walked.breaks.iter().all(|b| (seq..=seq + 1).contains(&b.seq));
                assert!(near, "{seq}: {walked:?}");
            }
        }
        put(&genuine);
    }
}
