//! What has to be kept and must not lie open: sealed with a key that is made from the home's.

use std::fmt;

use countersign_model::Failure;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// Seals and opens. Whoever can read the home's keys can open what it sealed, and nobody else.
#[derive(Clone)]
pub struct Vault(Zeroizing<[u8; 32]>);

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Vault")
    }
}

impl Vault {
    pub fn new(secret: [u8; 32]) -> Vault {
        Vault(Zeroizing::new(secret))
    }

    fn key(&self) -> Option<LessSafeKey> {
        UnboundKey::new(&CHACHA20_POLY1305, self.0.as_slice()).ok().map(LessSafeKey::new)
    }

    /// `about` says what it is: sealed under another name it does not open.
    pub fn seal(&self, about: &str, plain: &[u8]) -> Result<Vec<u8>, Failure> {
        let failed = || Failure::state("SEAL_FAILED", "a value could not be sealed");
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(|_| failed())?;
        let mut sealed = plain.to_vec();
        let key = self.key().ok_or_else(failed)?;
        let (once, about) = (Nonce::assume_unique_for_key(nonce), Aad::from(about.as_bytes()));
        key.seal_in_place_append_tag(once, about, &mut sealed).map_err(|_| failed())?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Nothing if it was changed, or is about something else.
    pub fn open(&self, about: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = rest.to_vec();
        let (once, about) = (Nonce::assume_unique_for_key(*nonce), Aad::from(about.as_bytes()));
        let plain = self.key()?.open_in_place(once, about, &mut rest).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_name_open_it() {
        let vault = Vault::new([7; 32]);
        let sealed = vault.seal("a", b"secret").unwrap();
        assert_eq!(vault.open("a", &sealed).unwrap(), b"secret");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_ne!(vault.seal("a", b"secret").unwrap(), sealed, "never the same twice");
        assert_eq!(vault.open("b", &sealed), None);
        assert_eq!(Vault::new([8; 32]).open("a", &sealed), None);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(vault.open("a", &changed), None, "{at}");
            assert_eq!(vault.open("a", &sealed[..at]), None, "{at}");
        }
    }
}
