//! What is sent, and how a receiver knows that we sent it.

use countersign_model::{Digest, Timestamp};
use ring::hmac;
use serde_json::{Map, Value, json};

use crate::trace::hex;

/// How the MAC is written. Older receivers want it bare, newer ones with its algorithm before it:
/// the one header on which the two disagree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SignatureForm {
    #[default]
    Bare,
    Prefixed,
}

/// HMAC-SHA256 over `{seconds}.{body}`, in hexadecimal digits.
pub fn signature(secret: &str, seconds: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let message = [seconds.to_string().as_bytes(), b".", body].concat();
    hex(hmac::sign(&key, &message).as_ref())
}

/// Names a secret without giving it away.
pub fn fingerprint(secret: &str) -> String {
    let mut digest = Digest::of(secret.as_bytes()).to_string();
    digest.truncate(8);
    digest
}

/// The headers of both spellings.
pub fn headers(
    id: &str,
    kind: &str,
    secret: &str,
    now: Timestamp,
    body: &[u8],
    form: SignatureForm,
) -> Vec<(&'static str, String)> {
    let seconds = now.as_millis().div_euclid(1000);
    let mac = signature(secret, seconds, body);
    let mac = match form {
        SignatureForm::Bare => mac,
        SignatureForm::Prefixed => format!("sha256={mac}"),
    };
    vec![
        ("x-openwop-subscription-id", id.to_owned()),
        ("x-openwop-webhook-id", id.to_owned()),
        ("x-openwop-event-type", kind.to_owned()),
        ("x-openwop-signature-timestamp", seconds.to_string()),
        ("x-openwop-timestamp", seconds.to_string()),
        ("x-openwop-signature-algorithm", "v1".to_owned()),
        ("x-openwop-signature", mac),
    ]
}

/// What stands beside an event that nobody has a secret for.
pub fn unsigned(kind: &str, now: Timestamp) -> Vec<(&'static str, String)> {
    let seconds = now.as_millis().div_euclid(1000);
    vec![("x-openwop-event-type", kind.to_owned()), ("x-openwop-timestamp", seconds.to_string())]
}

/// An event as receivers get it: its members at the top, and once more inside `event`.
pub fn body(event: &Value, workspace: &str) -> Vec<u8> {
    let mut top: Map<String, Value> = event.as_object().cloned().unwrap_or_default();
    top.insert("event".to_owned(), event.clone());
    top.insert("workspaceId".to_owned(), json!(workspace));
    Value::Object(top).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with `printf '1700000000.{}' | openssl dgst -sha256 -hmac secret-of-16-byte`.
    #[test]
    fn the_mac_is_that_of_others() {
        assert_eq!(
            signature("secret-of-16-byte", 1_700_000_000, b"{}"),
            "555aaf381e18e42605528dff30cfe6b41a7db173cecaff828dbfc7fda46eb260"
        );
    }

    #[test]
    fn both_sets_of_headers_are_sent() {
        let now = Timestamp::from_millis(1_700_000_000_999);
        let of = |form| headers("wh-1", "run.completed", "s", now, b"{}", form);
        let get = |headers: &[(&str, String)], name: &str| {
            headers.iter().find(|(n, _)| *n == name).unwrap().1.clone()
        };
        let (bare, prefixed) = (of(SignatureForm::Bare), of(SignatureForm::Prefixed));
        assert_eq!(get(&bare, "x-openwop-timestamp"), "1700000000");
        assert_eq!(get(&bare, "x-openwop-signature-timestamp"), "1700000000");
        assert_eq!(
            get(&prefixed, "x-openwop-signature"),
            format!("sha256={}", get(&bare, "x-openwop-signature"))
        );
        assert_eq!(get(&bare, "x-openwop-webhook-id"), get(&bare, "x-openwop-subscription-id"));
    }

    #[test]
    fn a_body_reads_in_both_ways() {
        let event = json!({"type": "run.completed", "runId": "run-1", "payload": {}});
        let sent: Value = serde_json::from_slice(&body(&event, "default")).unwrap();
        assert_eq!((&sent["type"], &sent["event"]), (&json!("run.completed"), &event));
        assert_eq!(sent["workspaceId"], "default");
    }
}
