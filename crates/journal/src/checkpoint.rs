//! Signed checkpoints: C2SP signed notes (Ed25519) over `origin`, tree size and root.
//!
//! The formats are public, so that a verifier needs nothing of ours:
//! a verifier key is `NAME+KEYID+BASE64(0x01 ‖ public key)`, where KEYID is the first four bytes of
//! SHA-256(NAME ‖ "\n" ‖ 0x01 ‖ public key) in hex; a note is the text, an empty line, and
//! `— NAME BASE64(KEYID ‖ signature)`.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_model::Digest;
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

const ED25519: u8 = 0x01;

/// What a checkpoint says: the journal called `origin` has `size` entries with this root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub origin: String,
    pub size: u64,
    pub root: Digest,
}

impl fmt::Display for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n{}", self.origin, self.size, BASE64.encode(self.root.as_bytes()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    #[error("the checkpoint is not a signed note")]
    Malformed,
    #[error("the checkpoint carries no signature by `{0}`")]
    OtherKey(String),
    #[error("the signature of the checkpoint is false")]
    Forged,
    #[error("`{0}` is not a verifier key; it looks like NAME+KEYID+BASE64")]
    BadKey(String),
}

/// Checks notes: the public half.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    key: VerifyingKey,
}

impl VerifierKey {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn verifying_key(&self) -> &VerifyingKey {
        &self.key
    }

    /// What tells this key from others, without the key itself: NAME+KEYID.
    pub fn id(&self) -> String {
        format!("{}+{:08x}", self.name, u32::from_be_bytes(self.key_id()))
    }

    fn key_id(&self) -> [u8; 4] {
        let public = self.key.to_bytes();
        let digest = Digest::of_parts(&[self.name.as_bytes(), b"\n", &[ED25519], &public]);
        let [a, b, c, d, ..] = *digest.as_bytes();
        [a, b, c, d]
    }

    /// The checkpoint inside a note that this key signed.
    pub fn open(&self, note: &str) -> Result<Checkpoint, CheckpointError> {
        let (text, signatures) = note.rsplit_once("\n\n").ok_or(CheckpointError::Malformed)?;
        let text = format!("{text}\n");
        let signature = self.find_signature(signatures)?;
        self.key.verify_strict(text.as_bytes(), &signature).map_err(|_| CheckpointError::Forged)?;
        parse_text(&text).filter(|c| c.origin == self.name).ok_or(CheckpointError::Malformed)
    }

    /// Others may have signed the note too: their lines are passed over, but must be lines.
    fn find_signature(&self, block: &str) -> Result<Signature, CheckpointError> {
        let lines = block.strip_suffix('\n').ok_or(CheckpointError::Malformed)?;
        let mut found = None;
        for line in lines.split('\n') {
            let (name, tagged) = parse_signature(line).ok_or(CheckpointError::Malformed)?;
            if name == self.name && found.is_none() {
                found = tagged.strip_prefix(&self.key_id()).map(Signature::from_slice);
            }
        }
        let found = found.ok_or_else(|| CheckpointError::OtherKey(self.name.clone()))?;
        found.map_err(|_| CheckpointError::Malformed)
    }
}

/// The name on a signature line, and the bytes behind it.
fn parse_signature(line: &str) -> Option<(&str, Vec<u8>)> {
    let (name, encoded) = line.strip_prefix("— ")?.split_once(' ')?;
    Some((name, BASE64.decode(encoded).ok()?))
}

fn parse_text(text: &str) -> Option<Checkpoint> {
    let mut lines = text.strip_suffix('\n')?.split('\n');
    let origin = lines.next().filter(|origin| !origin.is_empty())?.to_owned();
    let size_text = lines.next()?;
    let size: u64 = size_text.parse().ok()?;
    let root: [u8; 32] = BASE64.decode(lines.next()?).ok()?.try_into().ok()?;
    let canonical = size.to_string() == size_text && lines.next().is_none();
    canonical.then_some(Checkpoint { origin, size, root: Digest::from_bytes(root) })
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.id(), encode_key(self.key.as_bytes()))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifierKey({self})")
    }
}

fn encode_key(bytes: &[u8; 32]) -> String {
    let mut tagged = vec![ED25519];
    tagged.extend_from_slice(bytes);
    BASE64.encode(tagged)
}

