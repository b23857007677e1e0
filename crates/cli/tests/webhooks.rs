//! Webhooks and callbacks: registered over HTTP, and received by a real server on the loopback.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

mod common;
mod judge;
mod serving;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::Bench;
use judge::fits;
use judge::schemas::check;
use ring::hmac;
use serde_json::{Value, json};
use serving::{Answer, Client, Serving, is_over, key, node, serve, workflow};

const SCOPES: &str = "runs:create,runs:read,runs:cancel,webhooks:manage,approvals:respond";
const OPEN: &str = "[serve]\nwebhook_allow_private = true\n";

fn bench(config: &str) -> Bench {
    let bench = Bench::new();
    workflow(&bench, "plain", &[node("a", "core.noop", &json!({}))], &[]);
    let gate = json!({"title": "go on?", "actions": ["accept", "reject"]});
    workflow(&bench, "asks", &[node("gate", "core.approvalGate", &gate)], &[]);
    fs::write(bench.home().join("countersign.toml"), config).unwrap();
    bench
}

/// A request as it came in.
#[derive(Debug)]
struct Received {
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Received {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn kind(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }
}

/// Somebody who is told, and answers with a status.
struct Receiver {
    port: u16,
    status: Arc<AtomicU16>,
    received: mpsc::Receiver<Received>,
}

impl Receiver {
    fn new() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let status = Arc::new(AtomicU16::new(200));
        let (sender, received) = mpsc::channel();
        let answers = Arc::clone(&status);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let Some(request) = read(&mut stream) else { continue };
                let status = answers.load(Ordering::SeqCst);
                let location = format!("location: http://127.0.0.1:{port}/elsewhere\r\n");
                let answer = format!("HTTP/1.1 {status} x\r\n{location}content-length: 0\r\n\r\n");
                let _ = stream.get_mut().write_all(answer.as_bytes());
                if sender.send(request).is_err() {
                    return;
                }
            }
        });
        Receiver { port, status, received }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    #[track_caller]
    fn next(&self) -> Received {
        self.received.recv_timeout(Duration::from_secs(20)).unwrap()
    }

    fn nothing(&self) {
        let more = self.received.recv_timeout(Duration::from_millis(700));
        assert!(more.is_err(), "{more:?}");
    }

    /// Until the run has ended.
    fn until_end(&self) -> Vec<Received> {
        let mut all = Vec::new();
        loop {
            all.push(self.next());
            let kind = all.last().unwrap().kind();
            if ["run.completed", "run.failed", "run.cancelled"].contains(&kind.as_str()) {
                return all;
            }
        }
    }
}

fn read(stream: &mut impl std::io::BufRead) -> Option<Received> {
    let mut first = String::new();
    stream.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    stream.read_exact(&mut body).ok()?;
    Some(Received { path, headers, body })
}

/// Both sets of headers, and a signature that fits the secret.
#[track_caller]
fn check_signed(received: &Received, registered: &Value, prefix: &str) {
    let get = |name: &str| received.headers[name].as_str();
    let (id, secret) = (registered["webhookId"].as_str().unwrap(), &registered["secret"]);
    assert_eq!(get("x-openwop-subscription-id"), id);
    assert_eq!(get("x-openwop-webhook-id"), id);
    assert_eq!(get("x-openwop-event-type"), received.kind());
    assert_eq!(get("x-openwop-signature-algorithm"), "v1");
    assert_eq!(get("x-openwop-timestamp"), get("x-openwop-signature-timestamp"));
    let seconds: u64 = get("x-openwop-timestamp").parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(seconds) < 300);
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_str().unwrap().as_bytes());
    let message = [format!("{seconds}.").as_bytes(), &received.body].concat();
    let mac = hmac::sign(&key, &message);
    let mac: String = mac.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(get("x-openwop-signature"), format!("{prefix}{mac}"));
}

