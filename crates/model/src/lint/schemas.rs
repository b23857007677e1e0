//! `inputSchema` and `outputSchema`: usable at all, and as explicit as RFC-0001 section 6.3 asks.

mod rules;

use serde_json::{Map, Value, json};

use super::report::Report;
use super::shape;
use crate::schema::{CompiledSchema, DIALECT, meta_violations, walk};

/// Patterns and formats judged one by one; each of them takes a moment to compile.
const MAX_PIECES: usize = 256;

pub(super) fn check(report: &mut Report, pointer: &str, value: &Value) {
    let Some(root) = shape::object(report, pointer, value) else { return };
    dialect(report, pointer, root);
    root_type(report, pointer, root);
    usable(report, pointer, value);
    rules::check(report, pointer, root);
}

fn dialect(report: &mut Report, pointer: &str, root: &Map<String, Value>) {
    if !root.contains_key("$schema") {
        report.add("SCHEMA_DIALECT_MISSING", pointer, "the schema does not say its `$schema`");
        report.hint(format!("write \"$schema\": \"{DIALECT}\""));
    }
}

fn root_type(report: &mut Report, pointer: &str, root: &Map<String, Value>) {
    let message = "the type at the root of this schema must be \"object\"";
    match root.get("type") {
        Some(Value::String(name)) if name == "object" => {}
        Some(_) => report.add("SCHEMA_ROOT_TYPE", &format!("{pointer}/type"), message),
        None => report.add("SCHEMA_ROOT_TYPE", pointer, message),
    }
}

/// The compiler stops at its first error, so what can be judged piece by piece is judged first.
fn usable(report: &mut Report, pointer: &str, schema: &Value) {
    let violations = meta_violations(schema);
    for violation in &violations {
        let place = format!("{pointer}{}", violation.pointer);
        report.add("SCHEMA_INVALID", &place, violation.message.clone());
    }
    let compiled = CompiledSchema::compile(schema);
    let Err(error) = compiled else { return };
    if error.code != "SCHEMA_INVALID" || violations.is_empty() {
        report.add_schema_error(pointer, error);
    }
    let mut left = MAX_PIECES;
    walk::each_schema(schema, |place, inner| {
        let pieces = pieces(inner, left);
        left -= pieces.len();
        let base = format!("{pointer}{place}");
        let errors = pieces.iter().filter_map(|piece| CompiledSchema::compile(piece).err());
        let known = ["SCHEMA_PATTERN_UNSUPPORTED", "SCHEMA_FORMAT_UNKNOWN"];
        let errors = errors.filter(|error| known.contains(&&*error.code));
        errors.for_each(|error| report.add_schema_error(&base, error));
    });
}

/// The patterns and the format of one schema, each as a schema of its own.
fn pieces(schema: &Value, most: usize) -> Vec<Value> {
    let keyed = schema.get("patternProperties").and_then(Value::as_object);
    let keyed =
        keyed.into_iter().flatten().map(|(key, _)| json!({"patternProperties": {key: true}}));
    let single = ["pattern", "format"].into_iter().filter_map(|keyword| {
        let text = schema.get(keyword).and_then(Value::as_str)?;
        Some(json!({ keyword: text }))
    });
    keyed.chain(single).take(most).collect()
}
