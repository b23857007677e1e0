//! Events over real sockets: backlog, live, ends, batches, clients that come back or never read.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{Answer, Bench, Setup};
use countersign_server::Bounds;
use serde_json::{Value, json};

fn filled(count: usize, end: bool) -> Bench {
    let bench = Bench::start();
    bench.desk.runs.append("run.started", &json!({}));
    for n in 1..count {
        let kind = if n % 2 == 0 { "node.started" } else { "node.completed" };
        bench.desk.runs.append(kind, &json!({"n": n}));
    }
    if end {
        bench.desk.runs.append("run.completed", &json!({}));
    }
    bench
}

fn open(bench: &Bench, query: &str, headers: &str) -> TcpStream {
    let mut stream = bench.connect();
    let path = format!("/v1/runs/run-1/events{query}");
    stream.write_all(&bench.request("GET", &path, headers, "")).unwrap();
    stream
}

/// The ids of the frames of a stream that has ended.
fn ids(text: &str) -> Vec<u64> {
    text.lines()
        .filter_map(|line| line.strip_prefix("id: "))
        .map(|id| id.parse().unwrap())
        .collect()
}

#[test]
fn a_run_that_has_ended_is_told_and_closed() {
    let bench = filled(600, true);
    let answer = bench.ask("GET", "/v1/runs/run-1/events?streamMode=debug", "", "");
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(ids(&answer.text()), (0..=600).collect::<Vec<_>>());
    let updates = bench.ask("GET", "/v1/runs/run-1/events", "", "").text();
    assert!(!updates.contains("node.started") && updates.ends_with("\n\n"));
    assert_eq!(ids(&updates).len(), 302);
    let late =
        bench.ask("GET", "/v1/runs/run-1/events?streamMode=debug", "last-event-id: 597\r\n", "");
    assert_eq!(ids(&late.text()), [598, 599, 600]);
    let end = bench.ask("GET", "/v1/runs/run-1/events", "last-event-id: 600\r\n", "");
    assert_eq!((end.status, end.text().as_str()), (200, ""));
    let past = bench.ask("GET", "/v1/runs/run-1/events", "last-event-id: 99999\r\n", "");
    assert_eq!((past.status, past.text().as_str()), (200, ""));
}

#[test]
fn a_list_is_a_list() {
    let bench = filled(300, false);
    let answer = bench.ask(
        "GET",
        "/v1/runs/run-1/events?streamMode=debug",
        "accept: application/json\r\n",
        "",
    );
    let events = answer.json()["events"].as_array().unwrap().clone();
    assert_eq!(events.len(), 300);
    if let Some(schema) = common::schema("run-event") {
        assert!(events.iter().all(|event| schema.is_valid(event)));
    }
}

#[test]
fn live_events_follow_the_backlog() {
    let bench = filled(3, false);
    let mut stream = open(&bench, "?streamMode=debug", "");
    let mut seen = String::new();
    while !seen.contains("id: 2\n") {
        seen.push_str(&common::line(&mut stream));
    }
    bench.desk.runs.append("node.suspended", &json!({}));
    while !seen.contains("id: 3\n") {
        seen.push_str(&common::line(&mut stream));
    }
    bench.desk.runs.append("run.cancelled", &json!({}));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).ok();
    assert!(rest.contains("id: 4\n") && rest.contains("event: run.cancelled"), "{rest}");
}

#[test]
fn the_state_is_told_after_each_change() {
    let bench = filled(4, true);
    let answer = bench.ask("GET", "/v1/runs/run-1/events?streamMode=values", "", "").text();
    assert_eq!(ids(&answer), [0, 1, 3, 4]);
    assert!(
        answer.lines().filter(|l| l.starts_with("event: ")).all(|l| l == "event: state.snapshot")
    );
    let resumed =
        bench.ask("GET", "/v1/runs/run-1/events?streamMode=values", "last-event-id: 3\r\n", "");
    assert_eq!(ids(&resumed.text()), [3, 4], "the state comes first");
}

#[test]
fn a_batch_does_not_hold_back_the_end() {
    let bench = filled(3, false);
    let began = Instant::now();
    let mut stream = open(&bench, "?streamMode=debug&bufferMs=4000", "");
    assert!(common::line(&mut stream).starts_with("HTTP/1.1 200"));
    bench.desk.runs.append("run.completed", &json!({}));
    let mut told = String::new();
    stream.read_to_string(&mut told).ok();
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert!(told.contains("event: batch\ndata: ["), "{told}");
    assert_eq!(ids(&told).last(), Some(&3));
    // Without an end it goes out when it is due.
    let bench = filled(2, false);
    let mut stream = open(&bench, "?streamMode=debug&bufferMs=200", "");
    let mut told = String::new();
    while !told.contains("id: 1\n") {
        told.push_str(&common::line(&mut stream));
    }
    assert!(!told.contains("id: 0\n"), "{told}");
}

