//! From a schema document to the graph of its schemas. References stay inside the document.

use std::collections::{HashMap, HashSet};

use jsonschema::{Draft, Registry, Retrieve, Uri};
use referencing::Resolver;
use serde_json::Value;

use super::SchemaError;
use super::graph::{Edge, Graph, Node};
use super::walk::{Site, each_schema, subschemas};
use crate::json::shorten;

/// Where a document without an `$id` lives; nothing is ever read from there.
const HOME: &str = "json-schema:///";
const META: &str = "https://json-schema.org/draft/2020-12/";

/// The answer to every request for a document that is not at hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct NeverFetch;

impl Retrieve for NeverFetch {
    fn retrieve(
        &self,
        _uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("references are never fetched".into())
    }
}

pub(super) fn graph_of(schema: &Value) -> Result<Graph, SchemaError> {
    let resource = Draft::Draft202012.create_resource_ref(schema);
    let refuse = |error: referencing::Error| of_document(schema, &error);
    let home = jsonschema::uri::from_str(resource.id().unwrap_or(HOME)).map_err(refuse)?;
    let registry = Registry::new()
        .retriever(NeverFetch)
        .draft(Draft::Draft202012)
        .add(home.as_str(), resource)
        .and_then(|builder| builder.prepare())
        .map_err(refuse)?;
    let mut builder = Builder::new(schema);
    builder.place(schema, &registry.resolver(home), "");
    builder.finish()
}

/// One schema that was found and not yet looked into.
struct Waiting<'r> {
    index: usize,
    schema: &'r Value,
    resolver: Resolver<'r>,
    pointer: String,
}

struct Builder<'r> {
    /// Addresses of everything in the document: what is not among them came from elsewhere.
    document: HashSet<usize>,
    /// Addresses of what stands in the place of a schema, and was therefore looked at as one.
    schemas: HashSet<usize>,
    known: HashMap<usize, usize>,
    nodes: Vec<Node>,
    waiting: Vec<Waiting<'r>>,
    anchors: Vec<(String, usize)>,
    dynamic: Vec<(String, usize)>,
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

impl<'r> Builder<'r> {
    fn new(schema: &Value) -> Self {
        let mut document = HashSet::new();
        note_addresses(schema, &mut document);
        let mut schemas = HashSet::new();
        each_schema(schema, |_, inner| {
            schemas.insert(address(inner));
        });
        Builder {
            document,
            schemas,
            known: HashMap::new(),
            nodes: Vec::new(),
            waiting: Vec::new(),
            anchors: Vec::new(),
            dynamic: Vec::new(),
        }
    }

    /// The node of `schema`, made and queued when it is new.
    fn place(&mut self, schema: &'r Value, resolver: &Resolver<'r>, pointer: &str) -> usize {
        let index = self.nodes.len();
        if let Some(&known) = self.known.get(&address(schema)) {
            return known;
        }
        self.known.insert(address(schema), index);
        self.nodes.push(Node::of(schema, pointer));
        let (resolver, pointer) = (resolver.clone(), pointer.to_owned());
        self.waiting.push(Waiting { index, schema, resolver, pointer });
        index
    }

    fn finish(mut self) -> Result<Graph, SchemaError> {
        while let Some(next) = self.waiting.pop() {
            self.look_into(&next)?;
        }
        for (name, from) in std::mem::take(&mut self.dynamic) {
            self.join_anchors(&name, from);
        }
        Graph::new(self.nodes)
    }

    fn look_into(&mut self, found: &Waiting<'r>) -> Result<(), SchemaError> {
        let Some(map) = found.schema.as_object() else { return Ok(()) };
        let resource = Draft::Draft202012.create_resource_ref(found.schema);
        let resolver = found
            .resolver
            .in_subresource(resource)
            .map_err(|error| of_reference(&found.pointer, "$id", &error))?;
        for inner in subschemas(map) {
            let to = self.place(inner.schema, &resolver, &inner.pointer(&found.pointer));
            self.join(found.index, inner.site, to);
        }
        if let Some(Value::String(name)) = map.get("$dynamicAnchor") {
            self.anchors.push((name.clone(), found.index));
        }
        for keyword in ["$ref", "$dynamicRef"] {
            self.refer(found, &resolver, keyword, map.get(keyword))?;
        }
        Ok(())
    }

