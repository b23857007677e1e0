//! Calls of models, as far as mocks drive them: streams of tokens, and values that must fit a schema.

use countersign_model::{CompiledSchema, JsonLimits, parse_strict};
use serde_json::{Map, Value, json};

use super::node::{done, object};
use super::{Doing, Env, Work};
use crate::definition::Node;
use crate::event::{Cap, Event, RunError};
use crate::run::NodeState;

/// Replies that are asked for before giving up.
const MOST_REPLIES: u64 = 3;

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModelReply {
    pub text: String,
    pub stop_reason: Option<String>,
    /// It would not answer; what it said instead is not kept.
    pub refused: bool,
}

pub(super) fn call_prompt(env: &Env<'_>, node: &Node) -> Doing {
    let mock = env.seed.configurable.get("mockProvider").filter(|_| env.context.offers.conformance);
    let streams =
        mock.and_then(|mock| mock.get("id")).and_then(Value::as_str) == Some("stream-text");
    if !streams {
        let error = RunError::new("capability_not_provided", "no provider of models is configured");
        return vec![env.failure(node, error, false)].into();
    }
    let tokens = mock.and_then(|mock| mock.get("config")?.get("tokens")?.as_array());
    let tokens: Vec<&str> = tokens.into_iter().flatten().filter_map(Value::as_str).collect();
    let chunk = |(place, token): (usize, &&str)| Event::OutputChunk {
        node_id: node.id.clone(),
        chunk: (*token).to_owned(),
        is_last: place + 1 == tokens.len(),
    };
    let mut events: Vec<_> = tokens.iter().enumerate().map(chunk).collect();
    let outputs = object(json!({"text": tokens.concat()}));
    events.extend(env.completion(node, outputs, &Map::new()));
    events.into()
}

pub(super) fn structured(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    given: &Map<String, Value>,
) -> Doing {
    if node.text("provider") != Some("mock") || !env.context.offers.conformance {
        let error = RunError::new("capability_not_provided", "no provider of models is configured");
        return vec![env.failure(node, error, false)].into();
    }
    // A reply that was cut off gets twice the room; one of another form is told so instead.
    let room = node.whole("maxTokens").map(|most| most.saturating_mul(1 << state.cut_off.min(8)));
    let request = json!({
        "provider": "mock",
        "model": node.text("model").unwrap_or("mock"),
        "messages": given.get("messages"),
        "outputSchema": node.config.get("outputSchema"),
        "maxTokens": room,
        "attempt": state.turns + 1,
        "correct": state.corrected,
        "coerce": state.coerced,
    });
    let key = env.key(node, step(state));
    Doing::Work(Work::Model { key, request })
}

pub(super) fn step(state: &NodeState) -> u64 {
    state.turns + u64::from(state.coerced)
}

/// What comes of a reply.
pub(super) fn replied(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    reply: &ModelReply,
) -> Vec<Event> {
    let (node_id, provider) = (node.id.clone(), "mock".to_owned());
    let model = node.text("model").unwrap_or("mock").to_owned();
    if reply.refused {
        let error = RunError::new("envelope_refused_by_provider", "the model refused");
        let told = Event::EnvelopeRefusal { node_id, provider, model };
        return vec![told, env.failure(node, error, false)];
    }
    if let Some(stop) =
        reply.stop_reason.as_deref().filter(|s| ["max_tokens", "length"].contains(s))
    {
        let stop_reason = stop.to_owned();
        let partial_payload_available = false;
        let told = Event::EnvelopeTruncated {
            node_id,
            provider,
            model,
            stop_reason,
            partial_payload_available,
        };
        return [told].into_iter().chain(once_more(env, node, state, "truncation")).collect();
    }
    let fenced = || unfenced(&reply.text).and_then(read);
    let (value, recovered) = match read(&reply.text) {
        Some(value) => (Some(value), None),
        None => {
            let path = "markdown-fence".to_owned();
            let value = fenced();
            let told = value.as_ref().map(|_| Event::EnvelopeRecovered { node_id, path });
            (value, told)
        }
    };
    let rest = match value {
        None => once_more(env, node, state, "parse-error"),
        Some(value) if fits(node, &value) => match done(env, node, object(value)) {
            Doing::Events(events) => events.into_iter().map(|new| new.event).collect(),
            _ => Vec::new(),
        },
        Some(_) => once_more(env, node, state, "schema-violation"),
    };
    recovered.into_iter().chain(rest).collect()
}

fn read(text: &str) -> Option<Value> {
    parse_strict(text.trim().as_bytes(), &JsonLimits::default()).ok().filter(Value::is_object)
}

/// What stands between the first fence and the last.
fn unfenced(text: &str) -> Option<&str> {
    let (_, after) = text.split_once("```")?;
    let (inside, _) = after.rsplit_once("```")?;
    inside.strip_prefix("json").or(Some(inside))
}

fn fits(node: &Node, value: &Value) -> bool {
    let Some(schema) = node.config.get("outputSchema") else { return true };
    CompiledSchema::compile(schema).is_ok_and(|schema| schema.is_valid(value))
}

fn once_more(env: &Env<'_>, node: &Node, state: &NodeState, reason: &str) -> Vec<Event> {
    let node_id = node.id.clone();
    let replies = state.turns + 1;
    if !state.coerced && replies < MOST_REPLIES {
        let reason = reason.to_owned();
        return vec![Event::EnvelopeRetry { node_id, attempt: replies + 1, reason }];
    }
    if !state.coerced && reason == "parse-error" {
        let title = node.config.get("outputSchema").and_then(|schema| schema.get("title"));
        let original_envelope_type = title.and_then(Value::as_str).unwrap_or("object").to_owned();
        return vec![Event::EnvelopeCoerced { node_id, original_envelope_type, fallback_calls: 1 }];
    }
    let code = match reason {
        "truncation" => "envelope_truncation_unrecoverable",
        _ => "envelope_payload_invalid",
    };
    let error = RunError::new(code, "the model gave no value that fits");
    let (total_attempts, final_reason) = (replies + u64::from(state.coerced), reason.to_owned());
    let told = Event::EnvelopeExhausted { node_id, total_attempts, final_reason };
    let limit = MOST_REPLIES;
    let breach = (reason == "truncation").then(|| Event::CapBreached {
        kind: Cap::Schema,
        limit,
        observed: limit + 1,
        node_id: Some(node.id.clone()),
    });
    [told].into_iter().chain(breach).chain([env.failure(node, error, false)]).collect()
}
