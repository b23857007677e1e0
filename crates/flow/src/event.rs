//! What happened in a run. Stored in one compact form; `wire` makes what is shown of it.

mod wire;

use std::collections::BTreeMap;

use countersign_model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::channel::Reducer;
pub(crate) use wire::outputs as mask_outputs;
pub use wire::{MASK, wire};

/// Why a node or a run failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunError {
    pub code: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Map<String, Value>>,
}

impl RunError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        // The contract wants words.
        let message = if message.is_empty() { code.to_owned() } else { message };
        RunError { code: code.to_owned(), message, details: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InterruptKind {
    #[serde(rename = "approval")]
    Approval,
    #[serde(rename = "clarification")]
    Clarification,
    #[serde(rename = "external-event")]
    ExternalEvent,
    #[serde(rename = "custom")]
    Custom,
    #[serde(rename = "conversation.exchange")]
    Exchange,
    #[serde(rename = "low-confidence")]
    LowConfidence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalAction {
    Accept,
    Reject,
    Refine,
    EditAccept,
    Timeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cap {
    NodeExecutions,
    RunDuration,
    LoopIterations,
    /// Replies of a model that do not fit; the node fails by itself.
    Schema,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChainPhase {
    #[serde(rename = "dispatch.began")]
    Began,
    #[serde(rename = "dispatch.succeeded")]
    Succeeded,
    #[serde(rename = "dispatch.failed")]
    Failed,
    #[serde(rename = "child.completed")]
    ChildCompleted,
    #[serde(rename = "child.failed")]
    ChildFailed,
    #[serde(rename = "child.cancelled")]
    ChildCancelled,
    #[serde(rename = "output.harvested")]
    Harvested,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum OrchestratorDecision {
    NextWorker {
        next_worker_ids: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
    },
    AskUser {
        prompt: String,
    },
    Terminate {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confidence: Option<f64>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PausePolicy {
    Immediate,
    DrainCurrentNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub granted: u64,
    pub required: u64,
}

/// The closed list of what a run can record. Members that are lists or maps are complete: nothing
/// that the fold needs is left out, and what must not be shown is dropped or masked by `wire`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "payload", rename_all_fields = "camelCase")]
#[rustfmt::skip]
pub enum Event {
    #[serde(rename = "run.started")]
    RunStarted {
        workflow_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] transport: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] owner: Option<Value>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] tags: Vec<String>,
    },
    #[serde(rename = "run.completed")]
    RunCompleted { outputs: Map<String, Value> },
    #[serde(rename = "run.failed")]
    RunFailed {
        error: RunError,
        #[serde(default, skip_serializing_if = "Option::is_none")] failed_node_id: Option<String>,
    },
    #[serde(rename = "run.cancelled")]
    RunCancelled {
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] cancelled_by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] parent_run_id: Option<String>,
    },
    /// Shown as a log line: the contract has no type for it.
    #[serde(rename = "run.pausing")]
    PauseRequested {
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
    },
    #[serde(rename = "run.paused")]
    RunPaused {
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
        drain_policy: PausePolicy,
    },
    /// After a pause; or by another process, because the one that advanced the run is gone.
    #[serde(rename = "run.resumed")]
    RunResumed {
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
        #[serde(default, skip_serializing_if = "is_false")] taken_over: bool,
    },
    #[serde(rename = "node.started")]
    NodeStarted { node_id: String, type_id: String, attempt: u64 },
    #[serde(rename = "node.completed")]
    NodeCompleted { node_id: String, outputs: Map<String, Value> },
    #[serde(rename = "node.failed")]
    NodeFailed { node_id: String, error: RunError },
    #[serde(rename = "node.suspended")]
    NodeSuspended {
        node_id: String,
        interrupt_id: String,
        kind: InterruptKind,
        key: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] threshold: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")] observed: Option<f64>,
    },
    #[serde(rename = "node.resumed")]
    NodeResumed { node_id: String, interrupt_id: String, resume_value: Value },
    #[serde(rename = "node.retried")]
    NodeRetried { node_id: String, attempt: u64, last_error: RunError },
    #[serde(rename = "node.skipped")]
    NodeSkipped { node_id: String, reason: String },
    #[serde(rename = "node.cancelled")]
    NodeCancelled { node_id: String, reason: String },
    #[serde(rename = "node.dispatched")]
    NodeDispatched { node_id: String, child_run_id: String, child_workflow_id: String, child_status: String },
    #[serde(rename = "approval.requested")]
    ApprovalRequested { node_id: String, interrupt_id: String, artifact_id: String, artifact_type: String, actions: Vec<String> },
    #[serde(rename = "approval.received")]
    ApprovalReceived {
        node_id: String,
        action: ApprovalAction,
        #[serde(default, skip_serializing_if = "Option::is_none")] decided_by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] decided_at: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] feedback: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] refine_feedback: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")] edited_artifact_data: Option<Value>,
    },
    #[serde(rename = "approval.granted")]
    ApprovalGranted { gate_id: String, principal: String, quorum_progress: Progress },
    #[serde(rename = "approval.rejected")]
    ApprovalRejected {
        gate_id: String,
        principal: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
    },
    #[serde(rename = "approval.overridden")]
    ApprovalOverridden { gate_id: String, principal: String, reason: String },
    #[serde(rename = "authorization.decided")]
    AuthorizationDecided { node_id: String, principal: String, action: String, resource: String, allowed: bool, reason: String },
    #[serde(rename = "clarification.requested")]
    ClarificationRequested { node_id: String, interrupt_id: String, questions: Value },
    #[serde(rename = "clarification.resolved")]
    ClarificationResolved { node_id: String, answers: Map<String, Value> },
    #[serde(rename = "interrupt.requested")]
    InterruptRequested {
        node_id: String,
        kind: InterruptKind,
        key: String,
        data: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")] resume_schema: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")] timeout_ms: Option<u64>,
    },
    #[serde(rename = "interrupt.resolved")]
    InterruptResolved { node_id: String, interrupt_id: String, kind: InterruptKind, resume_value: Value },
    #[serde(rename = "channel.written")]
    ChannelWritten {
        node_id: String,
        channel: String,
        value: Value,
        reducer: Reducer,
        schema_version: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] ttl_ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")] max_size: Option<u64>,
    },
    #[serde(rename = "variable.changed")]
    VariableChanged {
        name: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] previous: Option<Value>,
        next: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")] node_id: Option<String>,
    },
    #[serde(rename = "output.chunk")]
    OutputChunk { node_id: String, chunk: String, is_last: bool },
    #[serde(rename = "log.appended")]
    LogAppended {
        level: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] node_id: Option<String>,
        #[serde(default, skip_serializing_if = "Map::is_empty")] fields: Map<String, Value>,
    },
    #[serde(rename = "cap.breached")]
    CapBreached {
        kind: Cap,
        limit: u64,
        observed: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] node_id: Option<String>,
    },
    #[serde(rename = "workflow.loopback-limit")]
    LoopbackLimit { node_id: String, iterations: u64, limit: u64 },
    #[serde(rename = "replay.diverged")]
    ReplayDiverged { source_run_id: String, at_sequence: u64, divergence_kind: String, divergence_point: String },
    #[serde(rename = "agent.reasoned")]
    AgentReasoned { node_id: String, agent_id: String, reasoning: String },
    #[serde(rename = "agent.reasoning.delta")]
    AgentReasoningDelta { node_id: String, agent_id: String, delta: String, sequence: u64 },
    #[serde(rename = "agent.toolCalled")]
    AgentToolCalled { node_id: String, agent_id: String, tool_name: String, call_id: String, inputs: Value },
    #[serde(rename = "agent.toolReturned")]
    AgentToolReturned {
        node_id: String,
        agent_id: String,
        tool_name: String,
        call_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] outcome: Option<Value>,
        #[serde(default, skip_serializing_if = "Option::is_none")] error: Option<RunError>,
        status: String,
    },
    #[serde(rename = "agent.handoff")]
    AgentHandoff {
        node_id: String,
        from_agent_id: String,
        to_agent_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] reason: Option<String>,
    },
    #[serde(rename = "agent.decided")]
    AgentDecided {
        node_id: String,
        agent_id: String,
        decision: Value,
        #[serde(default, skip_serializing_if = "Option::is_none")] confidence: Option<f64>,
    },
    #[serde(rename = "runOrchestrator.decided")]
    OrchestratorDecided { node_id: String, agent_id: String, decision: OrchestratorDecision, iteration: u64 },
    #[serde(rename = "core.workflowChain.event")]
    ChainEvent {
        node_id: String,
        phase: ChainPhase,
        worker_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] child_run_id: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] harvested_keys: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")] error: Option<RunError>,
    },
    #[serde(rename = "core.workflowChain.confidence-escalated")]
    ConfidenceEscalated { node_id: String, confidence: f64, floor: f64, escalation_kind: String, original_decision: OrchestratorDecision },
    #[serde(rename = "conversation.opened")]
    ConversationOpened { node_id: String, conversation_id: String },
    #[serde(rename = "conversation.exchanged")]
    ConversationExchanged { node_id: String, conversation_id: String, turn_index: u64, outcome: Value },
    #[serde(rename = "conversation.closed")]
    ConversationClosed { node_id: String, conversation_id: String, turn_count: u64 },
    #[serde(rename = "model.capability.insufficient")]
    ModelInsufficient { node_id: String, provider: String, model: String, missing_capabilities: Vec<String> },
    #[serde(rename = "provider.usage")]
    ProviderUsage {
        node_id: String,
        provider: String,
        model: String,
        input_tokens: u64,
        output_tokens: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")] cost_estimate_usd: Option<f64>,
    },
    #[serde(rename = "envelope.retry.attempted")]
    EnvelopeRetry { node_id: String, attempt: u64, reason: String },
    #[serde(rename = "envelope.retry.exhausted")]
    EnvelopeExhausted { node_id: String, total_attempts: u64, final_reason: String },
    #[serde(rename = "envelope.refusal")]
    EnvelopeRefusal { node_id: String, provider: String, model: String },
    #[serde(rename = "envelope.truncated")]
    EnvelopeTruncated {
        node_id: String,
        provider: String,
        model: String,
        stop_reason: String,
        #[serde(default)] partial_payload_available: bool,
    },
    #[serde(rename = "envelope.nlToFormat.engaged")]
    EnvelopeCoerced { node_id: String, original_envelope_type: String, fallback_calls: u64 },
    #[serde(rename = "envelope.recovery.applied")]
    EnvelopeRecovered { node_id: String, path: String },
    #[serde(rename = "memory.written")]
    MemoryWritten {
        memory_ref: String,
        memory_id: String,
        node_id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")] agent_id: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")] tags: Vec<String>,
    },
    #[serde(rename = "artifact.created")]
    ArtifactCreated {
        artifact_id: String,
        artifact_type: String,
        node_id: String,
        #[serde(default, skip_serializing_if = "String::is_empty")] name: String,
        /// Whether the type is one that the host knows the form of.
        #[serde(default)] registered: bool,
    },
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// An event that was decided and is not recorded yet.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    pub event: Event,
    /// The sequence of the event of this run that caused it.
    pub cause: Option<u64>,
}

