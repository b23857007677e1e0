//! Lines and strings put together that were broken in the middle of something.

use super::matcher::{before, byte, is_blank, span};
use super::views::Made;

/// Takes out single line breaks with the indentation around them, and the seams of strings that
/// are put together in source code: `"abc" + "def"`, `'abc', 'def'`. Empty lines stay: they end
/// what stands before them.
pub(super) fn join(text: &str) -> Option<Made> {
    let bytes = text.as_bytes();
    let mut made = Made::default();
    let mut kept = 0;
    let mut at = 0;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|b| may_begin(*b)))
    {
        at += next;
        match seam(bytes, at) {
            0 => at += 1,
            length => {
                let start = at - trailing(bytes, kept, at);
                made.keep(text.get(kept..start)?, kept);
                at += length;
                kept = at;
            }
        }
    }
    if kept == 0 {
        return None;
    }
    made.keep(text.get(kept..)?, kept);
    Some(made)
}

fn may_begin(byte: u8) -> bool {
    matches!(byte, b'\n' | b'"' | b'\'' | b'`')
}

/// How long the seam is that begins here.
fn seam(bytes: &[u8], at: usize) -> usize {
    match byte(bytes, at) {
        b'\n' => line_break(bytes, at),
        quote @ (b'"' | b'\'' | b'`') => string_seam(bytes, at, quote),
        _ => 0,
    }
}

fn line_break(bytes: &[u8], at: usize) -> usize {
    let indent = span(bytes, at + 1, is_blank);
    let next = byte(bytes, at + 1 + indent);
    let empty = at == 0 || before(bytes, at) == b'\n' || next == b'\n' || next == 0;
    if empty { 0 } else { 1 + indent }
}

/// A quote that closes, an operator or nothing, and the same quote opening again.
fn string_seam(bytes: &[u8], at: usize, quote: u8) -> usize {
    let space = |byte| is_blank(byte) || matches!(byte, b'\n' | b'\\');
    let mut end = at + 1;
    end += span(bytes, end, space);
    if matches!(byte(bytes, end), b'+' | b'.' | b'&' | b',') {
        end += 1 + span(bytes, end + 1, space);
    }
    // Two quotes side by side are an empty string, no seam.
    if end > at + 1 && byte(bytes, end) == quote { end + 1 - at } else { 0 }
}

/// Blanks and a backslash at the end of the line that goes on.
fn trailing(bytes: &[u8], kept: usize, at: usize) -> usize {
    if byte(bytes, at) != b'\n' {
        return 0;
    }
    let line = bytes.get(kept..at).unwrap_or_default();
    line.iter().rev().take_while(|b| is_blank(**b) || matches!(**b, b'\\' | b'\r')).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, joined: &str) {
        let made = join(text).map_or_else(|| text.to_owned(), |made| made.text);
        assert_eq!(made, joined, "{text:?}");
    }

    #[test]
    fn what_was_broken_is_put_together() {
        check("ab\ncd", "abcd");
        check("ab \\\n   cd", "abcd");
        check("x = \"ab\" + \"cd\"", "x = \"abcd\"");
        check("x = 'ab'\n    'cd'", "x = 'abcd'");
        check("[\"ab\", \"cd\"]", "[\"abcd\"]");
    }

    #[test]
    fn what_was_apart_stays_apart() {
        check("ab\n\ncd", "ab\n\ncd");
        check("\nab\n", "\nab\n");
        check("x = \"\" y", "x = \"\" y");
        check("\"ab\" or 'cd'", "\"ab\" or 'cd'");
    }
}
