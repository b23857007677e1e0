//! Principals and keys at work: who may change them, what is let in, and what happens when several
//! processes do so at once.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeSet;
use std::thread;

use common::{Bench, HOUR, operator, verify_chain};
use countersign_host::home::Layout;
use countersign_host::inspect::verify_home;
use countersign_host::people::{AddPrincipal, CreateKey, RotateKey};
use countersign_host::{Clock, Host};
use countersign_model::{ErrorClass, Failure, KeyRecord, KeyScope, Principal, Token};

fn who(text: &str) -> Principal {
    text.parse().unwrap()
}

fn add(host: &Host, principal: &str) -> Result<(), Failure> {
    let (principal, by) = (who(principal), operator());
    host.add_principal(&AddPrincipal { principal, description: None, by })
}

fn create(bench: &Bench, host: &Host, principal: &str) -> Result<(KeyRecord, Token), Failure> {
    let principal = who(principal);
    host.create_key(&CreateKey {
        scopes: KeyScope::defaults(&principal),
        principal,
        tenant: Some("acme".to_owned()),
        expires_at: bench.clock.now().plus_millis(10 * HOUR),
        by: operator(),
    })
}

/// A host with Ada and an agent, who have a key each.
fn two(bench: &Bench) -> (Host, Token, Token) {
    let host = bench.host();
    add(&host, "human:ada").unwrap();
    add(&host, "agent:a").unwrap();
    let (_, ada) = create(bench, &host, "human:ada").unwrap();
    let (_, agent) = create(bench, &host, "agent:a").unwrap();
    (host, ada, agent)
}

fn refusal(bench: &Bench, host: &Host, token: &Token) -> String {
    let failure = host.authenticate(token, bench.clock.now()).unwrap_err();
    assert_eq!(failure.class, ErrorClass::AuthorizationError, "{failure}");
    assert!(failure.hint.is_some(), "{failure}");
    failure.code.into_owned()
}

#[test]
fn whoever_shows_a_key_is_known_in_every_process() {
    let bench = Bench::bare();
    let (host, ada, agent) = two(&bench);
    let other = bench.host();
    for host in [&host, &other] {
        let (principal, record) = host.authenticate(&agent, bench.clock.now()).unwrap();
        assert_eq!((principal, record.tenant.as_deref()), (who("agent:a"), Some("acme")));
        assert_eq!(host.authenticate(&ada, bench.clock.now()).unwrap().0, who("human:ada"));
    }
    host.revoke_key(agent.id(), &operator(), Some("lost")).unwrap();
    assert_eq!(refusal(&bench, &other, &agent), "KEY_REVOKED", "at once, everywhere");
    let size = host.home().store.head().unwrap().size;
    host.revoke_key(agent.id(), &operator(), None).unwrap();
    assert_eq!(host.home().store.head().unwrap().size, size, "revoking twice changes nothing");
    let ended = host.remove_principal(&who("human:ada"), &operator(), None).unwrap();
    assert_eq!(ended, [ada.id()]);
    assert_eq!(refusal(&bench, &other, &ada), "PRINCIPAL_UNKNOWN");
    add(&other, "human:ada").unwrap();
    assert_eq!(refusal(&bench, &host, &ada), "KEY_REVOKED", "old keys do not come back");
    verify_chain(&host);
    verify_home(host.home(), &[], |_| {}).unwrap();
}

#[test]
fn a_rotated_key_works_beside_its_successor_for_a_while() {
    let bench = Bench::bare();
    let (host, _, old) = two(&bench);
    let rotate = |key: &Token, overlap_millis| {
        let (key, by) = (key.id(), operator());
        host.rotate_key(&RotateKey { key, overlap_millis, expires_at: None, by })
    };
    bench.clock.advance(HOUR);
    let (record, new) = rotate(&old, HOUR).unwrap();
    assert_eq!((record.replaces, record.tenant.as_deref()), (Some(old.id()), Some("acme")));
    assert_eq!(record.expires_at.millis_since(bench.clock.now()), 10 * HOUR, "as long as the old");
    bench.clock.advance(HOUR - 1);
    host.authenticate(&old, bench.clock.now()).unwrap();
    host.authenticate(&new, bench.clock.now()).unwrap();
    bench.clock.advance(1);
    assert_eq!(refusal(&bench, &host, &old), "KEY_EXPIRED");
    host.authenticate(&new, bench.clock.now()).unwrap();
    // An overlap never lengthens a life, and none is none.
    let (_, newer) = rotate(&new, 1000 * HOUR).unwrap();
    let people = host.people().unwrap();
    assert_eq!(people.book.get(&new.id()).unwrap().expires_at, record.expires_at);
    rotate(&newer, -1).unwrap();
    assert_eq!(refusal(&bench, &host, &newer), "KEY_EXPIRED");
    assert_eq!(rotate(&new, 0).unwrap_err().code, "KEY_ROTATED");
}

