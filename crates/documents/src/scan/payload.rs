//! Programs and scripts inside of a text, plain or encoded.

use std::sync::LazyLock;

use super::decode::{escape, from_base64};
use super::matcher::{
    Finder, before, byte, distinct, is_base64, is_blank, is_word, span, span_within, starts_line,
};
use super::views::{Kind, View};
use super::{Found, magic};

/// The shortest run of base64 or hexadecimal digits that can only be data.
const LONG_RUN: usize = 256;
/// The shortest line of a run that was broken into lines.
const WRAPPED_LINE: usize = 40;

/// How programs and archives begin in base64.
const HEADS: [&str; 18] = [
    "f0VMR", "TVqQ", "TVpQ", "TVoA", "z/rt/", "zvrt/", "/u36z", "yv66v", "AGFzb", "UEsDB", "H4sI",
    "/Td6WFoA", "N3q8ryc", "KLUv/", "Qlpo", "UmFyIRo", "IyEv", "IyEgL",
];

type Matcher = fn(&[u8], usize) -> bool;

/// Rule, what to look for in any case, and what must be true around it.
const MARKS: &[(&str, &str, Matcher)] = &[
    ("script-interpreter", "#!", shebang),
    ("uuencoded-file", "begin ", uuencoded),
    ("yencoded-file", "=ybegin ", starts_line),
    ("data-address", "data:", data_address),
    ("script-element", "<script", |bytes, at| {
        !is_word(byte(bytes, at + 7)) && byte(bytes, at + 7) != b'-'
    }),
    ("script-address", "javascript:", script_address),
    ("script-address", "vbscript:", script_address),
    ("encoded-command", "-encodedcommand ", encoded_command),
    ("encoded-command", "-enc ", encoded_command),
    ("script-block", "```", script_block),
    ("script-block", "~~~", script_block),
];

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::any_case(MARKS.iter().map(|mark| mark.1)));
static HEAD_FINDER: LazyLock<Finder> = LazyLock::new(|| Finder::exact(HEADS));

pub(super) fn find(view: &View<'_>, found: &mut Vec<Found>) {
    base64_heads(view, found);
    if view.kind == Kind::Joined {
        return;
    }
    let bytes = view.bytes();
    FINDER.each(bytes, |hit| {
        if let Some((rule, _, matcher)) = MARKS.get(hit.index)
            && matcher(bytes, hit.at)
        {
            found.push(Found { offset: hit.at, rule });
        }
    });
    found.extend(magic::binary(bytes));
    runs(bytes, found);
    wrapped_runs(bytes, found);
}

/// Base64 that begins as a program does. Where lines were put together, one may begin too.
fn base64_heads(view: &View<'_>, found: &mut Vec<Found>) {
    let bytes = view.bytes();
    HEAD_FINDER.each(bytes, |hit| {
        if is_base64(before(bytes, hit.at)) && !view.gap(hit.at) {
            return;
        }
        let length = span_within(bytes, hit.at, 128, is_base64);
        let decoded = from_base64(bytes.get(hit.at..hit.at + length).unwrap_or_default());
        if decoded.len() >= 9
            && let Some(rule) = program(&decoded)
        {
            found.push(Found { offset: hit.at, rule });
        }
    });
}

fn program(decoded: &[u8]) -> Option<&'static str> {
    if shebang(decoded, 0) { Some("script-interpreter") } else { magic::kind(decoded) }
}

/// `#!` and a path, at the beginning of a line.
fn shebang(bytes: &[u8], at: usize) -> bool {
    let path = at + 2 + span(bytes, at + 2, is_blank);
    let starts = before(bytes, at) == b'\n' || at == 0;
    starts
        && bytes.get(at..at + 2) == Some(b"#!")
        && byte(bytes, path) == b'/'
        && byte(bytes, path + 1).is_ascii_lowercase()
}

