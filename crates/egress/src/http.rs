//! A client that speaks HTTP: CONNECT, or a plain request to be passed on.

use countersign_model::Failure;
use serde_json::json;

use crate::attempt::Protocol;
use crate::exchange;
use crate::gate::{Gate, Outbound};
use crate::head::request_head;
use crate::ledger::Case;
use crate::refusal;
use crate::request::{self, Request};
use crate::rules::Traffic;
use crate::tunnel;
use crate::wire::Wire;

const ESTABLISHED: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

pub(crate) fn serve(gate: &Gate, mut wire: Wire) {
    let mut case = Case::new(Protocol::Http);
    match begin(gate, &mut wire, &mut case) {
        Ok((to, Some(request))) => exchange::run(&mut wire, &to, &request),
        Ok((to, None)) => {
            if wire.say(ESTABLISHED).is_ok() {
                tunnel::run(wire, &to);
            }
        }
        Err(failure) => {
            gate.ledger.deny(case, &failure);
            refuse(&mut wire, &failure);
        }
    }
}

/// A connection for the client's first message, with the request if there is one to pass on.
fn begin(
    gate: &Gate,
    wire: &mut Wire,
    case: &mut Case,
) -> Result<(Outbound, Option<Request>), Failure> {
    let head = wire.gather(|bytes| request_head(bytes).map_err(refusal::protocol))?;
    wire.consume(head.length);
    case.asks_for_text(&head.target);
    if head.method == "CONNECT" {
        case.asks_by(Protocol::Connect);
        return Ok((gate.open(case, request::connect(&head)?)?, None));
    }
    let (target, path) = request::absolute(&head)?;
    case.asks_for(&target);
    if gate.rules.traffic(target.port) == Traffic::Tls {
        return Err(refusal::not_tls(&target.host, "is plain HTTP"));
    }
    let request = request::rewrite(&head, &target, &path)?;
    Ok((gate.open(case, target)?, Some(request)))
}

/// Tells an HTTP client why, and ends.
pub(crate) fn refuse(wire: &mut Wire, failure: &Failure) {
    wire.farewell(&refused(failure));
}

pub(crate) fn refused(failure: &Failure) -> Vec<u8> {
    let body = json!({ "error": failure }).to_string();
    let status = refusal::http_status(failure);
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
