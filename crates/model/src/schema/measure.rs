//! Bounds on a schema, checked before anything walks it without a net.

use std::collections::BTreeSet;

use serde_json::Value;

use super::walk::each_schema;
use super::{DIALECT, SchemaError};
use crate::digest::canonical_json;
use crate::json::shorten;

pub(crate) const MAX_BYTES: usize = 256 * 1024;
pub(crate) const MAX_DEPTH: usize = 64;
/// Patterns are small automata; this many of the largest size still fit into memory with ease.
const MAX_PATTERNS: usize = 256;

/// Schemas with an `$id` of their own below the root. What a dynamic reference means depends on the
/// order in which such schemas were entered, and the validator compiles one schema for each order.
const MAX_RESOURCES: usize = 4;

/// Whether containers nest at most `limit` deep. Never looks deeper than that itself.
pub(crate) fn nests_within(value: &Value, limit: usize) -> bool {
    let fits = |inner: &Value| limit > 0 && nests_within(inner, limit - 1);
    match value {
        Value::Array(items) => limit > 0 && items.iter().all(fits),
        Value::Object(map) => limit > 0 && map.values().all(fits),
        _ => true,
    }
}

pub(super) fn schema_size(schema: &Value) -> Result<(), SchemaError> {
    if !nests_within(schema, MAX_DEPTH) {
        let message = format!("the schema nests deeper than {MAX_DEPTH} levels");
        return Err(SchemaError::new("SCHEMA_TOO_DEEP", "", message)
            .hint("move inner schemas to `$defs` and refer to them"));
    }
    let bytes = canonical_json(schema)
        .map_err(|error| SchemaError::new("SCHEMA_INVALID", "", error.to_string()))?;
    if bytes.len() > MAX_BYTES {
        let message = format!("the schema has {} bytes, more than {MAX_BYTES}", bytes.len());
        return Err(SchemaError::new("SCHEMA_TOO_LARGE", "", message));
    }
    Ok(())
}

/// A `$schema` inside a subschema would switch dialects halfway; an `$id` in the meta-schema's
/// name space would replace what the meta-schema says.
pub(super) fn dialects(schema: &Value) -> Result<(), SchemaError> {
    let mut found = Ok(());
    each_schema(schema, |pointer, inner| {
        if found.is_ok() {
            found = dialect_of(pointer, inner).and(id_of(pointer, inner));
        }
    });
    found
}

fn dialect_of(pointer: &str, schema: &Value) -> Result<(), SchemaError> {
    match schema.get("$schema") {
        None => Ok(()),
        Some(Value::String(uri)) if uri == DIALECT => Ok(()),
        Some(other) => Err(SchemaError::new(
            "SCHEMA_DIALECT_WRONG",
            format!("{pointer}/$schema"),
            format!("`{}` is not the dialect of this schema", shown(other)),
        )
        .hint(format!("write \"$schema\": \"{DIALECT}\""))),
    }
}

fn shown(value: &Value) -> String {
    shorten(value.as_str().unwrap_or("this value"), 80)
}

fn id_of(pointer: &str, schema: &Value) -> Result<(), SchemaError> {
    match schema.get("$id").and_then(Value::as_str) {
        Some(id) if id.contains("json-schema.org/") => Err(SchemaError::new(
            "SCHEMA_INVALID",
            format!("{pointer}/$id"),
            format!("the id `{}` belongs to the JSON Schema standard", shorten(id, 80)),
        )),
        _ => Ok(()),
    }
}

pub(super) fn resources(schema: &Value) -> Result<(), SchemaError> {
    let mut found = 0;
    each_schema(schema, |pointer, inner| {
        found += usize::from(!pointer.is_empty() && inner.get("$id").is_some());
    });
    if found > MAX_RESOURCES {
        let message = format!("{found} schemas inside this one have an `$id`");
        return Err(SchemaError::too_complex("", message)
            .hint(format!("at most {MAX_RESOURCES} may have one: use `$defs` without `$id`")));
    }
    Ok(())
}

pub(super) fn patterns(schema: &Value) -> Result<(), SchemaError> {
    let mut patterns = BTreeSet::new();
    each_schema(schema, |_, inner| {
        patterns.extend(inner.get("pattern").and_then(Value::as_str));
        let keyed = inner.get("patternProperties").and_then(Value::as_object);
        patterns.extend(keyed.into_iter().flatten().map(|(pattern, _)| pattern.as_str()));
    });
    if patterns.len() > MAX_PATTERNS {
        let message =
            format!("the schema has {} patterns, more than {MAX_PATTERNS}", patterns.len());
        return Err(SchemaError::too_complex("", message));
    }
    Ok(())
}
