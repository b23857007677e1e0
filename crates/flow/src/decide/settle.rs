//! What came of the work that the outside did.

use serde_json::{Map, Value, json};

use super::gate::{Question, harvested, suspend};
use super::model::{ModelReply, replied, step};
use super::node::{elapsed, object};
use super::{Context, Env, Refusal, WorkKey, orchestrate, plain};
use crate::definition::{Definition, Node, names};
use crate::event::{ChainPhase, Event, InterruptKind, NewEvent, RunError};
use crate::run::{Child, NodeState, Phase, RunState};
use crate::seed::Seed;
use crate::types::NodeKind;

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Completed {
        outputs: Map<String, Value>,
        variables: Map<String, Value>,
    },
    Failed {
        error: RunError,
        retryable: bool,
    },
    /// A call came to its end, with what it left: also one that failed may have left something.
    Called {
        result: Result<Map<String, Value>, CallError>,
        artifacts: Vec<Made>,
    },
    /// A call that people have to approve first; the title is for them to read.
    Waiting {
        title: String,
        artifact: Value,
        timeout_ms: Option<u64>,
    },
    /// A memory was used: what was written to it, then what came of it.
    Remembered {
        written: Vec<Written>,
        variables: Map<String, Value>,
    },
    ChildStarted {
        run_id: String,
    },
    ChildRefused(RunError),
    ChildEnded(ChildEnd),
    Replied(ModelReply),
    /// The time of a delay is over. Only replays need it: elsewhere `advance` sees it by itself.
    Elapsed,
}

/// An entry of a memory, by its names alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub memory_ref: String,
    pub id: String,
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CallError {
    pub error: RunError,
    pub retryable: bool,
}

/// An artifact that a call left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    pub id: String,
    pub name: String,
}

/// How a child ended, with what it holds at its end.
#[derive(Debug, Clone, PartialEq)]
pub struct ChildEnd {
    pub status: crate::run::Status,
    pub variables: Map<String, Value>,
    pub error: Option<RunError>,
}

/// The events that follow from the outcome of the work `key`. Call `advance` after them.
pub fn settle(
    definition: &Definition,
    seed: &Seed,
    state: &RunState,
    key: &WorkKey,
    outcome: Outcome,
    context: &Context,
) -> Result<Vec<NewEvent>, Refusal> {
    let env = Env { definition, seed, state, context };
    let node = definition.node(&key.node).ok_or(Refusal::NotFound)?;
    let at = state.node(&key.node).ok_or(Refusal::NotFound)?;
    if state.end.is_some() || !is_current(&env, node, at, key) {
        return Err(Refusal::Stale);
    }
    let cause = (node.kind == Some(NodeKind::Dispatch)).then_some(()).and(state.decision.as_ref());
    let cause = cause.map(|last| last.sequence);
    let events = outcome_events(&env, node, at, outcome)?;
    Ok(events.into_iter().map(|event| NewEvent { cause, ..plain(event) }).collect())
}

/// Whether the work is what the node waits for now, and not something from before.
fn is_current(env: &Env<'_>, node: &Node, at: &NodeState, key: &WorkKey) -> bool {
    let expected = match node.kind {
        Some(NodeKind::Tool) => at.asked,
        Some(NodeKind::StructuredOutput) => step(at),
        Some(NodeKind::Dispatch) => {
            env.state.children_of(&node.id).count().saturating_sub(1) as u64
        }
        _ => 0,
    };
    let now = (at.rounds, at.attempt, expected);
    at.phase == Phase::Active && now == (key.round, key.attempt, key.step)
}

