//! Runs on a real home: begun, advanced, answered, cancelled, forked, and taken over.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops where it fails"
)]

mod common;

use std::time::Duration;

use common::{Bench, approval, delay, noop, types};
use countersign_flow::fork::ForkRequest;
use countersign_flow::{Actor, Command, ForkMode, PausePolicy, Resolution, Status, Target};
use countersign_workflow::{Begin, Forker, Trouble};
use serde_json::{Map, Value, json};

#[test]
fn a_run_without_work_ends_with_its_beginning() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine();
    let before = bench.size();
    let begun = engine.create(bench.begin("plain")).unwrap();
    assert_eq!(begun.status, Status::Completed);
    assert_eq!(bench.size(), before + 1, "one entry, one commit");
    assert_eq!(
        types(&engine, &begun.run),
        ["run.started", "node.started", "node.completed", "run.completed"]
    );
    let view = engine.view(&begun.run).unwrap();
    assert_eq!((view.summary.events, view.summary.status.as_str()), (4, "completed"));
    bench.verify();
}

#[test]
fn what_is_wrong_is_told_and_leaves_nothing() {
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine();
    let before = bench.size();
    assert_eq!(
        engine.create(bench.begin("none")).unwrap_err(),
        Trouble::NoWorkflow("none".to_owned())
    );
    let mut wrong = bench.begin("plain");
    wrong.configurable = json!({"recursionLimit": 0}).as_object().unwrap().clone();
    assert!(matches!(engine.create(wrong).unwrap_err(), Trouble::Create(_)));
    assert!(matches!(engine.view(&"run-x".parse().unwrap()), Err(Trouble::NoRun)));
    assert_eq!(bench.size(), before);
}

#[test]
fn an_answer_lets_a_run_go_on_once() {
    let bench = Bench::new(&[approval("asks")]);
    let engine = bench.engine();
    let begun = engine.create(bench.begin("asks")).unwrap();
    assert_eq!(begun.status, Status::WaitingApproval);
    let answer = |action: &str| {
        let (target, actor) = (Target::Node("gate".to_owned()), Actor::default());
        let value = json!({"action": action});
        engine.command(&begun.run, &Command::Resolve(Resolution { target, value, actor }))
    };
    assert!(matches!(answer("sing"), Err(Trouble::Command(_))));
    answer("accept").unwrap();
    assert_eq!(engine.view(&begun.run).unwrap().state.status(), Status::Completed);
    assert!(matches!(answer("accept"), Err(Trouble::Command(_))));
    bench.verify();
}

#[test]
fn a_delay_passes_and_a_cancelled_run_is_over_at_once() {
    let bench = Bench::new(&[delay("short", 50), delay("long", 3_600_000)]);
    let engine = bench.engine();
    let short = engine.create(bench.begin("short")).unwrap();
    assert_eq!(short.status, Status::Running);
    assert_eq!(bench.wait(&engine, &short.run), Status::Completed);
    let long = engine.create(bench.begin("long")).unwrap();
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    engine.command(&long.run, &cancel).unwrap();
    assert_eq!(bench.wait(&engine, &long.run), Status::Cancelled);
    engine.command(&long.run, &cancel).unwrap();
    assert_eq!(types(&engine, &long.run).last().unwrap(), "run.cancelled");
    bench.verify();
}

#[test]
fn a_paused_run_rests_until_it_is_resumed() {
    let bench = Bench::new(&[delay("short", 50)]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("short")).unwrap().run;
    let pause = Command::Pause { policy: PausePolicy::Immediate, reason: None };
    engine.command(&run, &pause).unwrap();
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(engine.view(&run).unwrap().state.status(), Status::Paused);
    engine.command(&run, &Command::Resume { reason: None }).unwrap();
    assert_eq!(bench.wait(&engine, &run), Status::Completed);
}

