//! Every node type that is known, what offers it, and what it does: one table for discovery,
//! refusal and execution.

use std::collections::BTreeSet;

use crate::definition::{Definition, Node};

/// What makes a type available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    Always,
    /// Only where the conformance switch is on.
    Conformance,
    /// Known by name, never offered.
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    Noop,
    Identity,
    Delay,
    Fail,
    Approval,
    Clarification,
    Interrupt,
    SubWorkflow,
    ChannelWrite,
    Tool,
    AgentStage,
    Supervisor,
    Dispatch,
    Conversation,
    CallPrompt,
    StructuredOutput,
    MockAgent,
    RequiresMissing,
    ModelInsufficient,
    SecretEcho,
    CostEmit,
    Remote,
}

#[derive(Debug, Clone, Copy)]
pub struct NodeType {
    pub id: &'static str,
    pub kind: NodeKind,
    pub gate: Gate,
    /// What a host must advertise to offer it; empty for what every host has.
    pub capability: &'static str,
}

const fn row(id: &'static str, kind: NodeKind, gate: Gate, capability: &'static str) -> NodeType {
    NodeType { id, kind, gate, capability }
}

/// The supervisor and the model calls have no other driver than the mocks, so they come with the
/// switch.
pub const TYPES: &[NodeType] = &[
    row("core.noop", NodeKind::Noop, Gate::Always, ""),
    row("core.identity", NodeKind::Identity, Gate::Always, ""),
    row("core.delay", NodeKind::Delay, Gate::Always, ""),
    row("core.fail", NodeKind::Fail, Gate::Always, ""),
    row("core.approvalGate", NodeKind::Approval, Gate::Always, ""),
    row("core.openwop.governance.approvalGate", NodeKind::Approval, Gate::Always, "authorization"),
    row("core.clarificationGate", NodeKind::Clarification, Gate::Always, ""),
    row("core.interrupt", NodeKind::Interrupt, Gate::Always, ""),
    row("core.subWorkflow", NodeKind::SubWorkflow, Gate::Always, ""),
    row("core.channelWrite", NodeKind::ChannelWrite, Gate::Always, ""),
    row("core.tool", NodeKind::Tool, Gate::Always, ""),
    row("local.countersign.agentStage", NodeKind::AgentStage, Gate::Always, ""),
    row("core.orchestrator.supervisor", NodeKind::Supervisor, Gate::Conformance, "orchestrator"),
    row("core.dispatch", NodeKind::Dispatch, Gate::Conformance, "dispatch"),
    row("core.conversationGate", NodeKind::Conversation, Gate::Always, "conversationPrimitive"),
    row("core.ai.callPrompt", NodeKind::CallPrompt, Gate::Conformance, "aiProviders"),
    row("core.ai.structuredOutput", NodeKind::StructuredOutput, Gate::Conformance, "aiProviders"),
    row(
        "core.conformance.mock-agent",
        NodeKind::MockAgent,
        Gate::Conformance,
        "conformance.mockAgent",
    ),
    row("core.a2a.invoke", NodeKind::Remote, Gate::Never, "a2a"),
    row("conformance.requiresMissing", NodeKind::RequiresMissing, Gate::Conformance, "conformance"),
    row(
        "conformance.modelCapability.insufficient",
        NodeKind::ModelInsufficient,
        Gate::Conformance,
        "conformance",
    ),
    row("conformance.secret.echo", NodeKind::SecretEcho, Gate::Conformance, "secrets"),
    row("conformance.cost.emit", NodeKind::CostEmit, Gate::Conformance, "conformance"),
];

/// What this host offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Offers {
    pub conformance: bool,
    /// Capabilities that are switched off although the table would offer them.
    pub without: BTreeSet<String>,
}

impl Offers {
    pub fn conformance() -> Self {
        Offers { conformance: true, without: BTreeSet::new() }
    }

    pub fn has(&self, entry: &NodeType) -> bool {
        let gate = match entry.gate {
            Gate::Always => true,
            Gate::Conformance => self.conformance,
            Gate::Never => false,
        };
        gate && !self.without.contains(entry.capability)
    }

    /// Whether runs of the definition can be made here at all.
    pub fn can_run(&self, definition: &Definition) -> bool {
        definition.nodes.iter().all(|node| self.missing(definition, node).is_none())
    }

    /// The capability that `node` needs and this host does not have.
    pub fn missing(&self, definition: &Definition, node: &Node) -> Option<String> {
        let Some(entry) = TYPES.iter().find(|entry| entry.id == node.type_id) else {
            return Some(format!("nodeTypes.{}", node.type_id));
        };
        let fixture_only = entry.kind == NodeKind::MockAgent;
        let stray = fixture_only && !definition.id.starts_with("conformance-");
        let probes_memory =
            entry.kind == NodeKind::Identity && node.config.contains_key("memoryAction");
        let speaks_mcp = entry.kind == NodeKind::CallPrompt && node.config.contains_key("mcp");
        let channel = node.agent.as_ref().is_some_and(|agent| agent.get("channel").is_some());
        match () {
            () if !self.has(entry) || stray => Some(entry.capability.to_owned()),
            () if probes_memory && !self.conformance => Some("memory".to_owned()),
            () if speaks_mcp => Some("mcp".to_owned()),
            () if channel => Some("agents.deployment".to_owned()),
            () => None,
        }
    }
}

pub(crate) fn kind_of(type_id: &str) -> Option<NodeKind> {
    TYPES.iter().find(|entry| entry.id == type_id).map(|entry| entry.kind)
}
