//! Journal entries: what can be read seals to the same bytes, and the short way to canonical JSON
//! agrees with the long one.
#![no_main]

use countersign_journal::Entry;
use countersign_model::digest::canonical_json;
use countersign_model::{JsonLimits, parse_strict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // No host writes a whole number beyond 2^53: declarations refuse them, and nothing is measured
    // that large. Canonical JSON could not keep one, so there is nothing to hold it against.
    if parse_strict(data, &JsonLimits::default()).is_err() {
        return;
    }
    let Ok(entry) = Entry::parse(data) else { return };
    assert_eq!(entry.fact.to_canonical_json().unwrap(), canonical_json(&entry.fact).unwrap());
    let sealed = entry.seal().unwrap();
    assert_eq!(Entry::parse(&sealed.bytes).unwrap(), entry);
});
