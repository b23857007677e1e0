//! Calls of tools, through the one pipeline. A call is named after the node that makes it, so that
//! whatever happens it is made once.

use countersign_actions::{ActionContext, ActionRequest, ActionResult, ArtifactRef, Asker, Status};
use countersign_flow::event::RunError;
use countersign_flow::{
    Actor, CallError, Command, Made, Outcome, Resolution, RunState, Seed, Target, WorkKey,
};
use countersign_host::{CallCommand, Cancel, Outcome as Called};
use countersign_journal::{ArtifactFilter, StoredEntry};
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::retry::may_retry;
use countersign_model::{ExecutionId, Failure, Lifecycle, RunId, SandboxMode, ToolRef};
use serde_json::{Map, Value, json};

use crate::engine::{Engine, told};
use crate::live::Live;
use crate::trouble::Trouble;

impl Engine {
    /// None if it was stopped.
    pub(crate) fn call(
        &self,
        run: &RunId,
        key: &WorkKey,
        (tool, version): (&str, Option<&str>),
        input: &Value,
        cancel: &Cancel,
    ) -> Result<Option<Outcome>, Trouble> {
        let view = self.view(run)?;
        let execution = self.execution(run, key, view.seed.created_at)?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let id = tool.parse().ok();
        let called = match id.as_ref().and_then(countersign_actions::by_tool) {
            Some(action) => self.act_once(run, execution, action.name, input, cancel)?,
            None => {
                self.call_once(&view.summary.principal, execution, (tool, version), input, cancel)
            }
        };
        match called {
            // Nobody waits for it any more; or it is wanted again, and then it is another call.
            called if cancel.is_cancelled() && is_stopped(&called) => Ok(None),
            Err(failure) if failure.code == RUNS || failure.code.starts_with("JOURNAL_") => {
                Err(failure.into())
            }
            called => self.outcome_of(called, (tool, version)).map(Some),
        }
    }

    /// The name of the call that a piece of work is. A call that was stopped came to nothing: the
    /// same work is then another call.
    pub(crate) fn execution(
        &self,
        run: &RunId,
        key: &WorkKey,
        made: countersign_model::Timestamp,
    ) -> Result<ExecutionId, Trouble> {
        let words = format!("{run}\n{}\n{}\n{}", key.node, key.round, key.attempt);
        let host = &self.0.host;
        let mut execution = host.execution_named("runs", words.as_bytes(), made);
        for turn in 1_u32.. {
            let call = host.home().store.call(execution)?;
            if !call.is_some_and(|call| was_stopped(&call)) {
                break;
            }
            let words = format!("{words}\n{turn}");
            execution = host.execution_named("runs", words.as_bytes(), made);
        }
        Ok(execution)
    }

    fn call_once(
        &self,
        principal: &countersign_model::Principal,
        execution: ExecutionId,
        (tool, version): (&str, Option<&str>),
        input: &Value,
        cancel: &Cancel,
    ) -> Result<Told, Failure> {
        let tool = tool_ref(tool, version)?;
        let input = serde_json::to_vec(input)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let mut command = CallCommand::new(tool, input, principal.clone());
        command.given = cancel.clone().into();
        self.0.host.call_once(execution, command).map(Told::Call)
    }

    /// An action works in the worktree of its run, on the workspace that the run was given.
    fn act_once(
        &self,
        run: &RunId,
        execution: ExecutionId,
        name: &str,
        input: &Value,
        cancel: &Cancel,
    ) -> Result<Result<Told, Failure>, Trouble> {
        let view = self.view(run)?;
        let Some(Value::String(workspace)) = view.seed.inputs.get("workspace") else {
            return Ok(Err(Failure::validation("WORKSPACE_MISSING", "the run names no workspace")
                .hint("begin it with the input `workspace`")));
        };
        // What a run is given may not exceed what its blueprint says.
        let said = blueprint_of(view.definition.source());
        let request = ActionRequest {
            action: name.to_owned(),
            run_id: run.clone(),
            inputs: input.as_object().cloned().unwrap_or_default(),
            context: ActionContext {
                toolset: text(said, "toolset").or_else(|| text(Some(&view.seed.inputs), "toolset")),
                sandbox: match (mode(said)?, mode(Some(&view.seed.inputs))?) {
                    (Some(said), Some(given)) => Some(said.min(given)),
                    (said, given) => said.or(given),
                },
                workspace: workspace.parse()?,
            },
        };
        let asker = Asker {
            execution: Some(execution),
            cancel: cancel.clone(),
            ..Asker::new(view.summary.principal.clone())
        };
        let acted = countersign_actions::run(&self.0.host, request, asker);
        // One that is at work elsewhere has not failed.
        Ok(acted.and_then(|result| match result.error {
            Some(failure) if failure.code == RUNS => Err(failure),
            _ => Ok(Told::Action(result)),
        }))
    }

