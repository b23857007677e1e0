//! What of a run a client wants to see.

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Event;
use crate::error::Refusal;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// What changed the run, its nodes or what it waits for.
    Updates,
    /// Everything.
    Debug,
    /// What models say, piece by piece.
    Messages,
    /// The whole state after each change.
    Values,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::Updates, Mode::Debug, Mode::Messages, Mode::Values];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Updates => "updates",
            Mode::Debug => "debug",
            Mode::Messages => "messages",
            Mode::Values => "values",
        }
    }

    fn parse(text: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

/// One mode, or several that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Modes {
    pub updates: bool,
    pub debug: bool,
    pub messages: bool,
    pub values: bool,
}

/// What one event becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Shown {
    Event(Event),
    /// The state after this event, which somebody else has to look up.
    Snapshot(u64),
}

impl Modes {
    const NONE: Modes = Modes { updates: false, debug: false, messages: false, values: false };

    pub fn of(mode: Mode) -> Modes {
        Modes::NONE.and(mode)
    }

    #[must_use]
    pub fn and(mut self, mode: Mode) -> Modes {
        match mode {
            Mode::Updates => self.updates = true,
            Mode::Debug => self.debug = true,
            Mode::Messages => self.messages = true,
            Mode::Values => self.values = true,
        }
        self
    }

    /// A list divided by commas; `values` stands alone.
    pub fn parse(text: Option<&str>) -> Result<Modes, Refusal> {
        let Some(text) = text else { return Ok(Modes::of(Mode::Updates)) };
        let modes: Option<Vec<Mode>> =
            text.split(',').map(|name| Mode::parse(name.trim())).collect();
        let modes = modes.filter(|modes| modes.len() == 1 || !modes.contains(&Mode::Values));
        let modes = modes.ok_or_else(unsupported)?;
        Ok(modes.into_iter().fold(Modes::NONE, Modes::and))
    }

    pub fn shown(&self, event: &Event) -> Vec<Shown> {
        let kind = &*event.kind;
        let mut shown = Vec::with_capacity(1);
        if self.debug || (self.updates && is_update(kind)) {
            shown.push(Shown::Event(event.clone()));
        }
        if self.messages && kind == "output.chunk" {
            shown.push(Shown::Event(message(event)));
        }
        if self.values && is_update(kind) {
            shown.push(Shown::Snapshot(event.sequence));
        }
        shown
    }
}

fn unsupported() -> Refusal {
    let message = "`streamMode` is updates, debug or messages, or some of these divided by commas, \
                   or values alone";
    Refusal::new(StatusCode::BAD_REQUEST, "unsupported_stream_mode", message)
        .detail("supported", json!(Mode::ALL.map(Mode::as_str)))
}

/// What is not an update: how something was done rather than that it changed.
const MERELY: [&str; 7] = [
    "node.started",
    "node.retried",
    "variable.changed",
    "log.appended",
    "version.pinned",
    "output.chunk",
    "agent.reasoning.delta",
];

pub fn is_update(kind: &str) -> bool {
    !MERELY.contains(&kind) && !kind.starts_with("lease.")
}

/// After one of these nothing comes.
pub fn is_terminal(kind: &str) -> bool {
    matches!(kind, "run.completed" | "run.failed" | "run.cancelled")
}

/// Somebody waits for whoever reads this, so it must not wait itself.
pub fn is_suspension(kind: &str) -> bool {
    matches!(
        kind,
        "node.suspended"
            | "interrupt.requested"
            | "approval.requested"
            | "clarification.requested"
            | "run.paused"
    )
}

/// A chunk, in the words of those who fold messages: it names its run.
fn message(event: &Event) -> Event {
    let mut json = Value::clone(&event.json);
    let run = json.get("runId").cloned();
    if let Some(kind) = json.get_mut("type") {
        *kind = json!(MESSAGE);
    }
    if let (Some(run), Some(payload)) =
        (run, json.get_mut("payload").and_then(Value::as_object_mut))
    {
        payload.entry("runId").or_insert(run);
        payload.entry("isLast").or_insert(json!(false));
    }
    Event::of(event.sequence, Arc::from(MESSAGE), json)
}

const MESSAGE: &str = "ai.message.chunk";

