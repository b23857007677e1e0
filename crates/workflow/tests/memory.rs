//! Memories of tenants: what is written stands once, ages, and is nobody else's.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

mod common;

use std::time::Duration;

use common::{AGENT, Bench, noop, types, workflow};
use countersign_flow::{Offers, Status};
use countersign_workflow::{
    Begin, Engine, MOST_MEMORY_BYTES, Memory, Note, Secrets, Settings, Trouble,
};
use serde_json::{Value, json};

const PLAIN: &str = "correct horse battery staple";

fn settings() -> Settings {
    let secrets = Secrets::default().with("my-secret", PLAIN);
    Settings { offers: Offers::conformance(), secrets, ..Settings::default() }
}

fn memory<'e>(engine: &'e Engine, tenant: &str) -> Memory<'e> {
    engine.memory(tenant, AGENT.parse().unwrap())
}

fn note(id: &str, content: &str) -> Note {
    Note { id: id.to_owned(), content: content.to_owned(), ..Note::default() }
}

#[test]
fn what_is_written_is_read_and_removed_by_its_tenant_alone() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine_with(settings());
    let (one, two) = (memory(&engine, "one"), memory(&engine, "two"));
    let tags = vec!["kept".to_owned(), String::new()];
    let put = one.put("a/b", Note { tags, ..note("x", "first") }).unwrap();
    assert_eq!(put.tags, ["kept"]);
    std::thread::sleep(Duration::from_millis(5));
    one.put("a/b", note("y", "second")).unwrap();
    one.put("a", note("z", "of another memory")).unwrap();
    let ids = |tag, limit| -> Vec<String> {
        one.list("a/b", tag, limit).unwrap().into_iter().map(|entry| entry.id).collect()
    };
    assert_eq!(ids(None, None), ["y", "x"], "the newest first");
    assert_eq!(ids(None, Some(1)), ["y"]);
    assert_eq!(ids(Some("kept"), Some(0)), ["x"]);
    assert_eq!(two.list("a/b", None, None).unwrap(), []);
    assert_eq!(two.get("a/b", "x").unwrap(), None);
    assert!(!two.delete("a/b", "x").unwrap());
    assert!(one.delete("a/b", "x").unwrap() && !one.delete("a/b", "x").unwrap());
    assert_eq!(one.get("a/b", "x").unwrap(), None);
    one.put("a/b", note("x", "again")).unwrap();
    assert_eq!(one.get("a/b", "x").unwrap(), None, "what was removed is not written again");
    bench.verify();
}

#[test]
fn the_same_entry_is_written_once() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine_with(settings());
    let one = memory(&engine, "one");
    let first = one.put("m", note("x", "first")).unwrap();
    let size = bench.size();
    assert_eq!(one.put("m", note("x", "second")).unwrap(), first);
    assert_eq!(bench.size(), size, "nothing was recorded");
}

#[test]
fn secrets_and_what_looks_like_one_are_taken_out() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine_with(settings());
    let one = memory(&engine, "one");
    let shaped = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
    let put = one.put("m", note("x", &format!("it is {PLAIN}, or {shaped}"))).unwrap();
    assert_eq!(put.content, "it is [REDACTED:my-secret], or [REDACTED]");
    assert_eq!(one.get("m", "x").unwrap().unwrap(), put);
    assert_eq!(bench.holding(&[PLAIN, &shaped]), Vec::<String>::new());
}

#[test]
fn what_is_over_is_not_shown_and_what_is_too_large_not_kept() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine_with(settings());
    let one = memory(&engine, "one");
    let soon = engine.host().clock().now().plus_millis(60);
    one.put("m", Note { expires_at: Some(soon), ..note("x", "soon over") }).unwrap();
    assert!(one.get("m", "x").unwrap().is_some());
    std::thread::sleep(Duration::from_millis(80));
    assert_eq!((one.get("m", "x").unwrap(), one.list("m", None, None).unwrap()), (None, vec![]));
    let large = one.put("m", note("y", &"x".repeat(MOST_MEMORY_BYTES + 1)));
    assert!(matches!(large, Err(Trouble::Failure(f)) if f.code == "MEMORY_TOO_LARGE"));
}

#[test]
fn a_run_sees_what_was_there_when_it_began_and_what_it_wrote() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine_with(settings());
    let run = engine.create(bench.begin("plain")).unwrap().run;
    let everybody = memory(&engine, "one");
    everybody.put("m", note("before", "x")).unwrap();
    let began = engine.host().clock().now();
    std::thread::sleep(Duration::from_millis(5));
    let mine = memory(&engine, "one").seen_by(run, began);
    everybody.put("m", note("meanwhile", "x")).unwrap();
    mine.put("m", note("own", "x")).unwrap();
    let ids = |memory: &Memory<'_>| -> Vec<String> {
        let listed = memory.list("m", None, None).unwrap();
        let mut ids: Vec<_> = listed.into_iter().map(|entry| entry.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&mine), ["before", "own"]);
    assert_eq!(ids(&everybody), ["before", "meanwhile", "own"]);
}

fn probing(action: &str) -> Value {
    let config = json!({"memoryAction": action});
    let node = json!({"id": "node", "typeId": "core.identity", "name": "n", "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {},
        "agent": {"agentId": "core.some-agent", "memoryRef": "shared/name"}});
    workflow(action, &[node])
}

#[test]
fn a_run_tells_what_it_wrote_and_another_tenant_finds_nothing() {
    let bench = Bench::new(&[
        probing("write-then-read"),
        workflow(
            "elsewhere",
            &[json!({"id": "node", "typeId": "core.identity", "name": "n",
            "config": {"memoryAction": "cross-tenant-probe", "probeMemoryRef": "shared/name"},
            "position": {"x": 0, "y": 0}, "inputs": {}})],
        ),
    ]);
    let engine = bench.engine_with(settings());
    let run = engine.create(bench.begin("write-then-read")).unwrap().run;
    assert_eq!(bench.wait(&engine, &run), Status::Completed);
    let told = types(&engine, &run);
    let place = |kind: &str| told.iter().position(|one| one == kind).unwrap();
    assert!(place("memory.written") < place("node.completed"), "{told:?}");
    let view = engine.view(&run).unwrap();
    let read = &view.state.variables["memoryReadback"];
    assert!(read["content"].as_str().unwrap().contains("round trip"), "{read}");
    let of = |tenant: &str| {
        let begin = Begin::new("elsewhere", tenant, AGENT.parse().unwrap());
        let run = engine.create(begin).unwrap().run;
        assert_eq!(bench.wait(&engine, &run), Status::Completed);
        engine.view(&run).unwrap().state.variables
    };
    assert_eq!(of("t")["crossTenantProbe"].as_array().unwrap().len(), 1, "it is there");
    let other = of("another");
    assert_eq!(other["crossTenantProbe"], json!([]));
    assert_eq!(other["ownerProbe"][0]["id"], other["ownerEntryId"]);
    bench.verify();
}
