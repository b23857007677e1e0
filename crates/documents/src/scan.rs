//! What must not stand in a document, found in plain text.
//!
//! The text is looked at in several views: as it is, without what cannot be seen, with broken lines
//! and strings put together, and with its encodings undone, two deep. A finding names the rule and
//! the place in the text that was handed in. It never carries the value: findings are shown, and
//! what is shown must not leak.
//!
//! There are no regular expressions. Rules are tables of beginnings, found in one pass, with small
//! matchers behind them: nothing is compiled at the start, and a hostile text cannot make one slow.

mod assign;
mod claims;
mod decode;
mod fold;
mod forms;
mod install;
mod instruct;
mod join;
mod magic;
mod matcher;
mod payload;
mod shapes;
mod spans;
mod stream;
mod views;
mod words;

pub use magic::binary;
pub use spans::Span;
pub use stream::{Counts, Family, Stream, scan_bytes};
pub use views::{Known, Views};

/// One thing that was found: which rule, and the byte at which it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    pub offset: usize,
    pub rule: &'static str,
}

/// Credentials of any kind.
pub fn secrets(text: &str, known: &Known) -> Vec<Found> {
    Views::of(text, known).secrets()
}

/// Where credentials of any kind stand, from the first byte to behind the last, in order.
pub fn secret_spans(text: &str, known: &Known) -> Vec<Span> {
    Views::of(text, known).secret_spans()
}

/// Commands that install software.
pub fn installs(text: &str) -> Vec<Found> {
    Views::of(text, &Known::default()).installs()
}

/// Programs and scripts, also encoded ones.
pub fn payloads(text: &str, known: &Known) -> Vec<Found> {
    Views::of(text, known).payloads()
}

/// Claims that rules, policies or limits should change or be ignored.
pub fn claims(text: &str) -> Vec<Found> {
    Views::of(text, &Known::default()).claims()
}

/// Instructions to fetch or execute, and the markers of a conversation with a model.
pub fn instructions(text: &str) -> Vec<Found> {
    Views::of(text, &Known::default()).instructions()
}