#[test]
fn children_run_for_their_parents_and_end_with_them() {
    let child = |id: &str, of: &str| {
        common::single(
            id,
            "core.subWorkflow",
            json!({"workflowId": of,
        "waitForCompletion": true}),
        )
    };
    let bench = Bench::new(&[
        noop("leaf"),
        child("stem", "leaf"),
        delay("slow", 3_600_000),
        child("waits", "slow"),
    ]);
    let engine = bench.engine();
    let stem = engine.create(bench.begin("stem")).unwrap().run;
    assert_eq!(bench.wait(&engine, &stem), Status::Completed);
    let view = engine.view(&stem).unwrap();
    assert_eq!(view.children.len(), 1);
    let waits = engine.create(bench.begin("waits")).unwrap().run;
    let child = bench
        .until(|| engine.view(&waits).unwrap().children.first().map(|child| child.run_id.clone()));
    let cancel = Command::Cancel { reason: None, by: None, parent: None };
    engine.command(&waits, &cancel).unwrap();
    let child = child.parse().unwrap();
    assert_eq!(bench.wait(&engine, &child), Status::Cancelled);
    bench.verify();
}

#[test]
fn a_tool_is_called_once_through_the_pipeline() {
    let bench =
        Bench::new(&[common::tool("stores", "state.put", &json!({"key": "k", "value": 1}))]);
    bench.grant("state.write");
    let engine = bench.engine();
    let run = engine.create(bench.begin("stores")).unwrap().run;
    assert_eq!(bench.wait(&engine, &run), Status::Completed, "{:?}", types(&engine, &run));
    let view = engine.view(&run).unwrap();
    let execution = view.state.nodes["call"].outputs["executionId"].as_str().unwrap().to_owned();
    let call = bench.host().home().store.call(execution.parse().unwrap()).unwrap().unwrap();
    assert_eq!(call.tool.as_str(), "state.put");
    bench.verify();
}

#[test]
fn a_tool_that_is_not_granted_fails_its_run() {
    let bench =
        Bench::new(&[common::tool("stores", "state.put", &json!({"key": "k", "value": 1}))]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("stores")).unwrap().run;
    assert_eq!(bench.wait(&engine, &run), Status::Failed);
    let error = engine.view(&run).unwrap().state.end;
    assert!(format!("{error:?}").contains("grant_missing"), "{error:?}");
}

#[test]
fn whoever_is_left_finishes_what_another_began() {
    let bench = Bench::new(&[delay("short", 300), approval("asks")]);
    let (run, asks) = {
        let engine = bench.engine();
        let run = engine.create(bench.begin("short")).unwrap().run;
        let asks = engine.create(bench.begin("asks")).unwrap().run;
        assert!(engine.close(Duration::from_secs(5)));
        (run, asks)
    };
    let engine = bench.engine();
    assert_eq!(bench.wait(&engine, &run), Status::Completed);
    assert_eq!(engine.view(&asks).unwrap().state.status(), Status::WaitingApproval);
    bench.verify();
}

#[test]
fn two_processes_do_not_disturb_each_other() {
    let bench = Bench::new(&[approval("asks"), noop("plain")]);
    let (one, two) = (bench.engine(), bench.engine());
    let run = one.create(bench.begin("asks")).unwrap().run;
    let told = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = std::sync::Arc::clone(&told);
    let _listens = one.listen(&run, move |growth| heard.lock().unwrap().push(growth.ended));
    let (target, actor) = (Target::Node("gate".to_owned()), Actor::default());
    let value = json!({"action": "accept"});
    two.command(&run, &Command::Resolve(Resolution { target, value, actor })).unwrap();
    assert_eq!(bench.wait(&one, &run), Status::Completed);
    bench.until(|| told.lock().unwrap().contains(&true).then_some(()));
    bench.verify();
}

