//! One HTTP request and its answer, on a connection that ends with it.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::thread;

use crate::body::{self, Broken};
use crate::flow::BUFFER;
use crate::gate::Outbound;
use crate::http::refuse;
use crate::refusal;
use crate::request::Request;
use crate::response::answer;
use crate::wire::Wire;

pub(crate) fn run(wire: &mut Wire, to: &Outbound, request: &Request) {
    let Ok(client) = wire.stream().try_clone() else { return };
    let answered = thread::scope(|scope| {
        let named = thread::Builder::new().name("egress-up".to_owned());
        // The request goes on its own thread, because servers answer before they have read it all.
        if named.spawn_scoped(scope, || upload(&mut *wire, to, request)).is_err() {
            return Err(Unanswered::Silent);
        }
        let answered = download(&client, to);
        // Whatever the client still wants to send has no reader any more; this ends the upload.
        to.flow.answer_is_over();
        let _ = to.stream.shutdown(Shutdown::Both);
        answered
    });
    match answered {
        Err(Unanswered::Silent) => refuse(wire, &refusal::no_answer(&to.target)),
        Ok(()) | Err(Unanswered::Begun) => wire.farewell(b""),
    }
}

/// How an answer failed.
enum Unanswered {
    /// The client has seen nothing yet and can be told.
    Silent,
    Begun,
}

fn upload(wire: &mut Wire, to: &Outbound, request: &Request) {
    let sent = body::pass(to, &request.head).and_then(|()| body::send(wire, to, request.body));
    if let Err(Broken::Client(error)) = sent {
        if error.kind() == io::ErrorKind::InvalidData {
            to.flow.entry().deny(&refusal::protocol("has a body in broken chunks"));
        }
        let _ = to.stream.shutdown(Shutdown::Both);
    }
}

fn download(client: &TcpStream, to: &Outbound) -> Result<(), Unanswered> {
    let mut shown = false;
    let rest = heads(client, to, &mut shown).and_then(|rest| {
        to.flow.receive(client, rest.len(), &rest)?;
        tail(client, to)
    });
    rest.map_err(|_| if shown { Unanswered::Begun } else { Unanswered::Silent })
}

/// Passes on interim answers and the head of the real one; returns what has come of its body.
fn heads(client: &TcpStream, to: &Outbound, shown: &mut bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let Some(head) = answer(&bytes).map_err(io::Error::other)? else {
            more(to, &mut bytes)?;
            continue;
        };
        // We never ask for another protocol, so nobody may switch to one.
        if head.status == 101 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        to.flow.receive(client, head.length, &head.shown)?;
        *shown = true;
        bytes.drain(..head.length.min(bytes.len()));
        if head.status >= 200 {
            return Ok(bytes);
        }
    }
}

fn more(to: &Outbound, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    let came = to.flow.read(&to.stream, &mut buffer)?;
    if came == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.extend_from_slice(buffer.get(..came).unwrap_or_default());
    Ok(())
}

fn tail(client: &TcpStream, to: &Outbound) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let came = to.flow.read(&to.stream, &mut buffer)?;
        if came == 0 {
            return Ok(());
        }
        to.flow.receive(client, came, buffer.get(..came).unwrap_or_default())?;
    }
}
