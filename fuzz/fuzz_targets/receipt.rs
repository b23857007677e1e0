//! Receipts: any bytes verify or are refused, and nothing verifies that the key did not sign.
#![no_main]

use countersign_fuzz::{Original, key};
use countersign_journal::receipt::verify;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

/// A genuine receipt with some bytes of its own, or bytes that stand for themselves.
#[derive(Debug, Arbitrary)]
enum Input {
    Edited(Vec<(u16, u8)>),
    Any(Vec<u8>),
    /// Signed by the home, so that what lies behind the signature is reached.
    Signed(Vec<(u16, u8)>),
}

fuzz_target!(|input: Input| {
    let original = &Original::get().receipt;
    let file = match input {
        Input::Edited(edits) => edited(original, &edits),
        Input::Any(bytes) => bytes,
        Input::Signed(edits) => {
            let _ = verify(&countersign_fuzz::seal(&edited(&original_payload(), &edits)), &key());
            return;
        }
    };
    let report = verify(&file, &key());
    if report.is_verified() {
        assert_eq!(countersign_fuzz::payload(&file), original_payload(), "a forged receipt");
    } else {
        assert!(file != *original, "a genuine receipt was refused: {:?}", report.problems);
    }
});

fn original_payload() -> Vec<u8> {
    countersign_fuzz::payload(&Original::get().receipt)
}

fn edited(bytes: &[u8], edits: &[(u16, u8)]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (place, byte) in edits.iter().take(8) {
        let at = usize::from(*place) % bytes.len();
        bytes[at] = *byte;
    }
    bytes
}
