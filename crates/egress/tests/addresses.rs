//! Names and addresses: what is resolved, what is checked, and what is connected to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Bench, HERE, Names, codes, echo, listener, rules, server, some};
use std::io::Write;
use std::net::IpAddr;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use countersign_egress::{Net, Protocol, Proxy, Resolve, Rules, SystemResolver};

fn connect(target: &str) -> Vec<u8> {
    format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").into_bytes()
}

#[test]
fn what_is_denied_is_never_resolved() {
    let names = Names::of(&[("a.test", &[HERE]), ("b.test", &[HERE])]);
    let bench = Bench::start(rules(&["a.test".to_owned(), "*.c.test".to_owned()]), &names);
    for (target, code) in [
        ("b.test:443", "HOST_NOT_ALLOWED"),
        ("c.test:443", "HOST_NOT_ALLOWED"),
        ("a.test.evil.org:443", "HOST_NOT_ALLOWED"),
        ("a.test:22", "PORT_NOT_ALLOWED"),
        ("127.0.0.1:443", "HOST_NOT_ALLOWED"),
        ("[::1]:443", "HOST_NOT_ALLOWED"),
        ("[::ffff:127.0.0.1]:443", "HOST_NOT_ALLOWED"),
    ] {
        let answer = bench.ask(&connect(target));
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{target}: {answer}");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], code, "{target}");
        assert_eq!(body["error"]["class"], "AuthorizationError");
        assert!(body["error"]["hint"].is_string());
    }
    for target in ["127.1:443", "2130706433:443", "0x7f.1:443", "a.test@b.test:443", "a%2etest:443"]
    {
        assert!(bench.ask(&connect(target)).starts_with("HTTP/1.1 400 "), "{target}");
    }
    assert_eq!(bench.names.asked(), [""; 0]);
    assert_eq!(bench.stop().len(), 12);
}

#[test]
fn a_name_is_asked_for_once_and_its_address_is_pinned() {
    let port = echo();
    // A rebinding name server: harmless at first, then inside.
    let names = Names::of(&[("a.test", &[HERE, "10.0.0.1"])]);
    let bench = Bench::start(rules(&[format!("a.test:{port}")]), &names);
    let mut client = bench.client();
    client.write_all(&connect(&format!("a.test:{port}"))).unwrap();
    assert!(common::head(&mut client).starts_with("HTTP/1.1 200 "));
    client.write_all(b"ping").unwrap();
    assert_eq!(common::exactly(&mut client, 4), b"ping");
    assert_eq!(bench.names.asked(), ["a.test"]);
    // The next connection asks again, and is judged by the new answer.
    assert!(bench.ask(&connect(&format!("a.test:{port}"))).contains("ADDRESS_PRIVATE"));
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&["", "ADDRESS_PRIVATE"]));
    assert_eq!(attempts[0].address, Some(HERE.parse().unwrap()));
    assert_eq!(attempts[1].address, Some("10.0.0.1".parse().unwrap()));
    assert_eq!((attempts[0].sent, attempts[0].received), (4, 4));
}

#[test]
fn one_forbidden_address_condemns_the_answer() {
    let (port, got) = listener();
    for inside in ["10.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fd00:ec2::254"] {
        for answer in [format!("{HERE} {inside}"), format!("{inside} {HERE}")] {
            let names = Names::of(&[("a.test", &[&answer])]);
            let bench = Bench::start(rules(&[format!("a.test:{port}")]), &names);
            let refused = bench.ask(&connect(&format!("a.test:{port}")));
            assert!(refused.starts_with("HTTP/1.1 403 "), "{answer}: {refused}");
            assert!(!refused.contains("10.0.0.1"), "the sandbox learns where the name leads");
            let attempts = bench.stop();
            assert_eq!(attempts[0].verdict.code(), Some("ADDRESS_PRIVATE"));
            assert_eq!(attempts[0].address, Some(inside.parse().unwrap()));
        }
    }
    assert!(got.try_recv().is_err(), "a server was reached");
}

#[test]
fn loopback_needs_an_exception_even_by_literal_rule() {
    let (port, got) = listener();
    let hosts = vec![format!("127.0.0.1:{port}").parse().unwrap()];
    let bench = Bench::start(Rules { hosts, ..Rules::default() }, &Names::of(&[]));
    assert!(bench.ask(&connect(&format!("127.0.0.1:{port}"))).contains("ADDRESS_PRIVATE"));
    assert_eq!(bench.codes(), some(&["ADDRESS_PRIVATE"]));
    assert!(got.try_recv().is_err());
}

