//! What became of an order, as the journal tells it. Nothing else goes into a result, so the same
//! result can be written again at any time.

use countersign_host::Host;
use countersign_host::order::{Order, Ordered};
use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, Connection, Fact, Usage};
use countersign_model::{ExecutionId, Failure, ResourceLimits, Timestamp};

#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) execution: ExecutionId,
    pub(crate) order: Order,
    pub(crate) artifacts: Vec<Artifact>,
    /// What ran it, as `name/version`; none if it never started.
    pub(crate) backend: Option<String>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) ended_at: Timestamp,
    /// Why it did not do its work, if it did not.
    pub(crate) error: Option<Failure>,
    pub(crate) limits: ResourceLimits,
    pub(crate) stderr: Option<Payload>,
    pub(crate) stdout: Option<Payload>,
    /// It may have reached hosts, and nobody can tell.
    pub(crate) unknown: bool,
    pub(crate) usage: Usage,
}

impl Story {
    /// The story of an order that ran to some end.
    pub(crate) fn of(host: &Host, ordered: &Ordered) -> Result<Self, Failure> {
        let mut story = Story::new(ordered);
        for stored in host.home().store.call_entries(story.execution)? {
            if let Fact::Call(call) = stored.entry.fact {
                story.take(stored.entry.time, call.event);
            }
        }
        Ok(story)
    }

    fn new(ordered: &Ordered) -> Self {
        Story {
            execution: ordered.call.execution,
            order: ordered.order.clone(),
            artifacts: Vec::new(),
            backend: None,
            connections: Vec::new(),
            ended_at: ordered.call.updated_at,
            error: None,
            limits: ordered.order.limits,
            stderr: None,
            stdout: None,
            unknown: false,
            usage: Usage::default(),
        }
    }

    fn take(&mut self, at: Timestamp, event: CallEvent) {
        match event {
            CallEvent::Started(started) => {
                self.backend = started.backend;
                self.limits = started.limits;
            }
            CallEvent::Committed(committed) => {
                self.artifacts = committed.artifacts;
                self.connections = committed.connections;
                (self.stdout, self.stderr) = (committed.stdout, committed.stderr);
            }
            CallEvent::Completed(completed) => {
                (self.usage, self.ended_at) = (completed.usage, at);
            }
            CallEvent::RolledBack(back) => {
                self.connections = back.connections;
                (self.stdout, self.stderr) = (back.stdout, back.stderr);
                (self.usage, self.ended_at) = (back.usage, at);
                (self.error, self.unknown) = (Some(back.error), back.unknown);
            }
            _ => {}
        }
    }
}
