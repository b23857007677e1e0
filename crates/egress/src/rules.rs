//! What a sandbox may do on the network, and the judgement that needs no network.

use std::time::Duration;

use countersign_model::Failure;

use crate::host::Target;
use crate::net::Net;
use crate::refusal;
use crate::rule::HostRule;

/// Everything that one proxy obeys. The default lets nothing out.
#[derive(Debug, Clone)]
pub struct Rules {
    pub hosts: Vec<HostRule>,
    /// The operator's exceptions from the table of forbidden addresses.
    pub private: Vec<Net>,
    /// Further ports where a tunnel has to carry TLS for the host it was opened to.
    pub tls_ports: Vec<u16>,
    /// Further ports where a tunnel has to carry one HTTP request for the host it was opened to.
    pub http_ports: Vec<u16>,
    /// Connections of clients at one time.
    pub max_connections: u32,
    /// Bytes to and from servers, all connections together.
    pub max_bytes: u64,
    /// After so many attempts the way out is closed, so that the record of them stays small.
    pub max_attempts: u32,
    pub timeouts: Timeouts,
}

/// How long the proxy waits for others.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For the whole of a request's head, a SOCKS greeting or a TLS hello.
    pub head: Duration,
    pub resolve: Duration,
    /// For all addresses of a name together.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            hosts: Vec::new(),
            private: Vec::new(),
            tls_ports: Vec::new(),
            http_ports: Vec::new(),
            max_connections: 64,
            max_bytes: 1 << 30,
            max_attempts: 10_000,
            timeouts: Timeouts::default(),
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            head: Duration::from_secs(10),
            resolve: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(120),
        }
    }
}

impl Rules {
    /// Whether some rule allows this host and port. Nothing has been resolved yet: what is denied
    /// here is never asked of a name server, which would hear of it.
    pub(crate) fn judge(&self, target: &Target) -> Result<(), Failure> {
        let mut naming = self.hosts.iter().filter(|rule| rule.names(&target.host)).peekable();
        if naming.peek().is_none() {
            return Err(refusal::host_not_allowed(&target.host));
        }
        if !naming.any(|rule| rule.allows_port(target.port)) {
            return Err(refusal::port_not_allowed(target));
        }
        Ok(())
    }

    pub(crate) fn traffic(&self, port: u16) -> Traffic {
        if TLS_PORTS.contains(&port) || self.tls_ports.contains(&port) {
            Traffic::Tls
        } else if port == 80 || self.http_ports.contains(&port) {
            Traffic::Http
        } else {
            Traffic::Raw
        }
    }
}

/// What has to be spoken on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Tls,
    Http,
    /// Ports that a rule names and that have no protocol we could hold anyone to.
    Raw,
}

/// Ports where TLS begins with the first byte, by the IANA registry. 8443 is no entry of its own
/// but means the same everywhere.
const TLS_PORTS: [u16; 14] =
    [443, 465, 563, 636, 853, 989, 990, 992, 993, 995, 5061, 5671, 8443, 8883];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_must_name_host_and_port() {
        let hosts =
            ["a.com", "b.com:5432", "*.c.com", "b.com:443"].map(|rule| rule.parse().unwrap());
        let rules = Rules { hosts: hosts.to_vec(), ..Rules::default() };
        let code = |text| {
            let target = Target::parse(text, None).unwrap();
            rules.judge(&target).map_err(|failure| failure.code.into_owned())
        };
        for allowed in ["a.com:80", "a.com:443", "b.com:5432", "b.com:443", "x.y.c.com:443"] {
            assert_eq!(code(allowed), Ok(()), "{allowed}");
        }
        for port in ["a.com:22", "b.com:80", "x.c.com:8080"] {
            assert_eq!(code(port).unwrap_err(), "PORT_NOT_ALLOWED", "{port}");
        }
        for host in ["c.com:443", "d.com:443", "127.0.0.1:80", "[::1]:443"] {
            assert_eq!(code(host).unwrap_err(), "HOST_NOT_ALLOWED", "{host}");
        }
        assert_eq!([80, 443, 8443, 8080, 22].map(|port| rules.traffic(port)), {
            use Traffic::{Http, Raw, Tls};
            [Http, Tls, Tls, Raw, Raw]
        });
        assert!(Rules::default().judge(&Target::parse("a.com:80", None).unwrap()).is_err());
    }
}
