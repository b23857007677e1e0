//! Registrations of webhooks: what is accepted leads out, and means the same when it is read again.
#![no_main]

use countersign_egress::{Host, closed};
use countersign_model::Timestamp;
use countersign_model::json::{JsonLimits, parse_strict};
use countersign_server::webhook::{Registration, Target, UrlPolicy};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let policy = UrlPolicy::default();
    let Ok(body) = parse_strict(data, &JsonLimits::default()) else { return };
    let Ok(registration) = Registration::parse(&body, policy) else { return };
    let target = &registration.target;
    let written = target.to_string();
    assert!(target.tls && written.bytes().all(|byte| (0x21..0x7f).contains(&byte)));
    assert_eq!(&Target::parse(&written, policy).expect("it is read again"), target);
    match &target.host {
        Host::Address(address) => assert!(closed(*address, &[]).is_none(), "{address} is inside"),
        Host::Name(name) => assert!(name.contains('.') && !name.ends_with(".localhost")),
    }
    assert!(registration.answer("wh-1", "secret", Timestamp::from_millis(0)).is_object());
});