/// An event of a run as it is stored. Which run that is, is known from where it is stored, so that
/// a fork copies events as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunEvent {
    #[serde(rename = "seq")]
    pub sequence: u64,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u64>,
    #[serde(flatten)]
    pub event: Event,
}

/// Gives new events their places, from `next` on, and their moment.
pub fn seal(next: u64, events: Vec<NewEvent>, now: Timestamp) -> Vec<RunEvent> {
    let place = |(sequence, new): (u64, NewEvent)| RunEvent {
        sequence,
        at: now,
        cause: new.cause,
        event: new.event,
    };
    (next..).zip(events).map(place).collect()
}

/// The id under which the wire knows an event.
pub fn event_id(run: &str, sequence: u64) -> String {
    format!("{run}-e{sequence}")
}

impl Event {
    pub fn is_terminal(&self) -> bool {
        matches!(
            self,
            Event::RunCompleted { .. } | Event::RunFailed { .. } | Event::RunCancelled { .. }
        )
    }

    /// Says only which process advances the run, and nothing about what the run does.
    pub fn is_takeover(&self) -> bool {
        matches!(self, Event::RunResumed { taken_over: true, .. })
    }

    /// That another process goes on with a run.
    pub fn takeover() -> Event {
        let reason = Some("the process that advanced the run is gone".to_owned());
        Event::RunResumed { reason, taken_over: true }
    }

