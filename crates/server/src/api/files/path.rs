//! Names of files. They are flat, a slash is only a character, and still nothing that could lead
//! anywhere else on some other host is one.

use std::str::FromStr;

use serde_json::json;

use crate::error::Refusal;

pub(super) const LONGEST: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilePath(String);

impl FilePath {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for FilePath {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<FilePath, Refusal> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b'-');
        let begins = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let leads = text.split('/').any(|part| matches!(part, "" | "." | ".."));
        if begins && !leads && text.len() <= LONGEST && text.bytes().all(plain) {
            return Ok(FilePath(text.to_owned()));
        }
        let message = "the path of a file has 1 to 256 letters, digits, `.`, `_`, `-` and `/`, \
                       begins with a letter or digit, and has no part that is empty, `.` or `..`";
        Err(Refusal::invalid(message).detail("field", json!("path")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_nowhere() {
        for good in ["a", "AGENTS.md", "notes/2026-01/a_b.txt", "a..b", &"a".repeat(256)] {
            assert!(good.parse::<FilePath>().is_ok(), "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "/a",
            "a/",
            "a//b",
            "a/../b",
            "../a",
            "a/..",
            "a/./b",
            ".a",
            "-a",
            "_a",
            "a\\b",
            "a b",
            "a\0",
            "a\n",
            "a\u{202e}",
            "ä",
            "a%2fb",
            "a:b",
            "a?b",
            "~",
            "a\u{7f}",
            &"a".repeat(257),
        ] {
            assert!(bad.parse::<FilePath>().is_err(), "{bad:?}");
        }
    }
}
