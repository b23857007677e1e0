//! Where two sides changed the same lines. A function of two diffs from one base.

use serde::{Deserialize, Serialize};

use crate::parse::split_once;

/// Lines of a file: `count` of them from line `start`, which counts from 1. With a count of 0 it
/// is the place before that line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    pub start: u64,
    pub count: u64,
}

/// The same place in the base and on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlap {
    pub base: Lines,
    pub ours: Lines,
    pub theirs: Lines,
}

/// Lines that were replaced, counted from 0, and what replaced them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk<'d> {
    old: (u64, u64),
    new: (u64, u64),
    added: Vec<&'d [u8]>,
}

impl Hunk<'_> {
    fn end(&self) -> u64 {
        self.old.0.saturating_add(self.old.1)
    }
}

/// The hunks of a unified diff of one file without context.
pub(crate) fn read(diff: &[u8]) -> Vec<Hunk<'_>> {
    let mut lines = diff.split(|byte| *byte == b'\n');
    let mut hunks = Vec::new();
    while let Some(line) = lines.next() {
        let Some((old, new)) = header(line) else { continue };
        // What follows belongs to the hunk by its number, whatever it looks like.
        let removed = lines.by_ref().take(usize::try_from(old.1).unwrap_or(0)).count();
        let mut added = Vec::new();
        while (added.len() as u64) < new.1 {
            match lines.next() {
                Some([b'+', text @ ..]) => added.push(text),
                Some([b'\\', ..]) => {}
                _ => break,
            }
        }
        if removed as u64 == old.1 && added.len() as u64 == new.1 {
            hunks.push(Hunk { old, new, added });
        }
    }
    hunks
}

/// `@@ -START,COUNT +START,COUNT @@`, where a count of one may be left out.
fn header(line: &[u8]) -> Option<((u64, u64), (u64, u64))> {
    let (old, rest) = split_once(line.strip_prefix(b"@@ -")?, b' ')?;
    let (new, _) = split_once(rest.strip_prefix(b"+")?, b' ')?;
    Some((span(old)?, span(new)?))
}

/// Counted from 0. Where there is no line, git names the one before.
fn span(text: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (start, count) = text.split_once(',').unwrap_or((text, "1"));
    let (start, count): (u64, u64) = (start.parse().ok()?, count.parse().ok()?);
    Some((if count == 0 { start } else { start.checked_sub(1)? }, count))
}

/// One side's way through its hunks.
struct Side<'h, 'd> {
    hunks: &'h [Hunk<'d>],
    /// How many lines the side has gained before the next hunk.
    shift: i128,
}

impl<'h, 'd> Side<'h, 'd> {
    fn next_start(&self) -> Option<u64> {
        self.hunks.first().map(|hunk| hunk.old.0)
    }

    /// Takes every hunk that begins at or before `end`, and tells where the last one ends.
    fn take_to(&mut self, end: u64, taken: &mut Vec<&'h Hunk<'d>>) -> u64 {
        let mut end = end;
        while let Some((hunk, rest)) = self.hunks.split_first().filter(|(h, _)| h.old.0 <= end) {
            end = end.max(hunk.end());
            taken.push(hunk);
            self.hunks = rest;
        }
        end
    }

