//! A workflow definition: read strictly, all problems at once, kept as it came.

mod form;
pub(crate) mod graph;
mod lint;
mod shape;

use std::collections::BTreeMap;

use countersign_model::{CompiledSchema, Digest, JsonLimits, parse_strict};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::channel::Channel;
use crate::condition::Condition;
use crate::expression::Expression;
use crate::problem::{Problem, Report};
use crate::types::{NodeKind, kind_of};
pub use graph::Graph;
pub use lint::recursion;

/// How often a node may be entered again over a back edge when nothing else is said.
pub const DEFAULT_LOOPBACKS: u64 = 5;

/// A definition without problems.
#[derive(Debug)]
pub struct Definition {
    pub id: String,
    pub name: String,
    pub version: String,
    pub nodes: Vec<Node>,
    pub edges: Vec<Edge>,
    pub variables: Vec<Variable>,
    pub channels: BTreeMap<String, Channel>,
    pub settings: Settings,
    pub configurable: Option<CompiledSchema>,
    pub graph: Graph,
    places: BTreeMap<String, usize>,
    source: Value,
    digest: Digest,
}

#[derive(Debug)]
pub struct Node {
    pub id: String,
    pub type_id: String,
    /// `None` for a type that this engine does not know.
    pub kind: Option<NodeKind>,
    pub config: Map<String, Value>,
    pub inputs: BTreeMap<String, Port>,
    pub disabled: bool,
    pub agent: Option<Value>,
    pub primary: bool,
    pub artifact_type: Option<String>,
    /// Output ports that are masked wherever they are shown.
    pub sensitive_outputs: Vec<String>,
    pub max_retries: Option<u64>,
    pub max_loopbacks: Option<u64>,
}

impl Node {
    pub fn text(&self, key: &str) -> Option<&str> {
        self.config.get(key).and_then(Value::as_str)
    }

    pub fn flag(&self, key: &str) -> Option<bool> {
        self.config.get(key).and_then(Value::as_bool)
    }

    pub fn whole(&self, key: &str) -> Option<u64> {
        self.config.get(key).and_then(as_whole)
    }

    /// A map from name to name, such as `inputMapping`.
    pub fn mapping(&self, key: &str) -> BTreeMap<&str, &str> {
        names(self.config.get(key))
    }

    pub fn agent_id(&self) -> Option<&str> {
        self.agent.as_ref()?.get("agentId")?.as_str()
    }
}

pub(crate) fn names(value: Option<&Value>) -> BTreeMap<&str, &str> {
    let map = value.and_then(Value::as_object);
    let pairs = map.into_iter().flatten();
    pairs.filter_map(|(key, to)| Some((key.as_str(), to.as_str()?))).collect()
}

/// A whole number, also when it is written as `3.0`.
pub(crate) fn as_whole(value: &Value) -> Option<u64> {
    let number = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=9e15).contains(n))?;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the line above holds it inside of the exact whole numbers"
    )]
    value.as_u64().or(Some(number as u64))
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.as_ref().and_then(as_whole))
}

/// Where an input comes from.
#[derive(Debug)]
pub enum Port {
    Static(Value),
    Expression(Expression),
    Connection { node: String, output: String, optional: bool },
    Variable { name: String, optional: bool },
}

