//! Principals and keys: what the book makes of facts, who is let in, and that no machine approves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::collections::BTreeSet;

use countersign_model::digest::canonical_json;
use countersign_model::enrol::{
    check_addition, check_human, check_key, check_known, check_rotation, find_key,
};
use countersign_model::event::Fact;
use countersign_model::{
    HeldKey, KeyBook, KeyEvent, KeyId, KeyRecord, KeyScope, KeyStatus, Principal, PrincipalEvent,
    Timestamp, Token,
};
use ed25519_dalek::{Signer as _, SigningKey};
use proptest::prelude::*;

const NOW: Timestamp = Timestamp::from_millis(1_770_653_101_000);
const HOUR: i64 = 3_600_000;

fn who(text: &str) -> Principal {
    text.parse().unwrap()
}

fn key_id(n: u64) -> KeyId {
    format!("019a7c3e-0000-7000-8000-{n:012x}").parse().unwrap()
}

fn token(n: u64) -> Token {
    Token::new(key_id(n), [n as u8; 32])
}

fn scopes(text: &str) -> BTreeSet<KeyScope> {
    text.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect()
}

fn record(n: u64, principal: &str, of: &str) -> KeyRecord {
    let token = token(n);
    KeyRecord {
        created_at: NOW,
        created_by: who("human:ada"),
        expires_at: NOW.plus_millis(10 * HOUR),
        hash: token.hash(),
        id: token.id(),
        principal: who(principal),
        replaces: None,
        scopes: scopes(of),
        tenant: None,
        verifier: token.verifier(),
    }
}

fn added(principal: &str) -> Fact {
    let (by, principal) = (who("human:ada"), who(principal));
    Fact::Principal(PrincipalEvent::Added { at: NOW, by, description: None, principal })
}

fn removed(principal: &str) -> Fact {
    let (by, principal) = (who("human:ada"), who(principal));
    Fact::Principal(PrincipalEvent::Removed { at: NOW, by, principal, reason: None })
}

fn home() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

fn created(key: KeyRecord) -> Fact {
    let signature = key.sign(&home()).unwrap();
    Fact::Key(KeyEvent::Created { key: Box::new(key), signature })
}

fn revoked(n: u64, at: i64) -> Fact {
    let (at, by) = (NOW.plus_millis(at), who("human:ada"));
    Fact::Key(KeyEvent::Revoked { at, by, key: key_id(n), reason: None })
}

fn retired(n: u64, until: i64) -> Fact {
    let (by, expires_at) = (who("human:ada"), NOW.plus_millis(until));
    Fact::Key(KeyEvent::Retired { at: NOW, by, expires_at, key: key_id(n) })
}

fn book(facts: impl IntoIterator<Item = Fact>) -> KeyBook {
    let mut book = KeyBook::default();
    facts.into_iter().for_each(|fact| book.take_in(&fact).unwrap());
    book
}

/// Ada and an agent, with a key each.
fn two() -> KeyBook {
    book([
        added("human:ada"),
        added("agent:a"),
        created(record(1, "human:ada", "approve,call,read")),
        created(record(2, "agent:a", "call,read")),
    ])
}

fn refusal(book: &KeyBook, token: &Token, at: i64) -> String {
    book.authenticate(token, NOW.plus_millis(at)).unwrap_err().code.into_owned()
}

#[test]
fn a_key_lets_its_holder_in_until_it_expires() {
    let book = two();
    assert_eq!(book.authenticate(&token(2), NOW).unwrap().record.principal, who("agent:a"));
    assert!(book.authenticate(&token(2), NOW.plus_millis(10 * HOUR - 1)).is_ok());
    assert_eq!(refusal(&book, &token(2), 10 * HOUR), "KEY_EXPIRED");
}

/// Whoever has only the id cannot tell a wrong secret from a key that never was, not even when the
/// key was revoked.
#[test]
fn strangers_learn_nothing() {
    let mut book = two();
    let guess = Token::new(key_id(1), [9; 32]);
    assert_eq!(book.authenticate(&guess, NOW), book.authenticate(&token(7), NOW));
    assert_eq!(refusal(&book, &guess, 0), "KEY_UNKNOWN");
    book.take_in(&revoked(1, 0)).unwrap();
    assert_eq!(refusal(&book, &guess, 0), "KEY_UNKNOWN");
    assert_eq!(refusal(&book, &token(1), 0), "KEY_REVOKED");
}

