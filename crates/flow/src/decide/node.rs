//! What each type of node does: a list of events, or work for the outside.

use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

use super::scope::inputs;
use super::{Doing, Env, Work, child_run_id, gate, model, orchestrate};
use crate::channel::{Reducer, Write, fold};
use crate::definition::{Node, as_whole, names};
use crate::event::{Event, RunError};
use crate::run::{NodeState, Phase};
use crate::types::NodeKind;

/// What `node`, which is at work, does next.
pub(super) fn doing(env: &Env<'_>, node: &Node, state: &NodeState) -> Doing {
    if let Some(answer) = &state.resumed {
        return gate::resumed(env, node, state, answer);
    }
    let given = match inputs(env, node) {
        Ok(given) => given,
        Err(error) => return vec![env.failure(node, error, false)].into(),
    };
    match node.kind {
        Some(NodeKind::Noop) => done(env, node, Map::new()),
        Some(NodeKind::Identity) => identity(env, node, given),
        Some(NodeKind::Delay) => delay(env, node, state, &given),
        Some(NodeKind::Fail) => vec![env.failure(node, failed(node), false)].into(),
        Some(NodeKind::ChannelWrite) => channel_write(env, node, state, &given),
        Some(NodeKind::Tool) => call(env, node, state, given, None),
        Some(NodeKind::SubWorkflow) => sub_workflow(env, node),
        Some(NodeKind::Supervisor) => orchestrate::supervise(env, node, state),
        Some(NodeKind::Dispatch) => orchestrate::dispatch(env, node),
        Some(NodeKind::CallPrompt) => model::call_prompt(env, node),
        Some(NodeKind::StructuredOutput) => model::structured(env, node, state, &given),
        Some(NodeKind::MockAgent) => orchestrate::mock_agent(env, node, state),
        Some(NodeKind::ModelInsufficient) => insufficient(env, node),
        Some(NodeKind::SecretEcho) => {
            let secret = node.text("secretId").unwrap_or_default().to_owned();
            Doing::Work(Work::Secret { key: env.key(node, 0), secret })
        }
        Some(NodeKind::CostEmit) => cost(env, node),
        Some(
            NodeKind::Approval
            | NodeKind::Clarification
            | NodeKind::Interrupt
            | NodeKind::AgentStage
            | NodeKind::Conversation,
        ) => gate::ask(env, node, state, &given),
        Some(NodeKind::RequiresMissing | NodeKind::Remote) | None => {
            let message = format!("`{}` is not offered here", node.type_id);
            vec![env.failure(node, RunError::new("capability_not_provided", message), false)].into()
        }
    }
}

pub(super) fn done(env: &Env<'_>, node: &Node, outputs: Map<String, Value>) -> Doing {
    env.completion(node, outputs, &Map::new()).into()
}

fn failed(node: &Node) -> RunError {
    let code = node.text("code").filter(|code| !code.is_empty()).unwrap_or("node_failed");
    RunError::new(code, node.text("message").unwrap_or("the workflow says so"))
}

fn identity(env: &Env<'_>, node: &Node, given: Map<String, Value>) -> Doing {
    if let Some(action) = node.text("memoryAction").filter(|_| env.context.offers.conformance) {
        let (action, config) = (action.to_owned(), Value::Object(node.config.clone()));
        let (key, agent) = (env.key(node, 0), node.agent.clone());
        return Doing::Work(Work::Memory { key, action, config, agent });
    }
    let mut events = Vec::new();
    if node.flag("emitDuplicateMessageId") == Some(true) && env.context.offers.conformance {
        let messages = env.definition.channels.iter().find(|(_, c)| c.reducer == Reducer::Message);
        let value = json!({"messageId": format!("{}-message", node.id), "content": "once"});
        for (channel, declared) in messages.into_iter().chain(messages) {
            events.push(written(node, channel, declared.schema_version, &value, &Reducer::Message));
        }
    }
    events.extend(env.completion(node, given, &Map::new()));
    events.into()
}

fn written(
    node: &Node,
    channel: &str,
    version: Option<u64>,
    value: &Value,
    reducer: &Reducer,
) -> Event {
    Event::ChannelWritten {
        node_id: node.id.clone(),
        channel: channel.to_owned(),
        value: value.clone(),
        reducer: reducer.clone(),
        schema_version: version.unwrap_or(1),
        ttl_ms: None,
        max_size: None,
    }
}

/// A message to a declared channel that folds messages, if there is one of that name.
pub(super) fn message(env: &Env<'_>, node: &Node, channel: &str, value: &Value) -> Option<Event> {
    let declared = env.definition.channels.get(channel)?;
    let takes = declared.reducer == Reducer::Message;
    takes.then(|| written(node, channel, declared.schema_version, value, &declared.reducer))
}

