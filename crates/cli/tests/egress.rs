//! Programs that may reach hosts, end to end: the proxy is their only way, and all is on record.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it leaves out"
)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use common::Bench;
use serde_json::{Value, json};

const OPENED: &str = "[network]\nprivate = [\"127.0.0.0/8\", \"::1/128\"]\n";

/// A server on the loopback of this machine that answers HTTP with `hello`, and anything else with
/// the same bytes.
struct Server {
    port: u16,
    reached: Arc<AtomicU32>,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let reached = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&reached);
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || answer(stream.unwrap()));
            }
        });
        Server { port, reached }
    }

    fn reached(&self) -> u32 {
        self.reached.load(Ordering::SeqCst)
    }
}

fn answer(mut stream: TcpStream) {
    let mut bytes = [0; 4096];
    let Ok(read) = stream.read(&mut bytes) else { return };
    let said = &bytes[..read];
    let answer: &[u8] = match said.starts_with(b"GET ") {
        true => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        false => said,
    };
    let _ = stream.write_all(answer);
}

/// Does what its input asks for, and answers what came of each.
const CLIENT: &str = r#"
import json, os, socket, subprocess, sys, time, urllib.request
ask, got = json.load(sys.stdin), {}
def attempt(name, what):
    try:
        got[name] = what()
    except Exception as error:
        got[name] = "failed: %s" % error
def socks(host, port):
    proxy = os.environ["ALL_PROXY"].rsplit(":", 1)[1]
    s = socket.create_connection(("127.0.0.1", int(proxy)))
    s.sendall(b"\5\1\0")
    assert s.recv(2) == b"\5\0"
    s.sendall(b"\5\1\0\3" + bytes([len(host)]) + host.encode() + port.to_bytes(2, "big"))
    answer = s.recv(10)
    if answer[1]:
        return "refused %d" % answer[1]
    s.sendall(b"\x16\x03\x01 not really TLS")
    return s.recv(100).decode("latin-1")
def curl(url, *options):
    command = ["curl", "-s", "--max-time", "20", "-w", "%{http_code}", *options, url]
    return subprocess.run(command, capture_output=True, text=True).stdout
for url in ask.get("urls", []):
    attempt(url, lambda: urllib.request.urlopen(url, timeout=20).read().decode())
for host, port in ask.get("socks", []):
    attempt("socks " + host, lambda: socks(host, port))
for url in ask.get("curl", []):
    attempt("curl " + url, lambda: curl(url))
    attempt("curl socks " + url, lambda: curl(url, "--proxy", os.environ["ALL_PROXY"]))
for host, port in ask.get("direct", []):
    attempt("direct " + host, lambda: str(socket.create_connection((host, port), timeout=5)))
if ask.get("others"):
    attempt("udp", lambda: str(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))))
    attempt("ipv6", lambda: str(socket.socket(socket.AF_INET6, socket.SOCK_STREAM)))
    attempt("raw", lambda: str(socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)))
    attempt("dns", lambda: str(socket.getaddrinfo("example.org", 80)))
if ask.get("linger"):
    time.sleep(50)
print(json.dumps(got))
"#;

fn connected(bench: &Bench, hosts: &[String], edit: impl FnOnce(&mut Value)) {
    bench.declare_script("test.client", CLIENT, |declaration| {
        declaration["runtime"]["command"] = json!(["python3", "/tool/main"]);
        declaration["runtime"]["hosts"] = json!(hosts);
        declaration["requiredCapabilities"] = json!(["network.tcp"]);
        edit(declaration);
    });
}

fn grant(bench: &Bench, hosts: &[String]) {
    for host in hosts {
        let args = ["grant", "issue", "--to", "agent:a", "--capability", "network.tcp", "--scope"];
        bench.run(&[&args[..], &[host]].concat()).ok();
    }
}

fn configure(bench: &Bench, text: &str) {
    fs::write(bench.home().join("countersign.toml"), text).unwrap();
}

fn benches() -> Option<(Bench, Server)> {
    if !Path::new("/usr/bin/python3").exists() {
        println!("skipped: there is no python3 in /usr/bin");
        return None;
    }
    let bench = Bench::for_programs()?;
    // Ports of a test are not those of HTTPS, and a bare connection asks a human by default.
    let policy = "permit (principal, action, resource);";
    fs::write(bench.home().join("policy/default.cedar"), policy).unwrap();
    Some((bench, Server::start()))
}

