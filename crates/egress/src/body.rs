//! The body of a request, from the client to the server: exactly as long as it was announced.

use std::io;

use crate::gate::Outbound;
use crate::request::Body;
use crate::wire::Wire;

/// Which side ended it.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The client went away or broke its own framing; the server must not take the rest for whole.
    Client(io::Error),
    /// The server takes no more. It may still answer, and often says why.
    Server,
}

pub(crate) fn send(wire: &mut Wire, to: &Outbound, body: Body) -> Result<(), Broken> {
    match body {
        Body::Length(length) => copy(wire, to, length),
        Body::Chunked => chunks(wire, to),
    }
}

pub(crate) fn pass(to: &Outbound, bytes: &[u8]) -> Result<(), Broken> {
    to.flow.send(&to.stream, bytes).map_err(|error| match error.kind() {
        io::ErrorKind::QuotaExceeded => Broken::Client(error),
        _ => Broken::Server,
    })
}

fn copy(wire: &mut Wire, to: &Outbound, mut left: u64) -> Result<(), Broken> {
    while left > 0 {
        let piece = wire.piece(&to.flow, left).map_err(Broken::Client)?;
        left = left.saturating_sub(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        pass(to, &piece)?;
    }
    Ok(())
}

/// Chunks are read and written anew. Extensions and trailers have no use here and are the places
/// where parsers disagree: the first are refused, the second left out.
fn chunks(wire: &mut Wire, to: &Outbound) -> Result<(), Broken> {
    loop {
        let line = wire.line(&to.flow).map_err(Broken::Client)?;
        let size = chunk_size(&line).ok_or_else(malformed)?;
        if size == 0 {
            skip_trailers(wire, to)?;
            return pass(to, b"0\r\n\r\n");
        }
        pass(to, format!("{size:x}\r\n").as_bytes())?;
        copy(wire, to, size)?;
        if !wire.line(&to.flow).map_err(Broken::Client)?.is_empty() {
            return Err(malformed());
        }
        pass(to, b"\r\n")?;
    }
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let plain = (1..=15).contains(&line.len()) && line.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(line).ok().filter(|_| plain)?;
    u64::from_str_radix(text, 16).ok()
}

fn skip_trailers(wire: &mut Wire, to: &Outbound) -> Result<(), Broken> {
    const MAX_TRAILERS: usize = 32;
    for _ in 0..MAX_TRAILERS {
        if wire.line(&to.flow).map_err(Broken::Client)?.is_empty() {
            return Ok(());
        }
    }
    Err(malformed())
}

fn malformed() -> Broken {
    Broken::Client(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_plain_hexadecimal() {
        assert_eq!(chunk_size(b"0"), Some(0));
        assert_eq!(chunk_size(b"1aF"), Some(0x1af));
        for bad in ["", "-1", "+1", "0x1", "1;a=b", " 1", "1 ", "g", "1234567890123456"] {
            assert_eq!(chunk_size(bad.as_bytes()), None, "{bad}");
        }
    }
}
