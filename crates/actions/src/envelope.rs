//! The envelopes of the action contract: what is asked, and what comes back.

use countersign_host::Outcome;
use countersign_model::{
    ArtifactId, ErrorClass, ExecutionId, Failure, Lifecycle, RunId, SandboxMode, WorkspaceId,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::catalogue::Action;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    pub action: String,
    pub run_id: RunId,
    #[serde(default)]
    pub inputs: Map<String, Value>,
    pub context: ActionContext,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionContext {
    /// Only tools of this set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// Without it, the least that the action needs, and never more than a workspace may change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxMode>,
    /// Where it works. There is no default: an action never works on whatever is around.
    pub workspace: WorkspaceId,
}

impl ActionContext {
    pub(crate) fn mode(&self, action: &Action) -> SandboxMode {
        self.sandbox.unwrap_or_else(|| action.mode.min(SandboxMode::WorkspaceWrite))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Success,
    Failed,
    Blocked,
    ApprovalRequired,
    TimedOut,
    Cancelled,
    /// The same was done before; this is what came of it.
    Replayed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRef {
    pub name: String,
    pub artifact_id: ArtifactId,
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActionResult {
    pub status: Status,
    pub artifacts: Vec<ArtifactRef>,
    pub summary: String,
    pub run_id: RunId,
    /// None if no call came to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution_id: Option<ExecutionId>,
    /// The call that really ran, for a result that was there already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<ExecutionId>,
    /// The typed output, as the action's schema says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
}

impl ActionResult {
    /// No call came to be.
    pub(crate) fn refused(run_id: RunId, failure: Failure) -> Self {
        ActionResult {
            status: status_of(None, &failure),
            artifacts: Vec::new(),
            summary: failure.message.clone(),
            run_id,
            execution_id: failure.execution_id,
            replayed_from: None,
            output: None,
            error: Some(failure),
        }
    }

    pub(crate) fn of(action: &Action, run_id: RunId, outcome: &Outcome) -> Self {
        match &outcome.result {
            Err(failure) => ActionResult {
                status: status_of(Some(outcome.state), failure),
                execution_id: Some(outcome.execution),
                ..Self::refused(run_id, with_hint(failure.clone(), outcome.execution))
            },
            Ok(output) => Self::done(action, run_id, outcome, output),
        }
    }

    fn done(action: &Action, run_id: RunId, outcome: &Outcome, output: &Value) -> Self {
        let summary = output.get("summary").and_then(Value::as_str).unwrap_or_default().to_owned();
        let error =
            unsettled(outcome).or_else(|| verdict(action, output, &summary, outcome.execution));
        let late = output.get("timed_out") == Some(&Value::Bool(true));
        let status = match (&error, outcome.replayed) {
            (Some(_), _) if late => Status::TimedOut,
            (Some(_), _) => Status::Failed,
            (None, Some(_)) => Status::Replayed,
            (None, None) => Status::Success,
        };
        let artifacts = output.get("artifacts").cloned().unwrap_or_default();
        ActionResult {
            status,
            artifacts: serde_json::from_value(artifacts).unwrap_or_default(),
            summary,
            run_id,
            execution_id: Some(outcome.execution),
            replayed_from: outcome.replayed,
            output: Some(output.clone()),
            error,
        }
    }
}

/// Whoever asks for an action and is told to wait wants an envelope in the end, too.
fn with_hint(failure: Failure, execution: ExecutionId) -> Failure {
    if failure.code != "APPROVAL_REQUIRED" {
        return failure;
    }
    failure.hint(format!(
        "a human decides with `countersign approval show {execution}`; then run it with \
         `countersign action resume {execution}`"
    ))
}

/// A change that may not be in place is no success, whatever the action answered.
fn unsettled(outcome: &Outcome) -> Option<Failure> {
    if outcome.unsettled.is_empty() {
        return None;
    }
    let places = outcome.unsettled.join(", ");
    let message = format!("the call is recorded, but its change may not be in place: {places}");
    Some(
        Failure::state("OUTCOME_UNKNOWN", message)
            .hint("look there: something else stood in the way when it was published")
            .details(json!({"unsettled": outcome.unsettled}))
            .of_execution(outcome.execution),
    )
}

/// An action may do its work and still say no: then what it found is kept, and the answer is no.
fn verdict(
    action: &Action,
    output: &Value,
    summary: &str,
    execution: ExecutionId,
) -> Option<Failure> {
    let code = action.verdict?;
    if output.get("passed") == Some(&Value::Bool(true)) {
        return None;
    }
    let failure = match output.get("timed_out") {
        Some(Value::Bool(true)) => Failure::timeout("TIME_LIMIT", summary),
        _ => Failure::execution(code, summary),
    };
    Some(failure.hint("the artifacts of this call say what was found").of_execution(execution))
}

fn status_of(state: Option<Lifecycle>, failure: &Failure) -> Status {
    match (state, failure.class) {
        _ if failure.code == "CANCELLED" => Status::Cancelled,
        (Some(Lifecycle::Validated), _) => Status::ApprovalRequired,
        (Some(Lifecycle::Denied), _) | (None, ErrorClass::AuthorizationError) => Status::Blocked,
        (_, ErrorClass::TimeoutError) => Status::TimedOut,
        _ => Status::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;

    #[test]
    fn unknown_fields_are_errors_wherever_they_stand() {
        let request = |value: Value| serde_json::from_value::<ActionRequest>(value);
        let good = json!({"action": "run_tests", "run_id": "run_1", "inputs": {},
            "context": {"workspace": "app", "sandbox": "workspace_write", "toolset": "t"}});
        assert!(request(good.clone()).is_ok());
        for pointer in ["", "/context"] {
            let mut bad = good.clone();
            bad.pointer_mut(pointer).unwrap()["surprise"] = json!(1);
            assert!(request(bad).is_err(), "{pointer}");
        }
        let mut bad = good;
        bad["context"]["sandbox"] = json!("all_access");
        assert!(request(bad).is_err());
    }

    #[test]
    fn an_omitted_mode_never_widens_access() {
        let context =
            |sandbox| ActionContext { toolset: None, sandbox, workspace: "app".parse().unwrap() };
        for (action, least) in [
            ("run_tests", SandboxMode::ReadOnly),
            ("apply_patch", SandboxMode::WorkspaceWrite),
            ("commit_changes", SandboxMode::WorkspaceWrite),
        ] {
            assert_eq!(context(None).mode(find(action).unwrap()), least, "{action}");
        }
        let asked = context(Some(SandboxMode::RepoWrite));
        assert_eq!(asked.mode(find("run_tests").unwrap()), SandboxMode::RepoWrite);
    }
}
