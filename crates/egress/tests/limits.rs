//! Clients that are slow, greedy, many or nonsense, and the end of it all.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Bench, HERE, Names, codes, echo, exactly, head, listener, rest, rules, some};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use countersign_egress::{Protocol, Rules};

const SOON: Duration = Duration::from_millis(30);

fn tunnel(bench: &Bench, port: u16) -> TcpStream {
    let mut client = bench.client();
    write!(client, "CONNECT a.test:{port} HTTP/1.1\r\n\r\n").unwrap();
    assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
    client
}

fn start(port: u16, change: impl FnOnce(&mut Rules)) -> Bench {
    let mut rules = rules(&[format!("a.test:{port}")]);
    change(&mut rules);
    Bench::start(rules, &Names::of(&[("a.test", &[HERE])]))
}

#[test]
fn a_drop_now_and_then_is_not_a_request() {
    let port = echo();
    let bench = start(port, |rules| rules.timeouts.head = SOON);
    for first in [&b"GET http://a.test/"[..], &[5, 255]] {
        let mut slow = bench.client();
        slow.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        slow.write_all(first).unwrap();
        // Goes on until the answer comes, with a byte each time that it has not.
        while slow.peek(&mut [0]).is_err() {
            slow.write_all(b"x").unwrap();
        }
    }
    // Meanwhile and afterwards others are served.
    let mut client = tunnel(&bench, port);
    client.write_all(b"ping").unwrap();
    assert_eq!(exactly(&mut client, 4), b"ping");
    assert_eq!(bench.codes(), some(&["HEAD_TIMEOUT", "HEAD_TIMEOUT", ""]));
}

#[test]
fn slow_clients_do_not_hold_up_the_others() {
    let port = echo();
    let bench = start(port, |rules| rules.max_connections = 20);
    let slow: Vec<_> = (0..19)
        .map(|_| {
            let mut client = bench.client();
            client.write_all(b"GET").unwrap();
            client
        })
        .collect();
    let mut client = tunnel(&bench, port);
    client.write_all(b"ping").unwrap();
    assert_eq!(exactly(&mut client, 4), b"ping");
    drop(slow);
}

#[test]
fn a_silent_connection_is_ended_and_asks_for_nothing() {
    let bench = start(1, |rules| rules.timeouts.head = SOON);
    assert_eq!(rest(&mut bench.client()), "");
    assert_eq!(bench.stop(), []);
}

#[test]
fn an_idle_tunnel_is_ended() {
    let (port, got) = listener();
    let bench = start(port, |rules| rules.timeouts.idle = SOON);
    let mut client = tunnel(&bench, port);
    assert_eq!(rest(&mut client), "");
    assert_eq!(got.recv().unwrap(), b"");
    assert_eq!(bench.codes(), some(&[""]));
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let port = common::server(|mut stream| while stream.write_all(&[0; 65536]).is_ok() {});
    let bench = start(port, |rules| rules.timeouts.idle = SOON);
    let mut client = tunnel(&bench, port);
    // The proxy gives up by itself: the connection goes away without being stopped.
    while bench.proxy.attempts()[0].received == 0 {
        std::thread::yield_now();
    }
    while client.write_all(b"x").is_ok() {
        std::thread::yield_now();
    }
    assert_eq!(bench.codes(), some(&[""]));
}

#[test]
fn there_is_a_limit_of_connections() {
    let port = echo();
    let bench = start(port, |rules| rules.max_connections = 2);
    let first = tunnel(&bench, port);
    let second = tunnel(&bench, port);
    let refused = rest(&mut bench.client());
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("TOO_MANY_CONNECTIONS"));
    drop((first, second));
    // A place is free as soon as the proxy has noticed.
    while bench.ask(b"?").contains("TOO_MANY") {
        std::thread::yield_now();
    }
    let attempts = bench.stop();
    assert_eq!(codes(&attempts[..3]), some(&["", "", "TOO_MANY_CONNECTIONS"]));
    assert_eq!(codes(&attempts[attempts.len() - 1..]), some(&["PROTOCOL_ERROR"]));
    assert_eq!(attempts[attempts.len() - 1].protocol, Protocol::Unknown);
}

