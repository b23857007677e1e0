//! Clients that are slow, silent, greedy, many, or try to be understood in two ways.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use common::{Answer, Bench, Setup};
use countersign_server::Bounds;
use countersign_server::body::BodyBounds;
use countersign_server::serve::Ended;
use serde_json::json;

const SOON: Duration = Duration::from_millis(300);

fn bounds(change: impl FnOnce(&mut Bounds)) -> Setup {
    let mut bounds = Bounds::default();
    change(&mut bounds);
    Setup { bounds, ..Setup::default() }
}

/// Waits until the other side has closed, and gives what it sent before.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

#[test]
fn heads_that_are_no_heads() {
    let bench = Bench::start();
    for bad in [
        &b"nonsense\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/3.0\r\n\r\n",
        b"GET /a b HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\n folded: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: \0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1, 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n",
    ] {
        let mut stream = bench.connect();
        stream.write_all(bad).unwrap();
        let answer = Answer::try_read(&mut stream);
        let answer = answer.unwrap_or_else(|| panic!("{:?}", String::from_utf8_lossy(bad)));
        answer.refused(400, "validation_error");
        assert_eq!(
            answer.header("connection"),
            Some("close"),
            "{:?}",
            String::from_utf8_lossy(bad)
        );
    }
    // Another protocol is not answered in this one.
    let mut other = bench.connect();
    other.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    assert!(rest(&mut other).is_empty());
    let ask = |headers: &str| bench.ask("GET", "/v1/things/x", headers, "");
    assert_eq!(ask(&"x: y\r\n".repeat(50)).status, 200);
    ask(&"x: y\r\n".repeat(70)).refused(431, "headers_too_large");
    ask(&format!("x: {}\r\n", "y".repeat(40_000))).refused(431, "headers_too_large");
    let path = format!("/v1/things/{}", "y".repeat(40_000));
    let answer = bench.ask("GET", &path, "", "");
    assert!([414, 431].contains(&answer.status), "{}", answer.status);
    common::check_envelope(&answer.json());
}

#[test]
fn a_drop_now_and_then_is_not_a_request() {
    let bench = Bench::with(bounds(|bounds| bounds.head_within = SOON));
    let began = Instant::now();
    let mut slow = bench.connect();
    slow.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    // A byte each time that nothing has happened yet.
    while slow.read(&mut [0; 64]).is_err() {
        if slow.write_all(b"x").is_err() {
            break;
        }
    }
    assert!(began.elapsed() < Duration::from_secs(10));
    let mut silent = bench.connect();
    assert!(rest(&mut silent).is_empty());
    // Between two requests as well.
    let mut idle = bench.connect();
    idle.write_all(&bench.request("GET", "/v1/things/x", "", "")).unwrap();
    assert_eq!(Answer::read(&mut idle).status, 200);
    assert!(rest(&mut idle).is_empty());
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let body = BodyBounds { max_bytes: 1000, within: SOON };
    let bench = Bench::with(Setup { body, ..Setup::default() });
    let key = &bench.key;
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{{"
    );
    let answer = bench.raw(head.as_bytes());
    answer.refused(408, "request_timeout");
    assert_eq!(answer.header("connection"), Some("close"));
    // Half open: the client stops sending and waits.
    let mut half = bench.connect();
    half.write_all(head.as_bytes()).unwrap();
    half.shutdown(Shutdown::Write).unwrap();
    let told = rest(&mut half);
    assert!(
        told.is_empty() || told.starts_with(b"HTTP/1.1 4"),
        "{}",
        String::from_utf8_lossy(&told)
    );
}

#[test]
fn large_bodies_are_refused_and_the_refusal_arrives() {
    let bench = Bench::start();
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(10 * 1024 * 1024));
    let body = bench.ask("POST", "/v1/echo", "", &large).refused(413, "payload_too_large");
    assert_eq!(body["details"]["maxBytes"], 1024 * 1024);
    // Without a length, too.
    let key = &bench.key;
    let mut stream = bench.connect();
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..160 {
        stream.write_all(chunk.as_bytes()).unwrap();
    }
    stream.write_all(b"0\r\n\r\n").unwrap();
    Answer::read(&mut stream).refused(413, "payload_too_large");
    // Whoever shows no key gets the word too, with the same bytes on the way.
    let length = large.len();
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{large}"
    );
    bench.raw(head.as_bytes()).refused(401, "unauthenticated");
    // One who asks before sending is told before sending.
    let head = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n"
    );
    bench.raw(head.as_bytes()).refused(413, "payload_too_large");
    let huge = format!(
        "POST /v1/echo HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\ncontent-length: 99999999999\r\n\r\n"
    );
    bench.raw(huge.as_bytes()).refused(413, "payload_too_large");
}

#[test]
fn requests_in_a_row_are_answered_in_a_row() {
    let bench = Bench::start();
    let mut stream = bench.connect();
    let mut bytes = Vec::new();
    for n in 0..20 {
        bytes.extend(bench.request("GET", &format!("/v1/things/t{n}"), "", ""));
        bytes.extend(bench.request("POST", "/v1/echo", "", &format!("{{\"n\":{n}}}")));
    }
    stream.write_all(&bytes).unwrap();
    for n in 0..20 {
        assert_eq!(Answer::read(&mut stream).json(), json!({"id": format!("t{n}")}));
        assert_eq!(Answer::read(&mut stream).json()["body"], json!({"n": n}));
    }
}

