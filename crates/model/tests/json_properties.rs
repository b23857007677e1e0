//! What holds for every JSON, tried on many.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_model::digest::canonical_json;
use countersign_model::{CompiledSchema, Declaration, JsonLimits, lint, parse_strict};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-9_007_199_254_740_992i64..=9_007_199_254_740_992).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1000.0..1000.0f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "[a-z]{1,6}".prop_map(Value::from),
    ]
}

fn tree(leaf: impl Strategy<Value = Value> + 'static, key: &'static str) -> BoxedStrategy<Value> {
    let inner = move |inner: BoxedStrategy<Value>| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    };
    leaf.prop_recursive(5, 60, 6, move |next| inner(next.boxed())).boxed()
}

fn any_json() -> BoxedStrategy<Value> {
    tree(scalar(), ".{0,6}")
}

/// Keys that mean something, so that the interesting branches are reached.
const KEYWORDS: &str = "type|properties|items|prefixItems|allOf|anyOf|oneOf|not|if|then|else|\
    \\$ref|\\$dynamicRef|\\$dynamicAnchor|\\$anchor|\\$id|\\$schema|\\$defs|required|enum|const|\
    pattern|patternProperties|additionalProperties|unevaluatedProperties|unevaluatedItems|format|\
    contains|propertyNames|dependentSchemas|description|minimum|maxLength|a|b";
const WORDS: &str = "object|string|array|integer|#|#/\\$defs/a|#/properties/a|#a|a|b|email|\
    uuid|\\(a\\+\\)\\+\\$|\\(\\?=a\\)|\\[|https://example.org/x";

fn schema_like() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        3 => WORDS.prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => (0u64..5).prop_map(Value::from),
        1 => Just(json!({})),
    ];
    tree(leaf, KEYWORDS)
}

/// Schemas put together so that most of them compile.
fn likely_schema() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        "string|integer|null|object|array".prop_map(|name| json!({"type": name})),
        (0u64..5).prop_map(|limit| json!({"minimum": limit, "maxLength": limit})),
        "\\(a\\+\\)\\+|\\^x|a\\|b".prop_map(|pattern| json!({"pattern": pattern})),
        Just(json!({"$ref": "#"})),
        Just(json!({"$ref": "#/$defs/a"})),
        any::<bool>().prop_map(Value::from),
    ];
    let many = "allOf|anyOf|oneOf|prefixItems";
    let one = "items|not|if|then|else|additionalProperties|unevaluatedProperties|\
        unevaluatedItems|contains|propertyNames";
    let map = "properties|patternProperties|dependentSchemas|\\$defs";
    let grow = move |inner: BoxedStrategy<Value>| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        let named = prop::collection::btree_map("a|b|in", inner.clone(), 1..3);
        (many, some, one, inner, map, named).prop_map(|(many, some, one, inner, map, named)| {
            let named: Map<_, _> = named.into_iter().collect();
            json!({many: some, one: inner, map: named})
        })
    };
    leaf.prop_recursive(3, 30, 4, move |next| grow(next.boxed()))
        .prop_map(|schema| match schema {
            Value::Object(mut map) => {
                map.entry("$defs").or_insert_with(|| json!({"a": {"type": "string"}}));
                Value::Object(map)
            }
            other => other,
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn strict_reading_agrees_with_plain_reading(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        if let Ok(read) = parse_strict(&text, &JsonLimits::default()) {
            prop_assert_eq!(read, serde_json::from_slice::<Value>(&text).unwrap());
        }
    }

    #[test]
    fn bytes_that_are_accepted_are_json(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let strict = parse_strict(&bytes, &JsonLimits::default());
        let plain = serde_json::from_slice::<Value>(&bytes);
        prop_assert!(strict.is_err() || strict.ok() == plain.ok());
    }

    #[test]
    fn texts_made_of_json_signs_agree_too(text in "[\\[\\]{}:,\"a0-9.eE+\\- \\\\]{0,24}") {
        let strict = parse_strict(text.as_bytes(), &JsonLimits::default());
        let plain = serde_json::from_slice::<Value>(text.as_bytes());
        prop_assert!(strict.is_err() || strict.ok() == plain.ok());
    }

    /// `5.0` and `5` are one number in canonical JSON, so equality is of canonical forms.
    #[test]
    fn canonical_json_is_read_back_as_it_was(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        if let Ok(read) = parse_strict(&text, &JsonLimits::default()) {
            let canonical = canonical_json(&read).unwrap();
            let again = parse_strict(&canonical, &JsonLimits::default()).unwrap();
            prop_assert_eq!(canonical_json(&again).unwrap(), canonical);
        }
    }

    #[test]
    fn lint_and_compile_answer_whatever_they_get(value in any_json(), schema in schema_like()) {
        lint(&value);
        for schema in [&value, &schema] {
            if let Ok(compiled) = CompiledSchema::compile(schema) {
                prop_assert_eq!(compiled.check(&value).is_empty(), compiled.is_valid(&value));
            }
            let findings = lint(&json!({"inputSchema": schema, "outputSchema": schema}));
            prop_assert!(!findings.is_empty());
            prop_assert!(Declaration::from_value(schema.clone()).is_err());
        }
    }

    #[test]
    fn checking_and_being_valid_agree(schema in likely_schema(), value in tree(scalar(), "a|b|in")) {
        if let Ok(compiled) = CompiledSchema::compile(&schema) {
            prop_assert_eq!(compiled.check(&value).is_empty(), compiled.is_valid(&value));
        }
    }
}
