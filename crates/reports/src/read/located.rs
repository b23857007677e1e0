//! Lines that begin with a place: mypy, flake8, go vet, staticcheck, golangci-lint, tsc, compilers.

use std::io::BufRead;

use crate::findings::Findings;
use crate::lines::each_line;
use crate::place::Places;
use crate::report::{Diagnostic, LintFormat, LintReport, Severity};
use crate::text::{MAX_MESSAGE, clean};
use crate::unreadable::Unreadable;

/// Whatever begins further right than this is not a finding.
const MAX_HEAD: usize = 4096;

pub(super) fn read<R: BufRead + ?Sized>(
    tool: &str,
    reader: &mut R,
    places: &Places<'_>,
) -> Result<LintReport, Unreadable> {
    let mut findings = Findings::default();
    each_line(reader, |line| {
        let text = clean(line.text, MAX_HEAD + MAX_MESSAGE);
        // What is indented belongs to the line before it.
        let indented = line.text.starts_with([' ', '\t']);
        if !indented && let Some(found) = diagnostic(tool, &text, places) {
            findings.add(found);
        }
    })?;
    Ok(findings.done(LintFormat::Lines))
}

struct Head<'a> {
    file: &'a str,
    numbers: Vec<u32>,
    rest: &'a str,
}

fn diagnostic(tool: &str, line: &str, places: &Places<'_>) -> Option<Diagnostic> {
    let line = line.strip_prefix("vet: ").unwrap_or(line);
    let head = parenthesised(line).or_else(|| colons(line)).or_else(|| whole_file(line))?;
    let (severity, said) = severity(head.rest);
    let (rule, message) = rule(said);
    let number = |at: usize| head.numbers.get(at).copied();
    let file = places.relative(head.file);
    Some(Diagnostic {
        rule: rule.map(str::to_owned),
        file: (!head.file.is_empty()).then_some(file),
        line: number(0),
        column: number(1),
        end_line: number(2).filter(|_| head.numbers.len() == 4),
        end_column: number(3),
        ..Diagnostic::new(tool, severity, message)
    })
}

/// `file.ts(1,7): error TS2322: message`
fn parenthesised(line: &str) -> Option<Head<'_>> {
    let (before, rest) = line.split_once("): ")?;
    let (file, place) = before.rsplit_once('(')?;
    let numbers: Vec<u32> = place.split(',').map_while(|number| number.parse().ok()).collect();
    let complete = numbers.len() == place.split(',').count() && numbers.len() <= 4;
    (complete && is_file(file)).then_some(Head { file, numbers, rest })
}

/// `file:line: …`, `file:line:column: …`, and with the end of the range as mypy tells it.
fn colons(line: &str) -> Option<Head<'_>> {
    let near = line.get(..line.floor_char_boundary(MAX_HEAD)).unwrap_or(line);
    for (at, _) in near.match_indices(':') {
        let (file, rest) = line.split_at_checked(at)?;
        let (numbers, rest) = leading_numbers(rest);
        if !numbers.is_empty() && is_file(file) {
            return Some(Head { file, numbers, rest });
        }
    }
    None
}

/// Up to four numbers, each behind a colon, and what comes after them.
fn leading_numbers(mut rest: &str) -> (Vec<u32>, &str) {
    let mut numbers = Vec::new();
    while let Some(after) = rest.strip_prefix(':').filter(|_| numbers.len() < 4) {
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let Some((number, next)) = after.split_at_checked(end) else { break };
        let Ok(number) = number.parse() else { break };
        if !next.is_empty() && !next.starts_with([':', ' ']) {
            break;
        }
        numbers.push(number);
        rest = next;
    }
    (numbers, rest.strip_prefix(':').unwrap_or(rest))
}

/// `file.py: error: message` and `error TS18003: message`, which have no line.
fn whole_file(line: &str) -> Option<Head<'_>> {
    if line.starts_with("error TS") {
        return Some(Head { file: "", numbers: Vec::new(), rest: line });
    }
    let (file, rest) = line.split_once(": error: ")?;
    let rest_with_word = line.get(line.len() - rest.len() - "error: ".len()..)?;
    is_file(file).then_some(Head { file, numbers: Vec::new(), rest: rest_with_word })
}

fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    !path.contains("://")
        && !path.is_empty()
        && extension.is_some_and(|extension| {
            (1..=12).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
}

/// A tool that tells no severity reports what it would fail on.
fn severity(rest: &str) -> (Severity, &str) {
    let rest = rest.trim();
    let words = [
        ("fatal error", Severity::Error),
        ("error", Severity::Error),
        ("warning", Severity::Warning),
        ("note", Severity::Note),
        ("info", Severity::Note),
        ("help", Severity::Help),
    ];
    for (word, severity) in words {
        if let Some(said) = rest.strip_prefix(word)
            && said.starts_with([':', ' '])
        {
            return (severity, said.trim_start_matches(':').trim_start());
        }
    }
    (Severity::Error, rest)
}

/// A code in front, or a name in brackets behind.
fn rule(said: &str) -> (Option<&str>, &str) {
    let first = said.split([' ', ':']).next().unwrap_or_default();
    if is_code(first) {
        let message = said.get(first.len()..).unwrap_or_default();
        return (Some(first), message.trim_start_matches(':').trim_start());
    }
    for (open, close) in [("  [", ']'), (" (", ')'), (" [", ']')] {
        let Some(inner) = said.strip_suffix(close) else { continue };
        if let Some((message, name)) = inner.rsplit_once(open)
            && is_rule_name(name)
        {
            return (Some(name), message.trim_end());
        }
    }
    (None, said)
}

/// `E302`, `TS2322`, `SA4006`
fn is_code(word: &str) -> bool {
    let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
    let digits = word.bytes().skip(letters).filter(u8::is_ascii_digit).count();
    (1..=5).contains(&letters) && (2..=6).contains(&digits) && letters + digits == word.len()
}

fn is_rule_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/@.".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told<'a> = (&'a str, Vec<u32>, Severity, Option<&'a str>, &'a str);

    fn check(line: &str, (file, numbers, severity, rule, message): Told<'_>) {
        let report = read("tool", &mut line.as_bytes(), &Places::default()).unwrap();
        let found = &report.diagnostics[0];
        let told = [found.line, found.column, found.end_line, found.end_column];
        assert_eq!(found.file.as_deref().unwrap_or_default(), file, "{line}");
        assert_eq!(told.into_iter().flatten().collect::<Vec<_>>(), numbers, "{line}");
        assert_eq!((found.severity, found.rule.as_deref()), (severity, rule), "{line}");
        assert_eq!(found.message, message, "{line}");
    }

    #[test]
    fn lines_of_many_tools() {
        use Severity::{Error, Note, Warning};
        check(
            "a.py:2:10:2:12: error: Bad type (expected)  [assignment]",
            ("a.py", vec![2, 10, 2, 12], Error, Some("assignment"), "Bad type (expected)"),
        );
        check("a.py:2: note: See there", ("a.py", vec![2], Note, None, "See there"));
        check("./a.py:1:1: E302 two lines", ("a.py", vec![1, 1], Error, Some("E302"), "two lines"));
        check(
            "src/z.ts(1,7): error TS2322: Type 'a: b'.",
            ("src/z.ts", vec![1, 7], Error, Some("TS2322"), "Type 'a: b'."),
        );
        check("error TS18003: No inputs.", ("", vec![], Error, Some("TS18003"), "No inputs."));
        check(
            "vet: broken/s_test.go:3:28: undeclared name: x",
            ("broken/s_test.go", vec![3, 28], Error, None, "undeclared name: x"),
        );
        check(
            "/workspace/m/a.go:3:2: value never used (SA4006)",
            ("m/a.go", vec![3, 2], Error, Some("SA4006"), "value never used"),
        );
        check("x.c:1:2: warning: odd [-Wall]", ("x.c", vec![1, 2], Warning, Some("-Wall"), "odd"));
        check("a b.py: error: found twice", ("a b.py", vec![], Error, None, "found twice"));
    }

    #[test]
    fn prose_is_passed_over() {
        let text = "# example.com/m\nFound 1 error in 1 file\nat 12:30:45: done\n\
                    http://x.org:80: no\n    a.py:1: indented\n::::\n:1:2: x\n";
        let report = read("tool", &mut text.as_bytes(), &Places::default()).unwrap();
        assert_eq!(report.diagnostics, []);
    }
}
