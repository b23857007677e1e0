//! Reasons against a document: collected, never only the first, and bounded.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::code::Code;
use crate::text::Source;

/// One thing that is wrong, where it is, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reason {
    pub code: Code,
    /// In characters, from 1.
    pub column: u32,
    pub fix: String,
    /// From 1.
    pub line: u32,
    pub message: String,
}

/// What was found so far.
///
/// A hostile document can be wrong in every byte, so only so many reasons are kept; a rule that
/// fires everywhere does not drown the others.
#[derive(Debug, Default)]
pub struct Findings {
    found: Vec<Found>,
    of_code: BTreeMap<Code, usize>,
    dropped: usize,
}

#[derive(Debug)]
struct Found {
    code: Code,
    /// In bytes.
    at: usize,
    /// What the document says there, if the message begins with it.
    quoted: Option<String>,
    message: String,
    fix: Option<String>,
}

impl Findings {
    pub const MAX: usize = 200;
    const MAX_OF_ONE_CODE: usize = 50;

    pub fn new() -> Findings {
        Findings::default()
    }

    /// Notes that something is wrong at an offset in bytes.
    pub fn add(&mut self, code: Code, at: usize, message: impl fmt::Display) {
        self.keep(code, at, None, &message, None);
    }

    /// The same with a way out that fits the case better than the general one.
    pub fn add_fix(
        &mut self,
        code: Code,
        at: usize,
        message: impl fmt::Display,
        fix: impl fmt::Display,
    ) {
        self.keep(code, at, None, &message, Some(&fix));
    }

    /// A message that begins with what the document says: "`bash` is not a language". The words of
    /// the document are left out when it turns out to hold a secret.
    pub fn quote(&mut self, code: Code, at: usize, quoted: &str, message: impl fmt::Display) {
        self.keep(code, at, Some(quoted), &message, None);
    }

    pub fn quote_fix(
        &mut self,
        code: Code,
        at: usize,
        quoted: &str,
        message: impl fmt::Display,
        fix: impl fmt::Display,
    ) {
        self.keep(code, at, Some(quoted), &message, Some(&fix));
    }

    /// Formats nothing that would not be kept.
    fn keep(
        &mut self,
        code: Code,
        at: usize,
        quoted: Option<&str>,
        message: &dyn fmt::Display,
        fix: Option<&dyn fmt::Display>,
    ) {
        let count = self.of_code.entry(code).or_default();
        if *count >= Self::MAX_OF_ONE_CODE || self.found.len() >= Self::MAX {
            self.dropped += 1;
            return;
        }
        *count += 1;
        self.found.push(Found {
            code,
            at,
            quoted: quoted.map(shown),
            message: message.to_string(),
            fix: fix.map(|fix| fix.to_string()),
        });
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many things were found so far, those among them that are not kept.
    pub fn total(&self) -> usize {
        self.found.len() + self.dropped
    }

    pub fn has(&self, code: Code) -> bool {
        self.of_code.contains_key(&code)
    }

    /// Whether this was said already of a stretch of the document.
    pub fn has_between(&self, code: Code, from: usize, to: usize) -> bool {
        let within = |found: &Found| found.code == code && (from..=to).contains(&found.at);
        self.has(code) && self.found.iter().any(within)
    }

    /// The reasons in the order of their places, for a document that could be read as text.
    pub fn into_reasons(self, source: &Source<'_>) -> Vec<Reason> {
        let end = source.text().len();
        self.reasons(|at| source.place(at), end)
    }

    /// The reasons against bytes that are no text: every place is the beginning.
    pub fn into_reasons_without_text(self) -> Vec<Reason> {
        self.reasons(|_| (1, 1), 0)
    }

    fn reasons(mut self, place: impl Fn(usize) -> (u32, u32), end: usize) -> Vec<Reason> {
        if self.dropped > 0 {
            self.of_code.clear();
            self.found.truncate(Self::MAX - 1);
            self.add(Code::TooManyReasons, end, "more is wrong than is listed here");
        }
        // Two things can be missing at one place; only what is said twice goes.
        self.found.sort_by(|one, other| one.key().cmp(&other.key()));
        self.found.dedup_by(|one, other| one.key() == other.key());
        let secret = self.found.iter().any(|found| found.code == Code::Secret);
        self.found.into_iter().map(|found| found.into_reason(secret, &place)).collect()
    }
}

impl Found {
    fn key(&self) -> (usize, Code, Option<&str>, &str) {
        (self.at, self.code, self.quoted.as_deref(), &self.message)
    }

