//! The OpenAPI document, made from the same table as the router.

use axum::body::{Body, Bytes};
use axum::http::{Method, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::error::JSON;
use crate::route::{Access, Facts, Route, Table};

pub const PATH: &str = "/v1/openapi.json";

/// Adds the route that serves the document of this very table, itself included.
pub fn published<S: Clone + Send + Sync + 'static>(table: Table<S>, version: &str) -> Table<S> {
    let own = |document: Bytes| {
        let handler = move || {
            let document = document.clone();
            async move { answer(document) }
        };
        Route::new(Method::GET, PATH, "getOpenApi", handler)
            .summary("This document")
            .access(Access::Open)
            .answer(200, "OpenAPI 3.1", json!({"type": "object"}))
    };
    let facts = own(Bytes::new()).facts;
    let document = document(table.facts().chain([&facts]), version);
    table.with(own(Bytes::from(document.to_string())))
}

fn answer(document: Bytes) -> Response {
    let mut response = Response::new(Body::from(document));
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    let cached = axum::http::HeaderValue::from_static("public, max-age=300");
    response.headers_mut().insert(header::CACHE_CONTROL, cached);
    response
}

pub fn document<'f>(rows: impl Iterator<Item = &'f Facts>, version: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for facts in rows {
        // A wildcard of the router is a plain parameter to readers.
        let path = facts.path.replace("{*", "{");
        let item = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            item.insert(facts.method.as_str().to_ascii_lowercase(), operation(facts));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Countersign", "version": version, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": {"ErrorEnvelope": envelope()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    })
}

fn envelope() -> Value {
    json!({
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"type": "string", "minLength": 1},
            "message": {"type": "string", "minLength": 1},
            "details": {"type": "object"},
        },
        "additionalProperties": false,
    })
}

fn operation(facts: &Facts) -> Value {
    let mut operation = json!({
        "operationId": facts.operation,
        "summary": facts.summary,
        "security": security(facts.access),
        "parameters": parameters(facts),
        "responses": responses(facts),
    });
    if let (Some(object), Some(schema)) = (operation.as_object_mut(), &facts.request) {
        let required = schema.get("required").is_some();
        let content = json!({"application/json": {"schema": schema}});
        object.insert("requestBody".to_owned(), json!({"required": required, "content": content}));
    }
    if let (Some(object), Access::Scope(scope)) = (operation.as_object_mut(), facts.access) {
        object.insert("x-required-scope".to_owned(), json!(scope));
    }
    operation
}

fn security(access: Access) -> Value {
    match access {
        Access::Open | Access::Token => json!([]),
        Access::Key | Access::Scope(_) => json!([{"key": []}]),
    }
}

fn parameters(facts: &Facts) -> Vec<Value> {
    let in_path = facts.path.split('{').skip(1).filter_map(|part| part.split('}').next());
    let mut parameters: Vec<Value> = in_path
        .map(|name| {
            let name = name.trim_start_matches('*');
            json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
        })
        .collect();
    parameters.extend(facts.parameters.iter().map(|parameter| {
        json!({
            "name": parameter.name,
            "in": parameter.place,
            "required": parameter.required,
            "schema": parameter.schema,
        })
    }));
    if facts.idempotent && !matches!(facts.access, Access::Open | Access::Token) {
        let schema = json!({"type": "string", "minLength": 1, "maxLength": 255});
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false, "schema": schema,
        }));
    }
    parameters
}

/// What the gate answers stands beside what the handler does.
fn responses(facts: &Facts) -> Value {
    let mut statuses = facts.refusals.clone();
    match facts.access {
        Access::Open => statuses.push(403),
        Access::Token => statuses.extend([400, 403, 404, 429, 503]),
        Access::Key | Access::Scope(_) => statuses.extend([400, 401, 403, 429, 503]),
    }
    statuses.extend([408, 413, 500]);
    if facts.request.is_some() {
        statuses.extend([400, 415]);
    }
    if facts.idempotent && facts.access != Access::Open {
        statuses.push(409);
    }
    let mut responses = Map::new();
    for status in statuses {
        let schema = json!({"$ref": "#/components/schemas/ErrorEnvelope"});
        let content = json!({"application/json": {"schema": schema}});
        responses.insert(status.to_string(), json!({"description": "refused", "content": content}));
    }
    for (status, words, media, schema) in &facts.answers {
        responses.insert(status.to_string(), success(words, media, schema));
    }
    Value::Object(responses)
}

/// An answer without a schema has no body.
fn success(words: &str, media: &str, schema: &Value) -> Value {
    match schema {
        Value::Null => json!({"description": words}),
        schema => json!({"description": words, "content": {media: {"schema": schema}}}),
    }
}