#[test]
fn what_cannot_be_streamed_is_refused_in_order() {
    let bench = filled(2, true);
    let ask =
        |query: &str, headers: &str| bench.ask("GET", &format!("/v1/runs/{query}"), headers, "");
    ask("absent/events?streamMode=x", "").refused(404, "run_not_found");
    let body =
        ask("run-1/events?streamMode=x&bufferMs=-1", "").refused(400, "unsupported_stream_mode");
    assert_eq!(body["details"]["supported"], json!(["updates", "debug", "messages", "values"]));
    ask("run-1/events?bufferMs=5001", "").refused(400, "validation_error");
    ask("run-1/events", "last-event-id: x\r\n").refused(400, "validation_error");
    ask("run-1/events?streamMode=debug&streamMode=debug", "").refused(400, "validation_error");
    for bad in ["lastSequence=-1", "lastSequence=1.5", "lastSequence=x", "timeout=0", "timeout=61"]
    {
        ask(&format!("run-1/events/poll?{bad}"), "").refused(400, "validation_error");
    }
}

#[test]
fn a_poll_waits_for_what_is_new() {
    let bench = filled(3, false);
    let poll = |query: &str| {
        bench.ask("GET", &format!("/v1/runs/run-1/events/poll{query}"), "", "").json()
    };
    let count = |answer: &Value| answer["events"].as_array().unwrap().len();
    assert_eq!(count(&poll("")), 3);
    assert_eq!(count(&poll("?lastSequence=0")), 2);
    let empty = poll("?lastSequence=999&timeout=1");
    assert_eq!(empty, json!({"events": [], "isComplete": false}));
    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| poll("?lastSequence=2&timeout=20"));
        std::thread::sleep(Duration::from_millis(100));
        bench.desk.runs.append("run.failed", &json!({}));
        waiting.join().unwrap()
    });
    assert_eq!((count(&waiting), &waiting["isComplete"]), (1, &json!(true)));
    assert_eq!(poll("?lastSequence=3&timeout=20"), json!({"events": [], "isComplete": true}));
}

/// A reader that takes nothing costs what the sockets hold and no more, and is let go.
#[test]
fn a_client_that_never_reads_is_closed_and_not_buffered() {
    let bounds = Bounds { write_within: Duration::from_millis(300), ..Bounds::default() };
    let bench = Bench::with(Setup { bounds, inflight: 1, ..Setup::default() });
    let payload = json!({"text": "x".repeat(16 * 1024)});
    for _ in 0..4000 {
        bench.desk.runs.append("node.completed", &payload);
    }
    let stream = open(&bench, "?streamMode=debug", "");
    // Its place is free again only when the connection was closed.
    let closed = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        bench.ask("GET", "/v1/things/x", "", "").status == 200
    });
    assert!(closed, "the stream is still open");
    let pages = *bench.desk.runs.0.reads.lock().unwrap();
    assert!(pages < 10, "{pages} pages were read for nobody");
    drop(stream);
}

#[test]
fn streams_end_with_the_host() {
    let mut bench = filled(3, false);
    let mut stream = open(&bench, "?streamMode=debug&bufferMs=5000", "");
    assert!(common::line(&mut stream).starts_with("HTTP/1.1 200"));
    let began = Instant::now();
    bench.ended();
    let mut told = String::new();
    stream.read_to_string(&mut told).ok();
    assert!(told.contains("event: batch") && told.ends_with("0\r\n\r\n"), "{told}");
    assert!(began.elapsed() < Duration::from_secs(3));
}

#[test]
fn many_read_at_once() {
    let bench = filled(1, false);
    let mut streams: Vec<TcpStream> =
        (0..200).map(|_| open(&bench, "?streamMode=debug", "")).collect();
    for n in 1..50 {
        bench.desk.runs.append("node.completed", &json!({"n": n}));
    }
    bench.desk.runs.append("run.completed", &json!({}));
    for stream in &mut streams {
        let answer = Answer::read(stream);
        assert_eq!(ids(&answer.text()), (0..=50).collect::<Vec<_>>());
    }
}