/// `begin 644 name`, and a full line of it below.
fn uuencoded(bytes: &[u8], at: usize) -> bool {
    let mode = span_within(bytes, at + 6, 5, |b| matches!(b, b'0'..=b'7'));
    if !starts_line(bytes, at) || !(3..=4).contains(&mode) {
        return false;
    }
    let first = span_within(bytes, at, 256, |b| b != b'\n');
    let next = at + first + 1;
    let length = usize::from(byte(bytes, next).wrapping_sub(32) & 63).div_ceil(3) * 4;
    let line = span_within(bytes, next, 256, |b| b != b'\n');
    length > 0 && line.abs_diff(length + 1) <= 1
}

/// An address that holds what it leads to; pictures, sounds and fonts run nothing.
fn data_address(bytes: &[u8], at: usize) -> bool {
    if is_word(before(bytes, at)) {
        return false;
    }
    let kind = span(bytes, at + 5, |b| {
        is_word(b) || matches!(b, b'/' | b'+' | b'-' | b'.' | b';' | b'=' | b'"')
    });
    let head = bytes.get(at + 5..at + 5 + kind).unwrap_or_default().to_ascii_lowercase();
    let harmless: [&[u8]; 7] =
        [b"image/png", b"image/jpeg", b"image/gif", b"image/webp", b"audio/", b"video/", b"font/"];
    let typed = head.contains(&b'/') || head.ends_with(b";base64");
    byte(bytes, at + 5 + kind) == b','
        && typed
        && !harmless.iter().any(|kind| head.starts_with(kind))
}

/// Code behind `javascript:`: something is called or set.
fn script_address(bytes: &[u8], at: usize) -> bool {
    let start = at + span(bytes, at, |b| b != b':') + 1;
    let length = span_within(bytes, start, 80, |b| b.is_ascii_graphic());
    let code = bytes.get(start..start + length).unwrap_or_default();
    !is_word(before(bytes, at)) && code.iter().any(|b| matches!(b, b'(' | b'=' | b'%'))
}

fn encoded_command(bytes: &[u8], at: usize) -> bool {
    let start = at + span(bytes, at, |b| !is_blank(b));
    let start = start + span(bytes, start, is_blank);
    span(bytes, start, is_base64) >= 16
}

/// A fenced block that names a shell or a scripting language.
fn script_block(bytes: &[u8], at: usize) -> bool {
    const LANGUAGES: [&str; 24] = [
        "sh",
        "bash",
        "zsh",
        "fish",
        "ksh",
        "shell",
        "shellscript",
        "shell-session",
        "console",
        "terminal",
        "powershell",
        "pwsh",
        "ps1",
        "bat",
        "batch",
        "cmd",
        "python",
        "py",
        "javascript",
        "js",
        "ruby",
        "perl",
        "php",
        "applescript",
    ];
    let head = bytes.get(..at).unwrap_or_default();
    let indent = head.iter().rev().take(8).take_while(|b| is_blank(**b)).count();
    if !starts_line(bytes, at - indent) {
        return false;
    }
    let mark = byte(bytes, at);
    let name = at + span(bytes, at, |b| b == mark);
    let name = name + span(bytes, name, |b| is_blank(b) || b == b'{' || b == b'.');
    let length = span(bytes, name, |b| b.is_ascii_alphanumeric() || b == b'-');
    let language = bytes.get(name..name + length).unwrap_or_default();
    LANGUAGES.iter().any(|known| language.eq_ignore_ascii_case(known.as_bytes()))
}

/// Long runs, and bytes written one by one.
fn runs(bytes: &[u8], found: &mut Vec<Found>) {
    let mut at = 0;
    while at < bytes.len() {
        let length = span(bytes, at, is_base64);
        let run = bytes.get(at..at + length).unwrap_or_default();
        if length >= LONG_RUN && is_encoded(run) {
            found.push(Found { offset: at, rule: "encoded-run" });
        }
        let written = written_bytes(bytes, at);
        let program = written.first().and_then(|_| magic::kind(&written));
        let many = (written.len() >= LONG_RUN / 4).then_some("escaped-bytes");
        if let Some(rule) = program.or(many) {
            found.push(Found { offset: at, rule });
        }
        at += if many.is_some() { written.len() * 4 } else { length.max(1) };
    }
}

