//! The corpus of results, and how it is judged.
#![allow(dead_code, reason = "each test uses a part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_documents::request::{self, Ceilings, Given, Request, Stage};
use countersign_documents::result::{Against, Recorded, ToolResult, judge};
use countersign_documents::{Judgement, Reason};
use countersign_model::Timestamp;

/// A document of the corpus with its row of the table.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) codes: String,
    /// `request=ID`, `journal=FILE`, both or `-`.
    pub(crate) against: String,
}

fn corpus(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder)
}

/// Every document of a folder. The table and the folder name the same files.
pub(crate) fn cases(which: &str) -> Vec<Case> {
    let folder = corpus("results").join(which);
    let table = fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let cases: Vec<Case> = table.lines().skip(1).map(|row| case(&folder, row)).collect();
    let listed: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    let there: BTreeSet<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "expected.tsv")
        .collect();
    assert_eq!(listed, there, "the table of {which} and its folder differ");
    cases
}

fn case(folder: &Path, row: &str) -> Case {
    let columns: Vec<&str> = row.split('\t').collect();
    let [name, codes, against, why] = columns.as_slice() else { panic!("four columns: {row}") };
    assert!(!why.is_empty(), "{name} says why");
    let bytes = fs::read(folder.join(name)).unwrap();
    Case { name: (*name).into(), bytes, codes: (*codes).into(), against: (*against).into() }
}

pub(crate) fn now() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

/// Judges a document against what its row names.
pub(crate) fn judged(bytes: &[u8], name: &str, against: &str) -> Judgement<ToolResult> {
    let given = |key: &str| against.split(' ').find_map(|part| part.strip_prefix(key));
    let request = given("request=").map(request);
    let journal = given("journal=").map(journal);
    let against = Against {
        file_name: Some(name),
        now: now(),
        request: request.as_ref(),
        journal: journal.as_ref(),
    };
    judge(bytes, &against).judgement
}

fn request(id: &str) -> Request {
    let bytes = fs::read(corpus("requests/accept").join(format!("{id}.md"))).unwrap();
    let ceilings = Ceilings::default();
    let given = Given { file_name: None, now: now(), ceilings, stage: Stage::Approved };
    request::judge(&bytes, &given).accepted().expect("a good request")
}

/// What a journal would hold if another result of the corpus were the truth.
fn journal(name: &str) -> Recorded {
    let bytes = fs::read(corpus("results/accept").join(name)).unwrap();
    let against = Against { file_name: None, now: now(), request: None, journal: None };
    Recorded::from(&judge(&bytes, &against).judgement.accepted().expect("a good result"))
}

/// The codes against a document, each once, in the order of their names.
pub(crate) fn codes<T>(judgement: &Judgement<T>) -> String {
    let codes: BTreeSet<&str> = judgement.reasons().iter().map(|r| r.code.as_str()).collect();
    codes.into_iter().collect::<Vec<_>>().join(" ")
}

/// Reasons in one line each, for messages of tests.
pub(crate) fn told<T>(judgement: &Judgement<T>) -> String {
    let line = |reason: &Reason| {
        format!("  {}:{} {}: {}", reason.line, reason.column, reason.code, reason.message)
    };
    judgement.reasons().iter().map(line).collect::<Vec<_>>().join("\n")
}
