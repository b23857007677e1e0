//! Runs as the journal keeps them: the events of a run in order, a few at a time, and the line that
//! lists work from. What the events mean is for the crate `flow` to say.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::effect::Payload;
use crate::id::HostId;
use crate::principal::Principal;
use crate::time::Timestamp;
use crate::work::RunId;

/// What a run recorded at once: the next of its events.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunFact {
    pub events: Vec<Value>,
    /// The number of the first of them; the first of a run is 0.
    pub first: u64,
    pub run: RunId,
    /// What the run was begun with, beside its first events. Kept outside, as inputs of calls are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<Payload>,
}

/// The events after which nothing follows.
const LAST: [&str; 3] = ["run.completed", "run.failed", "run.cancelled"];

impl RunFact {
    pub fn end(&self) -> u64 {
        self.first.saturating_add(self.events.len() as u64)
    }

    /// Whether nothing can follow.
    pub fn is_last(&self) -> bool {
        self.events.last().is_some_and(is_last)
    }

    /// What is wrong with it by itself, whatever came before.
    pub fn check(&self) -> Result<(), String> {
        let run = &self.run;
        match self.events.split_last() {
            None => Err(format!("run `{run}` recorded nothing")),
            Some((_, rest)) if rest.iter().any(is_last) => {
                Err(format!("run `{run}` goes on after its end"))
            }
            Some(_) if (self.first == 0) != self.seed.is_some() => {
                Err(format!("run `{run}` does not begin with what it was begun with"))
            }
            Some(_) => Ok(()),
        }
    }
}

fn is_last(event: &Value) -> bool {
    event.get("type").and_then(Value::as_str).is_some_and(|name| LAST.contains(&name))
}

/// The line that lists of runs work from. A cache of the journal, except for `holder` and `wake_at`,
/// which only say who looks after the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunSummary {
    pub created_at: Timestamp,
    /// The workflow's definition, pinned.
    pub definition: Digest,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How many events the journal holds; the next append must find the same count.
    pub events: u64,
    /// The process that advances it; another takes over when that one is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<HostId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<RunId>,
    pub principal: Principal,
    pub run: RunId,
    /// Of what the tenant wants one live run at a time, if it said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub seed: Payload,
    pub status: String,
    pub tenant: String,
    pub updated_at: Timestamp,
    /// When something is due even if nothing happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Timestamp>,
    pub workflow: String,
}

/// A document that a tenant keeps here: a subscription, an annotation, a file. The journal pins
/// every version; the newest is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RecordFact {
    pub at: Timestamp,
    pub by: Principal,
    pub key: String,
    pub space: String,
    pub tenant: String,
    /// None: it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Payload>,
    /// 1 for the first, one more each time, also over a removal.
    pub version: u64,
}
