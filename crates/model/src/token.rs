//! The text that proves who somebody is: shown once, stored nowhere.
//!
//! `csk_`, 32 hexadecimal digits of the key's id, `_`, the secret as 43 characters of base64url,
//! `_`, and a checksum of 6 hexadecimal digits over all before it. The checksum keeps no secret: it
//! tells a slip of the hand from a key that this home never made.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::SigningKey;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;
use zeroize::Zeroizing;

use crate::digest::Digest;
use crate::error::Failure;
use crate::id::KeyId;
use crate::key::{KeyRecord, PublicKey};

const PREFIX: &str = "csk_";
const LENGTH: usize = PREFIX.len() + 32 + 1 + 43 + 1 + CHECKSUM;
const CHECKSUM: usize = 6;

/// Each keeps one use of the secret apart from every other.
const HASH_DOMAIN: &[u8] = b"countersign-key-v1\n";
const SIGN_DOMAIN: &[u8] = b"countersign-operator-v1\n";
const CHECKSUM_DOMAIN: &[u8] = b"countersign-key-checksum-v1\n";

/// A key with its secret. It has no `Display` and its `Debug` shows the id only, so that it cannot
/// slip into a log; memory is wiped when it is dropped.
pub struct Token {
    id: KeyId,
    secret: Zeroizing<[u8; 32]>,
}

impl Token {
    /// `secret` must be random.
    pub fn new(id: KeyId, secret: [u8; 32]) -> Self {
        Token { id, secret: Zeroizing::new(secret) }
    }

    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The whole text, for the one moment in which it is handed out.
    pub fn reveal(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(*self.secret));
        let body = format!("{PREFIX}{}_{}", self.id.as_uuid().simple(), *secret);
        let body = Zeroizing::new(body);
        Zeroizing::new(format!("{}_{}", *body, checksum(&body)))
    }

    /// What the home keeps instead of the secret.
    pub fn hash(&self) -> Digest {
        Digest::of_parts(&[HASH_DOMAIN, &*self.secret])
    }

    /// Signs for the holder. Made from the secret, so nobody else has it, the home included.
    pub fn signing_key(&self) -> SigningKey {
        let seed = Digest::of_parts(&[SIGN_DOMAIN, &*self.secret]);
        SigningKey::from_bytes(&Zeroizing::new(seed.into_bytes()))
    }

    pub fn verifier(&self) -> PublicKey {
        PublicKey::from(&self.signing_key().verifying_key())
    }

    /// Whether this is the key of the record. The time it takes says nothing about the secret.
    pub fn matches(&self, record: &KeyRecord) -> bool {
        let same = self.hash().as_bytes().ct_eq(record.hash.as_bytes());
        self.id == record.id && bool::from(same)
    }

    fn parse(text: &str) -> Option<Token> {
        let rest = text.strip_prefix(PREFIX)?;
        let id = Uuid::try_parse(rest.get(..32)?).ok()?;
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.decode(rest.get(33..76)?).ok()?);
        let token = Token::new(KeyId::from_uuid(id), secret.as_slice().try_into().ok()?);
        // A key has one spelling only.
        (*token.reveal() == text).then_some(token)
    }
}

fn checksum(body: &str) -> String {
    let mut digest = Digest::of_parts(&[CHECKSUM_DOMAIN, body.as_bytes()]).to_string();
    digest.truncate(CHECKSUM);
    digest
}

impl FromStr for Token {
    type Err = Failure;

    /// No error repeats the text: it may be a key with one letter wrong.
    fn from_str(text: &str) -> Result<Self, Failure> {
        let cut = text.len().checked_sub(CHECKSUM + 1).filter(|_| text.len() == LENGTH);
        let Some((body, sum)) = cut.and_then(|cut| text.split_at_checked(cut)) else {
            return Err(invalid("this is not a key: a key has 87 characters and begins with csk_"));
        };
        if sum.strip_prefix('_') != Some(&checksum(body)) {
            return Err(invalid("this key is mistyped or damaged: its checksum does not fit"));
        }
        Token::parse(text).ok_or_else(|| invalid("this is not a key of Countersign"))
    }
}

fn invalid(message: &str) -> Failure {
    Failure::authorization("KEY_INVALID", message)
        .hint("copy the whole key again, or make a new one with `countersign key create`")
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "csk_019a7c3e00007000800000000000000a_BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc_9f0820";

    fn token() -> Token {
        Token::new("019a7c3e-0000-7000-8000-00000000000a".parse().unwrap(), [7; 32])
    }

    /// If these literals change, every key ever handed out stops working.
    #[test]
    fn the_spelling_and_the_hash_are_pinned() {
        let token = token();
        assert_eq!(*token.reveal(), TEXT);
        assert_eq!(TEXT.len(), LENGTH);
        assert_eq!(
            token.hash().to_string(),
            "0599fe2d66681a4c3af8d80dd9ee2c41d07a7a23ff2c06e8a42f55c1ed1d05cb"
        );
        assert_eq!(
            token.verifier().to_string(),
            "f671bb325cd77f2baf1b4a6c39c0734d7ae8e20568a9bd69576abd6b882183e3"
        );
        let again: Token = TEXT.parse().unwrap();
        assert_eq!((again.id(), again.hash()), (token.id(), token.hash()));
    }

    /// Whatever letter is wrong, the checksum sees it, and the error keeps the secret.
    #[test]
    fn every_slip_is_noticed_and_not_repeated() {
        for at in 0..LENGTH {
            for other in [b'x', b'0', b'_', b'A'] {
                let mut bytes = TEXT.as_bytes().to_vec();
                if bytes[at] == other {
                    continue;
                }
                bytes[at] = other;
                let failure = String::from_utf8(bytes).unwrap().parse::<Token>().unwrap_err();
                assert_eq!(failure.code, "KEY_INVALID");
                assert!(!format!("{failure:?}").contains("BwcHBw"), "{failure:?}");
            }
        }
        for bad in ["", "csk_", &TEXT[1..], &TEXT[..80], &format!("{TEXT} "), &"é".repeat(44)] {
            assert_eq!(bad.parse::<Token>().unwrap_err().code, "KEY_INVALID");
        }
    }

    #[test]
    fn another_spelling_of_the_same_bytes_is_no_key() {
        let last = TEXT.split_at(80).0.replace("Bwc", "Bwd");
        let capital = TEXT.split_at(80).0.replace("7c3e", "7C3E");
        for body in [last, capital] {
            let text = format!("{body}_{}", checksum(&body));
            assert_eq!(text.parse::<Token>().unwrap_err().code, "KEY_INVALID", "{text}");
        }
    }

    #[test]
    fn a_token_does_not_show_its_secret() {
        assert_eq!(format!("{:?}", token()), "Token(019a7c3e-0000-7000-8000-00000000000a)");
    }
}
