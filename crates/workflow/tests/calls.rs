//! Calls of tools that take long or fail: what stops them, what waits for them, what tries again.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{Bench, delay, tool, types, workflow};
use countersign_flow::{Command, PausePolicy, Status};
use countersign_host::tool::{Footprint, NativeTool, Place, ToolContext};
use countersign_host::{Handlers, builtin};
use countersign_model::{Capability, Failure, RunId};
use countersign_workflow::{Engine, Reach, Settings, Trouble};
use serde_json::{Value, json};

/// A tool that goes on for as long as the test wants, and then writes a key.
#[derive(Debug, Clone, Default)]
struct Slow {
    begun: Arc<AtomicUsize>,
    open: Arc<AtomicBool>,
}

impl NativeTool for Slow {
    fn footprint(&self, _: &Value, _: &Place) -> Result<Footprint, Failure> {
        let key = "slow".to_owned();
        Ok(Footprint::needs(Capability::StateWrite, key.clone()).may_change_key(key))
    }

    fn run(&self, _: &Value, context: &mut ToolContext) -> Result<Value, Failure> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        context.put_key("slow", b"1".to_vec())?;
        while !self.open.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(2));
            context.check()?;
        }
        Ok(json!({"done": true}))
    }
}

/// A tool that always fails, in the way it is asked to.
#[derive(Debug, Clone, Default)]
struct Fails(Arc<AtomicUsize>);

impl NativeTool for Fails {
    fn footprint(&self, _: &Value, _: &Place) -> Result<Footprint, Failure> {
        Ok(Footprint::nothing())
    }

    fn run(&self, input: &Value, _: &mut ToolContext) -> Result<Value, Failure> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(match input["as"].as_str() {
            Some("time") => Failure::timeout("LATE", "not now"),
            Some("limit") => Failure::resource("MEMORY_LIMIT", "never"),
            _ => Failure::execution("BROKEN", "no"),
        })
    }
}

fn declare(bench: &Bench, id: &str, handler: &str, capabilities: &[&str], idempotent: bool) {
    let dialect = "https://json-schema.org/draft/2020-12/schema";
    let how = json!({"type": "string", "description": "How"});
    let done = json!({"type": "boolean", "description": "It is done"});
    let declaration = json!({
        "id": id, "version": "1.0.0", "name": id, "description": "A tool for tests",
        "inputSchema": {"$schema": dialect, "type": "object", "properties": {"as": how},
            "required": [], "additionalProperties": false},
        "outputSchema": {"$schema": dialect, "type": "object", "properties": {"done": done},
            "required": ["done"], "additionalProperties": false},
        "requiredCapabilities": capabilities,
        "resourceLimits": {"maxExecutionTime": 60_000, "maxMemory": 1 << 20, "maxFileSize": 1000},
        "deterministic": false, "idempotent": idempotent,
        "runtime": {"kind": "builtin", "handler": handler},
    });
    bench.declare(id, &declaration);
}

fn slow_bench(workflows: &[Value]) -> (Bench, Slow, Handlers) {
    let bench = Bench::new(workflows);
    declare(&bench, "test.slow", "test.slow", &["state.write"], false);
    bench.grant("state.write");
    let slow = Slow::default();
    let handlers = builtin::handlers().with("test.slow", slow.clone());
    (bench, slow, handlers)
}

fn calls_slowly(id: &str) -> Value {
    tool(id, "test.slow", &json!({}))
}

fn begun(bench: &Bench, slow: &Slow, times: usize) {
    bench.until(|| (slow.begun.load(Ordering::SeqCst) >= times).then_some(()));
}

fn key(engine: &Engine) -> Option<Vec<u8>> {
    engine.host().home().store.key("slow").unwrap()
}

/// What became of the calls of a home, as soon as so many are there and over.
fn ends(bench: &Bench, engine: &Engine, count: usize) -> Vec<String> {
    bench.until(|| {
        let mut ends = Vec::new();
        let filter = countersign_journal::CallFilter::default();
        let mut note = |call: countersign_model::record::CallSummary| {
            let code = call.error.map_or("done".to_owned(), |error| error.code.to_string());
            ends.push(call.terminal.then_some(code));
            Ok(())
        };
        engine.host().home().store.visit_calls(&filter, &mut note).unwrap();
        ends.into_iter().collect::<Option<Vec<_>>>().filter(|ends| ends.len() == count)
    })
}

