//! Questions: how they are asked, what comes of the answers.

use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

use super::node::{call, done, message, object};
use super::scope::inputs;
use super::{Doing, Env, orchestrate, plain};
use crate::definition::Node;
use crate::event::{ApprovalAction, Event, InterruptKind, NewEvent, RunError};
use crate::run::{NodeState, OpenInterrupt, Phase, interrupt_id};
use crate::seed::Seed;
use crate::types::NodeKind;

/// A question before it has an id.
pub(super) struct Question {
    pub kind: InterruptKind,
    pub key: String,
    pub data: Value,
    pub timeout_ms: Option<u64>,
    /// Why, where the contract wants it said: agent, threshold, observed.
    pub confidence: Option<(String, f64, f64)>,
}

impl Question {
    pub(super) fn new(kind: InterruptKind, node: &Node, state: &NodeState, data: Value) -> Self {
        let (key, timeout_ms) = (key(node, state), node.whole("timeoutMs"));
        Question { kind, key, data, timeout_ms, confidence: None }
    }
}

/// What is asked again in another round or attempt is another question, unless the author named it.
fn key(node: &Node, state: &NodeState) -> String {
    let own = node.text("key").map(str::to_owned);
    own.unwrap_or_else(|| match (state.rounds, state.attempt, state.asked) {
        (0 | 1, 0, 0) => node.id.clone(),
        (round, attempt, asked) => format!("{}#{round}.{attempt}.{asked}", node.id),
    })
}

/// The events that suspend a node.
pub(super) fn suspend(node: &Node, state: &NodeState, question: Question) -> Vec<Event> {
    let (node_id, interrupt_id) = (node.id.clone(), interrupt_id(&node.id, state));
    let Question { kind, key, data, timeout_ms, confidence } = question;
    let (agent_id, threshold, observed) = match confidence {
        Some((agent, threshold, observed)) => (Some(agent), Some(threshold), Some(observed)),
        None => (None, None, None),
    };
    let reason = agent_id.as_ref().map(|_| "low-confidence".to_owned());
    let announced = announce(&node_id, &interrupt_id, kind, &data);
    let requested = Event::InterruptRequested {
        node_id: node_id.clone(),
        kind,
        key: key.clone(),
        data,
        resume_schema: None,
        timeout_ms,
    };
    let suspended = Event::NodeSuspended {
        node_id,
        interrupt_id,
        kind,
        key,
        reason,
        agent_id,
        threshold,
        observed,
    };
    [requested].into_iter().chain(announced).chain([suspended]).collect()
}

fn announce(node: &str, interrupt: &str, kind: InterruptKind, data: &Value) -> Option<Event> {
    let (node_id, interrupt_id) = (node.to_owned(), interrupt.to_owned());
    let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        InterruptKind::Approval => Some(Event::ApprovalRequested {
            node_id,
            interrupt_id,
            artifact_id: text("artifactId"),
            artifact_type: text("artifactType"),
            actions: actions(data),
        }),
        InterruptKind::Clarification => {
            let questions = data.get("questions").cloned().unwrap_or_default();
            Some(Event::ClarificationRequested { node_id, interrupt_id, questions })
        }
        _ => None,
    }
}

