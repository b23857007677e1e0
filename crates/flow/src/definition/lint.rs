//! What the form alone does not see.

use std::collections::{BTreeMap, BTreeSet};

use super::{Definition, Node, Port, form, shape};
use crate::channel::Reducer;
use crate::problem::{Problem, Report, shorten};
use crate::types::NodeKind;

/// More than anybody draws; enough to bound what one decision costs.
const MOST_NODES: usize = 1000;
const MOST_EDGES: usize = 5000;

pub(super) fn check(definition: &Definition, report: &mut Report) {
    sizes(definition, report);
    unique(report, "nodes", definition.nodes.iter().map(|node| node.id.as_str()));
    unique(report, "edges", definition.edges.iter().map(|edge| edge.id.as_str()));
    unique(report, "variables", definition.variables.iter().map(|v| v.name.as_str()));
    lengths(definition, report);
    channel_names(definition, report);
    edges(definition, report);
    for &place in &definition.graph.unreachable {
        report.add("WORKFLOW_NODE_UNREACHABLE", format!("/nodes/{place}"), "nothing leads here");
    }
    for (place, node) in definition.nodes.iter().enumerate() {
        ports(definition, node, place, report);
        config(definition, node, place, report);
    }
    for (name, channel) in &definition.channels {
        if let Reducer::Vendor(reducer) = &channel.reducer {
            let message = format!("the reducer `{reducer}` is not one of this engine");
            report.add("WORKFLOW_REDUCER_UNKNOWN", format!("/channels/{name}/reducer"), message);
        }
    }
}

fn sizes(definition: &Definition, report: &mut Report) {
    let lists = [
        ("nodes", definition.nodes.len(), MOST_NODES),
        ("edges", definition.edges.len(), MOST_EDGES),
        ("variables", definition.variables.len(), MOST_NODES),
        ("channels", definition.channels.len(), MOST_NODES),
    ];
    for (name, count, most) in lists.into_iter().filter(|(_, count, most)| count > most) {
        let message = format!("there are {count} {name}, more than {most}");
        report.add("WORKFLOW_TOO_LARGE", format!("/{name}"), message);
    }
}

fn unique<'a>(report: &mut Report, list: &str, ids: impl Iterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for (place, id) in ids.enumerate() {
        if !seen.insert(id) {
            let message = format!("`{id}` stands in {list} twice");
            report.add("WORKFLOW_ID_TWICE", format!("/{list}/{place}"), message);
        }
    }
}

/// Events carry the id of their node, and the contract bounds it there.
const LONGEST_ID: usize = 128;

fn lengths(definition: &Definition, report: &mut Report) {
    for (place, node) in definition.nodes.iter().enumerate() {
        if node.id.chars().count() > LONGEST_ID {
            let message = format!("the id has more than {LONGEST_ID} characters");
            report.add("WORKFLOW_ID_TOO_LONG", format!("/nodes/{place}/id"), message);
        }
    }
}

fn channel_names(definition: &Definition, report: &mut Report) {
    let written = definition.nodes.iter().filter_map(|node| node.text("channelName"));
    let declared = definition.channels.keys().map(String::as_str);
    for name in declared.chain(written).filter(|n| n.is_empty() || n.chars().count() > 256) {
        let message = format!("`{}` does not have 1 to 256 characters", shorten(name, 40));
        report.add("WORKFLOW_CHANNEL_UNKNOWN", "/channels", message);
    }
}

fn edges(definition: &Definition, report: &mut Report) {
    for (place, edge) in definition.edges.iter().enumerate() {
        let ends = [("sourceNodeId", &edge.source), ("targetNodeId", &edge.target)];
        for (member, id) in ends.into_iter().filter(|(_, id)| definition.node(id).is_none()) {
            let message = format!("there is no node `{id}`");
            report.add("WORKFLOW_NODE_UNKNOWN", format!("/edges/{place}/{member}"), message);
        }
        let pointer = format!("/edges/{place}/condition");
        let roots = edge.condition.iter().flat_map(|condition| condition.roots());
        names(definition, roots.collect(), &pointer, report);
    }
}

/// Names that a condition or an expression goes by.
const ROOTS: [&str; 7] = ["status", "output", "error", "variables", "channels", "inputs", "nodes"];

fn names(definition: &Definition, found: BTreeSet<String>, pointer: &str, report: &mut Report) {
    for name in found {
        let (root, rest) = name.split_once('.').unwrap_or((&name, ""));
        let first = rest.split('.').next().unwrap_or_default();
        if !ROOTS.contains(&root) {
            let message = format!("`{root}` is not known; names begin with {}", ROOTS.join(", "));
            report.add("WORKFLOW_NAME_UNKNOWN", pointer, message);
        } else if root == "variables" && !first.is_empty() && !is_variable(definition, first) {
            let message = format!("there is no variable `{first}`");
            report.add("WORKFLOW_VARIABLE_UNKNOWN", pointer, message);
        } else if root == "nodes" && !first.is_empty() && definition.node(first).is_none() {
            let message = format!("there is no node `{first}`");
            report.add("WORKFLOW_NODE_UNKNOWN", pointer, message);
        }
    }
}

