//! What a plain HTTP request asks for, and how it is written anew for the server.
//!
//! The head that goes out is made from what was understood, never copied: host and framing are
//! ours, and each connection carries one request. So the server cannot see another request than
//! the one that was judged.

use countersign_model::Failure;

use crate::head::{Head, Header, Version};
use crate::host::Target;
use crate::refusal;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Body,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Length(u64),
    Chunked,
}

/// The target of a request to a proxy, `http://host/path`, as the server and the path there.
pub(crate) fn absolute(head: &Head) -> Result<(Target, String), Failure> {
    let (scheme, rest) = head.target.split_once("://").ok_or_else(|| {
        refusal::protocol("does not say `http://` and a host, as a request to a proxy does")
    })?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(refusal::protocol("is not for `http`: use CONNECT for everything else"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or_default();
    let target = Target::parse(authority, Some(80))?;
    let path = match path.chars().next() {
        None if head.method == "OPTIONS" => "*".to_owned(),
        Some('/') => path.to_owned(),
        _ => format!("/{path}"),
    };
    Ok((target, path))
}

/// The path of a request inside a tunnel, where the server is known already.
pub(crate) fn origin(head: &Head) -> Result<String, Failure> {
    let path = head.target.as_str();
    if path.starts_with('/') || (path == "*" && head.method == "OPTIONS") {
        return Ok(path.to_owned());
    }
    Err(refusal::protocol("does not begin its target with `/`, as a request to a server does"))
}

pub(crate) fn rewrite(head: &Head, target: &Target, path: &str) -> Result<Request, Failure> {
    if head.version != Version::Http11 {
        return Err(refusal::protocol("is not HTTP/1.1"));
    }
    if path.contains('#') {
        return Err(refusal::protocol("has a `#` in its target"));
    }
    if head.all("upgrade").next().is_some() {
        return Err(refusal::upgrade());
    }
    let host = one(head, "host")?.ok_or_else(|| refusal::protocol("has no Host header"))?;
    require_host(host, target)?;
    let body = framing(head)?;
    Ok(Request { head: write_head(head, target, path, body), body })
}

/// The only header of that name.
fn one<'h>(head: &'h Head, name: &'h str) -> Result<Option<&'h Header>, Failure> {
    let mut all = head.all(name);
    let first = all.next();
    if all.next().is_some() {
        return Err(refusal::protocol(format!("has more than one `{name}` header")));
    }
    Ok(first)
}

fn require_host(header: &Header, target: &Target) -> Result<(), Failure> {
    let said = header.text().and_then(|text| Target::parse(text, Some(80)).ok());
    if said.as_ref() == Some(target) { Ok(()) } else { Err(refusal::host_header_mismatch(target)) }
}

/// What is allowed beside the request line of a CONNECT. Its Host header is optional, because
/// widespread clients leave it out; nothing is done with it.
pub(crate) fn connect(head: &Head) -> Result<Target, Failure> {
    let target = Target::parse(&head.target, None)?;
    if let Some(host) = one(head, "host")? {
        let default = Some(target.port);
        let said = host.text().and_then(|text| Target::parse(text, default).ok());
        if said.as_ref() != Some(&target) {
            return Err(refusal::host_header_mismatch(&target));
        }
    }
    if framing(head)? != Body::Length(0) {
        return Err(refusal::protocol("is a CONNECT with a body"));
    }
    Ok(target)
}

/// How long the body is. Two answers to that question are how requests are smuggled, so there may
/// be only one, in its plainest spelling.
fn framing(head: &Head) -> Result<Body, Failure> {
    let length = one(head, "content-length")?;
    let coding = one(head, "transfer-encoding")?;
    match (length, coding) {
        (None, None) => Ok(Body::Length(0)),
        (Some(_), Some(_)) => Err(refusal::protocol("gives its length in two ways")),
        (Some(length), None) => decimal(&length.value).map(Body::Length),
        (None, Some(coding)) if coding.value.eq_ignore_ascii_case(b"chunked") => Ok(Body::Chunked),
        (None, Some(_)) => Err(refusal::protocol("has a transfer encoding other than `chunked`")),
    }
}

fn decimal(digits: &[u8]) -> Result<u64, Failure> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
    number.filter(|_| plain).ok_or_else(|| refusal::protocol("has a length that is not a number"))
}

/// For the next hop only (RFC 9110, section 7.6.1), or written by us.
const NOT_COPIED: [&str; 13] = [
    "connection",
    "content-length",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "trailers",
    "transfer-encoding",
    "upgrade",
];

fn write_head(head: &Head, target: &Target, path: &str, body: Body) -> Vec<u8> {
    let mut out = format!("{} {path} HTTP/1.1\r\nHost: {}\r\n", head.method, host_value(target));
    let framed = head.all("content-length").next().is_some();
    match body {
        Body::Length(length) if framed => out.push_str(&format!("Content-Length: {length}\r\n")),
        Body::Length(_) => {}
        Body::Chunked => out.push_str("Transfer-Encoding: chunked\r\n"),
    }
    out.push_str("Connection: close\r\n");
    let mut out = out.into_bytes();
    for header in head.headers.iter().filter(|header| is_copied(head, header)) {
        out.extend([header.name.as_bytes(), b": ", &header.value, b"\r\n"].concat());
    }
    out.extend(b"\r\n");
    out
}

fn host_value(target: &Target) -> String {
    if target.port == 80 { target.host.to_string() } else { target.to_string() }
}

fn is_copied(head: &Head, header: &Header) -> bool {
    !NOT_COPIED.iter().any(|name| header.is(name))
        && !connection_options(head).any(|o| header.is(o))
}

/// Headers that the client itself calls its own business with the proxy.
fn connection_options(head: &Head) -> impl Iterator<Item = &str> {
    head.all("connection").filter_map(Header::text).flat_map(|text| text.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::request_head;

    fn read(text: &str) -> Head {
        request_head(text.as_bytes()).unwrap().unwrap()
    }

    fn plain(lines: &str) -> Result<String, String> {
        let head = read(&format!("{lines}\r\n\r\n"));
        let request = absolute(&head).and_then(|(target, path)| rewrite(&head, &target, &path));
        let text = |request: Request| String::from_utf8(request.head).unwrap();
        request.map(text).map_err(|failure| failure.code.into_owned())
    }

    #[test]
    fn a_request_is_written_anew() {
        let out = plain(
            "POST HTTP://A.com:8080?x=1 HTTP/1.1\r\nhost: a.com:8080\r\nProxy-Authorization: s\r\n\
             Connection: keep-alive, X-Own\r\nX-own: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n\
             Content-Length: 007\r\nAccept: */*",
        );
        assert_eq!(
            out.unwrap(),
            "POST /?x=1 HTTP/1.1\r\nHost: a.com:8080\r\nContent-Length: 7\r\n\
             Connection: close\r\nAccept: */*\r\n\r\n"
        );
        let chunked =
            plain("PUT http://a.com/ HTTP/1.1\r\nHost: a.com\r\nTransfer-Encoding: Chunked");
        assert!(chunked.unwrap().contains("\r\nTransfer-Encoding: chunked\r\n"));
        assert!(
            plain("OPTIONS http://a.com HTTP/1.1\r\nHost: a.com")
                .unwrap()
                .starts_with("OPTIONS * ")
        );
        assert!(plain("GET http://[2000::1]/ HTTP/1.1\r\nHost: [2000::1]:80").is_ok());
    }

    #[test]
    fn the_client_cannot_have_our_headers_dropped() {
        let out =
            plain("GET http://a.com/ HTTP/1.1\r\nHost: a.com\r\nConnection: host, content-length");
        assert!(out.unwrap().contains("\r\nHost: a.com\r\n"));
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        let get = "GET http://a.com/ HTTP/1.1\r\n";
        for (lines, code) in [
            ("Host: b.com", "HOST_HEADER_MISMATCH"),
            ("Host: a.com:81", "HOST_HEADER_MISMATCH"),
            ("Host: a.com@b.com", "HOST_HEADER_MISMATCH"),
            ("Host:", "HOST_HEADER_MISMATCH"),
            ("X: y", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nHost: a.com", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length: 1\r\nContent-Length: 1", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length: +1", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length: 1, 1", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length:", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nContent-Length: 99999999999999999999", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nTransfer-Encoding: gzip, chunked", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x", "PROTOCOL_ERROR"),
            ("Host: a.com\r\nUpgrade: websocket", "UPGRADE_NOT_ALLOWED"),
        ] {
            assert_eq!(plain(&format!("{get}{lines}")).unwrap_err(), code, "{lines}");
        }
        for (line, code) in [
            ("GET / HTTP/1.1", "PROTOCOL_ERROR"),
            ("GET https://a.com/ HTTP/1.1", "PROTOCOL_ERROR"),
            ("GET http://a.com/ HTTP/1.0", "PROTOCOL_ERROR"),
            ("GET http://a.com/#x HTTP/1.1", "PROTOCOL_ERROR"),
            ("GET http://good.com@a.com/ HTTP/1.1", "HOST_INVALID"),
            ("GET http:///a.com/ HTTP/1.1", "HOST_INVALID"),
            ("GET http://a.com\\@b.com/ HTTP/1.1", "HOST_INVALID"),
            ("GET http://2130706433/ HTTP/1.1", "HOST_INVALID"),
        ] {
            assert_eq!(plain(&format!("{line}\r\nHost: a.com")).unwrap_err(), code, "{line}");
        }
    }

    #[test]
    fn a_connect_names_its_target() {
        let code = |text: &str| {
            let head = read(&format!("CONNECT {text}\r\n\r\n"));
            connect(&head).map(|t| t.to_string()).map_err(|failure| failure.code.into_owned())
        };
        assert_eq!(code("a.com:443 HTTP/1.0").unwrap(), "a.com:443");
        assert_eq!(code("a.com:443 HTTP/1.1\r\nHost: a.com").unwrap(), "a.com:443");
        assert_eq!(code("[::1]:443 HTTP/1.1\r\nHost: [::1]:443").unwrap(), "[::1]:443");
        assert_eq!(code("a.com HTTP/1.1").unwrap_err(), "PORT_INVALID");
        assert_eq!(code("http://a.com:443 HTTP/1.1").unwrap_err(), "HOST_INVALID");
        assert_eq!(code("u@a.com:443 HTTP/1.1").unwrap_err(), "HOST_INVALID");
        assert_eq!(code("a.com:443 HTTP/1.1\r\nHost: b.com").unwrap_err(), "HOST_HEADER_MISMATCH");
        assert_eq!(code("a.com:443 HTTP/1.1\r\nContent-Length: 5").unwrap_err(), "PROTOCOL_ERROR");
    }

    #[test]
    fn inside_a_tunnel_the_target_is_a_path() {
        let path = |text: &str| origin(&read(&format!("{text} HTTP/1.1\r\n\r\n"))).ok();
        assert_eq!(path("GET /x").as_deref(), Some("/x"));
        assert_eq!(path("OPTIONS *").as_deref(), Some("*"));
        for bad in ["GET *", "GET http://b.com/", "CONNECT b.com:443"] {
            assert_eq!(path(bad), None, "{bad}");
        }
    }
}