fn register(client: &Client<'_>, body: &Value) -> Answer {
    client.post("/v1/webhooks", body)
}

#[test]
fn every_event_is_told_once_in_order_and_signed() {
    let bench = bench(OPEN);
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let found = client.get("/.well-known/openwop").is(200);
    fits("capabilities.schema.json", &found);
    assert_eq!(found["webhooks"]["signatureAlgorithms"], json!(["v1"]));
    let (all, some) = (Receiver::new(), Receiver::new());
    let everything = register(&client, &json!({"url": all.url("/hook?a=b")})).is(201);
    let few = json!({"url": some.url("/"), "events": ["run.completed"], "tenantId": "one",
        "secret": "a secret of the client"});
    let few = register(&client, &few).is(201);
    assert_eq!(few["secret"], "a secret of the client");
    let run = client.start("plain", &json!({}));
    client.until(&run, is_over);
    let received = all.until_end();
    let events: Vec<Value> = received.iter().map(|one| one.json()["event"].clone()).collect();
    assert_eq!(events, client.events(&run), "the same as everybody sees");
    for one in &received {
        assert_eq!(one.path, "/hook?a=b");
        check_signed(one, &everything, "");
        check(&one.json()["event"]);
        assert_eq!(one.json()["runId"], json!(run));
    }
    let end = some.next();
    assert_eq!(end.kind(), "run.completed");
    check_signed(&end, &few, "");
    some.nothing();
    // Nobody is told after they have gone.
    let path = format!("/v1/webhooks/{}", everything["webhookId"].as_str().unwrap());
    assert_eq!(client.send("DELETE", &path, None).status, 204);
    assert_eq!(client.send("DELETE", &path, None).is(404)["error"], "subscription_not_found");
    let run = client.start("plain", &json!({}));
    assert_eq!(some.next().json()["runId"], json!(run));
    all.nothing();
    drop(host);
    bench.verify();
}

#[test]
fn the_signature_can_name_its_algorithm() {
    let bench = bench(&format!("{OPEN}webhook_signature = \"prefixed\"\n"));
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let receiver = Receiver::new();
    let registered = register(&client, &json!({"url": receiver.url("/")})).is(201);
    client.start("plain", &json!({}));
    check_signed(&receiver.next(), &registered, "sha256=");
}

fn kill(mut host: Serving) {
    host.child.kill().unwrap();
    host.child.wait().unwrap();
}

#[test]
fn a_kill_loses_no_registration_and_no_secret_lies_open() {
    let bench = bench(OPEN);
    let key = key(&bench, "agent:a", "one", SCOPES);
    let receiver = Receiver::new();
    let host = serve(&bench, &[]);
    let secret = "kept only by two";
    let once = [("Idempotency-Key", "k")];
    let wanted = json!({"url": receiver.url("/"), "secret": secret, "events": ["run.completed"]});
    let client = Client { port: host.port, key: &key };
    let given = client.try_send("POST", "/v1/webhooks", &once, Some(&wanted)).unwrap().is(201);
    let made = register(&client, &json!({"url": receiver.url("/made")})).is(201);
    kill(host);
    for secret in [secret, made["secret"].as_str().unwrap()] {
        for file in ["journal.db", "journal.db-wal"] {
            let content = fs::read(bench.home().join("state").join(file)).unwrap_or_default();
            let lies_open = content.windows(secret.len()).any(|part| part == secret.as_bytes());
            assert!(!lies_open, "{file}");
        }
    }
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let again = client.try_send("POST", "/v1/webhooks", &once, Some(&wanted)).unwrap().is(201);
    assert_eq!(again, given, "asked again, answered again, registered once");
    client.start("plain", &json!({}));
    let mut received: Vec<_> = (0..5).map(|_| receiver.next()).collect();
    received.retain(|one| one.kind() == "run.completed");
    assert_eq!(received.len(), 2);
    for one in received {
        check_signed(&one, if one.path == "/made" { &made } else { &given }, "");
    }
    receiver.nothing();
    drop(host);
    bench.verify();
}

