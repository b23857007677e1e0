//! Grants as JSON: never a panic, never genuine without the key, the same after a round trip.
#![no_main]

use countersign_fuzz::{key, signer};
use countersign_model::Grant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(grant) = serde_json::from_slice::<Grant>(data) else { return };
    let written = serde_json::to_vec(&grant).unwrap();
    assert_eq!(serde_json::from_slice::<Grant>(&written).unwrap(), grant);
    if grant.verify(key().verifying_key()).is_ok() {
        // Signing is deterministic, so a genuine grant is exactly what the key would sign.
        assert_eq!(Grant::sign(grant.body.clone(), signer().signing_key()).unwrap(), grant);
    }
    for resource in ["/srv/app/a.txt", "/", "counters/a"] {
        grant.body.scope.contains(resource);
    }
});
