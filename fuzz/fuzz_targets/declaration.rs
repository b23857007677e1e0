//! Declarations: any bytes are accepted or refused with findings, and what is accepted keeps its
//! meaning when it is written and read again.
#![no_main]

use countersign_model::{CompiledSchema, Declaration, JsonLimits, lint, parse_strict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match Declaration::parse(data) {
        Ok(declaration) => {
            let written = serde_json::to_vec(&declaration).unwrap();
            let again = Declaration::parse(&written).unwrap();
            assert_eq!(declaration, again);
            assert_eq!(declaration.digest(), again.digest());
            CompiledSchema::compile(&declaration.input_schema).unwrap();
            CompiledSchema::compile(&declaration.output_schema).unwrap();
        }
        Err(findings) => assert!(!findings.is_empty()),
    }
    // The bytes as a schema on their own, which the whole declaration around it makes rare.
    if let Ok(value) = parse_strict(data, &JsonLimits::default()) {
        lint(&value);
        if let Ok(schema) = CompiledSchema::compile(&value) {
            schema.check(&value);
        }
    }
});
