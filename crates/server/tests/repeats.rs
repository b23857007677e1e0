//! Asking twice is asking once.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::sync::atomic::Ordering;

use common::{Bench, all_scopes};

fn keyed(key: &str) -> String {
    format!("idempotency-key: {key}\r\n")
}

#[test]
fn the_same_request_gets_the_same_answer() {
    let bench = Bench::start();
    let first = bench.ask("POST", "/v1/count", &keyed("k1"), r#"{"a":1}"#);
    assert_eq!((first.status, first.header("openwop-idempotent-replay")), (201, Some("false")));
    for _ in 0..5 {
        let again = bench.ask("POST", "/v1/count", &keyed("k1"), r#"{"a":1}"#);
        assert_eq!((again.status, &again.body), (201, &first.body));
        assert_eq!(again.header("openwop-idempotent-replay"), Some("true"));
        assert_eq!(again.header("content-type"), Some("application/json"));
    }
    bench
        .ask("POST", "/v1/count", &keyed("k1"), r#"{"a":2}"#)
        .refused(409, "idempotency_key_conflict");
    assert_eq!(bench.desk.counted.load(Ordering::SeqCst), 1);
    // Without a key, with another, of another tenant: another request.
    let none = bench.ask("POST", "/v1/count", "", "{}");
    assert_eq!(none.header("openwop-idempotent-replay"), None);
    assert_eq!(bench.ask("POST", "/v1/count", &keyed("k2"), r#"{"a":1}"#).status, 201);
    let other = bench.ring.add(2, Some("other"), &all_scopes());
    let head = format!(
        "POST /v1/count HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {other}\r\nidempotency-key: k1\r\ncontent-length: 7\r\n\r\n{{\"a\":1}}"
    );
    assert_eq!(bench.raw(head.as_bytes()).header("openwop-idempotent-replay"), Some("false"));
    assert_eq!(bench.desk.counted.load(Ordering::SeqCst), 4);
}

#[test]
fn refusals_are_not_kept() {
    let bench = Bench::start();
    bench.ask("POST", "/v1/echo", &keyed("k"), "[]").refused(400, "validation_error");
    assert_eq!(bench.ask("POST", "/v1/echo", &keyed("k"), "{}").status, 200);
    bench.ask("POST", "/v1/things/absent:poke", &keyed("k"), "").refused(404, "run_not_found");
    for bad in [keyed(&"k".repeat(256)), keyed(""), keyed("a") + &keyed("b"), keyed("é")] {
        bench.ask("POST", "/v1/count", &bad, "{}").refused(400, "validation_error");
    }
    assert_eq!(
        bench.ask("GET", "/v1/things/x", &keyed("k"), "").header("openwop-idempotent-replay"),
        None
    );
}

#[test]
fn of_many_at_once_one_executes() {
    let bench = Bench::start();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..16)
            .map(|_| scope.spawn(|| bench.ask("POST", "/v1/slow", &keyed("k"), "{}")))
            .collect();
        asking
            .into_iter()
            .map(|asked| {
                let answer = asked.join().unwrap();
                if answer.status == 409 {
                    let body = answer.refused(409, "idempotency_in_flight");
                    assert!(body["details"]["retryAfter"].as_f64().unwrap() > 0.0);
                    assert_eq!(answer.header("retry-after"), Some("1"));
                }
                answer.status
            })
            .collect()
    });
    assert!(statuses.contains(&200), "{statuses:?}");
    assert_eq!(bench.desk.counted.load(Ordering::SeqCst), 1);
    let after = bench.ask("POST", "/v1/slow", &keyed("k"), "{}");
    assert_eq!((after.status, after.header("openwop-idempotent-replay")), (200, Some("true")));
}