    /// The node it is about.
    pub fn node_id(&self) -> Option<&str> {
        match self {
            Event::RunStarted { .. }
            | Event::RunCompleted { .. }
            | Event::RunFailed { .. }
            | Event::RunCancelled { .. }
            | Event::PauseRequested { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed { .. }
            | Event::ReplayDiverged { .. } => None,
            Event::VariableChanged { node_id, .. }
            | Event::LogAppended { node_id, .. }
            | Event::CapBreached { node_id, .. } => node_id.as_deref(),
            Event::ApprovalGranted { gate_id: node_id, .. }
            | Event::ApprovalRejected { gate_id: node_id, .. }
            | Event::ApprovalOverridden { gate_id: node_id, .. }
            | Event::NodeStarted { node_id, .. }
            | Event::NodeCompleted { node_id, .. }
            | Event::NodeFailed { node_id, .. }
            | Event::NodeSuspended { node_id, .. }
            | Event::NodeResumed { node_id, .. }
            | Event::NodeRetried { node_id, .. }
            | Event::NodeSkipped { node_id, .. }
            | Event::NodeCancelled { node_id, .. }
            | Event::NodeDispatched { node_id, .. }
            | Event::ApprovalRequested { node_id, .. }
            | Event::ApprovalReceived { node_id, .. }
            | Event::AuthorizationDecided { node_id, .. }
            | Event::ClarificationRequested { node_id, .. }
            | Event::ClarificationResolved { node_id, .. }
            | Event::InterruptRequested { node_id, .. }
            | Event::InterruptResolved { node_id, .. }
            | Event::ChannelWritten { node_id, .. }
            | Event::OutputChunk { node_id, .. }
            | Event::LoopbackLimit { node_id, .. }
            | Event::AgentReasoned { node_id, .. }
            | Event::AgentReasoningDelta { node_id, .. }
            | Event::AgentToolCalled { node_id, .. }
            | Event::AgentToolReturned { node_id, .. }
            | Event::AgentHandoff { node_id, .. }
            | Event::AgentDecided { node_id, .. }
            | Event::OrchestratorDecided { node_id, .. }
            | Event::ChainEvent { node_id, .. }
            | Event::ConfidenceEscalated { node_id, .. }
            | Event::ConversationOpened { node_id, .. }
            | Event::ConversationExchanged { node_id, .. }
            | Event::ConversationClosed { node_id, .. }
            | Event::ModelInsufficient { node_id, .. }
            | Event::ProviderUsage { node_id, .. }
            | Event::EnvelopeRetry { node_id, .. }
            | Event::EnvelopeExhausted { node_id, .. }
            | Event::EnvelopeRefusal { node_id, .. }
            | Event::EnvelopeTruncated { node_id, .. }
            | Event::EnvelopeCoerced { node_id, .. }
            | Event::EnvelopeRecovered { node_id, .. }
            | Event::MemoryWritten { node_id, .. }
            | Event::ArtifactCreated { node_id, .. } => Some(node_id),
        }
    }

    pub(crate) fn variable(node: &str, name: &str, previous: Option<&Value>, next: Value) -> Event {
        Event::VariableChanged {
            name: name.to_owned(),
            previous: previous.cloned(),
            next,
            node_id: Some(node.to_owned()),
        }
    }
}

/// Values by name, in an order that is always the same.
pub type Values = BTreeMap<String, Value>;
