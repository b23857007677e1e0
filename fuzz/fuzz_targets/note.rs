//! Checkpoints and keys as text: never a panic, one spelling each, nothing opens unsigned.
#![no_main]

use countersign_fuzz::{Original, key};
use countersign_journal::{NoteSigner, VerifierKey};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<VerifierKey>() {
        assert_eq!(key.to_string(), text.trim());
        let _ = key.open(text);
    }
    if let Some(signer) = NoteSigner::from_secret_text(text) {
        assert_eq!(signer.to_secret_text(), text.trim());
    }
    if let Ok(checkpoint) = key().open(text) {
        let genuine = key().open(&Original::get().checkpoint).unwrap();
        assert_eq!(checkpoint.to_string(), genuine.to_string(), "a checkpoint nobody signed");
    }
});