#[test]
fn forks_copy_the_past_and_replays_repeat_the_answers() {
    let bench = Bench::new(&[approval("asks")]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("asks")).unwrap().run;
    let (target, actor) = (Target::Node("gate".to_owned()), Actor::default());
    let value = json!({"action": "accept"});
    engine.command(&run, &Command::Resolve(Resolution { target, value, actor })).unwrap();
    let fork = |mode, from| {
        let request =
            ForkRequest { run_id: String::new(), mode, from_sequence: from, overlay: Map::new() };
        engine.fork(&run, request, Forker::new("agent:other".parse().unwrap()))
    };
    let replay = fork(ForkMode::Replay, None).unwrap();
    assert_eq!(bench.wait(&engine, &replay.run), Status::Completed);
    assert_eq!(types(&engine, &replay.run), types(&engine, &run));
    let view = engine.view(&replay.run).unwrap();
    assert_eq!(view.summary.principal.to_string(), "agent:other", "whoever forks it owns it");
    assert_eq!(view.seed.owner.as_ref().unwrap()["principal"], "agent:other");
    let diff = engine.diff(&run, &replay.run).unwrap();
    assert_eq!(diff["divergedAtSeq"], Value::Null, "{diff:#}");
    let branch = fork(ForkMode::Branch, Some(2)).unwrap();
    assert_eq!(branch.status, Status::WaitingApproval, "effects happen anew");
    assert!(matches!(fork(ForkMode::Branch, Some(99)), Err(Trouble::Fork(_))));
    bench.verify();
}

#[test]
fn credentials_are_not_recorded() {
    let secret = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
    let message = format!("it is {secret}");
    let bench = Bench::new(&[common::single(
        "fails",
        "core.fail",
        json!({"code": "x", "message": message}),
    )]);
    let engine = bench.engine();
    let run = engine.create(bench.begin("fails")).unwrap().run;
    let events = engine.events(&run, 0).unwrap();
    let all = serde_json::to_string(&events.iter().map(|e| (**e).clone()).collect::<Vec<_>>());
    let all = all.unwrap();
    assert!(all.contains("[REDACTED]") && !all.contains(&secret), "{all}");
}

#[test]
fn nor_is_one_that_a_run_is_begun_with() {
    let secret = format!("{}{}", "ghp_", "r3VtYp9QwZ2LmN8sXcK4bD7fH1jT6gA0uEoI");
    let bench = Bench::new(&[noop("plain")]);
    let engine = bench.engine();
    let mut begin = bench.begin("plain");
    for members in [&mut begin.inputs, &mut begin.metadata] {
        members.insert("note".to_owned(), json!({"token": secret}));
    }
    begin.tags = vec![secret.clone()];
    let run = engine.create(begin).unwrap().run;
    let seed = serde_json::to_string(&*engine.view(&run).unwrap().seed).unwrap();
    assert!(seed.contains("[REDACTED]") && !seed.contains(&secret), "{seed}");
}

#[test]
fn a_workflow_of_another_tenant_is_not_there() {
    let mut theirs = noop("theirs");
    theirs["tenantId"] = json!("them");
    let bench = Bench::new(&[theirs]);
    let engine = bench.engine();
    let refused = engine.create(bench.begin("theirs")).unwrap_err();
    assert_eq!(refused, Trouble::NoWorkflow("theirs".to_owned()));
    engine.create(Begin { tenant: "them".to_owned(), ..bench.begin("theirs") }).unwrap();
}

#[test]
fn a_scope_has_one_live_run() {
    let bench = Bench::new(&[approval("asks")]);
    let engine = bench.engine();
    let begin = || Begin { scope: Some("s".to_owned()), ..bench.begin("asks") };
    let run = engine.create(begin()).unwrap().run;
    assert_eq!(engine.create(begin()).unwrap_err(), Trouble::Active(run.clone()));
    engine.command(&run, &Command::Cancel { reason: None, by: None, parent: None }).unwrap();
    engine.create(begin()).unwrap();
}