fn cancel() -> Command {
    Command::Cancel { reason: None, by: None, parent: None }
}

fn pause() -> Command {
    Command::Pause { policy: PausePolicy::Immediate, reason: None }
}

#[test]
fn a_cancelled_run_stops_its_call_and_nothing_of_it_is_published() {
    let (bench, slow, handlers) = slow_bench(&[calls_slowly("slow")]);
    let engine = bench.engine_of(&handlers, Settings::default());
    let run = engine.create(bench.begin("slow")).unwrap().run;
    begun(&bench, &slow, 1);
    engine.command(&run, &cancel()).unwrap();
    assert_eq!(ends(&bench, &engine, 1), ["CANCELLED"]);
    assert_eq!(key(&engine), None);
    assert_eq!(engine.view(&run).unwrap().state.status(), Status::Cancelled);
    bench.verify();
}

#[test]
fn another_process_cancels_and_the_call_is_stopped_here() {
    let (bench, slow, handlers) = slow_bench(&[calls_slowly("slow")]);
    let engine = bench.engine_of(&handlers, Settings::default());
    let run = engine.create(bench.begin("slow")).unwrap().run;
    begun(&bench, &slow, 1);
    let settings = Settings { reach: Reach::Nothing, ..Settings::default() };
    bench.engine_of(&handlers, settings).command(&run, &cancel()).unwrap();
    assert_eq!(ends(&bench, &engine, 1), ["CANCELLED"]);
    assert_eq!(key(&engine), None);
}

#[test]
fn a_run_whose_time_is_over_stops_its_call() {
    let (bench, slow, handlers) = slow_bench(&[calls_slowly("slow")]);
    let engine = bench.engine_of(&handlers, Settings::default());
    let mut begin = bench.begin("slow");
    begin.configurable = json!({"runTimeoutMs": 1000}).as_object().unwrap().clone();
    let run = engine.create(begin).unwrap().run;
    begun(&bench, &slow, 1);
    assert_eq!(bench.wait(&engine, &run), Status::Failed);
    assert_eq!(ends(&bench, &engine, 1), ["CANCELLED"]);
    assert_eq!(key(&engine), None);
}

#[test]
fn a_paused_run_stops_its_call_and_makes_another_when_it_goes_on() {
    let (bench, slow, handlers) = slow_bench(&[calls_slowly("slow")]);
    let engine = bench.engine_of(&handlers, Settings::default());
    let run = engine.create(bench.begin("slow")).unwrap().run;
    begun(&bench, &slow, 1);
    engine.command(&run, &pause()).unwrap();
    // At once: the first call may not have heard of it yet.
    engine.command(&run, &Command::Resume { reason: None }).unwrap();
    begun(&bench, &slow, 2);
    slow.open.store(true, Ordering::SeqCst);
    assert_eq!(bench.wait(&engine, &run), Status::Completed, "{:?}", types(&engine, &run));
    let mut ends = ends(&bench, &engine, 2);
    ends.sort();
    assert_eq!(ends, ["CANCELLED", "done"]);
    assert!(key(&engine).is_some());
    bench.verify();
}

#[test]
fn calls_that_take_long_hold_up_nothing_else() {
    let (bench, slow, handlers) = slow_bench(&[calls_slowly("slow"), delay("short", 50)]);
    let engine = bench.engine_of(&handlers, Settings { workers: 1, ..Settings::default() });
    let slowly = engine.create(bench.begin("slow")).unwrap().run;
    begun(&bench, &slow, 1);
    let short = engine.create(bench.begin("short")).unwrap().run;
    assert_eq!(bench.wait(&engine, &short), Status::Completed);
    slow.open.store(true, Ordering::SeqCst);
    assert_eq!(bench.wait(&engine, &slowly), Status::Completed);
    assert!(engine.close(Duration::from_secs(5)));
}

