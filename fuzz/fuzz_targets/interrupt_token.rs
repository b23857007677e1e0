//! Interrupt tokens: whatever is not a token of ours is refused, also one with a byte changed.
//!
//! The first line is a token as a stranger would write it; the rest says where a genuine one is
//! changed.
#![no_main]

use countersign_model::Timestamp;
use countersign_server::token::{Claims, Intent, Signer};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (signer, now) = (Signer::new(&[7; 32]), Timestamp::from_millis(0));
    let cut = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (text, changes) = data.split_at(cut);
    if let Ok(text) = std::str::from_utf8(text) {
        assert!(signer.check(text, now, Intent::Inspect).is_err(), "a stranger's token is good");
    }
    let claims = Claims {
        expires_at: Timestamp::from_millis(1),
        intent: Intent::Resolve,
        interrupt_id: "i".to_owned(),
        node_id: "n".to_owned(),
        run_id: String::from_utf8_lossy(text).into_owned(),
    };
    let genuine = signer.sign(&claims);
    let fits = signer.check(&genuine, now, Intent::Resolve);
    // Only a run whose name is absurdly long has a token that nobody takes.
    assert!(fits.as_ref() == Ok(&claims) || genuine.len() > 4096);
    let mut changed = genuine.clone().into_bytes();
    for pair in changes.chunks_exact(2) {
        let place = usize::from(pair[0]) % changed.len();
        changed[place] ^= pair[1];
    }
    if let Ok(changed) = String::from_utf8(changed) {
        let judged = signer.check(&changed, now, Intent::Resolve);
        assert!(judged.is_err() || changed == genuine, "a changed token is good");
    }
});
