//! What a connection is asked for: a host, by name or by address, and a port.
//!
//! One way to read a host serves rules, request lines, headers and SOCKS alike, so no two of them
//! can disagree about what a text means. What other programs might read differently is refused:
//! shortened, octal, hexadecimal and whole-number addresses, percent signs, user names, zones.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use countersign_model::Failure;

/// A host, in lower case and without the final dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Name(String),
    Address(IpAddr),
}

impl Host {
    const MAX_NAME: usize = 253;
    const MAX_LABEL: usize = 63;

    pub fn parse(text: &str) -> Result<Host, Failure> {
        if let Some(inside) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Result<Ipv6Addr, _> = inside.parse();
            let address = address.map_err(|_| invalid(text, "is not an IPv6 address"))?;
            return Ok(Host::Address(IpAddr::V6(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Host::Address(IpAddr::V4(address)));
        }
        match flaw(&name) {
            Some(why) => Err(invalid(text, why)),
            None => Ok(Host::Name(name)),
        }
    }
}

fn flaw(name: &str) -> Option<&'static str> {
    if !name.is_ascii() {
        return Some("is not ASCII: write it in its `xn--` form");
    }
    if name.is_empty() || name.len() > Host::MAX_NAME {
        return Some("has to have 1 to 253 characters");
    }
    if name.rsplit('.').next().is_some_and(is_number) {
        return Some("ends in a number but is not an address such as 192.0.2.1");
    }
    name.split('.').find_map(label_flaw)
}

/// Old address parsers accept `127.1`, `0x7f.1` and `2130706433`; no top-level domain is a number.
fn is_number(label: &str) -> bool {
    let hex =
        label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    hex || (!label.is_empty() && label.bytes().all(|b| b.is_ascii_digit()))
}

fn label_flaw(label: &str) -> Option<&'static str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if label.is_empty() || label.len() > Host::MAX_LABEL {
        Some("has a part that is empty or longer than 63 characters")
    } else if !label.bytes().all(plain) {
        Some("has a character that no host name has")
    } else if label.starts_with('-') || label.ends_with('-') {
        Some("has a part that begins or ends with `-`")
    } else {
        None
    }
}

fn invalid(text: &str, why: &str) -> Failure {
    Failure::validation("HOST_INVALID", format!("the host `{}` {why}", shown(text))).hint(
        "write a name such as api.example.org, or an address such as 192.0.2.1 or [2001:db8::1]",
    )
}

/// What a stranger wrote, safe to show and not long.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(80).flat_map(char::escape_debug).collect()
}

/// Splits `host`, `host:port` and `[address]:port`. User names have no place here: the `@` is
/// refused with the host.
pub(crate) fn authority(text: &str) -> Result<(Host, Option<u16>), Failure> {
    let (host, port) = split_port(text);
    let host = Host::parse(host)?;
    let Some(digits) = port else { return Ok((host, None)) };
    let port = port_number(digits).ok_or_else(|| {
        Failure::validation("PORT_INVALID", format!("the port `{}` is not a port", shown(digits)))
            .hint("write a number from 1 to 65535")
    })?;
    Ok((host, Some(port)))
}

fn split_port(text: &str) -> (&str, Option<&str>) {
    // Inside of brackets a colon belongs to the address.
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    }
}

fn port_number(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain)
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(v4)) => write!(f, "{v4}"),
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

impl Target {
    pub(crate) fn parse(text: &str, default: Option<u16>) -> Result<Target, Failure> {
        let (host, port) = authority(text)?;
        let port = port.or(default).ok_or_else(|| {
            Failure::validation("PORT_INVALID", format!("`{host}` comes without a port"))
        })?;
        Ok(Target { host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hosts_have_one_spelling() {
        for (text, host) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("a_b.example", "a_b.example"),
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::FFFF:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("[2001:0db8::0001]", "[2001:db8::1]"),
            ("4chan.example", "4chan.example"),
        ] {
            assert_eq!(Host::parse(text).unwrap().to_string(), host);
        }
    }

    #[test]
    fn tricks_are_refused() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = format!("{}com", "a.".repeat(126));
        for bad in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "a.b..",
            "127.1",
            "0x7f.1",
            "0x7f.0.0.1",
            "2130706433",
            "0177.0.0.1",
            "127.0.0.01",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.0x",
            "a.0x1f",
            "a.123",
            "::1",
            "[::1",
            "::1]",
            "[127.0.0.1]",
            "[fe80::1%25eth0]",
            "[fe80::1%eth0]",
            "[]",
            "good.com@evil.com",
            "good.com%00.evil.com",
            "good.com\0.evil.com",
            "ex%61mple.com",
            "bücher.example",
            "example。com",
            "exam ple.com",
            "a.com\r\n",
            "a.com/x",
            "a.com\\x",
            "a.com#x",
            "a.com?x",
            "-a.com",
            "a-.com",
            "*.a.com",
            "*",
            "127.0.0.1:80",
            "ⅰ.com",
            &long_label,
            &long_name,
        ] {
            assert_eq!(Host::parse(bad).unwrap_err().code, "HOST_INVALID", "{bad:?}");
        }
    }

    #[test]
    fn ports_are_numbers_of_their_own() {
        let parse = |text| Target::parse(text, Some(80)).map(|target| target.to_string());
        assert_eq!(parse("a.com").unwrap(), "a.com:80");
        assert_eq!(parse("a.com:8080").unwrap(), "a.com:8080");
        assert_eq!(parse("[::1]:443").unwrap(), "[::1]:443");
        assert_eq!(parse("[::1]").unwrap(), "[::1]:80");
        for bad in ["a.com:", "a.com:0", "a.com:080", "a.com:+80", "a.com:65536", "a.com: 80"] {
            assert_eq!(parse(bad).unwrap_err().code, "PORT_INVALID", "{bad}");
        }
        assert_eq!(parse("a:1:2").unwrap_err().code, "HOST_INVALID");
        assert_eq!(parse("u:p@a.com:80").unwrap_err().code, "HOST_INVALID");
        assert_eq!(Target::parse("a.com", None).unwrap_err().code, "PORT_INVALID");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,40}|[a-z0-9.:\\[\\]x@%-]{0,40}") {
            if let Ok(target) = Target::parse(&text, Some(1)) {
                prop_assert_eq!(Target::parse(&target.to_string(), None).unwrap(), target);
            }
        }
    }
}
