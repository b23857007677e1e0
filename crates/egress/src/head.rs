//! The head of an HTTP/1 request, read strictly.
//!
//! A proxy is safe only while it and the server behind it see the same request. So every liberty
//! that some parser takes is refused here: bare line feeds, folded lines, spaces before a colon,
//! control characters, and what is too long.

/// The head of a request: its words and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub method: String,
    pub target: String,
    pub version: Version,
    pub headers: Vec<Header>,
    /// How many bytes the head has, with the empty line.
    pub length: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    Http10,
    Http11,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// As it was written; compare it with [`Header::is`].
    pub name: String,
    pub value: Vec<u8>,
}

impl Header {
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// The value when it is ASCII, as every value that decides something has to be.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.value).ok().filter(|text| text.is_ascii())
    }
}

impl Head {
    pub(crate) fn all<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h Header> {
        self.headers.iter().filter(move |header| header.is(name))
    }
}

pub(crate) const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 128;
const MAX_METHOD: usize = 32;

type Flaw = &'static str;

/// Reads a request's head from the start of the bytes. `None` means that more are needed.
pub fn request_head(bytes: &[u8]) -> Result<Option<Head>, Flaw> {
    let window = bytes.get(..MAX_HEAD).unwrap_or(bytes);
    let end = window.windows(4).position(|four| four == b"\r\n\r\n");
    // What comes after the head is a body, with its own line breaks.
    let known = end.and_then(|end| window.get(..end)).unwrap_or(window);
    if has_loose_break(known) {
        return Err("has a line that does not end in CR LF");
    }
    let Some(end) = end else {
        return if bytes.len() < MAX_HEAD {
            Ok(None)
        } else {
            Err("has a head of more than 16 KiB")
        };
    };
    let mut lines = Lines(known);
    let (method, target, version) = request_line(lines.next().unwrap_or_default())?;
    let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
    if headers.len() > MAX_HEADERS {
        return Err("has more than 128 headers");
    }
    Ok(Some(Head { method, target, version, headers, length: end + 4 }))
}

/// A carriage return or a line feed by itself; the last byte may still get its other half.
fn has_loose_break(bytes: &[u8]) -> bool {
    let begins = bytes.first() == Some(&b'\n');
    let pair = |two: &[u8]| matches!(two, [a, b] if (*a == b'\r') != (*b == b'\n'));
    begins || bytes.windows(2).any(pair)
}

struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.windows(2).position(|two| two == b"\r\n").unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at_checked(end)?;
        self.0 = rest.get(2..).unwrap_or_default();
        Some(line)
    }
}

fn request_line(line: &[u8]) -> Result<(String, String, Version), Flaw> {
    let text = std::str::from_utf8(line).map_err(|_| "has a request line that is not ASCII")?;
    let mut words = text.split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err("has a request line that is not three words");
    };
    if method.is_empty() || method.len() > MAX_METHOD || !method.bytes().all(is_token) {
        return Err("has no method");
    }
    if target.is_empty() || !target.bytes().all(|b| b.is_ascii_graphic()) {
        return Err("has a target with characters that no target has");
    }
    Ok((method.to_owned(), target.to_owned(), http_version(version)?))
}

fn http_version(text: &str) -> Result<Version, Flaw> {
    match text {
        "HTTP/1.1" => Ok(Version::Http11),
        "HTTP/1.0" => Ok(Version::Http10),
        _ => Err("is not HTTP/1.1"),
    }
}

fn header(line: &[u8]) -> Result<Header, Flaw> {
    if matches!(line.first(), Some(b' ' | b'\t')) {
        return Err("has a header that goes on in the next line");
    }
    let colon = line.iter().position(|b| *b == b':').ok_or("has a header without a colon")?;
    let (name, value) = line.split_at_checked(colon).unwrap_or_default();
    if name.is_empty() || !name.iter().copied().all(is_token) {
        return Err("has a header whose name is not a word");
    }
    let value = value.get(1..).unwrap_or_default().trim_ascii();
    if !value.iter().copied().all(is_value) {
        return Err("has a control character in a header");
    }
    Ok(Header { name: String::from_utf8_lossy(name).into_owned(), value: value.to_vec() })
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn is_value(b: u8) -> bool {
    b == b'\t' || (b >= b' ' && b != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_read() {
        let head = request_head(b"GET http://a/ HTTP/1.1\r\nHost: a\r\nX-Y:\t b c \r\n\r\nr\ne");
        let head = head.unwrap().unwrap();
        assert_eq!((head.method.as_str(), head.target.as_str()), ("GET", "http://a/"));
        assert_eq!(head.headers[1].value, b"b c");
        assert!(head.headers[0].is("hOST"));
        assert_eq!(head.length, 47);
        let bare = request_head(b"CONNECT a:1 HTTP/1.0\r\n\r\n").unwrap().unwrap();
        assert_eq!((bare.version, bare.headers.len()), (Version::Http10, 0));
    }

    #[test]
    fn liberties_are_refused() {
        for bad in [
            "GET / HTTP/1.1\nHost: a\n\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\n: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
            "GET / HTTP/1.1\r\nH\u{f6}st: a\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1 \r\n\r\n",
            "GET /\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / http/1.1\r\n\r\n",
            "G(T / HTTP/1.1\r\n\r\n",
            "GET /\u{e4} HTTP/1.1\r\n\r\n",
            "GET /\tx HTTP/1.1\r\n\r\n",
            "\r\n\r\n",
            "\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(request_head(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(129));
        assert!(request_head(many.as_bytes()).is_err());
    }

    #[test]
    fn a_head_has_a_limit() {
        let head = |fill: usize| format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(fill));
        let spare = MAX_HEAD - head(0).len();
        assert!(request_head(head(spare).as_bytes()).unwrap().is_some());
        assert!(request_head(head(spare + 1).as_bytes()).is_err());
        assert_eq!(request_head(&vec![b'a'; MAX_HEAD - 1]), Ok(None));
        assert!(request_head(&vec![b'a'; MAX_HEAD]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = request_head(&bytes);
            let _ = request_head(&[b"GET / HTTP/1.1\r\n", &bytes[..], b"\r\n\r\n"].concat());
        }

        #[test]
        fn a_piece_is_never_a_whole(cut in any::<prop::sample::Index>()) {
            let whole = b"POST http://a.com/x HTTP/1.1\r\nHost: a.com\r\nContent-Length: 3\r\n\r\n";
            prop_assert_eq!(request_head(&whole[..cut.index(whole.len())]), Ok(None));
        }
    }
}
