//! Where something stands, from its first byte to behind its last.

use super::matcher::{before, byte, is_base64};

/// A stretch of the text that was handed in. Both ends lie between characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    pub end: usize,
    pub rule: &'static str,
}

impl Span {
    /// Whether this is another span and nothing but words behind it: where lines were put together,
    /// what stands on the next one looks like the rest of a secret. Secrets have digits.
    pub(super) fn only_adds_words(&self, span: &Span, text: &str) -> bool {
        let rest = text.as_bytes().get(span.end..self.end).unwrap_or_default();
        let same = (self.start, self.rule) == (span.start, span.rule);
        same && !rest.iter().any(u8::is_ascii_digit)
    }

    /// Widened until both ends lie between characters.
    pub(super) fn on_characters(self, text: &str) -> Span {
        let end = self.end.min(text.len());
        Span {
            start: text.floor_char_boundary(self.start),
            end: text.ceil_char_boundary(end),
            ..self
        }
    }

    /// Widened over everything around it that can belong to the same encoding: a place in what was
    /// decoded is known only to within a few bytes.
    pub(super) fn over_encoding(self, text: &str) -> Span {
        let (bytes, mut span) = (text.as_bytes(), self.on_characters(text));
        while is_encoded(before(bytes, span.start)) {
            span.start -= 1;
        }
        while is_encoded(byte(bytes, span.end)) {
            span.end += 1;
        }
        span
    }
}

/// Base64 with padding, and the signs of percent, backslash and entity escapes.
fn is_encoded(byte: u8) -> bool {
    is_base64(byte) || matches!(byte, b'=' | b'%' | b'\\' | b'{' | b'}' | b'&' | b'#' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize, end: usize) -> Span {
        Span { start, end, rule: "x" }
    }

    #[test]
    fn ends_lie_between_characters() {
        assert_eq!(span(2, 4).on_characters("aéé"), span(1, 5));
        assert_eq!(span(0, 9).on_characters("ab"), span(0, 2));
    }

    #[test]
    fn the_next_line_belongs_to_a_secret_only_if_it_looks_so() {
        assert!(span(0, 7).only_adds_words(&span(0, 2), "ab\nhost"));
        assert!(!span(0, 7).only_adds_words(&span(0, 2), "ab\nc4f9"));
        assert!(!span(1, 7).only_adds_words(&span(0, 2), "ab\nhost"));
    }

    #[test]
    fn an_encoding_is_covered_as_a_whole() {
        let text = "x QUJDREVG== y";
        assert_eq!(span(5, 7).over_encoding(text), span(2, 12));
        assert_eq!(span(4, 5).over_encoding("é %41%42 é"), span(3, 9));
    }
}
