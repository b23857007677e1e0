//! The first message of TLS, read only as far as the name it asks for.
//!
//! Nothing is decrypted, so what counts is the name that travels in the clear. With Encrypted
//! Client Hello that is the outer one: it must match too, but the inner name stays hidden from us,
//! and a server that serves several names may answer for another. Refusing the extension would
//! refuse every browser, since they send it with random content on purpose.

/// What a client said first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// The server's name in lower case, exactly as long as it was sent.
    pub server_name: Option<String>,
}

/// With post-quantum keys and a session ticket a hello has some 4 KiB.
const MAX_HELLO: usize = 32 * 1024;
const MAX_RECORD: usize = 16 * 1024;

const RECORD_HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

type Flaw = &'static str;

/// Reads a ClientHello from the start of a connection, over as many records as it takes. `None`
/// means that more bytes are needed; no byte after the message is looked at.
pub fn client_hello(bytes: &[u8]) -> Result<Option<ClientHello>, Flaw> {
    let mut rest = Bytes(bytes);
    let mut message = Vec::new();
    loop {
        if let Some(length) = message_length(&message)? {
            let body = message.get(4..).filter(|body| body.len() >= length);
            if let Some(body) = body {
                return hello(body, length).map(Some);
            }
        }
        let Some(fragment) = record(&mut rest)? else { return Ok(None) };
        message.extend_from_slice(fragment);
    }
}

/// What the message's own header promises, once that is there.
fn message_length(message: &[u8]) -> Result<Option<usize>, Flaw> {
    let mut header = Bytes(message);
    if header.u8().is_some_and(|kind| kind != CLIENT_HELLO) {
        return Err("does not begin with a ClientHello");
    }
    match header.u24() {
        Some(length) if length > MAX_HELLO => Err("has a ClientHello that is too long"),
        length => Ok(length),
    }
}

/// The next record's content, when all of it has come. What has come is judged at once, so that
/// something else than TLS is refused without waiting for more.
fn record<'a>(rest: &mut Bytes<'a>) -> Result<Option<&'a [u8]>, Flaw> {
    if rest.peek(0).is_some_and(|kind| kind != RECORD_HANDSHAKE) {
        return Err("is not a TLS handshake");
    }
    if rest.peek(1).is_some_and(|major| major != 3) {
        return Err("is not a TLS handshake");
    }
    let mut ahead = Bytes(rest.0);
    let Some(length) = ahead.take(3).and_then(|_| ahead.u16()).map(usize::from) else {
        return Ok(None);
    };
    if length == 0 || length > MAX_RECORD {
        return Err("has a TLS record of an impossible size");
    }
    let fragment = ahead.take(length);
    if fragment.is_some() {
        *rest = ahead;
    }
    Ok(fragment)
}

fn hello(body: &[u8], length: usize) -> Result<ClientHello, Flaw> {
    // A client has to wait for the answer before it says anything else in a handshake.
    if body.len() != length {
        return Err("says more after its ClientHello");
    }
    let extensions = extensions(body).ok_or("has a ClientHello that is cut short")?;
    Ok(ClientHello { server_name: extensions.map_or(Ok(None), server_name)? })
}

/// Skips to the extensions. Very old clients have none.
fn extensions(body: &[u8]) -> Option<Option<Bytes<'_>>> {
    let mut body = Bytes(body);
    body.take(2 + 32)?;
    body.vec8()?;
    body.vec16()?;
    body.vec8()?;
    if body.0.is_empty() {
        return Some(None);
    }
    let extensions = body.vec16()?;
    body.0.is_empty().then_some(Some(extensions))
}

fn server_name(mut extensions: Bytes<'_>) -> Result<Option<String>, Flaw> {
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16();
        let content = extensions.vec16().ok_or("has an extension that is cut short")?;
        if kind == Some(EXTENSION_SERVER_NAME) {
            // Two names would let two readers choose differently.
            if found.is_some() {
                return Err("names its server twice");
            }
            found = Some(only_name(content).ok_or("names its server in a strange way")?);
        }
    }
    Ok(found)
}

fn only_name(mut content: Bytes<'_>) -> Option<String> {
    let mut list = content.vec16()?;
    let kind = list.u8()?;
    let name = list.vec16()?;
    let alone = kind == HOST_NAME && list.0.is_empty() && content.0.is_empty();
    let plain = !name.0.is_empty() && name.0.iter().all(u8::is_ascii_graphic);
    let text = std::str::from_utf8(name.0).ok()?;
    (alone && plain).then(|| text.to_ascii_lowercase())
}

