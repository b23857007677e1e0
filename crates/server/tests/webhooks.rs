//! Deliveries to real receivers: once, soon, never inside, never elsewhere.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test stops at the first surprise"
)]

mod common;

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use common::authority::Authority;
use countersign_egress::Resolve;
use countersign_model::{Failure, Timestamp};
use countersign_server::webhook::sign::{SignatureForm, body, headers, signature};
use countersign_server::webhook::{Courier, Delivery, Target, UrlPolicy};
use serde_json::{Value, json};

const OPEN: UrlPolicy = UrlPolicy { allow_private: true };
const STRICT: UrlPolicy = UrlPolicy { allow_private: false };

/// Answers with what a test put there, and counts how often it was asked.
#[derive(Debug)]
struct Names {
    answers: Mutex<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Resolve for Names {
    fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers.lock().unwrap().clone())
    }
}

fn names(answers: &[[u8; 4]]) -> Arc<Names> {
    let answers = answers.iter().map(|bytes| IpAddr::from(*bytes)).collect();
    Arc::new(Names { answers: Mutex::new(answers), asked: AtomicUsize::new(0) })
}

/// A receiver of one delivery, which gives back what it got.
fn receiver(answer: &'static [u8]) -> (u16, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let got = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        let mut part = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&got).into_owned();
            let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
                let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).unwrap();
                body.len() >= length.parse::<usize>().unwrap()
            });
            if whole {
                let _ = stream.write_all(answer);
                return text;
            }
            let count = stream.read(&mut part).unwrap();
            assert!(count > 0, "cut off");
            got.extend_from_slice(&part[..count]);
        }
    });
    (port, got)
}

fn send(courier: &Courier, url: &str, policy: UrlPolicy) -> Result<u16, Failure> {
    let event = json!({"type": "run.completed", "runId": "run-1", "payload": {}});
    let sent = body(&event, "default");
    let now = Timestamp::from_millis(1_700_000_000_000);
    let headers =
        headers("wh-1", "run.completed", "a secret of size", now, &sent, SignatureForm::Bare);
    let target = Target::parse(url, policy).unwrap();
    let delivery = Delivery { target, headers, body: sent };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(courier.deliver(&delivery))
}

fn courier(policy: UrlPolicy, names: Arc<Names>, authority: Option<&Authority>) -> Option<Courier> {
    let made = Courier::new(policy, names, authority.map(|a| a.bundle.as_path()));
    match made {
        Ok(courier) => Some(courier.within(Duration::from_secs(3))),
        Err(failure) => {
            eprintln!("skipped: {failure}");
            None
        }
    }
}

#[test]
fn a_delivery_is_signed_and_whole() {
    let Some(courier) = courier(OPEN, names(&[[127, 0, 0, 1]]), None) else { return };
    let (port, got) = receiver(b"HTTP/1.1 204 No Content\r\n\r\n");
    let url = format!("http://receiver.test:{port}/hook?x=1");
    assert_eq!(send(&courier, &url, OPEN).unwrap(), 204);
    let got = got.join().unwrap();
    let (head, sent) = got.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /hook?x=1 HTTP/1.1\r\n"), "{head}");
    let header = |name: &str| {
        let line = head.lines().find(|line| line.starts_with(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}")).split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(header("host"), format!("receiver.test:{port}"));
    let seconds = header("x-openwop-signature-timestamp").parse().unwrap();
    assert_eq!(
        header("x-openwop-signature"),
        signature("a secret of size", seconds, sent.as_bytes())
    );
    assert_eq!(
        (header("x-openwop-webhook-id"), header("x-openwop-event-type")),
        ("wh-1".to_owned(), "run.completed".to_owned())
    );
    let sent: Value = serde_json::from_str(sent).unwrap();
    assert_eq!((&sent["runId"], &sent["event"]["runId"]), (&json!("run-1"), &json!("run-1")));
}

#[test]
fn receivers_that_answer_badly() {
    let Some(courier) = courier(OPEN, names(&[[127, 0, 0, 1]]), None) else { return };
    for (answer, status) in [
        (&b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\n\r\n"[..], Some(302)),
        (b"HTTP/1.0 500 x\r\n\r\n", Some(500)),
        (b"nonsense\r\n", None),
        (b"HTTP/1.1 999 x\r\n\r\n", None),
        (b"", None),
    ] {
        let (port, got) = receiver(answer);
        let told = send(&courier, &format!("http://receiver.test:{port}/"), OPEN);
        assert_eq!(told.as_ref().ok(), status.as_ref(), "{told:?}");
        got.join().unwrap();
    }
}

#[test]
fn a_receiver_that_hangs_is_left() {
    let Some(courier) = courier(OPEN, names(&[[127, 0, 0, 1]]), None) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let began = Instant::now();
    let courier = courier.within(Duration::from_millis(300));
    let told = send(&courier, &format!("http://receiver.test:{port}/"), OPEN);
    assert_eq!(told.unwrap_err().code, "WEBHOOK_FAILED");
    assert!(began.elapsed() < Duration::from_secs(2));
}

/// A name that was good when it was registered may lead inside when it is called.
#[test]
fn a_name_that_turned_inward_is_not_followed() {
    for inward in
        [&[[127, 0, 0, 1]][..], &[[93, 184, 216, 34], [10, 0, 0, 1]], &[[169, 254, 169, 254]]]
    {
        let names = names(inward);
        let Some(courier) = courier(STRICT, Arc::clone(&names), None) else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let told = send(&courier, &format!("https://receiver.example:{port}/"), STRICT);
        assert_eq!(told.unwrap_err().code, "WEBHOOK_URL_REJECTED");
        assert_eq!(names.asked.load(Ordering::SeqCst), 1, "asked once, used once");
        assert!(listener.accept().is_err(), "somebody connected");
    }
}

#[test]
fn tls_is_checked_against_the_name() {
    let Some(authority) = Authority::new() else { return };
    let tls = Some(authority.files.clone());
    let bench = common::Bench::with(common::Setup { tls, ..common::Setup::default() });
    let port = bench.address.port();
    let known = courier(OPEN, names(&[[127, 0, 0, 1]]), Some(&authority)).unwrap();
    // The host answers whoever shows no key; that there is an answer is what counts here.
    assert_eq!(send(&known, &format!("https://localhost:{port}/"), OPEN).unwrap(), 401);
    assert!(send(&known, &format!("https://receiver.test:{port}/"), OPEN).is_err());
    if let Some(stranger) = courier(OPEN, names(&[[127, 0, 0, 1]]), None) {
        assert!(send(&stranger, &format!("https://localhost:{port}/"), OPEN).is_err());
    }
}
