//! The part of a stream that a result shows.

use super::escape::{escape, unescape};
use super::{Captured, MAX_LINE_CHARS, MAX_LINES, MAX_SHOWN_BYTES};

pub(super) struct Shown {
    pub(super) lines: Vec<String>,
    /// Whether there is more than is shown.
    pub(super) cut: bool,
    /// Whether the last line has no end, although nothing was cut.
    pub(super) open: bool,
}

/// Every line is written behind this, so that it can never be structure.
pub(super) const PREFIX: &str = "| ";

pub(super) fn show(stream: &Captured) -> Shown {
    let whole = stream.head.len() as u64 == stream.bytes;
    let open = stream.head.last().is_some_and(|byte| *byte != b'\n');
    let body = stream.head.strip_suffix(b"\n").unwrap_or(&stream.head);
    let mut lines = Vec::new();
    let mut room = MAX_SHOWN_BYTES;
    let mut cut = !whole;
    let all = if stream.head.is_empty() { 0 } else { usize::MAX };
    for line in body.split(|byte| *byte == b'\n').take(all) {
        let (text, fits) = escape(line, MAX_LINE_CHARS);
        let Some(left) = room.checked_sub(PREFIX.len() + text.len() + 1) else {
            cut = true;
            break;
        };
        if lines.len() == MAX_LINES {
            cut = true;
            break;
        }
        cut |= !fits;
        room = left;
        lines.push(text);
    }
    Shown { lines, cut, open: open && !cut }
}

/// The bytes that shown lines stand for.
pub(super) fn bytes<'l>(lines: impl Iterator<Item = &'l str>, open: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for line in lines {
        bytes.extend(unescape(line));
        bytes.push(b'\n');
    }
    if open {
        bytes.pop();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Known;

    fn of(bytes: &[u8]) -> Shown {
        show(&Captured::of(bytes, &Known::default()))
    }

    #[test]
    fn nothing_is_shown_of_nothing() {
        assert!(of(b"").lines.is_empty() && !of(b"").cut);
        assert_eq!(of(b"\n").lines, [""]);
    }

    #[test]
    fn at_most_so_much_is_shown() {
        let many = of("x\n".repeat(201).as_bytes());
        assert_eq!((many.lines.len(), many.cut), (200, true));
        assert!(!of("x\n".repeat(200).as_bytes()).cut);
        let long = of(&[b'x'; 1001]);
        assert_eq!((long.lines[0].chars().count(), long.cut), (1000, true));
        assert!(!of(&[b'x'; 1000]).cut);
        let wide = of(format!("{}\n", "é".repeat(990)).repeat(60).as_bytes());
        let bytes: usize = wide.lines.iter().map(|line| line.len() + 3).sum();
        assert!(wide.cut && bytes <= MAX_SHOWN_BYTES, "{bytes}");
    }

    #[test]
    fn what_is_not_cut_comes_back() {
        for text in ["a\nb\n", "a\nb", "\n\n", "a\n\n", "tab\t\x1b\\"] {
            let shown = of(text.as_bytes());
            assert_eq!(bytes(shown.lines.iter().map(String::as_str), shown.open), text.as_bytes());
        }
    }
}
