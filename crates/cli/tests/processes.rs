//! Several processes on one home, processes that are killed, and calls that are stopped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Bench, collect, tree};
use rusqlite::Connection;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Counts down also when its thread panics, so that nobody waits for it.
struct Countdown<'c>(&'c AtomicUsize);

impl Drop for Countdown<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

fn nothing_recovered() -> Value {
    json!({"completed": [], "pending": [], "rolledBack": [], "unsettled": []})
}

#[test]
fn six_processes_work_side_by_side_on_one_chain() {
    const PROCESSES: usize = 6;
    const CALLS: usize = 20;
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.grant("agent:a", "state.write");
    let size = bench.verify()["size"].as_u64().unwrap();
    let left = AtomicUsize::new(PROCESSES);
    thread::scope(|scope| {
        // Whoever looks meanwhile sees a sound journal, not a half of something.
        scope.spawn(|| {
            while left.load(Ordering::Acquire) > 0 {
                bench.verify();
                bench.stats();
                assert_eq!(bench.json(&["recover"]).ok().json(), nothing_recovered());
            }
        });
        for process in 0..PROCESSES {
            let (bench, left) = (&bench, &left);
            scope.spawn(move || {
                let _done = Countdown(left);
                for call in 0..CALLS {
                    let name = format!("{process}-{call}");
                    let ended = match call % 2 {
                        0 => bench.call("file.write", &json!({"path": name, "content": name})),
                        _ => bench.call("state.put", &json!({"key": name, "value": name})),
                    };
                    ended.ok();
                }
            });
        }
    });
    let stats = bench.stats();
    assert_eq!(stats["completed"], PROCESSES * CALLS, "{stats}");
    assert_eq!(stats["executions"], PROCESSES * CALLS);
    // Six facts a call and the policies, which those say who begin at once: not one entry more.
    let grown = bench.verify()["size"].as_u64().unwrap() - size;
    let more = grown - (6 * PROCESSES * CALLS) as u64;
    assert!((1..=PROCESSES as u64).contains(&more), "{more}");
    let files = tree(&bench.ws());
    assert_eq!(files.len(), PROCESSES * CALLS / 2, "no temporary file is left");
    assert!(files.iter().all(|(name, content)| name == content));
    let database = Connection::open(bench.home().join("state/journal.db")).unwrap();
    let keys: usize = database.query_row("SELECT count(*) FROM keys", [], |r| r.get(0)).unwrap();
    assert_eq!(keys, PROCESSES * CALLS / 2);
    let claims: usize =
        database.query_row("SELECT count(*) FROM claims", [], |r| r.get(0)).unwrap();
    assert_eq!(claims, 0);
    assert_eq!(fs::read_dir(bench.home().join("state/hosts")).unwrap().count(), 0);
}

#[test]
fn two_processes_on_one_file_and_one_key_never_mix() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    bench.grant("agent:a", "state.write");
    let ended: Vec<(String, Value)> = thread::scope(|scope| {
        let work = |letter: &'static str| {
            let bench = &bench;
            move || {
                let mut ended = Vec::new();
                for round in 0..12 {
                    let content = format!("{letter}{round:02}").repeat(500);
                    let answer = match round % 3 {
                        0 => bench.call("state.put", &json!({"key": "k", "value": content})),
                        _ => bench.call("file.write", &json!({"path": "f", "content": content})),
                    };
                    ended.push((content, answer.json()));
                }
                ended
            }
        };
        let both = [scope.spawn(work("A")), scope.spawn(work("B"))];
        both.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let mut completed = Vec::new();
    for (content, answer) in ended {
        match answer["state"].as_str().unwrap() {
            "COMPLETED" => completed.push(content),
            "ROLLED_BACK" => assert_eq!(answer["error"]["code"], "CONFLICT", "{answer}"),
            _ => panic!("{answer}"),
        }
    }
    assert!(completed.contains(&bench.read("f")), "the file is one of the completed writes, whole");
    let stats = bench.stats();
    assert_eq!(stats["completed"], completed.len());
    assert_eq!((&stats["open"], &stats["unknown"]), (&json!(0), &json!(0)));
    bench.verify();
    assert_eq!(tree(&bench.ws()).len(), 1);
}

