//! What this host says it can do. The facts come from whoever embeds it: nothing is claimed here
//! that nobody offered.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Method, header};
use axum::response::Response;
use countersign_model::{Digest, Failure};
use serde_json::{Map, Value, json};

use crate::error::JSON;
use crate::route::{Access, Route};
use crate::schema;

pub const PATH: &str = "/.well-known/openwop";
pub const PROTOCOL_VERSION: &str = "1.0";

/// What is offered.
#[derive(Debug, Clone)]
pub struct Offer {
    pub name: String,
    pub version: String,
    pub vendor: String,
    pub engine_version: u32,
    pub event_log_schema_version: u32,
    /// Kinds of envelopes, such as `clarification.request`.
    pub envelopes: Vec<String>,
    pub schema_versions: BTreeMap<String, u32>,
    pub limits: Limits,
    /// Ids of workflows that conformance suites may run.
    pub fixtures: Vec<String>,
    pub families: Vec<Family>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    pub clarification_rounds: u32,
    pub schema_rounds: u32,
    pub envelopes_per_turn: u32,
    pub max_node_executions: Option<u64>,
    pub max_run_duration_ms: Option<u64>,
    pub max_loop_iterations: Option<u64>,
    pub max_request_body_bytes: Option<u64>,
}

/// One thing that a host may be able to do. A family that is not in the list is not offered.
#[derive(Debug, Clone)]
pub enum Family {
    DebugBundle,
    Replay {
        modes: Vec<&'static str>,
    },
    PauseResume {
        drain_policies: Vec<&'static str>,
    },
    Webhooks,
    Auth {
        profiles: Vec<&'static str>,
        audit_log_integrity: Option<Value>,
    },
    Production {
        inflight_cap: u32,
        retry_after_seconds: u32,
    },
    Feedback {
        targets: Vec<&'static str>,
        signals: Vec<&'static str>,
    },
    Interrupts {
        profiles: Vec<&'static str>,
        signed_tokens: bool,
    },
    SubWorkflow {
        input_mapping: bool,
    },
    Orchestrator,
    Dispatch,
    Workspace {
        max_file_bytes: u64,
        max_files: u64,
        max_versions: u64,
    },
    Testing {
        mock_providers: Vec<&'static str>,
        test_key_prefix: Option<String>,
    },
    /// Whatever has no row of its own yet.
    Other(&'static str, Value),
}

impl Family {
    fn entry(&self) -> (&'static str, Value) {
        let supported = json!({"supported": true});
        match self {
            Family::DebugBundle => ("debugBundle", supported),
            Family::Replay { modes } => ("replay", json!({"supported": true, "modes": modes})),
            Family::PauseResume { drain_policies } => {
                let pause = json!({"supported": true, "drainPolicies": drain_policies});
                ("runs", json!({"pauseResume": pause}))
            }
            Family::Webhooks => {
                ("webhooks", json!({"supported": true, "signatureAlgorithms": ["v1"]}))
            }
            Family::Auth { profiles, audit_log_integrity: None } => {
                ("auth", json!({"profiles": profiles}))
            }
            Family::Auth { profiles, audit_log_integrity: Some(audit) } => {
                ("auth", json!({"profiles": profiles, "auditLogIntegrity": audit}))
            }
            Family::Production { inflight_cap, retry_after_seconds } => {
                let pressure = json!({
                    "supported": true,
                    "inflightCap": inflight_cap,
                    "retryAfterSeconds": retry_after_seconds,
                });
                ("production", json!({"supported": true, "backpressure": pressure}))
            }
            Family::Feedback { targets, signals } => {
                ("feedback", json!({"supported": true, "targets": targets, "signals": signals}))
            }
            Family::Interrupts { profiles, signed_tokens } => {
                let told = json!({"profiles": profiles, "signedCallbackTokens": signed_tokens});
                ("extensions", json!({"interrupts": told}))
            }
            Family::SubWorkflow { input_mapping } => {
                ("subWorkflow", json!({"inputMapping": input_mapping}))
            }
            Family::Orchestrator => ("orchestrator", supported),
            Family::Dispatch => ("dispatch", supported),
            Family::Workspace { max_file_bytes, max_files, max_versions } => {
                let told = json!({
                    "supported": true,
                    "versioned": true,
                    "maxFileBytes": max_file_bytes,
                    "maxFiles": max_files,
                    "maxVersions": max_versions,
                });
                ("workspace", told)
            }
            Family::Testing { mock_providers, test_key_prefix } => {
                let mut told = json!({"mockProviders": mock_providers});
                if let Some(prefix) = test_key_prefix {
                    merge(&mut told, json!({"testKeyPrefix": prefix}));
                }
                ("testing", told)
            }
            Family::Other(name, value) => (name, value.clone()),
        }
    }
}

/// The document as it is served.
#[derive(Debug, Clone)]
pub struct Document {
    pub body: Bytes,
    /// The same for the same document, on every host.
    pub etag: String,
}

impl Offer {
    pub fn document(&self) -> Result<Document, Failure> {
        let value = self.value()?;
        let body = Bytes::from(value.to_string());
        let etag = format!("\"{}\"", Digest::of(&body).short());
        Ok(Document { body, etag })
    }

