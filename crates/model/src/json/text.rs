//! Places in a text, and texts short enough to show.

use std::fmt::Write as _;

/// Longer digit runs than this cannot be a number below 10^21.
const EXACT_DIGITS: usize = 21;

/// Where the first integer literal of more than 21 digits starts, if there is one.
///
/// The parser hands such a literal over as a double, indistinguishable from `1e30`; only the text
/// tells whether digits were lost. `text` is known to be JSON.
pub(super) fn first_long_integer(text: &str) -> Option<usize> {
    let mut outside = Outside::default();
    let mut start = None;
    for (offset, byte) in text.bytes().enumerate() {
        match (outside.step(byte), byte, start) {
            (true, b'0'..=b'9' | b'-', None) => start = Some(offset),
            (true, b'0'..=b'9' | b'-', Some(_)) => {}
            (true, b'.' | b'e' | b'E' | b'+', Some(_)) => start = Some(usize::MAX),
            (_, _, Some(from)) if is_long(from, offset) => return Some(from),
            _ => start = None,
        }
    }
    start.filter(|&from| is_long(from, text.len()))
}

fn is_long(from: usize, to: usize) -> bool {
    to.saturating_sub(from) > EXACT_DIGITS
}

/// Tells string content from everything else.
#[derive(Default)]
struct Outside {
    in_string: bool,
    escaped: bool,
}

impl Outside {
    /// Whether `byte` stands outside strings.
    fn step(&mut self, byte: u8) -> bool {
        let outside = !self.in_string;
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => self.in_string = !self.in_string,
            _ => {}
        }
        outside
    }
}

/// Line and column, both from 1, columns in bytes as the parser counts them.
pub(super) fn place(bytes: &[u8], offset: usize) -> String {
    let before = bytes.get(..offset).unwrap_or(bytes);
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    format!("line {line}, column {column}")
}

/// At most `max` characters of `text`, with a mark where it was cut.
pub(crate) fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Adds one step to a JSON pointer (RFC 6901).
pub(crate) fn push_segment(pointer: &mut String, segment: &str) {
    pointer.push('/');
    for c in segment.chars() {
        match c {
            '~' => pointer.push_str("~0"),
            '/' => pointer.push_str("~1"),
            _ => pointer.push(c),
        }
    }
}

/// Adds an array index to a JSON pointer.
pub(crate) fn push_index(pointer: &mut String, index: usize) {
    // Writing to a string cannot fail.
    let _ = write!(pointer, "/{index}");
}
