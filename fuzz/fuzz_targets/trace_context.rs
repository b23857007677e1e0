//! Trace context: the first line is a `traceparent`, the second a `tracestate`.
#![no_main]

use countersign_server::trace::{Trace, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (parent, state) = text.split_once('\n').unwrap_or((text, ""));
    let trace = Trace::adopt(Some(parent), Some(state), [9; 24]);
    let (id, span, sampled) = parse(&trace.header()).expect("what is sent on can be read");
    assert_eq!((id, span, sampled), (trace.trace_id, trace.span, trace.sampled));
    assert!(trace.state.is_none_or(|state| state.len() <= 512 && !state.contains(['\r', '\n'])));
    assert_eq!(trace.parent.is_some(), parse(parent).is_some());
});
