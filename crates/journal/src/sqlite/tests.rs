//! What happens inside one group of batches. Here and not beside the other tests, because only here
//! can be seen that the batches really are in one group.

#[path = "../../tests/common/mod.rs"]
mod common;

use std::sync::mpsc;
use std::thread;

use common::{
    Journal, batch, call_fact, call_id, check_live, declared, grant_id, issued, journal, summary,
};
use countersign_model::{Digest, Failure};

use super::SqliteStore;
use crate::entry::MAX_ENTRY;
use crate::error::{AppendError, Conflict, JournalError};
use crate::store::{Appended, Batch, Expect, Guard, KeyChange, Store};

type Outcome = Result<Appended, AppendError>;

impl SqliteStore {
    fn queued(&self) -> usize {
        self.queue.len()
    }
}

/// Appends all batches in one group: they queue up behind a batch whose guard waits for them.
fn in_one_group(store: &SqliteStore, batches: Vec<Batch>) -> Vec<Outcome> {
    let (inside, is_inside) = mpsc::channel();
    let (go, may_go) = mpsc::channel::<()>();
    let first = Guard::new(move || {
        inside.send(()).unwrap();
        may_go.recv().map_err(|e| Failure::state("TEST", e.to_string()))
    });
    thread::scope(|scope| {
        let leader = Batch { guard: Some(first), ..batch([issued(9_999)]) };
        let leader = scope.spawn(move || store.append(leader));
        is_inside.recv().unwrap();
        let mut waiting = Vec::new();
        for batch in batches {
            let before = store.queued();
            let thread = scope.spawn(move || store.append(batch));
            // What cannot even be encoded is refused before it queues.
            while store.queued() == before && !thread.is_finished() {
                thread::yield_now();
            }
            waiting.push(thread);
        }
        go.send(()).unwrap();
        leader.join().unwrap().unwrap();
        waiting.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn moved() -> Failure {
    Failure::state("TEST", "moved")
}

fn conflict(outcome: &Outcome) -> &Conflict {
    match outcome {
        Err(AppendError::Conflict(conflict)) => conflict,
        other => panic!("{other:?}"),
    }
}

/// Something of everything, so that whatever is left behind can be seen.
fn loaded(n: u64) -> Batch {
    let value = format!("value {n}").into_bytes();
    Batch {
        payloads: vec![(Digest::of(&value), value.clone())],
        keys: vec![KeyChange { key: format!("key {n}"), value: Some(value) }],
        call: Some(summary(n, 1)),
        claims: vec![format!("claim {n}")],
        ..batch([call_fact(n, declared()), issued(n)])
    }
}

fn is_there(journal: &Journal, n: u64) -> [bool; 5] {
    let (store, value) = (&journal.store, format!("value {n}").into_bytes());
    let claim = Batch { claims: vec![format!("claim {n}")], ..Batch::default() };
    [
        store.payload(call_id(n), &Digest::of(&value)).unwrap().is_some(),
        store.key(&format!("key {n}")).unwrap().is_some(),
        store.call(call_id(n)).unwrap().is_some()
            && !store.call_entries(call_id(n)).unwrap().is_empty(),
        store.grants().unwrap().iter().any(|row| row.grant.body.id == grant_id(n)),
        store.append(claim).is_err(),
    ]
}

#[test]
fn a_refused_batch_leaves_nothing_and_harms_no_other() {
    let journal = journal(4);
    let (store, start) = (&journal.store, 4);
    store
        .append(Batch {
            claims: vec!["taken".into()],
            call: Some(summary(10, 1)),
            ..batch([call_fact(10, declared())])
        })
        .unwrap();
    let with = |n: u64, expect: Expect| Batch { expect: vec![expect], ..loaded(n) };
    let huge =
        countersign_model::event::Fact::Grant(countersign_model::event::GrantEvent::Revoked {
            grant: grant_id(2),
            by: "human:ada".parse().unwrap(),
            at: common::NOW,
            reason: Some("x".repeat(MAX_ENTRY)),
        });
    let mut taken = loaded(26);
    taken.claims.push("taken".into());
    let mut too_long = loaded(28);
    too_long.facts.push((common::NOW, huge));
    let mut twice = loaded(29);
    twice.facts.push((common::NOW, issued(1)));
    let outcomes = in_one_group(
        store,
        vec![
            loaded(20),
            with(21, Expect::CallAt { execution: call_id(10), events: 2 }),
            with(22, Expect::CallAt { execution: call_id(22), events: 1 }),
            with(23, Expect::GrantLive(grant_id(1))),
            with(24, Expect::GrantLive(grant_id(77))),
            with(25, Expect::KeyIs { key: "key 20".into(), digest: None }),
            taken,
            Batch { guard: Some(Guard::new(|| Err(moved()))), ..loaded(27) },
            too_long,
            twice,
            Batch { guard: Some(Guard::new(|| panic!("on purpose"))), ..loaded(30) },
            with(31, Expect::GrantLive(grant_id(20))),
            // Sees what the batches before it in the group did.
            with(32, Expect::KeyIs { key: "key 20".into(), digest: Some(Digest::of(b"value 20")) }),
            with(33, Expect::CallAt { execution: call_id(20), events: 1 }),
        ],
    );
    assert_eq!(conflict(&outcomes[1]), &Conflict::Call(call_id(10)));
    assert_eq!(conflict(&outcomes[2]), &Conflict::Call(call_id(22)));
    assert_eq!(conflict(&outcomes[3]), &Conflict::Grant(grant_id(1)));
    assert_eq!(conflict(&outcomes[4]), &Conflict::Grant(grant_id(77)));
    assert_eq!(conflict(&outcomes[5]), &Conflict::Key("key 20".into()));
    let claimed = Conflict::Claimed { resource: "taken".into(), by: call_id(10) };
    assert_eq!(conflict(&outcomes[6]), &claimed);
    assert_eq!(conflict(&outcomes[7]), &Conflict::Guard(moved()));
    for unrecordable in [&outcomes[8], &outcomes[9]] {
        let error = unrecordable.as_ref().unwrap_err();
        assert!(matches!(error, AppendError::Journal(JournalError::Unrecordable(_))), "{error}");
    }
    assert!(matches!(conflict(&outcomes[10]), Conflict::Guard(_)));
    for n in 21..=30 {
        assert_eq!(is_there(&journal, n), [false; 5], "batch {n}");
    }
    let first = start + 2;
    let good: Vec<_> = [0, 11, 12, 13].map(|at: usize| outcomes[at].as_ref().unwrap()).into();
    for (at, appended) in (0u64..).zip(&good) {
        assert_eq!(appended.entries, first + 2 * at..first + 2 * at + 2);
        assert_eq!(appended.checkpoint, good[0].checkpoint, "one group, one commit");
    }
    for n in [20, 31, 32, 33] {
        assert_eq!(is_there(&journal, n), [true; 5], "batch {n}");
    }
    assert_eq!(store.head().unwrap().size, first + 8);
    check_live(store).unwrap();
}

#[test]
fn claims_are_held_until_they_are_released() {
    let journal = journal(4);
    let claim = |n: u64| Batch {
        claims: vec!["/srv/a".into()],
        call: Some(summary(n, 1)),
        ..batch([call_fact(n, declared())])
    };
    journal.store.append(claim(20)).unwrap();
    assert!(matches!(conflict(&journal.store.append(claim(21))), Conflict::Claimed { .. }));
    let release = Batch { release_claims: Some(call_id(20)), ..Batch::default() };
    journal.store.append(release).unwrap();
    journal.store.append(claim(21)).unwrap();
}

/// A group is bounded; whoever does not fit is led by the first of the rest.
#[test]
fn more_than_a_group_can_hold_is_committed_in_turns() {
    let journal = journal(4);
    let outcomes = in_one_group(&journal.store, (20..320).map(|n| batch([issued(n)])).collect());
    let mut seqs: Vec<_> = outcomes.iter().map(|o| o.as_ref().unwrap().entries.start).collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (5..305).collect::<Vec<_>>());
    let mut notes: Vec<_> = outcomes.iter().map(|o| &o.as_ref().unwrap().checkpoint).collect();
    notes.sort_unstable();
    notes.dedup();
    assert_eq!(notes.len(), 2);
    check_live(&journal.store).unwrap();
}

#[test]
fn a_store_whose_write_failed_on_the_way_to_the_disk_refuses_to_go_on() {
    let journal = journal(4);
    let before = journal.store.head().unwrap();
    assert!(super::is_doubtful(&Err(JournalError::Internal("disk I/O error".into()).into())));
    assert!(super::is_doubtful(&Err(JournalError::Corrupt("malformed".into()).into())));
    for harmless in [
        JournalError::Full,
        JournalError::Busy,
        JournalError::ReadOnly(String::new()),
        JournalError::Unrecordable(String::new()),
    ] {
        assert!(!super::is_doubtful(&Err(harmless.into())));
    }
    // A table that is gone stands for all that SQLite does not expect.
    journal.raw().execute_batch("DROP TABLE grants").unwrap();
    let failed = journal.store.append(batch([issued(50)]));
    assert!(matches!(failed, Err(AppendError::Journal(JournalError::Internal(_)))), "{failed:?}");
    let refused = journal.store.append(batch([issued(51)]));
    assert_eq!(refused, Err(JournalError::Poisoned.into()));
    assert_eq!(journal.store.head().unwrap(), before, "reading goes on");
    check_live(&journal.store).unwrap();
}

#[test]
fn a_journal_that_stays_locked_is_busy_and_no_more_than_that() {
    let journal = journal(4);
    let raw = journal.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = journal.store.append(batch([issued(50)]));
    assert_eq!(refused, Err(JournalError::Busy.into()));
    assert_eq!(check_live(&journal.store).unwrap().size, 4, "reading waits for nobody");
    raw.execute_batch("COMMIT").unwrap();
    journal.append([issued(50)]);
    assert_eq!(check_live(&journal.store).unwrap().size, 5);
}

#[test]
fn names_inside_a_uri_stay_names() {
    let odd = super::schema::frozen(std::path::Path::new("/a b/50%#1?x=é"));
    assert_eq!(odd, "file:/a%20b/50%25%231%3Fx%3D%C3%A9?immutable=1");
}

#[test]
fn what_could_not_be_read_again_is_not_recorded() {
    let journal = journal(4);
    let deep = (0..200).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
    let error = countersign_model::Failure::timeout("TIMEOUT", "slow").details(deep);
    let event = countersign_model::event::CallEvent::Failed { error };
    for fact in [call_fact(20, event), common::revoked(77)] {
        let refused = journal.store.append(batch([fact])).unwrap_err();
        let expected = matches!(refused, AppendError::Journal(JournalError::Unrecordable(_)));
        assert!(expected, "{refused}");
    }
    journal.append([common::revoked(2), common::revoked(2)]);
    assert_eq!(check_live(&journal.store).unwrap().size, 6);
}

/// Nothing short of pulling the plug shows the difference, so the setting itself is pinned.
#[test]
fn a_commit_is_on_the_disk_when_it_returns() {
    let journal = journal(4);
    for connection in [super::schema::open_writer(&journal.path()).unwrap(), fresh()] {
        let synchronous =
            connection.pragma_query_value(None, "synchronous", |r| r.get::<_, i64>(0));
        let mode = connection.pragma_query_value(None, "journal_mode", |r| r.get::<_, String>(0));
        assert_eq!((synchronous.unwrap(), mode.unwrap().as_str()), (2, "wal"));
    }
}

fn fresh() -> rusqlite::Connection {
    let dir = tempfile::tempdir().unwrap();
    super::schema::create(&dir.path().join("journal.db")).unwrap()
}
