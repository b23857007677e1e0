//! One value: plain or in double quotes, with an optional comment behind it.

use crate::code::Code;
use crate::reason::Findings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalar {
    pub text: String,
    pub quoted: bool,
    /// Where the value begins, its quote included.
    pub at: usize,
    /// Where it ends, its quote included.
    pub end: usize,
}

/// What YAML takes a value for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A whole number in decimal, written in the one usual way.
    Integer,
    /// A number with a decimal point, written in the one usual way.
    Decimal,
    /// A number in another notation, a truth value, a null: nothing that a schema here uses.
    Other,
}

impl Scalar {
    pub fn kind(&self) -> Kind {
        if self.quoted { Kind::Text } else { kind_of_plain(&self.text) }
    }
}

/// Reads what follows a colon or a dash up to the end of the line. `None` without a finding means
/// that there is nothing but blanks and perhaps a comment.
pub(super) fn read(rest: &str, at: usize, findings: &mut Findings) -> Option<Scalar> {
    let value = rest.trim_start_matches(' ');
    let at = at + (rest.len() - value.len());
    match value.chars().next() {
        None => None,
        // A comment needs a blank before it; the colon or dash is always followed by one here.
        Some('#') => None,
        Some('"') => quoted(value, at, findings),
        Some(_) => plain(value, at, findings),
    }
}

fn quoted(value: &str, at: usize, findings: &mut Findings) -> Option<Scalar> {
    let mut text = String::new();
    let mut chars = value.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => {
                let end = index + 1;
                after_quote(value.get(end..).unwrap_or_default(), at + end, findings);
                return Some(Scalar { text, quoted: true, at, end: at + end });
            }
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => text.push(c),
                _ => {
                    let fix = "write the character itself; only \\\" and \\\\ are read";
                    let message = "an escape that is not read here";
                    findings.add_fix(Code::FrontMatterSyntax, at + index, message, fix);
                    return None;
                }
            },
            _ => text.push(c),
        }
    }
    let fix = "end the value with a double quote in the same line";
    findings.add_fix(Code::FrontMatterSyntax, at, "a double quote is never closed", fix);
    None
}

fn after_quote(rest: &str, at: usize, findings: &mut Findings) {
    let comment = rest.trim_start_matches(' ');
    let separated = comment.len() < rest.len();
    let is_comment = separated && comment.starts_with('#');
    if !comment.is_empty() && !is_comment {
        let fix = "end the value with its quote; inner quotes are written \\\"";
        findings.add_fix(Code::FrontMatterSyntax, at, "text after the closing quote", fix);
    }
}

fn plain(value: &str, at: usize, findings: &mut Findings) -> Option<Scalar> {
    let text = without_comment(value);
    if let Some((code, message)) = complaint(text) {
        findings.add(code, at, message);
        return None;
    }
    Some(Scalar { text: text.to_owned(), quoted: false, at, end: at + text.len() })
}

/// A comment begins with a `#` behind a blank.
pub(super) fn without_comment(value: &str) -> &str {
    let end = value.find(" #").unwrap_or(value.len());
    value.get(..end).unwrap_or_default().trim_end_matches(' ')
}

fn complaint(text: &str) -> Option<(Code, &'static str)> {
    let feature = |message| Some((Code::YamlFeature, message));
    let syntax = |message| Some((Code::FrontMatterSyntax, message));
    match text.chars().next()? {
        '&' => feature("an anchor"),
        '*' => feature("an alias; put the text in double quotes if that is what it is"),
        '!' => feature("a tag"),
        '|' | '>' => feature("a block of text; write it in one line, in double quotes"),
        '[' => feature("a list in brackets; write its items below, each behind a dash"),
        '{' => feature("a map in braces"),
        '\'' => feature("single quotes; use double quotes"),
        '-' | '?' | ':' | ',' | ']' | '}' | '%' | '@' | '`' => {
            syntax("text that begins like this needs double quotes")
        }
        _ if text.contains(": ") || text.ends_with(':') => {
            syntax("text with a colon like this needs double quotes")
        }
        _ => None,
    }
}

