//! One entry of the journal, and the hash contract.
//!
//! An entry is the RFC 8785 canonical JSON of `{seq, prev, time, fact}`. Its hash is the RFC 6962
//! leaf hash of those bytes, SHA-256(0x00 ‖ bytes); `prev` is the hash of the entry before it and
//! 64 zeros for the first. The stored bytes are the entry: nothing is ever serialised again to be
//! checked.

use countersign_model::event::{Fact, GrantEvent};
use countersign_model::{
    ArtifactEvent, Digest, ExecutionId, PolicyEvent, RecordFact, RunId, Timestamp, WorkspaceEvent,
};
use serde::{Deserialize, Serialize};

use crate::error::JournalError;
use crate::mark::Mark;
use crate::merkle::leaf_hash;

/// No entry is longer, so that a verifier can bound what it reads. Payloads are kept outside.
pub const MAX_ENTRY: usize = 16 << 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub seq: u64,
    pub prev: Digest,
    pub time: Timestamp,
    pub fact: Fact,
}

/// An entry as it is stored: its exact bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    pub bytes: Vec<u8>,
    pub hash: Digest,
}

/// A fact in canonical form, made before its place in the chain is known.
#[derive(Debug, Clone)]
pub struct EncodedFact {
    time: Timestamp,
    json: Vec<u8>,
    pub(crate) subject: Subject,
}

/// Whom a fact is about, and what else of it the tables need.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    Home,
    Grant(GrantEvent),
    /// A principal or a key.
    People(Box<Fact>),
    Policy(PolicyEvent),
    Workspace(WorkspaceEvent),
    Artifact(ArtifactEvent),
    Run {
        run: RunId,
        first: u64,
    },
    Record(RecordFact),
    Call(ExecutionId, Option<Box<Mark>>),
}

/// More than everything around a fact takes.
const ENVELOPE: usize = 160;

impl EncodedFact {
    pub fn new(time: Timestamp, fact: Fact) -> Result<Self, JournalError> {
        let unrecordable = JournalError::Unrecordable;
        let json = fact.to_canonical_json().map_err(|e| unrecordable(e.to_string()))?;
        if json.len() + ENVELOPE > MAX_ENTRY {
            let why = format!("it has {} bytes, an entry at most {MAX_ENTRY}", json.len());
            return Err(unrecordable(why));
        }
        let is_plain = fact.is_plain();
        let subject = match fact {
            Fact::Home(_) => Subject::Home,
            Fact::Grant(event) => Subject::Grant(event),
            Fact::Principal(_) | Fact::Key(_) => Subject::People(Box::new(fact)),
            Fact::Policy(event) => Subject::Policy(event),
            Fact::Workspace(event) => Subject::Workspace(event),
            Fact::Artifact(event) => Subject::Artifact(event),
            Fact::Run(fact) => {
                fact.check().map_err(unrecordable)?;
                Subject::Run { run: fact.run, first: fact.first }
            }
            Fact::Record(fact) => Subject::Record(fact),
            Fact::Call(call) => {
                Subject::Call(call.execution, Mark::of(time, &call.event).map(Box::new))
            }
        };
        let encoded = EncodedFact { time, json, subject };
        if !is_plain {
            // JSON can be written deeper than it can be read. What nobody can read is never stored.
            let bytes = encoded.seal(0, &Digest::ZERO).bytes;
            Entry::parse(&bytes).map_err(|e| unrecordable(e.to_string()))?;
        }
        Ok(encoded)
    }

    pub(crate) fn is_about(&self, execution: ExecutionId) -> bool {
        matches!(self.subject, Subject::Call(call, _) if call == execution)
    }

    /// Whether the tables may yet find that it cannot be.
    pub(crate) fn may_be_refused(&self) -> bool {
        match &self.subject {
            Subject::Home | Subject::Policy(_) | Subject::Run { .. } => false,
            Subject::Grant(_)
            | Subject::People(_)
            | Subject::Workspace(_)
            | Subject::Artifact(_)
            | Subject::Record(_) => true,
            Subject::Call(_, mark) => matches!(mark.as_deref(), Some(Mark::Once(_))),
        }
    }

    /// Canonical JSON sorts its keys, and `fact` comes first: what is left is putting the rest
    /// behind it. A test holds this against the canonicaliser.
    pub(crate) fn seal(&self, seq: u64, prev: &Digest) -> Sealed {
        let mut bytes = Vec::with_capacity(self.json.len() + ENVELOPE);
        bytes.extend_from_slice(b"{\"fact\":");
        bytes.extend_from_slice(&self.json);
        let time = self.time.as_millis();
        let rest = format!(",\"prev\":\"{prev}\",\"seq\":{seq},\"time\":{time}}}");
        bytes.extend_from_slice(rest.as_bytes());
        Sealed { hash: leaf_hash(&bytes), bytes }
    }
}

impl Entry {
    pub fn seal(&self) -> Result<Sealed, JournalError> {
        Ok(EncodedFact::new(self.time, self.fact.clone())?.seal(self.seq, &self.prev))
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use countersign_model::HomeId;
    use countersign_model::digest::canonical_json;
    use countersign_model::event::HomeEvent;

    /// If this literal changes, every journal ever written stops verifying.
    #[test]
    fn the_entry_format_is_pinned() {
        let id: ExecutionId = "019a7c3e-0000-7000-8000-000000000001".parse().unwrap();
        let entry = Entry {
            seq: 7,
            prev: Digest::ZERO,
            time: Timestamp::from_millis(1_770_653_101_000),
            fact: Fact::Home(HomeEvent::Created {
                home: HomeId::from_uuid(*id.as_uuid()),
                journal_key: "j".into(),
                authority_key: "a".into(),
            }),
        };
        let sealed = entry.seal().unwrap();
        assert_eq!(sealed.bytes, canonical_json(&entry).unwrap(), "the short cut is canonical");
        assert_eq!(
            String::from_utf8(sealed.bytes.clone()).unwrap(),
            concat!(
                r#"{"fact":{"home":{"created":{"authorityKey":"a","home":"019a7c3e-0000-7000-8000-000000000001","#,
                r#""journalKey":"j"}}},"prev":"0000000000000000000000000000000000000000000000000000000000000000","#,
                r#""seq":7,"time":1770653101000}"#
            )
        );
        assert_eq!(Entry::parse(&sealed.bytes).unwrap(), entry);
        assert_eq!(sealed.hash, leaf_hash(&sealed.bytes));
    }
}
