//! Where a schema holds further schemas, and which part of a value each of them judges.

use serde_json::{Map, Value};

use crate::json::{push_index, push_segment};

/// The part of the judged value a subschema is applied to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Site {
    /// The value itself.
    Here,
    Member(String),
    /// Every member that `properties` beside it does not name.
    OtherMembers,
    EachMember,
    /// The names of the members, each a string.
    Names,
    Item(usize),
    ItemsFrom(usize),
    /// Nothing, until something refers to it.
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Subschema<'a> {
    pub(crate) keyword: &'static str,
    /// The key under `keyword`, for keywords that hold a map of schemas.
    pub(crate) name: Option<&'a str>,
    pub(crate) index: Option<usize>,
    pub(crate) site: Site,
    pub(crate) schema: &'a Value,
}

impl Subschema<'_> {
    /// The pointer of this subschema, below the pointer of the schema that holds it.
    pub(crate) fn pointer(&self, parent: &str) -> String {
        let mut pointer = parent.to_owned();
        push_segment(&mut pointer, self.keyword);
        if let Some(name) = self.name {
            push_segment(&mut pointer, name);
        }
        if let Some(index) = self.index {
            push_index(&mut pointer, index);
        }
        pointer
    }
}

const ONE: &[(&str, Site)] = &[
    ("not", Site::Here),
    ("if", Site::Here),
    ("then", Site::Here),
    ("else", Site::Here),
    ("additionalProperties", Site::OtherMembers),
    ("unevaluatedProperties", Site::EachMember),
    ("propertyNames", Site::Names),
    ("contains", Site::ItemsFrom(0)),
    ("unevaluatedItems", Site::ItemsFrom(0)),
    ("contentSchema", Site::Nowhere),
];
const LISTS: &[&str] = &["allOf", "anyOf", "oneOf"];
const MAPS: &[(&str, Site)] = &[
    ("patternProperties", Site::EachMember),
    ("dependentSchemas", Site::Here),
    ("dependencies", Site::Here),
    ("$defs", Site::Nowhere),
    ("definitions", Site::Nowhere),
];

/// Every schema directly inside `schema`. Malformed keywords hold none.
pub(crate) fn subschemas(schema: &Map<String, Value>) -> Vec<Subschema<'_>> {
    let mut found = Vec::new();
    for (keyword, site) in ONE {
        found.extend(schema.get(*keyword).map(|inner| single(keyword, site.clone(), inner)));
    }
    for keyword in LISTS {
        found.extend(listed(schema, keyword, |_| Site::Here));
    }
    found.extend(listed(schema, "prefixItems", Site::Item));
    let first = schema.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
    found.extend(schema.get("items").map(|inner| single("items", Site::ItemsFrom(first), inner)));
    found.extend(mapped(schema, "properties", |name| Site::Member(name.to_owned())));
    for (keyword, site) in MAPS {
        found.extend(mapped(schema, keyword, |_| site.clone()));
    }
    found.retain(|inner| matches!(inner.schema, Value::Object(_) | Value::Bool(_)));
    found
}

fn single<'a>(keyword: &'static str, site: Site, schema: &'a Value) -> Subschema<'a> {
    Subschema { keyword, name: None, index: None, site, schema }
}

fn listed<'a>(
    schema: &'a Map<String, Value>,
    keyword: &'static str,
    site: impl Fn(usize) -> Site + 'a,
) -> impl Iterator<Item = Subschema<'a>> {
    let items = schema.get(keyword).and_then(Value::as_array);
    items.into_iter().flatten().enumerate().map(move |(index, schema)| {
        let site = site(index);
        Subschema { keyword, name: None, index: Some(index), site, schema }
    })
}

fn mapped<'a>(
    schema: &'a Map<String, Value>,
    keyword: &'static str,
    site: impl Fn(&str) -> Site + 'a,
) -> impl Iterator<Item = Subschema<'a>> {
    let entries = schema.get(keyword).and_then(Value::as_object);
    entries.into_iter().flatten().map(move |(name, schema)| {
        let site = site(name);
        Subschema { keyword, name: Some(name), index: None, site, schema }
    })
}

/// Visits every schema of a document, the outermost first, with its pointer.
pub(crate) fn each_schema<'a>(root: &'a Value, mut visit: impl FnMut(&str, &'a Value)) {
    let mut waiting = vec![(String::new(), root)];
    while let Some((pointer, schema)) = waiting.pop() {
        visit(&pointer, schema);
        let Some(map) = schema.as_object() else { continue };
        let inner = subschemas(map);
        waiting.extend(inner.iter().rev().map(|sub| (sub.pointer(&pointer), sub.schema)));
    }
}
