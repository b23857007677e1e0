//! A line to words.
//!
//! Bare words of harmless characters; single quotes around anything printable; double quotes around
//! anything printable that no shell would touch. A second splitter reads every line that passes,
//! and must come to the same words.

use crate::code::Code;
use crate::reason::Findings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) at: usize,
    /// Some of it stood in quotes.
    pub(super) quoted: bool,
}

/// The words, or when the line is not of this grammar, what the words would be without the parts
/// that are in the way. Why is among the findings.
pub(super) fn split(
    line: &str,
    at: usize,
    findings: &mut Findings,
) -> Result<Vec<Word>, Vec<Word>> {
    let mut splitter =
        Splitter { rest: line, at, words: Vec::new(), word: None, failed: false, findings };
    while splitter.step() {}
    splitter.end_word();
    let Splitter { words, failed, .. } = splitter;
    if failed {
        return Err(words);
    }
    let texts = || words.iter().map(|word| word.text.as_str());
    let agrees =
        shlex::split(line).is_some_and(|theirs| texts().eq(theirs.iter().map(String::as_str)));
    if !agrees {
        let message = "two readers of the command come to different words";
        findings.add(Code::CommandSyntax, at, message);
        return Err(words);
    }
    Ok(words)
}

struct Splitter<'l, 'f> {
    rest: &'l str,
    at: usize,
    words: Vec<Word>,
    word: Option<Word>,
    failed: bool,
    findings: &'f mut Findings,
}

impl Splitter<'_, '_> {
    /// Takes the next character or quoted part; false at the end.
    fn step(&mut self) -> bool {
        let Some(c) = self.rest.chars().next() else { return false };
        match c {
            ' ' => {
                self.end_word();
                self.skip(1);
            }
            '\'' => self.quoted('\''),
            '"' => self.quoted('"'),
            _ if is_bare(c) => {
                self.word().text.push(c);
                self.skip(1);
            }
            '#' if self.word.is_none() => {
                self.fail(Code::CommandComment, "a comment begins here");
                return false;
            }
            _ => self.operator(c),
        }
        true
    }

    fn word(&mut self) -> &mut Word {
        let at = self.at;
        self.word.get_or_insert_with(|| Word { text: String::new(), at, quoted: false })
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
        self.at += bytes;
    }

    fn fail(&mut self, code: Code, message: &str) {
        self.failed = true;
        self.findings.add(code, self.at, message);
    }

    fn quoted(&mut self, quote: char) {
        self.word().quoted = true;
        let Some((inside, _)) = self.rest.get(1..).and_then(|rest| rest.split_once(quote)) else {
            self.fail(Code::CommandSyntax, "a quote is never closed");
            return self.skip(self.rest.len());
        };
        let begin = self.at;
        for (offset, c) in inside.char_indices() {
            let after = inside.get(offset + c.len_utf8()..).unwrap_or_default();
            if let Some((code, message)) = in_quotes(quote, c, after) {
                self.failed = true;
                self.findings.add(code, begin + 1 + offset, message);
            }
        }
        self.word().text.push_str(inside);
        self.skip(inside.len() + 2);
    }

    fn operator(&mut self, c: char) {
        let (code, message, bytes) = operator(c, self.rest);
        self.fail(code, message);
        // What was in the way separates words, as it would in a shell.
        self.end_word();
        self.skip(bytes);
    }
}

fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c)
}

fn in_quotes(quote: char, c: char, after: &str) -> Option<(Code, &'static str)> {
    match c {
        ' '..='~' if quote == '\'' => None,
        '$' if after.starts_with('(') => {
            Some((Code::CommandSubstitution, "a substitution in double quotes"))
        }
        '$' => Some((Code::CommandVariable, "a variable in double quotes")),
        '`' => Some((Code::CommandSubstitution, "a substitution in double quotes")),
        '\\' | '!' => Some((Code::CommandSyntax, "a character that needs single quotes")),
        ' '..='~' => None,
        _ => Some((Code::CommandSyntax, "only printable ASCII stands in a command")),
    }
}

