//! Supervisors that decide, dispatchers that carry it out, and agents that only pretend.

use serde_json::{Map, Value, json};

use super::gate::{Question, ask_or_reuse, suspend};
use super::node::{done, mapped, object};
use super::{Doing, Env, Work, child_run_id};
use crate::definition::Node;
use crate::event::{ChainPhase, Event, InterruptKind, NewEvent, OrchestratorDecision, RunError};
use crate::run::NodeState;

/// Below this a decision is held back.
const THRESHOLD: f64 = 0.7;
/// Below this a dispatcher asks first.
const FLOOR: f64 = 0.5;
/// The worker of a supervisor that was told nothing.
const DEFAULT_WORKER: &str = "conformance-noop";

fn threshold(env: &Env<'_>) -> f64 {
    env.seed.configurable.get("escalationThreshold").and_then(Value::as_f64).unwrap_or(THRESHOLD)
}

fn agent(node: &Node) -> String {
    let own = node.agent_id().or_else(|| node.text("agentId"));
    own.filter(|id| id.chars().count() >= 3).unwrap_or(&node.type_id).to_owned()
}

fn decision(value: &Value) -> Option<OrchestratorDecision> {
    serde_json::from_value(value.clone()).ok()
}

/// The decision of this turn, by the plan of the mock.
fn planned(node: &Node, turn: u64) -> Result<OrchestratorDecision, RunError> {
    let plan = ["mockDispatchPlan", "mockDecisions"].iter().find_map(|name| node.config.get(*name));
    let end = || OrchestratorDecision::Terminate {
        reason: Some("plan-exhausted".to_owned()),
        confidence: None,
    };
    let default = || OrchestratorDecision::NextWorker {
        next_worker_ids: vec![DEFAULT_WORKER.to_owned()],
        confidence: None,
    };
    let place = usize::try_from(turn.saturating_sub(1)).unwrap_or(usize::MAX);
    match plan.and_then(Value::as_array) {
        None => Ok(if turn <= 1 { default() } else { end() }),
        Some(plan) => plan.get(place).map_or_else(
            || Ok(end()),
            |planned| {
                let wrong = || RunError::new("decision_invalid", "the plan holds no decision here");
                decision(planned).ok_or_else(wrong)
            },
        ),
    }
}

pub(super) fn supervise(env: &Env<'_>, node: &Node, state: &NodeState) -> Doing {
    let observed = node.config.get("mockConfidence").and_then(Value::as_f64);
    let limit = threshold(env);
    if let Some(observed) = observed.filter(|observed| *observed < limit) {
        let pending = node.config.get("mockPendingDecision");
        let question = low_confidence(node, state, limit, observed, pending);
        return ask_or_reuse(env, node, state, question);
    }
    decide(node, state, planned(node, state.rounds), env)
}

fn low_confidence(
    node: &Node,
    state: &NodeState,
    limit: f64,
    observed: f64,
    pending: Option<&Value>,
) -> Question {
    let agent = agent(node);
    let mut data = object(json!({"agentId": agent, "threshold": limit, "observed": observed}));
    data.extend(pending.map(|decision| ("decision".to_owned(), decision.clone())));
    let mut question =
        Question::new(InterruptKind::LowConfidence, node, state, Value::Object(data));
    question.confidence = Some((agent, limit, observed));
    question
}

fn decide(
    node: &Node,
    state: &NodeState,
    decision: Result<OrchestratorDecision, RunError>,
    env: &Env<'_>,
) -> Doing {
    let decision = match decision {
        Ok(decision) => decision,
        Err(error) => return vec![env.failure(node, error, false)].into(),
    };
    let shown = serde_json::to_value(&decision).unwrap_or_default();
    let decided = Event::OrchestratorDecided {
        node_id: node.id.clone(),
        agent_id: agent(node),
        decision,
        iteration: state.rounds.max(1),
    };
    let outputs = Map::from_iter([("decision".to_owned(), shown)]);
    vec![decided, Event::NodeCompleted { node_id: node.id.clone(), outputs }].into()
}

/// A decision that was held back and let go.
pub(super) fn released(env: &Env<'_>, node: &Node, state: &NodeState) -> Doing {
    let pending = node.config.get("mockPendingDecision").and_then(decision);
    decide(node, state, pending.map_or_else(|| planned(node, state.rounds), Ok), env)
}

