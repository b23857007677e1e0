//! What a client asks of a run's events.

use std::time::Duration;

use axum::http::HeaderMap;

use super::modes::Modes;
use crate::body::prefers;
use crate::error::Refusal;
use crate::query::{Query, plain_number};
use crate::schema::MAX_WHOLE;

/// A stream, or the same as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAsk {
    pub modes: Modes,
    pub buffer_millis: u32,
    /// Only what comes after this.
    pub after: Option<u64>,
    /// A list of what there is, instead of a stream.
    pub as_list: bool,
}

const MAX_BUFFER_MILLIS: u64 = 5000;

impl StreamAsk {
    /// In the order that the protocol wants: mode, buffer, then what the client can read. Whoever
    /// calls this has found the run already.
    pub fn parse(query: &Query, headers: &HeaderMap) -> Result<StreamAsk, Refusal> {
        let modes = Modes::parse(query.get("streamMode"))?;
        let buffer = query.number("bufferMs", 0, MAX_BUFFER_MILLIS)?.unwrap_or(0);
        Ok(StreamAsk {
            modes,
            buffer_millis: u32::try_from(buffer).unwrap_or(0),
            after: last_event_id(headers)?,
            as_list: prefers(headers, "application/json", "text/event-stream"),
        })
    }
}

/// Where a stream broke off: the id of the last frame, which is a sequence.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().ok().map(str::trim);
    // A client that has seen nothing sends an empty one.
    match text {
        Some("") => Ok(None),
        Some(text) => plain_number(text).map(Some).ok_or_else(bad_id),
        None => Err(bad_id()),
    }
}

fn bad_id() -> Refusal {
    Refusal::invalid("`Last-Event-ID` has to be the id of a frame: a whole number from 0 on")
}

/// A question that may wait for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollAsk {
    pub after: Option<u64>,
    pub within: Duration,
}

impl PollAsk {
    pub fn parse(query: &Query) -> Result<PollAsk, Refusal> {
        let after = query.number("lastSequence", 0, MAX_WHOLE)?;
        let seconds = query.number("timeout", 1, 60)?.unwrap_or(30);
        Ok(PollAsk { after, within: Duration::from_secs(seconds) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(query: &str, headers: &[(&str, &str)]) -> Result<StreamAsk, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(axum::http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        StreamAsk::parse(&Query::parse(query).unwrap(), &map).map_err(|r| r.code.into_owned())
    }

    #[test]
    fn a_stream_is_asked_for() {
        let asked = ask("streamMode=debug&bufferMs=5000", &[("last-event-id", "7")]).unwrap();
        assert_eq!((asked.buffer_millis, asked.after, asked.as_list), (5000, Some(7), false));
        assert_eq!(ask("", &[]).unwrap().after, None);
        for bad in ["bufferMs=-1", "bufferMs=5001", "bufferMs=x", "bufferMs="] {
            assert_eq!(ask(bad, &[]), Err("validation_error".to_owned()), "{bad}");
        }
        for bad in ["x", "-1", "1.5"] {
            assert_eq!(ask("", &[("last-event-id", bad)]), Err("validation_error".to_owned()));
        }
        // The mode is judged before the buffer.
        assert_eq!(ask("streamMode=x&bufferMs=-1", &[]), Err("unsupported_stream_mode".to_owned()));
    }

    #[test]
    fn a_list_is_asked_for_by_name() {
        let list = |accept: &str| ask("", &[("accept", accept)]).unwrap().as_list;
        assert!(list("application/json") && list("text/html, Application/JSON;q=0.5"));
        assert!(
            !list("*/*") && !list("text/event-stream, application/json") && !list("text/plain")
        );
    }

    #[test]
    fn a_poll_has_bounds() {
        let poll = |text: &str| PollAsk::parse(&Query::parse(text).unwrap());
        let default = PollAsk { after: None, within: Duration::from_secs(30) };
        assert_eq!(poll("").unwrap(), default);
        assert_eq!(poll("lastSequence=0&timeout=1").unwrap().after, Some(0));
        for bad in
            ["lastSequence=-1", "lastSequence=1.0", "lastSequence=abc", "timeout=0", "timeout=61"]
        {
            assert!(poll(bad).is_err(), "{bad}");
        }
    }
}
