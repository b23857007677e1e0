//! What is written down about a connection that was asked for.

use std::borrow::Cow;
use std::net::IpAddr;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

/// One connection, or one request, that a client asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attempt {
    pub protocol: Protocol,
    /// As it was understood, or as it was written when it could not be; empty when nothing was said.
    pub host: String,
    pub port: u16,
    /// The address that was connected to, or the one that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    pub verdict: Verdict,
    /// Bytes to the server.
    pub sent: u64,
    /// Bytes from the server.
    pub received: u64,
    pub millis: u64,
}

/// How the client asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Protocol {
    Connect,
    Http,
    Socks5,
    /// The client said nothing that could be understood.
    Unknown,
}

impl Protocol {
    pub fn as_str(self) -> &'static str {
        match self {
            Protocol::Connect => "connect",
            Protocol::Http => "http",
            Protocol::Socks5 => "socks5",
            Protocol::Unknown => "unknown",
        }
    }
}

/// Whether bytes of the client went to the server. `denied` with `sent` above zero means that the
/// connection was ended on the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", deny_unknown_fields)]
pub enum Verdict {
    Allowed,
    Denied { code: Cow<'static, str>, message: String },
}

impl Verdict {
    pub(crate) fn denied(failure: &Failure) -> Verdict {
        Verdict::Denied { code: failure.code.clone(), message: failure.message.clone() }
    }

    /// The code of a denial.
    pub fn code(&self) -> Option<&str> {
        match self {
            Verdict::Allowed => None,
            Verdict::Denied { code, .. } => Some(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_have_a_stable_form() {
        let mut attempt = Attempt {
            protocol: Protocol::Socks5,
            host: "a.com".to_owned(),
            port: 443,
            address: Some([192, 0, 2, 1].into()),
            verdict: Verdict::Allowed,
            sent: 1,
            received: 2,
            millis: 3,
        };
        let allowed = r#"{"protocol":"socks5","host":"a.com","port":443,"address":"192.0.2.1","verdict":{"kind":"allowed"},"sent":1,"received":2,"millis":3}"#;
        assert_eq!(serde_json::to_string(&attempt).unwrap(), allowed);
        attempt.verdict = Verdict::denied(&Failure::authorization("CODE", "why"));
        attempt.address = None;
        let denied = r#"{"protocol":"socks5","host":"a.com","port":443,"verdict":{"kind":"denied","code":"CODE","message":"why"},"sent":1,"received":2,"millis":3}"#;
        assert_eq!(serde_json::to_string(&attempt).unwrap(), denied);
        assert_eq!(serde_json::from_str::<Attempt>(denied).unwrap(), attempt);
    }
}
