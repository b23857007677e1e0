//! What this host says of itself: what its engine offers, and nothing else.

use std::collections::BTreeMap;

use countersign_flow::Definition;
use countersign_workflow::Engine;
use serde_json::json;

use crate::discovery::{Family, Limits, Offer};

/// What is known of a host when it starts.
#[derive(Debug, Clone)]
pub struct Offered {
    pub conformance: bool,
    pub max_body_bytes: u64,
    pub inflight_cap: u32,
    pub limits: countersign_flow::Limits,
    /// Workflows that can be run here and that a suite knows by name.
    pub fixtures: Vec<String>,
}

impl Offered {
    pub fn of(engine: &Engine, max_body_bytes: usize, inflight_cap: u32) -> Offered {
        let settings = engine.settings();
        let known = |id: &str| id.starts_with("conformance-") || id.starts_with("openwop-smoke-");
        let offered = engine.library().all();
        let offered = offered.filter(|one| settings.offers.can_run(one) && is_served(one));
        let fixtures = match settings.offers.conformance {
            true => offered.map(|one| one.id.clone()).filter(|id| known(id)).collect(),
            false => Vec::new(),
        };
        Offered {
            conformance: settings.offers.conformance,
            max_body_bytes: max_body_bytes as u64,
            inflight_cap,
            limits: settings.limits,
            fixtures,
        }
    }
}

/// Whether everything that its nodes need outside of the engine is there: models that answer,
/// memories and secrets are not.
fn is_served(definition: &Definition) -> bool {
    definition.nodes.iter().all(|node| {
        !["core.ai.structuredOutput", "conformance.secret.echo"].contains(&node.type_id.as_str())
            && !node.config.contains_key("memoryAction")
    })
}

pub fn offer(offered: &Offered, version: &str) -> Offer {
    let mut families = vec![
        Family::DebugBundle,
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
        Family::SubWorkflow { input_mapping: true },
        Family::Other("conversationPrimitive", json!(true)),
    ];
    if offered.conformance {
        families.extend([Family::Orchestrator, Family::Dispatch]);
        families
            .push(Family::Testing { mock_providers: vec!["stream-text"], test_key_prefix: None });
        families.push(Family::Other("conformance", json!({"mockAgent": true})));
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
