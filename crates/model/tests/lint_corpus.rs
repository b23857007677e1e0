//! One bad declaration for each code, and the place it must be reported at.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test stops at the first surprise"
)]

use countersign_model::{Declaration, Finding, Runtime, lint};
use serde_json::{Value, json};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// RFC-0001 appendix A, with the runtime this product adds.
fn file_read() -> Value {
    json!({
        "id": "file.read",
        "version": "1.0.0",
        "name": "File Reader",
        "description": "Reads file contents from filesystem",
        "inputSchema": {
            "$schema": DIALECT,
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "File path to read",
                    "pattern": "^[a-zA-Z0-9/_.-]+$"
                }
            },
            "required": ["path"],
            "additionalProperties": false
        },
        "outputSchema": {
            "$schema": DIALECT,
            "type": "object",
            "properties": {
                "content": {"type": "string", "description": "File contents"},
                "size": {"type": "number", "description": "File size in bytes"}
            },
            "required": ["content", "size"],
            "additionalProperties": false
        },
        "requiredCapabilities": ["filesystem.read"],
        "resourceLimits": {
            "maxExecutionTime": 5000,
            "maxMemory": 10485760,
            "maxFileSize": 1048576
        },
        "deterministic": true,
        "idempotent": true,
        "runtime": {"kind": "builtin", "handler": "file.read"}
    })
}

/// Sets what `pointer` means to `value`; null removes it.
fn with(pointer: &str, value: Value) -> Value {
    let mut declaration = file_read();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = declaration.pointer_mut(parent).unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(key)),
        value => parent[key] = value,
    }
    declaration
}

fn codes(findings: &[Finding]) -> Vec<(&str, &str)> {
    findings.iter().map(|found| (&*found.code, found.pointer.as_str())).collect()
}

#[test]
fn the_example_of_the_rfc_is_clean() {
    assert_eq!(lint(&file_read()), []);
    let bytes = serde_json::to_vec(&file_read()).unwrap();
    let declaration = Declaration::parse(&bytes).unwrap();
    assert_eq!(declaration.runtime, Runtime::Builtin { handler: "file.read".into() });
    assert_eq!(declaration.resource_limits.max_processes, None);
    assert_eq!(serde_json::to_value(&declaration).unwrap(), file_read());
    assert_eq!(declaration.tool_ref().to_string(), "file.read@1.0.0");
}

/// Calls are pinned to this digest: if it changes, every pinned declaration stops to match.
#[test]
fn the_digest_of_the_example_is_pinned() {
    let digest = Declaration::from_value(file_read()).unwrap().digest();
    assert_eq!(
        digest.to_string(),
        "9f1a9a60aad2e402a8189fea9af74a5483d13d087180f893c7f142e67c080298"
    );
    let other = Declaration::from_value(with("/idempotent", json!(false))).unwrap();
    assert_ne!(other.digest(), digest);
}