/// Channels that nodes write are seen among the variables as well.
fn is_variable(definition: &Definition, name: &str) -> bool {
    let mapped = |node: &Node| {
        node.mapping("outputMapping").contains_key(name) || node.text("channelName") == Some(name)
    };
    definition.variable(name).is_some() || definition.nodes.iter().any(mapped)
}

fn ports(definition: &Definition, node: &Node, place: usize, report: &mut Report) {
    for (name, port) in &node.inputs {
        let pointer = format!("/nodes/{place}/inputs/{name}");
        match port {
            Port::Connection { node: from, .. } if definition.node(from).is_none() => {
                let message = format!("there is no node `{from}`");
                report.add("WORKFLOW_NODE_UNKNOWN", pointer, message);
            }
            Port::Variable { name, optional: false } if !is_variable(definition, name) => {
                let message = format!("there is no variable `{name}`");
                report.add("WORKFLOW_VARIABLE_UNKNOWN", pointer, message);
            }
            Port::Expression(expression) => {
                names(definition, expression.names().collect(), &pointer, report);
            }
            _ => {}
        }
    }
}

fn config(definition: &Definition, node: &Node, place: usize, report: &mut Report) {
    let pointer = format!("/nodes/{place}/config");
    let mut need = |member: &str| {
        if node.text(member).is_none_or(str::is_empty) {
            let message = format!("`{}` needs a text `{member}`", node.type_id);
            report.add("WORKFLOW_CONFIG_INVALID", pointer.clone(), message);
        }
    };
    match node.kind {
        Some(NodeKind::SubWorkflow) => need("workflowId"),
        Some(NodeKind::ChannelWrite) => need("channelName"),
        Some(NodeKind::Tool) => need("tool"),
        Some(NodeKind::AgentStage) => need("goal"),
        _ => {}
    }
    members(node, &pointer, report);
    if node.kind == Some(NodeKind::SubWorkflow) && node.text("workflowId") == Some(&definition.id) {
        report.add("WORKFLOW_CALLS_ITSELF", pointer, "a workflow may not call itself");
    } else if node.kind == Some(NodeKind::ChannelWrite) {
        channel(definition, node, &pointer, report);
    }
}

/// The members that become part of events have the form that those want.
fn members(node: &Node, pointer: &str, report: &mut Report) {
    let mut found = Report::default();
    if let Some(shape) = node.kind.and_then(form::config) {
        shape::object(&mut found, &node.config, shape, pointer);
    }
    let data = node.config.get("data").and_then(serde_json::Value::as_object);
    let shape = node.text("kind").and_then(form::interrupt_data);
    let asks = node.kind == Some(NodeKind::Interrupt);
    if let Some((data, shape)) = data.zip(shape).filter(|_| asks) {
        shape::object(&mut found, data, shape, &format!("{pointer}/data"));
    }
    report.adopt(found, "WORKFLOW_CONFIG_INVALID");
}

fn channel(definition: &Definition, node: &Node, pointer: &str, report: &mut Report) {
    let name = node.text("channelName").unwrap_or_default();
    let own = node.text("reducer").map(Reducer::of);
    match (definition.channels.get(name), own) {
        (None, None) => {
            let message = format!("the channel `{name}` is not declared, and no reducer is named");
            report.add("WORKFLOW_CHANNEL_UNKNOWN", pointer, message);
        }
        (_, Some(None | Some(Reducer::Vendor(_)))) => {
            let message = "the reducer is not one of this engine";
            report.add("WORKFLOW_REDUCER_UNKNOWN", pointer, message);
        }
        (Some(declared), Some(Some(own))) if declared.reducer != own => {
            let message = format!("the channel `{name}` is declared with another reducer");
            report.add("WORKFLOW_REDUCER_UNKNOWN", pointer, message);
        }
        _ => {}
    }
}

/// Workflows of a set that call one another in a circle, each told once.
pub fn recursion<'a>(definitions: impl IntoIterator<Item = &'a Definition>) -> Vec<Problem> {
    let calls: BTreeMap<&str, BTreeSet<&str>> =
        definitions.into_iter().map(|d| (d.id.as_str(), d.subworkflows().collect())).collect();
    let mut report = Report::default();
    for id in calls.keys().filter(|id| reaches(&calls, id)) {
        let message = format!("the workflow `{id}` calls itself through others");
        report.add("WORKFLOW_CALLS_ITSELF", format!("/{id}"), message);
    }
    report.finish().err().unwrap_or_default()
}

fn reaches(calls: &BTreeMap<&str, BTreeSet<&str>>, start: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&str> = calls.get(start).into_iter().flatten().copied().collect();
    while let Some(next) = waiting.pop() {
        if next == start {
            return true;
        }
        if seen.insert(next) {
            waiting.extend(calls.get(next).into_iter().flatten());
        }
    }
    false
}
