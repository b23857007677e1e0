//! Calls of tools, through the one pipeline. A call is named after the node that makes it, so that
//! whatever happens it is made once.

use std::thread;
use std::time::Duration;

use countersign_actions::{ActionContext, ActionRequest, ActionResult, Asker, Status};
use countersign_flow::event::RunError;
use countersign_flow::{Actor, Command, Outcome, Resolution, RunState, Seed, Target, WorkKey};
use countersign_host::{CallCommand, Outcome as Called};
use countersign_model::{ErrorClass, ExecutionId, Failure, Lifecycle, RunId, SandboxMode, ToolRef};
use serde_json::{Map, Value, json};

use crate::engine::{Engine, told};
use crate::live::Live;
use crate::trouble::Trouble;

/// How long another process may take to finish a call that it began.
const OTHERS: Duration = Duration::from_millis(200);

impl Engine {
    pub(crate) fn call(
        &self,
        run: &RunId,
        key: &WorkKey,
        tool: &str,
        version: Option<&str>,
        input: &Value,
    ) -> Result<Option<Outcome>, Trouble> {
        let view = self.view(run)?;
        let execution = self.execution(run, key, view.seed.created_at);
        loop {
            let id = tool.parse().ok();
            let called = match id.as_ref().and_then(countersign_actions::by_tool) {
                Some(action) => self.act_once(run, execution, action.name, input)?,
                None => self.call_once(&view.summary.principal, execution, tool, version, input),
            };
            match called {
                // Whoever takes the run over asks again.
                Err(failure) if failure.code == "CALL_RUNS" && self.0.pool.is_closed() => {
                    return Ok(None);
                }
                Err(failure) if failure.code == "CALL_RUNS" => thread::sleep(OTHERS),
                Err(failure) if failure.code.starts_with("JOURNAL_") => {
                    return Err(failure.into());
                }
                called => return Ok(Some(outcome(called))),
            }
        }
    }

    /// The name of the call that a piece of work is.
    pub(crate) fn execution(
        &self,
        run: &RunId,
        key: &WorkKey,
        made: countersign_model::Timestamp,
    ) -> ExecutionId {
        let words = format!("{run}\n{}\n{}\n{}", key.node, key.round, key.attempt);
        self.0.host.execution_named("runs", words.as_bytes(), made)
    }

    fn call_once(
        &self,
        principal: &countersign_model::Principal,
        execution: ExecutionId,
        tool: &str,
        version: Option<&str>,
        input: &Value,
    ) -> Result<Told, Failure> {
        let version = version.map(|text| {
            text.parse().map_err(|_| {
                Failure::validation("TOOL_VERSION_INVALID", format!("`{text}` is no version"))
            })
        });
        let tool = ToolRef { id: tool.parse()?, version: version.transpose()? };
        let input = serde_json::to_vec(input)
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let command = CallCommand::new(tool, input, principal.clone());
        self.0.host.call_once(execution, command).map(Told::Call)
    }

    /// An action works in the worktree of its run, on the workspace that the run was given.
    fn act_once(
        &self,
        run: &RunId,
        execution: ExecutionId,
        name: &str,
        input: &Value,
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
        let asker =
            Asker { execution: Some(execution), ..Asker::new(view.summary.principal.clone()) };
        Ok(countersign_actions::run(&self.0.host, request, asker).map(Told::Action))
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
        Some(self.execution(&seed.run_id.parse().ok()?, &key, seed.created_at))
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

fn outcome(called: Result<Told, Failure>) -> Outcome {
    match called {
        Err(failure) => failed(&failure),
        Ok(Told::Call(called)) if called.state == Lifecycle::Validated => {
            let message = called.result.err().map(|failure| failure.message);
            waiting(&message.unwrap_or_default(), Some(called.execution))
        }
        Ok(Told::Call(called)) => match called.result {
            Ok(output) => completed(output, called.execution),
            Err(failure) => failed(&failure),
        },
        Ok(Told::Action(result)) => acted(result),
    }
}

fn acted(result: ActionResult) -> Outcome {
    let message = result.summary.clone();
    match (result.status, result.error) {
        (Status::Success | Status::Replayed, _) => {
            let execution = result.execution_id;
            let mut outputs = object(result.output.unwrap_or_default());
            outputs.insert("artifacts".to_owned(), json!(result.artifacts));
            outputs.insert("executionId".to_owned(), json!(execution));
            Outcome::Completed { outputs, variables: Map::new() }
        }
        (Status::ApprovalRequired, _) => waiting(&message, result.execution_id),
        (_, Some(error)) => failed(&error),
        (_, None) => {
            Outcome::Failed { error: RunError::new("action_failed", message), retryable: false }
        }
    }
}

fn completed(output: Value, execution: ExecutionId) -> Outcome {
    let mut outputs = object(output);
    outputs.insert("executionId".to_owned(), json!(execution.to_string()));
    Outcome::Completed { outputs, variables: Map::new() }
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

/// Only what was short or late may be tried again, as with any call.
fn failed(failure: &Failure) -> Outcome {
    let passing = [ErrorClass::ResourceError, ErrorClass::TimeoutError, ErrorClass::ExecutionError];
    Outcome::Failed { error: told(failure), retryable: passing.contains(&failure.class) }
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
