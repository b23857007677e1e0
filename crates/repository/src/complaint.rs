//! What git says when it does not do what it was asked, as a failure in our words.

use countersign_model::Failure;
use serde_json::json;

/// How git says that an object is not there.
const MISSING: [&str; 7] = [
    "bad object",
    "unable to read",
    "missing blob",
    "missing commit",
    "missing tree",
    "missing object",
    "not a tree object",
];

/// A command that ended badly.
#[derive(Debug)]
pub(crate) struct Complaint<'c> {
    pub(crate) command: &'c str,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) said: &'c str,
}

pub(crate) fn failure(complaint: &Complaint<'_>) -> Failure {
    let Complaint { command, code, signal, said } = complaint;
    let details = json!({"command": command, "exitCode": code, "signal": signal, "said": said});
    named(command, said).details(details)
}

/// The causes that callers can do something about have codes of their own.
fn named(command: &str, said: &str) -> Failure {
    let has = |part: &str| said.contains(part);
    if has("No space left on device") || has("Disk quota exceeded") {
        return Failure::resource("DISK_FULL", "the disk is full")
            .hint("make room, then do it again");
    }
    if has("invalid path") || has("Invalid path") {
        return Failure::validation("PATH_INVALID", "git refuses the name of a file")
            .hint("rename the file that is named in the details");
    }
    if MISSING.iter().any(|part| has(part)) {
        return Failure::state("OBJECT_UNKNOWN", "an object that git needs is not there");
    }
    Failure::execution("GIT_FAILED", format!("`git {command}` failed"))
}

/// Whoever wanted the output could not take it.
pub(crate) fn unwritten(error: &std::io::Error) -> Failure {
    Failure::resource("OUTPUT_FAILED", format!("the output could not be written: {error}"))
}

/// Text without what commands a terminal or turns the direction of writing around.
pub(crate) fn inert(bytes: &[u8]) -> String {
    let is_harmful = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let text = String::from_utf8_lossy(bytes);
    let calm: String = text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect();
    calm.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_named_and_what_git_said_commands_nobody() {
        let of = |said: &str| {
            failure(&Complaint { command: "x", code: Some(128), signal: None, said }).code
        };
        assert_eq!(of("fatal: write error: No space left on device"), "DISK_FULL");
        assert_eq!(of("error: Invalid path 'git~1'"), "PATH_INVALID");
        assert_eq!(of("fatal: bad object 1234"), "OBJECT_UNKNOWN");
        assert_eq!(of("fatal: something else"), "GIT_FAILED");
        assert_eq!(inert(b"a\x1b[2J\xe2\x80\xaeb\n"), "a\u{fffd}[2J\u{fffd}b");
    }
}