/// At once, and whatever the clocks say: a revocation dated later counts now.
#[test]
fn a_revocation_counts_at_once_and_the_first_one_stays() {
    let mut book = two();
    book.take_in(&revoked(1, 5 * HOUR)).unwrap();
    book.take_in(&revoked(1, 0)).unwrap();
    assert_eq!(refusal(&book, &token(1), 0), "KEY_REVOKED");
    assert_eq!(book.get(&key_id(1)).unwrap().revoked_at, Some(NOW.plus_millis(5 * HOUR)));
    assert!(book.authenticate(&token(2), NOW).is_ok());
}

#[test]
fn a_removed_principal_loses_its_keys_for_ever() {
    let mut book = two();
    book.take_in(&removed("human:ada")).unwrap();
    assert_eq!(refusal(&book, &token(1), 0), "PRINCIPAL_UNKNOWN");
    assert_eq!(book.approver(&key_id(1), NOW).unwrap_err().code, "PRINCIPAL_UNKNOWN");
    book.take_in(&added("human:ada")).unwrap();
    assert_eq!(refusal(&book, &token(1), 0), "KEY_REVOKED", "it begins without keys");
    assert!(book.authenticate(&token(2), NOW).is_ok());
}

#[test]
fn both_keys_of_a_rotation_are_good_until_the_overlap_ends() {
    let mut book = two();
    let next = KeyRecord { replaces: Some(key_id(2)), ..record(3, "agent:a", "call,read") };
    assert_eq!(check_rotation(&book, &key_id(2), NOW).unwrap().record.id, key_id(2));
    book.take_in(&created(next)).unwrap();
    book.take_in(&retired(2, HOUR)).unwrap();
    assert_eq!(book.get(&key_id(2)).unwrap().status(NOW), KeyStatus::Retiring);
    assert!(book.authenticate(&token(2), NOW.plus_millis(HOUR - 1)).is_ok());
    assert_eq!(refusal(&book, &token(2), HOUR), "KEY_EXPIRED");
    assert!(book.authenticate(&token(3), NOW.plus_millis(HOUR)).is_ok());
    assert_eq!(book.successor(&key_id(2)).unwrap().record.id, key_id(3));
    let twice = check_rotation(&book, &key_id(2), NOW).unwrap_err();
    assert_eq!(twice.code, "KEY_ROTATED");
    assert!(twice.hint.unwrap().contains(&key_id(3).to_string()));
}

#[test]
fn dead_and_unknown_keys_are_not_rotated() {
    let mut book = two();
    let late = NOW.plus_millis(10 * HOUR);
    assert_eq!(check_rotation(&book, &key_id(2), late).unwrap_err().code, "KEY_EXPIRED");
    book.take_in(&revoked(2, 0)).unwrap();
    assert_eq!(check_rotation(&book, &key_id(2), NOW).unwrap_err().code, "KEY_REVOKED");
    assert_eq!(check_rotation(&book, &key_id(7), NOW).unwrap_err().code, "KEY_UNKNOWN");
    assert_eq!(find_key(&book, &key_id(7)).unwrap_err().code, "KEY_UNKNOWN");
}

#[test]
fn what_cannot_have_happened_is_refused_and_changes_nothing() {
    let mut book = two();
    let before = book.clone();
    let stolen = KeyRecord { replaces: Some(key_id(1)), ..record(4, "agent:a", "call") };
    for (fact, why) in [
        (added("human:ada"), "added already"),
        (removed("human:bob"), "was not there"),
        (created(record(1, "human:ada", "call")), "made already"),
        (created(record(4, "human:bob", "call")), "who is not there"),
        (created(record(4, "agent:a", "approve")), "can never have a key to approve"),
        (created(record(4, "agent:a", "admin")), "can never have a key to admin"),
        (created(stolen), "not its principal's"),
        (revoked(7, 0), "never made"),
        (retired(7, 1), "never made"),
        (retired(1, 11 * HOUR), "cannot last longer"),
    ] {
        let said = book.take_in(&fact).unwrap_err();
        assert!(said.contains(why), "{said}");
        assert_eq!(book, before, "{said}");
    }
}