/// The state of a run after an event, as an event of its stream.
pub fn snapshot(after: &Event, state: &Value) -> Event {
    let (sequence, member) = (after.sequence, |name: &str| after.json.get(name).cloned());
    let json = json!({
        "eventId": format!("snapshot-{sequence}"),
        "payload": state,
        "runId": member("runId"),
        "sequence": sequence,
        "timestamp": member("timestamp"),
        "type": SNAPSHOT,
    });
    Event::of(sequence, Arc::from(SNAPSHOT), json)
}

const SNAPSHOT: &str = "state.snapshot";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(sequence: u64, kind: &str) -> Event {
        let payload = json!({"nodeId": "n", "chunk": "x"});
        let json =
            json!({"runId": "run-1", "type": kind, "sequence": sequence, "payload": payload});
        Event::new(json).unwrap()
    }

    fn kinds() -> impl Strategy<Value = Vec<Event>> {
        let kind = prop::sample::select(vec![
            "run.started",
            "node.started",
            "node.completed",
            "output.chunk",
            "log.appended",
            "lease.renewed",
            "variable.changed",
            "interrupt.requested",
            "artifact.created",
            "node.retried",
            "channel.written",
            "vendor.thing",
        ]);
        prop::collection::vec(kind, 0..60).prop_map(|kinds| {
            kinds.into_iter().enumerate().map(|(n, kind)| event(n as u64, kind)).collect()
        })
    }

    fn shown(modes: &str, events: &[Event]) -> Vec<(u64, String)> {
        let modes = Modes::parse(Some(modes)).unwrap();
        let one = |shown: Shown| match shown {
            Shown::Event(event) => (event.sequence, event.kind.to_string()),
            Shown::Snapshot(sequence) => (sequence, SNAPSHOT.to_owned()),
        };
        events.iter().flat_map(|event| modes.shown(event)).map(one).collect()
    }

    #[test]
    fn lists_are_unions_and_values_stands_alone() {
        let ok = |text: &str| Modes::parse(Some(text)).is_ok();
        assert_eq!(Modes::parse(None).unwrap(), Modes::of(Mode::Updates));
        for good in
            ["updates", "debug", "messages", "values", "updates,messages", "debug, messages"]
        {
            assert!(ok(good), "{good}");
        }
        for bad in [
            "",
            "all",
            "values,updates",
            "updates,values",
            "updates,",
            ",",
            "Updates",
            "updates,nope",
            "values,values",
        ] {
            let refusal = Modes::parse(Some(bad)).unwrap_err();
            assert_eq!(&*refusal.code, "unsupported_stream_mode", "{bad}");
            assert_eq!(
                refusal.details["supported"],
                json!(["updates", "debug", "messages", "values"])
            );
        }
    }

    #[test]
    fn a_message_names_its_run() {
        let shown = Modes::of(Mode::Messages).shown(&event(3, "output.chunk"));
        let [Shown::Event(message)] = shown.as_slice() else { panic!("{shown:?}") };
        assert_eq!(
            message.json["payload"],
            json!({"nodeId": "n", "chunk": "x", "runId": "run-1", "isLast": false})
        );
        assert_eq!(message.json["type"], "ai.message.chunk");
    }

    proptest! {
        #[test]
        fn order_and_ids_are_those_of_the_log(events in kinds()) {
            for modes in ["updates", "debug", "messages", "values", "updates,messages", "debug,messages"] {
                let ids: Vec<u64> = shown(modes, &events).into_iter().map(|(id, _)| id).collect();
                prop_assert!(ids.is_sorted());
                prop_assert!(ids.iter().all(|id| (*id as usize) < events.len()));
            }
        }

        #[test]
        fn a_union_shows_what_either_shows(events in kinds()) {
            let mut both = [shown("updates", &events), shown("messages", &events)].concat();
            both.sort();
            let mut union = shown("updates,messages", &events);
            union.sort();
            prop_assert_eq!(union, both);
            prop_assert_eq!(shown("updates,debug", &events), shown("debug", &events));
        }

        #[test]
        fn everything_is_everything(events in kinds()) {
            let all: Vec<_> = events.iter().map(|e| (e.sequence, e.kind.to_string())).collect();
            prop_assert_eq!(shown("debug", &events), all.clone());
            let updates = shown("updates", &events);
            prop_assert!(updates.iter().all(|update| all.contains(update)));
            let values: Vec<u64> = shown("values", &events).into_iter().map(|(id, _)| id).collect();
            prop_assert_eq!(values, updates.into_iter().map(|(id, _)| id).collect::<Vec<_>>());
        }
    }
}
