//! Events as clients read them: streams, lists and polls.
//!
//! What is shown is a function of the event and of what was asked for ([`modes`]); how it is
//! written, of what is shown ([`frame`]). Only [`live`] waits.

pub mod ask;
pub mod frame;
pub mod live;
pub mod modes;

use std::sync::Arc;

use serde_json::Value;

pub use ask::{PollAsk, StreamAsk};
pub use live::{Notice, Page, Source, list, poll, sse};
pub use modes::Modes;

/// One event of a run, with what is needed to show it.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub sequence: u64,
    pub kind: Arc<str>,
    pub json: Arc<Value>,
    /// The same as it is sent, made once for however many follow.
    pub text: Arc<str>,
}

impl Event {
    /// Reads the envelope; nothing if it has no type or no place in the order.
    pub fn new(json: Value) -> Option<Event> {
        let sequence = json.get("sequence")?.as_u64()?;
        let kind = Arc::from(json.get("type")?.as_str()?);
        Some(Event::of(sequence, kind, json))
    }

    fn of(sequence: u64, kind: Arc<str>, json: Value) -> Event {
        let text = Arc::from(json.to_string());
        Event { sequence, kind, json: Arc::new(json), text }
    }
}