#[test]
fn there_is_a_limit_of_bytes_for_all_together() {
    let (port, got) = listener();
    let bench = start(port, |rules| rules.max_bytes = 10);
    let mut first = tunnel(&bench, port);
    first.write_all(b"123456").unwrap();
    while bench.proxy.attempts()[0].sent < 6 {
        std::thread::yield_now();
    }
    let mut second = tunnel(&bench, port);
    second.write_all(b"12345").unwrap();
    assert_eq!(rest(&mut second), "");
    assert_eq!(got.recv().unwrap(), b"", "the limit was exceeded");
    first.write_all(b"7").unwrap();
    assert_eq!(rest(&mut first), "");
    assert_eq!(got.recv().unwrap(), b"123456");
    let asked = bench.names.asked().len();
    let third = bench.ask(format!("CONNECT a.test:{port} HTTP/1.1\r\n\r\n").as_bytes());
    assert!(third.starts_with("HTTP/1.1 403 ") && third.contains("BYTES_LIMIT"), "{third}");
    assert_eq!(bench.names.asked().len(), asked);
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&["BYTES_LIMIT"; 3]));
    assert_eq!(attempts.iter().map(|a| a.sent + a.received).sum::<u64>(), 6);
}

#[test]
fn what_comes_back_counts_as_well() {
    let port = common::server(|mut stream| while stream.write_all(&[0; 4096]).is_ok() {});
    let bench = start(port, |rules| rules.max_bytes = 100_000);
    let mut client = tunnel(&bench, port);
    let mut got = Vec::new();
    let _ = client.read_to_end(&mut got);
    assert!(got.len() <= 100_000);
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&["BYTES_LIMIT"]));
    assert_eq!(attempts[0].received, u64::try_from(got.len()).unwrap());
}

#[test]
fn there_is_a_limit_of_attempts() {
    let bench = start(1, |rules| rules.max_attempts = 2);
    for _ in 0..2 {
        assert!(bench.ask(b"CONNECT b.test:443 HTTP/1.1\r\n\r\n").contains("HOST_NOT_ALLOWED"));
    }
    // One more may have been let in before the second was written down.
    while TcpStream::connect(bench.at).is_ok() {
        std::thread::yield_now();
    }
    let attempts = bench.stop();
    assert_eq!(codes(&attempts[..2]), some(&["HOST_NOT_ALLOWED"; 2]));
    assert_eq!(attempts.last().unwrap().verdict.code(), Some("TOO_MANY_ATTEMPTS"));
}

#[test]
fn nonsense_is_refused_and_written_down() {
    let bench = start(1, |_| {});
    for bytes in [&[4, 1, 0, 80][..], &[22, 3, 1, 0, 5], b"\r\n\r\n", b"get", &[0], &[255; 100]] {
        bench.ask(bytes);
    }
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&["PROTOCOL_ERROR"; 6]));
}

#[test]
fn stopping_ends_everything_at_once() {
    let (port, got) = listener();
    let hour = Duration::from_secs(3600);
    let bench = start(port, |rules| {
        rules.timeouts.head = hour;
        rules.timeouts.idle = hour;
    });
    let at = bench.at;
    let silent = bench.client();
    let mut half = bench.client();
    half.write_all(b"GET ht").unwrap();
    let mut open = tunnel(&bench, port);
    open.write_all(b"abc").unwrap();
    while bench.proxy.attempts()[0].sent < 3 {
        std::thread::yield_now();
    }
    let attempts = bench.stop();
    assert_eq!(attempts[0].sent, 3);
    assert_eq!(got.recv().unwrap(), b"abc");
    for mut client in [silent, half, open] {
        rest(&mut client);
    }
    assert!(TcpStream::connect(at).is_err(), "the door is still open");
}

#[test]
fn dropping_stops_too() {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let at = listener.local_addr().unwrap();
    let names = Names::of(&[]);
    drop(countersign_egress::Proxy::start(listener, Rules::default(), names).unwrap());
    assert!(TcpStream::connect(at).is_err());
}
