//! Encodings undone: base64 and hexadecimal runs, percent and backslash escapes, entities.

use std::sync::LazyLock;

use super::matcher::{byte, is_base64, span};
use super::views::{Made, Piece};

/// The shortest run that is worth undoing: a password of one word hides in sixteen.
const LEAST_RUN: usize = 16;
/// The shortest readable stretch that is kept. Noise has stretches that long by chance only once
/// in a hundred thousand places.
const LEAST_TEXT: usize = 12;

/// What can be read in the base64 and hexadecimal runs of a text.
pub(super) fn decode(text: &str) -> Option<Made> {
    let bytes = text.as_bytes();
    let mut made = Made::default();
    let mut at = 0;
    while at < bytes.len() {
        let length = span(bytes, at, is_base64);
        let run = bytes.get(at..at + length).unwrap_or_default();
        if length >= LEAST_RUN {
            base64_run(&mut made, run, at);
            hex_run(&mut made, run, at);
        }
        at += length.max(1);
    }
    (!made.text.is_empty()).then_some(made)
}

/// The run may begin before what it hides, so each of the four beginnings is tried.
fn base64_run(made: &mut Made, run: &[u8], at: usize) {
    for shift in 0..4 {
        let decoded = from_base64(run.get(shift..).unwrap_or_default());
        readable(made, &decoded, at + shift, (4, 3));
    }
}

fn hex_run(made: &mut Made, run: &[u8], at: usize) {
    let mut start = 0;
    while start < run.len() {
        let length = span(run, start, |byte| byte.is_ascii_hexdigit());
        if length >= LEAST_RUN {
            let digits = run.get(start..start + length).unwrap_or_default();
            for shift in 0..2 {
                let decoded = from_hex(digits.get(shift..).unwrap_or_default());
                readable(made, &decoded, at + start + shift, (2, 1));
            }
        }
        start += length.max(1);
    }
}

/// Both alphabets; whatever is no digit of them ends it.
pub(super) fn from_base64(run: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(run.len() / 4 * 3 + 3);
    let (groups, rest) = run.as_chunks::<4>();
    let values: &[u8; 256] = &VALUES;
    for group in groups {
        let value = |byte| values.get(usize::from(byte)).copied().unwrap_or(NO_DIGIT);
        let [a, b, c, d] = group.map(value);
        if a | b | c | d == NO_DIGIT {
            push_digits(&mut out, group);
            return out;
        }
        out.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    push_digits(&mut out, rest);
    out
}

/// A group that ends early.
fn push_digits(out: &mut Vec<u8>, group: &[u8]) {
    let digits =
        group.iter().map(|byte| base64_value(*byte)).take_while(|value| *value != NO_DIGIT);
    let (mut bits, mut count) = (0u32, 0u32);
    for value in digits {
        bits = bits << 6 | u32::from(value);
        count += 1;
    }
    let [_, first, second, third] = (bits << (6 * 4u32.saturating_sub(count))).to_be_bytes();
    let bytes = (count * 6 / 8) as usize;
    out.extend([first, second, third].into_iter().take(bytes));
}

/// More than any digit has, and with all of their bits.
const NO_DIGIT: u8 = 0xff;

static VALUES: LazyLock<[u8; 256]> =
    LazyLock::new(|| std::array::from_fn(|byte| base64_value(byte as u8)));

fn base64_value(byte: u8) -> u8 {
    match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => NO_DIGIT,
    }
}

pub(super) fn from_hex(run: &[u8]) -> Vec<u8> {
    let value = |digit: &u8| char::from(*digit).to_digit(16);
    let pair = |pair: &[u8; 2]| u8::try_from(value(&pair[0])? << 4 | value(&pair[1])?).ok();
    run.as_chunks::<2>().0.iter().map_while(pair).collect()
}

/// Keeps the stretches that read as text, each apart from the next. Zero bytes between characters
/// are those of UTF-16 and go.
fn readable(made: &mut Made, decoded: &[u8], from: usize, ratio: (usize, usize)) {
    let mut start = 0;
    while start < decoded.len() {
        let length = span(decoded, start, is_text);
        if length < LEAST_TEXT {
            start += length + 1;
            continue;
        }
        let stretch = decoded.get(start..start + length).unwrap_or_default();
        let wide = stretch.contains(&0);
        let text: Vec<u8> = stretch.iter().copied().filter(|byte| *byte != 0).collect();
        if text.len() >= LEAST_TEXT && (!wide || text.len() * 2 <= length + 1) {
            made.text.push_str("\n\n");
            let source = from + start * ratio.0 / ratio.1;
            let ratio = if wide { (ratio.0 * 2, ratio.1) } else { ratio };
            made.pieces.push(Piece { at: made.text.len(), from: source, ratio });
            made.text.push_str(&String::from_utf8_lossy(&text));
        }
        start += length + 1;
    }
}

/// Printable ASCII and white space, and the zero bytes of UTF-16.
fn is_text(byte: u8) -> bool {
    matches!(byte, 0 | b'\t' | b'\n' | b'\r' | 0x20..0x7f)
}

/// Fewer escapes than this hide nothing.
const LEAST_ESCAPES: usize = 3;

