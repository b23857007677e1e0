//! Whatever is appended in whatever order, every range of it verifies.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{batch, call_fact, check, check_live, home, issued, life, signer};
use countersign_journal::{SqliteStore, Store, export};
use countersign_model::event::{CallEvent, Fact};
use proptest::prelude::*;

/// Whose turn it is, and whether what is there so far is committed.
fn turns() -> impl Strategy<Value = Vec<(usize, bool)>> {
    prop::collection::vec((0usize..6, any::<bool>()), 0..60)
}

/// Calls take turns at telling their lives; an idle turn is a grant.
fn interleaved(turns: &[(usize, bool)]) -> Vec<Vec<Fact>> {
    let mut lives: Vec<std::vec::IntoIter<CallEvent>> =
        (0..5).map(|n| life(n).into_iter()).collect();
    let mut batches = vec![vec![home()]];
    for (turn, &(who, commit)) in turns.iter().enumerate() {
        if commit {
            batches.push(Vec::new());
        }
        let event = lives.get_mut(who).and_then(Iterator::next);
        let fact = event.map_or_else(|| issued(100 + turn as u64), |e| call_fact(who as u64, e));
        batches.last_mut().unwrap().push(fact);
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_range_of_every_story_verifies(turns in turns(), a in 0u64..64, b in 0u64..64) {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::create(&dir.path().join("journal.db"), signer()).unwrap();
        let mut notes = Vec::new();
        for facts in interleaved(&turns) {
            notes.push(store.append(batch(facts)).unwrap().checkpoint);
        }
        let size = check_live(&store).unwrap().size;
        prop_assert_eq!(size, 1 + turns.len() as u64);
        let verified = check(&common::export_of(&store, a.min(b)..a.max(b))).unwrap();
        prop_assert_eq!((verified.first, verified.end), (a.min(b).min(size), a.max(b).min(size)));
        let whole = common::export_of(&store, 0..size);
        let verified = export::verify(&mut &*whole, &common::key(), &notes);
        prop_assert!(verified.is_ok(), "every checkpoint on the way is continued: {verified:?}");
        let mut proof = Vec::new();
        export::prove(&store, a % size).unwrap().write(&mut proof).unwrap();
        prop_assert_eq!(check(&proof).unwrap().first, a % size);
    }
}
