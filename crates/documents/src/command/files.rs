//! Which files the words of a command name.
//!
//! The sandbox shows a program /in and /out and nothing of the host, so these rules protect the
//! person who approves: what the command says it reads and writes is what was declared.

use super::Declared;
use super::names;
use super::words::Word;
use crate::code::Code;
use crate::reason::Findings;

pub(super) fn judge(word: &Word, declared: &Declared<'_>, findings: &mut Findings) {
    let text = word.text.as_str();
    if let Some((code, message)) = suspicion(text) {
        return findings.quote(code, word.at, text, message);
    }
    // Prose and patterns are data; only what is clearly a path counts in them.
    let prose = text.contains(' ');
    // A lone slash in quotes is a separator; without quotes it is the root of a file system.
    let separator = |part: &str| word.quoted && part.bytes().all(|byte| byte == b'/');
    for part in parts(text).filter(|part| !part.is_empty() && !separator(part)) {
        let problem = match part.strip_prefix('/') {
            Some(_) => absolute(part, declared),
            None if prose || !is_relative_file(part) => None,
            None => relative(part, declared),
        };
        if let Some((code, message)) = problem {
            return findings.quote(code, word.at, part, message);
        }
    }
}

/// What is refused whatever is declared.
fn suspicion(text: &str) -> Option<(Code, &'static str)> {
    let lower = text.to_ascii_lowercase();
    let option = lower.split('=').next().unwrap_or(&lower);
    let drive =
        matches!(text.as_bytes(), [letter, b':', b'\\', ..] if letter.is_ascii_alphabetic());
    let climbs = || lower.split(is_separator).any(|part| part.split('/').any(|name| name == ".."));
    let escapes = |part: &str| ["%2e%2e", "%2f", "%5c"].iter().any(|escape| part.contains(escape));
    if ["--privileged", "--cap-add", "--security-opt", "--gpus"].contains(&option) {
        Some((Code::Device, "asks for a privilege or a device"))
    } else if drive
        || text.starts_with("\\\\")
        || lower.split(is_separator).any(|p| p.starts_with("~/"))
    {
        Some((Code::HostPath, "is a path of the host"))
    } else if has_scheme(&lower, "file:") || lower.ends_with(".sock") {
        Some((Code::HostPath, "leads to the host"))
    } else if segments(&lower).any(escapes) {
        Some((Code::HostPath, "hides a path by escapes"))
    } else if climbs() {
        Some((Code::HostPath, "climbs out of its directory by `..`"))
    } else {
        None
    }
}

/// The scheme at the beginning of the word or of an option's value.
fn has_scheme(text: &str, scheme: &str) -> bool {
    let begins =
        |part: &str| part.get(..scheme.len()).is_some_and(|p| p.eq_ignore_ascii_case(scheme));
    text.split('=').any(begins)
}

/// The pieces of a word that are not addresses on the web.
fn segments(text: &str) -> impl Iterator<Item = &str> {
    let is_url = |part: &&str| has_scheme(part, "http://") || has_scheme(part, "https://");
    text.split([',', ';', ' ']).filter(move |part| !is_url(part))
}

fn is_separator(c: char) -> bool {
    "=:,;|>()[]{}\"'&?!#^*$@` ".contains(c)
}

/// What could be a path: parts between separators, and what is glued to an option of one letter.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    segments(text).flat_map(|segment| segment.split(is_separator)).map(|part| {
        match part.as_bytes() {
            [b'-', letter, b'/', ..] if letter.is_ascii_alphabetic() => {
                part.get(2..).unwrap_or(part)
            }
            _ => part,
        }
    })
}

fn is_relative_file(part: &str) -> bool {
    !part.starts_with('-') && (part.starts_with("./") || names::looks_like_file(part))
}

fn absolute(path: &str, declared: &Declared<'_>) -> Option<(Code, &'static str)> {
    let path = path.strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or(path);
    let below = |root: &str| path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    if let Some(name) = below("/in") {
        (!declared.has_input(name)).then_some((Code::UndeclaredFile, "is no declared input"))
    } else if let Some(path) = below("/out") {
        let undeclared = !declared.has_output_below(path);
        undeclared.then_some((Code::UndeclaredFile, "is no declared output"))
    } else if path == "/in" || path == "/out" {
        None
    } else if path == "/dev" || path.starts_with("/dev/") {
        Some((Code::Device, "is a device"))
    } else {
        Some((Code::HostPath, "is outside of /in and /out"))
    }
}