#[test]
fn only_humans_manage_principals_and_keys() {
    assert!(check_human(&who("human:ada")).is_ok());
    for machine in ["agent:a", "service:ci"] {
        let failure = check_human(&who(machine)).unwrap_err();
        assert_eq!(failure.code, "HUMANS_ONLY");
        assert!(failure.message.contains("widen their own rights"), "{failure}");
    }
}

#[test]
fn every_rule_of_a_new_key_has_its_code() {
    let book = two();
    let good = record(4, "agent:a", "call");
    assert!(check_key(&book, &good, NOW).is_ok());
    let expires = |millis| KeyRecord { expires_at: NOW.plus_millis(millis), ..good.clone() };
    let tenant = |name: &str| KeyRecord { tenant: Some(name.to_owned()), ..good.clone() };
    for (key, code) in [
        (record(4, "human:bob", "call"), "PRINCIPAL_UNKNOWN"),
        (record(4, "agent:a", ""), "KEY_SCOPE_EMPTY"),
        (record(4, "agent:a", "approve,call"), "HUMANS_ONLY"),
        (record(4, "agent:a", "admin"), "HUMANS_ONLY"),
        (expires(0), "KEY_EXPIRED"),
        (expires(366 * 24 * HOUR + 1), "KEY_TOO_LONG"),
        (expires(i64::MAX), "KEY_TOO_LONG"),
        (tenant(""), "TENANT_INVALID"),
        (tenant("аcme"), "TENANT_INVALID"),
        (tenant("a/b"), "TENANT_INVALID"),
    ] {
        let failure = check_key(&book, &key, NOW).unwrap_err();
        assert_eq!(failure.code, code, "{failure}");
        assert!(failure.hint.is_some(), "{failure}");
    }
    assert!(check_key(&book, &expires(366 * 24 * HOUR), NOW).is_ok());
    assert!(check_key(&book, &tenant("acme-2"), NOW).is_ok());
    assert!(check_key(&book, &record(4, "human:ada", "admin,approve"), NOW).is_ok());
}

#[test]
fn principals_are_added_once_with_a_short_description() {
    let book = two();
    let bob = who("human:bob");
    assert!(check_addition(&book, &bob, Some("the night shift")).is_ok());
    let long = "x".repeat(257);
    let code = |principal: &str, text: Option<&str>| {
        check_addition(&book, &who(principal), text).unwrap_err().code
    };
    assert_eq!(code("human:bob", Some(&long)), "DESCRIPTION_TOO_LONG");
    assert_eq!(code("human:ada", None), "PRINCIPAL_EXISTS");
    assert_eq!(check_known(&book, &bob).unwrap_err().code, "PRINCIPAL_UNKNOWN");
}

#[test]
fn an_approver_signs_with_a_key_that_the_book_can_check() {
    let mut book = two();
    let (principal, verifier) = book.approver(&key_id(1), NOW).unwrap();
    assert_eq!(*principal, who("human:ada"));
    let signature = token(1).signing_key().sign(b"yes");
    assert!(verifier.verify_strict(b"yes", &signature).is_ok());
    assert!(verifier.verify_strict(b"no", &signature).is_err());
    assert_eq!(book.approver(&key_id(2), NOW).unwrap_err().code, "HUMANS_ONLY");
    book.take_in(&created(record(5, "human:ada", "call,read"))).unwrap();
    assert_eq!(book.approver(&key_id(5), NOW).unwrap_err().code, "KEY_SCOPE_MISSING");
    let late = NOW.plus_millis(10 * HOUR);
    assert_eq!(book.approver(&key_id(1), late).unwrap_err().code, "KEY_EXPIRED");
    assert_eq!(book.approver(&key_id(7), NOW).unwrap_err().code, "KEY_UNKNOWN");
}

/// What a thief with write access to the database, but without the home's key, could do.
#[test]
fn keys_that_the_home_did_not_sign_are_absent() {
    let stranger = SigningKey::from_bytes(&[2; 32]);
    let mine = two().get(&key_id(1)).unwrap().clone();
    let mut longer = mine.clone();
    longer.record.expires_at = NOW.plus_millis(20 * HOUR);
    let mut other = mine.clone();
    other.signature = other.record.sign(&stranger).unwrap();
    let authority = home().verifying_key();
    for (key, genuine) in [(mine, true), (longer, false), (other, false)] {
        let book = KeyBook::from_records(two().principals().cloned(), [key]).genuine(&authority);
        assert_eq!(book.authenticate(&token(1), NOW).is_ok(), genuine);
    }
}

