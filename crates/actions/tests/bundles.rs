//! Whatever is done to a bundle after it was made is found.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops where it fails"
)]

mod common;

use std::io::Read;

use common::Bench;
use countersign_actions::bundle::{Verified, verify};
use countersign_journal::VerifierKey;
use serde_json::json;

const PATCH: &str =
    "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n";

type Files = Vec<(String, Vec<u8>)>;

fn bundle(bench: &Bench) -> Vec<u8> {
    bench.put("run_1", "fix.patch", PATCH);
    bench.run("apply_patch", json!({"patch": "fix.patch"}));
    let made = bench.run("prepare_review_bundle", json!({}));
    bench.artifact(&made, "review_bundle")
}

fn unpack(bytes: &[u8]) -> Files {
    let mut archive = tar::Archive::new(bytes);
    let files = archive.entries().unwrap().map(|file| {
        let mut file = file.unwrap();
        let path = String::from_utf8(file.path_bytes().into_owned()).unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        (path, content)
    });
    files.collect()
}

fn pack(files: &Files) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    archive.into_inner().unwrap()
}

fn codes(verified: &Verified) -> Vec<&'static str> {
    verified.problems.iter().map(|problem| problem.code).collect()
}

fn key(bench: &Bench) -> VerifierKey {
    bench.host.home().journal_key.verifier().clone()
}

#[test]
fn the_same_run_gives_the_same_bundle() {
    let bench = Bench::new();
    let first = bundle(&bench);
    let files = unpack(&first);
    assert_eq!(files[0].0, "manifest.json");
    assert!(files.iter().any(|(path, content)| path == "diff.patch"
        && String::from_utf8_lossy(content).contains("+zwei")));
    assert!(verify(first.as_slice(), &key(&bench)).unwrap().is_whole());
}

#[test]
fn every_change_is_found() {
    let bench = Bench::new();
    let files = unpack(&bundle(&bench));
    let find = |start: &str| files.iter().position(|(path, _)| path.starts_with(start)).unwrap();
    let check = |change: &dyn Fn(&mut Files), expected: &str| {
        let mut changed = files.clone();
        change(&mut changed);
        let verified = verify(pack(&changed).as_slice(), &key(&bench)).unwrap();
        assert!(codes(&verified).contains(&expected), "{expected}: {:#?}", verified.problems);
    };
    assert!(verify(pack(&files).as_slice(), &key(&bench)).unwrap().is_whole());
    for start in ["diff.patch", "artifacts/", "receipts/"] {
        let at = find(start);
        check(&|files| files[at].1.push(b'x'), "ENTRY_CHANGED");
        check(&|files| drop(files.remove(at)), "ENTRY_MISSING");
        check(&|files| files[at].0.push('x'), "ENTRY_UNKNOWN");
    }
    check(&|files| files.push(("more".to_owned(), b"x".to_vec())), "ENTRY_UNKNOWN");
    let twice = files[find("diff.patch")].clone();
    check(&|files| files.push(twice.clone()), "ENTRY_UNKNOWN");
    check(&|files| files[0].1.push(b' '), "MANIFEST_REWRITTEN");
    // A manifest that tells of another call than its receipt proves.
    let told = |from: &str, to: &str| {
        let text = String::from_utf8(files[0].1.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        text.replacen(from, to, 1).into_bytes()
    };
    let lie = told("\"state\":\"COMPLETED\"", "\"state\":\"DENIED\"");
    check(&|files| files[0].1.clone_from(&lie), "RECEIPT_MISMATCH");
}

#[test]
fn a_bundle_of_another_home_does_not_verify_with_this_key() {
    let (bench, other) = (Bench::new(), Bench::new());
    let verified = verify(bundle(&bench).as_slice(), &key(&other)).unwrap();
    assert!(codes(&verified).contains(&"RECEIPT_INVALID"));
    assert_eq!(verified.receipts, 0);
}

#[test]
fn what_is_no_bundle_is_refused() {
    let bench = Bench::new();
    let bytes = bundle(&bench);
    for bad in [&b""[..], b"not a tar file", &bytes[..bytes.len() / 2], &bytes[512..]] {
        let verified = verify(bad, &key(&bench));
        let found = verified.is_err() || !verified.unwrap().is_whole();
        assert!(found, "{} bytes", bad.len());
    }
}