pub(super) fn dispatch(env: &Env<'_>, node: &Node) -> Doing {
    let Some(state) = env.of(node) else { return Doing::Nothing };
    let Some(last) = &env.state.decision else {
        let error = RunError::new("no_pending_decision", "no supervisor has decided anything");
        return vec![env.failure(node, error, false)].into();
    };
    let doing = match &last.decision {
        OrchestratorDecision::Terminate { reason, .. } => {
            done(env, node, object(json!({"terminated": true, "reason": reason})))
        }
        OrchestratorDecision::AskUser { prompt } => ask_user(env, node, state, prompt),
        OrchestratorDecision::NextWorker { next_worker_ids, confidence } => {
            match confidence.filter(|confidence| *confidence < FLOOR) {
                Some(confidence) => escalate(node, state, &last.decision, confidence),
                None => workers(env, node, next_worker_ids),
            }
        }
    };
    caused(doing, last.sequence)
}

fn caused(doing: Doing, cause: u64) -> Doing {
    match doing {
        Doing::Events(events) => Doing::Events(
            events.into_iter().map(|new| NewEvent { cause: Some(cause), ..new }).collect(),
        ),
        other => other,
    }
}

fn ask_user(env: &Env<'_>, node: &Node, state: &NodeState, prompt: &str) -> Doing {
    let data = json!({"questions": [{"id": "reply", "question": prompt}]});
    let question = Question::new(InterruptKind::Clarification, node, state, data);
    ask_or_reuse(env, node, state, question)
}

fn escalate(
    node: &Node,
    state: &NodeState,
    decision: &OrchestratorDecision,
    confidence: f64,
) -> Doing {
    let question = "the decision is uncertain: how should the run go on?";
    let data = json!({"questions": [{"id": "reply", "question": question}]});
    let told = Event::ConfidenceEscalated {
        node_id: node.id.clone(),
        confidence,
        floor: FLOOR,
        escalation_kind: "clarify".to_owned(),
        original_decision: decision.clone(),
    };
    let question = Question::new(InterruptKind::Clarification, node, state, data);
    [told].into_iter().chain(suspend(node, state, question)).collect::<Vec<_>>().into()
}

/// One child after the other.
fn workers(env: &Env<'_>, node: &Node, ids: &[String]) -> Doing {
    if ids.len() > 1 && node.text("fanOutPolicy") == Some("reject") {
        let message = format!("{} workers at once are refused here", ids.len());
        return vec![env.failure(node, RunError::new("fan_out_rejected", message), false)].into();
    }
    let children: Vec<_> = env.state.children_of(&node.id).collect();
    let open = children.iter().enumerate().find(|(_, child)| child.end.is_none());
    if let Some((place, child)) = open {
        let key = env.key(node, place as u64);
        return Doing::Work(match &child.run {
            Some(run_id) => Work::Await { key, run_id: run_id.clone() },
            None => Work::Child {
                run_id: child_run_id(env, node, &key),
                key,
                workflow: child.workflow.clone(),
                inputs: mapped(env, worker_mapping(node, "Input", &child.workflow)),
            },
        });
    }
    // All that was said so far is left out by its number, so only the next step is named.
    let said = env.of(node).map_or(0, |state| state.progress);
    let next = match ids.get(children.len()) {
        Some(worker) => Event::ChainEvent {
            node_id: node.id.clone(),
            phase: ChainPhase::Began,
            worker_id: worker.clone(),
            child_run_id: None,
            harvested_keys: Vec::new(),
            error: None,
        },
        None => Event::NodeCompleted { node_id: node.id.clone(), outputs: summary(&children) },
    };
    let silent = (0..said).map(|_| next.clone());
    silent.chain([next.clone()]).collect::<Vec<_>>().into()
}

fn summary(children: &[&crate::run::Child]) -> Map<String, Value> {
    let one = |child: &&crate::run::Child| json!({"workflowId": child.workflow, "childRunId": child.run, "childStatus": child.end});
    Map::from_iter([("workers".to_owned(), children.iter().map(one).collect())])
}

