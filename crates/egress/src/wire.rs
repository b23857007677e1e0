//! The client's side of a connection: bytes that have come and have not been used yet.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use countersign_model::Failure;

use crate::flow::{BUFFER, Flow, is_passing};
use crate::refusal;

#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
    patience: Duration,
}

/// No message that is waited for as a whole is longer.
const MAX_GATHERED: usize = 64 * 1024;
const MAX_LINE: usize = 256;

/// How much and how long a client that was refused may go on speaking.
const MAX_DRAINED: usize = 256 * 1024;
const DRAIN_TIME: Duration = Duration::from_secs(2);

impl Wire {
    /// `patience` is for each message that is waited for as a whole.
    pub(crate) fn new(stream: TcpStream, patience: Duration, idle: Duration) -> io::Result<Wire> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(idle))?;
        Ok(Wire { stream, buffer: Vec::new(), patience })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Waits until `parse` sees a whole message. The deadline is for all of it: a client that sends
    /// a byte now and then gains nothing.
    pub(crate) fn gather<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Option<T>, Failure>,
    ) -> Result<T, Failure> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(whole) = parse(&self.buffer)? {
                return Ok(whole);
            }
            if self.buffer.len() > MAX_GATHERED {
                return Err(refusal::protocol("is too long"));
            }
            match self.more(deadline) {
                Ok(0) => return Err(refusal::protocol("ended before it was whole")),
                Ok(_) => {}
                Err(error) if is_passing(&error) => return Err(refusal::head_timeout()),
                Err(_) => return Err(refusal::protocol("was cut off")),
            }
        }
    }

    fn more(&mut self, deadline: Instant) -> io::Result<usize> {
        let mut chunk = [0; 4096];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut chunk) {
                Err(error) if is_passing(&error) => {}
                result => return result.inspect(|came| self.keep(chunk.get(..*came))),
            }
        }
    }

    fn keep(&mut self, bytes: Option<&[u8]>) {
        self.buffer.extend_from_slice(bytes.unwrap_or_default());
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        self.buffer.drain(..bytes.min(self.buffer.len()));
    }

    pub(crate) fn take_all(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// Some bytes, at most `limit`; an end is an error, because more was promised.
    pub(crate) fn piece(&mut self, flow: &Flow, limit: u64) -> io::Result<Vec<u8>> {
        if self.buffer.is_empty() {
            self.refill(flow)?;
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(self.buffer.drain(..limit.min(self.buffer.len())).collect())
    }

    /// A short line without its CR LF.
    pub(crate) fn line(&mut self, flow: &Flow) -> io::Result<Vec<u8>> {
        loop {
            let end = self.buffer.windows(2).position(|two| two == b"\r\n");
            if let Some(end) = end.filter(|end| *end <= MAX_LINE) {
                let line = self.buffer.drain(..end).collect();
                self.consume(2);
                return Ok(line);
            }
            if self.buffer.len() > MAX_LINE {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.refill(flow)?;
        }
    }

    fn refill(&mut self, flow: &Flow) -> io::Result<()> {
        let mut chunk = vec![0; BUFFER];
        let came = flow.read_unanswered(&self.stream, &mut chunk)?;
        if came == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.keep(chunk.get(..came));
        Ok(())
    }

    pub(crate) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Says the last word. A client that is still sending would lose it if the connection were
    /// closed at once: what it sends is read for a while and thrown away.
    pub(crate) fn farewell(&mut self, bytes: &[u8]) {
        if self.say(bytes).and_then(|()| self.stream.shutdown(Shutdown::Write)).is_ok() {
            self.drain();
        }
    }

    fn drain(&mut self) {
        let deadline = Instant::now() + DRAIN_TIME;
        let mut drained = 0_usize;
        while drained < MAX_DRAINED && self.more(deadline).is_ok_and(|came| came > 0) {
            drained = drained.saturating_add(self.take_all().len());
        }
    }
}
