//! Values that the facts of a call pin by digest, and what those that a receipt holds must say.

use std::collections::BTreeMap;
use std::fmt;

use countersign_model::Digest;
use countersign_model::effect::Payload;
use countersign_model::event::{CallEvent, Denied, RolledBack};
use serde::Serialize;

/// What a value is to the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Role {
    Declaration,
    Input,
    /// What policy had to go by.
    Facts,
    /// Exactly what approvers were shown.
    Shown,
    /// Every set-up operation of the sandbox.
    Plan,
    Output,
    Stdout,
    Stderr,
}

impl Role {
    /// Whether this is what the tool was given or gave back, which may be nobody else's business.
    pub fn is_content(self) -> bool {
        matches!(self, Role::Input | Role::Output | Role::Stdout | Role::Stderr)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Declaration => "the declaration",
            Role::Input => "the input",
            Role::Facts => "what policy went by",
            Role::Shown => "what approvers were shown",
            Role::Plan => "the sandbox's plan",
            Role::Output => "the output",
            Role::Stdout => "what the program wrote",
            Role::Stderr => "what the program said",
        })
    }
}

/// A value that a fact pins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pin {
    pub role: Role,
    pub digest: Digest,
    /// A declaration is pinned without its size.
    pub size: Option<u64>,
}

impl Pin {
    fn new(role: Role, payload: &Payload) -> Self {
        Pin { role, digest: payload.digest, size: Some(payload.size) }
    }

    /// Whether these bytes are the value.
    pub fn fits(&self, bytes: &[u8]) -> bool {
        Digest::of(bytes) == self.digest && self.size.is_none_or(|size| size == bytes.len() as u64)
    }
}

/// Every pin, each once.
pub(super) fn pins<'a>(events: impl IntoIterator<Item = &'a CallEvent>) -> Vec<Pin> {
    let mut pins: Vec<_> = events.into_iter().flat_map(pins_of).collect();
    pins.sort_unstable();
    pins.dedup();
    pins
}

fn pins_of(event: &CallEvent) -> Vec<Pin> {
    let pin = |role, payload: &Option<Payload>| payload.as_ref().map(|p| Pin::new(role, p));
    match event {
        CallEvent::Declared(declared) => {
            let declaration =
                Pin { role: Role::Declaration, digest: declared.declaration, size: None };
            vec![declaration, Pin::new(Role::Input, &declared.input)]
        }
        CallEvent::Asked(asked) => vec![Pin::new(Role::Shown, &asked.subject)],
        CallEvent::Authorized(authorized) => {
            pin(Role::Facts, &authorized.facts).into_iter().collect()
        }
        CallEvent::Denied(Denied { facts, .. }) => pin(Role::Facts, facts).into_iter().collect(),
        CallEvent::Started(started) => pin(Role::Plan, &started.plan).into_iter().collect(),
        CallEvent::Committed(committed) => {
            let output = Pin::new(Role::Output, &committed.output);
            pin(Role::Stderr, &committed.stderr).into_iter().chain([output]).collect()
        }
        CallEvent::Replayed(replayed) => vec![Pin::new(Role::Output, &replayed.output)],
        CallEvent::RolledBack(RolledBack { stdout, stderr, .. }) => {
            let said = [pin(Role::Stdout, stdout), pin(Role::Stderr, stderr)];
            said.into_iter().flatten().collect()
        }
        _ => Vec::new(),
    }
}

/// Values that a receipt holds and that are what some fact pins, by digest.
pub(super) type Values = BTreeMap<Digest, Vec<u8>>;
