//! What a schema promises: values it accepts, values it refuses, and where it says so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_model::CompiledSchema;
use serde_json::{Value, json};

fn compile(schema: &Value) -> CompiledSchema {
    CompiledSchema::compile(schema).unwrap_or_else(|error| panic!("{schema}: {error:?}"))
}

/// One schema with values it accepts and values it refuses.
fn judge(schema: &Value, accepts: &[Value], refuses: &[Value]) {
    let compiled = compile(schema);
    for value in accepts {
        assert_eq!(compiled.check(value), [], "{schema} should accept {value}");
        assert!(compiled.is_valid(value), "{schema} should accept {value}");
    }
    for value in refuses {
        assert!(!compiled.check(value).is_empty(), "{schema} should refuse {value}");
        assert!(!compiled.is_valid(value), "{schema} should refuse {value}");
    }
}

#[test]
fn keywords_judge_what_they_say() {
    for (schema, accepts, refuses) in [
        (json!(true), vec![json!(1)], vec![]),
        (json!(false), vec![], vec![json!(1), json!(null)]),
        (json!({"type": "integer"}), vec![json!(1), json!(1.0)], vec![json!(1.5), json!("1")]),
        (json!({"type": ["string", "null"]}), vec![json!(null)], vec![json!(0)]),
        (json!({"enum": ["a", 1, null]}), vec![json!(1), json!(null)], vec![json!("b")]),
        (json!({"const": {"a": [1]}}), vec![json!({"a": [1.0]})], vec![json!({"a": []})]),
        (json!({"minimum": 1, "exclusiveMaximum": 3}), vec![json!(1)], vec![json!(3), json!(0)]),
        (json!({"multipleOf": 0.01}), vec![json!(4.35)], vec![json!(4.355)]),
        (
            json!({"minLength": 2, "maxLength": 3}),
            vec![json!("äö")],
            vec![json!("ä"), json!("abcd")],
        ),
        (json!({"pattern": "^[a-z]+$"}), vec![json!("abc")], vec![json!("a1"), json!("a\n")]),
        (json!({"uniqueItems": true}), vec![json!([1, "1"])], vec![json!([1, 1.0])]),
        (
            json!({"contains": {"const": 1}, "minContains": 2}),
            vec![json!([1, 2, 1])],
            vec![json!([1, 2])],
        ),
        (
            json!({"prefixItems": [{"type": "string"}], "items": false}),
            vec![json!(["a"])],
            vec![json!([1]), json!(["a", "b"])],
        ),
        (
            json!({"propertyNames": {"maxLength": 2}}),
            vec![json!({"ab": 1})],
            vec![json!({"abc": 1})],
        ),
        (
            json!({"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": false}),
            vec![json!({"xa": null})],
            vec![json!({"xa": 1}), json!({"a": null})],
        ),
        (
            json!({"dependentRequired": {"a": ["b"]}}),
            vec![json!({"a": 1, "b": 1})],
            vec![json!({"a": 1})],
        ),
        (
            json!({"dependentSchemas": {"a": {"minProperties": 2}}}),
            vec![json!({"a": 1, "b": 1})],
            vec![json!({"a": 1})],
        ),
        (
            json!({"if": {"type": "string"}, "then": {"minLength": 1}, "else": {"type": "null"}}),
            vec![json!("a"), json!(null)],
            vec![json!(""), json!(1)],
        ),
        (
            json!({"oneOf": [{"type": "integer"}, {"minimum": 2}]}),
            vec![json!(1), json!(2.5)],
            vec![json!(3)],
        ),
        (json!({"not": {"type": "null"}}), vec![json!(1)], vec![json!(null)]),
    ] {
        judge(&schema, &accepts, &refuses);
    }
}

/// Patterns people write; the bound on their compiled size must leave room for them.
#[test]
fn everyday_patterns_are_accepted() {
    for pattern in [
        "^[a-zA-Z0-9/_.-]+$",
        "^[a-z]{1,64}\\.[a-z]{1,64}$",
        "^\\w{1,255}$",
        "^.{1,255}$",
        "^\\S{1,128}$",
        "^[^/]{1,255}$",
        "^[a-zA-Z0-9_-]{1,1000}$",
        "^\\p{L}+$",
        "^\\d{4}-\\d{2}-\\d{2}$",
        "^sha256:[0-9a-f]{64}$",
        "^(?:[a-z]+/)*[a-z]+$",
    ] {
        compile(&json!({"type": "string", "pattern": pattern}));
    }
}

