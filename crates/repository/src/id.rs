//! The names of objects: hashes of either kind that git knows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which hash names the objects of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "sha1" => Some(ObjectFormat::Sha1),
            "sha256" => Some(ObjectFormat::Sha256),
            _ => None,
        }
    }

    /// The id that stands for "nothing there" in comparisons of refs.
    pub fn zero(self) -> ObjectId {
        ObjectId { format: self, bytes: [0; 32] }
    }

    pub(crate) fn length(self) -> usize {
        match self {
            ObjectFormat::Sha1 => 20,
            ObjectFormat::Sha256 => 32,
        }
    }
}

/// The full id of a blob, tree, commit or tag, in lowercase hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    // Bytes beyond the length of the format are zero.
    bytes: [u8; 32],
    format: ObjectFormat,
}

impl ObjectId {
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.format.length()).unwrap_or_default()
    }

    /// Whether it stands for "nothing there".
    pub fn is_zero(&self) -> bool {
        self.bytes.iter().all(|byte| *byte == 0)
    }

    /// From the bytes of a hash; what is missing is zero.
    pub(crate) fn from_bytes(format: ObjectFormat, hash: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.iter_mut().zip(hash.iter().take(format.length())).for_each(|(to, from)| *to = *from);
        ObjectId { bytes, format }
    }

    pub(crate) fn from_hex(hex: &[u8]) -> Option<Self> {
        std::str::from_utf8(hex).ok()?.parse().ok()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectIdSyntax;

impl fmt::Display for ObjectIdSyntax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object id is 40 or 64 lowercase hexadecimal digits")
    }
}

impl std::error::Error for ObjectIdSyntax {}

impl FromStr for ObjectId {
    type Err = ObjectIdSyntax;

    fn from_str(text: &str) -> Result<Self, ObjectIdSyntax> {
        let format = match text.len() {
            40 => ObjectFormat::Sha1,
            64 => ObjectFormat::Sha256,
            _ => return Err(ObjectIdSyntax),
        };
        let mut bytes = [0u8; 32];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = pair.iter().try_fold(0u8, |acc, &c| Ok((acc << 4) | nibble(c)?))?;
        }
        Ok(ObjectId { bytes, format })
    }
}

fn nibble(c: u8) -> Result<u8, ObjectIdSyntax> {
    match c {
        b'0'..=b'9' => Ok(c - b'0'),
        b'a'..=b'f' => Ok(c - b'a' + 10),
        _ => Err(ObjectIdSyntax),
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ObjectId({self})")
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_both_formats_round_trip_and_other_spellings_are_refused() {
        for text in ["4b825dc642cb6eb9a060e54bf8d69288fbee4904", &"0f".repeat(32)] {
            let id: ObjectId = text.parse().unwrap();
            assert_eq!(id.to_string(), text);
            assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
            assert!(text.to_uppercase().parse::<ObjectId>().is_err());
            assert!(text[1..].parse::<ObjectId>().is_err());
        }
        assert!(ObjectFormat::Sha256.zero().is_zero());
        assert_eq!(ObjectFormat::Sha1.zero().to_string(), "0".repeat(40));
    }
}