/// Bytes in hexadecimal that begin here: `7f454c46`, `7f 45 4c 46`, `0x7f, 0x45`, `\x7f\x45`.
/// Short ones only to know a program by; long rows of escapes in full.
fn written_bytes(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut place = at;
    if byte(bytes, at) == b'\\' {
        while out.len() < 4096
            && let Some(length) = escape(bytes, place, &mut out).filter(|length| *length == 4)
        {
            place += length;
        }
        return out;
    }
    if !byte(bytes, at).is_ascii_hexdigit() || is_word(before(bytes, at)) {
        return out;
    }
    while out.len() < 8 {
        place += 2 * usize::from(bytes.get(place..place + 2) == Some(b"0x"));
        let pair = bytes.get(place..place + 2).unwrap_or_default();
        let Some(value) =
            std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())
        else {
            break;
        };
        out.push(value);
        place += 2 + span(bytes, place + 2, |b| matches!(b, b' ' | b':' | b',')).min(2);
    }
    if out.len() >= 5 { out } else { Vec::new() }
}

/// Data and neither a name nor a sequence: all sorts of characters, evenly mixed.
fn is_encoded(run: &[u8]) -> bool {
    let has = |class: fn(&u8) -> bool| run.iter().any(class);
    let hex = run.iter().all(u8::is_ascii_hexdigit);
    if hex {
        return distinct(&run.to_ascii_lowercase()) >= 12 && has(u8::is_ascii_digit);
    }
    let signs = run.iter().filter(|b| !b.is_ascii_alphanumeric()).count();
    let kinds =
        has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_digit);
    kinds && distinct(run) >= 24 && signs * 8 <= run.len() && !is_wordy(run)
}

/// Whether a third of it is words: names in a program can be very long.
fn is_wordy(run: &[u8]) -> bool {
    let vowel = |word: &[u8]| word.iter().any(|b| matches!(b, b'a' | b'e' | b'i' | b'o' | b'u'));
    let words = run.split(|b| !b.is_ascii_lowercase());
    let length: usize = words.filter(|word| word.len() >= 4 && vowel(word)).map(<[u8]>::len).sum();
    length * 3 > run.len()
}

/// Lines of nothing but digits of base64 or hexadecimal, one below the other.
fn wrapped_runs(bytes: &[u8], found: &mut Vec<Found>) {
    let mut block: Vec<&[u8]> = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in bytes.split(|b| *b == b'\n').chain([&b""[..]]) {
        let text = line.trim_ascii();
        let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
        let full = body.len() >= WRAPPED_LINE && body.iter().all(|b| is_base64(*b));
        if full {
            start = if block.is_empty() { at } else { start };
            block.push(body);
        } else if !block.is_empty() {
            if is_wrapped(&block) {
                found.push(Found { offset: start, rule: "encoded-run" });
            }
            block.clear();
        }
        at += line.len() + 1;
    }
}

/// Lines of one length, as they come from a program that wraps; a list of digests is none.
fn is_wrapped(block: &[&[u8]]) -> bool {
    let Some(first) = block.first() else { return false };
    let (last, full) = block.split_last().unwrap_or((first, block));
    let even = full.iter().all(|line| line.len() == first.len()) && last.len() <= first.len();
    let whole = block.concat();
    let digests = whole.iter().all(u8::is_ascii_hexdigit)
        && matches!(first.len(), 40 | 56 | 64 | 96 | 128)
        && last.len() == first.len();
    block.len() > 1 && even && !digests && whole.len() >= LONG_RUN && is_encoded(&whole)
}