fn duration(node: &Node, given: &Map<String, Value>) -> Option<u64> {
    let own = ["ms", "durationMs", "delayMs"].iter().find_map(|name| node.config.get(*name));
    own.or_else(|| given.get("delayMs")).and_then(as_whole)
}

fn delay(env: &Env<'_>, node: &Node, state: &NodeState, given: &Map<String, Value>) -> Doing {
    let Some(ms) = duration(node, given) else {
        let error =
            RunError::new("input_missing", "the delay needs a whole number of milliseconds");
        return vec![env.failure(node, error, false)].into();
    };
    match ends(state, ms) {
        Some(until) => Doing::Work(Work::Delay { key: env.key(node, 0), until }),
        None => done(env, node, Map::from_iter([("delayMs".to_owned(), json!(ms))])),
    }
}

/// The end of a delay whose time is over.
pub(super) fn elapsed(env: &Env<'_>, node: &Node, state: &NodeState) -> Option<Vec<Event>> {
    let ms = duration(node, &inputs(env, node).ok()?)?;
    let over = ends(state, ms).is_some_and(|until| env.context.now >= until);
    let outputs = Map::from_iter([("delayMs".to_owned(), json!(ms))]);
    over.then(|| env.completion(node, outputs, &Map::new()))
}

fn ends(state: &NodeState, ms: u64) -> Option<Timestamp> {
    Some(state.started_at?.plus_millis(i64::try_from(ms).ok()?))
}

/// When a delay that runs is over.
pub(super) fn delay_until(env: &Env<'_>, node: &Node) -> Option<Timestamp> {
    let state = env.of(node).filter(|state| state.phase == Phase::Active)?;
    let delays = node.kind == Some(NodeKind::Delay);
    let given = delays.then(|| inputs(env, node).ok()).flatten()?;
    ends(state, duration(node, &given)?)
}

fn channel_write(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    given: &Map<String, Value>,
) -> Doing {
    let name = node.text("channelName").unwrap_or_default();
    let declared = env.definition.channels.get(name);
    let own = node.text("reducer").and_then(Reducer::of);
    let value = node.config.get("value").or_else(|| given.get("value")).unwrap_or(&Value::Null);
    let reducer = declared.map(|c| c.reducer.clone()).or(own).unwrap_or(Reducer::Replace);
    let ttl_ms = node.whole("ttlMs").or(declared.and_then(|c| c.ttl_ms));
    let max_size = node.whole("maxSize").or(declared.and_then(|c| c.max_size));
    let at = env.context.now.as_millis();
    let write = Write { reducer: &reducer, value, at, ttl_ms, max_size };
    // What was written already is not judged a second time.
    let judged = if state.progress == 0 { admits(env, node, name, &write) } else { Ok(()) };
    if let Err(error) = judged {
        return vec![env.failure(node, error, false)].into();
    }
    let mut event = written(node, name, declared.and_then(|c| c.schema_version), value, &reducer);
    if let Event::ChannelWritten { ttl_ms: ttl, max_size: most, .. } = &mut event {
        (*ttl, *most) = (ttl_ms, max_size);
    }
    let outputs = Map::from_iter([("channel".to_owned(), json!(name))]);
    vec![event, Event::NodeCompleted { node_id: node.id.clone(), outputs }].into()
}

fn admits(env: &Env<'_>, node: &Node, name: &str, write: &Write<'_>) -> Result<(), RunError> {
    let declared = env.definition.channels.get(name);
    if declared.is_some_and(|channel| !channel.access.may_write(&node.id, &node.type_id)) {
        let message = format!("the node may not write to the channel `{name}`");
        return Err(RunError::new("channel_access_denied", message));
    }
    let state = fold(env.state.channels.get(name), write)
        .map_err(|error| RunError::new("channel_write_invalid", error.to_string()))?;
    if !env.seed.bounds.admits(&state) {
        let message = format!("the channel `{name}` would have too many bytes");
        return Err(RunError::new("channel_write_invalid", message));
    }
    match declared.is_none_or(|channel| channel.admits(&state)) {
        true => Ok(()),
        false => {
            let message = format!("the channel `{name}` would not fit its schema");
            Err(RunError::new("channel_write_invalid", message))
        }
    }
}

pub(super) fn call(
    env: &Env<'_>,
    node: &Node,
    state: &NodeState,
    given: Map<String, Value>,
    approved: Option<Value>,
) -> Doing {
    Doing::Work(Work::Call {
        key: env.key(node, state.asked),
        tool: node.text("tool").unwrap_or_default().to_owned(),
        version: node.text("version").map(str::to_owned),
        input: Value::Object(given),
        approved,
    })
}

