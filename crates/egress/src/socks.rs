//! A client that speaks SOCKS5 (RFC 1928): no authentication, CONNECT only.

use std::net::IpAddr;

use countersign_model::Failure;

use crate::attempt::Protocol;
use crate::gate::{Gate, Outbound};
use crate::host::{Host, Target};
use crate::ledger::Case;
use crate::refusal;
use crate::tunnel;
use crate::wire::Wire;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: [u8; 2] = [VERSION, 0xff];
const CONNECT: u8 = 1;

pub(crate) fn serve(gate: &Gate, mut wire: Wire) {
    let mut case = Case::new(Protocol::Socks5);
    let greeted = greet(&mut wire);
    match greeted.and_then(|()| begin(gate, &mut wire, &mut case).map_err(|f| (reply(&f), f))) {
        Ok(to) => {
            if wire.say(&reply_bytes(0)).is_ok() {
                tunnel::run(wire, &to);
            }
        }
        Err((answer, failure)) => {
            gate.ledger.deny(case, &failure);
            wire.farewell(&answer);
        }
    }
}

fn reply(failure: &Failure) -> Vec<u8> {
    reply_bytes(refusal::socks_reply(failure)).to_vec()
}

/// The address that the server would see is nobody's business here.
fn reply_bytes(code: u8) -> [u8; 10] {
    [VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

fn greet(wire: &mut Wire) -> Result<(), (Vec<u8>, Failure)> {
    let refuse = |failure| (NO_METHOD.to_vec(), failure);
    let methods = wire.gather(|bytes| Ok(greeting(bytes))).map_err(refuse)?;
    wire.consume(methods.len().saturating_add(2));
    if !methods.contains(&NO_AUTHENTICATION) {
        return Err(refuse(refusal::protocol("asks for authentication, which is not known here")));
    }
    let cut_off = |_| (Vec::new(), refusal::protocol("was cut off"));
    wire.say(&[VERSION, NO_AUTHENTICATION]).map_err(cut_off)
}

/// The methods that the client offers.
fn greeting(bytes: &[u8]) -> Option<Vec<u8>> {
    let (count, methods) = bytes.get(1..)?.split_first()?;
    methods.get(..usize::from(*count)).map(<[u8]>::to_vec)
}

fn begin(gate: &Gate, wire: &mut Wire, case: &mut Case) -> Result<Outbound, Failure> {
    let asked = wire.gather(request)?;
    wire.consume(asked.length);
    case.asks_for_text(&asked.host);
    let host = asked.target()?;
    gate.open(case, host)
}

/// A request as it was written; a name is not understood yet.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    host: String,
    port: u16,
    length: usize,
}

impl Asked {
    /// A name that spells an address is that address.
    fn target(&self) -> Result<Target, Failure> {
        if self.port == 0 {
            return Err(refusal::protocol("asks for port 0"));
        }
        Ok(Target { host: Host::parse(&self.host)?, port: self.port })
    }
}

fn request(bytes: &[u8]) -> Result<Option<Asked>, Failure> {
    if bytes.first().is_some_and(|version| *version != VERSION) {
        return Err(refusal::protocol("is not SOCKS5"));
    }
    if bytes.get(1).is_some_and(|command| *command != CONNECT) {
        return Err(refusal::command());
    }
    if bytes.get(2).is_some_and(|reserved| *reserved != 0) {
        return Err(refusal::protocol("has a reserved byte that is not zero"));
    }
    let Some((kind, rest)) = bytes.get(3..).and_then(<[u8]>::split_first) else { return Ok(None) };
    match kind {
        1 => Ok(address::<4>(rest)),
        3 => name(rest),
        4 => Ok(address::<16>(rest)),
        _ => Err(refusal::address_type()),
    }
}

fn address<const N: usize>(rest: &[u8]) -> Option<Asked>
where
    IpAddr: From<[u8; N]>,
{
    let (address, rest) = rest.split_first_chunk::<N>()?;
    let host = Host::Address(IpAddr::from(*address)).to_string();
    port(rest).map(|port| Asked { host, port, length: 4 + N + 2 })
}

fn name(rest: &[u8]) -> Result<Option<Asked>, Failure> {
    let whole = rest.split_first().and_then(|(length, rest)| {
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        Some((name, port(rest)?))
    });
    let Some((name, port)) = whole else { return Ok(None) };
    let length = 4 + 1 + name.len() + 2;
    let host = std::str::from_utf8(name).map_err(|_| refusal::protocol("names no host"))?;
    Ok(Some(Asked { host: host.to_owned(), port, length }))
}

fn port(rest: &[u8]) -> Option<u16> {
    rest.first_chunk().copied().map(u16::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> Vec<u8> {
        let length = u8::try_from(name.len()).unwrap();
        [&[5, 1, 0, 3, length], name.as_bytes(), &[1, 187]].concat()
    }

    #[test]
    fn targets_are_read() {
        let read = |bytes: &[u8]| request(bytes).unwrap().unwrap().target().unwrap().to_string();
        assert_eq!(read(&named("A.com")), "a.com:443");
        assert_eq!(read(&named("127.0.0.1")), "127.0.0.1:443");
        assert_eq!(read(&[5, 1, 0, 1, 127, 0, 0, 1, 0, 80]), "127.0.0.1:80");
        let v6 = [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat();
        assert_eq!(read(&v6), "[::1]:80");
    }

    #[test]
    fn everything_else_is_refused() {
        let code = |bytes: &[u8]| request(bytes).unwrap_err().code.into_owned();
        assert_eq!(code(&[5, 2]), "COMMAND_NOT_SUPPORTED");
        assert_eq!(code(&[5, 3]), "COMMAND_NOT_SUPPORTED");
        assert_eq!(code(&[4]), "PROTOCOL_ERROR");
        assert_eq!(code(&[5, 1, 1]), "PROTOCOL_ERROR");
        assert_eq!(code(&[5, 1, 0, 2]), "ADDRESS_TYPE_NOT_SUPPORTED");
        for name in ["", "127.1", "a\0b", "a@b"] {
            assert!(request(&named(name)).unwrap().unwrap().target().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = greeting(&bytes);
            let _ = request(&bytes);
            if let Ok(Some(asked)) = request(&[&[5, 1, 0], &bytes[..]].concat()) {
                prop_assert!(asked.length <= bytes.len() + 3);
                let _ = asked.target();
            }
        }

        #[test]
        fn a_piece_is_never_a_whole(cut in any::<prop::sample::Index>()) {
            let whole = named("a.example.org");
            prop_assert_eq!(request(&whole[..cut.index(whole.len())]).unwrap(), None);
        }
    }
}