    fn refer(
        &mut self,
        found: &Waiting<'r>,
        resolver: &Resolver<'r>,
        keyword: &str,
        reference: Option<&Value>,
    ) -> Result<(), SchemaError> {
        let Some(Value::String(reference)) = reference else { return Ok(()) };
        let refuse = |error| of_reference(&found.pointer, keyword, &error);
        let (target, resolver, _) = resolver.lookup(reference).map_err(refuse)?.into_inner();
        if keyword == "$dynamicRef" {
            let name = reference.rsplit('#').next().unwrap_or_default();
            self.dynamic.push((name.to_owned(), found.index));
            let anchor = target.get("$dynamicAnchor").and_then(Value::as_str);
            if anchor == Some(name) && self.schemas.contains(&address(target)) {
                // Joined with all anchors of that name in the end; twice would count double.
                return Ok(());
            }
        }
        if self.schemas.contains(&address(target)) {
            let to = self.place(target, &resolver, &format!("{}/{keyword}", found.pointer));
            self.join(found.index, Site::Here, to);
            return Ok(());
        }
        self.leave_document(found, keyword, reference, address(target), &resolver)
    }

    /// The meta-schema is embedded and well-behaved; everything else outside is a stranger.
    fn leave_document(
        &mut self,
        found: &Waiting<'r>,
        keyword: &str,
        reference: &str,
        addressed: usize,
        resolver: &Resolver<'r>,
    ) -> Result<(), SchemaError> {
        let pointer = format!("{}/{keyword}", found.pointer);
        if self.document.contains(&addressed) {
            return Err(no_schema(&pointer, reference));
        }
        if !resolver.base_uri().as_str().starts_with(META) {
            return Err(external(&pointer, reference));
        }
        let to = self.nodes.len();
        self.nodes.push(Node::meta_schema());
        self.join(found.index, Site::Here, to);
        Ok(())
    }

    /// Which anchor a dynamic reference means depends on the way there, so it counts as all.
    fn join_anchors(&mut self, name: &str, from: usize) {
        let targets: Vec<_> =
            self.anchors.iter().filter(|(anchor, _)| anchor == name).map(|(_, to)| *to).collect();
        for to in targets {
            self.join(from, Site::Here, to);
        }
    }

    fn join(&mut self, from: usize, site: Site, to: usize) {
        let edge = Edge { site, to };
        if let Some(node) = self.nodes.get_mut(from) {
            node.join(edge);
        }
    }
}

fn note_addresses(value: &Value, addresses: &mut HashSet<usize>) {
    addresses.insert(address(value));
    match value {
        Value::Array(items) => items.iter().for_each(|inner| note_addresses(inner, addresses)),
        Value::Object(map) => map.values().for_each(|inner| note_addresses(inner, addresses)),
        _ => {}
    }
}

/// The registry does not say where a reference stands, so the first suspect is named.
fn of_document(schema: &Value, error: &referencing::Error) -> SchemaError {
    let mut suspect = None;
    each_schema(schema, |pointer, inner| {
        for keyword in ["$ref", "$dynamicRef"] {
            let reference = inner.get(keyword).and_then(Value::as_str);
            if let Some(reference) = reference.filter(|text| !text.starts_with('#')) {
                suspect.get_or_insert((format!("{pointer}/{keyword}"), reference));
            }
        }
    });
    match (error, suspect) {
        (referencing::Error::Unretrievable { .. }, Some((pointer, reference))) => {
            external(&pointer, reference)
        }
        _ => of_reference("", "$id", error),
    }
}

fn of_reference(pointer: &str, keyword: &str, error: &referencing::Error) -> SchemaError {
    let pointer = format!("{pointer}/{keyword}");
    if let referencing::Error::Unretrievable { uri, .. } = error {
        return external(&pointer, uri);
    }
    let reason = shorten(&error.to_string(), 200);
    SchemaError::new("SCHEMA_REF_UNRESOLVED", pointer, format!("the reference fails: {reason}"))
        .hint("refer to a schema that exists, such as \"#/$defs/name\"")
}

fn no_schema(pointer: &str, reference: &str) -> SchemaError {
    let message = format!("`{}` does not point at a schema", shorten(reference, 120));
    SchemaError::new("SCHEMA_REF_UNRESOLVED", pointer, message)
        .hint("keep shared schemas under `$defs`")
}

fn external(pointer: &str, reference: &str) -> SchemaError {
    let message = format!("`{}` leaves the document", shorten(reference, 120));
    SchemaError::new("SCHEMA_REF_EXTERNAL", pointer, message)
        .hint("nothing is ever fetched: copy the schema to `$defs` and refer to it there")
}
