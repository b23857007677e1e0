//! Secrets known by what stands around them: addresses with a password, headers, key files.

use std::ops::Range;
use std::sync::LazyLock;

use super::assign::is_placeholder;
use super::decode::from_base64;
use super::matcher::{
    Finder, before, byte, distinct, is_base64, is_blank, is_word, span, span_within,
};
use super::spans::Span;
use super::views::View;

type Matcher = fn(&[u8], usize) -> Option<Range<usize>>;

/// Rule, what to look for in any case, and the matcher that is handed the place behind it.
const SHAPES: &[(&str, &str, Matcher)] = &[
    ("url-password", "://", url_password),
    ("private-key", "private key-----", private_key),
    ("private-key", "private key block-----", private_key),
    ("private-key", "private-lines: ", putty_key),
    ("basic-header", "basic ", basic_header),
    ("bearer-header", "bearer ", bearer_header),
    ("netrc-password", "login ", netrc),
    ("mailchimp-key", "-us", mailchimp),
    ("cloudflare-key", "v1.0-", cloudflare),
    ("azure-signature", "&sig=", azure_signature),
    ("minisign-key", "secret key\nrw", minisign),
];

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::any_case(SHAPES.iter().map(|shape| shape.1)));

pub(super) fn find(view: &View<'_>, found: &mut Vec<Span>) {
    let bytes = view.bytes();
    FINDER.each(bytes, |hit| {
        if let Some((rule, beginning, matcher)) = SHAPES.get(hit.index)
            && let Some(Range { start, end }) = matcher(bytes, hit.at + beginning.len())
        {
            found.push(Span { start, end, rule });
        }
    });
}

/// `scheme://name:password@host`. A password that stands for itself counts, a place for one does
/// not.
fn url_password(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let scheme = bytes.get(..at - 3)?.iter().rev();
    let scheme =
        scheme.take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'.' | b'-'));
    if scheme.count() == 0 {
        return None;
    }
    let name =
        span(bytes, at, |b| b.is_ascii_graphic() && !matches!(b, b'/' | b'@' | b':' | b'"' | b'<'));
    let start = at + name;
    if byte(bytes, start) != b':' {
        return None;
    }
    let stop = |b: u8| !b.is_ascii_graphic() || matches!(b, b'/' | b'@' | b'"' | b'\'');
    let length = span(bytes, start + 1, |b| !stop(b));
    let password = bytes.get(start + 1..start + 1 + length)?;
    let host = byte(bytes, start + 2 + length);
    let whole =
        byte(bytes, start + 1 + length) == b'@' && (host.is_ascii_alphanumeric() || host == b'[');
    (whole && length > 0 && !is_placeholder(password)).then_some(at..start + 1 + length)
}

/// The mark and some of the key behind it: the mark alone is only a mark.
fn private_key(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let opening = bytes.get(at.saturating_sub(64)..at)?;
    let begin = opening.windows(11).rposition(|text| text.eq_ignore_ascii_case(b"-----begin "))?;
    let after = bytes.get(at..(at + 512).min(bytes.len()))?;
    let ends = after.windows(5).position(|text| text == b"-----").unwrap_or(after.len());
    let body = after.get(..ends)?;
    let runs = body.split(|byte| !is_base64(*byte));
    let longest = runs.map(|run| if distinct(run) >= 5 { run.len() } else { 0 }).max().unwrap_or(0);
    (longest >= 20).then(|| at - opening.len() + begin..end_of_key(bytes, at))
}

/// A key without an end goes on for so long at most.
const MAX_KEY: usize = 16 * 1024;

/// Behind the mark that ends a key, wherever that is. Every mark has dashes, so a text that is full
/// of beginnings is not looked through twice.
fn end_of_key(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let dashes = |text: &[u8]| text.windows(5).position(|five| five == b"-----");
    let Some(next) = dashes(rest) else { return bytes.len().min(at + MAX_KEY) };
    let mark = rest.get(next + 5..).unwrap_or_default();
    let mark = mark.get(..mark.len().min(64)).unwrap_or_default();
    match dashes(mark) {
        Some(length) if mark.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(b"end ")) => {
            at + next + 5 + length + 5
        }
        _ => at + next.min(MAX_KEY),
    }
}