pub(super) fn actions(data: &Value) -> Vec<String> {
    let list = data.get("actions").and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Suspends, or goes on at once when the same was answered before.
pub(super) fn ask_or_reuse(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    question: Question,
) -> Doing {
    let stored = env.state.resolutions.get(&question.key).filter(|r| r.kind == question.kind);
    match stored.map(|stored| stored.value.clone()) {
        Some(answer) => resumed(env, node, state, &answer),
        None => suspend(node, state, question).into(),
    }
}

pub(super) fn ask(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    given: &Map<String, Value>,
) -> Doing {
    let (kind, data) = match node.kind {
        Some(NodeKind::Approval) => (InterruptKind::Approval, approval_data(node, given)),
        Some(NodeKind::Clarification) => {
            let questions = node.config.get("questions").cloned().unwrap_or_default();
            (InterruptKind::Clarification, json!({"questions": questions}))
        }
        Some(NodeKind::AgentStage) => (InterruptKind::Custom, stage_data(node, given)),
        Some(NodeKind::Conversation) => return conversation(env, node, state),
        _ => match external(node) {
            Ok(asked) => asked,
            Err(error) => return vec![env.failure(node, error, false)].into(),
        },
    };
    ask_or_reuse(env, node, state, Question::new(kind, node, state, data))
}

const MEMBERS: [&str; 8] = [
    "description",
    "requiredApprovals",
    "approversList",
    "rejectionPolicy",
    "profile",
    "requiredRole",
    "requiredScope",
    "override",
];

fn approval_data(node: &Node, given: &Map<String, Value>) -> Value {
    let default = json!(["accept", "reject"]);
    let listed = node.config.get("actions").filter(|a| a.as_array().is_some_and(|a| !a.is_empty()));
    let mut data = Map::from_iter([
        ("artifactId".to_owned(), json!(node.text("artifactId").unwrap_or(&node.id))),
        ("artifactType".to_owned(), json!(node.artifact_type.as_deref().unwrap_or("approval"))),
        (
            "title".to_owned(),
            json!(node.text("title").filter(|t| !t.is_empty()).unwrap_or(&node.id)),
        ),
        ("actions".to_owned(), listed.cloned().unwrap_or(default)),
    ]);
    for member in MEMBERS {
        data.extend(node.config.get(member).map(|value| (member.to_owned(), value.clone())));
    }
    data.extend(node.whole("quorum").map(|n| ("requiredApprovals".to_owned(), json!(n.max(1)))));
    data.extend(given.get("artifact").map(|value| ("artifactData".to_owned(), value.clone())));
    Value::Object(data)
}

fn stage_data(node: &Node, given: &Map<String, Value>) -> Value {
    let payload = json!({
        "goal": node.text("goal").unwrap_or_default(),
        "inputs": given,
        "outputs": node.mapping("outputMapping").values().collect::<Vec<_>>(),
    });
    json!({"customKind": "countersign.agentStage", "payload": payload})
}

fn external(node: &Node) -> Result<(InterruptKind, Value), RunError> {
    let data = node.config.get("data").cloned().unwrap_or_default();
    let kind = match node.text("kind") {
        Some("external-event") => InterruptKind::ExternalEvent,
        Some("approval") => InterruptKind::Approval,
        Some("clarification") => InterruptKind::Clarification,
        Some("custom") => InterruptKind::Custom,
        _ => {
            let message = "`kind` must be external-event, approval, clarification or custom";
            return Err(RunError::new("interrupt_invalid", message));
        }
    };
    let needs: &[&str] = match kind {
        InterruptKind::ExternalEvent => &["eventType", "correlation"],
        InterruptKind::Approval => &["artifactId", "artifactType", "title", "actions"],
        InterruptKind::Clarification => &["questions"],
        _ => &["customKind"],
    };
    match needs.iter().find(|member| data.get(**member).is_none()) {
        Some(member) => {
            Err(RunError::new("interrupt_invalid", format!("`data.{member}` is missing")))
        }
        None => Ok((kind, data)),
    }
}

/// Opened, then one exchange after the other, then closed.
fn conversation(env: &Env<'_>, node: &Node, state: &NodeState) -> Doing {
    let turns = node.whole("turnCount").unwrap_or(1).clamp(1, 100);
    let id = format!("conversation-{}-{}", node.id, state.rounds);
    let mut events =
        vec![Event::ConversationOpened { node_id: node.id.clone(), conversation_id: id.clone() }];
    if node.flag("mockAutoResume") != Some(true) || !env.context.offers.conformance {
        let prompt = node.text("prompt").filter(|p| !p.is_empty()).unwrap_or("please reply");
        let data = json!({"conversationId": id, "prompt": prompt, "turnIndex": 0});
        let question = Question::new(InterruptKind::Exchange, node, state, data);
        events.extend(suspend(node, state, question));
        return events.into();
    }
    for turn in 0..turns {
        events.extend(exchange(env, node, &id, turn, json!({"text": format!("turn {turn}")})));
    }
    events.extend(close(env, node, &id, turns));
    events.into()
}

fn exchange(env: &Env<'_>, node: &Node, id: &str, turn: u64, outcome: Value) -> Vec<Event> {
    let said = json!({
        "messageId": format!("{id}:{turn}:user"),
        "from": "user",
        "content": outcome,
        "ts": turn,
        "role": "user",
        "turnIndex": turn,
    });
    let exchanged = Event::ConversationExchanged {
        node_id: node.id.clone(),
        conversation_id: id.to_owned(),
        turn_index: turn,
        outcome,
    };
    [exchanged].into_iter().chain(message(env, node, "conversation", &said)).collect()
}

fn close(env: &Env<'_>, node: &Node, id: &str, turns: u64) -> Vec<Event> {
    let (node_id, conversation_id) = (node.id.clone(), id.to_owned());
    let outputs = object(json!({"conversationId": id, "turnCount": turns}));
    let mut events =
        vec![Event::ConversationClosed { node_id, conversation_id, turn_count: turns }];
    events.extend(env.completion(node, outputs, &Map::new()));
    events
}

/// What comes of an answer.
pub(super) fn resumed(env: &Env<'_>, node: &Node, state: &NodeState, answer: &Value) -> Doing {
    let action = answer.get("action").and_then(Value::as_str);
    let refused = match action {
        Some("timeout") => Some(RunError::new("interrupt_expired", "nobody answered in time")),
        Some("reject") => Some(RunError::new("interrupt_rejected", "the request was rejected")),
        _ => None,
    };
    if let Some(error) = refused {
        return vec![env.failure(node, error, false)].into();
    }
    match node.kind {
        Some(NodeKind::Approval) => done(env, node, approved(answer)),
        Some(NodeKind::Clarification) => clarified(env, node, answer),
        Some(NodeKind::Tool) => match inputs(env, node) {
            Ok(given) => call(env, node, state, given, Some(answer.clone())),
            Err(error) => vec![env.failure(node, error, false)].into(),
        },
        Some(NodeKind::AgentStage) => handed_in(env, node, answer),
        Some(NodeKind::Supervisor) => orchestrate::released(env, node, state),
        Some(NodeKind::Dispatch) => clarified(env, node, answer),
        Some(NodeKind::Conversation) => replied(env, node, state, answer),
        _ => done(env, node, object(answer.clone())),
    }
}

fn approved(answer: &Value) -> Map<String, Value> {
    let action = answer.get("action").and_then(Value::as_str).unwrap_or("accept");
    let mut outputs = object(answer.clone());
    outputs.insert("approved".to_owned(), json!(action != "refine"));
    outputs
}

fn clarified(env: &Env<'_>, node: &Node, answer: &Value) -> Doing {
    let answers = answer.get("answers").and_then(Value::as_object).cloned().unwrap_or_default();
    let node_id = node.id.clone();
    let outputs = Map::from_iter([("answers".to_owned(), Value::Object(answers.clone()))]);
    let mut events = vec![Event::ClarificationResolved { node_id, answers }];
    events.extend(env.completion(node, outputs, &Map::new()));
    events.into()
}

/// The result of an agent: outputs become variables as the stage says, a failure may be retried.
fn handed_in(env: &Env<'_>, node: &Node, answer: &Value) -> Doing {
    if answer.get("status").and_then(Value::as_str) == Some("failure") {
        let message = answer.get("message").and_then(Value::as_str).unwrap_or("the agent gave up");
        let error = RunError::new("agent_stage_failed", message);
        return vec![env.failure(node, error, true)].into();
    }
    let outputs = answer.get("outputs").and_then(Value::as_object).cloned().unwrap_or_default();
    let variables = harvested(node, &outputs);
    env.completion(node, outputs, &variables).into()
}

/// Outputs that a node puts into variables: `outputMapping {variable: output}`.
pub(super) fn harvested(node: &Node, outputs: &Map<String, Value>) -> Map<String, Value> {
    let pairs = node.mapping("outputMapping").into_iter();
    pairs.filter_map(|(own, from)| Some((own.to_owned(), outputs.get(from)?.clone()))).collect()
}

fn replied(env: &Env<'_>, node: &Node, state: &NodeState, answer: &Value) -> Doing {
    let turns = node.whole("turnCount").unwrap_or(1).clamp(1, 100);
    let id = format!("conversation-{}-{}", node.id, state.rounds);
    // Of the exchanges so far this one may be the last that was counted.
    let turn = state.asked.saturating_sub(1);
    let mut events = exchange(env, node, &id, turn, answer.clone());
    if turn + 1 >= turns {
        events.extend(close(env, node, &id, turns));
    } else {
        let prompt = node.text("prompt").filter(|p| !p.is_empty()).unwrap_or("please reply");
        let data = json!({"conversationId": id, "prompt": prompt, "turnIndex": turn + 1});
        events.extend(suspend(
            node,
            state,
            Question::new(InterruptKind::Exchange, node, state, data),
        ));
    }
    events.into()
}

/// When the time of a question is over; in a fork it begins again.
pub(super) fn expiry(seed: &Seed, open: &OpenInterrupt) -> Option<Timestamp> {
    let late = seed.created_at.millis_since(open.requested_at).max(0);
    open.expires_at.map(|at| at.plus_millis(late))
}

/// The question whose time was over first.
pub(super) fn expired<'a>(env: &Env<'a>) -> Option<(Timestamp, &'a OpenInterrupt)> {
    // Between the question and the suspension there is nothing to answer yet.
    let asked = |open: &&OpenInterrupt| {
        env.state.node(&open.node).is_some_and(|node| node.phase == Phase::Suspended)
    };
    let open = env.state.interrupts.iter().filter(asked);
    open.filter_map(|open| Some((expiry(env.seed, open)?, open)))
        .filter(|(at, _)| *at <= env.context.now)
        .min_by_key(|(at, _)| *at)
}

/// A question whose time is over is answered by that.
pub(super) fn expire(open: &OpenInterrupt) -> Vec<NewEvent> {
    let tell = open.kind == InterruptKind::Approval && !open.expired;
    let received = tell.then(|| Event::ApprovalReceived {
        node_id: open.node.clone(),
        action: ApprovalAction::Timeout,
        decided_by: None,
        decided_at: None,
        feedback: None,
        refine_feedback: None,
        edited_artifact_data: None,
    });
    let resolved = Event::InterruptResolved {
        node_id: open.node.clone(),
        interrupt_id: open.id.clone(),
        kind: open.kind,
        resume_value: json!({"action": "timeout"}),
    };
    received.into_iter().chain([resolved]).map(plain).collect()
}
