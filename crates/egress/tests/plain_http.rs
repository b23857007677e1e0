//! Plain HTTP through the proxy: one request a connection, judged and written anew.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{Bench, HERE, Names, codes, head, mirror, rest, rules, server, some};
use std::io::{Read, Write};

use countersign_egress::Protocol;

#[test]
fn a_request_is_passed_on_without_what_is_between_us() {
    let port = mirror();
    let bench = Bench::for_server(port);
    let answer = bench.ask(
        format!(
            "GET http://A.test:{port}/x?y HTTP/1.1\r\nHost: a.test:{port}\r\nProxy-Connection: keep-alive\r\n\
             Connection: X-Mine\r\nX-Mine: 1\r\nAccept: */*\r\n\r\nGET http://a.test:{port}/second HTTP/1.1\r\n\r\n"
        )
        .as_bytes(),
    );
    let seen = format!(
        "GET /x?y HTTP/1.1\r\nHost: a.test:{port}\r\nConnection: close\r\nAccept: */*\r\n\r\n"
    );
    let length = seen.len();
    let expected =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{seen}");
    assert_eq!(answer, expected);
    let attempts = bench.stop();
    assert_eq!(attempts.len(), 1, "the second request was taken for one");
    assert_eq!((attempts[0].protocol, attempts[0].port), (Protocol::Http, port));
    assert_eq!(attempts[0].sent, u64::try_from(length).unwrap());
    assert!(attempts[0].received > attempts[0].sent);
}

#[test]
fn bodies_arrive_as_announced_and_no_further() {
    let port = server(|mut stream| {
        let head = head(&mut stream);
        let length = if head.contains("chunked") { 22 } else { 5 };
        let body = common::exactly(&mut stream, length);
        let body = String::from_utf8(body).unwrap();
        // With `Connection: close` the end of the connection ends the answer.
        let _ = stream.write_all(format!("HTTP/1.1 200 OK\r\n\r\n<{body}>").as_bytes());
    });
    let bench = Bench::for_server(port);
    let post = |rest: &str| {
        bench.ask(
            format!("POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n{rest}")
                .as_bytes(),
        )
    };
    assert!(post("Content-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n").ends_with("<hello>"));
    let chunked =
        post("Transfer-Encoding: chunked\r\n\r\n05\r\nhello\r\n2\r\nab\r\n0\r\nT: x\r\n\r\nGET /");
    assert!(chunked.ends_with("<5\r\nhello\r\n2\r\nab\r\n0\r\n\r\n>"), "{chunked}");
    assert_eq!(bench.codes(), some(&["", ""]));
}

#[test]
fn a_broken_chunk_ends_the_request() {
    let (port, got) = common::listener();
    let bench = Bench::for_server(port);
    let answer = bench.ask(
        format!(
            "POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n\
             3;x=y\r\nabc\r\n0\r\n\r\n"
        )
        .as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert!(got.recv().unwrap().ends_with(b"\r\n\r\n"), "something of the body went out");
    assert_eq!(bench.codes(), some(&["PROTOCOL_ERROR"]));
}

#[test]
fn an_answer_may_come_before_the_request_is_over() {
    let port = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno");
    });
    let bench = Bench::for_server(port);
    let answer = bench.ask(
        format!("POST http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 99\r\n\r\nx")
            .as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("no"), "{answer}");
    assert_eq!(bench.codes(), some(&[""]));
}

#[test]
fn a_client_that_waits_for_100_gets_it() {
    let port = server(|mut stream| {
        head(&mut stream);
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").unwrap();
        let body = common::exactly(&mut stream, 2);
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        stream.write_all(&body).unwrap();
    });
    let bench = Bench::for_server(port);
    let mut client = bench.client();
    let request = format!(
        "PUT http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
    );
    client.write_all(request.as_bytes()).unwrap();
    assert_eq!(head(&mut client), "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hi").unwrap();
    assert!(rest(&mut client).ends_with("\r\n\r\nhi"));
    assert_eq!(bench.codes(), some(&[""]));
}

#[test]
fn a_redirect_is_a_new_request_and_judged_again() {
    let port = server(|mut stream| {
        head(&mut stream);
        let to = "http://169.254.169.254/latest/meta-data/";
        let answer = format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes());
    });
    // The worst case: a rule and a name for it exist as well.
    let hosts = [format!("a.test:{port}"), "169.254.169.254".to_owned(), "meta.test".to_owned()];
    let names = Names::of(&[("a.test", &[HERE]), ("meta.test", &["169.254.169.254"])]);
    let bench = Bench::start(rules(&hosts), &names);
    let get = |host: &str, path: &str| {
        bench.ask(format!("GET http://{host}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
    };
    let answer = get(&format!("a.test:{port}"), "/");
    let location = answer.split("Location: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let (host, path) = location.strip_prefix("http://").unwrap().split_once('/').unwrap();
    assert!(get(host, &format!("/{path}")).contains("ADDRESS_PRIVATE"));
    assert!(get("meta.test", "/").contains("ADDRESS_PRIVATE"));
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&["", "ADDRESS_PRIVATE", "ADDRESS_PRIVATE"]));
    assert_eq!(attempts[1].sent, 0);
}

#[test]
fn what_could_be_read_in_two_ways_reaches_nobody() {
    let (port, got) = common::listener();
    let bench = Bench::for_server(port);
    let host = format!("Host: a.test:{port}\r\n");
    for (lines, code) in [
        ("Host: b.test\r\n".to_owned(), "HOST_HEADER_MISMATCH"),
        (format!("{host}{host}"), "PROTOCOL_ERROR"),
        (format!("{host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), "PROTOCOL_ERROR"),
        (format!("{host}X: a\r\n b\r\n"), "PROTOCOL_ERROR"),
        (format!("{host}Upgrade: websocket\r\n"), "UPGRADE_NOT_ALLOWED"),
        (format!("{host}X: {}\r\n", "x".repeat(17_000)), "PROTOCOL_ERROR"),
    ] {
        let answer =
            bench.ask(format!("GET http://a.test:{port}/ HTTP/1.1\r\n{lines}\r\n").as_bytes());
        assert!(answer.contains(code), "{answer}");
    }
    let user = format!("GET http://a.test:{port}@b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n");
    assert!(bench.ask(user.as_bytes()).starts_with("HTTP/1.1 400 "));
    let secure = "GET http://a.test:443/ HTTP/1.1\r\nHost: a.test:443\r\n\r\n";
    assert!(bench.ask(secure.as_bytes()).contains("NOT_TLS"));
    assert_eq!(bench.stop().len(), 8);
    assert!(got.try_recv().is_err());
}

#[test]
fn no_one_may_change_the_protocol() {
    let port = server(|mut stream| {
        head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 101 Switching Protocols\r\n\r\nsecret");
        let mut more = Vec::new();
        let _ = stream.read_to_end(&mut more);
    });
    let bench = Bench::for_server(port);
    let answer = bench.ask(
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n").as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 502 ") && !answer.contains("secret"), "{answer}");
}

#[test]
fn a_server_without_an_answer_is_said_to_be_one() {
    let port = server(|mut stream| {
        head(&mut stream);
    });
    let bench = Bench::for_server(port);
    let answer = bench.ask(
        format!("GET http://a.test:{port}/ HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n").as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 502 ") && answer.contains("UPSTREAM_FAILED"));
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), some(&[""]), "the request did go out");
    assert!(attempts[0].sent > 0);
}
