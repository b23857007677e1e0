//! Exported journals and proofs: any bytes verify or are refused, and nothing verifies that the
//! key did not sign.
#![no_main]

use countersign_fuzz::{Original, key, write_seeds};
use countersign_journal::export;
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: write_seeds(), |data: &[u8]| {
    if let Ok(verified) = export::verify(&mut &*data, &key(), &[]) {
        Original::get().assert_honest(data, &verified);
    }
});
