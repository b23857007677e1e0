//! Letting go of artifacts: what is referred to stays, whatever happens in between.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod bench;

use std::thread;
use std::time::Duration;

use bench::{Bench, PATCH, human};
use countersign_actions::{ActionResult, Status};
use countersign_host::Host;
use countersign_host::collect::Collection;
use countersign_host::inspect::verify_home;
use countersign_journal::Batch;
use countersign_model::event::Fact;
use countersign_model::{ArtifactEvent, ArtifactId, Lifecycle};
use serde_json::json;

fn collect(bench: &Bench) -> Collection {
    bench.host.collect_artifacts(30, &human(), false).unwrap()
}

fn names(collection: &Collection) -> Vec<&str> {
    collection.artifacts.iter().map(|artifact| artifact.name.as_str()).collect()
}

/// The only reason why anything was kept.
fn reason(collection: &Collection) -> &'static str {
    let reasons: Vec<_> = collection.kept.keys().copied().collect();
    let [reason] = reasons[..] else { panic!("{collection:?}") };
    reason
}

fn read(host: &Host, id: &ArtifactId) -> Result<Vec<u8>, String> {
    let home = host.home();
    let found = home.store.artifact(id).unwrap();
    let record = host.present_artifact(found, id.as_str()).map_err(|e| e.code.to_string())?;
    home.blobs.get(&record.digest).map_err(|error| error.to_string())
}

fn id(result: &ActionResult, name: &str) -> ArtifactId {
    result.artifacts.iter().find(|made| made.name == name).unwrap().artifact_id.clone()
}

#[test]
fn old_artifacts_go_and_the_journal_stays_whole() {
    let bench = Bench::new();
    let old = bench.put("run_1", "old", "an old one");
    bench.pass_days(40);
    let young = bench.put("run_1", "young", "a young one");
    let agent = "agent:builder".parse().unwrap();
    let denied = bench.host.collect_artifacts(30, &agent, false).unwrap_err();
    assert_eq!(denied.code, "PEOPLE_ONLY");
    let size = bench.host.home().store.head().unwrap().size;
    let dry = bench.host.collect_artifacts(30, &human(), true).unwrap();
    assert_eq!((names(&dry), dry.removed), (vec!["old"], 1));
    assert_eq!(bench.host.home().store.head().unwrap().size, size, "nothing was recorded");
    let collection = collect(&bench);
    assert_eq!(names(&collection), ["old"]);
    assert_eq!((collection.removed, collection.removed_bytes), (1, 10));
    assert_eq!(read(&bench.host, &id(&old, "old")).unwrap_err(), "ARTIFACT_COLLECTED");
    assert_eq!(read(&bench.host, &id(&young, "young")).unwrap(), b"a young one");
    assert!(!bench.blob(&bench.record(&old, "old").digest).exists());
    assert!(names(&collect(&bench)).is_empty(), "once is enough");
    verify_home(bench.host.home(), &[], |_| {}).map_err(|_| "unsound").unwrap();
}

#[test]
fn what_is_referred_to_stays() {
    // A younger call used it.
    let bench = Bench::new();
    let patch = bench.put("run_1", "p", PATCH);
    bench.pass_days(40);
    assert_eq!(bench.run("apply_patch", json!({"patch": "p"})).status, Status::Success);
    let collection = collect(&bench);
    assert!(names(&collection).is_empty(), "{collection:?}");
    assert!(collection.kept.contains_key("a younger call used it"), "{collection:?}");
    bench.pass_days(40);
    let mut gone: Vec<_> = collect(&bench).artifacts.into_iter().map(|it| it.name).collect();
    gone.sort();
    assert_eq!(gone, ["p", "patch_applied"], "nothing refers to them any more");
    assert!(read(&bench.host, &id(&patch, "p")).is_err());

    // A younger call gave it again.
    let bench = Bench::new();
    bench.run("build_context_pack", json!({}));
    bench.pass_days(40);
    assert_eq!(bench.run("build_context_pack", json!({})).status, Status::Replayed);
    assert_eq!(reason(&collect(&bench)), "a younger call gave it again");

    // A younger artifact has the same content.
    let bench = Bench::new();
    bench.put("run_1", "one", "the same");
    bench.pass_days(40);
    bench.put("run_2", "two", "the same");
    let collection = collect(&bench);
    assert!(names(&collection).is_empty());
    assert!(collection.kept.contains_key("something else has the same content"));

    // A file that a call wrote has the same content.
    let bench = Bench::new();
    bench.put("run_1", "p", PATCH);
    let same = bench.put("run_1", "same", "ONE\ntwo\nthree\n");
    bench.run("apply_patch", json!({"patch": "p"}));
    bench.pass_days(40);
    let collection = collect(&bench);
    assert!(!names(&collection).contains(&"same"), "{collection:?}");
    assert!(read(&bench.host, &id(&same, "same")).is_ok());
}

