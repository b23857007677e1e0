//! Secrets taken out of a text.

use std::borrow::Cow;
use std::ops::Range;

use countersign_documents::is_unseen;
use countersign_documents::scan::{Known, Span, secret_spans};

/// A text in which no secret is found any more, and where those stood that were.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clean {
    pub(crate) text: String,
    /// Line and kind.
    pub(crate) redactions: Vec<(u64, &'static str)>,
}

/// What stands too close to others of its kind is only found when they are gone. A text that still
/// has secrets after so many rounds is not worth the risk.
const ROUNDS: usize = 4;

/// Puts `[redacted: kind]` in the place of every secret. Lines keep their numbers. Nothing, if the
/// text cannot be made clean.
pub(crate) fn redact(mut text: String) -> Option<Clean> {
    let mut redactions = Vec::new();
    let mut marks: Vec<Range<usize>> = Vec::new();
    for _ in 0..=ROUNDS {
        let spans = secrets(&text, &marks);
        if spans.is_empty() {
            redactions.sort_unstable();
            return Some(Clean { text, redactions });
        }
        redactions.extend(lines_of(&text, &spans));
        (text, marks) = replace(&text, &spans, &marks);
    }
    None
}

/// Every stretch that holds secrets, apart from our own marks.
fn secrets(text: &str, marks: &[Range<usize>]) -> Vec<Span> {
    let mut merged: Vec<Span> = Vec::new();
    for span in secret_spans(text, &Known::default()) {
        match merged.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            _ if span.start < span.end && !is_in(&span, marks) => merged.push(span),
            _ => {}
        }
    }
    merged
}

/// Whether a span lies inside of one of the marks, which are in order.
fn is_in(span: &Span, marks: &[Range<usize>]) -> bool {
    let after = marks.partition_point(|mark| mark.start <= span.start);
    let mark = after.checked_sub(1).and_then(|index| marks.get(index));
    mark.is_some_and(|mark| span.end <= mark.end)
}

/// The line of each span, counted in one pass.
fn lines_of(text: &str, spans: &[Span]) -> Vec<(u64, &'static str)> {
    let (mut at, mut line) = (0, 1);
    let mut lines = Vec::with_capacity(spans.len());
    for span in spans {
        line += breaks(text, at..span.start) as u64;
        at = span.start;
        lines.push((line, span.rule));
    }
    lines
}

fn breaks(text: &str, stretch: Range<usize>) -> usize {
    text.get(stretch).unwrap_or_default().bytes().filter(|byte| *byte == b'\n').count()
}

/// The new text, and where marks stand in it, in order.
fn replace(text: &str, spans: &[Span], marks: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let mut new =
        New { text, marks, out: String::with_capacity(text.len()), new_marks: Vec::new() };
    let mut kept = 0;
    for span in spans {
        new.keep(kept..span.start);
        let start = new.out.len();
        new.out.push_str(&format!("[redacted: {}]", span.rule));
        new.new_marks.push(start..new.out.len());
        new.out.extend(std::iter::repeat_n('\n', breaks(text, span.start..span.end)));
        kept = span.end;
    }
    new.keep(kept..text.len());
    (new.out, new.new_marks)
}

struct New<'a> {
    text: &'a str,
    /// Those of the old text that are not behind yet.
    marks: &'a [Range<usize>],
    out: String,
    new_marks: Vec<Range<usize>>,
}

impl New<'_> {
    /// Appends a stretch of the old text with the marks that stand in it.
    fn keep(&mut self, stretch: Range<usize>) {
        let at = self.out.len();
        while let Some((mark, rest)) = self.marks.split_first() {
            if mark.start >= stretch.end {
                break;
            }
            if mark.start >= stretch.start && mark.end <= stretch.end {
                let moved = |place: usize| at + place - stretch.start;
                self.new_marks.push(moved(mark.start)..moved(mark.end));
            }
            self.marks = rest;
        }
        self.out.push_str(self.text.get(stretch).unwrap_or_default());
    }
}

/// A name in one line, with nothing in it that cannot be seen.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    let hidden = |c: char| c.is_control() || is_unseen(c);
    if !text.contains(hidden) {
        return Cow::Borrowed(text);
    }
    let spell = |c: char| if hidden(c) { c.escape_unicode().to_string() } else { c.to_string() };
    Cow::Owned(text.chars().map(spell).collect())
}

/// The same without secrets.
pub(crate) fn shown(text: &str) -> Clean {
    let withheld = || Clean { text: "[redacted]".to_owned(), redactions: vec![(1, "name")] };
    redact(visible(text).into_owned()).unwrap_or_else(withheld)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assembled, so that the form does not stand here.
    fn token() -> String {
        format!("ghp_{}", "Fake0Key1".repeat(4))
    }

    fn clean(text: &str) -> (String, Vec<(u64, &'static str)>) {
        let clean = redact(text.to_owned()).unwrap();
        (clean.text, clean.redactions)
    }

    #[test]
    fn values_go_and_lines_stay() {
        let text = format!("one\nexport T={}\r\nthree\n", token());
        let expected = "one\nexport T=[redacted: github-token]\r\nthree\n";
        assert_eq!(clean(&text), (expected.to_owned(), vec![(2, "github-token")]));
        let key = format!(
            "a\n-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nb\n",
            "Fake0Key1".repeat(8)
        );
        let (text, redactions) = clean(&key);
        assert_eq!(text, "a\n[redacted: private-key]\n\n\nb\n");
        assert_eq!(redactions, [(2, "private-key")]);
    }

    #[test]
    fn a_clean_text_is_the_same_text() {
        let text = "let password = prompt(\"password: \");\n";
        assert_eq!(clean(text), (text.to_owned(), vec![]));
    }

    #[test]
    fn marks_are_not_secrets_of_their_own() {
        let text = "machine example.org login ada password lovelace99\npassword: 'opensesame1'\n";
        let (once, found) = clean(text);
        assert!(!once.contains("lovelace99") && !once.contains("opensesame1"), "{once}");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn secrets_that_crowd_are_all_taken_out() {
        let crowd = "password=s3same!".repeat(40);
        let text = redact(crowd).map(|clean| clean.text).unwrap_or_default();
        assert!(!text.contains("s3same"), "{text}");
        let (text, found) = clean(&format!("{} ", token()).repeat(20));
        assert!(!text.contains("Fake0") && found.len() == 20, "{text}");
    }

    #[test]
    fn names_are_shown_in_one_line() {
        assert_eq!(shown("a\nb\u{202e}c").text, "a\\u{a}b\\u{202e}c");
        assert_eq!(shown(&format!("dir/{}", token())).text, "dir/[redacted: github-token]");
        assert_eq!(shown("größe/日本.md").text, "größe/日本.md");
    }
}
