//! Many calls at once, on two hosts of one home: no update is lost and the chain stays whole.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;

use common::{Bench, HOUR, key, verify_chain};
use countersign_host::Host;
use countersign_model::{Capability, Lifecycle};
use serde_json::{Value, json};

const THREADS: usize = 8;
const ROUNDS: usize = 12;
const COUNTERS: [(&str, &str); 5] =
    [("key", "k0"), ("key", "k1"), ("path", "f0"), ("path", "f1"), ("both", "x")];

fn bump_input(kind: &str, name: &str) -> Value {
    match kind {
        "both" => json!({"key": name, "path": name}),
        kind => json!({kind: name}),
    }
}

/// Adds one, as often as it takes. Only a conflict is a reason to try again.
fn bump(bench: &Bench, host: &Host, input: &Value) {
    loop {
        let outcome = bench.call(host, "test.bump", input);
        match &outcome.result {
            Ok(_) => {
                assert!(outcome.unsettled.is_empty(), "{:?}", outcome.unsettled);
                return;
            }
            Err(failure) => assert_eq!(failure.code, "CONFLICT", "{failure:?}"),
        }
    }
}

#[test]
fn counters_are_exact() {
    let bench = Bench::new();
    let hosts = [bench.host(), bench.host()];
    let counted: Mutex<BTreeMap<usize, u64>> = Mutex::default();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bench, host, counted) = (&bench, &hosts[thread % 2], &counted);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let which = (thread * 7 + round * 3) % COUNTERS.len();
                    let (kind, name) = COUNTERS[which];
                    bump(bench, host, &bump_input(kind, name));
                    *counted.lock().unwrap().entry(which).or_default() += 1;
                }
            });
        }
    });
    for (which, expected) in counted.into_inner().unwrap() {
        let (kind, name) = COUNTERS[which];
        if kind != "path" {
            assert_eq!(key(&hosts[0], name), Some(json!(expected)), "{name}");
        }
        if kind != "key" {
            assert_eq!(bench.text(name).unwrap(), expected.to_string(), "{name}");
        }
    }
    for host in &hosts {
        assert!(host.home().store.open_calls().unwrap().is_empty());
        assert_eq!(host.recover().unwrap(), Default::default());
    }
    let verified = verify_chain(&hosts[0]);
    assert_eq!(verified, verify_chain(&hosts[1]));
}

/// Different files: nobody has to wait for a conflict.
#[test]
fn calls_on_different_files_never_conflict() {
    let bench = Bench::new();
    let hosts = [bench.host(), bench.host()];
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bench, host) = (&bench, &hosts[thread % 2]);
            scope.spawn(move || {
                for round in 0..6 {
                    let path = format!("shared/deep/{thread}");
                    let content = format!("{round}");
                    let input =
                        json!({"path": path, "content": content, "createDirectories": true});
                    bench.done(host, "file.write", &input);
                }
            });
        }
    });
    for thread in 0..THREADS {
        assert_eq!(bench.text(&format!("shared/deep/{thread}")).unwrap(), "5");
    }
    verify_chain(&hosts[0]);
}

/// Grants come and go while calls run: a call is done or denied, and never anything else.
#[test]
fn grants_change_while_calls_run() {
    let bench = Bench::bare();
    let (host, other) = (bench.host(), bench.host());
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..15 {
                let grant = bench.grant(&other, Capability::StateWrite, "**", HOUR);
                let by = common::operator();
                other.revoke_grant(grant, by, None).unwrap();
            }
        });
        for thread in 0..4 {
            let (bench, host) = (&bench, &host);
            scope.spawn(move || {
                for round in 0..15 {
                    let name = format!("t{thread}/{round}");
                    let outcome =
                        bench.call(host, "state.put", &json!({"key": name, "value": round}));
                    let found = key(host, &name).is_some();
                    assert_eq!(found, outcome.state == Lifecycle::Completed, "{outcome:?}");
                    if let Err(failure) = outcome.result {
                        let code = failure.code.as_ref();
                        assert!(matches!(code, "GRANT_REVOKED" | "GRANT_MISSING"), "{code}");
                    }
                }
            });
        }
    });
    assert!(host.home().store.open_calls().unwrap().is_empty());
    verify_chain(&host);
}