/// Fields stand in the order of their names, so that any writer puts them down canonically.
#[test]
fn facts_are_canonical_as_they_are_written() {
    let mut full = record(1, "human:ada", "approve,call");
    full.replaces = Some(key_id(2));
    full.tenant = Some("acme".to_owned());
    let (at, by, principal) = (NOW, who("human:ada"), who("agent:a"));
    let text = Some("because".to_owned());
    let by = || by.clone();
    for fact in [
        Fact::Principal(PrincipalEvent::Added {
            at,
            by: by(),
            description: text.clone(),
            principal: principal.clone(),
        }),
        Fact::Principal(PrincipalEvent::Removed { at, by: by(), principal, reason: text.clone() }),
        created(full),
        retired(1, 1),
        Fact::Key(KeyEvent::Revoked { at, by: by(), key: key_id(1), reason: text }),
    ] {
        let canonical = canonical_json(&fact).unwrap();
        assert_eq!(serde_json::to_vec(&fact).unwrap(), canonical);
        assert_eq!(serde_json::from_slice::<Fact>(&canonical).unwrap(), fact);
    }
    let foreign = r#"{"key":{"revoked":{"at":1,"by":"human:a","key":"019a7c3e-0000-7000-8000-000000000001","x":1}}}"#;
    assert!(serde_json::from_str::<Fact>(foreign).is_err(), "unknown fields are refused");
}

fn any_principal() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["human:ada", "human:bob", "agent:a", "service:ci"])
}

fn any_fact() -> impl Strategy<Value = Fact> {
    let key = (0..6u64, any_principal(), prop::bits::u32::masked((1 << KeyScope::ALL.len()) - 1))
        .prop_map(|(n, p, bits)| {
            let chosen =
                KeyScope::ALL.into_iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            created(KeyRecord { scopes: chosen.map(|(_, s)| s).collect(), ..record(n, p, "") })
        });
    prop_oneof![
        3 => any_principal().prop_map(added),
        1 => any_principal().prop_map(removed),
        6 => key,
        1 => (0..6u64, 0..12i64).prop_map(|(n, hours)| revoked(n, hours * HOUR)),
        1 => (0..6u64, 0..12i64).prop_map(|(n, hours)| retired(n, hours * HOUR)),
    ]
}

proptest! {
    /// Whatever happened, in whatever order, and even if a book was forged: no key of an agent or a
    /// service approves, and whoever approves is there, with a key that is good.
    #[test]
    fn no_machine_ever_approves(facts in prop::collection::vec(any_fact(), 0..40), hours in 0..12i64) {
        let mut book = KeyBook::default();
        let mut forged = Vec::new();
        for fact in &facts {
            let _ = book.take_in(fact);
            if let Fact::Key(KeyEvent::Created { key, signature }) = fact {
                forged.push(HeldKey::new((**key).clone(), *signature));
            }
        }
        let now = NOW.plus_millis(hours * HOUR);
        let forged = KeyBook::from_records(book.principals().cloned(), forged);
        for book in [&book, &forged] {
            for key in book.keys() {
                if let Ok((principal, _)) = book.approver(&key.record.id, now) {
                    prop_assert!(principal.is_human() && book.knows(principal));
                    prop_assert!(key.record.scopes.contains(&KeyScope::Approve));
                    prop_assert!(key.status(now).is_good());
                }
            }
        }
    }

    /// A key that is not good never becomes good again.
    #[test]
    fn a_dead_key_stays_dead(facts in prop::collection::vec(any_fact(), 0..40)) {
        let mut book = KeyBook::default();
        let mut dead = BTreeSet::new();
        for fact in &facts {
            let _ = book.take_in(fact);
            for n in 0..6 {
                let good = book.authenticate(&token(n), NOW).is_ok();
                prop_assert!(!(good && dead.contains(&n)), "key {n} came back to life");
                if !good && book.get(&key_id(n)).is_some() {
                    dead.insert(n);
                }
            }
        }
    }
}