#[test]
fn every_code_has_a_declaration_that_earns_it() {
    let long = "a.".repeat(100) + "b";
    for (pointer, value, code, place) in [
        ("/id", Value::Null, "FIELD_MISSING", ""),
        ("/runtime", Value::Null, "FIELD_MISSING", ""),
        ("/inputShema", json!({}), "FIELD_UNKNOWN", "/inputShema"),
        ("/name", json!(5), "FIELD_TYPE", "/name"),
        ("/deterministic", json!("yes"), "FIELD_TYPE", "/deterministic"),
        ("/inputSchema", json!(true), "FIELD_TYPE", "/inputSchema"),
        ("/requiredCapabilities", json!("filesystem.read"), "FIELD_TYPE", "/requiredCapabilities"),
        ("/requiredCapabilities", json!([1]), "FIELD_TYPE", "/requiredCapabilities/0"),
        ("/runtime", json!("builtin"), "FIELD_TYPE", "/runtime"),
        ("/id", json!("File"), "TOOL_ID_INVALID", "/id"),
        ("/id", json!(long), "TOOL_ID_INVALID", "/id"),
        ("/version", json!("1.0"), "VERSION_INVALID", "/version"),
        ("/version", json!("v1.0.0"), "VERSION_INVALID", "/version"),
        ("/name", json!(" "), "TEXT_EMPTY", "/name"),
        ("/description", json!(""), "TEXT_EMPTY", "/description"),
        (
            "/requiredCapabilities",
            json!(["disk.read"]),
            "CAPABILITY_UNKNOWN",
            "/requiredCapabilities/0",
        ),
        (
            "/requiredCapabilities",
            json!(["system.env", "system.env"]),
            "CAPABILITY_DUPLICATE",
            "/requiredCapabilities/1",
        ),
        (
            "/requiredCapabilities",
            json!(["filesystem.write"]),
            "CAPABILITY_PREREQUISITE",
            "/requiredCapabilities/0",
        ),
        (
            "/requiredCapabilities",
            json!(["filesystem.read", "process.spawn"]),
            "CAPABILITY_PREREQUISITE",
            "/requiredCapabilities/1",
        ),
        ("/requiredCapabilities", json!(["network.https"]), "FLAGS_CONTRADICT", "/deterministic"),
        ("/requiredCapabilities", json!(["system.time"]), "FLAGS_CONTRADICT", "/deterministic"),
        ("/resourceLimits", json!([]), "FIELD_TYPE", "/resourceLimits"),
        ("/resourceLimits/maxMemory", Value::Null, "FIELD_MISSING", "/resourceLimits"),
        ("/resourceLimits/maxMemroy", json!(1), "FIELD_UNKNOWN", "/resourceLimits/maxMemroy"),
        ("/resourceLimits/maxMemory", json!(1.5), "FIELD_TYPE", "/resourceLimits/maxMemory"),
        (
            "/resourceLimits/maxMemory",
            json!(1024),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxMemory",
        ),
        (
            "/resourceLimits/maxExecutionTime",
            json!(0),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxExecutionTime",
        ),
        (
            "/resourceLimits/maxExecutionTime",
            json!(300_001),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxExecutionTime",
        ),
        (
            "/resourceLimits/maxFileSize",
            json!(-1),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxFileSize",
        ),
        (
            "/resourceLimits/maxFileDescriptors",
            json!(1025),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxFileDescriptors",
        ),
        (
            "/resourceLimits/maxProcesses",
            json!(101),
            "LIMIT_OUT_OF_BOUNDS",
            "/resourceLimits/maxProcesses",
        ),
        ("/runtime/kind", Value::Null, "FIELD_MISSING", "/runtime"),
        ("/runtime/kind", json!("docker"), "RUNTIME_UNKNOWN", "/runtime/kind"),
        ("/runtime/image", json!("x"), "FIELD_UNKNOWN", "/runtime/image"),
        ("/runtime/handler", json!(""), "RUNTIME_HANDLER_INVALID", "/runtime/handler"),
        ("/inputSchema/$schema", Value::Null, "SCHEMA_DIALECT_MISSING", "/inputSchema"),
        (
            "/outputSchema/$schema",
            json!("http://json-schema.org/draft-07/schema#"),
            "SCHEMA_DIALECT_WRONG",
            "/outputSchema/$schema",
        ),
        ("/inputSchema/type", json!(["object"]), "SCHEMA_ROOT_TYPE", "/inputSchema/type"),
        ("/inputSchema/type", Value::Null, "SCHEMA_ROOT_TYPE", "/inputSchema"),
        ("/inputSchema/minProperties", json!(-1), "SCHEMA_INVALID", "/inputSchema/minProperties"),
        (
            "/inputSchema/properties/path/pattern",
            json!("(?=a)"),
            "SCHEMA_PATTERN_UNSUPPORTED",
            "/inputSchema/properties/path/pattern",
        ),
        (
            "/inputSchema/properties/path/format",
            json!("filename"),
            "SCHEMA_FORMAT_UNKNOWN",
            "/inputSchema/properties/path/format",
        ),
        (
            "/inputSchema/properties/path/$ref",
            json!("https://example.org/path"),
            "SCHEMA_REF_EXTERNAL",
            "/inputSchema/properties/path/$ref",
        ),
        (
            "/inputSchema/properties/path/$ref",
            json!("#/$defs/path"),
            "SCHEMA_REF_UNRESOLVED",
            "/inputSchema/properties/path/$ref",
        ),
        (
            "/inputSchema/properties/path/$ref",
            json!("#/properties/path"),
            "SCHEMA_REF_LOOP",
            "/inputSchema/properties/path",
        ),
        (
            "/inputSchema/$comment",
            json!("x".repeat(300 * 1024)),
            "SCHEMA_TOO_LARGE",
            "/inputSchema",
        ),
        (
            "/inputSchema/properties/path/type",
            Value::Null,
            "PROPERTY_TYPE_MISSING",
            "/inputSchema/properties/path",
        ),
        (
            "/inputSchema/properties/path/description",
            json!(" "),
            "PROPERTY_DESCRIPTION_MISSING",
            "/inputSchema/properties/path",
        ),
        ("/inputSchema/required", Value::Null, "REQUIRED_MISSING", "/inputSchema"),
        ("/inputSchema/required", json!(["pth"]), "REQUIRED_UNDECLARED", "/inputSchema/required/0"),
        (
            "/inputSchema/additionalProperties",
            Value::Null,
            "ADDITIONAL_PROPERTIES_OPEN",
            "/inputSchema",
        ),
        (
            "/inputSchema/additionalProperties",
            json!(true),
            "ADDITIONAL_PROPERTIES_OPEN",
            "/inputSchema",
        ),
    ] {
        let declaration = with(pointer, value.clone());
        let findings = lint(&declaration);
        assert_eq!(codes(&findings), [(code, place)], "{pointer} = {:.80}", value.to_string());
        assert_eq!(Declaration::from_value(declaration).unwrap_err(), findings);
    }
}

