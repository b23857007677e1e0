//! What flows after CONNECT or SOCKS, held to what the port is for.
//!
//! A tunnel to a TLS port must begin with a ClientHello for the host that was allowed. A tunnel to
//! port 80 carries one request, judged and written anew like any other, and its answer: later ones
//! on the same connection would have to be judged too, and a new connection does just that.
//! Anything else was named by a rule with its port and flows as it is.

use std::net::Shutdown;

use countersign_model::Failure;

use crate::exchange;
use crate::flow::relay;
use crate::gate::Outbound;
use crate::head::request_head;
use crate::hello::client_hello;
use crate::host::{Host, Target};
use crate::http::refuse;
use crate::refusal;
use crate::request::{Request, origin, rewrite};
use crate::rules::Traffic;
use crate::wire::Wire;

pub(crate) fn run(mut wire: Wire, to: &Outbound) {
    match to.traffic {
        Traffic::Raw => carry(&mut wire, to),
        Traffic::Tls => match judge_hello(&mut wire, &to.target.host) {
            Ok(()) => carry(&mut wire, to),
            Err(failure) => {
                deny(&wire, to, &failure);
                wire.farewell(alert(&failure));
            }
        },
        Traffic::Http => match read_request(&mut wire, &to.target) {
            Ok(request) => exchange::run(&mut wire, to, &request),
            Err(failure) => {
                deny(&wire, to, &failure);
                refuse(&mut wire, &failure);
            }
        },
    }
}

/// Lets go of the server before the client is told. Clients open tunnels in advance and close them
/// unused: that is nothing to deny.
fn deny(wire: &Wire, to: &Outbound, failure: &Failure) {
    let _ = to.stream.shutdown(Shutdown::Both);
    if !wire.is_silent() {
        to.flow.entry().deny(failure);
    }
}

fn carry(wire: &mut Wire, to: &Outbound) {
    let early = wire.take_all();
    if early.is_empty() || to.flow.send(&to.stream, &early).is_ok() {
        relay(&to.flow, wire.stream(), &to.stream);
    }
}

fn judge_hello(wire: &mut Wire, host: &Host) -> Result<(), Failure> {
    let hello = wire
        .gather(|bytes| client_hello(bytes).map_err(|why| refusal::not_tls(host, why)))
        .map_err(|failure| incomplete(failure, host))?;
    let said = hello.server_name.as_deref();
    if names(said, host) { Ok(()) } else { Err(refusal::sni_mismatch(host, said)) }
}

/// Bytes that never became a hello are not TLS, whatever kept them.
fn incomplete(failure: Failure, host: &Host) -> Failure {
    match failure.code.as_ref() {
        "PROTOCOL_ERROR" => refusal::not_tls(host, "ends before its ClientHello does"),
        _ => failure,
    }
}

/// An address has no name to send; some clients send the address itself.
fn names(said: Option<&str>, host: &Host) -> bool {
    match (said, host) {
        (Some(said), Host::Name(name)) => said == name,
        (Some(said), Host::Address(address)) => said.parse() == Ok(*address),
        (None, Host::Name(_)) => false,
        (None, Host::Address(_)) => true,
    }
}

/// A client understands an alert better than a closed connection: `unrecognized_name`, or
/// `handshake_failure` when even that much TLS was not spoken.
fn alert(failure: &Failure) -> &'static [u8] {
    match failure.code.as_ref() {
        "SNI_MISMATCH" => &[21, 3, 1, 0, 2, 2, 112],
        _ => &[21, 3, 1, 0, 2, 2, 40],
    }
}

fn read_request(wire: &mut Wire, target: &Target) -> Result<Request, Failure> {
    let head = wire.gather(|bytes| request_head(bytes).map_err(refusal::protocol))?;
    let request = origin(&head).and_then(|path| rewrite(&head, target, &path))?;
    wire.consume(head.length);
    Ok(request)
}
