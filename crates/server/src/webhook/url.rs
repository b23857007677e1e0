//! Where webhooks may lead: out, never in.
//!
//! A URL is read once, strictly, by the rules for hosts that the egress proxy has; its addresses
//! are judged when it is registered and again at every delivery, and only a judged address is
//! connected to.

use std::fmt;
use std::net::IpAddr;

use axum::http::StatusCode;
use countersign_egress::{Host, Net, closed};
use serde_json::json;

use crate::error::Refusal;

/// What the embedding program lets webhooks reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UrlPolicy {
    /// For tests: private addresses and plain `http` too.
    pub allow_private: bool,
}

/// A URL that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub tls: bool,
    pub host: Host,
    pub port: u16,
    /// Path and query.
    pub path: String,
}

const MAX_URL: usize = 2048;

impl Target {
    /// Everything that can be said without asking a name server.
    pub fn parse(url: &str, policy: UrlPolicy) -> Result<Target, Refusal> {
        let visible = url.bytes().all(|b| (0x21..0x7f).contains(&b));
        if url.len() > MAX_URL || !visible || url.contains(['#', '\\']) {
            return Err(rejected("is not an absolute URL in plain ASCII, without a fragment"));
        }
        let (tls, rest) = scheme(url, policy)?;
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(cut).unwrap_or((rest, ""));
        let (host, port) = authority_of(authority, if tls { 443 } else { 80 })?;
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let target = Target { tls, host, port, path };
        target.judge_host(policy)?;
        Ok(target)
    }

    fn judge_host(&self, policy: UrlPolicy) -> Result<(), Refusal> {
        match &self.host {
            Host::Address(address) => self.judge(&[*address], policy),
            Host::Name(name) if !policy.allow_private && is_inside(name) => {
                Err(rejected("names this machine or its network"))
            }
            Host::Name(_) => Ok(()),
        }
    }

    /// Whether all of its addresses lead out. One bad address condemns the whole answer.
    pub fn judge(&self, addresses: &[IpAddr], policy: UrlPolicy) -> Result<(), Refusal> {
        if addresses.is_empty() {
            return Err(rejected("has no address"));
        }
        // The opt-in opens everything but what only wraps another address, or hands out
        // credentials of the machine.
        let opened: Vec<Net> = match policy.allow_private {
            true => ["0.0.0.0/0", "::/0"].iter().filter_map(|net| net.parse().ok()).collect(),
            false => Vec::new(),
        };
        match addresses.iter().find_map(|address| closed(*address, &opened)) {
            Some(what) => Err(rejected(&format!("leads to {what}"))),
            None => Ok(()),
        }
    }

