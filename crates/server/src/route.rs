//! One table of routes. The router is made from it, and so is the OpenAPI document: what is not in
//! here is not served, and what is in here cannot be left out of the document.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use countersign_model::KeyScope;
use serde_json::Value;

use crate::error::Refusal;
use crate::gate::{App, Edge};

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody, however often: for what a client needs before it has a key.
    Open,
    /// Whoever shows a good key.
    Key,
    /// Whoever shows a good key with this scope.
    Scope(KeyScope),
    /// Whoever holds the signed token that is part of the path.
    Token,
}

/// A parameter behind the question mark, or in a header.
#[derive(Debug, Clone)]
pub struct Parameter {
    pub name: &'static str,
    pub place: &'static str,
    pub required: bool,
    pub schema: Value,
}

/// What is known of a route, beside its handler.
#[derive(Debug, Clone)]
pub struct Facts {
    pub method: Method,
    /// As in OpenAPI, with verbs: `/v1/runs/{runId}:fork`.
    pub path: &'static str,
    pub operation: &'static str,
    pub summary: &'static str,
    pub access: Access,
    /// Whether an `Idempotency-Key` is heeded.
    pub idempotent: bool,
    pub request: Option<Value>,
    /// The largest body, where it is not the usual one.
    pub max_body: Option<usize>,
    /// Status, words, media type and schema of each success.
    pub answers: Vec<(u16, &'static str, &'static str, Value)>,
    pub refusals: Vec<u16>,
    pub parameters: Vec<Parameter>,
}

/// A row of the table.
#[derive(Debug, Clone)]
pub struct Route<S> {
    pub facts: Facts,
    handler: MethodRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// `operation` is its name in OpenAPI. A new route needs a good key, unless it says otherwise.
    pub fn new<H, T>(
        method: Method,
        path: &'static str,
        operation: &'static str,
        handler: H,
    ) -> Route<S>
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::TRACE);
        let facts = Facts {
            // Mutations are the ones that a client repeats in fear.
            idempotent: !matches!(method, Method::GET | Method::HEAD),
            method,
            path,
            operation,
            summary: operation,
            access: Access::Key,
            request: None,
            max_body: None,
            answers: Vec::new(),
            refusals: Vec::new(),
            parameters: Vec::new(),
        };
        Route { facts, handler: on(filter, handler) }
    }

    #[must_use]
    pub fn summary(mut self, words: &'static str) -> Self {
        self.facts.summary = words;
        self
    }

    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.facts.access = access;
        self
    }

    #[must_use]
    pub fn scope(self, scope: KeyScope) -> Self {
        self.access(Access::Scope(scope))
    }

    #[must_use]
    pub fn request(mut self, schema: Value) -> Self {
        self.facts.request = Some(schema);
        self
    }

    #[must_use]
    pub fn max_body(mut self, bytes: usize) -> Self {
        self.facts.max_body = Some(bytes);
        self
    }

    /// A success with a JSON body.
    #[must_use]
    pub fn answer(self, status: u16, words: &'static str, schema: Value) -> Self {
        self.answer_as(status, words, "application/json", schema)
    }

    #[must_use]
    pub fn answer_as(
        mut self,
        status: u16,
        words: &'static str,
        media: &'static str,
        schema: Value,
    ) -> Self {
        self.facts.answers.push((status, words, media, schema));
        self
    }

    #[must_use]
    pub fn refuses(mut self, statuses: &[u16]) -> Self {
        self.facts.refusals.extend_from_slice(statuses);
        self
    }

    #[must_use]
    pub fn parameter(mut self, name: &'static str, schema: Value) -> Self {
        self.facts.parameters.push(Parameter { name, place: "query", required: false, schema });
        self
    }

    #[must_use]
    pub fn required_parameter(mut self, name: &'static str, schema: Value) -> Self {
        self.facts.parameters.push(Parameter { name, place: "query", required: true, schema });
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, schema: Value) -> Self {
        self.facts.parameters.push(Parameter { name, place: "header", required: false, schema });
        self
    }
}

/// All routes. Paths are known by their inner spelling, which the router can match.
#[derive(Debug, Clone)]
pub struct Table<S> {
    rows: Vec<Route<S>>,
}

impl<S> Default for Table<S> {
    fn default() -> Self {
        Table { rows: Vec::new() }
    }
}