fn outcome_events(
    env: &Env<'_>,
    node: &Node,
    at: &NodeState,
    outcome: Outcome,
) -> Result<Vec<Event>, Refusal> {
    Ok(match outcome {
        Outcome::Completed { outputs, variables }
            if !env.seed.bounds.admits(&(&outputs, &variables)) =>
        {
            vec![too_large(env, node)]
        }
        Outcome::Remembered { written, variables } => remembered(env, node, written, &variables),
        Outcome::Completed { outputs, mut variables } => {
            variables.extend(harvested(node, &outputs));
            env.completion(node, outputs, &variables)
        }
        Outcome::Called { result, artifacts } => {
            let created = artifacts.into_iter().map(|made| created(node, made));
            let mut events: Vec<_> = created.collect();
            events.extend(outcome_events(env, node, at, returned(result))?);
            events
        }
        Outcome::Failed { error, retryable } => vec![env.failure(node, error, retryable)],
        Outcome::Waiting { title, artifact, timeout_ms } => {
            waiting(node, at, &title, &artifact, timeout_ms)
        }
        Outcome::Replied(reply) if node.kind == Some(NodeKind::StructuredOutput) => {
            replied(env, node, at, &reply)
        }
        Outcome::ChildStarted { run_id } => child_started(env, node, &run_id)?,
        Outcome::ChildRefused(error) => child_refused(env, node, error),
        Outcome::ChildEnded(end) => child_ended(env, node, &end)?,
        Outcome::Elapsed if node.kind == Some(NodeKind::Delay) => {
            elapsed(env, node, at).ok_or(Refusal::Stale)?
        }
        Outcome::Replied(_) | Outcome::Elapsed => return Err(Refusal::Stale),
    })
}

fn too_large(env: &Env<'_>, node: &Node) -> Event {
    let message = format!("the result has more than {} bytes", env.seed.bounds.payload_bytes);
    env.failure(node, RunError::new("output_too_large", message), false)
}

/// What was written stays written, also where the rest cannot be kept.
fn remembered(
    env: &Env<'_>,
    node: &Node,
    written: Vec<Written>,
    variables: &Map<String, Value>,
) -> Vec<Event> {
    let agent = node.agent.as_ref().and_then(|agent| agent.get("agentId")?.as_str());
    let event = |one: Written| Event::MemoryWritten {
        memory_ref: one.memory_ref,
        memory_id: one.id,
        node_id: node.id.clone(),
        agent_id: agent.map(str::to_owned),
        tags: one.tags,
    };
    let mut events: Vec<_> = written.into_iter().map(event).collect();
    match env.seed.bounds.admits(variables) {
        true => events.extend(env.completion(node, Map::new(), variables)),
        false => events.push(too_large(env, node)),
    }
    events
}

fn returned(result: Result<Map<String, Value>, CallError>) -> Outcome {
    match result {
        Ok(outputs) => Outcome::Completed { outputs, variables: Map::new() },
        Err(CallError { error, retryable }) => Outcome::Failed { error, retryable },
    }
}

/// Of the type that the node says; where it says none, an artifact is known by its name.
fn created(node: &Node, made: Made) -> Event {
    Event::ArtifactCreated {
        artifact_id: made.id,
        artifact_type: node.artifact_type.clone().unwrap_or_else(|| made.name.clone()),
        node_id: node.id.clone(),
        name: made.name,
        registered: false,
    }
}

fn waiting(
    node: &Node,
    at: &NodeState,
    title: &str,
    artifact: &Value,
    timeout_ms: Option<u64>,
) -> Vec<Event> {
    let title = if title.is_empty() { node.id.as_str() } else { title };
    let data = json!({
        "artifactId": node.id,
        "artifactType": "tool-call",
        "title": title,
        "artifactData": artifact,
        "actions": ["accept", "reject"],
    });
    let mut question = Question::new(InterruptKind::Approval, node, at, data);
    question.timeout_ms = timeout_ms.or(question.timeout_ms);
    suspend(node, at, question)
}

fn child<'a>(env: &Env<'a>, node: &Node) -> Option<&'a Child> {
    env.state.children_of(&node.id).last().filter(|child| child.end.is_none())
}

fn chain(node: &Node, child: &Child, phase: ChainPhase) -> Event {
    Event::ChainEvent {
        node_id: node.id.clone(),
        phase,
        worker_id: child.workflow.clone(),
        child_run_id: child.run.clone(),
        harvested_keys: Vec::new(),
        error: None,
    }
}