/// The working directory is /in.
fn relative(path: &str, declared: &Declared<'_>) -> Option<(Code, &'static str)> {
    let name = path.strip_prefix("./").unwrap_or(path);
    if declared.has_input(name) {
        None
    } else if declared.has_output(name) {
        let message =
            "is looked for in the working directory /in; outputs are written as /out/PATH";
        Some((Code::UndeclaredFile, message))
    } else {
        Some((Code::UndeclaredFile, "is no declared input"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Source;

    fn check(text: &str, quoted: bool) -> Option<Code> {
        let declared = Declared {
            inputs: Some(&["script.py", "a.csv"]),
            outputs: Some(&["out.json", "plots/y.png"]),
        };
        let word = Word { text: text.to_owned(), at: 0, quoted };
        let mut findings = Findings::new();
        judge(&word, &declared, &mut findings);
        findings.into_reasons(&Source::of(text)).first().map(|reason| reason.code)
    }

    #[test]
    fn declared_files_and_data_pass() {
        for text in [
            "/in/a.csv",
            "--in=/in/a.csv",
            "-i/in/a.csv",
            "a.csv",
            "./a.csv",
            "/out/out.json",
            "/out/plots/y.png",
            "/out/plots",
            "/out",
            "/out/",
            "/in",
            "--pair=/in/a.csv:/out/out.json",
            "text/csv",
            "Europe/Berlin",
            "%d/%m/%Y",
            "2026/02/09",
            "1.5",
            "12:30:00",
            "a.total",
            "https://api.example.org/v1/x.json",
            "--url=https://a.org/b%2Fc",
            "api.example.org",
            "1..5",
            "--verbose",
            "-",
            "and/or",
            "s/a/b/",
            "@5",
            "name@example.org",
            "--device",
            "cuda:0",
        ] {
            assert_eq!(check(text, false), None, "{text}");
        }
        for text in ["/", "Summary of b.csv", "a / b", "a | b", "\\d+", "~", "<b>", "{x}.csv"] {
            assert_eq!(check(text, true), None, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for (text, code) in [
            ("/in/b.csv", Code::UndeclaredFile),
            ("/in//a.csv", Code::UndeclaredFile),
            ("/in/./a.csv", Code::UndeclaredFile),
            ("b.csv", Code::UndeclaredFile),
            ("out.json", Code::UndeclaredFile),
            ("--out=out.json", Code::UndeclaredFile),
            ("/out/other.json", Code::UndeclaredFile),
            ("/out/out.json.bak", Code::UndeclaredFile),
            ("/etc/passwd", Code::HostPath),
            ("--config=/etc/x", Code::HostPath),
            ("-c/etc/x", Code::HostPath),
            ("@/etc/x", Code::HostPath),
            ("/", Code::HostPath),
            ("/inside/a", Code::HostPath),
            ("/in/../etc/passwd", Code::HostPath),
            ("../x", Code::HostPath),
            ("..", Code::HostPath),
            ("--x=..", Code::HostPath),
            ("%2e%2e/x", Code::HostPath),
            ("file:x", Code::HostPath),
            ("--u=FILE:///x", Code::HostPath),
            ("unix:/run/docker.sock", Code::HostPath),
            ("~/x", Code::HostPath),
            ("C:\\x", Code::HostPath),
            ("\\\\host\\x", Code::HostPath),
            ("read /etc/passwd now", Code::HostPath),
            ("/dev/kvm", Code::Device),
            ("--device=/dev/fuse", Code::Device),
            ("--privileged", Code::Device),
            ("--cap-add=ALL", Code::Device),
            ("https://a.org/b,/etc/passwd", Code::HostPath),
        ] {
            assert!(text == "/" || check(text, true) == Some(code), "{text}");
            assert_eq!(check(text, false), Some(code), "{text}");
        }
    }
}