/// Values of this run that a child begins with; what is not set stays unset.
pub(super) fn mapped(env: &Env<'_>, mapping: Option<&Value>) -> Map<String, Value> {
    let all = super::scope::variables(env);
    let pairs = names(mapping).into_iter();
    pairs.filter_map(|(child, own)| Some((child.to_owned(), all.get(own)?.clone()))).collect()
}

fn sub_workflow(env: &Env<'_>, node: &Node) -> Doing {
    let key = env.key(node, 0);
    let waits = node.flag("waitForCompletion") != Some(false);
    match env.state.children_of(&node.id).next().and_then(|child| child.run.clone()) {
        Some(run_id) if waits => Doing::Work(Work::Await { key, run_id }),
        Some(run_id) => {
            let outputs = json!({"childRunId": run_id, "childStatus": "running"});
            let dispatched = Event::NodeDispatched {
                node_id: node.id.clone(),
                child_run_id: run_id,
                child_workflow_id: node.text("workflowId").unwrap_or_default().to_owned(),
                child_status: "pending".to_owned(),
            };
            let mut events = vec![dispatched];
            events.extend(env.completion(node, object(outputs), &Map::new()));
            events.into()
        }
        None => Doing::Work(Work::Child {
            run_id: child_run_id(env, node, &key),
            key,
            workflow: node.text("workflowId").unwrap_or_default().to_owned(),
            inputs: mapped(env, node.config.get("inputMapping")),
        }),
    }
}

pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null => Map::new(),
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

fn insufficient(env: &Env<'_>, node: &Node) -> Doing {
    let missing = "nonexistent-capability-9b3f";
    let message = format!("no model offers `{missing}`");
    let error = RunError::new("capability_not_provided", message);
    let told = Event::ModelInsufficient {
        node_id: node.id.clone(),
        provider: "mock".to_owned(),
        model: "mock-mini".to_owned(),
        missing_capabilities: vec![missing.to_owned()],
    };
    vec![told, env.failure(node, error, false)].into()
}

/// The only names under `openwop.cost.` that go on.
const COSTS: [&str; 7] =
    ["tokens.input", "tokens.output", "tokens.total", "usd", "currency", "estimated", "provider"];

fn cost(env: &Env<'_>, node: &Node) -> Doing {
    let attrs = node.config.get("attrs").and_then(Value::as_object).cloned().unwrap_or_default();
    let known = |name: &str| name.strip_prefix("openwop.cost.").is_some_and(|n| COSTS.contains(&n));
    let kept: Map<String, Value> = attrs.into_iter().filter(|(name, _)| known(name)).collect();
    let get = |name: &str| kept.get(&format!("openwop.cost.{name}"));
    let whole = |name: &str| get(name).and_then(as_whole).unwrap_or(0);
    let usage = Event::ProviderUsage {
        node_id: node.id.clone(),
        provider: get("provider")
            .and_then(Value::as_str)
            .filter(|p| !p.is_empty())
            .unwrap_or("mock")
            .to_owned(),
        model: "mock".to_owned(),
        input_tokens: whole("tokens.input"),
        output_tokens: whole("tokens.output"),
        cost_estimate_usd: get("usd").and_then(Value::as_f64).filter(|usd| *usd >= 0.0),
    };
    let mut events = vec![usage];
    let outputs = Map::from_iter([("attributes".to_owned(), Value::Object(kept.clone()))]);
    events.extend(env.completion(node, outputs, &Map::new()));
    events.into()
}

/// What the run hands over: of its primary nodes, or of those that nothing follows.
pub(super) fn outputs(env: &Env<'_>) -> Map<String, Value> {
    let graph = &env.definition.graph;
    let has_primary = env.definition.nodes.iter().any(|node| node.primary);
    let last = |place: usize, node: &Node| match has_primary {
        true => node.primary,
        false => graph.outgoing.get(place).is_none_or(Vec::is_empty),
    };
    let mut found: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for (_, node) in env.definition.nodes.iter().enumerate().filter(|(at, n)| last(*at, n)) {
        let state = env.of(node).filter(|state| state.phase == Phase::Completed);
        found.extend(state.map(|state| (node.id.as_str(), &state.outputs)));
    }
    match found.as_slice() {
        [(_, only)] => (*only).clone(),
        many => {
            many.iter().map(|(id, all)| ((*id).to_owned(), Value::Object((*all).clone()))).collect()
        }
    }
}