/// What either YAML 1.1 or 1.2 would not leave a text counts as no text: readers differ there.
fn kind_of_plain(text: &str) -> Kind {
    if is_integer(text) {
        Kind::Integer
    } else if is_decimal(text) {
        Kind::Decimal
    } else if is_word(text) || is_numeric(text) {
        Kind::Other
    } else {
        Kind::Text
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits && !text.is_empty() && (text == "0" || !text.starts_with('0'))
}

fn is_decimal(text: &str) -> bool {
    text.split_once('.').is_some_and(|(whole, part)| {
        is_integer(whole) && !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_word(text: &str) -> bool {
    const WORDS: [&str; 11] =
        ["~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "<<"];
    WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Everything that any notation of numbers could mean: signs, exponents, bases, underscores,
/// sexagesimals, infinities. A little wider than YAML, because quoting costs the author nothing.
fn is_numeric(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    let based = ["0x", "0o", "0b"].iter().any(|base| lower.starts_with(base));
    let number = |c: char| c.is_ascii_digit() || matches!(c, '_' | '.' | 'e' | ':' | '+' | '-');
    let begins = lower.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let digits = lower.bytes().any(|byte| byte.is_ascii_digit());
    matches!(lower.as_str(), ".inf" | ".nan")
        || (based && lower.bytes().skip(2).all(|b| b.is_ascii_hexdigit() || b == b'_'))
        || (begins && digits && lower.chars().all(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rest: &str) -> Result<Option<(String, bool)>, Code> {
        let mut findings = Findings::new();
        let scalar = read(rest, 0, &mut findings);
        let source = crate::text::Source::of(rest);
        match findings.into_reasons(&source).first() {
            Some(reason) => Err(reason.code),
            None => Ok(scalar.map(|scalar| (scalar.text, scalar.quoted))),
        }
    }

    #[test]
    fn values_end_where_yaml_ends_them() {
        let some = |text: &str, quoted| Ok(Some((text.to_owned(), quoted)));
        assert_eq!(check(" a b"), some("a b", false));
        assert_eq!(check(" a#b # c"), some("a#b", false));
        assert_eq!(check(" a:b "), some("a:b", false));
        assert_eq!(check(" it's \"so\""), some("it's \"so\"", false));
        assert_eq!(check(" \"a # b\"  # c"), some("a # b", true));
        assert_eq!(check(" \"a \\\"b\\\" \\\\\""), some("a \"b\" \\", true));
        assert_eq!(check(" \"\""), some("", true));
        assert_eq!(check("  # only a comment"), Ok(None));
        assert_eq!(check(""), Ok(None));
    }

    #[test]
    fn the_rest_of_yaml_is_refused() {
        for feature in ["&a x", "*a", "!!str x", "|", "> x", "[a]", "{a: b}", "'x'", "[ ]"] {
            assert_eq!(check(feature), Err(Code::YamlFeature), "{feature}");
        }
        for broken in ["\"x", "\"x\" y", "\"x\"# y", "\"\\n\"", "a: b", "a:", "- a", "@a", "%a"] {
            assert_eq!(check(broken), Err(Code::FrontMatterSyntax), "{broken}");
        }
    }

    #[test]
    fn plain_values_have_the_type_that_yaml_gives_them() {
        for (text, kind) in [
            ("1", Kind::Integer),
            ("0", Kind::Integer),
            ("1024", Kind::Integer),
            ("3.4", Kind::Decimal),
            ("0.0", Kind::Decimal),
            ("python", Kind::Text),
            ("2026-02-09T16:05:01Z", Kind::Text),
            ("1a", Kind::Text),
            ("input.csv", Kind::Text),
            ("3e", Kind::Other),
            ("12e5", Kind::Other),
            ("01", Kind::Other),
            ("+1", Kind::Other),
            ("0x1f", Kind::Other),
            ("1_024", Kind::Other),
            ("1:30", Kind::Other),
            ("1.", Kind::Other),
            (".5", Kind::Other),
            ("~", Kind::Other),
            ("Null", Kind::Other),
            ("yes", Kind::Other),
            (".inf", Kind::Other),
            ("2026-02-09", Kind::Other),
        ] {
            assert_eq!(kind_of_plain(text), kind, "{text}");
        }
    }
}