/// Whatever the framing claims, what is hidden behind one request is never taken for another.
#[test]
fn nothing_is_smuggled_behind_a_request() {
    let bench = Bench::start();
    let key = &bench.key;
    let hidden = String::from_utf8(bench.request("POST", "/v1/count", "", "")).unwrap();
    let tricks = [
        format!(
            "content-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}",
            hidden.len() + 5
        ),
        format!("transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding : chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding:\x0bchunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("content-length: 0\r\ncontent-length: 5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("content-length: +5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("content-length: 0x5\r\n\r\n0\r\n\r\n{hidden}"),
        format!("transfer-encoding: chunked\r\n\r\n5;ext=\"\r\n\r\nhello\r\n0\r\n\r\n{hidden}"),
    ];
    for trick in tricks {
        let head = format!(
            "POST /v1/things/x:poke HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n{trick}"
        );
        let mut stream = bench.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let told = String::from_utf8_lossy(&rest(&mut stream)).into_owned();
        let answers = told.lines().filter(|line| line.starts_with("HTTP/1.1 ")).count();
        assert!(answers <= 1, "{trick}\n{told}");
        assert!(
            told.is_empty() || told.to_lowercase().contains("connection: close"),
            "{trick}\n{told}"
        );
    }
    assert_eq!(bench.desk.counted.load(Ordering::SeqCst), 0);
}

#[test]
fn a_thousand_idle_clients_are_no_burden() {
    let bench = Bench::start();
    let idle: Vec<TcpStream> = (0..1000).map(|_| bench.connect()).collect();
    for _ in 0..20 {
        assert_eq!(bench.ask("GET", "/v1/things/x", "", "").status, 200);
    }
    for mut stream in idle.into_iter().step_by(100) {
        stream.write_all(&bench.request("GET", "/v1/things/x", "", "")).unwrap();
        assert_eq!(Answer::read(&mut stream).status, 200);
    }
}

#[test]
fn a_full_house_says_so() {
    let bench = Bench::with(bounds(|bounds| bounds.max_connections = 5));
    let mut held: Vec<TcpStream> = (0..5).map(|_| bench.connect()).collect();
    // Each is really in: it was answered once.
    for stream in &mut held {
        stream.write_all(&bench.request("GET", "/v1/things/x", "", "")).unwrap();
        assert_eq!(Answer::read(stream).status, 200);
    }
    let mut sixth = bench.connect();
    let answer = Answer::read(&mut sixth);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    common::check_envelope(&answer.json());
    drop(held);
    let again = (0..200).find_map(|_| {
        let mut stream = bench.connect();
        let _ = stream.write_all(&bench.request("GET", "/v1/things/x", "", ""));
        Answer::try_read(&mut stream).filter(|answer| answer.status == 200)
    });
    assert!(again.is_some());
}

#[test]
fn too_much_at_a_time_is_sent_away() {
    let bench = Bench::with(Setup { inflight: 2, ..Setup::default() });
    bench.desk.runs.append("run.started", &json!({}));
    let mut streams: Vec<TcpStream> = (0..2).map(|_| bench.connect()).collect();
    for stream in &mut streams {
        stream.write_all(&bench.request("GET", "/v1/runs/run-1/events", "", "")).unwrap();
        assert!(common::line(stream).starts_with("HTTP/1.1 200"));
    }
    let answer = bench.ask("GET", "/v1/things/x", "", "");
    let body = answer.refused(503, "service_unavailable");
    assert_eq!(answer.header("retry-after"), Some("2"));
    assert_eq!(body["details"]["retryAfter"], 2);
    for path in ["/.well-known/openwop", "/v1/openapi.json"] {
        assert_eq!(bench.ask("GET", path, "", "").status, 200);
    }
    drop(streams);
    let again = (0..500).any(|_| {
        std::thread::yield_now();
        bench.ask("GET", "/v1/things/x", "", "").status == 200
    });
    assert!(again, "a stream that ended gives its place back");
}

#[test]
fn who_never_reads_is_let_go() {
    let bench = Bench::with(bounds(|bounds| bounds.write_within = SOON));
    let mut stream = bench.connect();
    stream.write_all(&bench.request("GET", "/v1/big/65536", "", "")).unwrap();
    std::thread::sleep(SOON * 4);
    let mut read = 0;
    let mut part = vec![0; 1 << 20];
    while let Ok(count) = stream.read(&mut part) {
        if count == 0 {
            break;
        }
        read += count;
    }
    assert!(read < 64 * 1024 * 1024, "all of it came");
}

#[test]
fn requests_finish_when_the_host_ends() {
    let mut bench = Bench::start();
    let mut slow = bench.connect();
    let mut idle = bench.connect();
    slow.write_all(&bench.request("POST", "/v1/slow", "", "")).unwrap();
    // It is at work when its place is taken.
    std::thread::sleep(Duration::from_millis(150));
    let address = bench.address;
    assert_eq!(bench.ended(), Ended::Drained);
    assert_eq!(Answer::read(&mut slow).json(), json!({"slow": true}));
    assert!(rest(&mut idle).is_empty());
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn who_goes_away_does_not_stop_what_was_begun() {
    let bench = Bench::start();
    let mut slow = bench.connect();
    slow.write_all(&bench.request("POST", "/v1/slow", "", "")).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(slow);
    let done = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        bench.desk.counted.load(Ordering::SeqCst) == 1
    });
    assert!(done, "the handler was cut off");
}

/// As the command line does it: without a runtime of its own, ended from another thread.
#[test]
fn a_program_without_tasks_can_serve() {
    let (app, key) = common::app();
    let edge = std::sync::Arc::clone(app.edge());
    let (tell, told) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let ready = move |address| tell.send(address).unwrap();
        countersign_server::run(&countersign_server::Settings::default(), app, ready)
    });
    let address = told.recv().unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "GET /v1/things/x HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut stream).status, 200);
    edge.closing.close();
    assert_eq!(serving.join().unwrap().unwrap(), Ended::Drained);
}