    fn into_reason(self, secret: bool, place: impl Fn(usize) -> (u32, u32)) -> Reason {
        let (line, column) = place(self.at);
        let message = match self.quoted {
            None => self.message,
            Some(_) if secret => format!("this {}", self.message),
            Some(quoted) => format!("`{quoted}` {}", self.message),
        };
        let fix = self.fix.unwrap_or_else(|| self.code.fix().to_owned());
        Reason { code: self.code, column, fix, line, message }
    }
}

/// A stranger's text, short and harmless enough to stand in a message.
pub fn shown(text: &str) -> String {
    const MAX_CHARS: usize = 48;
    let mut shown = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(MAX_CHARS) {
        match c {
            '`' => shown.push('\''),
            ' '..='~' => shown.push(c),
            _ => shown.extend(c.escape_unicode()),
        }
    }
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(findings: Findings, text: &str) -> Vec<Reason> {
        findings.into_reasons(&Source::of(text))
    }

    #[test]
    fn reasons_stand_in_the_order_of_their_places() {
        let mut findings = Findings::new();
        findings.add(Code::UnknownKey, 5, "b");
        findings.add(Code::MissingKey, 2, "a");
        let places: Vec<_> =
            reasons(findings, "a\nbé\nc").iter().map(|r| (r.code, r.line, r.column)).collect();
        assert_eq!(places, [(Code::MissingKey, 2, 1), (Code::UnknownKey, 2, 3)]);
    }

    #[test]
    fn two_things_can_be_missing_at_one_place() {
        let mut findings = Findings::new();
        for message in ["b", "a", "b"] {
            findings.add(Code::MissingKey, 0, message);
        }
        let said: Vec<_> = reasons(findings, "x").into_iter().map(|r| r.message).collect();
        assert_eq!(said, ["a", "b"]);
    }

    #[test]
    fn one_code_cannot_drown_the_others() {
        let mut findings = Findings::new();
        for at in 0..1000 {
            findings.add(Code::ControlCharacter, at, "x");
        }
        findings.add(Code::MissingKey, 7, "y");
        let reasons = reasons(findings, &"x".repeat(1000));
        assert_eq!(reasons.len(), Findings::MAX_OF_ONE_CODE + 2);
        assert_eq!(reasons.last().map(|reason| reason.code), Some(Code::TooManyReasons));
        assert!(reasons.iter().any(|reason| reason.code == Code::MissingKey));
    }

    #[test]
    fn what_the_document_says_is_left_out_beside_a_secret() {
        let mut findings = Findings::new();
        findings.quote(Code::UnknownKey, 0, "hunter2", "is no key");
        assert_eq!(reasons(findings, "x")[0].message, "`hunter2` is no key");
        let mut findings = Findings::new();
        findings.quote(Code::UnknownKey, 0, "hunter2", "is no key");
        findings.add(Code::Secret, 0, "looks like a secret");
        assert!(reasons(findings, "x").iter().all(|reason| !reason.message.contains("hunter2")));
    }

    #[test]
    fn quoted_text_is_short_and_harmless() {
        assert_eq!(shown("a`b\u{202e}"), "a'b\\u{202e}");
        assert_eq!(shown(&"x".repeat(100)).len(), 51);
    }
}
