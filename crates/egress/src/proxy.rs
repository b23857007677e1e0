//! The proxy as a whole: one thread that accepts, and one or two for each connection.

use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use countersign_model::Failure;

use crate::attempt::{Attempt, Protocol};
use crate::gate::Gate;
use crate::http;
use crate::ledger::Case;
use crate::refusal;
use crate::resolve::Resolve;
use crate::rules::Rules;
use crate::socks;
use crate::wire::Wire;

/// The only way out of a sandbox. It runs until it is stopped or dropped.
#[must_use = "the proxy stops when it is dropped: keep it, and call `stop` for what was attempted"]
pub struct Proxy {
    gate: Arc<Gate>,
    door: Door,
    accepting: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Serves what connects to `listener`, which usually lives in the network of a sandbox.
    /// Connections to the outside are made in the network of the calling process.
    pub fn start(
        listener: TcpListener,
        rules: Rules,
        resolver: Arc<dyn Resolve>,
    ) -> io::Result<Proxy> {
        listener.set_nonblocking(false)?;
        let door = Door::of(&listener)?;
        let gate = Arc::new(Gate::new(rules, resolver));
        let run = {
            let gate = Arc::clone(&gate);
            move || accept(&listener, &gate)
        };
        let accepting = thread::Builder::new().name("egress".to_owned()).spawn(run)?;
        Ok(Proxy { gate, door, accepting: Some(accepting) })
    }

    /// What has been attempted so far, in the order of the decisions. Numbers of open connections
    /// still grow.
    pub fn attempts(&self) -> Vec<Attempt> {
        self.gate.ledger.attempts()
    }

    /// Closes the way out, ends every connection, and tells what was attempted. Nothing passes
    /// after this returns.
    pub fn stop(mut self) -> Vec<Attempt> {
        self.end();
        self.attempts()
    }

    fn end(&mut self) {
        self.gate.endings.end_all();
        self.door.close();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("gate", &self.gate).finish_non_exhaustive()
    }
}

/// The listener, by a type that can be shut down. That wakes the thread that waits in `accept`,
/// which no connection from this side could: the listener may be in another network.
struct Door(TcpStream);

impl Door {
    fn of(listener: &TcpListener) -> io::Result<Door> {
        Ok(Door(TcpStream::from(OwnedFd::from(listener.try_clone()?))))
    }

    fn close(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Accepts until the end, then waits for the connections to end as well.
fn accept(listener: &TcpListener, gate: &Arc<Gate>) {
    let open = Arc::new(AtomicU32::new(0));
    let mut sessions: Vec<JoinHandle<()>> = Vec::new();
    while !gate.endings.is_over() && has_room(gate) {
        match listener.accept() {
            Ok((client, _)) => {
                sessions.retain(|session| !session.is_finished());
                sessions.extend(admit(gate, client, &open));
            }
            Err(_) if gate.endings.is_over() => {}
            // Too few descriptors, perhaps: trying again at once would only burn time.
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
    // Full or over: who comes now is refused at once instead of waiting in the queue.
    let _ = Door::of(listener).map(|door| door.close());
    for session in sessions {
        let _ = session.join();
    }
}

/// After the last attempt that is recorded nothing more is let in.
fn has_room(gate: &Gate) -> bool {
    let limit = gate.rules.max_attempts;
    let room = gate.ledger.len() < usize::try_from(limit).unwrap_or(usize::MAX);
    if !room {
        gate.ledger.deny(Case::new(Protocol::Unknown), &refusal::too_many_attempts(limit));
    }
    room
}

fn admit(gate: &Arc<Gate>, client: TcpStream, open: &Arc<AtomicU32>) -> Option<JoinHandle<()>> {
    let limit = gate.rules.max_connections;
    let Some(place) = Place::take(open, limit) else {
        turn_away(gate, client, &refusal::too_many_connections(limit));
        return None;
    };
    let shared = Arc::clone(gate);
    let session = move || {
        // A connection that cannot even be set up has said nothing that could be recorded.
        let _ = serve(&shared, client);
        drop(place);
    };
    let spawned = thread::Builder::new().name("egress-client".to_owned()).spawn(session);
    if spawned.is_err() {
        let failure = refusal::too_many_connections(limit);
        gate.ledger.deny(Case::new(Protocol::Unknown), &failure);
    }
    spawned.ok()
}

/// Without waiting for what the client says: this is the thread that accepts.
fn turn_away(gate: &Gate, mut client: TcpStream, failure: &Failure) {
    gate.ledger.deny(Case::new(Protocol::Unknown), failure);
    let _ = client.set_nonblocking(true);
    let _ = client.write_all(&http::refused(failure));
}

fn serve(gate: &Gate, client: TcpStream) -> io::Result<()> {
    let _waiting = gate.endings.connection(&client)?;
    let times = gate.rules.timeouts;
    let mut wire = Wire::new(client, times.head, times.idle)?;
    match wire.gather(|bytes| Ok(bytes.first().copied())) {
        Ok(5) => socks::serve(gate, wire),
        Ok(b'A'..=b'Z') => http::serve(gate, wire),
        Ok(_) => {
            let failure = refusal::protocol("is neither HTTP nor SOCKS5");
            gate.ledger.deny(Case::new(Protocol::Unknown), &failure);
        }
        // A connection on which nothing is said asks for nothing.
        Err(_) => {}
    }
    Ok(())
}

/// A place among the connections that may be open.
struct Place(Arc<AtomicU32>);

impl Place {
    fn take(open: &Arc<AtomicU32>, limit: u32) -> Option<Place> {
        let place = Place(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < limit).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