    /// The call that a node of a run waits for people to approve, if it does.
    pub fn waiting_call(&self, run: &RunId, node: &str) -> Result<Option<ExecutionId>, Trouble> {
        let view = self.view(run)?;
        Ok(self.call_of(&view.seed, &view.state, node))
    }

    fn call_of(&self, seed: &Seed, state: &RunState, node: &str) -> Option<ExecutionId> {
        let open = state.interrupt_of(node)?;
        if open.data.get("artifactType") != Some(&json!("tool-call")) {
            return None;
        }
        let at = state.node(node)?;
        let (round, attempt) = (at.rounds, at.attempt);
        let key = WorkKey { node: node.to_owned(), round, attempt, step: 0 };
        self.execution(&seed.run_id.parse().ok()?, &key, seed.created_at).ok()
    }

    /// Notes which calls a run waits for. Says whether there are new ones among them.
    pub(crate) fn await_approvals(&self, live: &Live) -> bool {
        let open = live.state.interrupts.iter();
        let calls = open.filter_map(|open| self.call_of(&live.seed, &live.state, &open.node));
        self.0.watch.await_calls(&live.summary.run, &calls.collect::<Vec<_>>())
    }

    /// Calls of waiting nodes that people have decided about meanwhile: approvals are given to the
    /// call itself, wherever that happens, and the run goes on from there.
    pub(crate) fn follow_approvals(&self, live: &Live) {
        for open in &live.state.interrupts {
            let call = self.call_of(&live.seed, &live.state, &open.node);
            let Some(action) = call.and_then(|call| self.decided(call)) else { continue };
            let value = json!({"action": action});
            let (target, actor) = (Target::Interrupt(open.id.clone()), Actor::default());
            let wanted = Command::Resolve(Resolution { target, value, actor });
            if let Err(trouble) = self.command(&live.summary.run, &wanted) {
                tracing::debug!(%trouble, "an approval was taken up by somebody else");
            }
        }
    }

    /// What people said of a call that waits: nothing yet, yes, or no.
    fn decided(&self, execution: ExecutionId) -> Option<&'static str> {
        let call = self.0.host.home().store.call(execution).ok().flatten()?;
        match call.state {
            _ if call.terminal && call.state != Lifecycle::Completed => Some("reject"),
            Lifecycle::Validated => call.approval?.is_enough().then_some("accept"),
            _ => Some("accept"),
        }
    }
}

/// What a call or an action answered.
enum Told {
    Call(Called),
    Action(ActionResult),
}

impl Engine {
    fn outcome_of(
        &self,
        called: Result<Told, Failure>,
        (tool, version): (&str, Option<&str>),
    ) -> Result<Outcome, Trouble> {
        let called = match called {
            Err(failure) => {
                let CallError { error, retryable } = self.call_error(&failure, (tool, version))?;
                return Ok(Outcome::Failed { error, retryable });
            }
            Ok(Told::Action(result)) => {
                let failed = result.error.as_ref();
                let failed = failed.map(|failure| self.call_error(failure, (tool, version)));
                return Ok(acted(result, failed.transpose()?));
            }
            Ok(Told::Call(called)) => called,
        };
        if called.state == Lifecycle::Validated {
            let message = called.result.err().map(|failure| failure.message);
            return Ok(waiting(&message.unwrap_or_default(), Some(called.execution)));
        }
        let artifacts = self.left_by(called.execution)?;
        let result = match called.result {
            Ok(output) => Ok(ports(output, called.execution)),
            Err(failure) => Err(self.call_error(&failure, (tool, version))?),
        };
        Ok(Outcome::Called { result, artifacts })
    }

    /// A node may try a call again where the host may, and nowhere else: the tool does the same
    /// however often it runs, what was short may not be so next time, and nothing went out.
    fn call_error(
        &self,
        failure: &Failure,
        (tool, version): (&str, Option<&str>),
    ) -> Result<CallError, Trouble> {
        let registry = self.0.host.registry();
        let tool = tool_ref(tool, version).ok().and_then(|tool| registry.resolve(&tool).ok());
        let idempotent = tool.is_some_and(|tool| tool.declaration.idempotent);
        // A call whose process died did not fail: nothing of it was kept.
        let cut_off = idempotent && failure.code == "HOST_DIED";
        let retryable = (cut_off || may_retry(idempotent, failure))
            && !failure.execution_id.map_or(Ok(false), |call| self.went_out(call))?;
        Ok(CallError { error: told(failure), retryable })
    }

