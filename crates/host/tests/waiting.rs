//! How many calls may wait: thousands if they may, and no more than they may.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::thread;

use common::office::{Office, denied, waits, yes};
use common::{HOUR, agent, names, verify_chain};
use countersign_host::CallCommand;
use countersign_model::{Answer, Lifecycle, SandboxMode};
use serde_json::json;

#[test]
fn thousands_may_wait() {
    let office = Office::new();
    let many = 10_000;
    let config = format!("[approval]\nmax_waiting_per_principal = {many}\n");
    std::fs::write(office.bench.home().join("countersign.toml"), config).unwrap();
    let host = office.host();
    let ann = office.hire(&host, "human:ann");
    let (tool, input) = ("state.put".parse().unwrap(), json!({"key": "k", "value": "v"}));
    let command = CallCommand::new(tool, input.to_string().into_bytes(), agent());
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..many / 8 {
                    waits(&host.call(command.clone()).unwrap());
                }
            });
        }
    });
    drop(host);
    let host = office.host();
    let waiting = host.approvals().unwrap();
    assert_eq!(waiting.len(), many);
    yes(&host, waiting[many / 2].execution, &ann).unwrap();
    office.bench.done(&host, "text.digest", &json!({"text": "others go on"}));
    verify_chain(&host);
}

#[test]
fn nobody_has_more_questions_open_than_they_may() {
    let office = Office::new();
    let config = "[approval]\nmax_waiting_per_principal = 2\n";
    std::fs::write(office.bench.home().join("countersign.toml"), config).unwrap();
    // Two hosts on one journal count together.
    let (host, other) = (office.host(), office.host());
    let ann = office.hire(&host, "human:ann");
    let first = office.ask(&host);
    office.ask(&other);
    for host in [&host, &other] {
        let input = json!({"path": "a.txt"});
        let outcome = office.bench.call(host, "file.delete", &input);
        denied(&outcome, "TOO_MANY_WAITING");
        assert_eq!(names(host, outcome.execution), ["declared", "validated", "denied"]);
        assert_eq!(host.approvals().unwrap().len(), 2);
    }
    let input = json!({"path": "b.txt", "content": "x"});
    office.bench.done(&host, "file.write", &input);
    // Each principal is counted alone.
    let (principal, mode) = ("agent:y".parse().unwrap(), SandboxMode::DangerFullAccess);
    let command = office.bench.command("text.digest", &json!({"text": "x"}));
    waits(&host.call(CallCommand { principal, mode, ..command }).unwrap());

    host.answer(first, &ann, Answer::No, None).unwrap();
    office.ask(&other);
    verify_chain(&host);
}

#[test]
fn what_expired_is_in_nobodys_way() {
    let office = Office::new();
    let config = "[approval]\nmax_waiting_per_principal = 1\nexpire_after_hours = 1\n";
    std::fs::write(office.bench.home().join("countersign.toml"), config).unwrap();
    let host = office.host();
    let first = office.ask(&host);
    office.bench.clock.advance(HOUR);
    office.bench.grant_all(&host);
    let second = office.ask(&host);
    let call = host.home().store.call(first).unwrap().unwrap();
    assert_eq!(call.error.unwrap().code, "APPROVAL_EXPIRED");
    assert_eq!(host.approvals().unwrap().first().unwrap().execution, second);
}

#[test]
fn the_last_place_is_taken_once() {
    let office = Office::new();
    let config = "[approval]\nmax_waiting_per_principal = 5\n";
    std::fs::write(office.bench.home().join("countersign.toml"), config).unwrap();
    let hosts = [office.host(), office.host()];
    let waiting: usize = thread::scope(|scope| {
        let ask = |host| {
            let input = json!({"path": "a.txt"});
            let calls = (0..8).map(|_| office.bench.call(host, "file.delete", &input));
            calls.filter(|outcome| outcome.state == Lifecycle::Validated).count()
        };
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(move || ask(host))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!((waiting, hosts[0].approvals().unwrap().len()), (5, 5));
}