/// `Private-Lines:`, a number and the first line of the key.
fn putty_key(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let number = span_within(bytes, at, 3, |b| b.is_ascii_digit());
    let key = at + number + 1;
    let line = span_within(bytes, key, 64, is_base64);
    (number > 0 && byte(bytes, at + number) == b'\n' && line >= 20)
        .then(|| at..end_of_lines(bytes, at, key))
}

/// Behind as many lines as the number here says.
fn end_of_lines(bytes: &[u8], number: usize, key: usize) -> usize {
    let digits = bytes.get(number..key).unwrap_or_default().trim_ascii();
    let lines = digits.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit & 0xf));
    let mut end = key;
    for _ in 0..lines {
        let line = span(bytes, end, |b| is_base64(b) || b == b'=');
        end += line + usize::from(line > 0);
    }
    end.saturating_sub(1).min(bytes.len()).max(key)
}

/// `Basic` and base64 of a name, a colon and a password.
fn basic_header(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = span(bytes, at, is_base64);
    let lone = !is_word(before(bytes, at - 6));
    let decoded = from_base64(bytes.get(at..at + length)?);
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let readable = decoded.iter().all(|byte| (0x20..0x7f).contains(byte));
    let password = decoded.get(colon + 1..)?;
    (lone && length >= 8 && readable && !password.is_empty() && !is_placeholder(password))
        .then_some(at..at + length)
}

/// `Bearer` and something that is no word.
fn bearer_header(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = span(bytes, at, |b| is_base64(b) || matches!(b, b'.' | b'~' | b'='));
    let token = bytes.get(at..at + length)?;
    let lone = !is_word(before(bytes, at - 7));
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    let plausible = length >= 16 && digits >= 2 && distinct(token) >= 8;
    (lone && plausible && !is_placeholder(token)).then_some(at..at + length)
}

/// `login NAME password WORD`, over lines or in one.
fn netrc(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let space = |b: u8| is_blank(b) || b == b'\n';
    let name = span(bytes, at, |b| b.is_ascii_graphic());
    let key = at + name + span(bytes, at + name, space);
    if !bytes.get(key..key + 8)?.eq_ignore_ascii_case(b"password") {
        return None;
    }
    let value = key + 8 + span(bytes, key + 8, space);
    let length = span(bytes, value, |b| b.is_ascii_graphic());
    let word = bytes.get(value..value + length)?;
    let machine = bytes.get(at.saturating_sub(300)..at)?;
    let machine =
        machine.windows(8).any(|text| text == b"machine ") || machine.ends_with(b"default login ");
    let parted = name > 0 && key > at + name && value > key + 8;
    (parted && machine && length >= 3 && !is_placeholder(word)).then_some(value..value + length)
}

/// Thirty-two hexadecimal digits, `-us` and the number of a data centre.
fn mailchimp(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let start = at.checked_sub(35)?;
    let hex = bytes.get(start..at - 3)?;
    let whole = hex.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        && !is_word(before(bytes, start));
    let centre = span(bytes, at, |b| b.is_ascii_digit());
    let ends = !is_word(byte(bytes, at + centre));
    (whole && (1..=2).contains(&centre) && ends && distinct(hex) >= 5).then_some(start..at + centre)
}

/// `v1.0-`, 24 hexadecimal digits, a dash and 146 more.
fn cloudflare(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let first = span(bytes, at, hex);
    let second = span(bytes, at + first + 1, hex);
    (first == 24 && byte(bytes, at + 24) == b'-' && second == 146)
        .then(|| at - 5..at + first + 1 + second)
}

/// The signature of a shared address: `&sig=` and base64, mostly with its `=` as `%3D`.
fn azure_signature(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = span(bytes, at, |b| is_base64(b) || b == b'%');
    let value = bytes.get(at..at + length)?;
    (length >= 40 && distinct(value) >= 8).then_some(at..at + length)
}

/// The line of a secret key after its comment.
fn minisign(bytes: &[u8], at: usize) -> Option<Range<usize>> {
    let length = span(bytes, at, is_base64);
    (length >= 60).then(|| at - 2..at + length)
}