#[test]
fn bundles_hold_what_they_name() {
    let bench = Bench::new();
    bench.put("run_1", "named", "in the bundle");
    bench.put("run_1", "other", "not in it");
    bench.pass_days(40);
    let bundle = bench.run("prepare_review_bundle", json!({"artifacts": ["named"]}));
    assert_eq!(bundle.status, Status::Success, "{bundle:?}");
    assert_eq!(names(&collect(&bench)), ["other"]);

    // One that names nothing has taken all of its run.
    let bench = Bench::new();
    bench.put("run_1", "taken", "by the bundle");
    bench.put("run_2", "apart", "of another run");
    bench.pass_days(40);
    assert_eq!(bench.run("prepare_review_bundle", json!({})).status, Status::Success);
    let collection = collect(&bench);
    assert_eq!(names(&collection), ["apart"], "{collection:?}");
    assert!(collection.kept.contains_key("a review bundle names it"), "{collection:?}");
}

#[test]
fn an_open_call_holds_on_to_its_run_and_to_what_it_was_given() {
    let bench = Bench::new();
    bench.put("run_1", "of the run", "kept");
    bench.put("run_2", "elsewhere", "gone");
    bench.pass_days(40);
    let host = bench.another();
    thread::scope(|scope| {
        let held = bench.hold();
        let call =
            scope.spawn(|| bench.call_with(&host, "test.slow", "run_1", &json!({"text": "slow"})));
        until(|| !bench.host.home().store.open_calls().unwrap().is_empty());
        let collection = collect(&bench);
        assert_eq!(names(&collection), ["elsewhere"]);
        assert_eq!(reason(&collection), "a call of its run has not ended");
        drop(held);
        call.join().unwrap();
    });
    assert_eq!(names(&collect(&bench)), ["of the run"]);
}

#[test]
fn who_is_interrupted_after_the_fact_is_finished_by_the_next() {
    let bench = Bench::new();
    let old = bench.put("run_1", "old", "an old one");
    let again = bench.put("run_1", "again", "made again");
    bench.pass_days(40);
    let at = bench.host.home().store.artifact(&id(&old, "old")).unwrap().unwrap().at;
    let artifacts = vec![id(&old, "old"), id(&again, "again")];
    let fact = Fact::Artifact(ArtifactEvent::Collected { artifacts, at, by: human() });
    let batch = Batch { facts: vec![(at, fact)], ..Batch::default() };
    bench.host.home().store.append(batch).unwrap();
    let new = bench.put("run_1", "new", "made again");
    let (digest, kept) = (bench.record(&old, "old").digest, bench.record(&new, "new").digest);
    assert!(bench.blob(&digest).exists());
    let collection = collect(&bench);
    assert!(names(&collection).is_empty());
    assert_eq!(collection.removed, 1);
    assert!(!bench.blob(&digest).exists() && bench.blob(&kept).exists());
    assert_eq!(read(&bench.host, &id(&again, "again")).unwrap_err(), "ARTIFACT_COLLECTED");
    assert_eq!(read(&bench.host, &id(&new, "new")).unwrap(), b"made again");
}