    /// Whether a call sent something, or may have.
    fn went_out(&self, execution: ExecutionId) -> Result<bool, Trouble> {
        let store = &self.0.host.home().store;
        let sent = |stored: &StoredEntry| match &stored.entry.fact {
            Fact::Call(call) => match &call.event {
                CallEvent::RolledBack(back) => back.connections.iter().any(|made| made.sent > 0),
                _ => false,
            },
            _ => false,
        };
        let unknown = store.call(execution)?.is_some_and(|call| call.is_unknown());
        Ok(unknown || store.call_entries(execution)?.iter().any(sent))
    }

    /// What a call left, as the journal has it: also if it ended before this process began.
    fn left_by(&self, execution: ExecutionId) -> Result<Vec<Made>, Trouble> {
        let filter = ArtifactFilter { producer: Some(execution), ..ArtifactFilter::default() };
        let mut left = Vec::new();
        self.0.host.home().store.visit_artifacts(&filter, &mut |record| {
            left.push(Made { id: record.id.to_string(), name: record.name });
            Ok(())
        })?;
        left.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(left)
    }
}

fn acted(result: ActionResult, failed: Option<CallError>) -> Outcome {
    let message = result.summary.clone();
    let (artifacts, execution) = (result.artifacts, result.execution_id);
    let made = |one: &ArtifactRef| Made { id: one.artifact_id.to_string(), name: one.name.clone() };
    let left = artifacts.iter().map(made).collect();
    match (result.status, failed) {
        (Status::Success | Status::Replayed, _) => {
            let mut outputs = object(result.output.unwrap_or_default());
            outputs.insert("artifacts".to_owned(), json!(artifacts));
            outputs.insert("executionId".to_owned(), json!(execution));
            Outcome::Called { result: Ok(outputs), artifacts: left }
        }
        (Status::ApprovalRequired, _) => waiting(&message, execution),
        (_, Some(failed)) => Outcome::Called { result: Err(failed), artifacts: left },
        (_, None) => {
            let error = RunError::new("action_failed", message);
            let result = Err(CallError { error, retryable: false });
            Outcome::Called { result, artifacts: left }
        }
    }
}

fn ports(output: Value, execution: ExecutionId) -> Map<String, Value> {
    let mut outputs = object(output);
    outputs.insert("executionId".to_owned(), json!(execution.to_string()));
    outputs
}

/// Ports have names; what is no object is one value.
fn object(output: Value) -> Map<String, Value> {
    match output {
        Value::Object(members) => members,
        other => [("output".to_owned(), other)].into_iter().collect(),
    }
}

fn waiting(message: &str, execution: Option<ExecutionId>) -> Outcome {
    let artifact = json!({"message": message, "executionId": execution});
    Outcome::Waiting { title: message.to_owned(), artifact, timeout_ms: None }
}

const STOPPED: &str = "CANCELLED";

/// Another process makes the call at this moment.
pub(crate) const RUNS: &str = "CALL_RUNS";

fn is_stopped(called: &Result<Told, Failure>) -> bool {
    let failure = match called {
        Err(failure) => Some(failure),
        Ok(Told::Call(called)) => called.result.as_ref().err(),
        Ok(Told::Action(result)) => result.error.as_ref(),
    };
    failure.is_some_and(|failure| failure.code == STOPPED)
}

/// Unless something may have gone out: then it is not done again.
fn was_stopped(call: &CallSummary) -> bool {
    let stopped = call.error.as_ref().is_some_and(|failure| failure.code == STOPPED);
    call.terminal && stopped && !call.is_unknown()
}

fn tool_ref(tool: &str, version: Option<&str>) -> Result<ToolRef, Failure> {
    let version = version.map(|text| {
        text.parse().map_err(|_| {
            Failure::validation("TOOL_VERSION_INVALID", format!("`{text}` is no version"))
        })
    });
    Ok(ToolRef { id: tool.parse()?, version: version.transpose()? })
}

/// What the blueprint that a definition was made from says for all of its stages.
fn blueprint_of(source: &Value) -> Option<&Map<String, Value>> {
    source.pointer("/metadata/customProperties/blueprint")?.as_object()
}

fn text(members: Option<&Map<String, Value>>, name: &str) -> Option<String> {
    members?.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn mode(members: Option<&Map<String, Value>>) -> Result<Option<SandboxMode>, Failure> {
    let Some(named) = members.and_then(|members| members.get("sandbox")) else { return Ok(None) };
    serde_json::from_value(named.clone()).map(Some).map_err(|_| {
        Failure::validation("SANDBOX_INVALID", format!("`{named}` is no sandbox mode"))
            .hint("take read_only, workspace_write or repo_write")
    })
}