/// A tool that is a program, with everything that it may say.
fn program() -> Value {
    let mut declaration = file_read();
    declaration["deterministic"] = json!(false);
    declaration["requiredCapabilities"] = json!([
        "filesystem.read",
        "filesystem.write",
        "filesystem.delete",
        "network.http",
        "network.https",
        "network.tcp"
    ]);
    declaration["resourceLimits"] = json!({
        "maxExecutionTime": 5000, "maxMemory": 10_485_760, "maxCpuTime": 300_000,
        "maxThreads": 1000, "maxTotalSize": 10_737_418_240_u64, "maxInodes": 1_000_000,
        "maxOutput": 67_108_864
    });
    declaration["runtime"] = json!({
        "kind": "process",
        "command": ["python3", "/tool/main.py", "two words", ""],
        "environment": {"MODE": "fast", "_X1": "", "LD_LIBRARY_PATH": "/tool/lib"},
        "files": "./files/",
        "hosts": ["api.example.org", "*.example.org:80", "db.example.org:5432"],
        "isolation": 2,
        "mayBeWeaker": ["memory", "processes", "landlock", "seccomp"],
        "warm": 16,
        "workspace": "write"
    });
    declaration
}

fn module() -> Value {
    let mut declaration = file_read();
    declaration["runtime"] = json!({
        "kind": "wasm", "module": "main.wasm", "arguments": ["a b"], "environment": {"A": "b"},
        "files": ".", "fuel": 1_000_000, "workspace": "read"
    });
    declaration
}

fn changed(mut declaration: Value, pointer: &str, value: &Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = declaration.pointer_mut(parent).unwrap();
    match value {
        Value::Null => drop(parent.as_object_mut().unwrap().remove(key)),
        value => parent[key] = value.clone(),
    }
    declaration
}

#[test]
fn programs_that_say_everything_are_clean() {
    for whole in [program(), module()] {
        assert_eq!(lint(&whole), []);
        let declaration = Declaration::from_value(whole.clone()).unwrap();
        let written = serde_json::to_value(&declaration).unwrap();
        assert_eq!(written, whole);
    }
}

