//! Three contents into one: the patch's own old content, what the patch makes of it, and what the
//! file has become meanwhile. Lines that both sides changed, or that touch, are a conflict, unless
//! both sides made the same of them.

use std::ops::Range;

use imara_diff::sources::byte_lines;
use imara_diff::{Algorithm, Diff, InternedInput};

use crate::apply::lines::{Fitted, oriented};
use crate::apply::outcome::{Conflict, LineRange};
use crate::apply::target::Target;
use crate::diff::{Hunk, LineKind};

/// Lines of the base that one side replaces.
#[derive(Debug)]
struct Change<'c> {
    base: Range<usize>,
    text: Vec<&'c [u8]>,
    /// How many lines replace them.
    count: usize,
    /// The hunk it stands in, from 1; 0 for changes of the file.
    hunk: u64,
}

/// A conflict, and the hunk that runs into it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Clash {
    pub(crate) hunk: u64,
    pub(crate) conflict: Conflict,
}

/// The merged content, or everything that keeps it from being one.
pub(crate) fn merge(
    base: &Target<'_>,
    current: &Target<'_>,
    hunks: &[Hunk<'_>],
    fitted: &Fitted,
    reverse: bool,
) -> Result<Vec<u8>, Vec<Clash>> {
    let ours = changes_of_file(base, current);
    let theirs = changes_of_patch(hunks, fitted, reverse);
    let mut merge = Merge { base, out: Vec::new(), done: 0, drift: 0, clashes: Vec::new() };
    let (mut ours, mut theirs) = (ours.as_slice(), theirs.as_slice());
    while !(ours.is_empty() && theirs.is_empty()) {
        let (a, b) = next_group(&mut ours, &mut theirs);
        merge.take(a, b);
    }
    merge.out.extend_from_slice(base.slice(merge.done, base.count()));
    if merge.clashes.is_empty() { Ok(merge.out) } else { Err(merge.clashes) }
}

fn changes_of_file<'c>(base: &Target<'c>, current: &Target<'c>) -> Vec<Change<'c>> {
    let input = InternedInput::new(byte_lines(base.content()), byte_lines(current.content()));
    let diff = Diff::compute(Algorithm::Histogram, &input);
    let change = |hunk: imara_diff::Hunk| {
        let after = hunk.after.start as usize..hunk.after.end as usize;
        Change {
            base: hunk.before.start as usize..hunk.before.end as usize,
            text: vec![current.slice(after.start, after.end)],
            count: after.len(),
            hunk: 0,
        }
    };
    diff.hunks().map(change).collect()
}

fn changes_of_patch<'a>(hunks: &[Hunk<'a>], fitted: &Fitted, reverse: bool) -> Vec<Change<'a>> {
    let mut changes: Vec<Change<'a>> = Vec::new();
    for ((hunk, place), number) in oriented(hunks, reverse).zip(&fitted.places).zip(1..) {
        let Ok(mut line) = *place else { continue };
        for piece in hunk.lines() {
            if piece.kind == LineKind::Context {
                line += 1;
                continue;
            }
            if changes.last().is_none_or(|last| last.base.end != line) {
                changes.push(Change { base: line..line, text: vec![], count: 0, hunk: number });
            }
            let Some(change) = changes.last_mut() else { continue };
            if piece.kind == LineKind::Removed {
                line += 1;
                change.base.end = line;
            } else {
                change.text.push(piece.content);
                change.count += 1;
            }
        }
    }
    changes
}

/// Takes the next changes of both sides that touch each other, directly or through others.
fn next_group<'l, 'o, 't>(
    ours: &mut &'l [Change<'o>],
    theirs: &mut &'l [Change<'t>],
) -> (&'l [Change<'o>], &'l [Change<'t>]) {
    let starts = [ours.first().map(|c| c.base.start), theirs.first().map(|c| c.base.start)];
    let mut end = starts.into_iter().flatten().min().unwrap_or(0);
    let (mut a, mut b) = (0, 0);
    loop {
        if let Some(next) = ours.get(a).filter(|change| change.base.start <= end) {
            end = end.max(next.base.end);
            a += 1;
        } else if let Some(next) = theirs.get(b).filter(|change| change.base.start <= end) {
            end = end.max(next.base.end);
            b += 1;
        } else {
            break;
        }
    }
    (split_off(ours, a), split_off(theirs, b))
}

fn split_off<'l, T>(list: &mut &'l [T], count: usize) -> &'l [T] {
    let (taken, rest) = list.split_at_checked(count).unwrap_or((*list, &[]));
    *list = rest;
    taken
}

struct Merge<'m, 'c> {
    base: &'m Target<'c>,
    out: Vec<u8>,
    /// Lines of the base that are in the output, or were replaced.
    done: usize,
    /// How many lines the current file has more than the base, so far.
    drift: i64,
    clashes: Vec<Clash>,
}

impl Merge<'_, '_> {
    fn take(&mut self, ours: &[Change<'_>], theirs: &[Change<'_>]) {
        let ranges = || ours.iter().map(|c| &c.base).chain(theirs.iter().map(|c| &c.base));
        let start = ranges().map(|range| range.start).min().unwrap_or(self.done);
        let end = ranges().map(|range| range.end).max().unwrap_or(start);
        self.out.extend_from_slice(self.base.slice(self.done, start));
        let sides = (self.side(ours, start..end), self.side(theirs, start..end));
        match sides {
            (text, _) if theirs.is_empty() => self.out.extend_from_slice(&text),
            (_, text) if ours.is_empty() => self.out.extend_from_slice(&text),
            (one, other) if one == other => self.out.extend_from_slice(&one),
            _ => self.clash(ours, theirs, start..end),
        }
        self.drift += growth(ours);
        self.done = end;
    }

    /// What one side makes of some lines of the base.
    fn side(&self, changes: &[Change<'_>], lines: Range<usize>) -> Vec<u8> {
        let mut text = Vec::new();
        let mut done = lines.start;
        for change in changes {
            text.extend_from_slice(self.base.slice(done, change.base.start));
            change.text.iter().for_each(|piece| text.extend_from_slice(piece));
            done = change.base.end;
        }
        text.extend_from_slice(self.base.slice(done, lines.end));
        text
    }

    fn clash(&mut self, ours: &[Change<'_>], theirs: &[Change<'_>], lines: Range<usize>) {
        let range = |from: i64, to: i64| LineRange {
            start: u64::try_from(from + 1).unwrap_or(0),
            end: u64::try_from(to).unwrap_or(0),
        };
        let (start, end) = (lines.start as i64, lines.end as i64);
        let current = range(start + self.drift, end + self.drift + growth(ours));
        let hunk = theirs.first().map_or(0, |change| change.hunk);
        let conflict = Conflict { base: range(start, end), current };
        self.clashes.push(Clash { hunk, conflict });
    }
}

fn growth(changes: &[Change<'_>]) -> i64 {
    changes.iter().map(|change| change.count as i64 - change.base.len() as i64).sum()
}
