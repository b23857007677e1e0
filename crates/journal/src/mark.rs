//! What of a call's facts the tables follow beside the call itself: what it was given, what it made,
//! and whether it may be done again.

use countersign_model::effect::Artifact;
use countersign_model::event::CallEvent;
use countersign_model::{Consumed, Digest, Timestamp};

/// What of a call's fact these tables need.
#[derive(Debug, Clone)]
pub(crate) enum Mark {
    /// The call was given these artifacts.
    Given(Vec<Consumed>),
    /// It must not be done twice, and begins now.
    Once(Digest),
    Made(Timestamp, Vec<Artifact>),
    Done,
    /// Nothing of it was kept, or nobody can tell.
    Undone {
        unknown: bool,
    },
}

impl Mark {
    pub(crate) fn of(time: Timestamp, event: &CallEvent) -> Option<Self> {
        match event {
            CallEvent::Declared(declared) if !declared.consumes.is_empty() => {
                Some(Mark::Given(declared.consumes.clone()))
            }
            CallEvent::Started(started) if started.once => started.key.map(Mark::Once),
            CallEvent::Committed(committed) if !committed.artifacts.is_empty() => {
                Some(Mark::Made(time, committed.artifacts.clone()))
            }
            CallEvent::Completed(_) => Some(Mark::Done),
            CallEvent::RolledBack(undone) => Some(Mark::Undone { unknown: undone.unknown }),
            _ => None,
        }
    }
}