/// The mapping of one worker, or else that of all.
pub(super) fn worker_mapping<'n>(node: &'n Node, side: &str, worker: &str) -> Option<&'n Value> {
    let own = node.config.get(&format!("perWorker{side}Mappings")).and_then(|all| all.get(worker));
    let common = if side == "Input" { "inputMapping" } else { "outputMapping" };
    own.or_else(|| node.config.get(common))
}

/// Reasoning, calls, handing over, deciding: in this order, as far as the configuration says.
pub(super) fn mock_agent(env: &Env<'_>, node: &Node, state: &NodeState) -> Doing {
    let (node_id, agent_id) = (node.id.clone(), agent(node));
    let mut events = reasoning(node, &agent_id);
    let calls = node.config.get("mockToolCalls").and_then(Value::as_array);
    for (place, call) in calls.into_iter().flatten().enumerate() {
        events.extend(tool_call(node, &agent_id, place, call));
    }
    if let Some(handoff) = node.config.get("mockHandoff") {
        let text = |name: &str| handoff.get(name).and_then(Value::as_str).map(str::to_owned);
        events.push(Event::AgentHandoff {
            node_id: node_id.clone(),
            from_agent_id: agent_id.clone(),
            to_agent_id: text("toAgentId").unwrap_or_default(),
            reason: text("reason"),
        });
    }
    let decided = node.config.get("mockDecision");
    let own = node.config.get("mockConfidence").and_then(Value::as_f64);
    let confidence = decided.and_then(|d| d.get("confidence")).and_then(Value::as_f64).or(own);
    let decision = decided.and_then(|decided| decided.get("decision")).cloned();
    if let Some(decision) = decision.clone().or_else(|| own.map(|_| json!({"kind": "mock"}))) {
        let agent_id = agent_id.clone();
        events.push(Event::AgentDecided { node_id, agent_id, decision, confidence });
    }
    let limit = threshold(env);
    match confidence.filter(|confidence| *confidence < limit) {
        Some(observed) => {
            let question = low_confidence(node, state, limit, observed, decision.as_ref());
            events.extend(suspend(node, state, question));
        }
        None => {
            let outputs = decision.map(|d| ("decision".to_owned(), d)).into_iter().collect();
            events.extend(env.completion(node, outputs, &Map::new()));
        }
    }
    events.into()
}

fn reasoning(node: &Node, agent_id: &str) -> Vec<Event> {
    let Some(mock) = node.config.get("mockReasoning").filter(|mock| **mock != json!(false)) else {
        return Vec::new();
    };
    let chunks = mock.get("streamChunks").and_then(Value::as_array).into_iter().flatten();
    let chunks: Vec<&str> = chunks.filter_map(Value::as_str).collect();
    let delta = |(sequence, delta): (u64, &&str)| Event::AgentReasoningDelta {
        node_id: node.id.clone(),
        agent_id: agent_id.to_owned(),
        delta: (*delta).to_owned(),
        sequence,
    };
    let mut events: Vec<_> = (0..).zip(&chunks).map(delta).collect();
    let whole = chunks.concat();
    let summary = mock.get("summary").and_then(Value::as_str).unwrap_or("mock reasoning");
    events.push(Event::AgentReasoned {
        node_id: node.id.clone(),
        agent_id: agent_id.to_owned(),
        reasoning: if whole.is_empty() { summary.to_owned() } else { whole },
    });
    events
}

fn tool_call(node: &Node, agent: &str, place: usize, call: &Value) -> [Event; 2] {
    let (node_id, agent_id) = (node.id.clone(), agent.to_owned());
    let tool_name = call.get("toolId").and_then(Value::as_str).unwrap_or("tool").to_owned();
    let call_id = format!("call-{}-{place}", node.id);
    let error = call.get("error").map(|error| {
        let text = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("error");
        RunError::new(text("error"), text("message"))
    });
    let status = if error.is_some() { "error" } else { "ok" }.to_owned();
    [
        Event::AgentToolCalled {
            node_id: node_id.clone(),
            agent_id: agent_id.clone(),
            tool_name: tool_name.clone(),
            call_id: call_id.clone(),
            inputs: call.get("arguments").cloned().unwrap_or_default(),
        },
        Event::AgentToolReturned {
            node_id,
            agent_id,
            tool_name,
            call_id,
            outcome: call.get("result").cloned(),
            error,
            status,
        },
    ]
}
