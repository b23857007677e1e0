//! The state of a run: a fold of its events, and nothing else.

mod apply;

use std::collections::BTreeMap;

use countersign_model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definition::Definition;
use crate::event::{InterruptKind, OrchestratorDecision, RunError, Values};
use crate::seed::Seed;
pub use apply::Impossible;
pub(crate) use apply::interrupt_id;

/// Where a run is, in the words of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Pending,
    Running,
    Paused,
    WaitingApproval,
    WaitingInput,
    WaitingExternal,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    pub fn is_terminal(self) -> bool {
        matches!(self, Status::Completed | Status::Failed | Status::Cancelled)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "pending",
            Status::Running => "running",
            Status::Paused => "paused",
            Status::WaitingApproval => "waiting-approval",
            Status::WaitingInput => "waiting-input",
            Status::WaitingExternal => "waiting-external",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    /// The sequence of the next event.
    pub next: u64,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    pub nodes: BTreeMap<String, NodeState>,
    pub variables: Values,
    pub channels: Values,
    pub interrupts: Vec<OpenInterrupt>,
    /// What was answered under a key: the same question is not asked twice.
    pub resolutions: BTreeMap<String, Resolved>,
    pub children: Vec<Child>,
    pub pause: Pause,
    pub executions: u64,
    pub decision: Option<LastDecision>,
    /// A bound was passed: nothing more is begun, and the run fails.
    pub doom: Option<Doom>,
    pub end: Option<End>,
    pub cost: Option<Cost>,
    /// The node that was begun last.
    pub current: Option<String>,
    pub diverged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    Idle,
    Active,
    /// Failed, and to be begun again.
    Retrying,
    Suspended,
    Completed,
    Failed,
    Skipped,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct NodeState {
    pub phase: Phase,
    /// How often it was entered; more than once in a loop.
    pub rounds: u64,
    pub attempt: u64,
    /// The sequence of the event that began or skipped it.
    pub decided: Option<u64>,
    /// The sequence of the event that ended it.
    pub settled: Option<u64>,
    pub started_at: Option<Timestamp>,
    pub outputs: Map<String, Value>,
    pub error: Option<RunError>,
    /// Events about it since it was begun or resumed.
    pub progress: u64,
    /// Interrupts of this attempt.
    pub asked: u64,
    /// Events about it since it was suspended.
    pub heard: u64,
    /// The answer that waits to be taken up.
    pub answer: Option<Value>,
    /// The answer that was taken up.
    pub resumed: Option<Value>,
    /// Turns of a conversation, replies of a model.
    pub turns: u64,
    /// Replies of a model that had no room.
    pub cut_off: u64,
    /// The last reply was of another form than asked for.
    pub corrected: bool,
    pub coerced: bool,
}

impl NodeState {
    pub fn is_settled(&self) -> bool {
        matches!(self.phase, Phase::Completed | Phase::Failed | Phase::Skipped)
    }

    pub fn is_busy(&self) -> bool {
        matches!(self.phase, Phase::Active | Phase::Suspended | Phase::Retrying)
    }
}

/// A question that waits for somebody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpenInterrupt {
    pub id: String,
    pub node: String,
    pub kind: InterruptKind,
    pub key: String,
    pub data: Value,
    pub resume_schema: Option<Value>,
    pub requested_at: Timestamp,
    pub expires_at: Option<Timestamp>,
    /// Who accepts, and who rejects.
    pub votes: BTreeMap<String, bool>,
    /// It was said that the time is over.
    pub expired: bool,
    /// Answers that decided nothing.
    #[serde(default)]
    pub undecided: u64,
    /// Answers of those who may not answer.
    #[serde(default)]
    pub turned_away: u64,
}

impl OpenInterrupt {
    /// Whether it is a decision, and no machine's to take.
    pub fn needs_human(&self) -> bool {
        matches!(self.kind, InterruptKind::Approval | InterruptKind::LowConfidence)
    }

    /// Whether only a bearer with the scope may answer, and no token.
    pub fn requires_bearer(&self) -> bool {
        self.data.get("profile").and_then(Value::as_str) == Some("openwop-interrupt-auth-required")
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resolved {
    pub id: String,
    pub node: String,
    pub kind: InterruptKind,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Child {
    pub node: String,
    pub round: u64,
    pub workflow: String,
    /// `None` until it was begun.
    pub run: Option<String>,
    /// How it ended.
    pub end: Option<String>,
    /// The node that began it was cancelled.
    pub abandoned: bool,
}

impl Child {
    fn is_of(&self, node: &str, round: u64) -> bool {
        self.node == node && self.round == round && !self.abandoned
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Pause {
    #[default]
    No,
    Requested(Option<String>),
    Paused(Timestamp),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LastDecision {
    pub sequence: u64,
    pub node: String,
    pub decision: OrchestratorDecision,
    pub iteration: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doom {
    pub error: RunError,
    pub node: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum End {
    Completed(Map<String, Value>),
    Failed(RunError, Option<String>),
    Cancelled { reason: Option<String>, by: Option<String>, parent: Option<String> },
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Cost {
    pub usd: f64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub provider: String,
    pub model: String,
}

impl RunState {
    /// A run of which nothing has happened yet.
    pub fn new(definition: &Definition, seed: &Seed) -> Self {
        let channels = definition.channels.iter();
        let nodes = definition.nodes.iter();
        RunState {
            next: 0,
            started_at: None,
            ended_at: None,
            nodes: nodes.map(|node| (node.id.clone(), NodeState::default())).collect(),
            variables: seed.variables(definition),
            channels: channels.filter_map(|(n, c)| Some((n.clone(), c.default.clone()?))).collect(),
            interrupts: Vec::new(),
            resolutions: BTreeMap::new(),
            children: Vec::new(),
            pause: Pause::No,
            executions: 0,
            decision: None,
            doom: None,
            end: None,
            cost: None,
            current: None,
            diverged: false,
        }
    }

    pub fn status(&self) -> Status {
        match (&self.end, &self.pause, self.interrupts.first()) {
            (Some(End::Completed(_)), ..) => Status::Completed,
            (Some(End::Failed(..)), ..) => Status::Failed,
            (Some(End::Cancelled { .. }), ..) => Status::Cancelled,
            _ if self.started_at.is_none() => Status::Pending,
            (None, Pause::Paused(_), _) => Status::Paused,
            (None, _, Some(open)) => waiting(open.kind),
            _ => Status::Running,
        }
    }

    /// The suspended node while waiting, else the one that was begun last.
    pub fn current_node(&self) -> Option<&str> {
        let open = self.interrupts.first().map(|open| open.node.as_str());
        open.or(self.current.as_deref())
    }

    pub fn node(&self, id: &str) -> Option<&NodeState> {
        self.nodes.get(id)
    }

    pub fn interrupt_of(&self, node: &str) -> Option<&OpenInterrupt> {
        self.interrupts.iter().find(|open| open.node == node)
    }

    pub(crate) fn children_of(&self, node: &str) -> impl Iterator<Item = &Child> {
        let round = self.node(node).map_or(0, |state| state.rounds);
        self.children.iter().filter(move |child| child.is_of(node, round))
    }
}

fn waiting(kind: InterruptKind) -> Status {
    match kind {
        InterruptKind::Approval | InterruptKind::LowConfidence | InterruptKind::Exchange => {
            Status::WaitingApproval
        }
        InterruptKind::Clarification => Status::WaitingInput,
        InterruptKind::ExternalEvent | InterruptKind::Custom => Status::WaitingExternal,
    }
}
