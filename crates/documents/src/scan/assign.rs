//! Secrets that are only known by their name: `password=…`, `api_key: …`, `--token …`.

use std::sync::LazyLock;

use super::forms::is_published;
use super::matcher::{Finder, byte, distinct, is_blank, is_word, span, span_within};
use super::spans::Span;
use super::views::View;

/// What the name says about the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// Chosen by a person, so any word may be one.
    Password,
    /// Made by a machine, so it looks like nothing else.
    Random,
}

const NAMES: &[(&str, Sort)] = &[
    ("password", Sort::Password),
    ("passwd", Sort::Password),
    ("passphrase", Sort::Password),
    ("pwd", Sort::Password),
    ("pgpassword", Sort::Password),
    ("secret", Sort::Random),
    ("token", Sort::Random),
    ("apikey", Sort::Random),
    ("api_key", Sort::Random),
    ("api-key", Sort::Random),
    ("access_key", Sort::Random),
    ("access-key", Sort::Random),
    ("accesskey", Sort::Random),
    ("secret_key", Sort::Random),
    ("secret-key", Sort::Random),
    ("secretkey", Sort::Random),
    ("private_key", Sort::Random),
    ("private-key", Sort::Random),
    ("privatekey", Sort::Random),
    ("signing_key", Sort::Random),
    ("encryption_key", Sort::Random),
    ("auth_key", Sort::Random),
    ("account_key", Sort::Random),
    ("accountkey", Sort::Random),
    ("credential", Sort::Random),
    ("credentials", Sort::Random),
];

static FINDER: LazyLock<Finder> =
    LazyLock::new(|| Finder::any_case(NAMES.iter().map(|name| name.0)));

/// How often a bare value is looked at that begins inside of another: a text that is full of names
/// would cost its square, and is refused instead. Quotes may hold prose about tokens.
const MAX_IN_ONE_VALUE: u32 = 4;
/// Longer values are looked at as far as this.
const MAX_VALUE: usize = 4096;

pub(super) fn find(view: &View<'_>, found: &mut Vec<Span>) {
    let bytes = view.bytes();
    let (mut end, mut looks) = (0, 0_u32);
    FINDER.each(bytes, |hit| {
        let Some((name, sort)) = NAMES.get(hit.index) else { return };
        let rule = if *sort == Sort::Password { "password-value" } else { "secret-value" };
        looks = if hit.at < end { looks.saturating_add(1) } else { 0 };
        if looks >= MAX_IN_ONE_VALUE {
            let first = looks == MAX_IN_ONE_VALUE;
            return found.extend(first.then_some(Span { start: hit.at, end, rule }));
        }
        let Some(value) = value_of(bytes, hit.at, hit.at + name.len()) else { return };
        if !value.quoted {
            end = value.at + value.text.len();
        }
        if is_plausible(*sort, &value) {
            found.push(Span { start: value.at, end: value.at + value.text.len(), rule });
        }
    });
}

struct Value<'a> {
    text: &'a [u8],
    at: usize,
    quoted: bool,
    /// Written as code or configuration writes it, without a space before the value.
    tight: bool,
    /// Whether nothing but a delimiter follows on the line.
    alone: bool,
}

/// The value behind a name that ends here, if one is assigned to it.
fn value_of(bytes: &[u8], start: usize, end: usize) -> Option<Value<'_>> {
    // `key_id`, `passwords` and `tokenizer` are other words.
    if is_word(byte(bytes, end)) || is_token_of_text(bytes, start) {
        return None;
    }
    let flag = is_flag(bytes, start);
    let mut at = end + usize::from(matches!(byte(bytes, end), b'"' | b'\'' | b'`'));
    at += usize::from(byte(bytes, at) == b']');
    let blanks = span(bytes, at, is_blank);
    let sign = at + blanks;
    let length = match (byte(bytes, sign), byte(bytes, sign + 1)) {
        (b':', b'=') | (b'=', b'>') => 2,
        (b'=', b'=') => 0,
        (b'=' | b':', _) => 1,
        _ => 0,
    };
    let space = span(bytes, sign + length, is_blank);
    if length == 0 && !(flag && blanks > 0) {
        return None;
    }
    let tight = length == 1 && byte(bytes, sign) == b'=' && space == 0;
    read_value(bytes, sign + length + if length == 0 { 0 } else { space }, tight || flag)
}

/// Marks of a text for a model, and the places of a list: tokens that open nothing.
fn is_token_of_text(bytes: &[u8], start: usize) -> bool {
    let lead = bytes.get(start.saturating_sub(13)..start).unwrap_or_default().to_ascii_lowercase();
    let innocent: [&[u8]; 12] = [
        b"page_",
        b"next_",
        b"pagetoken",
        b"nextpage",
        b"page",
        b"continuation_",
        b"continuation",
        b"sync_",
        b"pad_",
        b"eos_",
        b"bos_",
        b"cancellation_",
    ];
    innocent.iter().any(|end| lead.ends_with(end))
}

/// `--password`, `--db-password`.
fn is_flag(bytes: &[u8], start: usize) -> bool {
    let head = bytes.get(..start).unwrap_or_default();
    let name =
        head.iter().rev().take(64).take_while(|b| b.is_ascii_alphanumeric() || **b == b'-').count();
    name >= 2 && head.get(start - name..).is_some_and(|lead| lead.starts_with(b"--"))
}