    /// Families stand at the root, and once more under `capabilities`, where older readers look.
    pub fn value(&self) -> Result<Value, Failure> {
        let mut families = Value::Object(Map::new());
        for family in &self.families {
            let (name, value) = family.entry();
            merge(&mut families, json!({name: value}));
        }
        let mut root = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "supportedEnvelopes": self.envelopes,
            "schemaVersions": self.schema_versions,
            "implementation": {"name": self.name, "version": self.version, "vendor": self.vendor},
            "engineVersion": self.engine_version,
            "eventLogSchemaVersion": self.event_log_schema_version,
            "supportedTransports": ["rest"],
            "limits": self.limits.value(),
            "fixtures": self.fixtures,
        });
        merge(&mut root, families.clone());
        let mut mirror = json!({"limits": self.limits.value()});
        merge(&mut mirror, families);
        merge(&mut root, json!({"capabilities": mirror}));
        check(&root)?;
        Ok(root)
    }
}

impl Limits {
    fn value(&self) -> Value {
        let mut limits = json!({
            "clarificationRounds": self.clarification_rounds,
            "schemaRounds": self.schema_rounds,
            "envelopesPerTurn": self.envelopes_per_turn,
        });
        let further = [
            ("maxNodeExecutions", self.max_node_executions),
            ("maxRunDurationMs", self.max_run_duration_ms),
            ("maxLoopIterations", self.max_loop_iterations),
            ("maxRequestBodyBytes", self.max_request_body_bytes),
        ];
        for (name, value) in further {
            if let Some(value) = value {
                merge(&mut limits, json!({name: value}));
            }
        }
        limits
    }
}

/// Objects become one; of two other values the second counts.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                match into.get_mut(&name) {
                    Some(there) => merge(there, value),
                    None => drop(into.insert(name, value)),
                }
            }
        }
        (into, from) => *into = from,
    }
}

/// Words that would claim what no host of this protocol may offer, or that readers search for.
const FORBIDDEN_NAMES: [&str; 8] =
    ["exec", "shell", "spawn", "runCommand", "runScript", "subprocess", "systemCall", "eval"];

fn check(value: &Value) -> Result<(), Failure> {
    let bad = |word: &str| {
        let message = format!("the discovery document may not have the word `{word}`");
        Err(Failure::validation("DISCOVERY_INVALID", message))
    };
    match value {
        Value::String(text) if text == "edit" => bad("edit"),
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(members) => {
            members.iter().try_for_each(|(name, value)| {
                match FORBIDDEN_NAMES.contains(&name.as_str()) || name == "edit" {
                    true => bad(name),
                    false => check(value),
                }
            })
        }
        _ => Ok(()),
    }
}

/// The route of the document: open to all, and never limited.
pub fn route<S: Clone + Send + Sync + 'static>(document: Document) -> Route<S> {
    let handler = move || {
        let document = document.clone();
        async move { answer(&document) }
    };
    Route::new(Method::GET, PATH, "getDiscovery", handler)
        .summary("What this host can do")
        .access(Access::Open)
        .answer(200, "The discovery document", schema::of("Discovery"))
}

fn answer(document: &Document) -> Response {
    let mut response = Response::new(Body::from(document.body.clone()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        headers.insert("capabilities-etag", etag);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(families: Vec<Family>) -> Offer {
        Offer {
            name: "countersign".to_owned(),
            version: "0.1.0".to_owned(),
            vendor: "countersign".to_owned(),
            engine_version: 1,
            event_log_schema_version: 2,
            envelopes: vec!["clarification.request".to_owned()],
            schema_versions: BTreeMap::new(),
            limits: Limits { max_node_executions: Some(100), ..Limits::default() },
            fixtures: Vec::new(),
            families,
        }
    }

    #[test]
    fn families_stand_at_the_root_and_in_the_mirror() {
        let families = vec![
            Family::DebugBundle,
            Family::Other("limits", json!({"maxBudgetTokens": 5})),
            Family::Other("runs", json!({"other": 1})),
            Family::PauseResume { drain_policies: vec!["immediate"] },
        ];
        let value = offer(families).value().unwrap();
        for place in [&value, &value["capabilities"]] {
            assert_eq!(place["debugBundle"], json!({"supported": true}));
            assert_eq!(place["limits"]["maxNodeExecutions"], 100);
            assert_eq!(place["limits"]["maxBudgetTokens"], 5);
            assert_eq!(
                (&place["runs"]["other"], &place["runs"]["pauseResume"]["supported"]),
                (&json!(1), &json!(true))
            );
        }
        assert!(value.get("replay").is_none(), "what is not offered is not there");
    }

    #[test]
    fn forbidden_words_are_found_wherever_they_stand() {
        for bad in [
            Family::Other("x", json!({"actions": ["accept", "edit"]})),
            Family::Other("x", json!({"shell": true})),
            Family::Other("exec", json!({})),
        ] {
            assert_eq!(offer(vec![bad]).document().unwrap_err().code, "DISCOVERY_INVALID");
        }
        let fine = Family::Other("x", json!({"actions": ["edit-accept"]}));
        let (one, two) = (offer(vec![fine.clone()]).document(), offer(vec![fine]).document());
        assert_eq!(one.unwrap().etag, two.unwrap().etag);
    }
}