fn start(bench: &Bench, tool: &str, input: &Value) -> Child {
    let input = input.to_string();
    let args = ["--json", "call", tool, "--as", "agent:a", "--root", ".", "--input", &input];
    let mut command = bench.command(&args);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Kills a process that writes, at ever later moments, and checks every time that the file is what
/// the journal says.
#[test]
fn a_killed_process_leaves_the_old_content_or_the_new() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read,filesystem.write");
    let mut content = String::new();
    let mut survived = 0;
    for round in 0..30u64 {
        let new = format!("{round:03}").repeat(20_000);
        let before = bench.stats()["executions"].as_u64().unwrap();
        let mut child = start(&bench, "file.write", &json!({"path": "f.txt", "content": new}));
        match round % 3 {
            // As soon as the journal knows of the call: around its commit and its publishing.
            2 => wait_until(&mut child, || calls_known(&bench.home()) > before),
            // Spread over the life of a process; where each kill falls does not matter.
            _ => thread::sleep(Duration::from_micros(round * 4_500)),
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let current = || fs::read_to_string(bench.ws().join("f.txt")).unwrap_or_default();
        let seen = current();
        assert!(seen == content || seen == new, "round {round}: the file is torn");
        let recovered = match round % 2 {
            0 => bench.json(&["recover"]).ok().json(),
            // The next call recovers as well.
            _ => bench.call("text.digest", &json!({"text": "x"})).ok().json(),
        };
        let calls = bench.json(&["execution", "list", "--tool", "file.write"]).ok().json();
        let stats = bench.stats();
        assert_eq!(stats["open"], 0, "round {round}: {recovered}");
        let known = stats["executions"].as_u64().unwrap() - before - round % 2;
        let done = known == 1 && calls[0]["state"] == "COMPLETED";
        if done {
            content = new;
            survived += 1;
        } else if known == 1 {
            assert_eq!(calls[0]["state"], "ROLLED_BACK", "{}", calls[0]);
        }
        assert_eq!(current(), content, "round {round}");
        let left: Vec<_> = tree(&bench.ws()).into_keys().filter(|name| name != "f.txt").collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
        bench.verify();
        assert_eq!(bench.json(&["recover"]).ok().json(), nothing_recovered());
    }
    assert!(survived > 0, "not even the process that was killed last was done");
    let claims: usize = Connection::open(bench.home().join("state/journal.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM claims", [], |row| row.get(0))
        .unwrap();
    assert_eq!(claims, 0);
}

/// A tool that takes its time: it reads and hashes a large file, only to find that it is no text.
fn declare_slow(bench: &Bench, time: u64, size: u64) {
    let mut slow = bench.declaration("file.read");
    slow["id"] = json!("slow.read");
    slow["resourceLimits"] =
        json!({"maxExecutionTime": time, "maxMemory": 1 << 30, "maxFileSize": 1 << 30});
    bench.declare("slow.read.json", &slow);
    let mut file = File::create(bench.ws().join("large")).unwrap();
    file.write_all(&[0xff]).unwrap();
    file.set_len(size).unwrap();
}

const LARGE: u64 = 256 << 20;

fn ask(home: &Path, sql: &str) -> u64 {
    let database = Connection::open(home.join("state/journal.db")).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn calls_known(home: &Path) -> u64 {
    ask(home, "SELECT count(*) FROM calls")
}

fn is_executing(home: &Path) -> bool {
    ask(home, "SELECT count(*) FROM calls WHERE state = 'EXECUTING'") > 0
}

fn wait_until(child: &mut Child, happened: impl Fn() -> bool) {
    while !happened() && child.try_wait().unwrap().is_none() {
        thread::yield_now();
    }
}

/// Starts a slow call and does something to it while its tool runs. The tool may be faster than
/// us; then the call ends as if nothing had happened, and it is tried again.
fn while_executing<T>(bench: &Bench, act: impl Fn(&mut Child) -> T) -> (T, common::Output) {
    for _ in 0..10 {
        let mut child = start(bench, "slow.read", &json!({"path": "large"}));
        wait_until(&mut child, || is_executing(&bench.home()));
        let done = act(&mut child);
        let ended = collect(child.wait_with_output().unwrap());
        if !ended.stdout.contains("FILE_NOT_TEXT") {
            return (done, ended);
        }
    }
    panic!("no call was slow enough");
}

fn story(bench: &Bench, execution: &Value) -> Vec<String> {
    let events = bench.json(&["audit", "list"]).ok().json();
    let of_call = events.as_array().unwrap().iter().filter(|e| e["executionId"] == *execution);
    of_call.map(|event| event["state"].as_str().unwrap().to_owned()).collect()
}

const ABORTED: [&str; 6] =
    ["DECLARED", "VALIDATED", "AUTHORIZED", "EXECUTING", "ABORTED", "ROLLED_BACK"];

#[test]
fn an_interrupt_cancels_the_call_and_rolls_it_back() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read");
    declare_slow(&bench, 300_000, LARGE);
    for signal in [Signal::INT, Signal::TERM] {
        let interrupt = |child: &mut Child| _ = kill_process(Pid::from_child(child), signal);
        let ((), ended) = while_executing(&bench, interrupt);
        let error = ended.fails(1, "CANCELLED");
        assert_eq!(ended.json()["state"], "ROLLED_BACK");
        assert_eq!(story(&bench, &error["executionId"]), ABORTED);
    }
    assert_eq!(bench.stats()["open"], 0);
    bench.verify();
}

#[test]
fn a_process_killed_while_its_tool_runs_is_rolled_back_by_recovery() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read");
    declare_slow(&bench, 300_000, LARGE);
    let ((), ended) = while_executing(&bench, |child| child.kill().unwrap());
    assert_eq!((ended.code, ended.stdout.as_str()), (-1, ""));
    assert_eq!(bench.stats()["open"], 1, "looking recovers nothing");
    let recovered = bench.json(&["recover"]).ok().json();
    let rolled_back = recovered["rolledBack"].as_array().unwrap();
    assert_eq!((rolled_back.len(), &recovered["completed"]), (1, &json!([])), "{recovered}");
    assert_eq!(story(&bench, &rolled_back[0]), ABORTED);
    let shown = bench.json(&["execution", "show", "last"]).ok().json();
    assert_eq!(shown["call"]["error"]["code"], "HOST_DIED");
    assert_eq!(bench.json(&["recover"]).ok().json(), nothing_recovered());
    assert_eq!(fs::read_dir(bench.home().join("state/hosts")).unwrap().count(), 0);
    bench.verify();
}

#[test]
fn recovery_leaves_the_calls_of_living_processes_alone() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read");
    declare_slow(&bench, 300_000, LARGE);
    let mut child = start(&bench, "slow.read", &json!({"path": "large"}));
    wait_until(&mut child, || is_executing(&bench.home()));
    assert_eq!(bench.json(&["recover"]).ok().json(), nothing_recovered());
    bench.call("text.digest", &json!({"text": "beside it"})).ok();
    let ended = collect(child.wait_with_output().unwrap());
    ended.fails(1, "FILE_NOT_TEXT");
    bench.verify();
}