fn read_value(bytes: &[u8], at: usize, tight: bool) -> Option<Value<'_>> {
    let quote = byte(bytes, at);
    if matches!(quote, b'"' | b'\'' | b'`') {
        let length = span_within(bytes, at + 1, MAX_VALUE, |b| b != quote && b != b'\n');
        let text = bytes.get(at + 1..at + 1 + length)?;
        let closed = byte(bytes, at + 1 + length) == quote;
        return closed.then_some(Value { text, at: at + 1, quoted: true, tight, alone: true });
    }
    let length = span_within(bytes, at, MAX_VALUE, |b| {
        b.is_ascii_graphic() && !matches!(b, b';' | b',' | b'&' | b'"' | b'\'')
    });
    let text = bytes.get(at..at + length)?;
    let next = at + length + span(bytes, at + length, is_blank);
    let alone = matches!(byte(bytes, next), 0 | b'\n' | b';' | b',' | b'&' | b'"' | b'\'' | b'#');
    Some(Value { text, at, quoted: false, tight, alone })
}

fn is_plausible(sort: Sort, value: &Value<'_>) -> bool {
    if is_placeholder(value.text) || is_reference(value.text) || is_published(value.text) {
        return false;
    }
    match sort {
        Sort::Password => is_password(value),
        Sort::Random => is_random(value.text),
    }
}

/// A word in quotes, or one that stands where code or configuration puts a value and has more than
/// letters of one case in it. Prose goes on after the word, or is nothing but letters.
fn is_password(value: &Value<'_>) -> bool {
    let text = value.text;
    let spaces = text.contains(&b' ');
    let digit = text.iter().any(u8::is_ascii_digit);
    let sign = text.iter().any(|b| b.is_ascii_punctuation() && !matches!(b, b'.' | b'-' | b'_'));
    let cases = text.iter().any(u8::is_ascii_uppercase) && text.iter().any(u8::is_ascii_lowercase);
    let strong = digit || sign || (cases && text.len() >= 8);
    match (value.quoted, value.alone || value.tight) {
        (true, _) => !spaces && text.len() >= 6,
        (false, true) => strong && text.len() >= 6,
        (false, false) => digit && sign && text.len() >= 8,
    }
}

/// Long, with letters and digits, and no words or paths in it.
fn is_random(text: &[u8]) -> bool {
    let body = text
        .iter()
        .all(|b| is_word(*b) || matches!(b, b'+' | b'/' | b'=' | b'-' | b'.' | b'~' | b'!'));
    let digits = text.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = text.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let slashes = text.iter().filter(|b| **b == b'/').count();
    body && text.len() >= 16
        && digits >= 2
        && letters >= 2
        && distinct(text) >= 8
        && slashes * 8 <= text.len()
        && !is_wordy(text)
}

/// Whether most of it is words: runs of four and more lower-case letters with a vowel.
fn is_wordy(text: &[u8]) -> bool {
    let vowel = |run: &[u8]| run.iter().any(|b| matches!(b, b'a' | b'e' | b'i' | b'o' | b'u'));
    let runs = text.split(|b| !b.is_ascii_lowercase());
    let words: usize = runs.filter(|run| run.len() >= 4 && vowel(run)).map(<[u8]>::len).sum();
    words * 2 > text.len()
}

/// A place where a secret would stand: stars, `<…>`, a word that says so and nothing else.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    const WORDS: [&str; 30] = [
        "redacted",
        "hidden",
        "masked",
        "removed",
        "secret",
        "password",
        "passwd",
        "token",
        "string",
        "required",
        "optional",
        "none",
        "null",
        "nil",
        "undefined",
        "true",
        "false",
        "unset",
        "empty",
        "missing",
        "invalid",
        "expired",
        "omitted",
        "withheld",
        "example",
        "placeholder",
        "prompt",
        "unknown",
        "default",
        "changed",
    ];
    let inner = text.trim_ascii();
    let stripped = inner.strip_prefix(b"[").and_then(|t| t.strip_suffix(b"]")).unwrap_or(inner);
    let marked = matches!(inner.first(), Some(b'<' | b'$' | b'{' | b'%' | b'@' | b'('))
        || inner.starts_with(b"...");
    inner.is_empty()
        || marked
        || distinct(&inner.to_ascii_lowercase()) <= 2
        || WORDS.iter().any(|word| stripped.eq_ignore_ascii_case(word.as_bytes()))
}

/// Something that leads to a secret: a path, a call, a field of an object.
fn is_reference(text: &[u8]) -> bool {
    let path = matches!(text.first(), Some(b'/' | b'.' | b'~' | b'\\'))
        || text.windows(3).any(|t| t == b"://");
    let call = text.iter().any(|b| matches!(b, b'(' | b'['));
    let lead: [&[u8]; 6] = [b"env.", b"os.", b"process.", b"self.", b"config.", b"secrets."];
    path || call
        || lead.iter().any(|lead| text.starts_with(lead))
        || text.windows(2).any(|t| t == b"${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_name_keeps_its_end() {
        assert!(is_token_of_text(b"next_page_token", 10));
        assert!(!is_token_of_text(b"auth_token", 5));
        assert!(is_flag(b"--db-password x", 5) && !is_flag(b"-password x", 1));
    }
}
