//! The last lines of tools that speak to people: mocha, jest, vitest, node. Only numbers.

use super::{Told, empty};
use crate::lines::Line;
use crate::place::leading_number;
use crate::report::{Counts, Status, TestFormat, TestReport};
use crate::tally::Tally;
use crate::text::{MAX_NAME, clean};
use crate::unreadable::Unreadable;

#[derive(Default)]
pub(super) struct Summary {
    counts: Option<Counts>,
}

impl Summary {
    pub(super) fn new() -> Self {
        Summary::default()
    }

    fn add(&mut self, status: Status, many: u64) {
        self.counts.get_or_insert_default().add(status, many);
    }

    /// jest: `Tests:       1 failed, 1 skipped, 3 total`; vitest: `Tests  1 failed | 1 passed (2)`.
    fn list(&mut self, rest: &str) {
        for part in rest.split([',', '|']).map(str::trim) {
            let Some((number, status)) = numbered(part) else { continue };
            self.add(status, number);
        }
    }

    /// mocha: `3 passing (10ms)`; node: `ℹ pass 3`.
    fn single(&mut self, line: &str) {
        let node = line.strip_prefix("ℹ ").and_then(|rest| rest.split_once(' '));
        if let Some((word, number)) = node
            && let Some(status) = status_of(word)
            && let Ok(number) = number.trim().parse()
        {
            self.add(status, number);
        } else if let Some((number, status)) = numbered(line)
            && line.split(' ').nth(1).is_some_and(|word| word.ends_with("ing"))
        {
            self.add(status, number);
        }
    }
}

impl Told for Summary {
    fn line(&mut self, line: &Line<'_>) {
        if line.text.len() > MAX_NAME {
            return;
        }
        let text = clean(line.text, MAX_NAME);
        match text.strip_prefix("Tests:").or(text.strip_prefix("Tests  ")) {
            Some(rest) => self.list(rest),
            None => self.single(&text),
        }
    }

    fn done(self: Box<Self>) -> Result<TestReport, Unreadable> {
        let counts = self.counts.ok_or_else(empty)?;
        let mut tally = Tally::default();
        tally.add_unlisted(Status::Passed, counts.passed);
        tally.add_unlisted(Status::Failed, counts.failed);
        tally.add_unlisted(Status::Skipped, counts.skipped);
        Ok(tally.done(TestFormat::Text))
    }
}

fn numbered(part: &str) -> Option<(u64, Status)> {
    let (number, rest) = part.split_once(' ')?;
    let whole = number.bytes().all(|byte| byte.is_ascii_digit());
    let word = rest.split(' ').next()?;
    Some((whole.then(|| leading_number(number))?.map(u64::from)?, status_of(word)?))
}

fn status_of(word: &str) -> Option<Status> {
    match word {
        "passed" | "passing" | "pass" => Some(Status::Passed),
        "failed" | "failing" | "fail" | "cancelled" => Some(Status::Failed),
        "skipped" | "pending" | "todo" => Some(Status::Skipped),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Places;

    fn counted(text: &str) -> (u64, u64, u64) {
        let report =
            super::super::tests(TestFormat::Text, &mut text.as_bytes(), &Places::default());
        let counts = report.unwrap().counts;
        (counts.passed, counts.failed, counts.skipped)
    }

    #[test]
    fn summaries_of_four_tools() {
        assert_eq!(counted("Tests:       1 failed, 1 skipped, 2 passed, 4 total\n"), (2, 1, 1));
        let vitest =
            "\u{1b}[2m      Tests \u{1b}[22m \u{1b}[31m1 failed\u{1b}[39m | 3 passed (4)\n";
        assert_eq!(counted(vitest), (3, 1, 0));
        assert_eq!(counted("  3 passing (3ms)\n  1 pending\n  2 failing\n"), (3, 2, 1));
        assert_eq!(counted("ℹ tests 4\nℹ pass 3\nℹ fail 1\nℹ cancelled 0\nℹ todo 0\n"), (3, 1, 0));
    }

    #[test]
    fn prose_is_no_summary() {
        let read = |text: &str| {
            super::super::tests(TestFormat::Text, &mut text.as_bytes(), &Places::default())
        };
        assert!(read("all is well, 3 tests or so\n5 failed attempts\n").is_err());
        assert!(read("").is_err());
    }
}
