//! Inputs of calls: strict JSON, its canonical form, and what schemas say about it.
#![no_main]

use std::sync::LazyLock;

use countersign_model::digest::canonical_json;
use countersign_model::schema::DIALECT;
use countersign_model::{CompiledSchema, JsonLimits, parse_strict};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

static SCHEMAS: LazyLock<Vec<CompiledSchema>> = LazyLock::new(|| {
    let compile = |mut schema: Value| {
        schema["$schema"] = json!(DIALECT);
        CompiledSchema::compile(&schema).unwrap()
    };
    vec![
        compile(json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1, "maxLength": 20},
                "at": {"type": "string", "format": "date-time"},
                "ip": {"type": "string", "format": "ipv6"},
                "link": {"type": "string", "format": "uri"},
                "n": {"type": "integer", "multipleOf": 3, "minimum": -9, "maximum": 1000}
            },
            "required": ["path"],
            "additionalProperties": false
        })),
        compile(json!({
            "type": "array",
            "items": {"oneOf": [
                {"type": "string", "pattern": "^(a|b)*c?[0-9]{1,3}$"},
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "object", "propertyNames": {"maxLength": 4}}
            ]},
            "uniqueItems": true,
            "contains": {"type": "string"}
        })),
        compile(json!({
            "$defs": {"tree": {
                "type": "object",
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
                "unevaluatedProperties": false
            }},
            "$ref": "#/$defs/tree"
        })),
    ]
});

fuzz_target!(|data: &[u8]| {
    let limits = JsonLimits::default();
    let value = match parse_strict(data, &limits) {
        Ok(value) => value,
        Err(failure) => {
            assert!(failure.code.starts_with("INPUT_"), "{}", failure.code);
            return;
        }
    };
    // What is digested must be what was read: the canonical form says the same and is stable.
    let canonical = canonical_json(&value).unwrap();
    let again = parse_strict(&canonical, &limits).unwrap();
    assert_eq!(canonical_json(&again).unwrap(), canonical);
    for schema in SCHEMAS.iter() {
        let violations = schema.check(&value);
        assert_eq!(violations.is_empty(), schema.is_valid(&value));
        assert_eq!(violations.is_empty(), schema.is_valid(&again), "the canonical form differs");
    }
});
