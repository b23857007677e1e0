//! The envelope: bytes, what kind of bytes they are, and a signature over both.
//!
//! The journal's key signs checkpoints too. The two cannot be taken for each other: what is signed
//! here begins with `DSSEv1 `, a checkpoint with the name of its key, which has no space.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::checkpoint::{NoteSigner, VerifierKey};

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// Unknown fields are refused: nobody would have signed them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Envelope {
    pub(super) payload: Bytes,
    payload_type: String,
    signatures: [Signed; 1],
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: String,
    sig: Bytes,
}

/// Why an envelope is not what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unsigned {
    OtherType,
    OtherKey,
    Forged,
}

impl Envelope {
    pub(super) fn seal(payload: Vec<u8>, signer: &NoteSigner) -> Self {
        let sig = signer.signing_key().sign(&pae(PAYLOAD_TYPE, &payload)).to_bytes();
        let signed = Signed { keyid: signer.verifier().id(), sig: Bytes(sig.to_vec()) };
        Envelope {
            payload: Bytes(payload),
            payload_type: PAYLOAD_TYPE.to_owned(),
            signatures: [signed],
        }
    }

    pub(super) fn check(&self, key: &VerifierKey) -> Result<(), Unsigned> {
        let [signed] = &self.signatures;
        if self.payload_type != PAYLOAD_TYPE {
            return Err(Unsigned::OtherType);
        }
        // A hint and no more, but a false one would be a lie in the file.
        if signed.keyid != key.id() {
            return Err(Unsigned::OtherKey);
        }
        let signature = Signature::from_slice(&signed.sig.0).map_err(|_| Unsigned::Forged)?;
        let message = pae(&self.payload_type, &self.payload.0);
        let genuine = key.verifying_key().verify_strict(&message, &signature);
        genuine.map_err(|_| Unsigned::Forged)
    }
}

/// DSSE's pre-authentication encoding: nothing can slip from one part into the other.
fn pae(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let (kind, length) = (payload_type.len(), payload.len());
    let head = format!("DSSEv1 {kind} {payload_type} {length} ");
    [head.as_bytes(), payload].concat()
}

/// Bytes, written as base64 in its one spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64.decode(text).map(Bytes).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the DSSE protocol's own document.
    #[test]
    fn the_encoding_is_that_of_the_standard() {
        let encoded = pae("http://example.com/HelloWorld", b"hello world");
        assert_eq!(encoded, b"DSSEv1 29 http://example.com/HelloWorld 11 hello world");
    }
}
