//! Bytes to text: strict UTF-8, line ends of one kind, and nothing that a reader would not see.

use unicode_general_category::{GeneralCategory, get_general_category};

use crate::code::Code;
use crate::reason::Findings;

/// What a person is asked to read and approve.
pub const MAX_REQUEST_BYTES: usize = 64 * 1024;
/// Two streams as they are shown, with room for escapes, and what stands around them.
pub const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// A document as text, with the beginnings of its lines.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    text: &'a str,
    lines: Vec<usize>,
}

/// A line without its end, and where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    pub at: usize,
    pub text: &'a str,
}

impl Line<'_> {
    pub fn is_blank(&self) -> bool {
        self.text.bytes().all(|byte| byte == b' ')
    }
}

impl<'a> Source<'a> {
    /// Reads bytes as text. There is no text when they are too many or not UTF-8; other
    /// complaints leave a text in which more can be found.
    pub fn read(bytes: &'a [u8], max_bytes: usize, findings: &mut Findings) -> Option<Source<'a>> {
        if bytes.len() > max_bytes {
            let found = bytes.len();
            let message = format_args!("{found} bytes are more than the {max_bytes} allowed");
            findings.add(Code::TooLarge, 0, message);
            return None;
        }
        match str::from_utf8(bytes) {
            Ok(text) => {
                characters(text, findings);
                Some(Source::of(text))
            }
            Err(error) => {
                let message = format_args!("byte {} is not UTF-8", error.valid_up_to() + 1);
                findings.add(Code::NotUtf8, 0, message);
                None
            }
        }
    }

    pub fn of(text: &'a str) -> Source<'a> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Source { text, lines }
    }

    pub fn text(&self) -> &'a str {
        self.text
    }

    /// The lines from an offset on, which is the beginning of one.
    pub fn lines_from(&self, start: usize) -> impl Iterator<Item = Line<'a>> {
        let text = self.text.get(start..).unwrap_or_default();
        let mut at = start;
        text.split('\n').map(move |text| {
            let line = Line { at, text };
            at += text.len() + 1;
            line
        })
    }

    /// Where the line begins that holds an offset.
    pub fn line_start(&self, at: usize) -> usize {
        let line = self.lines.partition_point(|start| *start <= at);
        line.checked_sub(1).and_then(|index| self.lines.get(index)).copied().unwrap_or(0)
    }

    /// Where the line ends that holds an offset.
    pub fn line_end(&self, at: usize) -> usize {
        let next = self.lines.partition_point(|start| *start <= at);
        self.lines.get(next).map_or(self.text.len(), |start| start - 1)
    }

    /// Line and column of an offset in bytes, both from 1; the column counts characters.
    pub fn place(&self, at: usize) -> (u32, u32) {
        let at = self.text.floor_char_boundary(at);
        let line = self.lines.partition_point(|start| *start <= at);
        let before = self.text.get(self.line_start(at)..at).unwrap_or_default();
        let column = before.chars().count() + 1;
        (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
    }
}

/// The first of each kind in each line is enough to find the others.
fn characters(text: &str, findings: &mut Findings) {
    let mut line = 0_usize;
    let mut said = None;
    for (at, c) in text.char_indices() {
        if c == '\n' {
            line = at;
        }
        let Some(code) = complaint(c, at) else { continue };
        if said != Some((line, code)) {
            said = Some((line, code));
            let message = format_args!("there is a character U+{:04X} here", u32::from(c));
            findings.add(code, at, message);
        }
    }
}

fn complaint(c: char, at: usize) -> Option<Code> {
    match c {
        '\n' | ' '..='~' => None,
        '\r' => Some(Code::CarriageReturn),
        '\u{feff}' if at == 0 => Some(Code::ByteOrderMark),
        '\0'..='\u{9f}' => Some(Code::ControlCharacter),
        _ if is_unseen(c) => Some(Code::InvisibleCharacter),
        _ => None,
    }
}

/// Characters that show nothing, change how others are shown, or that nobody has defined.
pub fn is_unseen(c: char) -> bool {
    use GeneralCategory::{
        Control, Format, LineSeparator, ParagraphSeparator, PrivateUse, Surrogate, Unassigned,
    };
    let category = || get_general_category(c);
    !c.is_ascii()
        && (is_ignorable(c)
            || matches!(
                category(),
                Control
                    | Format
                    | LineSeparator
                    | ParagraphSeparator
                    | PrivateUse
                    | Surrogate
                    | Unassigned
            ))
}

/// Letters, marks and symbols that are there without being seen: fillers, joiners, selectors.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(bytes: &[u8]) -> Vec<Code> {
        let mut findings = Findings::new();
        match Source::read(bytes, 100, &mut findings) {
            Some(source) => findings.into_reasons(&source),
            None => findings.into_reasons_without_text(),
        }
        .into_iter()
        .map(|reason| reason.code)
        .collect()
    }

    #[test]
    fn every_complaint_has_its_code() {
        for (bytes, code) in [
            (&b"a\xff"[..], Code::NotUtf8),
            (b"a\r\n", Code::CarriageReturn),
            (b"a\tb", Code::ControlCharacter),
            (b"a\0b", Code::ControlCharacter),
            ("a\u{85}".as_bytes(), Code::ControlCharacter),
            ("\u{feff}a".as_bytes(), Code::ByteOrderMark),
            ("a\u{feff}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{200b}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{202e}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{2028}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{e0041}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{fe0f}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{e000}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{378}".as_bytes(), Code::InvisibleCharacter),
            ("a\u{3164}".as_bytes(), Code::InvisibleCharacter),
            (&[b'a'; 101], Code::TooLarge),
        ] {
            assert_eq!(codes(bytes), [code], "{bytes:?}");
        }
        for fine in ["", "a\n", "né à 5 €", "日本語", "a\u{a0}b", "🙂"] {
            assert_eq!(codes(fine.as_bytes()), [], "{fine}");
        }
    }

    #[test]
    fn places_count_characters() {
        let source = Source::of("é\nab€c\n");
        for (at, place) in [(0, (1, 1)), (2, (1, 2)), (3, (2, 1)), (8, (2, 4)), (10, (3, 1))] {
            assert_eq!(source.place(at), place, "{at}");
        }
        assert_eq!(source.place(999), (3, 1));
    }
}