/// Bytes that are taken from the front, or not at all.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn peek(&self, at: usize) -> Option<u8> {
        self.0.get(at).copied()
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u24(&mut self) -> Option<usize> {
        let (high, low) = (self.u8()?, self.u16()?);
        Some(usize::from(high) << 16 | usize::from(low))
    }

    fn vec8(&mut self) -> Option<Bytes<'a>> {
        let length = self.u8()?;
        self.take(usize::from(length)).map(Bytes)
    }

    fn vec16(&mut self) -> Option<Bytes<'a>> {
        let length = self.u16()?;
        self.take(usize::from(length)).map(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn vec16(content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap();
        [&length.to_be_bytes(), content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [kind.to_be_bytes().to_vec(), vec16(content)].concat()
    }

    fn sni(name: &str) -> Vec<u8> {
        extension(0, &vec16(&[vec![0], vec16(name.as_bytes())].concat()))
    }

    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let mut body = [vec![3, 3], vec![7; 32], vec![0], vec16(&[19, 1]), vec![1, 0]].concat();
        body.extend(vec16(&extensions.concat()));
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        message.chunks(size).flat_map(|part| [vec![22, 3, 1], vec16(part)].concat()).collect()
    }

    fn read(extensions: &[Vec<u8>]) -> Result<Option<String>, Flaw> {
        let hello = client_hello(&records(&message(extensions), MAX_RECORD))?;
        Ok(hello.expect("a whole hello").server_name)
    }

    #[test]
    fn the_name_is_found_among_other_extensions() {
        let found = read(&[extension(43, &[2, 3, 4]), sni("API.example.org"), extension(51, &[9])]);
        assert_eq!(found.unwrap().as_deref(), Some("api.example.org"));
        assert_eq!(read(&[extension(43, &[2, 3, 4])]).unwrap(), None);
        assert_eq!(read(&[]).unwrap(), None);
    }

    #[test]
    fn strange_names_are_refused() {
        for bad in [
            vec![sni("a.org"), sni("b.org")],
            vec![sni("")],
            vec![sni("a\0b.org")],
            vec![sni("bücher.org")],
            vec![extension(0, &[])],
            vec![extension(0, &vec16(&[vec![1], vec16(b"a.org")].concat()))],
            vec![extension(
                0,
                &vec16(
                    &[[vec![0], vec16(b"a.org")].concat(), [vec![0], vec16(b"b.org")].concat()]
                        .concat(),
                ),
            )],
            vec![vec![0, 0, 0]],
            vec![vec![0, 0, 0, 9, 1]],
        ] {
            assert!(read(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn something_else_is_refused_at_its_first_byte() {
        for other in [
            &b"G"[..],
            b"SSH-2.0",
            &[22, 2],
            &[0x80, 0x2e],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0xff, 0xff],
        ] {
            assert!(client_hello(other).is_err(), "{other:?}");
        }
        assert!(client_hello(&records(&[2, 0, 0, 1, 0], 9)).is_err());
        assert!(client_hello(&records(&[1, 255, 0, 0], 9)).is_err());
        let more = [message(&[sni("a.org")]), vec![1]].concat();
        assert!(client_hello(&records(&more, MAX_RECORD)).is_err());
        assert_eq!(client_hello(&[]), Ok(None));
    }

    #[test]
    fn bytes_after_the_message_are_left_alone() {
        let early =
            [records(&message(&[sni("a.org")]), MAX_RECORD), vec![23, 3, 3, 0, 1, 0]].concat();
        assert_eq!(client_hello(&early).unwrap().unwrap().server_name.unwrap(), "a.org");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            size in 1_usize..64,
        ) {
            let _ = client_hello(&bytes);
            let _ = client_hello(&records(&bytes, size));
            let _ = client_hello(&records(&message(&[bytes]), size));
        }

        #[test]
        fn pieces_say_nothing_before_they_are_whole(size in 1_usize..300, cut in any::<prop::sample::Index>()) {
            let whole = records(&message(&[sni("api.example.org")]), size);
            let part = &whole[..cut.index(whole.len())];
            prop_assert_eq!(client_hello(part), Ok(None));
            let name = client_hello(&whole).unwrap().unwrap().server_name;
            prop_assert_eq!(name.as_deref(), Some("api.example.org"));
        }
    }
}