/// What an unquoted character is to a shell, and how many bytes of it there are.
fn operator(c: char, rest: &str) -> (Code, &'static str, usize) {
    let next = |text: &str| rest.starts_with(text);
    match c {
        '&' if next("&&") => (Code::CommandChaining, "`&&` chains commands", 2),
        '&' if next("&>") => (Code::CommandRedirection, "`&>` redirects output", 2),
        '&' => (Code::CommandBackground, "`&` sends a command to the background", 1),
        '|' if next("||") => (Code::CommandChaining, "`||` chains commands", 2),
        '|' => (Code::CommandPipe, "`|` makes a pipeline", 1),
        ';' => (Code::CommandChaining, "`;` chains commands", 1),
        '<' | '>' if next("<(") || next(">(") => {
            (Code::CommandSubstitution, "a process inside of the command", 2)
        }
        '<' if next("<<") => (Code::CommandRedirection, "`<<` begins a heredoc", 2),
        '<' => (Code::CommandRedirection, "`<` redirects input", 1),
        '>' => (Code::CommandRedirection, "`>` redirects output", run(rest, '>')),
        '$' if next("$(") => (Code::CommandSubstitution, "a command inside of the command", 2),
        '$' => (Code::CommandVariable, "a variable", 1),
        '`' => (Code::CommandSubstitution, "a command inside of the command", 1),
        '*' | '?' | '[' | ']' => (Code::CommandGlob, "a pattern for file names", run(rest, c)),
        '{' | '}' => (Code::CommandGlob, "braces that a shell would expand", 1),
        '~' => (Code::CommandGlob, "a home directory", 1),
        '(' | ')' => (Code::CommandSyntax, "a parenthesis without quotes", 1),
        '\\' => (Code::CommandSyntax, "a backslash without single quotes", 1),
        ' '..='~' => (Code::CommandSyntax, "a character that needs quotes", 1),
        _ => (Code::CommandSyntax, "only printable ASCII stands in a command", c.len_utf8()),
    }
}

fn run(text: &str, c: char) -> usize {
    text.len() - text.trim_start_matches(c).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Source;

    fn check(line: &str) -> Result<Vec<String>, Vec<Code>> {
        let mut findings = Findings::new();
        match split(line, 0, &mut findings) {
            Ok(words) => {
                assert!(findings.is_empty(), "{line}");
                Ok(words.into_iter().map(|word| word.text).collect())
            }
            Err(_) => {
                let reasons = findings.into_reasons(&Source::of(line));
                Err(reasons.into_iter().map(|reason| reason.code).collect())
            }
        }
    }

    #[test]
    fn quoted_operators_are_data() {
        for (line, words) in [
            ("python a.py --sep \"|\"", vec!["python", "a.py", "--sep", "|"]),
            (
                "python a.py --sep=';' '$HOME' '`id`'",
                vec!["python", "a.py", "--sep=;", "$HOME", "`id`"],
            ),
            ("a ''  \"\" b", vec!["a", "", "", "b"]),
            ("a 'x'\"y\"z", vec!["a", "xyz"]),
            ("a \"it's\" 'say \"hi\"'", vec!["a", "it's", "say \"hi\""]),
            ("a '\\d+' \"a && b > c\" '# x'", vec!["a", "\\d+", "a && b > c", "# x"]),
        ] {
            assert_eq!(check(line), Ok(words.into_iter().map(str::to_owned).collect()), "{line}");
        }
    }

    #[test]
    fn everything_a_shell_would_act_on_is_named() {
        use Code::*;
        for (line, codes) in [
            ("a && b", vec![CommandChaining]),
            ("a || b", vec![CommandChaining]),
            ("a; b", vec![CommandChaining]),
            ("a;b|c>d", vec![CommandChaining, CommandPipe, CommandRedirection]),
            ("a | b", vec![CommandPipe]),
            ("a |& b", vec![CommandPipe, CommandBackground]),
            ("a &", vec![CommandBackground]),
            ("a > b", vec![CommandRedirection]),
            ("a 2>&1", vec![CommandRedirection, CommandBackground]),
            ("a &> b", vec![CommandRedirection]),
            ("a < b", vec![CommandRedirection]),
            ("a << EOF", vec![CommandRedirection]),
            ("a <(b)", vec![CommandSubstitution, CommandSyntax]),
            ("a $(b)", vec![CommandSubstitution, CommandSyntax]),
            ("a \"$(b)\"", vec![CommandSubstitution]),
            ("a \"`b`\"", vec![CommandSubstitution, CommandSubstitution]),
            ("a $b", vec![CommandVariable]),
            ("a ${b}", vec![CommandVariable, CommandGlob, CommandGlob]),
            ("a \"$b\"", vec![CommandVariable]),
            ("a *.csv", vec![CommandGlob]),
            ("a {b,c}", vec![CommandGlob, CommandGlob]),
            ("a ~/b", vec![CommandGlob]),
            ("a # b && c", vec![CommandComment]),
            ("a b#c", vec![CommandSyntax]),
            ("a \\ b", vec![CommandSyntax]),
            ("a 'b", vec![CommandSyntax]),
            ("a \"b!\"", vec![CommandSyntax]),
            ("a (b)", vec![CommandSyntax, CommandSyntax]),
            ("a é 'é'", vec![CommandSyntax, CommandSyntax]),
        ] {
            assert_eq!(check(line), Err(codes), "{line}");
        }
    }
}
