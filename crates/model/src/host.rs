//! Names of hosts that a declaration asks for: `host`, `host:port`, or `*.host` for every host below.
//!
//! Names only. An address says nothing about whom it belongs to, so there is none in the grammar.

use std::fmt;
use std::str::FromStr;

use crate::capability::Capability;
use crate::error::Failure;
use crate::json::shorten;

/// A host, or all hosts below a name, on one port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPattern {
    /// Lower-case labels, without the wildcard.
    name: String,
    below: bool,
    port: Option<u16>,
}

impl HostPattern {
    const MAX_NAME: usize = 253;
    const MAX_LABEL: usize = 63;
    const HTTPS: u16 = 443;
    const HTTP: u16 = 80;

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(Self::HTTPS)
    }

    /// What reaching it takes: the port says which protocol is meant.
    pub fn capability(&self) -> Capability {
        match self.port() {
            Self::HTTPS => Capability::NetworkHttps,
            Self::HTTP => Capability::NetworkHttp,
            _ => Capability::NetworkTcp,
        }
    }

    /// As grants name it: a port only where the capability does not imply it.
    pub fn resource(&self) -> String {
        let host = HostPattern { port: None, ..self.clone() };
        match self.capability() {
            Capability::NetworkTcp => format!("{host}:{}", self.port()),
            _ => host.to_string(),
        }
    }

    /// The same with its port spelled out: readers may differ in what no port means to them.
    pub fn with_port(&self) -> String {
        HostPattern { port: Some(self.port()), ..self.clone() }.to_string()
    }
}

impl FromStr for HostPattern {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(parse_port(port).ok_or_else(|| invalid(text))?)),
            None => (text, None),
        };
        let (below, name) = match host.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, host),
        };
        // All of a top-level domain is nobody's to ask for.
        let wide = below && !name.contains('.');
        if wide || !is_name(name) {
            return Err(invalid(text));
        }
        Ok(HostPattern { name: name.to_owned(), below, port })
    }
}

fn parse_port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

fn is_name(name: &str) -> bool {
    // A last label of digits would be an address.
    let last = name.rsplit('.').next().unwrap_or_default();
    name.len() <= HostPattern::MAX_NAME
        && name.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_label(label: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=HostPattern::MAX_LABEL).contains(&label.len())
        && label.bytes().all(allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn invalid(text: &str) -> Failure {
    let message = format!("`{}` is not a host", shorten(text, 80));
    Failure::validation("HOST_INVALID", message).hint(
        "write a name in lower case, such as api.example.org, api.example.org:8443 or \
         *.example.org; addresses are not names",
    )
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wildcard = if self.below { "*." } else { "" };
        write!(f, "{wildcard}{}", self.name)?;
        self.port.iter().try_for_each(|port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_spelled_in_one_way() {
        for good in ["a", "api.example.org", "xn--e1afmkfd.org", "a.b:8080", "*.example.org:443"] {
            assert_eq!(good.parse::<HostPattern>().unwrap().to_string(), good);
        }
        let long = "a".repeat(64);
        for bad in [
            "",
            ".",
            "a.",
            ".a",
            "A.org",
            "-a",
            "a-",
            "a_b",
            "a b",
            "*",
            "*.org",
            "a.*.org",
            "**.a.b",
            "a:",
            "a:0",
            "a:080",
            "a:65536",
            "a:+1",
            "a:1:2",
            "127.0.0.1",
            "1.2",
            "[::1]",
            "::1",
            "http://a",
            "a/b",
            "é.org",
            &long,
        ] {
            assert_eq!(bad.parse::<HostPattern>().unwrap_err().code, "HOST_INVALID", "{bad}");
        }
    }

    #[test]
    fn the_port_says_what_it_takes() {
        let of = |text: &str| {
            let host: HostPattern = text.parse().unwrap();
            (host.capability(), host.resource())
        };
        assert_eq!(of("a.org"), (Capability::NetworkHttps, "a.org".to_owned()));
        assert_eq!(of("a.org:443"), (Capability::NetworkHttps, "a.org".to_owned()));
        assert_eq!(of("*.a.org:80"), (Capability::NetworkHttp, "*.a.org".to_owned()));
        assert_eq!("*.a.org".parse::<HostPattern>().unwrap().with_port(), "*.a.org:443");
        assert_eq!(of("a.org:5432"), (Capability::NetworkTcp, "a.org:5432".to_owned()));
    }
}