fn connection<'c>(list: &'c Value, protocol: &str, host: &str) -> &'c Value {
    let is_it = |made: &&Value| made["protocol"] == protocol && made["host"] == host;
    let found = list.as_array().unwrap().iter().find(is_it);
    found.unwrap_or_else(|| panic!("no {protocol} to {host}: {list:#}"))
}

#[test]
fn a_granted_host_is_reached_through_the_proxy_and_nothing_else_is() {
    let Some((bench, server)) = benches() else { return };
    let (granted, other) = (server.port, Server::start());
    let hosts = [format!("localhost:{granted}")];
    configure(&bench, OPENED);
    connected(&bench, &hosts, |_| {});
    let ask = json!({
        "urls": [
            format!("http://localhost:{granted}/"), format!("http://localhost:{}/", other.port),
            format!("http://127.0.0.1:{granted}/"), "http://nobody.invalid/",
        ],
        "socks": [["localhost", granted], ["elsewhere.invalid", granted]],
        "direct": [["127.0.0.1", granted], ["192.0.2.1", 80]],
        "others": true,
    });
    let error = bench.call("test.client", &ask).fails(3, "GRANT_MISSING");
    assert!(
        error["hint"]
            .as_str()
            .unwrap()
            .contains(&format!("network.tcp --scope 'localhost:{granted}'")),
        "{error}"
    );
    assert_eq!(server.reached(), 0);

    grant(&bench, &hosts);
    let call = bench.call("test.client", &ask).ok().json();
    let got = call["output"].as_object().unwrap();
    let said = |name: &str| got[name].as_str().unwrap();
    assert_eq!(said(&format!("http://localhost:{granted}/")), "hello");
    assert_eq!(said("socks localhost"), "\u{16}\u{3}\u{1} not really TLS");
    for refused in [
        &format!("http://localhost:{}/", other.port),
        &format!("http://127.0.0.1:{granted}/"),
        "http://nobody.invalid/",
    ] {
        assert!(said(refused).contains("403"), "{refused}: {}", said(refused));
    }
    assert_eq!(said("socks elsewhere.invalid"), "refused 2");
    for closed in ["direct 127.0.0.1", "direct 192.0.2.1", "udp", "ipv6", "raw", "dns"] {
        assert!(said(closed).starts_with("failed: "), "{closed}: {}", said(closed));
    }
    assert_eq!((server.reached(), other.reached()), (2, 0));

    // Every attempt is in the answer, in the journal, and told.
    let list = &call["connections"];
    assert_eq!(list, &bench.fact("committed")["connections"]);
    assert_eq!(list.as_array().unwrap().len(), 6, "{list:#}");
    for protocol in ["http", "socks5"] {
        let made = connection(list, protocol, "localhost");
        assert_eq!((&made["port"], &made["address"]), (&json!(granted), &json!("127.0.0.1")));
        assert!(made["sent"].as_u64().unwrap() > 0 && made["received"].as_u64().unwrap() > 0);
        assert_eq!(made.get("denied"), None);
    }
    for (protocol, host, code) in [
        ("http", "nobody.invalid", "HOST_NOT_ALLOWED"),
        ("http", "127.0.0.1", "HOST_NOT_ALLOWED"),
        ("socks5", "elsewhere.invalid", "HOST_NOT_ALLOWED"),
    ] {
        let denied = connection(list, protocol, host);
        assert_eq!((&denied["denied"], &denied["sent"]), (&json!(code), &json!(0)));
    }
    let told = bench.told();
    for words in [
        &format!("may reach localhost:{granted}"),
        &format!("reached localhost:{granted} at 127.0.0.1 by http: "),
        "kept from nobody.invalid:80 by http [HOST_NOT_ALLOWED]",
        &format!("kept from localhost:{} by http [PORT_NOT_ALLOWED]", other.port),
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
}

#[test]
fn curl_needs_nothing_but_its_environment() {
    let Some((bench, server)) = benches() else { return };
    if !Path::new("/usr/bin/curl").exists() {
        println!("skipped: there is no curl");
        return;
    }
    let hosts = [format!("localhost:{}", server.port)];
    configure(&bench, OPENED);
    connected(&bench, &hosts, |_| {});
    grant(&bench, &hosts);
    let url = format!("http://localhost:{}/", server.port);
    let call = bench.call("test.client", &json!({"curl": [url]})).ok().json();
    assert_eq!(call["output"][format!("curl {url}")], "hello200");
    assert_eq!(call["output"][format!("curl socks {url}")], "hello200");
    assert_eq!(server.reached(), 2);
}

#[test]
fn private_addresses_are_closed_unless_the_operator_opens_them() {
    let Some((bench, server)) = benches() else { return };
    let hosts = [format!("localhost:{}", server.port)];
    connected(&bench, &hosts, |_| {});
    grant(&bench, &hosts);
    let url = format!("http://localhost:{}/", server.port);
    let ask = json!({"urls": [url], "socks": [["localhost", server.port]]});
    let call = bench.call("test.client", &ask).ok().json();
    assert!(call["output"][&url].as_str().unwrap().contains("403"), "{call:#}");
    for protocol in ["http", "socks5"] {
        let denied = connection(&call["connections"], protocol, "localhost");
        assert_eq!((&denied["denied"], &denied["sent"]), (&json!("ADDRESS_PRIVATE"), &json!(0)));
    }
    assert_eq!(server.reached(), 0);

    configure(&bench, "[network]\nprivate = [\"127.0.0.1/8\"]\n");
    let error = bench.call("test.client", &ask).fails(2, "CONFIG_INVALID");
    assert!(error["message"].as_str().unwrap().contains("network.private"), "{error}");
    configure(&bench, OPENED);
    bench.call("test.client", &ask).ok();
    assert_eq!(server.reached(), 2);
    let doctor = bench.json(&["doctor"]).json();
    assert_eq!(
        doctor["egressProxy"],
        json!({"works": true, "private": ["127.0.0.0/8", "::1/128"]})
    );
}

#[test]
fn what_was_sent_is_never_sent_again() {
    let Some((bench, server)) = benches() else { return };
    let hosts = [format!("localhost:{}", server.port)];
    let retry = "[retry]\nmax_retries = 1\nbase_delay_ms = 1\n";
    configure(&bench, &format!("{OPENED}{retry}"));
    connected(&bench, &hosts, |declaration| {
        declaration["idempotent"] = json!(true);
        declaration["resourceLimits"]["maxExecutionTime"] = json!(2000);
    });
    grant(&bench, &hosts);
    let silent = bench.call("test.client", &json!({"linger": true}));
    silent.fails(5, "TIME_LIMIT");
    assert_eq!(silent.json()["attempts"], 2, "nothing was sent, so it is tried again");
    let url = format!("http://localhost:{}/", server.port);
    let call = bench.call("test.client", &json!({"urls": [url], "linger": true}));
    call.fails(5, "TIME_LIMIT");
    assert_eq!((call.json()["attempts"].clone(), server.reached()), (json!(1), 1));
    let back = bench.fact("rolledBack");
    assert!(connection(&back["connections"], "http", "localhost")["sent"].as_u64().unwrap() > 0);
    assert!(bench.told().contains(&format!("reached localhost:{}", server.port)));
}

/// There is no operator's configuration for commands that are only tried.
#[test]
fn a_tried_command_never_reaches_the_loopback() {
    let Some((bench, server)) = benches() else { return };
    configure(&bench, OPENED);
    let script = bench.dir().join("tool");
    fs::create_dir(&script).unwrap();
    fs::write(script.join("main"), CLIENT).unwrap();
    let url = format!("http://localhost:{}/", server.port);
    bench.write("ask.json", json!({"urls": [url, "http://nobody.invalid/"]}).to_string());
    let host = format!("localhost:{}", server.port);
    let tool = script.display().to_string();
    let run = ["sandbox", "run", "--tool", &tool, "--input", "ask.json", "--allow-host", &host];
    let report = bench.json(&[&run[..], &["--", "python3", "/tool/main"]].concat()).ok().json();
    let network = &report["network"];
    assert_eq!(connection(network, "http", "localhost")["denied"], "ADDRESS_PRIVATE");
    assert_eq!(connection(network, "http", "nobody.invalid")["denied"], "HOST_NOT_ALLOWED");
    assert_eq!(server.reached(), 0);
    let wrong = ["sandbox", "run", "--allow-host", "http://a", "--", "true"];
    let wrong = bench.json(&wrong);
    assert_eq!((wrong.code, &wrong.json()["error"]["code"]), (2, &json!("HOST_RULE_INVALID")));
}