/// The text with percent, backslash and entity escapes undone.
pub(super) fn unescape(text: &str) -> Option<Made> {
    let bytes = text.as_bytes();
    let mut made = Made::default();
    let (mut kept, mut at, mut count) = (0, 0, 0usize);
    let may_begin = |byte: &u8| matches!(byte, b'%' | b'\\' | b'&');
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(may_begin)) {
        at += next;
        let start = at;
        let mut run = Vec::new();
        while let Some(length) = escape(bytes, at, &mut run) {
            at += length;
            count += 1;
        }
        if at == start {
            at += 1;
            continue;
        }
        made.keep(text.get(kept..start)?, kept);
        let ratio = ((at - start).max(1), run.len().max(1));
        made.pieces.push(Piece { at: made.text.len(), from: start, ratio });
        made.text.push_str(&String::from_utf8_lossy(&run));
        kept = at;
    }
    if count < LEAST_ESCAPES {
        return None;
    }
    made.keep(text.get(kept..)?, kept);
    Some(made)
}

/// Reads one escape and appends what it stands for; its length, if there is one here.
pub(super) fn escape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    match (byte(bytes, at), byte(bytes, at + 1)) {
        (b'%', _) => hex_escape(bytes, at + 1, 2, out).map(|digits| 1 + digits),
        (b'\\', b'x') => hex_escape(bytes, at + 2, 2, out).map(|digits| 2 + digits),
        (b'\\', b'u') => unicode_escape(bytes, at, out),
        (b'\\', letter) => letter_escape(bytes, at, letter, out),
        (b'&', b'#') => entity(bytes, at, out),
        _ => None,
    }
}

fn number(bytes: &[u8], at: usize, digits: usize, radix: u32) -> Option<u32> {
    let text = std::str::from_utf8(bytes.get(at..at + digits)?).ok()?;
    let clean = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    u32::from_str_radix(text, radix).ok().filter(|_| clean)
}

fn hex_escape(bytes: &[u8], at: usize, digits: usize, out: &mut Vec<u8>) -> Option<usize> {
    out.push(u8::try_from(number(bytes, at, digits, 16)?).ok()?);
    Some(digits)
}

fn push_char(out: &mut Vec<u8>, code: u32) -> Option<()> {
    let mut buffer = [0; 4];
    out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut buffer).as_bytes());
    Some(())
}

/// `\u0041` and `\u{41}`.
fn unicode_escape(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    if byte(bytes, at + 2) == b'{' {
        let digits = span(bytes, at + 3, |byte| byte.is_ascii_hexdigit()).min(6);
        let closed = byte(bytes, at + 3 + digits) == b'}';
        push_char(out, number(bytes, at + 3, digits, 16).filter(|_| closed)?)?;
        return Some(4 + digits);
    }
    push_char(out, number(bytes, at + 2, 4, 16)?)?;
    Some(6)
}

/// `\n`, `\"`, `\/` and octal `\101`.
fn letter_escape(bytes: &[u8], at: usize, letter: u8, out: &mut Vec<u8>) -> Option<usize> {
    let plain = match letter {
        b'n' => b'\n',
        b't' => b'\t',
        b'r' => b'\r',
        b'"' | b'\'' | b'/' | b'\\' => letter,
        b'0'..=b'3' => {
            out.push(u8::try_from(number(bytes, at + 1, 3, 8)?).ok()?);
            return Some(4);
        }
        _ => return None,
    };
    out.push(plain);
    Some(2)
}

/// `&#65;` and `&#x41;`.
fn entity(bytes: &[u8], at: usize, out: &mut Vec<u8>) -> Option<usize> {
    let hex = matches!(byte(bytes, at + 2), b'x' | b'X');
    let start = at + 2 + usize::from(hex);
    let digits = span(bytes, start, |byte| byte.is_ascii_hexdigit());
    if digits == 0 || digits > 7 || byte(bytes, start + digits) != b';' {
        return None;
    }
    push_char(out, number(bytes, start, digits, if hex { 16 } else { 10 })?)?;
    Some(start + digits + 1 - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> String {
        decode(text).map(|made| made.text).unwrap_or_default()
    }

    #[test]
    fn runs_are_read_wherever_they_begin() {
        // "the text that hides" with up to three letters before it.
        let run = "dGhlIHRleHQgdGhhdCBoaWRlcw";
        for before in ["", "x", "xy", "xyz"] {
            let text = decoded(&format!("{before}{run}"));
            assert!(text.contains("text that hides"), "{before}: {text:?}");
        }
        assert!(decoded("746865207465787420746861742068696465").contains("text that hid"));
        assert!(decoded(&format!("{run}==")).contains("hides"));
    }

    #[test]
    fn utf_16_is_read() {
        let wide: Vec<u8> = "wide text of sixteen".bytes().flat_map(|byte| [byte, 0]).collect();
        let mut made = Made::default();
        readable(&mut made, &wide, 0, (4, 3));
        assert_eq!(made.text.trim(), "wide text of sixteen");
    }

    #[test]
    fn prose_and_digests_hide_nothing() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(decoded(&format!("an extraordinarily-long-hyphenated word and {digest}")), "");
    }

    #[test]
    fn escapes_are_undone() {
        let plain = |text| unescape(text).map(|made| made.text).unwrap_or_default();
        assert_eq!(plain("%67%68%70_x"), "ghp_x");
        assert_eq!(plain(r"\x67\150\u0070\u{5f}"), "ghp_");
        assert_eq!(plain("&#103;&#x68;&#112;"), "ghp");
        assert_eq!(plain("%e2%80%8bx"), "\u{200b}x");
        assert_eq!(plain("100% of 50%"), "");
        assert_eq!(plain(r"\xzz \u12 \9 %+1 &#; &#x1"), "");
    }
}