#[test]
fn every_mistake_of_a_program_has_its_code_and_place() {
    let long: Vec<_> = (0..257).map(|_| "x").collect();
    for (pointer, value, code, place) in [
        ("command", Value::Null, "FIELD_MISSING", ""),
        ("command", json!("python3 main.py"), "FIELD_TYPE", "/command"),
        ("command", json!([]), "COMMAND_INVALID", "/command"),
        ("command", json!([""]), "COMMAND_INVALID", "/command/0"),
        ("command", json!(["a", 1]), "FIELD_TYPE", "/command/1"),
        ("command", json!(["a", "b\u{0}"]), "COMMAND_INVALID", "/command/1"),
        ("command", json!(long), "COMMAND_INVALID", "/command"),
        ("command", json!(["x".repeat(70_000)]), "COMMAND_INVALID", "/command"),
        ("command", json!(["python3 main.py"]), "COMMAND_IS_SHELL_LINE", "/command/0"),
        ("shell", json!(true), "FIELD_UNKNOWN", "/shell"),
        ("environment", json!([]), "FIELD_TYPE", "/environment"),
        ("environment", json!({"path": "x"}), "ENVIRONMENT_INVALID", "/environment/path"),
        ("environment", json!({"1A": "x"}), "ENVIRONMENT_INVALID", "/environment/1A"),
        ("environment", json!({"A=B": "x"}), "ENVIRONMENT_INVALID", "/environment/A=B"),
        ("environment", json!({"A": "\u{0}"}), "ENVIRONMENT_INVALID", "/environment/A"),
        ("environment", json!({"A": 1}), "FIELD_TYPE", "/environment/A"),
        ("environment", json!({"PATH": "/x"}), "ENVIRONMENT_RESERVED", "/environment/PATH"),
        ("files", json!("/etc"), "FILES_INVALID", "/files"),
        ("files", json!("a/../.."), "FILES_INVALID", "/files"),
        ("files", json!(".."), "FILES_INVALID", "/files"),
        ("files", json!(""), "FILES_INVALID", "/files"),
        ("files", json!("a\nb"), "FILES_INVALID", "/files"),
        ("hosts", json!(["API.example.org"]), "HOST_INVALID", "/hosts/0"),
        ("hosts", json!(["169.254.169.254"]), "HOST_INVALID", "/hosts/0"),
        ("hosts", json!(["a.org", "a.org"]), "HOST_DUPLICATE", "/hosts/1"),
        ("isolation", json!(1), "ISOLATION_TOO_LOW", "/isolation"),
        ("isolation", json!(0), "ISOLATION_TOO_LOW", "/isolation"),
        ("isolation", json!(3), "ISOLATION_UNKNOWN", "/isolation"),
        ("isolation", json!("2"), "FIELD_TYPE", "/isolation"),
        ("mayBeWeaker", json!(["namespaces"]), "BARRIER_UNKNOWN", "/mayBeWeaker/0"),
        ("mayBeWeaker", json!(["memory", "memory"]), "BARRIER_DUPLICATE", "/mayBeWeaker/1"),
        ("warm", json!(17), "LIMIT_OUT_OF_BOUNDS", "/warm"),
        ("workspace", json!("execute"), "WORKSPACE_INVALID", "/workspace"),
    ] {
        let declaration = changed(program(), &format!("/runtime/{pointer}"), &value);
        let findings = lint(&declaration);
        let place = format!("/runtime{place}");
        assert_eq!(codes(&findings), [(code, place.as_str())], "{pointer} = {value:.80}");
    }
    for (pointer, value, code, place) in [
        ("module", Value::Null, "FIELD_MISSING", ""),
        ("module", json!("../main.wasm"), "FILES_INVALID", "/module"),
        ("module", json!("main.py"), "MODULE_INVALID", "/module"),
        ("module", json!("main.wat"), "MODULE_INVALID", "/module"),
        ("fuel", json!(0), "LIMIT_OUT_OF_BOUNDS", "/fuel"),
        ("hosts", json!(["a.org"]), "FIELD_UNKNOWN", "/hosts"),
        ("arguments", json!(["a\u{0}"]), "COMMAND_INVALID", "/arguments/0"),
    ] {
        let mut declaration = changed(module(), &format!("/runtime/{pointer}"), &value);
        // A host of a module is refused as such; that it also lacks a capability is beside it.
        declaration["deterministic"] = json!(false);
        declaration["requiredCapabilities"] = json!(["filesystem.read", "network.https"]);
        let findings = lint(&declaration);
        let place = format!("/runtime{place}");
        assert_eq!(codes(&findings), [(code, place.as_str())], "{pointer} = {value:.80}");
    }
}

