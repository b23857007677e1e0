//! What this host says of itself: what its engine offers, and nothing else.

use std::collections::BTreeMap;

use countersign_flow::Definition;
use countersign_flow::definition::Node;
use countersign_workflow::{Engine, MOST_MEMORY_BYTES, Secrets};
use serde_json::{Value, json};

use super::audit::Notary;
use super::files;
use super::roles::ROLES;
use crate::discovery::{Family, Limits, Offer};

/// What is known of a host when it starts.
#[derive(Debug, Clone)]
pub struct Offered {
    pub conformance: bool,
    pub max_body_bytes: u64,
    pub inflight_cap: u32,
    pub limits: countersign_flow::Limits,
    /// What the journal's checkpoints are verified with, as clients are told.
    pub audit: serde_json::Value,
    /// Workflows that can be run here and that a suite knows by name.
    pub fixtures: Vec<String>,
}

impl Offered {
    pub fn of(engine: &Engine, max_body_bytes: usize, inflight_cap: u32) -> Offered {
        let settings = engine.settings();
        let known = |id: &str| id.starts_with("conformance-") || id.starts_with("openwop-smoke-");
        let offered = engine.library().all();
        let served = |one: &Definition| is_served(one, &settings.secrets);
        let offered = offered.filter(|one| settings.offers.can_run(one) && served(one));
        let fixtures = match settings.offers.conformance {
            true => offered.map(|one| one.id.clone()).filter(|id| known(id)).collect(),
            false => Vec::new(),
        };
        Offered {
            conformance: settings.offers.conformance,
            max_body_bytes: max_body_bytes as u64,
            inflight_cap,
            limits: settings.limits,
            audit: Notary::of(engine.host().home()).told(),
            fixtures,
        }
    }
}

/// Members of a workflow's metadata that name what has to be installed before it means anything.
/// There are no packs here: nothing can be installed.
const INSTALLED: [&str; 2] = ["requiresInstalledPack", "requiresWorkspaceAgent"];

/// Whether everything is there that its nodes need beside their types: secrets that this host holds,
/// and nothing that comes in packs. What no type offers (other hosts, MCP servers, types of packs,
/// prompts, channels of deployments) is refused by the types themselves.
fn is_served(definition: &Definition, secrets: &Secrets) -> bool {
    let metadata = definition.source().get("metadata");
    let installed = |name: &str| metadata.is_some_and(|metadata| metadata.get(name).is_some());
    !INSTALLED.iter().any(|name| installed(name))
        && definition.nodes.iter().filter_map(secret_of).all(|name| secrets.has(name))
}

fn secret_of(node: &Node) -> Option<&str> {
    node.text("secretId").or_else(|| node.text("byokSecretId"))
}

pub fn offer(offered: &Offered, version: &str) -> Offer {
    let mut families = vec![
        Family::DebugBundle,
        Family::Webhooks,
        Family::Replay { modes: vec!["replay", "branch"] },
        Family::PauseResume { drain_policies: vec!["drain-current-node", "immediate"] },
        Family::Production { inflight_cap: offered.inflight_cap, retry_after_seconds: 1 },
        Family::Interrupts {
            profiles: vec![
                "openwop-interrupt-quorum",
                "openwop-interrupt-auth-required",
                "openwop-interrupt-external-event",
                "openwop-interrupt-cascade-cancel",
            ],
            signed_tokens: true,
        },
        Family::Feedback {
            targets: vec!["run", "event", "node"],
            signals: vec!["rating", "correction", "label", "flag"],
        },
        Family::Workspace {
            max_file_bytes: files::MOST_BYTES as u64,
            max_files: files::MOST_FILES as u64,
            max_versions: files::MOST_VERSIONS,
        },
        Family::Auth {
            profiles: vec!["openwop-audit-log-integrity"],
            audit_log_integrity: Some(offered.audit.clone()),
        },
        Family::SubWorkflow { input_mapping: true },
        Family::Other("conversationPrimitive", json!(true)),
    ];
    if offered.conformance {
        families.extend([Family::Orchestrator, Family::Dispatch]);
        families
            .push(Family::Testing { mock_providers: vec!["stream-text"], test_key_prefix: None });
        families.push(Family::Other("conformance", json!({"mockAgent": true})));
        families.extend(driven().map(|(name, value)| Family::Other(name, value)));
    }
    Offer {
        name: "countersign".to_owned(),
        version: version.to_owned(),
        vendor: "countersign".to_owned(),
        engine_version: 1,
        event_log_schema_version: 2,
        envelopes: vec!["clarification.request".to_owned()],
        schema_versions: BTreeMap::new(),
        limits: Limits {
            clarification_rounds: 1,
            schema_rounds: 3,
            envelopes_per_turn: 1,
            max_node_executions: Some(offered.limits.max_node_executions),
            max_run_duration_ms: Some(offered.limits.max_run_duration_ms),
            max_loop_iterations: Some(offered.limits.max_loop_iterations),
            max_request_body_bytes: Some(offered.max_body_bytes),
        },
        fixtures: offered.fixtures.clone(),
        families,
    }
}

/// What only nodes of conformance workflows use: there is no other way to it.
fn driven() -> [(&'static str, Value); 5] {
    let roles: Vec<Value> =
        ROLES.iter().map(|(role, scopes)| json!({"role": role, "scopes": scopes})).collect();
    let events = [
        "envelope.retry.attempted",
        "envelope.retry.exhausted",
        "envelope.refusal",
        "envelope.truncated",
        "envelope.nlToFormat.engaged",
        "envelope.recovery.applied",
    ];
    [
        (
            "agents",
            json!({"supported": true, "memoryBackends": ["long-term"], "orchestrator": true,
                "dispatch": true, "dispatchMapping": true, "reasoning": {"streaming": true}}),
        ),
        ("authorization", json!({"supported": true, "failClosed": true, "roles": roles})),
        (
            "envelopes",
            json!({"reliability": {"supported": true, "events": events, "maxRetryAttempts": 3,
                "completion": {"distinguishesTruncation": true, "truncationBudgetMultiplier": 2}}}),
        ),
        (
            "memory",
            json!({"supported": true, "writable": true, "ttlSupported": true,
                "maxEntrySizeBytes": MOST_MEMORY_BYTES, "retention": {"ttl": true, "forget": false},
                "attribution": {"supported": true, "emitsWriteEvents": true}}),
        ),
        // Of the host alone: no tenant and no user can bring one.
        ("secrets", json!({"supported": true, "scopes": [], "resolution": "host-managed"})),
    ]
}
