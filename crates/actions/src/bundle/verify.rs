//! Whether a bundle is what it says. Needs nothing but the file and a key.

use std::collections::BTreeMap;
use std::io::Read;

use countersign_journal::VerifierKey;
use countersign_journal::receipt;
use countersign_model::digest::Hasher;
use countersign_model::{Digest, Failure};
use serde::Serialize;
use tar::{Archive, EntryType};

use super::manifest::{BundledEntry, Manifest, PATH, Role};

/// A manifest or receipt that is larger was not made here.
const MOST_BYTES: u64 = 64 << 20;

/// What was found in a bundle.
#[derive(Debug, Serialize)]
pub struct Verified {
    pub manifest: Manifest,
    pub manifest_digest: Digest,
    pub problems: Vec<Problem>,
    pub receipts: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub code: &'static str,
    pub path: String,
    pub message: String,
}

impl Verified {
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, code: &'static str, path: &str, message: impl Into<String>) {
        let path = path.escape_debug().to_string();
        self.problems.push(Problem { code, path, message: message.into() });
    }
}

fn unreadable(why: impl std::fmt::Display) -> Failure {
    Failure::validation("BUNDLE_UNREADABLE", format!("this is not a bundle: {why}"))
        .hint("name a file that `prepare_review_bundle` made")
}

/// Reads all of a bundle. `Err` means that it is none.
pub fn verify(reader: impl Read, key: &VerifierKey) -> Result<Verified, Failure> {
    let mut archive = Archive::new(reader);
    let mut files = archive.entries().map_err(unreadable)?;
    let mut first = files.next().ok_or_else(|| unreadable("it is empty"))?.map_err(unreadable)?;
    if first.path_bytes().as_ref() != PATH.as_bytes() {
        return Err(unreadable("it does not begin with a manifest"));
    }
    let bytes = read_small(&mut first)?;
    let manifest: Manifest = serde_json::from_slice(&bytes).map_err(unreadable)?;
    if manifest.contract != 1 {
        return Err(unreadable(format!("its contract is {}", manifest.contract)));
    }
    let mut verified = Verified {
        manifest_digest: Digest::of(&bytes),
        problems: Vec::new(),
        receipts: 0,
        manifest,
    };
    if verified.manifest.bytes()? != bytes {
        verified.problem("MANIFEST_REWRITTEN", PATH, "it is not in canonical form");
    }
    drop(first);
    let mut left: BTreeMap<String, BundledEntry> = BTreeMap::new();
    for entry in verified.manifest.entries.clone() {
        if let Some(twice) = left.insert(entry.path.clone(), entry) {
            verified.problem("ENTRY_TWICE", &twice.path, "the manifest names it twice");
        }
    }
    for file in files {
        let mut file = file.map_err(unreadable)?;
        let path = String::from_utf8_lossy(&file.path_bytes()).into_owned();
        let plain = file.header().entry_type() == EntryType::Regular;
        match left.remove(&path).filter(|_| plain) {
            Some(entry) => check(&mut verified, &entry, &mut file, key)?,
            None => verified.problem("ENTRY_UNKNOWN", &path, "the manifest does not name it"),
        }
    }
    for path in left.keys() {
        verified.problem("ENTRY_MISSING", path, "the manifest names it, and it is not there");
    }
    Ok(verified)
}

fn read_small(file: &mut impl Read) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(unreadable("a part of it is too large"));
    }
    Ok(bytes)
}

fn check(
    verified: &mut Verified,
    entry: &BundledEntry,
    file: &mut impl Read,
    key: &VerifierKey,
) -> Result<(), Failure> {
    let digest = match entry.role {
        Role::Receipt => {
            let bytes = read_small(file)?;
            check_receipt(verified, entry, &bytes, key);
            Digest::of(&bytes)
        }
        Role::Diff | Role::Artifact => Hasher::of_all(file).map_err(unreadable)?,
    };
    if digest != entry.sha256 {
        let message = format!("its content is {}, not {}", digest.short(), entry.sha256.short());
        verified.problem("ENTRY_CHANGED", &entry.path, message);
    }
    Ok(())
}

/// A receipt must prove the call that the manifest tells of.
fn check_receipt(verified: &mut Verified, entry: &BundledEntry, bytes: &[u8], key: &VerifierKey) {
    let report = receipt::verify(bytes, key);
    if !report.is_verified() {
        verified.problem("RECEIPT_INVALID", &entry.path, "it does not verify with this key");
        return;
    }
    verified.receipts += 1;
    let told = verified.manifest.calls.iter().find(|call| Some(call.execution) == entry.execution);
    let fits = told.is_some_and(|call| {
        let proven = report.call.as_ref();
        proven
            .is_some_and(|proven| proven.execution == call.execution && proven.state == call.state)
    });
    if !fits {
        let message = "it proves another call than the manifest tells of";
        verified.problem("RECEIPT_MISMATCH", &entry.path, message);
    }
}
