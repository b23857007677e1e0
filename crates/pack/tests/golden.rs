//! One small project, packed: what an agent reads, and what is recorded about it.

#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod common;

use common::project;
use countersign_pack::{Request, build};

fn request() -> Request {
    Request {
        task: Some("Make `one` return one.".into()),
        paths: vec!["src/config.rs".into(), "src/g*.rs".into(), "data".into(), "nowhere".into()],
        exclude: vec!["new.rs".into()],
        token_budget: 2_000,
        ..Request::default()
    }
}

#[test]
fn the_text() {
    let pack = build(&request(), Some("0123456789abcdef0123"), &mut project()).unwrap();
    insta::assert_snapshot!(pack.render());
}

#[test]
fn the_record() {
    let mut pack = build(&request(), Some("0123456789abcdef0123"), &mut project()).unwrap();
    assert_eq!(pack.context_digest, pack.expected_digest().unwrap());
    for item in &mut pack.items {
        item.content = format!("{} bytes", item.content.len());
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&pack).unwrap());
}

#[test]
fn a_record_reads_back_as_the_same_pack() {
    let pack = build(&request(), None, &mut project()).unwrap();
    let text = serde_json::to_string(&pack).unwrap();
    let again: countersign_pack::ContextPack = serde_json::from_str(&text).unwrap();
    assert_eq!(again, pack);
    assert_eq!(again.render(), pack.render());
}
