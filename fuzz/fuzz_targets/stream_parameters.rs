//! What a client asks of events: the first line is a query, the next ones are `Last-Event-ID` and
//! `Accept`.
#![no_main]

use axum::http::{HeaderMap, HeaderValue};
use countersign_server::query::Query;
use countersign_server::stream::{PollAsk, StreamAsk};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let query = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in ["last-event-id", "accept"].into_iter().zip(lines) {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(name, value);
        }
    }
    let Ok(query) = Query::parse(&query) else { return };
    if let Ok(ask) = StreamAsk::parse(&query, &headers) {
        assert!(ask.buffer_millis <= 5000);
        let modes = [ask.modes.updates, ask.modes.debug, ask.modes.messages];
        assert!(ask.modes.values != modes.contains(&true), "values stands alone");
    }
    if let Ok(ask) = PollAsk::parse(&query) {
        assert!((1..=60).contains(&ask.within.as_secs()));
    }
});
