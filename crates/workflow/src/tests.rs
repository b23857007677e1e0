//! What only the inside of the engine shows: what is in memory, and in which order things follow.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use countersign_flow::{Actor, Command, PausePolicy, Resolution, Status, Target};
use countersign_model::RunId;
use serde_json::json;

use crate::common::{Bench, approval, delay, noop};
use crate::engine::{Engine, Step};
use crate::live::Live;
use crate::slot::Slot;
use crate::{Grown, Observer, Reach, Settings, Trouble};

fn engine(bench: &Bench, reach: Reach) -> Engine {
    bench.engine_with(Settings { reach, ..Settings::default() })
}

/// One that nobody tells what others do.
fn deaf(bench: &Bench) -> Engine {
    let engine = engine(bench, Reach::Own);
    engine.0.watch.close();
    engine
}

fn answer(action: &str) -> Command {
    let (target, actor) = (Target::Node("gate".to_owned()), Actor::default());
    Command::Resolve(Resolution { target, value: json!({"action": action}), actor })
}

fn pause() -> Command {
    Command::Pause { policy: PausePolicy::Immediate, reason: None }
}

fn take(slot: &Slot) -> Live {
    slot.live.lock().unwrap().take().unwrap()
}

#[test]
fn the_last_step_has_the_last_word_about_the_alarm() {
    let bench = Bench::new(&[delay("slow", 3_600_000)]);
    let engine = engine(&bench, Reach::Own);
    let run = engine.create(bench.begin("slow")).unwrap().run;
    let slot = engine.slot(&run);
    // A step that was recorded and has not been acted upon,
    let (live, slower) =
        engine.record(take(&slot), Step::of(Vec::new()), &engine.context()).unwrap();
    assert!(engine.0.alarm.of(&run).is_some());
    *slot.live.lock().unwrap() = Some(live);
    // and one after it.
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    engine.command(&run, &cancel).unwrap();
    assert_eq!(engine.0.alarm.of(&run), None);
    engine.act(&run, &slot, slower, false);
    assert_eq!(engine.0.alarm.of(&run), None, "it is over, nothing is due");
}

#[test]
fn a_step_is_acted_upon_although_the_memory_was_emptied() {
    let bench = Bench::new(&[delay("slow", 3_600_000)]);
    let engine = engine(&bench, Reach::Own);
    let run = engine.create(bench.begin("slow")).unwrap().run;
    let slot = engine.slot(&run);
    let heard = Arc::new(AtomicUsize::new(0));
    let told = Arc::clone(&heard);
    let _listens = engine.listen(&run, move |_| {
        told.fetch_add(1, Ordering::SeqCst);
    });
    let (_, next) = engine.record(take(&slot), Step::of(Vec::new()), &engine.context()).unwrap();
    engine.act(&run, &slot, next, false);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
}

#[test]
fn nobody_is_refused_because_of_what_was() {
    let bench = Bench::new(&[delay("slow", 3_600_000), approval("asks")]);
    let (deaf, other) = (deaf(&bench), engine(&bench, Reach::Nothing));
    let run = deaf.create(bench.begin("slow")).unwrap().run;
    other.command(&run, &pause()).unwrap();
    // In its memory the run is not paused.
    deaf.command(&run, &Command::Resume { reason: None }).unwrap();
    assert_eq!(deaf.view(&run).unwrap().state.status(), Status::Running);
    deaf.command(&run, &pause()).unwrap();
    other.command(&run, &Command::Resume { reason: None }).unwrap();
    // In its memory the run is paused, and nothing is to be done.
    deaf.command(&run, &pause()).unwrap();
    assert_eq!(deaf.summary(&run).unwrap().unwrap().status, "paused");
    let asks = deaf.create(bench.begin("asks")).unwrap().run;
    other.command(&asks, &answer("accept")).unwrap();
    let refused = deaf.command(&asks, &answer("accept")).unwrap_err();
    assert!(
        matches!(refused, Trouble::Command(countersign_flow::Refusal::AlreadyResolved)),
        "{refused:?}"
    );
}

#[test]
fn what_was_only_refused_is_not_kept() {
    let bench = Bench::new(&[approval("asks")]);
    let first = engine(&bench, Reach::Own);
    let run = first.create(bench.begin("asks")).unwrap().run;
    let second = engine(&bench, Reach::Own);
    assert!(second.command(&run, &answer("sing")).is_err());
    assert!(second.known(&run).is_none(), "it is not one of its runs");
    assert!(second.view(&"run-none".parse().unwrap()).is_err());
    assert!(second.command(&"run-none".parse().unwrap(), &pause()).is_err());
    assert!(second.known(&"run-none".parse().unwrap()).is_none());
    first.command(&run, &answer("accept")).unwrap();
    assert!(second.command(&run, &pause()).is_err());
    assert!(second.known(&run).is_none(), "it is over");
}

#[test]
fn a_run_is_over_once() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = engine(&bench, Reach::Own);
    let run = engine.create(bench.begin("plain")).unwrap().run;
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    for _ in 0..3 {
        engine.command(&run, &cancel).unwrap();
    }
    assert_eq!(engine.over(), [run]);
}

#[derive(Debug, Default)]
struct Counts(Mutex<HashMap<RunId, u64>>);

impl Observer for Counts {
    fn grew(&self, grown: Grown<'_>) {
        let mut counts = self.0.lock().unwrap();
        *counts.entry(grown.summary.run.clone()).or_default() += grown.events.len() as u64;
    }

    fn changed(&self, _: &str) {}
}

#[test]
fn what_this_process_did_is_told_once() {
    let bench = Bench::new(&[noop("plain")]);
    let counts = Arc::new(Counts::default());
    let observer: Option<Arc<dyn Observer>> = Some(Arc::<Counts>::clone(&counts));
    let settings = Settings { reach: Reach::Own, observer, ..Settings::default() };
    let engine = bench.engine_with(settings);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                engine.look(false).unwrap();
            }
        });
        let begin = || (0..50).for_each(|_| drop(engine.create(bench.begin("plain")).unwrap()));
        let all = [0; 4].map(|_| scope.spawn(begin));
        all.into_iter().for_each(|one| one.join().unwrap());
        over.store(true, Ordering::SeqCst);
    });
    engine.look(false).unwrap();
    let counts = counts.0.lock().unwrap();
    assert_eq!(counts.len(), 200);
    assert!(counts.values().all(|told| *told == 4), "{counts:?}");
}

#[test]
fn what_could_not_be_recorded_is_tried_again_by_the_alarm() {
    let bench = Bench::new(&[delay("slow", 3_600_000)]);
    let engine = engine(&bench, Reach::Own);
    let run = engine.create(bench.begin("slow")).unwrap().run;
    let due = || engine.0.alarm.of(&run).unwrap();
    let later = due();
    let full = Trouble::from(countersign_journal::JournalError::Full);
    assert!(full.passes());
    engine.0.alarm.close();
    engine.try_later(&run, &full);
    assert!(due() < later, "long before anything else happens to it");
    let soon = due();
    engine.look_again(&run, std::time::Duration::from_secs(60));
    assert_eq!(due(), soon, "the earlier of two");
}