#[test]
fn runs_of_other_processes_are_told_of_too() {
    let bench = bench(OPEN);
    // Runs from the command line are of the default tenant.
    let key = key(&bench, "agent:a", "default", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let receiver = Receiver::new();
    register(&client, &json!({"url": receiver.url("/")})).is(201);
    let done = bench.json(&["run", "start", "plain"]).ok().json();
    let received = receiver.until_end();
    let sequences: Vec<_> = received.iter().map(|one| one.json()["sequence"].clone()).collect();
    assert_eq!(sequences, (0..received.len()).map(|n| json!(n)).collect::<Vec<_>>());
    assert!(received.iter().all(|one| one.json()["runId"] == done["runId"]));
}

#[test]
fn tenants_are_told_of_their_own_runs_alone() {
    let bench = bench(OPEN);
    let (one, two) = (key(&bench, "agent:a", "one", SCOPES), key(&bench, "agent:b", "two", SCOPES));
    let reader = key(&bench, "agent:c", "one", "runs:read");
    let host = serve(&bench, &[]);
    let client = |key| Client { port: host.port, key };
    let (ours, theirs) = (Receiver::new(), Receiver::new());
    let registered = register(&client(&one), &json!({"url": ours.url("/")})).is(201);
    register(&client(&two), &json!({"url": theirs.url("/")})).is(201);
    let run = client(&two).start("plain", &json!({}));
    assert!(theirs.until_end().iter().all(|one| one.json()["runId"] == json!(run)));
    ours.nothing();
    let path = format!("/v1/webhooks/{}", registered["webhookId"].as_str().unwrap());
    let foreign = client(&two).send("DELETE", &path, None);
    let absent = client(&two).send("DELETE", "/v1/webhooks/wh-nothing", None);
    assert_eq!((foreign.status, &foreign.text), (404, &absent.text));
    assert_eq!(client(&one).send("DELETE", &format!("{path}?tenantId=two"), None).status, 403);
    let body = json!({"url": ours.url("/"), "tenantId": "two"});
    assert_eq!(register(&client(&one), &body).status, 403);
    assert_eq!(register(&client(&reader), &body).is(403)["error"], "forbidden");
    assert_eq!(client(&reader).send("DELETE", &path, None).status, 403);
    assert_eq!(register(&client(""), &body).status, 401);
    assert_eq!(client("").send("DELETE", &path, None).status, 401);
    assert_eq!(client(&one).send("GET", &path, None).status, 405);
    assert_eq!(client(&one).send("DELETE", &format!("{path}?tenantId=one"), None).status, 204);
}

#[test]
fn urls_that_lead_inside_are_refused() {
    let bench = bench("");
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let receiver = Receiver::new();
    for url in [
        &*receiver.url("/"),
        &receiver.url("/").replace("http:", "https:"),
        "http://hooks.example.org/",
        "https://localhost/",
        "https://LOCALHOST./",
        "https://127.1/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://0177.0.0.1/",
        "https://10.0.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://[fd00:ec2::254]/",
        "https://metadata.google.internal/",
        "https://user@hooks.example.org/",
        "https://hooks.example.org@127.0.0.1/",
        "file:///etc/passwd",
        "gopher://x/",
        "not a url",
        "",
    ] {
        let refused = register(&client, &json!({"url": url})).is(400);
        fits("error-envelope.schema.json", &refused);
        assert_eq!(refused["error"], "webhook_url_rejected", "{url}");
        let wanted = json!({"workflowId": "plain", "callbackUrl": url});
        let refused = client.post("/v1/runs", &wanted).is(400);
        assert_eq!(refused["error"], "webhook_url_rejected", "{url}");
    }
    for (body, word) in [
        (json!({}), "url"),
        (json!({"url": 1}), "url"),
        (json!({"url": "https://a.example/", "events": "x"}), "events"),
        (json!({"url": "https://a.example/", "secret": "short"}), "secret"),
    ] {
        let refused = register(&client, &body).is(400);
        assert_eq!(refused["error"], "validation_error");
        assert!(refused["message"].as_str().unwrap().contains(word), "{refused:#}");
    }
    client.start("plain", &json!({}));
    receiver.nothing();
}

#[test]
fn a_receiver_that_fails_is_let_alone_and_no_redirect_is_followed() {
    let bench = bench(OPEN);
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let (moved, well) = (Receiver::new(), Receiver::new());
    moved.status.store(307, Ordering::SeqCst);
    register(&client, &json!({"url": moved.url("/")})).is(201);
    register(&client, &json!({"url": well.url("/"), "events": ["run.completed"]})).is(201);
    for _ in 0..3 {
        client.start("plain", &json!({}));
        well.next();
    }
    let four: Vec<_> = (0..4).map(|_| moved.next()).collect();
    assert!(four.iter().all(|one| one.path == "/"), "{four:?}");
    moved.nothing();
    // Also after the host was killed.
    kill(host);
    moved.status.store(200, Ordering::SeqCst);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    client.start("plain", &json!({}));
    well.next();
    moved.nothing();
    drop(host);
    bench.verify();
}

#[test]
fn the_end_of_a_run_is_told_to_who_asked_for_it() {
    let bench = bench(OPEN);
    let key = key(&bench, "human:h", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let receiver = Receiver::new();
    let wanted = json!({"workflowId": "asks", "callbackUrl": receiver.url("/done")});
    let run = client.post("/v1/runs", &wanted).is(201)["runId"].as_str().unwrap().to_owned();
    receiver.nothing();
    let accept = json!({"resumeValue": {"action": "accept"}});
    client.post(&format!("/v1/runs/{run}/interrupts/gate"), &accept).is(200);
    let told = receiver.next();
    assert_eq!((told.path.as_str(), told.kind().as_str()), ("/done", "run.completed"));
    assert_eq!(told.json()["event"], *client.events(&run).last().unwrap());
    assert_eq!(told.headers["x-openwop-event-type"], "run.completed");
    assert!(!told.headers.contains_key("x-openwop-signature"), "nobody has a secret for it");
    let fork = json!({"mode": "replay"});
    client.post(&format!("/v1/runs/{run}:fork"), &fork).is(201);
    receiver.nothing();
}

#[test]
fn a_receiver_that_never_answers_holds_nobody_up() {
    let bench = bench(OPEN);
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://127.0.0.1:{}/", silent.local_addr().unwrap().port());
    let well = Receiver::new();
    register(&client, &json!({"url": url})).is(201);
    register(&client, &json!({"url": well.url("/"), "events": ["run.completed"]})).is(201);
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        client.start("plain", &json!({}));
        well.next();
    }
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[test]
fn old_answers_are_let_go_of_when_a_host_starts() {
    let bench = bench("");
    let key = key(&bench, "agent:a", "one", SCOPES);
    let host = serve(&bench, &[]);
    let client = Client { port: host.port, key: &key };
    for name in ["old", "new"] {
        let once = [("Idempotency-Key", name)];
        let wanted = json!({"workflowId": "plain"});
        client.try_send("POST", "/v1/runs", &once, Some(&wanted)).unwrap().is(201);
    }
    kill(host);
    let database = rusqlite::Connection::open(bench.home().join("state/journal.db")).unwrap();
    let aged = "UPDATE replies SET at = at - 90000000 WHERE key = 'old'";
    assert_eq!(database.execute(aged, []).unwrap(), 1);
    let _host = serve(&bench, &[]);
    for _ in 0..200 {
        let count = "SELECT group_concat(key) FROM replies";
        let left: String = database.query_row(count, [], |row| row.get(0)).unwrap();
        if left == "new" {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("the old answer is still there");
}
