//! Tokens that let somebody answer one interrupt without a key of their own.
//!
//! `base64url(JSON) . base64url(HMAC-SHA256)`. The JSON says which interrupt, until when and for
//! what; the MAC is over its encoded form, so there is nothing to read before it was checked.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use countersign_model::Timestamp;
use ring::hmac;
use serde::{Deserialize, Serialize};

/// What the holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Answer, and see what is asked.
    Resolve,
    /// Only see.
    Inspect,
}

impl Intent {
    pub fn allows(self, wanted: Intent) -> bool {
        self == Intent::Resolve || wanted == Intent::Inspect
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claims {
    /// Milliseconds since the Unix epoch.
    pub expires_at: Timestamp,
    pub intent: Intent,
    pub interrupt_id: String,
    pub node_id: String,
    pub run_id: String,
}

/// Why a token is of no use. The first two look alike from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Useless {
    Malformed,
    Forged,
    Expired,
    WrongIntent,
}

/// How long a token lasts unless the interrupt ends before.
pub const LIFETIME_MILLIS: i64 = 30 * 60 * 1000;

/// No genuine token is longer.
const MAX_LENGTH: usize = 4096;

/// Keeps these MACs apart from every other use of the same key.
const DOMAIN: &[u8] = b"countersign-interrupt-token-v1\n";

/// Makes and checks tokens.
#[derive(Debug)]
pub struct Signer(hmac::Key);

impl Signer {
    /// `secret` must be random and stay with the host.
    pub fn new(secret: &[u8; 32]) -> Signer {
        Signer(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// When a token made now ends: never after its interrupt.
    pub fn expiry(now: Timestamp, deadline: Option<Timestamp>) -> Timestamp {
        let usual = now.plus_millis(LIFETIME_MILLIS);
        deadline.map_or(usual, |deadline| deadline.min(usual))
    }

    pub fn sign(&self, claims: &Claims) -> String {
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims).unwrap_or_default());
        let mac = self.mac(&body);
        format!("{body}.{}", URL_SAFE_NO_PAD.encode(mac.as_ref()))
    }

    /// What a token says, if this host made it, it is still good, and it is for this.
    pub fn check(&self, token: &str, now: Timestamp, wanted: Intent) -> Result<Claims, Useless> {
        let (body, mac) = split(token).ok_or(Useless::Malformed)?;
        let message = [DOMAIN, body.as_bytes()].concat();
        // Compares in constant time.
        hmac::verify(&self.0, &message, &mac).map_err(|_| Useless::Forged)?;
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| Useless::Malformed)?;
        let claims: Claims = serde_json::from_slice(&json).map_err(|_| Useless::Malformed)?;
        match claims.expires_at <= now {
            true => Err(Useless::Expired),
            false if !claims.intent.allows(wanted) => Err(Useless::WrongIntent),
            false => Ok(claims),
        }
    }

    fn mac(&self, body: &str) -> hmac::Tag {
        hmac::sign(&self.0, &[DOMAIN, body.as_bytes()].concat())
    }
}

/// A token has one spelling only: base64url without padding, decoded strictly.
fn split(token: &str) -> Option<(&str, Vec<u8>)> {
    let (body, mac) = Some(token).filter(|token| token.len() <= MAX_LENGTH)?.split_once('.')?;
    let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
    (mac.len() == 32 && !body.is_empty()).then_some((body, mac))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signer() -> Signer {
        Signer::new(&[7; 32])
    }

    fn claims(expires_at: i64, intent: Intent) -> Claims {
        Claims {
            expires_at: Timestamp::from_millis(expires_at),
            intent,
            interrupt_id: "int-1".to_owned(),
            node_id: "gate".to_owned(),
            run_id: "run-019a7c3e".to_owned(),
        }
    }

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_token_is_good_until_it_ends_and_for_what_it_says() {
        let (signer, claims) = (signer(), claims(1000, Intent::Inspect));
        let token = signer.sign(&claims);
        assert_eq!(signer.check(&token, at(999), Intent::Inspect), Ok(claims));
        assert_eq!(signer.check(&token, at(999), Intent::Resolve), Err(Useless::WrongIntent));
        assert_eq!(signer.check(&token, at(1000), Intent::Inspect), Err(Useless::Expired));
        let other = Signer::new(&[8; 32]);
        assert_eq!(other.check(&token, at(0), Intent::Inspect), Err(Useless::Forged));
    }

    #[test]
    fn a_token_never_outlives_its_interrupt() {
        assert_eq!(Signer::expiry(at(5), Some(at(10))), at(10));
        assert_eq!(Signer::expiry(at(5), Some(at(i64::MAX))), at(5 + LIFETIME_MILLIS));
        assert_eq!(Signer::expiry(at(5), None), at(5 + LIFETIME_MILLIS));
    }

    #[test]
    fn nonsense_is_malformed() {
        for bad in ["", ".", "a", "a.b", "e30.", &format!(".{}", "A".repeat(43)), &"a".repeat(9000)]
        {
            assert_eq!(
                signer().check(bad, at(0), Intent::Inspect),
                Err(Useless::Malformed),
                "{bad}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_flipped_bit_is_refused(run in "[a-z0-9-]{1,40}", place in any::<prop::sample::Index>(), bit in 0..8u8) {
            let signer = signer();
            let claims = Claims { run_id: run, ..claims(1000, Intent::Resolve) };
            let mut bytes = signer.sign(&claims).into_bytes();
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            // What is no text cannot even be asked for.
            if let Ok(token) = String::from_utf8(bytes) {
                prop_assert!(signer.check(&token, at(0), Intent::Inspect).is_err());
            }
        }

        #[test]
        fn any_text_is_judged(text in "\\PC{0,200}") {
            prop_assert!(signer().check(&text, at(0), Intent::Inspect).is_err());
        }
    }
}
