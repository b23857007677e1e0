//! What a reader sees, without what cannot be seen.

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use super::matcher::{byte, span};
use super::views::Made;

/// Takes out invisible and control characters, terminal sequences and accents, and turns letters
/// that look like ASCII letters into them. Nothing when the text is that already.
pub(super) fn fold(text: &str) -> Option<Made> {
    let first = text.bytes().position(is_foldable)?;
    let mut made = Made::default();
    let mut kept = 0;
    let mut at = first;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let length = folded_length(text.as_bytes(), at, c);
        if length > 0 {
            made.keep(text.get(kept..at)?, kept);
            replace(&mut made, c, at, text);
            kept = at + length;
            at = kept;
        } else {
            at += c.len_utf8();
        }
    }
    if kept == 0 {
        return None;
    }
    made.keep(text.get(kept..)?, kept);
    Some(made)
}

fn is_foldable(byte: u8) -> bool {
    byte >= 0x7f || (byte < 0x20 && !matches!(byte, b'\n' | b'\t'))
}

/// How many bytes from here are seen differently; zero for what stays.
fn folded_length(bytes: &[u8], at: usize, c: char) -> usize {
    match c {
        '\x1b' => terminal_sequence(bytes, at),
        ' '..='~' | '\n' | '\t' => 0,
        // Ideographs and syllables stand for themselves, and there may be very many of them.
        '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' => 0,
        c => c.len_utf8(),
    }
}

fn replace(made: &mut Made, c: char, at: usize, text: &str) {
    let mut buffer = [0; 4];
    match c {
        '\r' if byte(text.as_bytes(), at + 1) != b'\n' => made.keep("\n", at),
        c if c.is_control() || is_invisible(c) => {}
        c => decompose_compatible(c, |part| {
            if !is_combining_mark(part) {
                made.keep(lookalike(part).encode_utf8(&mut buffer), at);
            }
        }),
    }
}

/// `ESC [ … letter`, `ESC ] … BEL` and the short ones.
fn terminal_sequence(bytes: &[u8], at: usize) -> usize {
    match byte(bytes, at + 1) {
        b'[' => {
            let body = span(bytes, at + 2, |b| (0x20..0x40).contains(&b));
            let end = at + 2 + body;
            2 + body + usize::from((0x40..0x7f).contains(&byte(bytes, end)))
        }
        b']' => {
            let body = span(bytes, at + 2, |b| (0x20..0x7f).contains(&b));
            2 + body + usize::from(byte(bytes, at + 2 + body) == 7)
        }
        0x20..0x7f => 2,
        _ => 1,
    }
}

/// Characters that take no room or only steer others.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The ASCII letter that a Cyrillic, Greek or similar one is mistaken for.
fn lookalike(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'с' | 'ϲ' => 'c',
        'С' | 'Ϲ' => 'C',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'Е' | 'Ε' => 'E',
        'ɡ' => 'g',
        'һ' => 'h',
        'Н' | 'Η' => 'H',
        'і' | 'ι' | 'ı' => 'i',
        'І' | 'Ι' | 'Ӏ' => 'I',
        'ј' => 'j',
        'Ј' => 'J',
        'К' | 'Κ' => 'K',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'М' | 'Μ' => 'M',
        'Ν' => 'N',
        'о' | 'ο' | 'օ' => 'o',
        'О' | 'Ο' => 'O',
        'р' | 'ρ' => 'p',
        'Р' | 'Ρ' => 'P',
        'ԛ' => 'q',
        'ѕ' => 's',
        'Ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'υ' | 'ս' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' | 'ѡ' => 'w',
        'х' | 'χ' => 'x',
        'Х' | 'Χ' => 'X',
        'у' | 'γ' => 'y',
        'У' | 'Υ' => 'Y',
        'Ζ' => 'Z',
        '‐' | '‑' | '‒' | '–' | '−' => '-',
        '‘' | '’' => '\'',
        '“' | '”' => '"',
        '∕' | '⁄' => '/',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, seen: &str) {
        let made = fold(text).map_or_else(|| text.to_owned(), |made| made.text);
        assert_eq!(made, seen, "{text:?}");
    }

    #[test]
    fn the_unseen_goes_and_lookalikes_turn() {
        check("gh\u{200b}p\u{ad}_", "ghp_");
        check("\x1b[1;31mred\x1b[0m", "red");
        check("\x1b]0;title\x07x", "x");
        check("ｉｇｎｏｒｅ", "ignore");
        check("іgnоre", "ignore");
        check("é́", "e");
        check("a\0b\u{7f}c", "abc");
        check("10%\r20%\r\n", "10%\n20%\n");
        check("\x1b", "");
    }

    #[test]
    fn the_rest_stays() {
        check("plain\ttext\n", "plain\ttext\n");
        check("日本語 한국어", "日本語 한국어");
        assert!(fold("日本語").is_none());
    }
}
