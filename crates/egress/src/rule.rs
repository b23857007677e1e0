//! Which hosts a sandbox may reach, as the operator writes it.

use std::fmt;
use std::str::FromStr;

use countersign_model::Failure;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::host::{Host, authority, shown};

/// `api.example.org`, `db.example.org:5432`, `*.example.org`, `192.0.2.1:443`, `[2001:db8::1]`.
///
/// Without a port it means 443 for TLS and 80 for HTTP. A `*.` stands for one or more labels, so it
/// never means the name below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HostRule {
    host: Host,
    /// What is below the host, not the host itself.
    below: bool,
    port: Option<u16>,
}

/// What a rule without a port allows.
pub(crate) const DEFAULT_PORTS: [u16; 2] = [443, 80];

impl HostRule {
    pub(crate) fn names(&self, host: &Host) -> bool {
        match (host, &self.host) {
            (Host::Name(name), Host::Name(apex)) if self.below => is_below(name, apex),
            (host, own) => !self.below && host == own,
        }
    }

    pub(crate) fn allows_port(&self, port: u16) -> bool {
        self.port.map_or_else(|| DEFAULT_PORTS.contains(&port), |own| own == port)
    }
}

fn is_below(name: &str, apex: &str) -> bool {
    name.strip_suffix(apex).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

impl FromStr for HostRule {
    type Err = Failure;

    fn from_str(text: &str) -> Result<HostRule, Failure> {
        let rest = text.strip_prefix("*.");
        let below = rest.is_some();
        let (host, port) = authority(rest.unwrap_or(text))
            .map_err(|failure| invalid(text, failure.message.as_str()))?;
        if below && matches!(host, Host::Address(_)) {
            return Err(invalid(text, "nothing is below an address"));
        }
        Ok(HostRule { host, below, port })
    }
}

fn invalid(text: &str, why: &str) -> Failure {
    Failure::validation("HOST_RULE_INVALID", format!("the host rule `{}`: {why}", shown(text)))
        .hint("write api.example.org, db.example.org:5432, *.example.org or [2001:db8::1]:443")
}

impl fmt::Display for HostRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.below { "*." } else { "" };
        write!(f, "{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl Serialize for HostRule {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HostRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(rule: &str, host: &str) -> bool {
        rule.parse::<HostRule>().unwrap().names(&Host::parse(host).unwrap())
    }

    #[test]
    fn a_wildcard_is_below_and_never_the_apex() {
        assert!(names("*.example.com", "a.example.com"));
        assert!(names("*.example.com", "A.b.Example.com."));
        for other in ["example.com", "aexample.com", "a.example.com.evil.org", "a.example.co"] {
            assert!(!names("*.example.com", other), "{other}");
        }
    }

    #[test]
    fn exact_rules_are_exact() {
        assert!(names("Example.com.", "example.com"));
        assert!(!names("example.com", "a.example.com"));
        assert!(names("192.0.2.1", "192.0.2.1"));
        assert!(!names("192.0.2.1", "[::ffff:192.0.2.1]"));
    }

    #[test]
    fn ports_are_the_usual_two_or_the_named_one() {
        let ports = |rule: &str| {
            let rule: HostRule = rule.parse().unwrap();
            [80, 443, 8080].map(|port| rule.allows_port(port))
        };
        assert_eq!(ports("a.com"), [true, true, false]);
        assert_eq!(ports("a.com:8080"), [false, false, true]);
        assert_eq!(ports("*.a.com:443"), [false, true, false]);
    }

    #[test]
    fn rules_are_read_and_written() {
        for rule in ["a.com", "a.com:8080", "*.a.com", "*.a.com:1", "1.2.3.4", "[::1]:443"] {
            assert_eq!(rule.parse::<HostRule>().unwrap().to_string(), rule);
        }
        for bad in [
            "",
            "*",
            "*.",
            "*.*.com",
            "a.*.com",
            "**.com",
            "*a.com",
            "a.com:0",
            "a.com:x",
            "*.1.2.3.4",
            "*.[::1]",
            "::1",
            "https://a.com",
            "a.com/x",
            "2130706433",
            "bücher.de",
        ] {
            let failure = bad.parse::<HostRule>().unwrap_err();
            assert_eq!(failure.code, "HOST_RULE_INVALID", "{bad}");
            assert!(failure.hint.is_some());
        }
    }
}
