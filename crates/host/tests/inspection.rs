//! A home is sound only if its tables say what its journal says.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::Bench;
use countersign_host::home::Layout;
use countersign_host::inspect::{Unsound, verify_home};
use countersign_host::{Home, Host};
use countersign_model::Failure;
use rusqlite::Connection;
use serde_json::json;

/// A home in which everything was used once.
fn lived_in() -> (Bench, Host) {
    let bench = Bench::new();
    let host = bench.host();
    let grants = bench.grant_all(&host);
    bench.done(&host, "state.put", &json!({"key": "a", "value": 1}));
    bench.done(&host, "state.put", &json!({"key": "b", "value": 2}));
    bench.done(&host, "state.delete", &json!({"key": "b"}));
    bench.call(&host, "state.get", &json!({"key": 1}));
    host.revoke_grant(*grants.last().unwrap(), common::operator(), None).unwrap();
    (bench, host)
}

fn inspect(bench: &Bench) -> Result<u64, String> {
    let home = Home::open_for_inspection(&bench.home()).unwrap();
    match verify_home(&home, &[], |_| {}) {
        Ok(verified) => Ok(verified.size),
        Err(unsound @ Unsound::Cache { .. }) => Err(Failure::from(unsound).message),
        Err(Unsound::Unreadable(error)) => Err(error.to_string()),
        Err(other) => panic!("{other:?}"),
    }
}

#[test]
fn an_untouched_home_is_sound() {
    let (bench, host) = lived_in();
    let size = host.home().store.head().unwrap().size;
    assert_eq!(inspect(&bench), Ok(size));
}

#[test]
fn an_edited_table_is_named() {
    for (sql, named) in [
        ("UPDATE grants SET revoked_at = NULL", "grant "),
        ("DELETE FROM grants WHERE revoked_at IS NOT NULL", "the number of grants"),
        ("DELETE FROM keys", "the number of state keys"),
        ("UPDATE keys SET value = X'39'", "state key `a`"),
        ("UPDATE keys SET key = 'c'", "state key `c`"),
        (
            "UPDATE calls SET summary =
             CAST(replace(CAST(summary AS TEXT), 'state.put', 'state.get') AS BLOB)",
            "execution ",
        ),
        (
            "INSERT INTO calls SELECT zeroblob(16), tool, principal, state, events, terminal,
             declared_at, entries, summary FROM calls LIMIT 1",
            "the number of calls",
        ),
    ] {
        let (bench, host) = lived_in();
        drop(host);
        let raw = Connection::open(Layout(&bench.home()).journal()).unwrap();
        raw.execute_batch(sql).unwrap();
        let said = inspect(&bench).unwrap_err();
        assert!(said.contains(named), "{sql}: {said}");
    }
}

#[test]
fn a_value_that_was_edited_is_never_handed_out() {
    let (bench, host) = lived_in();
    let raw = Connection::open(Layout(&bench.home()).journal()).unwrap();
    raw.execute_batch("UPDATE keys SET value = X'39' WHERE key = 'a'").unwrap();
    let outcome = bench.call(&host, "state.get", &json!({"key": "a"}));
    assert_eq!(outcome.result.unwrap_err().code, "JOURNAL_CORRUPT");
}