#[test]
fn formats_are_asserted() {
    for (format, good, bad) in [
        ("date-time", "2026-11-15T12:00:00Z", "2026-11-15 12:00"),
        ("date", "2026-02-28", "2026-02-30"),
        ("time", "12:00:00Z", "25:00:00Z"),
        ("duration", "P1DT2H", "1 day"),
        ("email", "ada@example.org", "ada"),
        ("hostname", "example.org", "-example-.org"),
        ("ipv4", "127.0.0.1", "127.0.0.256"),
        ("ipv6", "::1", "12345::"),
        ("uri", "https://example.org/a?b#c", "/relative"),
        ("uri-reference", "/relative", "\\\\server"),
        ("uri-template", "https://example.org/{id}", "https://example.org/{id"),
        ("iri", "https://exämple.org/", "/x"),
        ("uuid", "019a7c3e-0000-7000-8000-000000000000", "019a7c3e"),
        ("json-pointer", "/a~1b/0", "a/b"),
        ("relative-json-pointer", "1/a", "/a"),
        ("regex", "^a+$", "(a"),
    ] {
        judge(&json!({"type": "string", "format": format}), &[json!(good)], &[json!(bad)]);
        judge(&json!({"format": format}), &[json!(5)], &[]);
    }
}

#[test]
fn references_stay_inside_and_recur_through_values() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {
            "value": {"type": "integer"},
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        }, "required": ["value"], "additionalProperties": false}},
    });
    let good = json!({"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]});
    let bad = json!({"value": 1, "children": [{"value": 2, "children": [{"valu": 3}]}]});
    judge(&tree, &[good], &[bad]);
    judge(
        &json!({"items": {"$ref": "#item"}, "$defs": {"i": {"$anchor": "item", "minimum": 1}}}),
        &[json!([1])],
        &[json!([0])],
    );
    judge(
        &json!({"$id": "https://example.org/root", "properties": {"a": {"$ref": "part"}},
            "$defs": {"p": {"$id": "part", "type": "null"}}}),
        &[json!({"a": null})],
        &[json!({"a": 1})],
    );
    judge(
        &json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
        &[json!({"type": "string"}), json!(true)],
        &[json!({"type": "text"}), json!(1)],
    );
}

/// A list that leaves its items open, and a use of it that says what they are.
#[test]
fn dynamic_references_mean_the_outermost_anchor() {
    let strings = json!({
        "$id": "https://example.org/strings",
        "$ref": "list",
        "$defs": {
            "item": {"$dynamicAnchor": "item", "type": "string"},
            "list": {"$id": "list", "type": "array", "items": {"$dynamicRef": "#item"},
                "$defs": {"any": {"$dynamicAnchor": "item"}}},
        },
    });
    judge(&strings, &[json!(["a"]), json!([])], &[json!([1]), json!("a")]);
}

#[test]
fn unevaluated_properties_see_through_composition() {
    let schema = json!({
        "type": "object",
        "allOf": [{"$ref": "#/$defs/base"}],
        "properties": {"b": {"type": "integer"}},
        "if": {"properties": {"kind": {"const": "x"}}, "required": ["kind"]},
        "then": {"properties": {"x": true}},
        "unevaluatedProperties": false,
        "$defs": {"base": {"properties": {"a": {"type": "string"}}}},
    });
    judge(
        &schema,
        &[json!({"a": "s", "b": 1}), json!({"kind": "x", "x": 1})],
        &[json!({"c": 1}), json!({"kind": "y", "x": 1}), json!({"a": 1})],
    );
    judge(
        &json!({"prefixItems": [true], "contains": {"const": 1}, "unevaluatedItems": false}),
        &[json!(["a", 1])],
        &[json!(["a", 2, 1])],
    );
}

#[test]
fn every_violation_is_reported_with_its_place() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 3},
            "tags": {"type": "array", "items": {"type": "string"}},
            "a/b": {"type": "object", "properties": {"m~n": {"format": "email", "type": "string"}},
                "additionalProperties": false},
        },
        "required": ["name", "size"],
        "additionalProperties": false,
    }));
    let value = json!({"name": "x", "tags": ["a", 1, null],
        "a/b": {"m~n": "nobody", "z": 1}, "extra": true});
    let mut found: Vec<_> = schema
        .check(&value)
        .into_iter()
        .map(|v| (v.pointer, v.schema_pointer, v.keyword, v.message))
        .collect();
    found.sort();
    let found: Vec<_> = found.iter().map(|(a, b, c, d)| [a, b, c, d].map(String::as_str)).collect();
    assert_eq!(
        found,
        [
            [
                "",
                "/additionalProperties",
                "additionalProperties",
                "the property `extra` is not declared"
            ],
            ["", "/required", "required", "the property `size` is missing"],
            [
                "/a~1b",
                "/properties/a~1b/additionalProperties",
                "additionalProperties",
                "the property `z` is not declared"
            ],
            [
                "/a~1b/m~0n",
                "/properties/a~1b/properties/m~0n/format",
                "format",
                "`\"nobody\"` is not a valid `email`"
            ],
            [
                "/name",
                "/properties/name/minLength",
                "minLength",
                "`\"x\"` has fewer than 3 characters"
            ],
            ["/tags/1", "/properties/tags/items/type", "type", "`1` is not of type `string`"],
            ["/tags/2", "/properties/tags/items/type", "type", "`null` is not of type `string`"],
        ]
    );
    let shown = serde_json::to_value(schema.check(&json!(1))).unwrap();
    assert_eq!(
        shown,
        json!([{"pointer": "", "schemaPointer": "/type", "keyword": "type",
        "message": "`1` is not of type `object`"}])
    );
}

