//! From an envelope to a call, and back.

use std::sync::Arc;

use countersign_host::tool::Progress;
use countersign_host::work::WorkPlace;
use countersign_host::{CallCommand, Cancel, Given, Host, Outcome};
use countersign_model::{Consumed, ExecutionId, Failure, Principal, RunId, ToolRef, WorkspaceId};
use countersign_repository::Credential;
use serde_json::{Map, Value};

use crate::catalogue::{Action, by_tool, find};
use crate::envelope::{ActionRequest, ActionResult};
use crate::resolve::resolve;

/// Who asks, and how.
#[derive(Debug, Clone)]
pub struct Asker {
    pub principal: Principal,
    /// On whose behalf, nearest first.
    pub chain: Vec<Principal>,
    /// Do it even if it was done before; not where it must be done once.
    pub fresh: bool,
    pub cancel: Cancel,
    pub progress: Progress,
    /// For what is done elsewhere in somebody's name; recorded nowhere.
    pub credential: Option<Arc<Credential>>,
    /// The name of the call, where it has one before it begins: the same call is made once.
    pub execution: Option<ExecutionId>,
}

impl Asker {
    pub fn new(principal: Principal) -> Self {
        Asker {
            principal,
            chain: Vec::new(),
            fresh: false,
            cancel: Cancel::default(),
            progress: Progress::default(),
            credential: None,
            execution: None,
        }
    }
}

/// Runs an action from its envelope to its result. `Err` means that the journal failed.
///
/// An action that exists becomes a call, whatever else is wrong with the request: what was asked
/// for and refused stands in the journal like what was done.
pub fn run(host: &Host, request: ActionRequest, asker: Asker) -> Result<ActionResult, Failure> {
    let run_id = request.run_id.clone();
    let action = match find(&request.action) {
        Ok(action) => action,
        Err(failure) => return Ok(ActionResult::refused(run_id, failure)),
    };
    let execution = asker.execution;
    let called = command(host, action, request, asker).and_then(|command| match execution {
        Some(execution) => host.call_once(execution, command),
        None => host.call(command),
    });
    match called {
        Ok(outcome) => Ok(ActionResult::of(action, run_id, &outcome)),
        Err(failure) if is_hosts_own(&failure) => Err(failure),
        Err(failure) => Ok(ActionResult::refused(run_id, failure)),
    }
}

/// Runs an action that people were asked about, if they agreed.
pub fn resume(
    host: &Host,
    execution: ExecutionId,
    given: impl Into<Given>,
) -> Result<ActionResult, Failure> {
    let (action, run_id) = called(host, execution)?;
    let outcome = host.resume(execution, given)?;
    Ok(ActionResult::of(action, run_id, &outcome))
}

/// What a call of an action came to, for whoever has followed it to its end.
pub fn result_of(host: &Host, outcome: &Outcome) -> Result<ActionResult, Failure> {
    let (action, run_id) = called(host, outcome.execution)?;
    Ok(ActionResult::of(action, run_id, outcome))
}

/// Which action a call is of, and of which run.
fn called(host: &Host, execution: ExecutionId) -> Result<(&'static Action, RunId), Failure> {
    let call = host.home().store.call(execution)?;
    let of = call.and_then(|call| Some((by_tool(&call.tool)?, call.work?.run)));
    of.ok_or_else(|| {
        let message = format!("execution {execution} is no call of an action");
        Failure::validation("NOT_AN_ACTION", message)
            .hint("take it up with `countersign execution resume`")
    })
}

/// What says nothing about the action: no answer can be given.
fn is_hosts_own(failure: &Failure) -> bool {
    failure.code.starts_with("JOURNAL_")
}

/// What the action needs: where it works and what it was given.
struct Prepared {
    inputs: Map<String, Value>,
    consumes: Vec<Consumed>,
    work: Option<Arc<WorkPlace>>,
}

fn command(
    host: &Host,
    action: &Action,
    request: ActionRequest,
    asker: Asker,
) -> Result<CallCommand, Failure> {
    let tool = ToolRef { id: action.tool_id()?, version: None };
    let Asker { principal, chain, fresh, cancel, progress, credential, .. } = asker;
    let mode = request.context.mode(action);
    let (prepared, obstacle) = match prepare(host, action, &tool, &request, &principal) {
        Ok(prepared) => (prepared, None),
        Err(failure) if is_hosts_own(&failure) => return Err(failure),
        Err(failure) => (Prepared::nothing(request.inputs), Some(failure)),
    };
    let input = serde_json::to_vec(&Value::Object(prepared.inputs))
        .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
    Ok(CallCommand {
        chain,
        consumes: prepared.consumes,
        mode,
        toolset: request.context.toolset,
        work: prepared.work,
        fresh,
        obstacle,
        given: Given { cancel, credential, progress },
        ..CallCommand::new(tool, input, principal)
    })
}

/// Laying out a worktree costs time and space, and finding artifacts says what exists: nothing of it
/// is for those who hold no grant.
fn prepare(
    host: &Host,
    action: &Action,
    tool: &ToolRef,
    request: &ActionRequest,
    principal: &Principal,
) -> Result<Prepared, Failure> {
    let ActionRequest { run_id, inputs, context, .. } = request;
    host.check_holder(tool, principal)
        .map_err(|failure| about_workspace(host, &context.workspace, failure))?;
    let (inputs, consumes) = resolve(host, action, run_id, &context.workspace, inputs.clone())?;
    let work = host.open_work(&context.workspace, run_id)?;
    Ok(Prepared { inputs, consumes, work: Some(Arc::new(work)) })
}

/// A grant of everything would help as well, and is more than anybody wants: the hint names the
/// workspace, or where to find one.
fn about_workspace(host: &Host, id: &WorkspaceId, failure: Failure) -> Failure {
    let everything = "--scope '**'";
    match (host.workspace(id), &failure.hint) {
        (Ok(workspace), Some(hint))
            if hint.contains(everything) && !workspace.path.contains('\'') =>
        {
            let narrow = format!("--scope '{}/**'", workspace.path);
            let hint = hint.replace(everything, &narrow);
            failure.hint(hint)
        }
        (_, Some(hint)) if hint.contains(everything) => failure.hint(
            "a human grants it on a workspace: `countersign workspace list` says which there are",
        ),
        _ => failure,
    }
}

impl Prepared {
    fn nothing(inputs: Map<String, Value>) -> Self {
        Prepared { inputs, consumes: Vec::new(), work: None }
    }
}
