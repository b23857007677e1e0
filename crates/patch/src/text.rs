//! Bytes as people may see them: on one line, without characters that act on what shows them.

use std::fmt::Write as _;

/// Characters that move, hide or turn others around: shown by their number.
pub(crate) fn is_inert(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Appends `c`, or its number.
pub(crate) fn push_inert(out: &mut String, c: char) {
    if is_inert(c) {
        out.push(c);
    } else {
        // A string takes whatever is written to it.
        let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
    }
}

/// At most `limit` characters of `bytes`, lossily, without the end of the line.
pub fn shown(bytes: &[u8], limit: usize) -> String {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    // No character takes more than four bytes, so the rest cannot be shown anyway.
    let head = bytes.get(..limit.saturating_mul(4)).unwrap_or(bytes);
    let text = String::from_utf8_lossy(head);
    let mut out = String::new();
    let mut chars = text.chars();
    chars.by_ref().take(limit).for_each(|c| push_inert(&mut out, c));
    if chars.next().is_some() || head.len() < bytes.len() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_screen_is_shown_by_its_number() {
        assert_eq!(shown("a\u{202e}b\u{1b}[0m\n".as_bytes(), 80), "a\\u{202e}b\\u{1b}[0m");
        assert_eq!(shown("tab\tand\r\n".as_bytes(), 80), "tab\\u{9}and\\u{d}");
        assert_eq!(shown(b"\xff\n", 80), "\u{fffd}");
        assert_eq!(shown(b"abcdef", 3), "abc…");
        assert_eq!(shown("äöü".as_bytes(), 3), "äöü");
    }
}
