//! What conditions and inputs of nodes can see.

use serde_json::{Map, Value, json};

use super::Env;
use crate::condition::Scope;
use crate::definition::{Node, Port};
use crate::event::RunError;
use crate::run::{NodeState, Phase};
use crate::types::NodeKind;

/// The scope of a condition on an edge out of `node`, or of an input of it.
pub(crate) fn scope(env: &Env<'_>, node: &Node, source: Option<&NodeState>) -> Scope {
    let readable = |name: &String| {
        let channel = env.definition.channels.get(name);
        channel.is_none_or(|channel| channel.access.may_read(&node.id, &node.type_id))
    };
    let channels: Map<String, Value> = env
        .state
        .channels
        .iter()
        .filter(|(n, _)| readable(n))
        .map(|(n, v)| (n.clone(), v.clone()))
        .collect();
    let nodes: Map<String, Value> = env
        .state
        .nodes
        .iter()
        .filter(|(_, state)| state.is_settled())
        .map(|(id, state)| (id.clone(), json!({"status": status(state), "output": state.outputs})))
        .collect();
    let mut scope = Scope::from([
        ("variables", Value::Object(variables(env))),
        ("channels", Value::Object(channels)),
        ("inputs", Value::Object(env.seed.inputs.clone())),
        ("nodes", Value::Object(nodes)),
    ]);
    if let Some(source) = source {
        scope.insert("status", json!(status(source)));
        scope.insert("output", Value::Object(source.outputs.clone()));
        let error = source.error.as_ref().and_then(|error| serde_json::to_value(error).ok());
        scope.insert("error", error.unwrap_or(Value::Null));
    }
    scope
}

pub(crate) fn status(state: &NodeState) -> &'static str {
    match state.phase {
        Phase::Idle => "pending",
        Phase::Active | Phase::Retrying => "running",
        Phase::Suspended => "suspended",
        Phase::Completed => "completed",
        Phase::Failed => "failed",
        Phase::Skipped => "skipped",
        Phase::Cancelled => "cancelled",
    }
}

/// Variables, and the channels that nodes write by name.
pub(crate) fn variables(env: &Env<'_>) -> Map<String, Value> {
    visible(env.definition, env.state)
}

pub(crate) fn visible(
    definition: &crate::definition::Definition,
    state: &crate::run::RunState,
) -> Map<String, Value> {
    let mut all: Map<String, Value> =
        state.variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let writers = definition.nodes.iter().filter(|node| node.kind == Some(NodeKind::ChannelWrite));
    for name in writers.filter_map(|node| node.text("channelName")) {
        all.extend(state.channels.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    all
}

/// The inputs of a node, or what is missing.
pub(crate) fn inputs(env: &Env<'_>, node: &Node) -> Result<Map<String, Value>, RunError> {
    let mut found = Map::new();
    for (name, port) in &node.inputs {
        if let Some(value) = input(env, node, name, port)? {
            found.insert(name.clone(), value);
        }
    }
    Ok(found)
}

fn input(env: &Env<'_>, node: &Node, name: &str, port: &Port) -> Result<Option<Value>, RunError> {
    let missing = |what: String, optional: bool| match optional {
        true => Ok(None),
        false => Err(RunError::new("input_missing", format!("the input `{name}` needs {what}"))),
    };
    match port {
        Port::Static(value) => Ok(Some(value.clone())),
        Port::Expression(expression) => {
            let told =
                |why| RunError::new("expression_error", format!("the input `{name}`: {why}"));
            expression.evaluate(&scope(env, node, None)).map(Some).map_err(told)
        }
        Port::Connection { node: from, output, optional } => {
            let value = env.state.node(from).and_then(|state| state.outputs.get(output));
            match value {
                Some(value) => Ok(Some(value.clone())),
                None => missing(format!("`{output}` of the node `{from}`"), *optional),
            }
        }
        Port::Variable { name: variable, optional } => match variables(env).remove(variable) {
            Some(value) => Ok(Some(value)),
            None => missing(format!("the variable `{variable}`"), *optional),
        },
    }
}
