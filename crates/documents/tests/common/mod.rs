//! The corpus of requests, and how it is judged.
#![allow(dead_code, reason = "each test uses a part of this")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use countersign_documents::Judgement;
use countersign_documents::request::{Ceilings, Given, Request, Stage, judge};

/// A document of the corpus, and the second column of its table.
pub(crate) struct Case {
    pub name: String,
    pub bytes: Vec<u8>,
    pub column: String,
}

pub(crate) fn folder(which: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/requests").join(which)
}

/// Every document of a folder. The table and the folder name the same files.
pub(crate) fn cases(which: &str) -> Vec<Case> {
    let folder = folder(which);
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
    let [name, column, why] = columns.as_slice() else { panic!("three columns: {row}") };
    assert!(!why.is_empty(), "{name} says why");
    let bytes = fs::read(folder.join(name)).unwrap();
    Case { name: (*name).to_owned(), bytes, column: (*column).to_owned() }
}

pub(crate) fn given(file_name: Option<&str>, stage: Stage) -> Given<'_> {
    let now = "2026-03-01T00:00:00Z".parse().unwrap();
    Given { file_name, now, ceilings: Ceilings::default(), stage }
}

pub(crate) fn judged(bytes: &[u8], name: &str, stage: Stage) -> Judgement<Request> {
    judge(bytes, &given(Some(name), stage))
}

pub(crate) fn stage(name: &str) -> Stage {
    match name {
        "draft" => Stage::Draft,
        "approved" => Stage::Approved,
        other => panic!("`{other}` is no stage"),
    }
}

/// The codes against a document, each once, in the order of their names.
pub(crate) fn codes<T>(judgement: &Judgement<T>) -> String {
    let codes: BTreeSet<&str> = judgement.reasons().iter().map(|r| r.code.as_str()).collect();
    codes.into_iter().collect::<Vec<_>>().join(" ")
}

/// Reasons in one line each, for messages of tests.
pub(crate) fn told<T>(judgement: &Judgement<T>) -> String {
    let line = |reason: &countersign_documents::Reason| {
        format!("  {}:{} {}: {}", reason.line, reason.column, reason.code, reason.message)
    };
    judgement.reasons().iter().map(line).collect::<Vec<_>>().join("\n")
}