#[test]
fn messages_are_short_and_the_list_of_them_ends() {
    let long = "s3cret".repeat(50_000);
    let members: serde_json::Map<_, _> =
        (0..500).map(|index| (format!("{long}{index}"), json!(1))).collect();
    for (schema, value) in [
        (json!({"type": "integer"}), json!(long)),
        (json!({"const": 1}), json!(long)),
        (json!({"enum": [1]}), json!([long])),
        (json!({"pattern": "^x$"}), json!(long)),
        (json!({"format": "uri"}), json!(long)),
        (json!({"maxLength": 1}), json!(long)),
        (json!({"anyOf": [{"maxLength": 1}, {"type": "null"}]}), json!(long)),
        (json!({"oneOf": [{"properties": {"a": {"maxLength": 1}}}]}), json!({"a": long})),
        (json!({"not": {}}), json!(long)),
        (json!({"propertyNames": {"maxLength": 1}}), json!({&long: 1})),
        (json!({"additionalProperties": false}), Value::Object(members.clone())),
        (json!({"unevaluatedProperties": false}), Value::Object(members)),
        (json!({"items": false}), json!([long])),
        (json!({"uniqueItems": true}), json!([long, long])),
        (json!({"dependentRequired": {"a": ["b"]}}), json!({"a": long})),
    ] {
        for violation in compile(&schema).check(&value) {
            let echoed = violation.message.matches("s3cret").count() * "s3cret".len();
            assert!(echoed <= 120, "{schema}: {}", violation.message);
            assert!(violation.message.len() < 400, "{schema}: {}", violation.message);
        }
    }
    let many = compile(&json!({"items": {"type": "string"}})).check(&json!(vec![0; 250]));
    assert_eq!((many.len(), many[100].message.as_str()), (101, "and 150 more violations"));
    let few = compile(&json!({"items": {"type": "string"}})).check(&json!(vec![0; 100]));
    assert_eq!(few.len(), 100);
}

#[test]
fn choices_name_the_nearest_alternative() {
    let schema = compile(&json!({"oneOf": [
        {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
        {"type": "string", "minLength": 1, "pattern": "^x"},
    ]}));
    let found = schema.check(&json!({"url": 5}));
    assert_eq!(
        found[0].message,
        "the object fits none of the 2 schemas of `oneOf`; \
        the nearest fails at `/url`: `5` is not of type `string`"
    );
}

#[test]
fn schemas_that_lead_outside_or_nowhere_are_refused() {
    for (schema, code, pointer) in [
        (json!({"$ref": "https://example.com/x"}), "SCHEMA_REF_EXTERNAL", "/$ref"),
        (
            json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
            "SCHEMA_REF_EXTERNAL",
            "/properties/a/$ref",
        ),
        (json!({"$ref": "other.json#/x"}), "SCHEMA_REF_EXTERNAL", "/$ref"),
        (json!({"$dynamicRef": "https://example.com/x#a"}), "SCHEMA_REF_EXTERNAL", "/$dynamicRef"),
        (
            json!({"$defs": {"unused": {"$ref": "urn:x"}}}),
            "SCHEMA_REF_EXTERNAL",
            "/$defs/unused/$ref",
        ),
        (json!({"$ref": "http://json-schema.org/draft-07/schema"}), "SCHEMA_REF_EXTERNAL", "/$ref"),
        (json!({"$ref": "#/$defs/x"}), "SCHEMA_REF_UNRESOLVED", "/$ref"),
        (json!({"$ref": "#x"}), "SCHEMA_REF_UNRESOLVED", "/$ref"),
        (json!({"$ref": "#/x-parts/a", "x-parts": {"a": true}}), "SCHEMA_REF_UNRESOLVED", "/$ref"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
            "SCHEMA_DIALECT_WRONG",
            "/$schema",
        ),
        (
            json!({"$defs": {"a": {"$schema": "urn:own"}}}),
            "SCHEMA_DIALECT_WRONG",
            "/$defs/a/$schema",
        ),
        (json!({"$id": "https://json-schema.org/draft/2020-12/schema"}), "SCHEMA_INVALID", "/$id"),
        (json!({"type": "text"}), "SCHEMA_INVALID", "/type"),
        (json!({"properties": {"a": {"minimum": "1"}}}), "SCHEMA_INVALID", "/properties/a/minimum"),
        (json!("string"), "SCHEMA_INVALID", ""),
        (json!({"format": "idn-email"}), "SCHEMA_FORMAT_UNKNOWN", "/format"),
    ] {
        let error = CompiledSchema::compile(&schema).unwrap_err();
        assert_eq!((&*error.code, error.pointer.as_str()), (code, pointer), "{schema}: {error}");
    }
}
