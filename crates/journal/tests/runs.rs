//! Runs, documents and answers in the embedded store: one writer at a time, nothing twice.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Journal, NOW, SEED, document, journal, run_fact};
use countersign_journal::{
    AppendError, Batch, Conflict, Expect, JournalError, RecordKey, Reply, ReplyKey, RunFilter,
    Store,
};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Digest, RunId, RunSummary};

fn summary(run: &str, events: u64, ended: bool) -> RunSummary {
    RunSummary {
        created_at: NOW,
        definition: Digest::of(b"d"),
        ended_at: ended.then_some(NOW),
        events,
        holder: None,
        parent: None,
        principal: "agent:a".parse().unwrap(),
        run: run.parse().unwrap(),
        scope: Some("scope".to_owned()),
        seed: Payload::of(SEED),
        status: if ended { "completed" } else { "running" }.to_owned(),
        tenant: "t".to_owned(),
        updated_at: NOW,
        wake_at: None,
        workflow: "w".to_owned(),
    }
}

fn step(run: &str, first: u64, types: &[&str], ended: bool) -> Batch {
    let id: RunId = run.parse().unwrap();
    let fact = run_fact(run, first, types);
    Batch {
        facts: vec![(NOW, fact)],
        expect: vec![Expect::RunAt { run: id, events: first }],
        run: Some(summary(run, first + types.len() as u64, ended)),
        values: vec![(Digest::of(SEED), SEED.to_vec())],
        ..Batch::default()
    }
}

fn types(journal: &Journal, run: &str, from: u64) -> Vec<String> {
    let entries = journal.store.run_entries(&run.parse().unwrap(), from).unwrap();
    let mut types = Vec::new();
    for stored in entries {
        let Fact::Run(fact) = stored.entry.fact else { panic!("another fact") };
        types.extend(fact.events.iter().map(|event| event["type"].as_str().unwrap().to_owned()));
    }
    types
}

#[test]
fn a_run_grows_by_whoever_knows_where_it_stands() {
    let journal = journal(3);
    let run: RunId = "run_1".parse().unwrap();
    journal.store.append(step("run_1", 0, &["run.started", "node.started"], false)).unwrap();
    journal.store.append(step("run_1", 2, &["node.completed"], false)).unwrap();
    let late = journal.store.append(step("run_1", 2, &["node.failed"], false)).unwrap_err();
    assert_eq!(late, AppendError::Conflict(Conflict::Run(run.clone())));
    journal.store.append(step("run_1", 3, &["run.completed"], true)).unwrap();
    assert_eq!(
        types(&journal, "run_1", 0),
        ["run.started", "node.started", "node.completed", "run.completed"]
    );
    assert_eq!(types(&journal, "run_1", 3), ["run.completed"]);
    assert_eq!(types(&journal, "run_1", 1).len(), 4, "the fact around event 1 begins before it");
    assert_eq!(types(&journal, "run_1", 9), ["run.completed"]);
    assert_eq!(journal.store.run(&run).unwrap().unwrap(), summary("run_1", 4, true));
    assert_eq!(journal.store.run_payload(&run, &Digest::of(SEED)).unwrap().unwrap(), SEED);
    assert_eq!(journal.store.run(&"run_2".parse().unwrap()).unwrap(), None);
}

#[test]
fn a_scope_has_one_live_run() {
    let journal = journal(1);
    let begin = |run: &str, ended: bool| {
        let types: &[&str] = if ended { &["run.completed"] } else { &["run.started"] };
        let mut batch = step(run, 0, types, ended);
        let (tenant, scope) = ("t".to_owned(), "scope".to_owned());
        batch.expect.push(Expect::ScopeFree { tenant, scope });
        journal.store.append(batch)
    };
    begin("run_1", true).unwrap();
    begin("run_2", false).unwrap();
    let active = Conflict::Active("run_2".parse().unwrap());
    assert_eq!(begin("run_3", false).unwrap_err(), AppendError::Conflict(active));
    let mut open = Vec::new();
    let filter = RunFilter { open: true, ..RunFilter::default() };
    let mut note = |run: RunSummary| {
        open.push(run.run.to_string());
        Ok(())
    };
    journal.store.visit_runs(&filter, &mut note).unwrap();
    assert_eq!(open, ["run_2"]);
}

