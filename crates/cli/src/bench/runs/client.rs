//! As little of an HTTP client as a load needs: one connection that is kept.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use countersign_model::Failure;
use serde_json::Value;

use super::failed;

pub(super) struct Client {
    stream: TcpStream,
    key: String,
    read: Vec<u8>,
}

impl Client {
    pub(super) fn new(port: u16, key: &str) -> Result<Self, Failure> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|e| failed(&e))?;
        stream.set_nodelay(true).map_err(|error| failed(&error))?;
        Ok(Client { stream, key: key.to_owned(), read: Vec::new() })
    }

    pub(super) fn get(&mut self, path: &str) -> Result<Value, Failure> {
        self.send("GET", path, "")
    }

    pub(super) fn post(&mut self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send("POST", path, &body.to_string())
    }

    fn send(&mut self, method: &str, path: &str, body: &str) -> Result<Value, Failure> {
        let request = self.request(method, path, body);
        self.stream.write_all(request.as_bytes()).map_err(|error| failed(&error))?;
        self.answer()
    }

    fn request(&self, method: &str, path: &str, body: &str) -> String {
        let length = body.len();
        let key = &self.key;
        let about = match body {
            "" => String::new(),
            _ => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n\
             {about}\r\n{body}"
        )
    }

    /// Leaves the connection to whoever reads the stream that it asks for.
    pub(super) fn follow(mut self, path: &str) -> Result<TcpStream, Failure> {
        let request = self.request("GET", path, "");
        self.stream.write_all(request.as_bytes()).map_err(|error| failed(&error))?;
        Ok(self.stream)
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        self.read.clear();
        let head = loop {
            self.fill()?;
            if let Some(end) = self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let (status, length) = meaning(self.read.get(..head).unwrap_or_default())
            .ok_or_else(|| failed(&"an answer could not be read"))?;
        while self.read.len() < head + length {
            self.fill()?;
        }
        let body = self.read.get(head..head + length).unwrap_or_default();
        if !(200..300).contains(&status) {
            return Err(failed(&format!("{status}: {}", String::from_utf8_lossy(body))));
        }
        serde_json::from_slice(body).map_err(|error| failed(&error))
    }

    fn fill(&mut self) -> Result<(), Failure> {
        let mut some = [0; 16 * 1024];
        match self.stream.read(&mut some).map_err(|error| failed(&error))? {
            0 => Err(failed(&"the host hung up")),
            count => {
                self.read.extend_from_slice(some.get(..count).unwrap_or_default());
                Ok(())
            }
        }
    }
}

/// Status and length of what follows.
fn meaning(head: &[u8]) -> Option<(u16, usize)> {
    let head = std::str::from_utf8(head).ok()?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let named = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    };
    Some((status, head.lines().find_map(named)?))
}
