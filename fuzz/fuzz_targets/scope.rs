//! Scopes: matching and inclusion end soon and agree with each other.
//!
//! The first line is a resource, the next ones one scope; after an empty line comes a second scope.
#![no_main]

use countersign_model::Scope;
use countersign_model::scope::{is_resource, pattern_for};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let mut lines = text.split('\n');
    let resource = lines.next().unwrap_or_default();
    let Ok(wide) = Scope::parse(lines.by_ref().take_while(|line| !line.is_empty())) else { return };
    let Ok(narrow) = Scope::parse(lines) else { return };
    for scope in [&wide, &narrow] {
        let written = serde_json::to_vec(scope).unwrap();
        assert_eq!(&serde_json::from_slice::<Scope>(&written).unwrap(), scope);
        assert!(!scope.contains(resource) || is_resource(resource));
    }
    if wide.covers(&narrow) && narrow.contains(resource) {
        assert!(wide.contains(resource), "inside the narrower scope, outside the wider");
    }
    if resource.len() <= Scope::MAX_PATTERN_BYTES && is_resource(resource) {
        if let Ok(exact) = Scope::parse([pattern_for(resource)]) {
            assert!(exact.contains(resource), "a resource is outside its own pattern");
        }
    }
});
