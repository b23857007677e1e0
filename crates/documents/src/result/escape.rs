//! Bytes as lines that can be shown, and back.
//!
//! What can be seen stands for itself. A backslash is doubled; a tab is `\t`; other control
//! characters and bytes that are no UTF-8 are `\xNN`; characters that cannot be seen are `\u{…}`.

use std::fmt::Write as _;

use crate::text::is_unseen;

/// One line of a stream, without its end, at most so many characters. Whether all of it fits.
pub(super) fn escape(line: &[u8], most: usize) -> (String, bool) {
    let mut shown = String::new();
    // More than this cannot fit, and a line can be very long.
    let line = line.get(..most.saturating_mul(4).saturating_add(4)).unwrap_or(line);
    for chunk in line.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape_char(c, &mut shown);
        }
        for byte in chunk.invalid() {
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    match shown.char_indices().nth(most) {
        None => (shown, true),
        Some(_) => (cut(shown, most), false),
    }
}

/// Marks a line that goes on. The mark takes the place of what stood last.
fn cut(mut shown: String, most: usize) -> String {
    let end = shown.char_indices().nth(most.saturating_sub(1)).map_or(0, |(at, _)| at);
    shown.truncate(end);
    shown.push('…');
    shown
}

fn escape_char(c: char, shown: &mut String) {
    match c {
        '\\' => shown.push_str("\\\\"),
        '\t' => shown.push_str("\\t"),
        ' '..='~' => shown.push(c),
        c if u32::from(c) < 0xa0 => {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(shown, "\\x{byte:02x}");
            }
        }
        c if is_unseen(c) => {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
        c => shown.push(c),
    }
}

/// The bytes that a shown line stands for. Whatever is no escape stands for itself, so that a line
/// from somewhere else, where nothing was escaped, mostly comes back as it is.
pub(super) fn unescape(line: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.extend_from_slice(before.as_bytes());
        let length = one(escape, &mut out);
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

/// Undoes the escape at the beginning; its length.
fn one(escape: &str, out: &mut Vec<u8>) -> usize {
    if escape.starts_with("\\\\") {
        out.push(b'\\');
        return 2;
    }
    if escape.starts_with("\\t") {
        out.push(b'\t');
        return 2;
    }
    let hex = |digits: &str| digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let byte =
        escape.strip_prefix("\\x").and_then(|rest| rest.get(..2)).filter(|digits| hex(digits));
    if let Some(byte) = byte.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        out.push(byte);
        return 4;
    }
    let code =
        escape.strip_prefix("\\u{").and_then(|rest| rest.split_once('}')).map(|(code, _)| code);
    let code = code.filter(|code| (1..=6).contains(&code.len()) && hex(code));
    if let Some((length, c)) = code
        .and_then(|code| Some((code.len(), char::from_u32(u32::from_str_radix(code, 16).ok()?)?)))
    {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return length + 4;
    }
    out.push(b'\\');
    1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_seen_is_seen() {
        let show = |bytes: &[u8]| escape(bytes, 1000).0;
        assert_eq!(show(b"plain"), "plain");
        assert_eq!(show(b"\x1b[31m\t\r\0"), "\\x1b[31m\\t\\x0d\\x00");
        assert_eq!(show("a\u{202e}b\u{85}é".as_bytes()), "a\\u{202e}b\\xc2\\x85é");
        assert_eq!(show(b"C:\\x41 \xff"), "C:\\\\x41 \\xff");
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        assert_eq!(escape(b"abcdef", 4), ("abc…".to_owned(), false));
        assert_eq!(escape(b"abcd", 4), ("abcd".to_owned(), true));
        assert_eq!(escape(b"ab\x00\x00", 7), ("ab\\x00…".to_owned(), false));
    }

    #[test]
    fn what_is_no_escape_stands_for_itself() {
        for text in ["C:\\temp\\new".replace("\\t", "\\q"), "\\x1G \\u{} \\u{110000} \\".to_owned()]
        {
            assert_eq!(unescape(&text), text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn whatever_is_shown_comes_back(line in any::<Vec<u8>>()) {
            let (shown, whole) = escape(&line, usize::MAX);
            prop_assert!(whole);
            prop_assert!(!shown.chars().any(|c| c.is_control() || is_unseen(c)));
            prop_assert_eq!(unescape(&shown), line);
        }

        #[test]
        fn text_comes_back_too(line in ".*") {
            prop_assert_eq!(unescape(&escape(line.as_bytes(), usize::MAX).0), line.as_bytes());
        }
    }
}