#[test]
fn what_cannot_be_is_not_recorded() {
    let journal = journal(1);
    for (what, fact) in [
        ("nothing", run_fact("run_1", 0, &[])),
        ("an end in between", run_fact("run_1", 0, &["run.failed", "node.started"])),
        ("a first version 2", document(2, Some("x"))),
    ] {
        let values = vec![(Digest::of(b"x"), b"x".to_vec())];
        let batch = Batch { facts: vec![(NOW, fact)], values, ..Batch::default() };
        let refused = journal.store.append(batch).unwrap_err();
        let is_so = matches!(refused, AppendError::Journal(JournalError::Unrecordable(_)));
        assert!(is_so, "{what}: {refused:?}");
    }
    assert_eq!(journal.store.head().unwrap().size, 1);
}

fn put(journal: &Journal, version: u64, value: Option<&str>) -> Result<(), AppendError> {
    let values = value.iter().map(|v| (Digest::of(v.as_bytes()), v.as_bytes().to_vec())).collect();
    let record = key();
    let expect = vec![Expect::RecordAt { record, version: version - 1 }];
    let facts = vec![(NOW, document(version, value))];
    journal.store.append(Batch { facts, values, expect, ..Batch::default() }).map(drop)
}

fn key() -> RecordKey {
    RecordKey { tenant: "t".to_owned(), space: "s".to_owned(), key: "k".to_owned() }
}

#[test]
fn a_document_changes_from_one_version_to_the_next() {
    let journal = journal(1);
    put(&journal, 1, Some("one")).unwrap();
    let late = put(&journal, 1, Some("other")).unwrap_err();
    assert_eq!(late, AppendError::Conflict(Conflict::Record("k".to_owned())));
    put(&journal, 2, Some("two")).unwrap();
    let stands = journal.store.record(&key()).unwrap().unwrap();
    assert_eq!((stands.version, stands.value), (2, Some(b"two".to_vec())));
    assert_eq!(journal.store.records(Some("t"), "s", "k").unwrap().len(), 1);
    assert_eq!(journal.store.records(Some("u"), "s", "").unwrap().len(), 0);
    assert_eq!(journal.store.records(None, "s", "x").unwrap().len(), 0);
    put(&journal, 3, None).unwrap();
    assert_eq!(journal.store.record(&key()).unwrap().unwrap().value, None);
    assert_eq!(journal.store.records(None, "s", "").unwrap().len(), 0);
    put(&journal, 4, Some("four")).unwrap();
}

#[test]
fn an_answer_is_kept_with_what_it_answers_or_not_at_all() {
    let journal = journal(1);
    let key = ReplyKey { tenant: "t".to_owned(), operation: "o".to_owned(), key: "k".to_owned() };
    let reply = |body: &str| Reply {
        key: key.clone(),
        request: Digest::of(b"r"),
        at: NOW,
        status: 201,
        body: body.as_bytes().to_vec(),
    };
    let with = |run: &str, body: &str| {
        let batch = step(run, 0, &["run.started"], false);
        journal.store.append(Batch { reply: Some(reply(body)), ..batch })
    };
    with("run_1", "one").unwrap();
    let answered = with("run_2", "two").unwrap_err();
    assert_eq!(answered, AppendError::Conflict(Conflict::Reply), "the same was answered already");
    assert_eq!(journal.store.run(&"run_2".parse().unwrap()).unwrap(), None);
    assert_eq!(journal.store.reply(&key).unwrap(), Some(reply("one")));
    journal.store.forget_replies(NOW).unwrap();
    assert!(journal.store.reply(&key).unwrap().is_some());
    journal.store.forget_replies(NOW.plus_millis(1)).unwrap();
    assert_eq!(journal.store.reply(&key).unwrap(), None);
}
