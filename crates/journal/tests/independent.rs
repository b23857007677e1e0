//! A verifier in another language, written from the documentation, agrees with ours.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]
#![allow(clippy::print_stdout, reason = "a test that was skipped says so")]

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{
    added, adopted, call_fact, check, checkpoint_of, created, declared, document, entries, journal,
    key, key_id, key_record, key_revoked, lines, made, rechain, removed, retired, run_fact,
    signed_export, signer, stranger,
};
use countersign_journal::{Entry, export};
use countersign_model::event::Fact;
use countersign_model::{KeyRecord, KeyScope};

const VERIFIER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/independent_verifier.py");

fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

/// What the other verifier says; an answer that is neither yes nor no fails the test.
fn accepts(dir: &Path, key: &str, export: &[u8], earlier: &[&str]) -> bool {
    let path = dir.join("export");
    fs::write(&path, export).unwrap();
    let mut command = Command::new("python3");
    command.args(["-I", VERIFIER, key]).arg(&path);
    for (n, note) in earlier.iter().enumerate() {
        let path = dir.join(format!("earlier-{n}"));
        fs::write(&path, note).unwrap();
        command.arg(path);
    }
    let output = command.output().unwrap();
    let (said, error) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    match output.status.success() {
        true => assert!(said.unwrap().starts_with("verified:")),
        false => assert!(error.as_ref().unwrap().starts_with("refused:"), "{error:?}"),
    }
    output.status.success()
}

fn people() -> Vec<Fact> {
    let next = KeyRecord { replaces: Some(key_id(2)), ..key_record(3, "agent:a", KeyScope::Call) };
    vec![
        added("human:ada"),
        added("agent:a"),
        made(key_record(1, "human:ada", KeyScope::Approve)),
        created(2, "agent:a"),
        made(next),
        retired(2, 1000),
        key_revoked(2),
        removed("agent:a"),
        added("agent:a"),
        adopted("a set", 1_000),
        adopted("a set", 2_000),
    ]
}

/// Two runs side by side, and a document that is changed and removed.
fn runs() -> Vec<Fact> {
    vec![
        run_fact("run_1", 0, &["run.started", "node.started"]),
        run_fact("run_2", 0, &["run.started", "run.completed"]),
        document(1, Some("one")),
        run_fact("run_1", 2, &["node.failed", "run.failed"]),
        document(2, Some("two")),
        document(3, None),
    ]
}

#[test]
fn it_accepts_what_is_genuine() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(40);
    let key = key().to_string();
    for range in [0..40, 0..0, 0..17, 7..30, 12..13, 33..40, 40..40] {
        assert!(accepts(dir.path(), &key, &journal.export(range.clone()), &[]), "{range:?}");
    }
    for seq in [0, 11, 31, 32, 39] {
        let mut proof = Vec::new();
        export::prove(&journal.store, seq).unwrap().write(&mut proof).unwrap();
        assert!(accepts(dir.path(), &key, &proof, &[]), "proof of {seq}");
        let at = proof.len() / 2;
        proof[at] ^= 1;
        assert!(!accepts(dir.path(), &key, &proof, &[]), "changed proof of {seq}");
    }
    journal.append(people());
    let end = 40 + people().len() as u64;
    assert!(accepts(dir.path(), &key, &journal.export(0..end), &[]), "principals and keys");
    let all = entries(&journal.export(0..40));
    let told = runs().into_iter().map(|fact| Entry { fact, ..all[1].clone() });
    let told = all.iter().cloned().chain(told).collect();
    let export = signed_export(&rechain(told), &signer());
    assert!(accepts(dir.path(), &key, &export, &[]), "runs and documents");
    assert!(check(&export).is_ok());
    let kept = checkpoint_of(&all[..21], &signer());
    assert!(accepts(dir.path(), &key, &journal.export(15..30), &[&kept]));
}

#[test]
fn it_refuses_what_is_not() {
    if !has_python() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let journal = journal(12);
    let good = journal.export(0..12);
    let refuses = |what: &str, export: &[u8], earlier: &[&str]| {
        assert!(!accepts(dir.path(), &key().to_string(), export, earlier), "{what}");
        assert!(!earlier.is_empty() || check(export).is_err(), "{what}: and so do we");
    };
    assert!(!accepts(dir.path(), &stranger().verifier().to_string(), &good, &[]), "other key");
    for at in (0..good.len()).step_by(good.len() / 20) {
        let mut changed = good.clone();
        changed[at] ^= 1;
        refuses(&format!("byte {at}"), &changed, &[]);
    }
    let split = lines(&good);
    refuses("cut", &split[..12].concat(), &[]);
    refuses("cut in a line", &good[..good.len() - 9], &[]);
    refuses(
        "swapped",
        &[&split[..5], &[split[6].clone(), split[5].clone()], &split[7..]].concat().concat(),
        &[],
    );
    let all = entries(&good);
    refuses("other signer", &signed_export(&all, &stranger()), &[]);
    let mut impossible = all.clone();
    impossible.extend([all[0].clone(), all[0].clone()]);
    impossible[12].fact = call_fact(900, declared());
    impossible[13].fact = call_fact(900, declared());
    refuses("impossible", &signed_export(&rechain(impossible), &signer()), &[]);
    let approve = made(key_record(9, "agent:a", KeyScope::Approve));
    let stolen =
        KeyRecord { replaces: Some(key_id(1)), ..key_record(9, "agent:a", KeyScope::Call) };
    for (what, fact) in [
        ("added twice", added("agent:a")),
        ("removed without being there", removed("agent:b")),
        ("made twice", created(1, "human:ada")),
        ("a key for nobody", created(9, "agent:b")),
        ("a machine that approves", approve),
        ("a stolen key", made(stolen)),
        ("an unknown key revoked", key_revoked(9)),
        ("an unknown key retired", retired(9, 1)),
        ("a longer life", retired(1, 3_600_001)),
    ] {
        let mut told = all.clone();
        for fact in people().into_iter().chain([fact]) {
            told.push(Entry { fact, ..all[1].clone() });
        }
        refuses(what, &signed_export(&rechain(told), &signer()), &[]);
    }
    for (what, fact) in [
        ("a run that goes on", run_fact("run_2", 2, &["node.started"])),
        ("a run that begins twice", run_fact("run_1", 0, &["run.started"])),
        ("a run with a gap", run_fact("run_3", 1, &["node.started"])),
        ("a version twice", document(3, None)),
        ("a version left out", document(5, Some("x"))),
    ] {
        let mut told = all.clone();
        for fact in runs().into_iter().chain([fact]) {
            told.push(Entry { fact, ..all[1].clone() });
        }
        refuses(what, &signed_export(&rechain(told), &signer()), &[]);
    }
    let kept = checkpoint_of(&all, &signer());
    refuses("rollback", &signed_export(&all[..11], &signer()), &[&kept]);
    let mut forked = all;
    forked[3].time = forked[3].time.plus_millis(1);
    refuses("fork", &signed_export(&rechain(forked), &signer()), &[&kept]);
}
