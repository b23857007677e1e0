//! What a schema must say although JSON Schema would let it be silent.
//!
//! - Members of `properties` and `patternProperties` have a `description`, and a `type` or a
//!   reference.
//! - An object schema with `properties` has `required`, which names declared properties only.
//! - An object schema is closed: `additionalProperties` or `unevaluatedProperties` is false, or
//!   has another value and a `$comment` beside it says why.
//!
//! Schemas under `allOf`, `anyOf`, `oneOf`, `then`, `else` and `dependentSchemas` of an object
//! schema are *fragments* of it: they judge the same object, so it is the whole that is closed and
//! says what is required, and properties the whole declares need not be described again. What
//! stands under `if`, `not`, `contains` and `propertyNames` is a test and declares nothing.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::super::report::{Report, below};
use crate::json::{push_index, shorten};
use crate::schema::walk::{Subschema, subschemas};

type Schema = Map<String, Value>;
type Names<'a> = BTreeSet<&'a str>;

const FRAGMENTS: &[&str] =
    &["allOf", "anyOf", "oneOf", "then", "else", "dependentSchemas", "dependencies"];
const TESTS: &[&str] = &["if", "not", "contains", "propertyNames"];
const MEMBERS: &[&str] = &["properties", "patternProperties"];

pub(super) fn check(report: &mut Report, pointer: &str, root: &Schema) {
    Rules { report, root }.schema(pointer, root, None);
}

struct Rules<'a, 'r> {
    report: &'r mut Report,
    root: &'a Schema,
}

impl<'a> Rules<'a, '_> {
    /// `whole` holds what the object declares that this schema is a fragment of.
    fn schema(&mut self, pointer: &str, schema: &'a Schema, whole: Option<&Names<'a>>) {
        let mut declared = whole.cloned().unwrap_or_default();
        self.declared(schema, &mut declared, &mut BTreeSet::new());
        if whole.is_none() && is_object(schema) {
            self.closed(pointer, schema);
            self.has_required(pointer, schema);
        }
        self.required_names(pointer, schema, &declared);
        let fragment_of = (whole.is_some() || is_object(schema)).then_some(&declared);
        for inner in subschemas(schema) {
            self.inner(&inner.pointer(pointer), &inner, whole, fragment_of);
        }
    }

    fn inner(
        &mut self,
        pointer: &str,
        inner: &Subschema<'a>,
        whole: Option<&Names<'a>>,
        fragment_of: Option<&Names<'a>>,
    ) {
        let said_before = inner.name.is_some_and(|name| whole.is_some_and(|w| w.contains(name)));
        let member = MEMBERS.contains(&inner.keyword);
        if member && !said_before {
            self.member(pointer, inner.schema);
        }
        let Some(schema) = inner.schema.as_object() else { return };
        if TESTS.contains(&inner.keyword) || member && said_before && !schema.contains_key("type") {
            return;
        }
        let whole = fragment_of.filter(|_| FRAGMENTS.contains(&inner.keyword));
        self.schema(pointer, schema, whole);
    }

    /// A property that is forbidden (`false`) has no type and nothing to describe.
    fn member(&mut self, pointer: &str, member: &Value) {
        if member == &Value::Bool(false) {
            return;
        }
        let typed = ["type", "$ref", "$dynamicRef"].iter().any(|key| member.get(key).is_some());
        if !typed {
            self.report.add("PROPERTY_TYPE_MISSING", pointer, "the property has no `type`");
        }
        let description = member.get("description").and_then(Value::as_str);
        if description.is_none_or(|text| text.trim().is_empty()) {
            let message = "the property has no `description`";
            self.report.add("PROPERTY_DESCRIPTION_MISSING", pointer, message);
        }
    }

    fn closed(&mut self, pointer: &str, schema: &Schema) {
        let says = |key: &str| schema.get(key);
        let keys = ["additionalProperties", "unevaluatedProperties"];
        let closed = keys.iter().any(|key| says(key) == Some(&Value::Bool(false)));
        let reason = says("$comment").and_then(Value::as_str).unwrap_or_default();
        let excused = keys.iter().any(|key| says(key).is_some()) && !reason.trim().is_empty();
        if !closed && !excused {
            let message = "the object takes properties that are not declared";
            self.report.add("ADDITIONAL_PROPERTIES_OPEN", pointer, message);
            self.report.hint(
                "set `additionalProperties` to false, or say in a `$comment` beside it why not",
            );
        }
    }

    fn has_required(&mut self, pointer: &str, schema: &Schema) {
        if schema.contains_key("properties") && !schema.contains_key("required") {
            let message = "the object does not say which properties are `required`";
            self.report.add("REQUIRED_MISSING", pointer, message);
            self.report.hint("write \"required\": [] when none is");
        }
    }

    fn required_names(&mut self, pointer: &str, schema: &Schema, declared: &Names<'a>) {
        let names = schema.get("required").and_then(Value::as_array);
        for (index, name) in names.into_iter().flatten().enumerate() {
            let Some(name) = name.as_str().filter(|name| !declared.contains(name)) else {
                continue;
            };
            let mut place = below(pointer, "required");
            push_index(&mut place, index);
            let message = format!("`{}` is required but not declared", shorten(name, 80));
            self.report.add("REQUIRED_UNDECLARED", &place, message);
            let known = declared.iter().copied().filter(|_| declared.len() <= MAX_GUESSES);
            super::super::spelling::hint(name, known).into_iter().for_each(|h| self.report.hint(h));
        }
    }

    /// The properties an object schema declares: its own, its fragments', and those it refers to.
    fn declared(&self, schema: &'a Schema, names: &mut Names<'a>, seen: &mut BTreeSet<usize>) {
        if !seen.insert(std::ptr::from_ref(schema).addr()) {
            return;
        }
        let own = schema.get("properties").and_then(Value::as_object);
        names.extend(own.into_iter().flatten().map(|(name, _)| name.as_str()));
        for inner in subschemas(schema) {
            let fragment = inner.schema.as_object().filter(|_| FRAGMENTS.contains(&inner.keyword));
            fragment.into_iter().for_each(|part| self.declared(part, names, seen));
        }
        if let Some(target) = self.target(schema).filter(|_| seen.len() < MAX_FOLLOWED) {
            self.declared(target, names, seen);
        }
    }

    /// What a plain `#/…` reference means. Other references are the compiler's business.
    fn target(&self, schema: &Schema) -> Option<&'a Schema> {
        let reference = schema.get("$ref").and_then(Value::as_str)?.strip_prefix("#/")?;
        let (first, rest) = reference.split_once('/').unwrap_or((reference, ""));
        let inner = self.root.get(&first.replace("~1", "/").replace("~0", "~"))?;
        let rest = if rest.is_empty() { String::new() } else { format!("/{rest}") };
        inner.pointer(&rest)?.as_object()
    }
}

/// Comparing every required name with every declared one takes too long when there are many.
const MAX_GUESSES: usize = 64;
/// Chains of references longer than this are refused by the compiler anyway.
const MAX_FOLLOWED: usize = 64;

fn is_object(schema: &Schema) -> bool {
    let says_object = match schema.get("type") {
        Some(Value::String(name)) => name == "object",
        Some(Value::Array(names)) => names.iter().any(|name| name == "object"),
        _ => false,
    };
    says_object || MEMBERS.iter().any(|keyword| schema.contains_key(*keyword))
}
