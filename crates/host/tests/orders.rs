//! Orders: commands that people approve as documents. Nothing runs without them, and nothing twice.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use common::boxes::{Boxes, DONE};
use common::{Bench, HOUR, ending, facts, names, verify_chain};
use countersign_host::order::{ORDER_TOOL, Order, Ordered, Standing};
use countersign_host::people::{AddPrincipal, CreateKey};
use countersign_host::{CallCommand, Cancel, Clock, Host, Outcome, receipts};
use countersign_journal::receipt::verify;
use countersign_model::event::{CallEvent, Connection};
use countersign_model::{
    Answer, Digest, KeyScope, Lifecycle, Principal, ResourceLimits, Timestamp, Token,
};
use countersign_sandbox::Ending;
use countersign_sandbox::backend::StagedForm;
use serde_json::{Value, json};

const ID: &str = "TR-20260209-160501Z-stats";

fn made() -> Timestamp {
    "2026-02-09T16:05:01Z".parse().unwrap()
}

fn drafter() -> Principal {
    "agent:core".parse().unwrap()
}

fn order(host: &Host) -> Order {
    let input = host.take_input("input.csv", &b"a,b\n1,2\n"[..]).unwrap();
    Order {
        command: ["python3", "/in/script.py"].map(str::to_owned).to_vec(),
        document: "the document".to_owned(),
        environment: BTreeMap::new(),
        hosts: Vec::new(),
        id: ID.to_owned(),
        inputs: vec![input],
        limits: ResourceLimits {
            max_execution_time: 1_000,
            max_memory: 64 << 20,
            ..ResourceLimits::default()
        },
        outputs: vec!["output.json".to_owned()],
        people: 1,
    }
}

fn hire(bench: &Bench, host: &Host, name: &str) -> Token {
    let principal: Principal = name.parse().unwrap();
    let operator: Principal = "human:root".parse().unwrap();
    let by = operator.clone();
    let add = AddPrincipal { principal: principal.clone(), description: None, by };
    host.add_principal(&add).unwrap();
    let expires_at = bench.clock.now().plus_millis(HOUR * 1_000);
    let scopes = KeyScope::defaults(&principal);
    let create = CreateKey { principal, tenant: None, scopes, expires_at, by: operator };
    host.create_key(&create).unwrap().1
}

fn boxes() -> Arc<Boxes> {
    Boxes::new(StagedForm::Upper, |inside| {
        assert_eq!(inside.input, Value::Null, "a command reads nothing");
        let given = fs::read(inside.inputs.as_ref().unwrap().join("input.csv")).unwrap();
        fs::write(inside.out.join("output.json"), &given).unwrap();
        inside.stdout = b"not JSON\n".to_vec();
        inside.stderr = b"oh\n".to_vec();
        DONE
    })
}

fn ask(host: &Host, order: &Order) -> Outcome {
    host.order(order, made(), drafter(), Vec::new()).unwrap()
}

fn ordered(host: &Host) -> Ordered {
    host.ordered(ID, made()).unwrap().unwrap()
}

fn run(host: &Host) -> Outcome {
    host.run_order(&ordered(host), Cancel::default()).unwrap()
}

#[test]
fn an_order_waits_for_people_and_runs_once() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    assert!(host.ordered(ID, made()).unwrap().is_none());
    let outcome = ask(&host, &order(&host));
    assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::Validated, "APPROVAL_REQUIRED"));
    assert_eq!(ordered(&host).standing, Standing::Waiting);
    assert_eq!(ending(&run(&host)).2, "APPROVAL_REQUIRED", "nobody agreed yet");
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 0);

    host.answer(outcome.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(ordered(&host).standing, Standing::Approved);
    let plain = host.resume(outcome.execution, Cancel::default()).unwrap_err();
    assert_eq!(plain.code, "RUNS_AS_DOCUMENT");
    // Another process runs it.
    let host = bench.host_with(&boxes);
    let done = run(&host);
    assert_eq!(done.state, Lifecycle::Completed, "{:?}", done.result);
    assert_eq!(done.result, Ok(json!({"exitCode": 0, "stderrBytes": 3, "stdoutBytes": 9})));
    assert_eq!(done.artifacts[0].digest, Digest::of(b"a,b\n1,2\n"));
    assert_eq!(ordered(&host).standing, Standing::Ran);
    let found = facts(&host, done.execution);
    let CallEvent::Committed(committed) = &found[found.len() - 2] else { panic!("{found:?}") };
    assert_eq!(committed.stdout.unwrap().digest, Digest::of(b"not JSON\n"));

    let again = host.run_order(&ordered(&host), Cancel::default()).unwrap_err();
    assert_eq!(again.code, "NOT_WAITING");
    let again = host.order(&order(&host), made(), drafter(), Vec::new()).unwrap_err();
    assert_eq!(again.code, "ORDER_RAN");
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1);
    verify_chain(&host);
}