    /// As the `Host` header has it.
    pub fn authority(&self) -> String {
        let usual = if self.tls { 443 } else { 80 };
        match self.port == usual {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

fn scheme(url: &str, policy: UrlPolicy) -> Result<(bool, &str), Refusal> {
    let (scheme, rest) = url.split_once("://").ok_or_else(|| rejected("has no scheme"))?;
    match scheme.to_ascii_lowercase().as_str() {
        "https" => Ok((true, rest)),
        "http" if policy.allow_private => Ok((false, rest)),
        _ => Err(rejected("has to begin with `https://`")),
    }
}

/// User names are refused with the host: an `@` is no character of one.
fn authority_of(text: &str, usual: u16) -> Result<(Host, u16), Refusal> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (text, None),
    };
    let host = Host::parse(host).map_err(|_| rejected("has no host that can be understood"))?;
    let Some(digits) = port else { return Ok((host, usual)) };
    let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
    let port = digits.parse::<u16>().ok().filter(|_| plain);
    Ok((host, port.ok_or_else(|| rejected("has no such port"))?))
}

/// Names that lead inside by what they are, whatever a name server says.
fn is_inside(name: &str) -> bool {
    let inside = ["localhost", "local", "internal", "localdomain", "home.arpa", "lan", "intranet"];
    let ends = |end: &str| name == end || name.ends_with(&format!(".{end}"));
    inside.iter().any(|end| ends(end)) || !name.contains('.')
}

fn rejected(why: &str) -> Refusal {
    let message = format!("the URL of a webhook {why}");
    Refusal::new(StatusCode::BAD_REQUEST, "webhook_url_rejected", message)
        .detail("reason", json!(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRICT: UrlPolicy = UrlPolicy { allow_private: false };
    const OPEN: UrlPolicy = UrlPolicy { allow_private: true };

    #[test]
    fn public_urls_are_understood() {
        let is = |url: &str, read: &str| {
            assert_eq!(Target::parse(url, STRICT).unwrap().to_string(), read, "{url}");
        };
        is("https://hooks.example.org/a/b?c=d", "https://hooks.example.org/a/b?c=d");
        is("HTTPS://Hooks.Example.org", "https://hooks.example.org/");
        is("https://hooks.example.org:8443?x", "https://hooks.example.org:8443/?x");
        is("https://93.184.216.34/", "https://93.184.216.34/");
        is("https://[2606:2800:220:1::1]/", "https://[2606:2800:220:1::1]/");
    }

    #[test]
    fn whatever_leads_inside_is_refused() {
        for bad in [
            "http://hooks.example.org/",
            "ftp://hooks.example.org/",
            "hooks.example.org",
            "",
            "https://",
            "https:///x",
            "//hooks.example.org/",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://0x7f000001/",
            "https://0177.0.0.1/",
            "https://0/",
            "https://0.0.0.0/",
            "https://10.0.0.1/",
            "https://172.16.9.9/",
            "https://192.168.1.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "https://[::1]/",
            "https://[::]/",
            "https://[fe80::1]/",
            "https://[fd00::1]/",
            "https://[fc00::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:7f00:1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[2002:7f00:1::]/",
            "https://[fd00:ec2::254]/",
            "https://224.0.0.1/",
            "https://255.255.255.255/",
            "https://localhost/",
            "https://LOCALHOST./",
            "https://a.localhost/",
            "https://metadata.google.internal/",
            "https://printer.local/",
            "https://intranet/",
            "https://user@hooks.example.org/",
            "https://hooks.example.org@127.0.0.1/",
            "https://hooks.example.org:0/",
            "https://hooks.example.org:99999/",
            "https://hooks.example.org:/",
            "https://hooks.example.org\\@127.0.0.1/",
            "https://hooks.example.org/#x",
            "https://hooks.example.org/a b",
            "https://hooks.example.org/\r\nX: y",
            "https://①②⑦.0.0.1/",
            "https://hooks.exa%6dple.org/",
            "https://[fe80::1%25eth0]/",
        ] {
            let refusal = Target::parse(bad, STRICT).unwrap_err();
            assert_eq!(
                (refusal.status.as_u16(), &*refusal.code),
                (400, "webhook_url_rejected"),
                "{bad}"
            );
        }
        assert!(Target::parse(&format!("https://a.example/{}", "x".repeat(3000)), STRICT).is_err());
    }

    #[test]
    fn the_opt_in_opens_private_places_but_not_credentials() {
        for good in
            ["http://127.0.0.1:9/x", "http://localhost:9/", "https://10.0.0.1/", "http://[::1]:9/"]
        {
            assert!(Target::parse(good, OPEN).is_ok(), "{good}");
        }
        for bad in ["http://169.254.169.254/", "http://[::ffff:127.0.0.1]/", "http://127.1/"] {
            assert!(Target::parse(bad, OPEN).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_bad_address_condemns_the_answer() {
        let target = Target::parse("https://hooks.example.org/", STRICT).unwrap();
        let (out, inside): (IpAddr, IpAddr) = ([93, 184, 216, 34].into(), [10, 0, 0, 1].into());
        assert!(target.judge(&[out], STRICT).is_ok());
        assert!(target.judge(&[out, inside], STRICT).is_err());
        assert!(target.judge(&[], STRICT).is_err());
    }
}