/// How often a tool was run, and how often its node began again.
fn tries(idempotent: bool, how: &str) -> (usize, usize) {
    let mut calls = tool("calls", "test.fails", &json!({"as": how}));
    calls["settings"] = json!({"maxRetries": 2});
    let bench = Bench::new(&[calls]);
    declare(&bench, "test.fails", "test.fails", &[], idempotent);
    let fails = Fails::default();
    let handlers = builtin::handlers().with("test.fails", fails.clone());
    let engine = bench.engine_of(&handlers, Settings::default());
    let run = engine.create(bench.begin("calls")).unwrap().run;
    assert_eq!(bench.wait(&engine, &run), Status::Failed);
    let again = types(&engine, &run).iter().filter(|kind| *kind == "node.retried").count();
    (fails.0.load(Ordering::SeqCst), again)
}

#[test]
fn only_what_the_host_may_try_again_is_tried_again() {
    assert_eq!(tries(false, "other"), (1, 0), "it may have done half of it");
    assert_eq!(tries(false, "time"), (1, 0), "the tool does not bear it");
    assert_eq!(tries(true, "other"), (1, 0), "it would fail again");
    assert_eq!(tries(true, "limit"), (1, 0), "it would cross the limit again");
    let (calls, again) = tries(true, "time");
    assert_eq!(again, 2);
    assert!(calls >= 3, "{calls}");
}

/// Nodes that together tell more than one entry of the journal holds.
fn wide(first: &Value) -> Value {
    let copy = |number: usize| {
        json!({"id": format!("copy{number}"), "typeId": "core.identity", "name": "n",
            "config": {}, "position": {"x": 0, "y": 0},
            "inputs": {"text": {"type": "variable", "variableName": "text"}}})
    };
    let copies: Vec<_> = (0..20).map(copy).collect();
    let nodes: Vec<_> = [first.clone()].into_iter().chain(copies).collect();
    let mut wide = workflow("wide", &nodes);
    let edge = |number: usize| {
        json!({"id": format!("e{number}"), "sourceNodeId": "first",
            "targetNodeId": format!("copy{number}")})
    };
    wide["variables"] =
        json!([{"name": "text", "type": "string", "defaultValue": "x".repeat(900_000)}]);
    wide["edges"] = (0..20).map(edge).collect();
    wide
}

fn first(type_id: &str, config: &Value) -> Value {
    json!({"id": "first", "typeId": type_id, "name": "n", "config": config,
        "position": {"x": 0, "y": 0}, "inputs": {}})
}

fn open(engine: &Engine, run: &RunId) -> bool {
    engine.summary(run).unwrap().unwrap().ended_at.is_none()
}

#[test]
fn a_run_that_begins_with_too_much_is_refused() {
    let bench = Bench::new(&[wide(&first("core.noop", &json!({})))]);
    let engine = bench.engine();
    let refused = engine.create(bench.begin("wide")).unwrap_err();
    let Trouble::Failure(failure) = refused else { panic!("{refused:?}") };
    assert_eq!(failure.code, "PAYLOAD_TOO_LARGE");
    assert_eq!(failure.class, countersign_model::ErrorClass::ValidationError);
}

#[test]
fn a_run_that_comes_to_too_much_fails() {
    let bench = Bench::new(&[wide(&first("core.delay", &json!({"ms": 20})))]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("wide")).unwrap().run;
    assert_eq!(bench.wait(&engine, &run), Status::Failed);
    let end = format!("{:?}", engine.view(&run).unwrap().state.end);
    assert!(end.contains("payload_too_large"), "{end}");
    bench.verify();
}

#[test]
fn an_answer_that_leads_to_too_much_is_refused_and_another_may_follow() {
    let gate = json!({"title": "go on?", "actions": ["accept", "reject"]});
    let bench = Bench::new(&[wide(&first("core.approvalGate", &gate))]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("wide")).unwrap().run;
    let answer = |action: &str| {
        let target = countersign_flow::Target::Node("first".to_owned());
        let (value, actor) = (json!({"action": action}), countersign_flow::Actor::default());
        engine
            .command(&run, &Command::Resolve(countersign_flow::Resolution { target, value, actor }))
    };
    let refused = answer("accept").unwrap_err();
    assert!(
        matches!(refused, Trouble::Command(countersign_flow::Refusal::Invalid(_))),
        "{refused:?}"
    );
    assert!(open(&engine, &run));
    answer("reject").unwrap();
    assert!(!open(&engine, &run));
}