fn decode_key(text: &str) -> Option<[u8; 32]> {
    match BASE64.decode(text).ok()?.split_first()? {
        (&ED25519, key) => key.try_into().ok(),
        _ => None,
    }
}

impl FromStr for VerifierKey {
    type Err = CheckpointError;

    fn from_str(text: &str) -> Result<Self, CheckpointError> {
        let bad = || CheckpointError::BadKey(text.to_owned());
        let mut parts = text.trim().splitn(3, '+');
        let (name, id, key) = match (parts.next(), parts.next(), parts.next()) {
            (Some(name), Some(id), Some(key)) if !name.is_empty() => (name, id, key),
            _ => return Err(bad()),
        };
        let key = VerifyingKey::from_bytes(&decode_key(key).ok_or_else(bad)?).map_err(|_| bad())?;
        let verifier = VerifierKey { name: name.to_owned(), key };
        let expected = format!("{:08x}", u32::from_be_bytes(verifier.key_id()));
        if id == expected { Ok(verifier) } else { Err(bad()) }
    }
}

/// Signs notes: the private half.
#[derive(Clone)]
pub struct NoteSigner {
    verifier: VerifierKey,
    key: SigningKey,
}

impl NoteSigner {
    pub fn new(name: impl Into<String>, key: SigningKey) -> Self {
        let verifier = VerifierKey { name: name.into(), key: key.verifying_key() };
        NoteSigner { verifier, key }
    }

    pub fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    pub fn signing_key(&self) -> &SigningKey {
        &self.key
    }

    /// A checkpoint's origin is the signer's name.
    pub fn sign(&self, size: u64, root: Digest) -> String {
        let text = Checkpoint { origin: self.verifier.name.clone(), size, root }.to_string();
        let mut tagged = self.verifier.key_id().to_vec();
        tagged.extend_from_slice(&self.key.sign(text.as_bytes()).to_bytes());
        format!("{text}\n— {} {}\n", self.verifier.name, BASE64.encode(tagged))
    }

    /// The private key as one line of text.
    pub fn to_secret_text(&self) -> String {
        let id = u32::from_be_bytes(self.verifier.key_id());
        format!("PRIVATE+KEY+{}+{id:08x}+{}", self.verifier.name, encode_key(self.key.as_bytes()))
    }

    pub fn from_secret_text(text: &str) -> Option<Self> {
        let mut parts = text.trim().strip_prefix("PRIVATE+KEY+")?.splitn(3, '+');
        let (name, _id, key) = (parts.next()?, parts.next()?, parts.next()?);
        let signer = NoteSigner::new(name, SigningKey::from_bytes(&decode_key(key)?));
        (signer.to_secret_text() == text.trim()).then_some(signer)
    }
}

impl fmt::Debug for NoteSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoteSigner({})", self.verifier.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer() -> NoteSigner {
        NoteSigner::new("countersign/test", SigningKey::from_bytes(&[7; 32]))
    }

    #[test]
    fn a_checkpoint_opens_with_its_key_and_no_other() {
        let note = signer().sign(3, Digest::of(b"root"));
        let opened = signer().verifier().open(&note).unwrap();
        assert_eq!((opened.size, opened.root), (3, Digest::of(b"root")));

        let other = NoteSigner::new("countersign/test", SigningKey::from_bytes(&[8; 32]));
        assert!(matches!(other.verifier().open(&note), Err(CheckpointError::OtherKey(_))));
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let note = signer().sign(12345, Digest::of(b"root"));
        for at in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            assert!(signer().verifier().open(&text).is_err(), "byte {at}: {text}");
        }
    }

    #[test]
    fn keys_survive_being_written_down() {
        let text = signer().verifier().to_string();
        assert_eq!(text.parse::<VerifierKey>().unwrap(), *signer().verifier());
        assert!(text.replace("test", "tess").parse::<VerifierKey>().is_err());
        let again = NoteSigner::from_secret_text(&signer().to_secret_text()).unwrap();
        assert_eq!(again.verifier(), signer().verifier());
        assert!(NoteSigner::from_secret_text("PRIVATE+KEY+x").is_none());
    }
}