fn child_started(env: &Env<'_>, node: &Node, run_id: &str) -> Result<Vec<Event>, Refusal> {
    let known = child(env, node);
    if known.is_some_and(|child| child.run.is_some()) {
        return Err(Refusal::Stale);
    }
    let workflow = known.map(|child| child.workflow.as_str()).or_else(|| node.text("workflowId"));
    let dispatched = Event::NodeDispatched {
        node_id: node.id.clone(),
        child_run_id: run_id.to_owned(),
        child_workflow_id: workflow.unwrap_or_default().to_owned(),
        child_status: "pending".to_owned(),
    };
    let begun = known.map(|child| {
        let child = Child { run: Some(run_id.to_owned()), ..child.clone() };
        chain(node, &child, ChainPhase::Succeeded)
    });
    Ok([dispatched].into_iter().chain(begun).collect())
}

/// A dispatcher goes on with the next worker; a sub-workflow is all that its node is for.
fn child_refused(env: &Env<'_>, node: &Node, refused: RunError) -> Vec<Event> {
    match child(env, node).filter(|_| node.kind == Some(NodeKind::Dispatch)) {
        Some(child) => {
            let mut event = chain(node, child, ChainPhase::Failed);
            if let Event::ChainEvent { error, .. } = &mut event {
                *error = Some(refused);
            }
            vec![event]
        }
        None => vec![env.failure(node, refused, false)],
    }
}

fn child_ended(env: &Env<'_>, node: &Node, end: &ChildEnd) -> Result<Vec<Event>, Refusal> {
    let child = child(env, node).filter(|child| child.run.is_some()).ok_or(Refusal::Stale)?;
    match node.kind {
        Some(NodeKind::Dispatch) => Ok(worker_ended(env, node, child, end)),
        _ => Ok(sub_ended(env, node, child, end)),
    }
}

fn harvest(mapping: Option<&Value>, end: &ChildEnd) -> Map<String, Value> {
    let completed = end.status == crate::run::Status::Completed;
    let pairs = names(mapping.filter(|_| completed)).into_iter();
    pairs
        .filter_map(|(own, from)| Some((own.to_owned(), end.variables.get(from)?.clone())))
        .collect()
}

fn sub_ended(env: &Env<'_>, node: &Node, child: &Child, end: &ChildEnd) -> Vec<Event> {
    let status = end.status.as_str();
    let absorbed = node.text("onChildFailure") == Some("absorb");
    if end.status != crate::run::Status::Completed && !absorbed {
        let mut error = RunError::new("child_failed", format!("the child run is {status}"));
        let why = end.error.as_ref().and_then(|error| serde_json::to_value(error).ok());
        error.details = Some(object(json!({"childStatus": status, "childError": why})));
        return vec![env.failure(node, error, false)];
    }
    let outputs = object(json!({"childRunId": child.run, "childStatus": status}));
    env.completion(node, outputs, &harvest(node.config.get("outputMapping"), end))
}

fn worker_ended(env: &Env<'_>, node: &Node, child: &Child, end: &ChildEnd) -> Vec<Event> {
    let phase = match end.status {
        crate::run::Status::Completed => ChainPhase::ChildCompleted,
        crate::run::Status::Cancelled => ChainPhase::ChildCancelled,
        _ => ChainPhase::ChildFailed,
    };
    let mut events = vec![chain(node, child, phase)];
    if let (ChainPhase::ChildFailed, Some(Event::ChainEvent { error, .. })) =
        (phase, events.first_mut())
    {
        error.clone_from(&end.error);
    }
    let values = harvest(orchestrate::worker_mapping(node, "Output", &child.workflow), end);
    events.extend(values.iter().map(|(name, next)| {
        Event::variable(&node.id, name, env.state.variables.get(name), next.clone())
    }));
    if !values.is_empty() {
        let mut event = chain(node, child, ChainPhase::Harvested);
        if let Event::ChainEvent { harvested_keys, .. } = &mut event {
            *harvested_keys = values.keys().cloned().collect();
        }
        events.push(event);
    }
    events
}
