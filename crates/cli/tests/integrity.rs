//! The journal verified over HTTP: whole, in parts, and after somebody has changed it.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod serving;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use common::Bench;
use ed25519_dalek::{Signature, VerifyingKey};
use judge::fits;
use serde_json::{Value, json};
use serving::{Client, is_over, key, node, serve, workflow};

const SCOPES: &str = "runs:create,runs:read,audit:read";

fn bench() -> Bench {
    let bench = Bench::new();
    workflow(&bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    bench
}

fn verify(client: &Client<'_>, query: &str) -> Value {
    let found = client.get(&format!("/v1/audit/verify{query}")).is(200);
    fits("audit-verify-result.schema.json", &found);
    found
}

/// The checkpoint bears the signature of the key that discovery names.
fn check_signature(client: &Client<'_>, found: &Value) {
    let told = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &told);
    assert_eq!(told["auth"]["profiles"], json!(["openwop-audit-log-integrity"]));
    let integrity = &told["auth"]["auditLogIntegrity"];
    let der = BASE64.decode(integrity["checkpointPublicKey"].as_str().unwrap()).unwrap();
    assert_eq!((der.len(), &der[..3]), (44, &[0x30, 0x2a, 0x30][..]));
    let public = VerifyingKey::from_bytes(der[12..].try_into().unwrap()).unwrap();
    let mut checkpoint = found["checkpoints"][0].clone();
    let signature = checkpoint.as_object_mut().unwrap().remove("signature").unwrap();
    let signature = BASE64.decode(signature.as_str().unwrap()).unwrap();
    let signature = Signature::from_slice(&signature).unwrap();
    // Members of plain texts and numbers, in order and without spaces: that is the canonical form.
    public.verify_strict(checkpoint.to_string().as_bytes(), &signature).unwrap();
}

#[test]
fn a_whole_journal_is_found_whole_in_every_part() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for _ in 0..5 {
        let run = client.start("plain", &json!({}));
        client.until(&run, is_over);
    }
    let whole = verify(&client, "");
    let size = whole["toSeq"].as_u64().unwrap() + 1;
    assert!(size > 5, "{whole:#}");
    check_signature(&client, &whole);
    for (query, from, to) in [
        ("?fromSeq=0&toSeq=0".to_owned(), 0, 0),
        ("?fromSeq=2&toSeq=4".to_owned(), 2, 4),
        ("?fromSeq=3".to_owned(), 3, size - 1),
        ("?toSeq=3".to_owned(), 0, 3),
        (format!("?fromSeq={}&toSeq=99999999", size - 1), size - 1, size - 1),
        ("?fromSeq=99999999&toSeq=99999999".to_owned(), size - 1, size - 1),
        ("?fromSeq=4&toSeq=3".to_owned(), 4, 4),
        (format!("?toSeq={}", "9".repeat(30)), 0, size - 1),
    ] {
        let found = verify(&client, &query);
        assert_eq!((&found["fromSeq"], &found["toSeq"]), (&json!(from), &json!(to)), "{query}");
        assert_eq!((&found["chainValid"], &found["anomalies"]), (&json!(true), &json!([])));
        assert_eq!(found["checkpoints"][0]["atSequence"], to);
        check_signature(&client, &found);
    }
    let told = bench.json(&["audit", "verify"]).ok().json();
    assert_eq!(whole["checkpoints"][0]["merkleRoot"], told["root"], "the same tree: {told:#}");
    for bad in ["?fromSeq=-1", "?toSeq=x", "?fromSeq=1.5", "?toSeq="] {
        let refused = client.get(&format!("/v1/audit/verify{bad}")).is(400);
        fits("error-envelope.schema.json", &refused);
    }
}

#[test]
fn only_who_may_read_the_audit_log_is_answered() {
    let bench = bench();
    let other = key(&bench, "agent:a", "one", "runs:create,runs:read");
    let host = serve(&bench, &[]);
    let client = |key| Client { port: host.port, key };
    assert_eq!(client(&other).get("/v1/audit/verify").status, 403);
    assert_eq!(client("").get("/v1/audit/verify").status, 401);
    assert_eq!(client(&other).send("POST", "/v1/audit/verify", None).status, 405);
}

#[test]
fn a_changed_entry_is_found_wherever_it_stands() {
    let bench = bench();
    let key = key(&bench, "agent:a", "one", SCOPES);
    {
        let host = serve(&bench, &[]);
        let client = Client { port: host.port, key: &key };
        for _ in 0..5 {
            let run = client.start("plain", &json!({}));
            client.until(&run, is_over);
        }
    }
    let path = bench.home().join("state/journal.db");
    let raw = rusqlite::Connection::open(&path).unwrap();
    let last: u64 = raw.query_row("SELECT max(seq) FROM entries", [], |row| row.get(0)).unwrap();
    let body = |seq: u64| -> Vec<u8> {
        raw.query_row("SELECT body FROM entries WHERE seq = ?1", [seq], |row| row.get(0)).unwrap()
    };
    let set = |seq: u64, body: &[u8]| {
        let sql = "UPDATE entries SET body = ?2 WHERE seq = ?1";
        raw.execute(sql, rusqlite::params![seq, body]).unwrap();
    };
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for seq in [1, last - 2, last] {
        let genuine = body(seq);
        // One digit of the moment, which stands at the end of every entry.
        let mut changed = genuine.clone();
        let digit = changed.len() - 2;
        changed[digit] = if changed[digit] == b'1' { b'2' } else { b'1' };
        set(seq, &changed);
        for range in ["", &format!("?fromSeq={seq}&toSeq={seq}")] {
            let found = verify(&client, range);
            assert_eq!(found["chainValid"], false, "{seq} {range}: {found:#}");
            assert_eq!(found["checkpoints"], json!([]));
            let at = found["anomalies"][0]["atSeq"].as_u64().unwrap();
            assert!((seq..=seq + 1).contains(&at), "{seq}: {found:#}");
            let anomaly = &found["anomalies"][0];
            assert_ne!(anomaly["expectedPrevHash"], anomaly["actualPrevHash"]);
        }
        set(seq, b"not json");
        assert_eq!(verify(&client, "")["chainValid"], false, "{seq}");
        set(seq, &genuine);
        assert_eq!(verify(&client, "")["chainValid"], true, "{seq}");
    }
    // A part that nobody touched is whole by itself.
    let mut changed = body(1);
    let digit = changed.len() - 2;
    changed[digit] = if changed[digit] == b'1' { b'2' } else { b'1' };
    set(1, &changed);
    let beyond = verify(&client, &format!("?fromSeq={}&toSeq={last}", last - 1));
    assert_eq!(beyond["chainValid"], true, "{beyond:#}");
}