#[test]
fn two_collections_at_once_let_go_of_everything_once() {
    let bench = Bench::new();
    for n in 0..20 {
        bench.put("run_1", &format!("old {n}"), &format!("content {n}"));
    }
    bench.pass_days(40);
    let hosts = [bench.another(), bench.another()];
    let collected: Vec<Collection> = thread::scope(|scope| {
        let collect =
            |host| scope.spawn(move || Host::collect_artifacts(host, 30, &human(), false));
        let running: Vec<_> = hosts.iter().map(collect).collect();
        running.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    let artifacts: usize = collected.iter().map(|one| one.artifacts.len()).sum();
    let removed: u64 = collected.iter().map(|one| one.removed).sum();
    assert_eq!((artifacts, removed), (20, 20), "{collected:?}");
    verify_home(bench.host.home(), &[], |_| {}).map_err(|_| "unsound").unwrap();
}

/// A small content waits in memory, and is written when it is named; a large one is in the store, and
/// must stay there.
#[test]
fn a_content_that_a_call_is_about_to_name_is_there() {
    for (times, left) in [(1, 0), (1 << 20, 1)] {
        let bench = Bench::new();
        let text = "the same".repeat(times);
        let old = bench.put("run_1", "old", &text);
        bench.pass_days(40);
        let digest = bench.record(&old, "old").digest;
        let host = bench.another();
        thread::scope(|scope| {
            let held = bench.hold();
            let input = json!({"text": "the same", "times": times});
            let call = scope.spawn(|| {
                let input = input;
                bench.call_with(&host, "test.slow", "run_2", &input)
            });
            until(|| !bench.host.home().store.open_calls().unwrap().is_empty());
            let collection = collect(&bench);
            assert_eq!(names(&collection), ["old"]);
            assert_eq!((collection.removed, collection.left), (1 - left, left));
            drop(held);
            let execution = call.join().unwrap();
            assert_eq!(
                bench.host.home().store.call(execution).unwrap().unwrap().state,
                Lifecycle::Completed
            );
            let made = ArtifactId::of(execution, "made");
            assert_eq!(read(&bench.host, &made).unwrap(), text.as_bytes());
        });
        bench.pass_days(2);
        collect(&bench);
        assert!(bench.blob(&digest).exists(), "the young one needs it");
    }
}

#[test]
fn contents_that_nothing_names_go_when_they_are_old() {
    let bench = Bench::new();
    let nameless = bench.host.home().blobs.put(b"left by a call that was rolled back").unwrap();
    assert_eq!(collect(&bench).left, 1);
    assert!(bench.blob(&nameless).exists());
    let policies = bench.host.home().policy_history().unwrap();
    bench.pass_days(2);
    assert_eq!(collect(&bench).removed, 1);
    assert!(!bench.blob(&nameless).exists());
    for adopted in policies {
        assert!(bench.host.home().policy_set(&adopted.policy.digest).unwrap().is_some());
    }
}

#[test]
fn what_facts_pin_and_outputs_mention_stays() {
    let bench = Bench::new();
    let home = bench.host.home();
    let mentioned = home.blobs.put(b"the plan of a box").unwrap();
    let input = json!({"text": "long ".repeat(20_000), "kept": mentioned.to_string()});
    let call = bench.call_with(&bench.host, "test.slow", "run_1", &input);
    let pinned = home.store.call(call).unwrap().unwrap().input;
    assert!(bench.blob(&pinned.digest).exists(), "too long to stand in the journal");
    bench.pass_days(40);
    assert_eq!(names(&collect(&bench)), ["made"]);
    assert!(bench.blob(&mentioned).exists() && bench.blob(&pinned.digest).exists());
}

#[test]
fn what_was_let_go_of_is_made_anew_and_not_given_again() {
    let bench = Bench::new();
    let first = bench.run("build_context_pack", json!({}));
    bench.pass_days(40);
    collect(&bench);
    let pack = bench.fresh("run_1", "build_context_pack", json!({}));
    assert_eq!(pack.status, Status::Success);
    assert_ne!(pack.execution_id, first.execution_id);
    // The newest is given again, not the one whose artifacts were let go of.
    let again = bench.run("build_context_pack", json!({}));
    assert_eq!(again.replayed_from, pack.execution_id, "{again:?}");
    bench.pass_days(40);
    collect(&bench);
    // The content comes back under another name.
    let home = bench.host.home();
    home.blobs.put(b"").unwrap();
    let anew = bench.run("build_context_pack", json!({}));
    assert_eq!(anew.status, Status::Success, "{anew:?}");
}

fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("waited too long");
}