#[test]
fn two_who_bring_the_same_order_get_one() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let order = order(&host);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let ask = || host.order(&order, made(), drafter(), Vec::new());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:#?}");
    assert_eq!(host.approvals().unwrap().len(), 1);
}

#[test]
fn what_was_refused_may_be_brought_again() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let first = ask(&host, &order(&host));
    host.answer(first.execution, &ann, Answer::No, Some("not today")).unwrap();
    assert_eq!(ordered(&host).standing, Standing::Dropped);
    let second = ask(&host, &order(&host));
    assert_ne!(first.execution, second.execution);
    host.answer(second.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(run(&host).state, Lifecycle::Completed);
}

/// Whatever policy says: `default.cedar` would let it pass.
#[test]
fn as_many_people_agree_as_the_order_says() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let (ann, ben) = (hire(&bench, &host, "human:ann"), hire(&bench, &host, "human:ben"));
    let asked = ask(&host, &Order { people: 2, ..order(&host) });
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(ordered(&host).standing, Standing::Waiting);
    assert_eq!(ending(&run(&host)).2, "APPROVAL_REQUIRED");
    let twice = host.answer(asked.execution, &ann, Answer::Yes, None).unwrap_err();
    assert_eq!(twice.code, "APPROVAL_TWICE");
    host.answer(asked.execution, &ben, Answer::Yes, None).unwrap();
    assert_eq!(run(&host).state, Lifecycle::Completed);
}

#[test]
fn nobody_approves_their_own_order() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asker: Principal = "human:ann".parse().unwrap();
    let outcome = host.order(&order(&host), made(), asker, Vec::new()).unwrap();
    let own = host.answer(outcome.execution, &ann, Answer::Yes, None).unwrap_err();
    assert_eq!(own.code, "APPROVAL_OWN");
}

#[test]
fn a_command_that_fails_keeps_what_it_said_and_nothing_else() {
    let bench = Bench::new();
    let boxes = Boxes::new(StagedForm::Upper, |inside| {
        fs::write(inside.out.join("output.json"), "half").unwrap();
        (inside.stdout, inside.stderr) = (b"so far\n".to_vec(), b"no more\n".to_vec());
        Ending::Exited { code: 3 }
    });
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    let outcome = run(&host);
    assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::RolledBack, "TOOL_FAILED"));
    let details = outcome.result.unwrap_err().details.unwrap();
    assert_eq!(details, json!({"exitCode": 3}));
    assert_eq!(outcome.stdout.unwrap().digest, Digest::of(b"so far\n"));
    assert!(outcome.artifacts.is_empty());
    assert_eq!(ordered(&host).standing, Standing::Ran);
}

#[test]
fn what_was_not_announced_is_not_taken() {
    let bench = Bench::new();
    let boxes = Boxes::new(StagedForm::Upper, |inside| {
        fs::write(inside.out.join("surprise"), "x").unwrap();
        DONE
    });
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(ending(&run(&host)).2, "OUTPUT_UNDECLARED");
}

#[test]
fn inputs_are_laid_out_for_the_run_and_removed_after_it() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    run(&host);
    let staging = host.home().staging();
    assert_eq!(fs::read_dir(&staging).unwrap().count(), 0);
    let plan = boxes.plan.lock().unwrap().clone().unwrap();
    assert_eq!(plan.directory, "/in");
    // One that a dead process left.
    let left = staging.join(format!("in-{}.x", asked.execution));
    fs::create_dir(&left).unwrap();
    bench.host_with(&boxes).recover().unwrap();
    assert!(!left.exists());
}

