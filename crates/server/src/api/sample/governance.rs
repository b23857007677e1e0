//! The approval gate: a run that waits at one, answered by a character of the suite.

use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use countersign_flow::event::wire;
use countersign_flow::{Actor, Command, Refusal as Decided, Resolution, Status, Target};
use countersign_model::{KeyScope, RunId};
use countersign_workflow::{Begin, Engine, Trouble};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NODE, workflow};
use crate::api::roles::{Roles, SECOND};
use crate::api::{Api, answer};
use crate::auth::Caller;
use crate::body::Json;
use crate::error::Refusal;
use crate::route::Route;

const GATE: &str = "countersign-sample-approval-gate";
const QUORUM: &str = "countersign-sample-approval-quorum";

pub(super) fn workflows() -> Vec<Value> {
    let gate = |id: &str, quorum: u64| {
        let config = json!({"requiredRole": "approver", "quorum": quorum,
            "override": {"requiredRole": "owner", "audited": true}});
        workflow(id, "core.openwop.governance.approvalGate", &config)
    };
    vec![gate(GATE, 1), gate(QUORUM, 2)]
}

pub(super) fn routes() -> Vec<Route<Api>> {
    let scenarios = ["unauthorized-grant", "grant", "reject", "override", "quorum"];
    let path = "/v1/host/sample/governance/approval-gate";
    vec![
        Route::new(Method::POST, path, "sampleApprovalGate", pass)
            .summary("Begin a run that waits at an approval gate, and answer it")
            .scope(KeyScope::ApprovalsRespond)
            .request(json!({"type": "object", "required": ["scenario", "principal"],
                "properties": {"scenario": {"enum": scenarios}, "principal": {"type": "string"},
                    "reason": {"type": "string"}}}))
            .answer(200, "What came of it", json!({"type": "object", "required": ["released"]}))
            .refuses(&[400, 401, 403, 429]),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scenario {
    UnauthorizedGrant,
    Grant,
    Reject,
    Override,
    Quorum,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    scenario: Scenario,
    principal: String,
    reason: Option<String>,
}

impl Asked {
    fn value(&self) -> Value {
        let action = match self.scenario {
            Scenario::UnauthorizedGrant | Scenario::Grant | Scenario::Quorum => "accept",
            Scenario::Reject => "reject",
            Scenario::Override => "override",
        };
        match &self.reason {
            Some(reason) => json!({"action": action, "reason": reason}),
            None => json!({"action": action}),
        }
    }
}

async fn pass(
    State(api): State<Api>,
    caller: Caller,
    Json(asked): Json<Asked>,
) -> Result<Response, Refusal> {
    caller.needs(KeyScope::RunsCreate)?;
    let roles = api.0.roles;
    let shown = api.ask(move |engine| gated(engine, roles, caller, &asked)).await?;
    Ok(answer(StatusCode::OK, &shown))
}

fn gated(engine: &Engine, roles: Roles, caller: Caller, asked: &Asked) -> Result<Value, Refusal> {
    let gate = if asked.scenario == Scenario::Quorum { QUORUM } else { GATE };
    let begin = Begin {
        transport: Some("rest".to_owned()),
        ..Begin::new(gate, caller.tenant, caller.principal)
    };
    let run = engine.create(begin)?.run;
    let mut answered = respond(engine, roles, &run, &asked.principal, asked.value());
    if answered.is_ok() && asked.scenario == Scenario::Quorum && asked.principal != SECOND {
        answered = respond(engine, roles, &run, SECOND, asked.value());
    }
    let released = engine.view(&run)?.state.status() == Status::Completed;
    // Nobody is left to answer it.
    let reason = Some("the gate was tried".to_owned());
    engine.command(&run, &Command::Cancel { reason, by: None, parent: None })?;
    answered?;
    Ok(json!({"runId": run, "released": released, "event": told(engine, &run)?}))
}

/// An answer of somebody, on the way that all answers go. That they were turned away is an outcome.
fn respond(
    engine: &Engine,
    roles: Roles,
    run: &RunId,
    who: &str,
    value: Value,
) -> Result<(), Trouble> {
    let actor = Actor {
        principal: Some(who.to_owned()),
        machine: false,
        roles: roles.of(who),
        scopes: Vec::new(),
    };
    let target = Target::Node(NODE.to_owned());
    let wanted = Command::Resolve(Resolution { target, value, actor });
    match engine.command(run, &wanted) {
        Err(Trouble::Command(Decided::Forbidden { .. })) | Ok(_) => Ok(()),
        Err(trouble) => Err(trouble),
    }
}

const OUTCOMES: [&str; 4] =
    ["approval.granted", "approval.rejected", "approval.overridden", "authorization.decided"];

/// The last word about the gate, as the log has it.
fn told(engine: &Engine, run: &RunId) -> Result<Value, Trouble> {
    let definition = engine.view(run)?.definition;
    let events = engine.events(run, 0)?;
    let shown = events.iter().map(|event| wire(&definition, run.as_str(), event));
    let about = |event: &Value| {
        event.get("type").and_then(Value::as_str).is_some_and(|kind| OUTCOMES.contains(&kind))
    };
    Ok(shown.rev().find(about).unwrap_or_default())
}
