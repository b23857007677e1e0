//! Schemas and values made to take the host's time or its stack. Each must end quickly, on the
//! stack of an ordinary thread, with a refusal that has a name.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use std::time::{Duration, Instant};

use countersign_model::CompiledSchema;
use serde_json::{Map, Value, json};

/// Runs on a thread of the size that servers give to theirs, and within a time that leaves room
/// for a slow, unoptimised build.
fn quickly<T: Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> T {
    let started = Instant::now();
    let thread = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(task).unwrap();
    let answer = thread.join().expect("no panic");
    assert!(started.elapsed() < Duration::from_secs(30), "took {:?}", started.elapsed());
    answer
}

fn refusal(schema: Value) -> String {
    quickly(move || match CompiledSchema::compile(&schema) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.code.into_owned(),
    })
}

/// `d0` … `d{n-1}`, each made from the reference to the next; the last leads to a string.
fn chain(n: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs = Map::new();
    for index in 0..n {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        defs.insert(format!("d{index}"), link(next));
    }
    defs.insert(format!("d{n}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

fn nested(depth: usize, leaf: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(leaf, |inner, _| wrap(inner))
}

#[test]
fn circles_that_judge_one_value_for_ever_are_refused() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"not": {"$ref": "#"}}),
        json!({"if": true, "then": {"$ref": "#"}}),
        json!({"dependentSchemas": {"a": {"$ref": "#"}}}),
        json!({"$dynamicAnchor": "a", "anyOf": [{"type": "null"}, {"$dynamicRef": "#a"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
        json!({"$defs": {"a": {"$anchor": "x", "oneOf": [true, {"$ref": "#x"}]}}}),
        json!({"$id": "https://example.org/s", "$ref": "https://example.org/s"}),
    ] {
        assert_eq!(refusal(schema.clone()), "SCHEMA_REF_LOOP", "{schema}");
    }
    let error = CompiledSchema::compile(&json!({
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}},
    }));
    assert!(error.unwrap_err().pointer.starts_with("/$defs/a"));
}

#[test]
fn doubling_and_long_chains_are_refused() {
    let doubling = |next: Value| json!({"allOf": [next.clone(), next]});
    assert_eq!(refusal(chain(60, doubling)), "SCHEMA_TOO_COMPLEX");
    assert_eq!(refusal(chain(25, doubling)), "SCHEMA_TOO_COMPLEX");
    assert_eq!(refusal(chain(5, doubling)), "accepted");
    assert_eq!(refusal(chain(4000, |next| next)), "SCHEMA_TOO_COMPLEX");
    assert_eq!(refusal(chain(60, |next| next)), "accepted");
    let again = |next: Value| json!({"anyOf": [next], "unevaluatedProperties": false});
    assert_eq!(refusal(chain(30, again)), "SCHEMA_TOO_COMPLEX");
}

#[test]
fn large_deep_and_crowded_schemas_are_refused() {
    let deep = nested(40, json!({"type": "string"}), |inner| json!({"properties": {"a": inner}}));
    assert_eq!(refusal(deep), "SCHEMA_TOO_DEEP");
    let large = json!({"description": "x".repeat(300 * 1024)});
    assert_eq!(refusal(large), "SCHEMA_TOO_LARGE");
    let pattern = |index: usize| (format!("p{index}"), json!({"pattern": format!("^a{index}b+$")}));
    let crowded: Map<_, _> = (0..300).map(pattern).collect();
    assert_eq!(refusal(json!({"properties": crowded})), "SCHEMA_TOO_COMPLEX");
}

#[test]
fn patterns_are_linear_or_refused() {
    for pattern in ["(?=a)b", "(?<!a)b", "(a)\\1", "(a", "\\p{L}{1,5000}", "((a{100}){100}){100}"] {
        let schema = json!({"type": "string", "pattern": pattern});
        assert_eq!(refusal(schema), "SCHEMA_PATTERN_UNSUPPORTED", "{pattern}");
        let schema = json!({"patternProperties": {pattern: true}});
        assert_eq!(refusal(schema), "SCHEMA_PATTERN_UNSUPPORTED", "{pattern}");
    }
    for pattern in ["(a+)+$", "^(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y"] {
        let violations = quickly(move || {
            let schema = CompiledSchema::compile(&json!({"pattern": pattern})).unwrap();
            schema.check(&json!(format!("{}!", "ax".repeat(100_000))))
        });
        assert_eq!(violations.len(), 1, "{pattern}");
        assert!(violations[0].message.chars().count() < 200);
    }
}

/// Twice per level: 2^60 judgements for a value of sixty brackets.
#[test]
fn values_that_would_take_for_ever_are_refused() {
    let twice = json!({"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}});
    let variants = json!({"oneOf": [
        {"properties": {"op": {"const": "a"}, "in": {"$ref": "#"}}},
        {"properties": {"op": {"const": "b"}, "in": {"$ref": "#"}}},
        {"type": "null"},
    ]});
    let brackets = nested(60, json!(1), |inner| json!([inner]));
    let objects = nested(60, json!(1), |inner| json!({"in": inner}));
    for (schema, value) in [(twice.clone(), brackets), (variants.clone(), objects)] {
        let violations = quickly(move || {
            let schema = CompiledSchema::compile(&schema).unwrap();
            assert!(!schema.is_valid(&value));
            schema.check(&value)
        });
        assert!(violations[0].message.contains("too much work"), "{violations:?}");
    }
    let shallow = nested(5, json!(1), |inner| json!([inner]));
    assert!(CompiledSchema::compile(&twice).unwrap().is_valid(&shallow));
    let shallow = nested(5, json!(null), |inner| json!({"op": "b", "in": inner}));
    assert!(!CompiledSchema::compile(&variants).unwrap().check(&shallow).is_empty());
}

#[test]
fn wide_values_and_wide_schemas_stay_affordable() {
    let violations = quickly(|| {
        let tree = json!({"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}}});
        let leaf = json!({"children": [], "n": "x"});
        let row = json!({"children": vec![leaf; 200]});
        CompiledSchema::compile(&tree).unwrap().check(&json!({"children": vec![row; 100]}))
    });
    assert_eq!(violations.len(), 101);
    assert!(violations[100].message.contains("more"), "{:?}", violations[100]);
}

/// The deepest value the strict reader lets through, on schemas that recur at every level.
#[test]
fn the_deepest_values_fit_the_stack() {
    for schema in [
        json!({"items": {"$ref": "#"}}),
        json!({"items": {"anyOf": [{"allOf": [{"$ref": "#"}]}, {"type": "null"}]}}),
        json!({"unevaluatedItems": {"oneOf": [{"$ref": "#"}]}}),
        json!({"additionalProperties": {"$ref": "#"}, "items": {"$ref": "#"},
            "unevaluatedItems": false, "minItems": 1}),
        json!({"contains": {"if": {"$ref": "#"}, "then": {"$ref": "#/$defs/n"}},
            "$defs": {"n": {"minItems": 1}}}),
        chain(25, |next| json!({"items": {"$ref": "#"}, "allOf": [next]})),
        chain(30, |next| json!({"allOf": [next], "items": {"type": "array"}})),
        json!({"items": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x"}),
    ] {
        let text = schema.to_string();
        let ok = quickly(move || {
            let compiled = CompiledSchema::compile(&schema).unwrap();
            for depth in [64, 127, 500] {
                let value = nested(depth, json!([]), |inner| json!([inner]));
                compiled.is_valid(&value);
                compiled.check(&value);
            }
            true
        });
        assert!(ok, "{text}");
    }
}

/// Which schema a dynamic reference means depends on the way there; the ways must stay countable.
#[test]
fn many_embedded_resources_compile_quickly_or_not_at_all() {
    for (n, expected) in [(4, "accepted"), (5, "SCHEMA_TOO_COMPLEX"), (40, "SCHEMA_TOO_COMPLEX")] {
        let name = |index: usize| format!("https://example.org/r{index}");
        let member = |index: usize| (format!("m{index}"), json!({"$ref": name(index)}));
        let mut members: Map<_, _> = (0..n).map(member).collect();
        members.insert("x".into(), json!({"$dynamicRef": "#meta"}));
        let meta = json!({"$ref": "https://json-schema.org/draft/2020-12/schema"});
        members.insert("y".into(), meta);
        let resource = |index: usize| {
            let id = name(index);
            let schema = json!({"$id": id, "$dynamicAnchor": "meta", "properties": members});
            (format!("r{index}"), schema)
        };
        let defs: Map<_, _> = (0..n).map(resource).collect();
        assert_eq!(refusal(json!({"$defs": defs, "$ref": name(0)})), expected, "{n}");
    }
}

/// As many schemas inside schemas as are let through, with an error at the very bottom.
#[test]
fn the_deepest_judgement_that_is_let_through_fits_the_stack() {
    for schema in [
        json!({"items": {"allOf": [{"$ref": "#"}]}, "minItems": 1}),
        json!({"items": {"anyOf": [{"$ref": "#"}]}, "minItems": 1}),
        json!({"items": {"oneOf": [{"$ref": "#"}]}, "minItems": 1}),
        json!({"items": {"not": {"not": {"items": true}}, "$ref": "#"}, "minItems": 1}),
        json!({"unevaluatedItems": {"anyOf": [{"$ref": "#"}]}, "minItems": 1}),
        json!({"items": {"if": {"$ref": "#"}, "else": false}, "minItems": 1}),
        json!({"contains": {"allOf": [{"$ref": "#"}]}, "minItems": 1}),
        json!({"items": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x", "minItems": 1}),
    ] {
        let text = schema.to_string();
        let violations = quickly(move || {
            let compiled = CompiledSchema::compile(&schema).unwrap();
            let value = nested(126, json!([]), |inner| json!([inner]));
            assert!(!compiled.is_valid(&value));
            compiled.check(&value)
        });
        assert!(!violations[0].keyword.is_empty(), "{text}: {violations:?}");
    }
}

/// Texts that parsers like to follow downwards or to try again and again.
#[test]
fn formats_and_patterns_take_hostile_texts() {
    for piece in
        ["(", "(?:", "[", "{", "a{1,2}", "a|", "a.", "1:", "/~0", "%41", "{x}", "\"", "(?=", "\\"]
    {
        quickly(move || {
            let pattern = piece.repeat(60_000 / piece.len());
            let _ = CompiledSchema::compile(&json!({"pattern": pattern}));
            let _ = CompiledSchema::compile(&json!({"patternProperties": {&pattern: true}}));
        });
        for format in [
            "date-time",
            "date",
            "time",
            "duration",
            "email",
            "hostname",
            "ipv4",
            "ipv6",
            "uri",
            "uri-reference",
            "uri-template",
            "iri",
            "iri-reference",
            "uuid",
            "json-pointer",
            "relative-json-pointer",
            "regex",
        ] {
            quickly(move || {
                let schema = CompiledSchema::compile(&json!({"format": format})).unwrap();
                let text = piece.repeat(1_000_000 / piece.len());
                schema.check(&json!(text));
                schema.check(&json!(format!("http://{text}@{text}")));
            });
        }
    }
}
