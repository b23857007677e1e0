//! Bytes between a client and a server: counted, limited, and ended when nothing moves.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use countersign_model::Failure;

use crate::ledger::{Budget, Entry};

pub(crate) const BUFFER: usize = 16 * 1024;
const LOOK_UP: Duration = Duration::from_millis(200);

/// The two directions of one connection, as seen by both threads that carry them.
#[derive(Debug)]
pub(crate) struct Flow {
    entry: Arc<Entry>,
    budget: Arc<Budget>,
    /// What is said when the budget is used up.
    spent: Failure,
    idle: Duration,
    last: Mutex<Instant>,
    answered: AtomicBool,
}

impl Flow {
    pub(crate) fn new(
        entry: Arc<Entry>,
        budget: Arc<Budget>,
        spent: Failure,
        idle: Duration,
    ) -> Flow {
        let last = Mutex::new(Instant::now());
        Flow { entry, budget, spent, idle, last, answered: AtomicBool::new(false) }
    }

    pub(crate) fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Reads from either side. A silent side is waited for as long as the other one speaks.
    pub(crate) fn read(&self, from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_by(from, buffer, self.idle)
    }

    /// Like `read`, but gives up soon after an answer has come: then nobody needs the rest of the
    /// request. Shutting the client down would wake this too, and lose it the answer.
    pub(crate) fn read_unanswered(&self, from: &TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
        self.read_by(from, buffer, LOOK_UP)
    }

    fn read_by(
        &self,
        mut from: &TcpStream,
        buffer: &mut [u8],
        tick: Duration,
    ) -> io::Result<usize> {
        loop {
            if self.answered.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            from.set_read_timeout(Some(self.patience()?.min(tick)))?;
            match from.read(buffer) {
                Err(error) if is_passing(&error) => {}
                result => {
                    self.touch();
                    return result;
                }
            }
        }
    }

    fn patience(&self) -> io::Result<Duration> {
        let since = self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        let left = self.idle.checked_sub(since).filter(|left| !left.is_zero());
        left.ok_or_else(|| io::ErrorKind::TimedOut.into())
    }

    pub(crate) fn answer_is_over(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(crate) fn send(&self, mut server: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        self.spend(bytes.len())?;
        server.write_all(bytes)?;
        self.entry.add_sent(length(bytes.len()));
        self.touch();
        Ok(())
    }

    /// Passes on what the server sent; `shown` may differ from it when a head was rewritten.
    pub(crate) fn receive(
        &self,
        mut client: &TcpStream,
        came: usize,
        shown: &[u8],
    ) -> io::Result<()> {
        self.spend(came)?;
        self.entry.add_received(length(came));
        client.write_all(shown)?;
        self.touch();
        Ok(())
    }

    fn spend(&self, bytes: usize) -> io::Result<()> {
        if self.budget.take(length(bytes)) {
            return Ok(());
        }
        self.entry.deny(&self.spent);
        Err(io::ErrorKind::QuotaExceeded.into())
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

pub(crate) fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

/// Carries bytes both ways until both sides are done or one fails.
pub(crate) fn relay(flow: &Flow, client: &TcpStream, server: &TcpStream) {
    let up = || pump(flow, client, server, |bytes| flow.send(server, bytes));
    let down = || pump(flow, server, client, |bytes| flow.receive(client, bytes.len(), bytes));
    thread::scope(|scope| {
        let named = thread::Builder::new().name("egress-up".to_owned());
        match named.spawn_scoped(scope, || end_on_error(&up(), client, server)) {
            Ok(_upward) => end_on_error(&down(), client, server),
            Err(error) => end_on_error(&Err(error), client, server),
        }
    });
}

fn pump(
    flow: &Flow,
    from: &TcpStream,
    to: &TcpStream,
    pass: impl Fn(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let came = flow.read(from, &mut buffer)?;
        if came == 0 {
            // One side has said everything; the other may still answer.
            return to.shutdown(Shutdown::Write);
        }
        pass(buffer.get(..came).unwrap_or_default())?;
    }
}

/// The other direction waits in a read; only a shutdown wakes it.
fn end_on_error(result: &io::Result<()>, client: &TcpStream, server: &TcpStream) {
    if result.is_err() {
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
    }
}