#[test]
fn a_grant_that_is_revoked_ends_the_call_that_relies_on_it() {
    let bench = Bench::new();
    declare_slow(&bench, 300_000, LARGE);
    let grant = bench.grant("agent:a", "filesystem.read").remove(0);
    let mut child = start(&bench, "slow.read", &json!({"path": "large"}));
    wait_until(&mut child, || is_executing(&bench.home()));
    bench.json(&["grant", "revoke", &grant]).ok();
    let ended = collect(child.wait_with_output().unwrap());
    // Unless the tool was done before the revocation came.
    if ended.code != 1 {
        let error = ended.fails(3, "GRANT_REVOKED");
        assert_eq!(story(&bench, &error["executionId"]), ABORTED);
    }
    bench.call("file.read", &json!({"path": "large"})).fails(3, "GRANT_REVOKED");
    bench.verify();
}

#[test]
fn a_call_that_runs_out_of_time_is_tried_again_and_then_given_up() {
    let bench = Bench::new();
    bench.grant("agent:a", "filesystem.read");
    declare_slow(&bench, 1, 32 << 20);
    let config = "[retry]\nmax_retries = 2\nbase_delay_ms = 1\nmax_delay_ms = 2\n";
    fs::write(bench.home().join("countersign.toml"), config).unwrap();
    let ended = bench.call("slow.read", &json!({"path": "large"}));
    let error = ended.fails(5, "TIME_LIMIT");
    assert_eq!(error["class"], "TimeoutError");
    let document = ended.json();
    assert_eq!((&document["attempts"], &document["state"]), (&json!(3), &json!("ROLLED_BACK")));
    let stats = bench.stats();
    assert_eq!((&stats["rollbacks"], &stats["retries"]), (&json!(3), &json!(2)));
    assert_eq!((&stats["executions"], &stats["rolledBack"]), (&json!(1), &json!(1)));
    let events = bench.json(&["audit", "list"]).ok().json();
    let authorized = events.as_array().unwrap().iter().filter(|e| e["state"] == "AUTHORIZED");
    assert_eq!(authorized.count(), 3, "every attempt is authorised again");
    let person = bench.run(&["execution", "show", "last"]).ok().stdout;
    assert!(person.contains("(attempt 3)") && person.contains("again in"), "{person}");
    bench.verify();
}
