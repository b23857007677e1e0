//! Servers, names and clients for the tests. Every port is chosen by the system.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use countersign_egress::{Attempt, Proxy, Resolve, Rules};

pub(crate) const HERE: &str = "127.0.0.1";

/// A resolver that knows what it is told, gives one answer after the other, and remembers what it
/// was asked.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    /// Each answer is a list such as `127.0.0.1 10.0.0.1`; the last one is repeated.
    pub(crate) fn of(names: &[(&str, &[&str])]) -> Arc<Names> {
        let list = |text: &&str| text.split_whitespace().map(|ip| ip.parse().unwrap()).collect();
        let answers = names
            .iter()
            .map(|(name, answers)| ((*name).to_owned(), answers.iter().map(list).collect()))
            .collect();
        Arc::new(Names { answers: Mutex::new(answers), asked: Mutex::default() })
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolve for Names {
    fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<IpAddr>> {
        self.asked.lock().unwrap().push(host.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answers = answers.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// Rules for servers on this machine.
pub(crate) fn rules(hosts: &[String]) -> Rules {
    Rules {
        hosts: hosts.iter().map(|host| host.parse().unwrap()).collect(),
        private: vec!["127.0.0.0/8".parse().unwrap()],
        ..Rules::default()
    }
}

pub(crate) struct Bench {
    pub(crate) proxy: Proxy,
    pub(crate) at: SocketAddr,
    pub(crate) names: Arc<Names>,
}

impl Bench {
    pub(crate) fn start(rules: Rules, names: &Arc<Names>) -> Bench {
        let listener = TcpListener::bind((HERE, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let resolver: Arc<dyn Resolve> = names.clone();
        let proxy = Proxy::start(listener, rules, resolver).unwrap();
        Bench { proxy, at, names: Arc::clone(names) }
    }

    /// One server that is `a.test`, allowed on its port.
    pub(crate) fn for_server(port: u16) -> Bench {
        Bench::start(rules(&[format!("a.test:{port}")]), &Names::of(&[("a.test", &[HERE])]))
    }

    pub(crate) fn client(&self) -> TcpStream {
        let client = TcpStream::connect(self.at).unwrap();
        // Only so that a broken proxy fails the test instead of hanging it.
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client
    }

    /// Sends everything and reads until the proxy ends the connection.
    pub(crate) fn ask(&self, bytes: &[u8]) -> String {
        let mut client = self.client();
        client.write_all(bytes).unwrap();
        rest(&mut client)
    }

    pub(crate) fn stop(self) -> Vec<Attempt> {
        self.proxy.stop()
    }

    pub(crate) fn codes(self) -> Vec<Option<String>> {
        codes(&self.stop())
    }
}

pub(crate) fn codes(attempts: &[Attempt]) -> Vec<Option<String>> {
    attempts.iter().map(|attempt| attempt.verdict.code().map(str::to_owned)).collect()
}

pub(crate) fn some(codes: &[&str]) -> Vec<Option<String>> {
    codes.iter().map(|code| (!code.is_empty()).then(|| (*code).to_owned())).collect()
}

/// What is left until the end; a reset counts as one.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(came) => bytes.extend(&buffer[..came]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("reading failed: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub(crate) fn exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Up to and with the empty line.
pub(crate) fn head(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        bytes.extend(exactly(stream, 1));
    }
    String::from_utf8(bytes).unwrap()
}

/// A server that does the same for every connection.
pub(crate) fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> u16 {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            thread::spawn(move || serve(stream));
        }
    });
    port
}

/// A server that remembers what it was sent, up to the end, and answers nothing.
pub(crate) fn listener() -> (u16, std::sync::mpsc::Receiver<Vec<u8>>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let sender = Mutex::new(sender);
    let port = server(move |mut stream| {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let _ = sender.lock().unwrap().send(bytes);
    });
    (port, receiver)
}

/// Sends back what comes.
pub(crate) fn echo() -> u16 {
    server(|stream| {
        let _ = io::copy(&mut &stream, &mut &stream);
    })
}

/// An HTTP server that answers with the head it got, as its body.
pub(crate) fn mirror() -> u16 {
    server(|mut stream| {
        let head = head(&mut stream);
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nKeep-Alive: 5\r\nConnection: keep-alive\r\n\r\n{head}",
            head.len()
        );
        let _ = stream.write_all(answer.as_bytes());
    })
}

fn vec16(content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap();
    [&length.to_be_bytes(), content].concat()
}

/// A ClientHello in records of the given size.
pub(crate) fn hello(name: Option<&str>, size: usize) -> Vec<u8> {
    let extension = name.map_or(vec![], |name| {
        let list = vec16(&[vec![0], vec16(name.as_bytes())].concat());
        [vec![0, 0], vec16(&list)].concat()
    });
    let mut body = [vec![3, 3], vec![7; 32], vec![0], vec16(&[19, 1]), vec![1, 0]].concat();
    body.extend(vec16(&extension));
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1], &length[1..], &body].concat();
    message.chunks(size).flat_map(|part| [vec![22, 3, 1], vec16(part)].concat()).collect()
}

/// A SOCKS5 greeting and request for a name.
pub(crate) fn socks(name: &str, port: u16) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[5, 1, 0, 5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat()
}