#[test]
fn what_a_program_reaches_must_be_declared() {
    let bare = changed(program(), "/requiredCapabilities", &json!([]));
    assert_eq!(
        codes(&lint(&bare)),
        [
            ("CAPABILITY_UNDECLARED", "/runtime/hosts/0"),
            ("CAPABILITY_UNDECLARED", "/runtime/hosts/1"),
            ("CAPABILITY_UNDECLARED", "/runtime/hosts/2"),
            ("CAPABILITY_UNDECLARED", "/runtime/workspace"),
            ("CAPABILITY_UNDECLARED", "/runtime/workspace"),
            ("CAPABILITY_UNDECLARED", "/runtime/workspace"),
        ]
    );
    let hints: Vec<_> = lint(&bare).into_iter().filter_map(|finding| finding.hint).collect();
    for (hint, name) in hints.iter().zip(["https", "http", "tcp", "read", "write", "delete"]) {
        assert!(hint.contains(&format!(".{name}`")), "{hint}");
    }
    for limit in ["maxCpuTime", "maxThreads", "maxTotalSize", "maxInodes", "maxOutput"] {
        let pointer = format!("/resourceLimits/{limit}");
        for value in [json!(0), json!(20_000_000_000_u64)] {
            let findings = lint(&changed(program(), &pointer, &value));
            assert_eq!(codes(&findings), [("LIMIT_OUT_OF_BOUNDS", pointer.as_str())], "{value}");
        }
    }
}

#[test]
fn values_that_are_no_declaration_are_named() {
    assert_eq!(codes(&lint(&json!([]))), [("DECLARATION_NOT_OBJECT", "")]);
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(codes(&lint(&deep)), [("DECLARATION_TOO_DEEP", "")]);
    let parse = |text: &[u8]| Declaration::parse(text).unwrap_err();
    assert_eq!(codes(&parse(b"{\"id\":1,\"id\":2}")), [("INPUT_DUPLICATE_KEY", "")]);
    assert_eq!(codes(&parse(b"id: file.read")), [("INPUT_NOT_JSON", "")]);
    assert_eq!(codes(&parse(&vec![b' '; 600 * 1024])), [("INPUT_TOO_LARGE", "")]);
    let deep = (0..33).fold(json!({"type": "null"}), |inner, _| json!({"items": [inner]}));
    let findings = lint(&with("/inputSchema/not", deep));
    assert!(codes(&findings).contains(&("SCHEMA_TOO_DEEP", "/inputSchema")), "{findings:?}");
}

#[test]
fn all_problems_are_said_at_once_and_misspellings_are_guessed() {
    let mut declaration = file_read();
    let map = declaration.as_object_mut().unwrap();
    map.remove("idempotent");
    map.insert("idempotant".into(), json!(true));
    map.insert("version".into(), json!("one"));
    map.insert("requiredCapabilities".into(), json!(["filesystem.raed", "filesystem.delete"]));
    map.insert("resourceLimits".into(), json!({"max_memory": 1}));
    map["inputSchema"]["properties"]["path"] = json!({"pattern": "(?!x)", "format": "what"});
    map["inputSchema"]["properties"]["two"] = json!({"pattern": "\\1"});
    let findings = lint(&declaration);
    let codes = codes(&findings);
    for expected in [
        ("FIELD_UNKNOWN", "/idempotant"),
        ("FIELD_MISSING", ""),
        ("VERSION_INVALID", "/version"),
        ("CAPABILITY_UNKNOWN", "/requiredCapabilities/0"),
        ("CAPABILITY_PREREQUISITE", "/requiredCapabilities/1"),
        ("FIELD_UNKNOWN", "/resourceLimits/max_memory"),
        ("FIELD_MISSING", "/resourceLimits"),
        ("SCHEMA_PATTERN_UNSUPPORTED", "/inputSchema/properties/path/pattern"),
        ("SCHEMA_FORMAT_UNKNOWN", "/inputSchema/properties/path/format"),
        ("SCHEMA_PATTERN_UNSUPPORTED", "/inputSchema/properties/two/pattern"),
        ("PROPERTY_TYPE_MISSING", "/inputSchema/properties/two"),
    ] {
        assert!(codes.contains(&expected), "{expected:?} not in {codes:?}");
    }
    let shown: Vec<_> = findings.iter().map(Finding::to_string).collect();
    for hint in ["`idempotent`", "`filesystem.read`", "`maxMemory`"] {
        let hint = format!("did you mean {hint}?");
        assert!(shown.iter().any(|line| line.ends_with(&hint)), "{hint} not in {shown:#?}");
    }
}

