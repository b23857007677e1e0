//! Tunnels by CONNECT and SOCKS5: TLS for the right server, one HTTP request, or raw bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;

use common::{
    Bench, HERE, Names, codes, echo, exactly, head, hello, listener, rest, rules, socks, some,
};
use std::io::Write;
use std::net::{Shutdown, TcpStream};

use countersign_egress::{Protocol, Rules};

/// What a client hears when the name in its handshake is not the one it was allowed.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 1, 0, 2, 2, 112];

#[derive(Clone, Copy, Debug)]
enum Door {
    Connect,
    Socks,
}

const DOORS: [Door; 2] = [Door::Connect, Door::Socks];

fn open(bench: &Bench, door: Door, host: &str, port: u16) -> TcpStream {
    let mut client = bench.client();
    match door {
        Door::Connect => {
            write!(client, "CONNECT {host}:{port} HTTP/1.1\r\n\r\n").unwrap();
            assert!(head(&mut client).starts_with("HTTP/1.1 200 "));
        }
        Door::Socks => {
            client.write_all(&socks(host, port)).unwrap();
            assert_eq!(exactly(&mut client, 12), [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
    }
    client
}

fn tls(port: u16) -> Bench {
    let hosts = [format!("a.test:{port}"), format!("{HERE}:{port}")];
    let rules = Rules { tls_ports: vec![port], ..rules(&hosts) };
    Bench::start(rules, &Names::of(&[("a.test", &[HERE])]))
}

#[test]
fn tls_for_the_right_server_flows() {
    let port = echo();
    for (door, size) in DOORS.into_iter().flat_map(|door| [(door, 9000), (door, 7)]) {
        let bench = tls(port);
        let mut client = open(&bench, door, "a.test", port);
        let hello = [hello(Some("A.test"), size), b"more".to_vec()].concat();
        // In two writes, so that it may also come in two reads.
        let (first, second) = hello.split_at(hello.len() / 2);
        client.write_all(first).unwrap();
        client.write_all(second).unwrap();
        assert_eq!(exactly(&mut client, hello.len()), hello);
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(rest(&mut client), "");
        let attempts = bench.stop();
        assert_eq!(codes(&attempts), some(&[""]));
        let length = u64::try_from(hello.len()).unwrap();
        assert_eq!((attempts[0].sent, attempts[0].received), (length, length));
    }
}

#[test]
fn a_hello_for_another_server_goes_nowhere() {
    for door in DOORS {
        let (port, got) = listener();
        let bench = tls(port);
        for name in [Some("b.test"), Some("a.test."), Some("x.a.test"), Some("127.0.0.1"), None] {
            let mut client = open(&bench, door, "a.test", port);
            client.write_all(&hello(name, 9000)).unwrap();
            assert_eq!(rest(&mut client).as_bytes(), UNRECOGNIZED_NAME, "{name:?}");
            assert_eq!(got.recv().unwrap(), b"", "something reached the server");
        }
        let attempts = bench.stop();
        assert_eq!(codes(&attempts), some(&["SNI_MISMATCH"; 5]));
        assert!(attempts.iter().all(|attempt| attempt.sent == 0));
    }
}

#[test]
fn an_address_needs_no_name_but_takes_no_other() {
    let port = echo();
    let bench = tls(port);
    for name in [None, Some(HERE)] {
        let mut client = open(&bench, Door::Socks, HERE, port);
        client.write_all(&hello(name, 9000)).unwrap();
        exactly(&mut client, 5);
    }
    let mut client = open(&bench, Door::Socks, HERE, port);
    client.write_all(&hello(Some("a.test"), 9000)).unwrap();
    assert_eq!(rest(&mut client).as_bytes(), UNRECOGNIZED_NAME);
    assert_eq!(bench.codes(), some(&["", "", "SNI_MISMATCH"]));
}

#[test]
fn a_tls_port_is_for_tls() {
    let (port, got) = listener();
    let bench = tls(port);
    for bytes in
        [&b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"[..], b"SSH-2.0-x\r\n", &[22, 3, 1, 0, 0]]
    {
        let mut client = open(&bench, Door::Connect, "a.test", port);
        client.write_all(bytes).unwrap();
        rest(&mut client);
        assert_eq!(got.recv().unwrap(), b"");
    }
    let mut client = open(&bench, Door::Connect, "a.test", port);
    client.write_all(&hello(Some("a.test"), 9000)[..20]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    rest(&mut client);
    assert_eq!(bench.codes(), some(&["NOT_TLS"; 4]));
}

#[test]
fn a_tunnel_that_was_never_used_is_no_offence() {
    let (port, _got) = listener();
    let bench = tls(port);
    let mut client = open(&bench, Door::Connect, "a.test", port);
    client.shutdown(Shutdown::Write).unwrap();
    rest(&mut client);
    assert_eq!(bench.codes(), some(&[""]));
}

fn web(port: u16) -> Bench {
    let rules = Rules { http_ports: vec![port], ..rules(&[format!("a.test:{port}")]) };
    Bench::start(rules, &Names::of(&[("a.test", &[HERE])]))
}

#[test]
fn an_http_tunnel_carries_one_request_for_its_host() {
    let port = common::mirror();
    for door in DOORS {
        let bench = web(port);
        let mut client = open(&bench, door, "a.test", port);
        let request = format!("GET /x HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
        let second = "GET /y HTTP/1.1\r\nHost: b.test\r\n\r\n";
        client.write_all(format!("{request}{second}").as_bytes()).unwrap();
        let answer = rest(&mut client);
        assert!(answer.contains("GET /x ") && !answer.contains("/y"), "{answer}");
        assert_eq!(bench.codes(), some(&[""]));
    }
}

#[test]
fn an_http_tunnel_carries_nothing_else() {
    let (port, got) = listener();
    for door in DOORS {
        let bench = web(port);
        for (bytes, code) in [
            ("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n".to_owned(), "HOST_HEADER_MISMATCH"),
            ("GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n".to_owned(), "PROTOCOL_ERROR"),
            ("SSH-2.0-x\n".to_owned(), "PROTOCOL_ERROR"),
        ] {
            let mut client = open(&bench, door, "a.test", port);
            client.write_all(bytes.as_bytes()).unwrap();
            let answer = rest(&mut client);
            assert!(answer.contains(code), "{answer}");
            assert_eq!(got.recv().unwrap(), b"");
        }
        assert_eq!(
            bench.codes(),
            some(&["HOST_HEADER_MISMATCH", "PROTOCOL_ERROR", "PROTOCOL_ERROR"])
        );
    }
}

#[test]
fn a_named_port_is_raw_and_the_server_may_speak_first() {
    let port = common::server(|mut stream| {
        stream.write_all(b"220 ready\r\n").unwrap();
        assert_eq!(exactly(&mut stream, 4), b"QUIT");
        stream.write_all(b"221 bye\r\n").unwrap();
    });
    for door in DOORS {
        let bench = Bench::for_server(port);
        let mut client = open(&bench, door, "a.test", port);
        assert_eq!(exactly(&mut client, 11), b"220 ready\r\n");
        client.write_all(b"QUIT").unwrap();
        assert_eq!(rest(&mut client), "221 bye\r\n");
        assert_eq!(bench.codes(), some(&[""]));
    }
}

#[test]
fn socks_says_no_in_its_own_words() {
    let names = Names::of(&[("in.test", &["10.0.0.1"]), ("a.test", &["127.0.0.9"])]);
    let taken = std::net::TcpListener::bind((HERE, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let hosts = ["in.test", "a.test", "gone.test"].map(|name| format!("{name}:{port}"));
    let bench = Bench::start(rules(&hosts), &names);
    let table: [(Vec<u8>, &[u8], &str); 10] = [
        (socks("b.test", port), &[5, 0, 5, 2], "HOST_NOT_ALLOWED"),
        (socks("a.test", 22), &[5, 0, 5, 2], "PORT_NOT_ALLOWED"),
        (socks("in.test", port), &[5, 0, 5, 2], "ADDRESS_PRIVATE"),
        (socks("gone.test", port), &[5, 0, 5, 4], "NAME_UNRESOLVED"),
        (socks("a.test", port), &[5, 0, 5, 5], "CONNECT_FAILED"),
        (socks("127.1", port), &[5, 0, 5, 1], "HOST_INVALID"),
        (vec![5, 1, 0, 5, 2, 0, 1, 1, 1, 1, 1, 0, 80], &[5, 0, 5, 7], "COMMAND_NOT_SUPPORTED"),
        (vec![5, 1, 0, 5, 3, 0, 1, 1, 1, 1, 1, 0, 80], &[5, 0, 5, 7], "COMMAND_NOT_SUPPORTED"),
        (vec![5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0, 5, 2], "HOST_NOT_ALLOWED"),
        (vec![5, 1, 2], &[5, 0xff], "PROTOCOL_ERROR"),
    ];
    let mut expected = Vec::new();
    for (bytes, answer, code) in table {
        let mut client = bench.client();
        client.write_all(&bytes).unwrap();
        assert_eq!(exactly(&mut client, answer.len()), answer, "{code}");
        expected.push(Some(code.to_owned()));
        // Refused for good before the next one, so that the order is known.
        rest(&mut client);
    }
    assert_eq!(bench.names.asked(), ["in.test", "gone.test", "a.test"]);
    let attempts = bench.stop();
    assert_eq!(codes(&attempts), expected);
    assert!(attempts.iter().all(|attempt| attempt.protocol == Protocol::Socks5));
}