#[test]
fn an_address_that_does_not_answer_makes_way_for_the_next() {
    let port = echo();
    // Nothing listens on the same port of the neighbour.
    let names = Names::of(&[("a.test", &["127.0.0.9 127.0.0.1"])]);
    let bench = Bench::start(rules(&[format!("a.test:{port}")]), &names);
    let mut client = bench.client();
    client.write_all(&connect(&format!("a.test:{port}"))).unwrap();
    assert!(common::head(&mut client).starts_with("HTTP/1.1 200 "));
    drop(client);
    assert_eq!(bench.stop()[0].address, Some(HERE.parse().unwrap()));
}

#[test]
fn failures_of_others_have_their_own_answers() {
    // Taken, so that nobody else gets it; on the neighbour's address nothing listens.
    let taken = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let closed = taken.local_addr().unwrap().port();
    let hosts = ["gone.test", "empty.test", "a.test"].map(|name| format!("{name}:{closed}"));
    let names = Names::of(&[("empty.test", &[""]), ("a.test", &["127.0.0.9"])]);
    let bench = Bench::start(rules(&hosts), &names);
    for (host, code) in [
        ("gone.test", "NAME_UNRESOLVED"),
        ("empty.test", "NAME_UNRESOLVED"),
        ("a.test", "CONNECT_FAILED"),
    ] {
        let answer = bench.ask(&connect(&format!("{host}:{closed}")));
        assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains(code), "{answer}");
    }
    assert_eq!(bench.codes(), some(&["NAME_UNRESOLVED", "NAME_UNRESOLVED", "CONNECT_FAILED"]));
}

/// A name server that never answers.
#[derive(Debug)]
struct Hanging {
    asked: Mutex<mpsc::Sender<()>>,
    never: Mutex<mpsc::Receiver<()>>,
}

impl Resolve for Hanging {
    fn resolve(&self, _host: &str, _port: u16) -> std::io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().send(()).unwrap();
        let _ = self.never.lock().unwrap().recv();
        Ok(vec![])
    }
}

fn hanging(rules: Rules) -> (Proxy, std::net::TcpStream, mpsc::Receiver<()>, mpsc::Sender<()>) {
    let (asked, was_asked) = mpsc::channel();
    let (keep, never) = mpsc::channel();
    let resolver = Hanging { asked: Mutex::new(asked), never: Mutex::new(never) };
    let listener = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let proxy = Proxy::start(listener, rules, Arc::new(resolver)).unwrap();
    let mut client = std::net::TcpStream::connect(at).unwrap();
    client.write_all(&connect("a.test:443")).unwrap();
    (proxy, client, was_asked, keep)
}

#[test]
fn a_name_server_that_hangs_does_not_hang_the_proxy() {
    let mut rules = rules(&["a.test".to_owned()]);
    rules.timeouts.resolve = std::time::Duration::from_millis(20);
    let (proxy, mut client, _asked, _keep) = hanging(rules);
    assert!(common::rest(&mut client).starts_with("HTTP/1.1 504 "));
    assert_eq!(codes(&proxy.stop()), some(&["RESOLVE_TIMEOUT"]));
}

#[test]
fn stopping_does_not_wait_for_a_name_server() {
    let mut rules = rules(&["a.test".to_owned()]);
    rules.timeouts.resolve = std::time::Duration::from_secs(3600);
    let (proxy, _client, asked, _keep) = hanging(rules);
    asked.recv().unwrap();
    assert_eq!(codes(&proxy.stop()), some(&["STOPPED"]));
}

#[test]
fn the_system_resolves_for_real() {
    let port = server(|mut stream| {
        let _ = stream.write_all(b"hello");
    });
    let listener = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let mut rules = rules(&[format!("localhost:{port}")]);
    rules.private.push("::1".parse::<Net>().unwrap());
    let proxy = Proxy::start(listener, rules, Arc::new(SystemResolver::default())).unwrap();
    let mut client = std::net::TcpStream::connect(at).unwrap();
    client.write_all(&connect(&format!("localhost:{port}"))).unwrap();
    assert!(common::rest(&mut client).ends_with("\r\n\r\nhello"));
    let attempts = proxy.stop();
    assert_eq!((attempts[0].protocol, attempts[0].received), (Protocol::Connect, 5));
}