/// Whatever they hold, and whomever it concerns.
#[test]
fn agents_and_services_change_nothing() {
    let bench = Bench::bare();
    let (host, ada, agent) = two(&bench);
    let size = host.home().store.head().unwrap().size;
    for by in ["agent:a", "service:ci"].map(who) {
        let (at, principal) = (bench.clock.now().plus_millis(HOUR), who("agent:a"));
        let scopes = BTreeSet::from([KeyScope::Call]);
        let create = CreateKey {
            principal: principal.clone(),
            tenant: None,
            scopes,
            expires_at: at,
            by: by.clone(),
        };
        let rotate =
            RotateKey { key: agent.id(), overlap_millis: HOUR, expires_at: None, by: by.clone() };
        let add = AddPrincipal { principal: who("agent:b"), description: None, by: by.clone() };
        for refused in [
            host.add_principal(&add).err(),
            host.remove_principal(&principal, &by, None).err(),
            host.create_key(&create).err(),
            host.rotate_key(&rotate).err(),
            host.revoke_key(ada.id(), &by, None).err(),
        ] {
            let failure = refused.unwrap();
            assert_eq!(
                (&*failure.code, failure.class),
                ("HUMANS_ONLY", ErrorClass::AuthorizationError)
            );
        }
    }
    assert_eq!(host.home().store.head().unwrap().size, size);
}

/// Each decides from what the others did: a principal is added once, and no change is lost.
#[test]
fn changes_from_many_processes_do_not_undo_each_other() {
    let bench = Bench::bare();
    let hosts: Vec<Host> = (0..4).map(|_| bench.host()).collect();
    let added: usize = thread::scope(|scope| {
        let threads: Vec<_> = hosts
            .iter()
            .map(|host| {
                scope.spawn(|| (0..6).filter(|n| add(host, &format!("agent:a{n}")).is_ok()).count())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(added, 6);
    assert_eq!(hosts[0].people().unwrap().book.principals().count(), 6);
    verify_home(hosts[1].home(), &[], |_| {}).unwrap();
}

/// A key for a principal who is removed at the same moment either dies with it or is never made.
#[test]
fn no_key_outlives_its_principal() {
    let bench = Bench::bare();
    let (host, other) = (bench.host(), bench.host());
    for n in 0..10 {
        let name = format!("agent:a{n}");
        add(&host, &name).unwrap();
        let made = thread::scope(|scope| {
            let made = scope.spawn(|| create(&bench, &other, &name));
            host.remove_principal(&who(&name), &operator(), None).unwrap();
            made.join().unwrap()
        });
        match made {
            Ok((_, token)) => assert_eq!(refusal(&bench, &host, &token), "PRINCIPAL_UNKNOWN"),
            Err(failure) => assert_eq!(failure.code, "PRINCIPAL_UNKNOWN"),
        }
    }
}

/// Whoever edits the tables by hand gains nothing, and `audit verify` says so.
#[test]
fn keys_that_were_written_into_the_tables_are_not_let_in() {
    let bench = Bench::bare();
    let (host, _, agent) = two(&bench);
    let journal = rusqlite::Connection::open(Layout(&bench.home()).journal()).unwrap();
    let sql = "UPDATE key_records SET body =
        CAST(replace(CAST(body AS TEXT), '\"agent:a\"', '\"human:ada\"') AS BLOB)";
    assert_eq!(journal.execute(sql, []).unwrap(), 2);
    drop(journal);
    let fresh = bench.host();
    assert_eq!(refusal(&bench, &fresh, &agent), "KEY_UNKNOWN");
    let unsound: Failure = verify_home(host.home(), &[], |_| {}).unwrap_err().into();
    assert_eq!(unsound.code, "AUDIT_FAILED");
    assert!(unsound.message.contains("principals and keys"), "{unsound}");
}
