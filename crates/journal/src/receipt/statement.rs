//! What the envelope holds: an in-toto statement whose predicate is ours.

use countersign_model::effect::{Artifact, Payload};
use countersign_model::event::{CallEvent, Committed, Fact};
use countersign_model::record::CallRecord;
use countersign_model::{Digest, ExecutionId, HomeId, Lifecycle, Principal, ToolId};
use serde::{Deserialize, Serialize};

use super::PREDICATE_TYPE;
use super::dsse::Bytes;
use crate::entry::Entry;

const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    pub(super) predicate: Predicate,
    predicate_type: String,
    pub(super) subject: Vec<Subject>,
}

impl Statement {
    pub(super) fn new(subject: Vec<Subject>, predicate: Predicate) -> Self {
        let (kind, predicate_type) = (STATEMENT_TYPE.to_owned(), PREDICATE_TYPE.to_owned());
        Statement { kind, predicate, predicate_type, subject }
    }

    pub(super) fn is_ours(&self) -> bool {
        self.kind == STATEMENT_TYPE && self.predicate_type == PREDICATE_TYPE
    }
}

/// What the statement is about, by content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subject {
    digest: DigestSet,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct DigestSet {
    sha256: Digest,
}

impl Subject {
    fn new(name: impl Into<String>, sha256: Digest) -> Self {
        Subject { digest: DigestSet { sha256 }, name: name.into() }
    }

    /// The execution, by its last entry; what it gave back; what it left behind.
    pub(super) fn all(call: &CallRecord, last: &[u8], left: Option<Left<'_>>) -> Vec<Self> {
        let execution = format!("execution/{}", call.summary.execution);
        let mut subjects = vec![Subject::new(execution, Digest::of(last))];
        if let Some(left) = left {
            subjects.push(Subject::new("output", left.output.digest));
            subjects.extend(left.artifacts.iter().map(|artifact| {
                Subject::new(format!("artifact/{}", artifact.name), artifact.digest)
            }));
        }
        subjects
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Predicate {
    /// Entries of what the call rests on, the home's first entry among them.
    pub(super) basis: Vec<Proven>,
    /// The signed note that every audit path leads to.
    pub(super) checkpoint: String,
    /// The call's own entries, all of them up to the checkpoint.
    pub(super) entries: Vec<Proven>,
    pub(super) summary: Claims,
    /// Values that the facts pin by digest.
    pub(super) values: Vec<Included>,
}

/// An entry's exact bytes, where it stands, and its RFC 6962 audit path.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proven {
    pub(super) entry: Bytes,
    pub(super) path: Vec<Digest>,
    pub(super) seq: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Included {
    pub(super) content: Bytes,
    pub(super) digest: Digest,
}

/// What a reader wants to know first. It says nothing that the entries do not, and is compared with
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claims {
    /// Whether anything can follow.
    pub(super) ended: bool,
    pub(super) execution: ExecutionId,
    pub(super) home: HomeId,
    pub(super) principal: Principal,
    pub(super) state: Lifecycle,
    pub(super) tool: ToolId,
    pub(super) version: String,
}

impl Claims {
    pub(super) fn of(home: HomeId, call: &CallRecord) -> Self {
        let summary = &call.summary;
        Claims {
            ended: summary.terminal,
            execution: summary.execution,
            home,
            principal: summary.principal.clone(),
            state: summary.state,
            tool: summary.tool.clone(),
            version: summary.version.to_string(),
        }
    }
}

/// What an entry says about this call, if it is about this call.
pub(super) fn event_of(entry: &Entry, execution: ExecutionId) -> Option<&CallEvent> {
    match &entry.fact {
        Fact::Call(call) if call.execution == execution => Some(&call.event),
        _ => None,
    }
}

/// What a call gave back and left behind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Left<'a> {
    pub(super) output: Payload,
    pub(super) artifacts: &'a [Artifact],
}

/// A call that gave an earlier one's result left nothing of its own.
pub(super) fn left<'a>(events: impl IntoIterator<Item = &'a CallEvent>) -> Option<Left<'a>> {
    events.into_iter().find_map(|event| match event {
        CallEvent::Committed(Committed { output, artifacts, .. }) => {
            Some(Left { output: *output, artifacts })
        }
        CallEvent::Replayed(replayed) => Some(Left { output: replayed.output, artifacts: &[] }),
        _ => None,
    })
}
