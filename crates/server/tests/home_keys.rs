//! Keys of a real home, made and revoked as an operator does it.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;

use common::{Answer, Bench, Setup};
use countersign_host::people::{AddPrincipal, CreateKey};
use countersign_host::{Home, Host};
use countersign_model::{KeyScope, Principal};
use countersign_server::clock::{Clock as _, SystemClock};

#[test]
fn a_key_of_the_home_opens_the_door_until_it_is_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    Home::create(&home, &countersign_host::SystemClock).unwrap();
    let host = Arc::new(Host::open(&home).unwrap());
    let by: Principal = "human:ada".parse().unwrap();
    let agent: Principal = "agent:a".parse().unwrap();
    host.add_principal(&AddPrincipal {
        principal: agent.clone(),
        description: None,
        by: by.clone(),
    })
    .unwrap();
    let make = |scopes: &[KeyScope], tenant: Option<&str>| {
        let command = CreateKey {
            principal: agent.clone(),
            tenant: tenant.map(str::to_owned),
            scopes: scopes.iter().copied().collect::<BTreeSet<_>>(),
            expires_at: SystemClock.now().plus_millis(60_000),
            by: by.clone(),
        };
        host.create_key(&command).unwrap()
    };
    let bench = Bench::with(Setup { keys: Some(host.clone()), ..Setup::default() });
    let ask = |key: &str| -> Answer {
        let head = format!(
            "GET /v1/things/x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
        );
        bench.raw(head.as_bytes())
    };
    let (record, token) = make(&[KeyScope::RunsRead], Some("acme"));
    assert_eq!(ask(&token.reveal()).status, 200);
    let (_, narrow) = make(&[KeyScope::RunsCreate], None);
    ask(&narrow.reveal()).refused(403, "forbidden");
    // One of another home is no key here.
    ask(&bench.key).refused(401, "unauthenticated");
    host.revoke_key(record.id, &by, None).unwrap();
    ask(&token.reveal()).refused(401, "key_revoked");
}
