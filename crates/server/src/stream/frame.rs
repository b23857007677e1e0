//! Server-sent events, one by one or in batches.

use std::fmt::Write as _;

use super::Event;
use super::modes::{is_suspension, is_terminal};

/// A comment, for connections that would otherwise look dead.
pub const KEEPALIVE: &str = ": keepalive\n\n";

/// JSON has no bare line breaks, so one `data` line is always enough; a type with one is cut there.
pub fn frame(event: &Event) -> String {
    let kind = event.kind.split(['\n', '\r']).next().unwrap_or_default();
    format!("id: {}\nevent: {kind}\ndata: {}\n\n", event.sequence, event.text)
}

fn batch(events: &[Event]) -> Option<String> {
    let last = events.iter().map(|event| event.sequence).max()?;
    let mut text = format!("id: {last}\nevent: batch\ndata: [");
    for (place, event) in events.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{}", event.text);
    }
    text.push_str("]\n\n");
    Some(text)
}

/// Holds events back for a while, and never those that somebody waits for.
#[derive(Debug, Clone)]
pub struct Buffer {
    millis: u32,
    held: Vec<Event>,
    /// When the first of them came, by whatever clock the caller has.
    since: Option<u64>,
}

/// So many at most: a buffer saves frames, it is no store.
const MAX_HELD: usize = 256;

impl Buffer {
    /// With 0 every event is a frame of its own.
    pub fn new(millis: u32) -> Buffer {
        Buffer { millis, held: Vec::new(), since: None }
    }

    /// Takes an event in; what must go out now is returned.
    pub fn push(&mut self, event: Event, now_millis: u64) -> Option<String> {
        if self.millis == 0 {
            return Some(frame(&event));
        }
        let urgent = is_terminal(&event.kind) || is_suspension(&event.kind);
        self.held.push(event);
        self.since = self.since.or(Some(now_millis));
        let due = self.due().is_some_and(|due| due <= now_millis);
        (urgent || due || self.held.len() >= MAX_HELD).then(|| self.flush()).flatten()
    }

    /// When what is held must go out.
    pub fn due(&self) -> Option<u64> {
        self.since.map(|since| since.saturating_add(u64::from(self.millis)))
    }

    pub fn flush(&mut self) -> Option<String> {
        self.since = None;
        let text = batch(&self.held);
        self.held.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn event(sequence: u64, kind: &str) -> Event {
        let json = json!({"type": kind, "sequence": sequence, "payload": "a\nb\u{2028}\r"});
        Event::new(json).unwrap()
    }

    #[test]
    fn a_frame_has_an_id_a_type_and_one_line_of_data() {
        let text = frame(&event(7, "run.started"));
        assert!(text.starts_with("id: 7\nevent: run.started\ndata: {"), "{text}");
        assert_eq!(text.lines().count(), 4);
        assert!(!frame(&event(7, "x\ndata: forged")).contains("\ndata: forged"));
    }

    #[test]
    fn what_somebody_waits_for_goes_out_at_once() {
        let mut buffer = Buffer::new(4000);
        assert_eq!(buffer.push(event(0, "run.started"), 0), None);
        assert_eq!(buffer.due(), Some(4000));
        let sent = buffer.push(event(1, "node.suspended"), 1).unwrap();
        assert!(sent.starts_with("id: 1\nevent: batch\ndata: [{"), "{sent}");
        assert_eq!((buffer.due(), buffer.flush()), (None, None));
        assert!(buffer.push(event(2, "run.completed"), 2).is_some());
        buffer.push(event(3, "node.completed"), 10);
        assert!(buffer.push(event(4, "node.completed"), 4010).is_some());
    }

    /// The ids and the events that a reader gets out of frames.
    fn read(text: &str) -> Vec<(u64, Vec<u64>)> {
        text.split("\n\n")
            .filter(|frame| !frame.is_empty())
            .map(|frame| {
                let line = |name: &str| frame.lines().find_map(|l| l.strip_prefix(name)).unwrap();
                let data: Value = serde_json::from_str(line("data: ")).unwrap();
                let sequence = |v: &Value| v["sequence"].as_u64().unwrap();
                let inside = data
                    .as_array()
                    .map_or_else(|| vec![sequence(&data)], |a| a.iter().map(sequence).collect());
                (line("id: ").parse().unwrap(), inside)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_buffer_loses_nothing_and_keeps_the_order(
            millis in 0..50u32,
            kinds in prop::collection::vec((prop::sample::select(vec!["node.completed", "node.suspended", "x"]), 0..20u64), 0..600),
        ) {
            let mut buffer = Buffer::new(millis);
            let (mut text, mut now) = (String::new(), 0);
            let total = kinds.len() as u64;
            for (n, (kind, wait)) in kinds.into_iter().enumerate() {
                now += wait;
                text.extend(buffer.push(event(n as u64, kind), now));
                prop_assert!(buffer.held.len() < MAX_HELD);
            }
            text.extend(buffer.flush());
            let frames = read(&text);
            prop_assert!(frames.iter().all(|(id, inside)| inside.last() == Some(id)));
            let all: Vec<u64> = frames.into_iter().flat_map(|(_, inside)| inside).collect();
            prop_assert_eq!(all, (0..total).collect::<Vec<_>>());
        }
    }
}