    /// The lines of this side that stand for lines of the base, and moves on behind them.
    fn lines(&mut self, base: (u64, u64), taken: &[&Hunk<'_>]) -> Lines {
        let start = i128::from(base.0) + self.shift;
        let gained: i128 = taken.iter().map(|h| i128::from(h.new.1) - i128::from(h.old.1)).sum();
        self.shift += gained;
        let count = i128::from(base.1 - base.0) + gained;
        lines(clamp(start), clamp(count))
    }
}

fn clamp(number: i128) -> u64 {
    u64::try_from(number.max(0)).unwrap_or(u64::MAX)
}

fn lines(start: u64, count: u64) -> Lines {
    Lines { start: start.saturating_add(1), count }
}

/// Where changes of both sides touch or overlap, unless they are the same change.
pub(crate) fn overlaps(ours: &[Hunk<'_>], theirs: &[Hunk<'_>]) -> Vec<Overlap> {
    let mut ours = Side { hunks: ours, shift: 0 };
    let mut theirs = Side { hunks: theirs, shift: 0 };
    let mut found = Vec::new();
    while let Some(start) = [ours.next_start(), theirs.next_start()].into_iter().flatten().min() {
        let (mut mine, mut other) = (Vec::new(), Vec::new());
        let mut end = start;
        loop {
            let further = ours.take_to(end, &mut mine);
            let further = theirs.take_to(further, &mut other);
            if further == end && !(mine.is_empty() && other.is_empty()) {
                break;
            }
            end = further;
        }
        let base = (start, end);
        let (our_lines, their_lines) = (ours.lines(base, &mine), theirs.lines(base, &other));
        if !mine.is_empty() && !other.is_empty() && !same(&mine, &other) {
            let base = lines(start, end - start);
            found.push(Overlap { base, ours: our_lines, theirs: their_lines });
        }
    }
    found
}

fn same(mine: &[&Hunk<'_>], other: &[&Hunk<'_>]) -> bool {
    let equal = |(a, b): (&&Hunk<'_>, &&Hunk<'_>)| a.old == b.old && a.added == b.added;
    mine.len() == other.len() && mine.iter().zip(other).all(equal)
}

/// Where two files without a base differ.
pub(crate) fn differences(diff: &[u8]) -> Vec<Overlap> {
    let none = Lines { start: 1, count: 0 };
    let told = |hunk: Hunk<'_>| Overlap {
        base: none,
        ours: lines(hunk.old.0, hunk.old.1),
        theirs: lines(hunk.new.0, hunk.new.1),
    };
    read(diff).into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn told(ours: &str, theirs: &str) -> Vec<[(u64, u64); 3]> {
        let (ours, theirs) = (read(ours.as_bytes()), read(theirs.as_bytes()));
        let pair = |lines: Lines| (lines.start, lines.count);
        let all = overlaps(&ours, &theirs);
        all.iter().map(|o| [pair(o.base), pair(o.ours), pair(o.theirs)]).collect()
    }

    #[test]
    fn changes_of_the_same_lines_overlap_and_others_do_not() {
        let five = "--- a\n+++ b\n@@ -5 +5 @@\n-5\n+five\n";
        let shouted = "@@ -1,0 +2,2 @@\n+x\n+y\n@@ -5 +7 @@\n-5\n+FIVE\n";
        assert_eq!(told(five, shouted), [[(5, 1), (5, 1), (7, 1)]]);
        assert!(told(five, five).is_empty(), "the same change twice is none");
        let touching = "@@ -6 +6 @@\n-6\n+six\n";
        assert_eq!(told(five, touching), [[(5, 2), (5, 2), (5, 2)]]);
        let apart = "@@ -7 +7 @@\n-7\n+seven\n";
        assert!(told(five, apart).is_empty());
        let wide = "@@ -4,3 +4 @@\n-4\n-5\n-6\n+x\n";
        assert_eq!(told(five, wide), [[(4, 3), (4, 3), (4, 1)]]);
        let both_insert = ("@@ -3,0 +4 @@\n+a\n", "@@ -3,0 +4,2 @@\n+b\n+c\n");
        assert_eq!(told(both_insert.0, both_insert.1), [[(4, 0), (4, 1), (4, 2)]]);
    }

    #[test]
    fn lines_that_look_like_headers_belong_to_their_hunk() {
        let diff = "@@ -1 +1,2 @@\n-@@ -9 +9 @@\n+@@ -1 +1 @@\n+y\n\\ No newline at end of file\n";
        let hunks = read(diff.as_bytes());
        assert_eq!(hunks.len(), 1);
        assert_eq!(hunks[0].added, [&b"@@ -1 +1 @@"[..], b"y"]);
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_breaks(ours: Vec<u8>, theirs in "(@@ -[0-9]{1,3} \\+[0-9]{1,3} @@\n-a\n\\+b\n){0,5}") {
            let _ = overlaps(&read(&ours), &read(theirs.as_bytes()));
            let _ = overlaps(&read(theirs.as_bytes()), &read(theirs.as_bytes()));
        }
    }
}