/// The rules of section 6.3 inside schemas: what is added to `inputSchema`, what is found.
#[test]
fn the_schema_rules_reach_every_depth() {
    let text = json!({"type": "string", "description": "Text."});
    let closed = json!({"type": "object", "properties": {"a": text}, "required": [],
        "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"a": {}}});
    let all = |base: &str| {
        vec![
            ("ADDITIONAL_PROPERTIES_OPEN".to_owned(), base.to_owned()),
            ("REQUIRED_MISSING".to_owned(), base.to_owned()),
            ("PROPERTY_TYPE_MISSING".to_owned(), format!("{base}/properties/a")),
            ("PROPERTY_DESCRIPTION_MISSING".to_owned(), format!("{base}/properties/a")),
        ]
    };
    for (keyword, wrap, suffix) in [
        ("$defs", json!({"x": open}), "/x"),
        (
            "properties",
            json!({"path": text, "x": {"type": "array", "description": "L.",
            "items": open}}),
            "/x/items",
        ),
        (
            "properties",
            json!({"path": text, "x": {"type": "array", "description": "L.",
            "prefixItems": [closed, open]}}),
            "/x/prefixItems/1",
        ),
        (
            "properties",
            json!({"path": text, "x": {"type": "array", "description": "L.",
            "items": {"anyOf": [closed, open]}}}),
            "/x/items/anyOf/1",
        ),
        (
            "$defs",
            json!({"x": {"type": "object", "$comment": "A map.",
            "additionalProperties": open}}),
            "/x/additionalProperties",
        ),
        ("$defs", json!({"x": {"items": {"unevaluatedItems": open}}}), "/x/items/unevaluatedItems"),
        ("$defs", json!({"x": {"contentSchema": open}}), "/x/contentSchema"),
    ] {
        let findings = lint(&with(&format!("/inputSchema/{keyword}"), wrap));
        let found: Vec<_> =
            findings.iter().map(|f| (f.code.to_string(), f.pointer.clone())).collect();
        assert_eq!(found, all(&format!("/inputSchema/{keyword}{suffix}")), "{keyword}{suffix}");
    }
}

#[test]
fn sensible_schemas_are_left_alone() {
    let text = json!({"type": "string", "description": "Text."});
    for (keyword, value) in [
        ("properties", json!({"path": {"$ref": "#/$defs/p", "description": "Where."}})),
        ("properties", json!({"path": text, "old": false})),
        (
            "properties",
            json!({"path": text, "map": {"type": "object", "description": "Labels.",
            "$comment": "Names are free.", "additionalProperties": {"type": "string"}}}),
        ),
        (
            "properties",
            json!({"path": text, "any": {"type": "object", "description": "Settings.",
            "unevaluatedProperties": false, "properties": {}, "required": []}}),
        ),
        ("if", json!({"properties": {"path": {"const": "/"}}, "required": ["path"]})),
        ("not", json!({"required": ["other"]})),
        ("then", json!({"required": ["path"]})),
        ("anyOf", json!([{"required": ["path"]}, {"properties": {"path": {"minLength": 3}}}])),
        ("allOf", json!([{"properties": {"more": text}, "required": ["more", "path"]}])),
        ("oneOf", json!([{"$ref": "#/$defs/base"}])),
    ] {
        let mut declaration = with(&format!("/inputSchema/{keyword}"), value);
        declaration["inputSchema"]["$defs"] = json!({"p": {"type": "string"}, "base": {
            "type": "object", "properties": {"q": text}, "required": [],
            "additionalProperties": true, "$comment": "The whole closes it."}});
        assert_eq!(lint(&declaration), [], "{keyword}");
    }
    let mut declaration = with("/inputSchema/allOf", json!([{"$ref": "#/$defs/base"}]));
    declaration["inputSchema"]["required"] = json!(["path", "q"]);
    declaration["inputSchema"]["$defs"] = json!({"base": {"type": "object",
        "properties": {"q": text}, "required": ["q"], "$comment": "Open.",
        "additionalProperties": true}});
    assert_eq!(lint(&declaration), []);
}
