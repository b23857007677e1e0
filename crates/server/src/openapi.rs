//! The OpenAPI document, made from the same table as the router.

use axum::body::{Body, Bytes};
use axum::http::{Method, header};
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::error::JSON;
use crate::route::{Access, Facts, Route, Table};
use crate::schema;

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
            "schemas": schema::all(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
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
            let schema = schema::segment(name);
            json!({"name": name, "in": "path", "required": true, "schema": schema})
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
        Access::Open => statuses.extend([400, 403]),
        Access::Token => statuses.extend([400, 403, 404, 429, 503]),
        Access::Key | Access::Scope(_) => statuses.extend([400, 401, 403, 429, 503]),
    }
    statuses.extend([408, 413, 414, 431, 500]);
    if facts.request.is_some() {
        statuses.extend([400, 415]);
    }
    if facts.idempotent && facts.access != Access::Open {
        statuses.push(409);
    }
    let mut responses = Map::new();
    for status in statuses {
        responses.insert(status.to_string(), refusal(status));
    }
    for (status, words, media, schema) in &facts.answers {
        let answer = responses.entry(status.to_string()).or_insert_with(|| json!({}));
        succeed(answer, words, media, schema);
    }
    Value::Object(responses)
}

fn refusal(status: u16) -> Value {
    let content = json!({"application/json": {"schema": schema::of("ErrorEnvelope")}});
    let mut refusal = json!({"description": "refused", "content": content});
    if let (429 | 503, Some(members)) = (status, refusal.as_object_mut()) {
        let seconds = json!({"required": true, "schema": {"type": "integer", "minimum": 1}});
        members.insert("headers".to_owned(), json!({"Retry-After": seconds}));
    }
    refusal
}

/// One status may have several media types. An answer without a schema has no body.
fn succeed(answer: &mut Value, words: &str, media: &str, schema: &Value) {
    let Some(members) = answer.as_object_mut() else { return };
    members.entry("description").or_insert_with(|| json!(words));
    if schema.is_null() {
        return;
    }
    let content = members.entry("content").or_insert_with(|| json!({}));
    if let Some(content) = content.as_object_mut() {
        content.insert(media.to_owned(), json!({"schema": schema}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Offered, table};

    fn document() -> Value {
        let offered = Offered {
            conformance: true,
            max_body_bytes: 1,
            inflight_cap: 1,
            limits: countersign_flow::Limits::default(),
            audit: Value::Null,
            fixtures: Vec::new(),
        };
        super::document(table(&offered, "0.1.0").unwrap().facts(), "0.1.0")
    }

    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn every_shape_is_there_and_used() {
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        for place in &found {
            let shape = document.pointer(place.trim_start_matches('#'));
            assert!(shape.is_some_and(Value::is_object), "{place}");
        }
        for name in schema::all().keys() {
            let place = format!("#/components/schemas/{name}");
            assert!(found.contains(&place.as_str()), "{name} is used nowhere");
        }
    }

    #[test]
    fn a_status_may_have_two_media_types() {
        let document = document();
        let answers = &document["paths"]["/v1/runs/{runId}/events"]["get"]["responses"];
        let media: Vec<_> = answers["200"]["content"].as_object().unwrap().keys().collect();
        assert_eq!(media, ["text/event-stream", "application/json"]);
        assert_eq!(answers["429"]["headers"]["Retry-After"]["required"], true);
    }
}