#[derive(Debug)]
pub struct Edge {
    pub id: String,
    pub source: String,
    pub target: String,
    pub condition: Option<Condition>,
    pub rule: TriggerRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerRule {
    #[default]
    AllSuccess,
    AnySuccess,
    AllComplete,
    NoneFailed,
    AnyFailed,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Variable {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub required: bool,
    pub default_value: Option<Value>,
    #[serde(default)]
    pub sensitive: bool,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// Milliseconds; none and 0 mean no bound of the workflow's own.
    #[serde(default, deserialize_with = "whole")]
    pub timeout: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub max_retries: Option<u64>,
    #[serde(default, deserialize_with = "whole")]
    pub max_loopback_iterations: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDefinition {
    id: String,
    name: String,
    version: String,
    nodes: Vec<RawNode>,
    edges: Vec<RawEdge>,
    variables: Vec<Variable>,
    #[serde(default)]
    channels: BTreeMap<String, Channel>,
    settings: Settings,
    configurable_schema: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNode {
    id: String,
    type_id: String,
    config: Map<String, Value>,
    inputs: BTreeMap<String, RawPort>,
    #[serde(default)]
    disabled: bool,
    agent: Option<Value>,
    output_role: Option<String>,
    artifact_type: Option<String>,
    #[serde(default)]
    output_sensitivity: BTreeMap<String, bool>,
    #[serde(default)]
    settings: Settings,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum RawPort {
    Static {
        value: Value,
    },
    Expression {
        expression: String,
    },
    Connection {
        node_id: String,
        output_key: String,
        #[serde(default)]
        optional: bool,
    },
    Variable {
        variable_name: String,
        #[serde(default)]
        optional: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEdge {
    id: String,
    source_node_id: String,
    target_node_id: String,
    condition: Option<Value>,
    #[serde(default)]
    trigger_rule: TriggerRule,
}

impl Definition {
    /// The definition in `bytes`, or everything that is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let refused = |code, message| {
            let mut report = Report::default();
            report.add(code, "", message);
            report.finish()
        };
        match parse_strict(bytes, &JsonLimits::default()) {
            Ok(value) => Self::of(value),
            Err(failure) => refused("WORKFLOW_UNREADABLE", failure.message).and(Err(Vec::new())),
        }
    }

    pub fn of(source: Value) -> Result<Self, Vec<Problem>> {
        let mut report = Report::default();
        shape::check(&mut report, &source, form::DEFINITION, "");
        if !report.is_clean() {
            return Err(report.finish().err().unwrap_or_default());
        }
        let raw = match RawDefinition::deserialize(&source) {
            Ok(raw) => raw,
            Err(error) => {
                report.add("WORKFLOW_INVALID", "", error.to_string());
                return Err(report.finish().err().unwrap_or_default());
            }
        };
        let definition = build(raw, source, &mut report);
        lint::check(&definition, &mut report);
        report.finish().map(|()| definition)
    }

    /// What was read, member for member.
    pub fn source(&self) -> &Value {
        &self.source
    }

    /// The digest of the canonical form: the same definition, the same digest.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    pub fn node(&self, id: &str) -> Option<&Node> {
        self.place(id).and_then(|place| self.nodes.get(place))
    }

    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }

    pub fn variable(&self, name: &str) -> Option<&Variable> {
        self.variables.iter().find(|variable| variable.name == name)
    }

    pub fn is_sensitive(&self, variable: &str) -> bool {
        self.variable(variable).is_some_and(|variable| variable.sensitive)
            || self.channels.get(variable).is_some_and(|channel| channel.sensitive)
    }

    /// Workflows that nodes of this one start by name.
    pub fn subworkflows(&self) -> impl Iterator<Item = &str> {
        let calls = |node: &&Node| node.kind == Some(NodeKind::SubWorkflow);
        self.nodes.iter().filter(calls).filter_map(|node| node.text("workflowId"))
    }
}

fn build(raw: RawDefinition, source: Value, report: &mut Report) -> Definition {
    let mut nodes: Vec<_> =
        raw.nodes.into_iter().enumerate().map(|(at, node)| node_of(at, node, report)).collect();
    nodes.iter_mut().for_each(|node| pass_on_sensitivity(node, &raw.variables));
    let edges: Vec<_> =
        raw.edges.into_iter().enumerate().map(|(at, edge)| edge_of(at, edge, report)).collect();
    let places = nodes.iter().enumerate().map(|(at, node)| (node.id.clone(), at)).collect();
    let graph = Graph::new(&nodes, &edges, &places);
    let configurable = raw.configurable_schema.and_then(|schema| {
        let refused = |error: countersign_model::SchemaError| {
            let pointer = format!("/configurableSchema{}", error.pointer);
            report.add("WORKFLOW_SCHEMA_UNUSABLE", pointer, error.message);
        };
        CompiledSchema::compile(&schema).map_err(refused).ok()
    });
    let digest = Digest::of_json(&source).unwrap_or_else(|_| Digest::of(b""));
    let (id, name, version) = (raw.id, raw.name, raw.version);
    let (variables, settings, mut channels) = (raw.variables, raw.settings, raw.channels);
    channels.iter_mut().for_each(|(name, channel)| compile_channel(name, channel, report));
    Definition {
        id,
        name,
        version,
        nodes,
        edges,
        variables,
        channels,
        settings,
        configurable,
        graph,
        places,
        source,
        digest,
    }
}

/// What a node passes through stays as sensitive as it was.
fn pass_on_sensitivity(node: &mut Node, variables: &[Variable]) {
    let hidden = |name: &str| variables.iter().any(|v| v.sensitive && v.name == name);
    let ports = node.inputs.iter().filter_map(|(port, from)| match from {
        Port::Variable { name, .. } if hidden(name) => Some(port.clone()),
        _ => None,
    });
    node.sensitive_outputs.extend(ports);
}

fn compile_channel(name: &str, channel: &mut Channel, report: &mut Report) {
    let Some(schema) = &channel.schema else { return };
    match CompiledSchema::compile(schema) {
        Ok(compiled) => channel.compiled = Some(compiled),
        Err(error) => {
            let pointer = format!("/channels/{name}/schema{}", error.pointer);
            report.add("WORKFLOW_SCHEMA_UNUSABLE", pointer, error.message);
        }
    }
}

fn node_of(at: usize, raw: RawNode, report: &mut Report) -> Node {
    let port = |(name, port): (String, RawPort)| {
        let port = match port {
            RawPort::Static { value } => Port::Static(value),
            RawPort::Expression { expression } => {
                let pointer = format!("/nodes/{at}/inputs/{name}/expression");
                Port::Expression(expression_of(&expression, pointer, report)?)
            }
            RawPort::Connection { node_id: node, output_key: output, optional } => {
                Port::Connection { node, output, optional }
            }
            RawPort::Variable { variable_name: name, optional } => {
                Port::Variable { name, optional }
            }
        };
        Some((name, port))
    };
    Node {
        kind: kind_of(&raw.type_id),
        inputs: raw.inputs.into_iter().filter_map(port).collect(),
        id: raw.id,
        type_id: raw.type_id,
        config: raw.config,
        disabled: raw.disabled,
        agent: raw.agent,
        primary: raw.output_role.as_deref() == Some("primary"),
        artifact_type: raw.artifact_type,
        sensitive_outputs: raw
            .output_sensitivity
            .into_iter()
            .filter_map(|(port, masked)| masked.then_some(port))
            .collect(),
        max_retries: raw.settings.max_retries,
        max_loopbacks: raw.settings.max_loopback_iterations,
    }
}

fn expression_of(text: &str, pointer: String, report: &mut Report) -> Option<Expression> {
    let refused = |why: String| report.add("WORKFLOW_EXPRESSION_INVALID", pointer, why);
    Expression::compile(text).map_err(refused).ok()
}

fn edge_of(at: usize, raw: RawEdge, report: &mut Report) -> Edge {
    let condition = raw.condition.and_then(|condition| {
        let refused = |why: String| {
            report.add("WORKFLOW_CONDITION_INVALID", format!("/edges/{at}/condition"), why);
        };
        Condition::of(&condition).map_err(refused).ok()
    });
    let (source, target) = (raw.source_node_id, raw.target_node_id);
    Edge { id: raw.id, source, target, condition, rule: raw.trigger_rule }
}
