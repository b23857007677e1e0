//! W3C trace context: taken from the caller, or begun here.
//!
//! A header that is not exactly as the standard says is as good as none: a trace that two readers
//! would split differently helps nobody.

use std::fmt;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::error::Refusal;

/// Where a request stands in a distributed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: [u8; 16],
    /// The caller's span, if it told one.
    pub parent: Option<[u8; 8]>,
    /// Our own span for this request.
    pub span: [u8; 8],
    pub sampled: bool,
    /// Handed on as it came.
    pub state: Option<String>,
}

/// The longest `tracestate` that must be handed on; a longer one is dropped.
const MAX_STATE: usize = 512;

impl Trace {
    /// Adopts what the caller sent, or begins a trace. `fresh` must be random.
    pub fn adopt(traceparent: Option<&str>, tracestate: Option<&str>, fresh: [u8; 24]) -> Trace {
        let (id, span) = fresh.split_at(16);
        let span = span.try_into().unwrap_or([1; 8]);
        match traceparent.and_then(parse) {
            Some((trace_id, parent, sampled)) => {
                let state = tracestate.filter(|state| is_state(state)).map(str::to_owned);
                Trace { trace_id, parent: Some(parent), span, sampled, state }
            }
            None => {
                let trace_id = id.try_into().unwrap_or([1; 16]);
                Trace { trace_id, parent: None, span, sampled: true, state: None }
            }
        }
    }

    /// In 32 hexadecimal digits, as correlation ids and logs have it.
    pub fn id(&self) -> String {
        hex(&self.trace_id)
    }

    /// For what this request begins.
    pub fn handed_on(&self) -> countersign_flow::trace::Trace {
        let (traceparent, tracestate) = (self.header(), self.state.clone());
        countersign_flow::trace::Trace { traceparent, tracestate }
    }

    /// What is sent on to others, with our span as the parent.
    pub fn header(&self) -> String {
        let flags = if self.sampled { "01" } else { "00" };
        format!("00-{}-{}-{flags}", self.id(), hex(&self.span))
    }
}

impl<S: Sync> FromRequestParts<S> for Trace {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Trace, Refusal> {
        parts.extensions.get::<Trace>().cloned().ok_or_else(Refusal::internal)
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.header())
    }
}

/// Trace id, parent span and whether it is sampled.
pub fn parse(header: &str) -> Option<([u8; 16], [u8; 8], bool)> {
    let mut parts = header.trim().splitn(5, '-');
    let version: [u8; 1] = unhex(parts.next()?)?;
    let trace_id: [u8; 16] = unhex(parts.next()?)?;
    let parent: [u8; 8] = unhex(parts.next()?)?;
    let [flags]: [u8; 1] = unhex(parts.next()?)?;
    // Later versions may add parts; this one has four, and 255 is forbidden.
    let extra = parts.next();
    let readable = match version {
        [0] => extra.is_none(),
        [255] => false,
        _ => true,
    };
    let real = trace_id != [0; 16] && parent != [0; 8];
    (readable && real).then_some((trace_id, parent, flags & 1 == 1))
}

/// Printable, not too long, and with at least one `key=value`.
fn is_state(state: &str) -> bool {
    let printable = state.bytes().all(|b| (0x20..0x7f).contains(&b));
    printable
        && state.len() <= MAX_STATE
        && state.split(',').all(|member| {
            let member = member.trim();
            member.is_empty()
                || member
                    .split_once('=')
                    .is_some_and(|(key, value)| !key.is_empty() && !value.is_empty())
        })
}

/// Lowercase only: capitals are another spelling of the same bytes, and the standard forbids them.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.checked_mul(2)? {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = *<&[u8; 2]>::try_from(pair).ok()?;
        *byte = digit(high)? << 4 | digit(low)?;
    }
    Some(bytes)
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_taken_up() {
        let trace = Trace::adopt(Some(GOOD), Some("vendor=x,other=y"), [9; 24]);
        assert_eq!(trace.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.parent, Some([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7]));
        assert_eq!(trace.state.as_deref(), Some("vendor=x,other=y"));
        assert_eq!(trace.header(), "00-4bf92f3577b34da6a3ce929d0e0e4736-0909090909090909-01");
        assert!(Trace::adopt(Some(GOOD), Some(&"a=b,".repeat(200)), [9; 24]).state.is_none());
        assert!(Trace::adopt(Some(GOOD), Some("a=\u{1}"), [9; 24]).state.is_none());
    }

    #[test]
    fn what_is_not_exact_begins_a_new_trace() {
        let zeros = format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32));
        for bad in [
            "",
            "00",
            &GOOD.to_uppercase(),
            &GOOD.replacen("00", "ff", 1),
            &format!("{GOOD}-extra"),
            &zeros,
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473é-0f067aa0ba902b7-01",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
            let trace = Trace::adopt(Some(bad), Some("a=b"), [9; 24]);
            assert_eq!((trace.trace_id, trace.parent, trace.state), ([9; 16], None, None));
        }
        assert!(parse(&format!("{}-future", GOOD.replacen("00", "01", 1))).is_some());
    }

    proptest! {
        #[test]
        fn what_is_sent_on_is_read_again(fresh in any::<[u8; 24]>(), text in "\\PC{0,80}") {
            prop_assume!(fresh[..16] != [0; 16] && fresh[16..] != [0; 8]);
            let trace = Trace::adopt(Some(&text), None, fresh);
            let (id, parent, _) = parse(&trace.header()).unwrap();
            prop_assert_eq!((id, parent), (trace.trace_id, trace.span));
        }
    }
}
