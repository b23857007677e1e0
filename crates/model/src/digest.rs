//! SHA-256 digests and the canonical bytes they are taken over.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as 64 lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// What the first entry of a chain names as its predecessor.
    pub const ZERO: Digest = Digest([0; 32]);

    pub fn into_bytes(self) -> [u8; 32] {
        self.0
    }

    pub fn of(bytes: &[u8]) -> Self {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest of several byte strings, one after the other.
    pub fn of_parts(parts: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update(part);
        }
        Digest(hasher.finalize().into())
    }

    /// The digest of a value's canonical JSON.
    pub fn of_json<T: Serialize>(value: &T) -> Result<Self, CanonicalError> {
        Ok(Self::of(&canonical_json(value)?))
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Digest(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Digests are written several times in every call: no allocation, no formatting machinery.
    fn with_hex<T>(&self, write: impl FnOnce(&str) -> T) -> T {
        let mut hex = [0u8; 64];
        for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [hex_digit(byte >> 4), hex_digit(byte & 0xf)];
        }
        write(std::str::from_utf8(&hex).unwrap_or_default())
    }

    /// The first characters, enough for a person to recognise it again.
    pub fn short(&self) -> String {
        let mut text = self.to_string();
        text.truncate(12);
        text
    }
}

/// A digest in the making, for content that is not held in memory.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// The digest of everything that a reader has, however much that is.
    pub fn of_all(mut content: impl Read) -> io::Result<Digest> {
        let (mut hasher, mut chunk) = (Hasher::default(), vec![0; 64 << 10]);
        loop {
            match content.read(&mut chunk)? {
                0 => return Ok(hasher.finish()),
                read => hasher.update(chunk.get(..read).unwrap_or_default()),
            }
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

/// A value that has no canonical JSON, such as a map with keys that are not strings.
#[derive(Debug, thiserror::Error)]
#[error("the value has no canonical JSON: {0}")]
pub struct CanonicalError(#[from] serde_json::Error);

/// RFC 8785 canonical JSON. Every hash and every signature of the product is taken over these bytes.
pub fn canonical_json<T: Serialize>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    Ok(serde_json_canonicalizer::to_vec(value)?)
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with_hex(|hex| f.pad(hex))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 lowercase hexadecimal digits")]
pub struct DigestSyntax;

impl FromStr for Digest {
    type Err = DigestSyntax;

    fn from_str(text: &str) -> Result<Self, DigestSyntax> {
        let mut bytes = [0u8; 32];
        if text.len() != 64 {
            return Err(DigestSyntax);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = pair.iter().try_fold(0u8, |acc, &c| Ok((acc << 4) | nibble(c)?))?;
        }
        Ok(Digest(bytes))
    }
}

fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

fn nibble(c: u8) -> Result<u8, DigestSyntax> {
    match c {
        b'0'..=b'9' => Ok(c - b'0'),
        b'a'..=b'f' => Ok(c - b'a' + 10),
        _ => Err(DigestSyntax),
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with_hex(|hex| serializer.serialize_str(hex))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These literals pin the hash contract: if one changes, every journal ever written breaks.
    #[test]
    fn the_hash_contract_is_pinned() {
        assert_eq!(
            Digest::of(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let value = serde_json::json!({"b": 1.0, "a": ["é", true, null], "c": 1e21});
        assert_eq!(canonical_json(&value).unwrap(), br#"{"a":["#.iter().copied()
            .chain("\"é\",true,null],\"b\":1,\"c\":1e+21}".bytes()).collect::<Vec<_>>());
    }

    #[test]
    fn digests_round_trip_and_refuse_other_spellings() {
        let digest = Digest::of(b"x");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
        assert!(digest.to_string().to_uppercase().parse::<Digest>().is_err());
        assert!("00".parse::<Digest>().is_err());
        assert_eq!(Digest::of_parts(&[b"a", b"b"]), Digest::of(b"ab"));
    }

    #[test]
    fn what_is_read_in_pieces_has_the_same_digest() {
        let bytes = vec![7; (64 << 10) + 3];
        assert_eq!(Hasher::of_all(&bytes[..]).unwrap(), Digest::of(&bytes));
        assert_eq!(Hasher::of_all(&b""[..]).unwrap(), Digest::of(b""));
    }
}
