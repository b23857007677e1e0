//! What the record holds of a call: everything that came out of it, each piece with its digest.

use std::io::{self, Write};

use countersign_model::effect::Payload;
use countersign_model::event::{CallEvent, Fact};
use countersign_model::{ArtifactId, ExecutionId, Failure, Lifecycle, ToolId};
use serde::Serialize;

use crate::home::Home;

/// What came out of a call, as the journal tells it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Recording {
    pub execution: ExecutionId,
    pub tool: ToolId,
    pub state: Lifecycle,
    pub ended: bool,
    /// The call that did the work, if this one gave its result again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replayed_from: Option<ExecutionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Output,
    Artifact,
    Stdout,
    Stderr,
}

/// One piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Item {
    pub kind: Kind,
    /// What an artifact is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    pub payload: Payload,
    /// The call that it is kept with.
    #[serde(skip)]
    pub owner: ExecutionId,
}

/// Why something cannot be reconstructed exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    pub execution: ExecutionId,
    pub tool: ToolId,
    pub code: &'static str,
    pub reason: String,
}

impl Item {
    fn of(owner: ExecutionId, kind: Kind, payload: Payload) -> Self {
        Item { kind, name: None, payload, owner }
    }

    /// As people may call it.
    pub fn label(&self) -> String {
        match (self.kind, &self.name) {
            (Kind::Artifact, Some(name)) => format!("artifact `{}`", name.escape_debug()),
            (Kind::Artifact, None) => "an artifact".to_owned(),
            (Kind::Output, _) => "its output".to_owned(),
            (Kind::Stdout, _) => "its standard output".to_owned(),
            (Kind::Stderr, _) => "its diagnostic stream".to_owned(),
        }
    }
}

impl Home {
    /// Everything that came out of a call.
    pub fn recording(&self, execution: ExecutionId) -> Result<Recording, Failure> {
        let Some(call) = self.store.call(execution)? else {
            let message = format!("there is no execution `{execution}`");
            return Err(Failure::validation("EXECUTION_UNKNOWN", message));
        };
        let mut items = Vec::new();
        items.extend(call.output.map(|output| Item::of(execution, Kind::Output, output)));
        // What was given again is kept with the call that made it.
        items.extend(self.left_by(call.replayed.unwrap_or(execution))?);
        Ok(Recording {
            execution,
            tool: call.tool,
            state: call.state,
            ended: call.terminal,
            replayed_from: call.replayed,
            error: call.error,
            items,
        })
    }

    /// Artifacts and streams of the last attempt.
    fn left_by(&self, owner: ExecutionId) -> Result<Vec<Item>, Failure> {
        let mut left = Vec::new();
        for stored in self.store.call_entries(owner)? {
            let Fact::Call(fact) = stored.entry.fact else { continue };
            let (artifacts, stdout, stderr) = match fact.event {
                CallEvent::Committed(done) => (done.artifacts, done.stdout, done.stderr),
                CallEvent::RolledBack(back) => (Vec::new(), back.stdout, back.stderr),
                _ => continue,
            };
            left = artifacts
                .into_iter()
                .map(|made| {
                    let payload = Payload { digest: made.digest, size: made.size };
                    Item { name: Some(made.name), ..Item::of(owner, Kind::Artifact, payload) }
                })
                .collect();
            left.extend(stdout.map(|said| Item::of(owner, Kind::Stdout, said)));
            left.extend(stderr.map(|said| Item::of(owner, Kind::Stderr, said)));
        }
        Ok(left)
    }

    /// All that stands in the way of an exact reconstruction, found by reading every piece.
    pub fn obstacles(&self, recording: &Recording) -> Result<Vec<Obstacle>, Failure> {
        let obstacle = |code, reason| Obstacle {
            execution: recording.execution,
            tool: recording.tool.clone(),
            code,
            reason,
        };
        if !recording.ended {
            let reason = format!("it has not ended: it is {}", recording.state);
            return Ok(vec![obstacle("NOT_ENDED", reason)]);
        }
        let mut found = Vec::new();
        for item in &recording.items {
            if let Some((code, why)) = self.trouble(item)? {
                found.push(obstacle(code, format!("{} {why}", item.label())));
            }
        }
        Ok(found)
    }

    /// What is wrong with a piece, if anything is.
    pub(super) fn trouble(&self, item: &Item) -> Result<Option<(&'static str, String)>, Failure> {
        if let Some(name) = &item.name
            && let Some(at) = self.collected_at(&ArtifactId::of(item.owner, name))?
        {
            return Ok(Some(("CONTENT_COLLECTED", format!("was let go of at {at}"))));
        }
        let mut counted = Counted(0);
        match self.copy_payload(item.owner, &item.payload, &mut counted) {
            Ok(()) if counted.0 == item.payload.size => Ok(None),
            Ok(()) => Ok(Some(("CONTENT_DAMAGED", "has another size than was recorded".into()))),
            Err(failure) if failure.code != "BLOB_DAMAGED" => {
                Ok(Some(("CONTENT_DAMAGED", format!("cannot be read: {}", failure.message))))
            }
            Err(_) if self.blobs.holds(&item.payload.digest) => {
                Ok(Some(("CONTENT_DAMAGED", "is not what was recorded".to_owned())))
            }
            Err(_) => Ok(Some(("CONTENT_MISSING", "is no longer there".to_owned()))),
        }
    }

    fn collected_at(
        &self,
        id: &ArtifactId,
    ) -> Result<Option<countersign_model::Timestamp>, Failure> {
        Ok(self.store.artifact(id)?.and_then(|record| record.collected_at))
    }

    /// Writes one piece out, checked as it goes.
    pub fn write_item(&self, item: &Item, target: &mut dyn Write) -> Result<(), Failure> {
        self.copy_payload(item.owner, &item.payload, target)
    }
}

struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