/// Nobody touches what another process has laid out for the same order.
#[test]
fn two_runs_at_once_give_one() {
    let bench = Bench::new();
    let boxes = Boxes::new(StagedForm::Upper, |inside| {
        let given = inside.inputs.clone().unwrap().join("input.csv");
        for _ in 0..20 {
            assert_eq!(fs::read(&given).unwrap(), b"a,b\n1,2\n");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        DONE
    });
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    let known = ordered(&host);
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let run = || bench.host_with(&boxes).run_order(&known, Cancel::default());
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let done = |outcome: &&Result<Outcome, _>| {
        outcome.as_ref().is_ok_and(|outcome| outcome.state == Lifecycle::Completed)
    };
    assert_eq!(outcomes.iter().filter(done).count(), 1, "{outcomes:#?}");
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 1);
}

/// What could not start has not run: it may be approved again.
#[test]
fn a_shortage_before_the_start_does_not_use_an_order_up() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host();
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(ending(&run(&host)).2, "RUNTIME_UNAVAILABLE");
    assert_eq!(ordered(&host).standing, Standing::Dropped);
    let host = bench.host_with(&boxes);
    let again = ask(&host, &order(&host));
    host.answer(again.execution, &ann, Answer::Yes, None).unwrap();
    assert_eq!(run(&host).state, Lifecycle::Completed);
}

#[test]
fn names_of_inputs_lead_nowhere() {
    let bench = Bench::new();
    let host = bench.host();
    for name in ["", ".", "..", "a/b", "../x", "/etc/passwd"] {
        let mut order = order(&host);
        order.inputs[0].name = name.to_owned();
        let refused = host.order(&order, made(), drafter(), Vec::new()).unwrap_err();
        assert_eq!(refused.code, "ORDER_INVALID", "{name}");
    }
}

#[test]
fn hosts_are_facts_for_policy_and_need_no_grant() {
    let bench = Bench::bare();
    let boxes = Boxes::new(StagedForm::Upper, |inside| {
        inside.connections.push(Connection {
            address: None,
            denied: None,
            host: "api.example".to_owned(),
            port: 443,
            protocol: "tls".to_owned(),
            received: 1,
            sent: 1,
        });
        DONE
    });
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let order = Order { hosts: vec!["api.example:443".to_owned()], ..order(&host) };
    let asked = ask(&host, &order);
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    let outcome = run(&host);
    assert_eq!(outcome.state, Lifecycle::Completed, "{:?}", outcome.result);
    assert_eq!(outcome.connections.len(), 1);
    let file = receipts::create(host.home(), host.registry(), outcome.execution, false).unwrap();
    let report = verify(&file, host.home().journal_key.verifier());
    assert!(report.is_verified(), "{:#?}", report.problems);

    let forbid = "forbid (principal, action, resource) \
                  when { context has host && context.host == \"api.example\" };";
    fs::write(bench.home().join("policy/no.cedar"), forbid).unwrap();
    let outcome = host
        .order(&Order { id: "TR-other".to_owned(), ..order }, made(), drafter(), Vec::new())
        .unwrap();
    assert_eq!(outcome.state, Lifecycle::Denied);
}

/// The host makes these tools; nobody calls or declares one.
#[test]
fn nobody_else_uses_the_name() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let input = serde_json::to_vec(&order(&host)).unwrap();
    let command = CallCommand::new(ORDER_TOOL.parse().unwrap(), input, drafter());
    assert_eq!(host.call(command).unwrap_err().code, "TOOL_UNKNOWN");
    bench.declare_program(ORDER_TOOL, |_| {});
    let host = bench.host_with(&boxes);
    let broken = host.registry().broken();
    assert_eq!(broken[0].findings[0].code, "TOOL_ID_RESERVED");
}

#[test]
fn a_changed_policy_makes_the_approval_void() {
    let (bench, boxes) = (Bench::new(), boxes());
    let host = bench.host_with(&boxes);
    let ann = hire(&bench, &host, "human:ann");
    let asked = ask(&host, &order(&host));
    host.answer(asked.execution, &ann, Answer::Yes, None).unwrap();
    fs::write(bench.home().join("policy/new.cedar"), "permit (principal, action, resource);")
        .unwrap();
    let outcome = run(&host);
    assert_eq!((outcome.state, ending(&outcome).2), (Lifecycle::Denied, "APPROVAL_VOID"));
    assert_eq!(names(&host, outcome.execution).last(), Some(&"denied"));
    assert_eq!(boxes.runs.load(Ordering::SeqCst), 0);
}
