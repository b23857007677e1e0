//! Proofs of single entries, in trees of every shape that the kept levels make different.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{check, journal, key, stranger};
use countersign_journal::verify::Fault;
use countersign_journal::{CheckpointError, JournalError, SqliteStore, export};
use serde_json::{Value, json};

fn proof(store: &SqliteStore, seq: u64) -> Vec<u8> {
    let mut line = Vec::new();
    export::prove(store, seq).unwrap().write(&mut line).unwrap();
    line
}

#[test]
fn every_entry_of_every_tree_can_be_proven() {
    for count in [1, 2, 255, 256, 257, 600] {
        let journal = journal(count);
        for seq in 0..count as u64 {
            let verified = check(&proof(&journal.store, seq)).unwrap();
            let expected = (seq, seq + 1, count as u64);
            assert_eq!((verified.first, verified.end, verified.size), expected);
        }
        for seq in [count as u64, u64::MAX] {
            let error = export::prove(&journal.store, seq).unwrap_err();
            assert_eq!(error, JournalError::NoEntry { seq, size: count as u64 });
        }
    }
}

#[test]
fn every_changed_byte_of_a_proof_is_noticed() {
    let journal = journal(9);
    let good = proof(&journal.store, 4);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut changed = good.clone();
            changed[at] ^= 1 << bit;
            assert!(check(&changed).is_err(), "byte {at} bit {bit}");
        }
    }
    for tail in [&b" "[..], b"\n", b"x"] {
        assert!(check(&[&good, tail].concat()).is_err());
    }
    assert!(check(&good[..good.len() - 1]).is_err());
}

/// The fields in their order, as the proof writes them.
fn rewritten(proof: &Value) -> Vec<u8> {
    let field = |name: &str| format!("\"{name}\":{}", proof[name]);
    let fields = ["format", "entry", "seq", "path", "checkpoint"].map(field);
    format!("{{{}}}\n", fields.join(",")).into_bytes()
}

#[test]
fn a_proof_of_something_else_is_refused() {
    let journal = journal(9);
    let good: Value = serde_json::from_slice(&proof(&journal.store, 4)).unwrap();
    let other: Value = serde_json::from_slice(&proof(&journal.store, 5)).unwrap();
    check(&rewritten(&good)).unwrap();
    let with = |field: &str, value: Value| {
        let mut changed = good.clone();
        changed[field] = value;
        check(&rewritten(&changed)).unwrap_err()
    };
    assert_eq!(with("seq", json!(5)), Fault::OutOfOrder { expected: 5, found: 4 });
    assert_eq!(with("entry", other["entry"].clone()), Fault::OutOfOrder { expected: 4, found: 5 });
    assert_eq!(with("path", other["path"].clone()), Fault::Changed { seq: 4 });
    assert_eq!(with("path", json!([])), Fault::Changed { seq: 4 });
    let mut longer = good["path"].as_array().unwrap().clone();
    longer.push(longer[0].clone());
    assert_eq!(with("path", json!(longer)), Fault::Changed { seq: 4 });
    let text = good["entry"].as_str().unwrap().replace("1770653101000", "1770653101001");
    assert_eq!(with("entry", json!(text)), Fault::Changed { seq: 4 });
    assert!(matches!(with("format", json!("countersign-proof/2")), Fault::Header(_)));

    let line = proof(&journal.store, 4);
    let stranger = export::verify(&mut &*line, stranger().verifier(), &[]).unwrap_err();
    assert!(matches!(stranger, Fault::Checkpoint(CheckpointError::OtherKey(_))));
    let note = good["checkpoint"].as_str().unwrap().to_owned();
    let earlier = export::verify(&mut &*line, &key(), &[note]).unwrap_err();
    assert!(matches!(earlier, Fault::Header(_)), "one entry cannot show a continuation");
}