impl<S: Clone + Send + Sync + 'static> Table<S> {
    #[must_use]
    pub fn with(mut self, route: Route<S>) -> Self {
        self.rows.push(route);
        self
    }

    pub fn facts(&self) -> impl Iterator<Item = &Facts> {
        self.rows.iter().map(|row| &row.facts)
    }

    /// The application: routes behind the gate.
    pub fn app(self, state: S, edge: Arc<Edge>) -> App {
        let map = Arc::new(Map::new(self.facts()));
        let mut router = Router::new();
        for row in self.rows {
            router = router.route(&inner(row.facts.path), row.handler);
        }
        let router =
            router.fallback(nowhere).method_not_allowed_fallback(nowhere).with_state(state);
        App::new(router, map, edge)
    }
}

/// Never reached: the gate knows the table and refuses before.
async fn nowhere() -> Refusal {
    Refusal::not_found()
}

/// What the gate asks: which routes there are, by inner path.
#[derive(Debug)]
pub struct Map {
    by_path: BTreeMap<String, Vec<Arc<Facts>>>,
    /// What stands before the parameter of a route with a verb, and the verb.
    verbs: Vec<(String, String)>,
}

/// Begins a segment that only [`inner`] writes.
const MARK: &str = "/~";

impl Map {
    fn new<'f>(rows: impl Iterator<Item = &'f Facts>) -> Map {
        let mut map = Map { by_path: BTreeMap::new(), verbs: Vec::new() };
        for facts in rows {
            map.by_path.entry(inner(facts.path)).or_default().push(Arc::new(facts.clone()));
            map.verbs.extend(verb(facts.path));
        }
        map
    }

    /// The routes of a path, by the spelling that the router matched.
    pub(crate) fn at(&self, matched: &str) -> &[Arc<Facts>] {
        self.by_path.get(matched).map_or(&[], Vec::as_slice)
    }

    /// The path that the router shall see. Nothing if it could only be a trick, or has a verb that
    /// nobody knows.
    pub(crate) fn rewrite(&self, path: &str) -> Option<String> {
        if path.contains(MARK) {
            return None;
        }
        let tail = self.verbs.iter().find_map(|(prefix, _)| {
            path.strip_prefix(prefix.as_str()).filter(|tail| !tail.contains('/'))
        });
        let Some((name, word)) = tail.and_then(|tail| tail.rsplit_once(':')) else {
            return Some(path.to_owned());
        };
        let prefix = path.strip_suffix(&format!("{name}:{word}"))?;
        let known = self.verbs.iter().any(|(p, verb)| p == prefix && verb == word);
        (known && !name.is_empty()).then(|| format!("{prefix}{name}{MARK}{word}"))
    }
}

/// `/v1/runs/{runId}:fork` is matched as `/v1/runs/{runId}/~fork`: the router cannot split a
/// segment.
fn inner(path: &str) -> String {
    path.replace("}:", &format!("}}{MARK}"))
}

fn verb(path: &str) -> Option<(String, String)> {
    let (before, word) = path.split_once("}:")?;
    let (prefix, _) = before.rsplit_once('{')?;
    Some((prefix.to_owned(), word.to_owned()))
}

/// Whether a text can be the id of something: what else it might be is never looked up.
pub fn is_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=128).contains(&text.len()) && text.bytes().all(plain) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_are_segments_of_their_own_inside() {
        let table: Table<()> = Table::default()
            .with(Route::new(Method::POST, "/v1/runs/{runId}:fork", "fork", nowhere))
            .with(Route::new(Method::GET, "/v1/runs/{runId}:diff", "diff", nowhere))
            .with(Route::new(Method::POST, "/v1/runs:bulk-cancel", "bulk", nowhere))
            .with(Route::new(Method::GET, "/v1/files/{*path}", "file", nowhere));
        let map = Map::new(table.facts());
        let is = |path: &str, seen: &str| assert_eq!(map.rewrite(path).as_deref(), Some(seen));
        is("/v1/runs/a:fork", "/v1/runs/a/~fork");
        is("/v1/runs/a:b:fork", "/v1/runs/a:b/~fork");
        is("/v1/runs/a:fork/events", "/v1/runs/a:fork/events");
        is("/v1/runs:bulk-cancel", "/v1/runs:bulk-cancel");
        is("/v1/files/a:b", "/v1/files/a:b");
        is("/v1/runs/a", "/v1/runs/a");
        for trick in ["/v1/runs/a:nothing", "/v1/runs/:fork", "/v1/runs/a/~fork", "/v1/runs/a:"] {
            assert_eq!(map.rewrite(trick), None, "{trick}");
        }
        assert_eq!(map.at("/v1/runs/{runId}/~fork").len(), 1);
    }

    #[test]
    fn ids_hold_no_tricks() {
        assert!(is_id("run-019a7c3e-0000") && is_id("a.b_c"));
        for bad in ["", "..", ".a", "a/b", "a:b", "a b", "é", "a%2f", &"a".repeat(129)] {
            assert!(!is_id(bad), "{bad}");
        }
    }
}
