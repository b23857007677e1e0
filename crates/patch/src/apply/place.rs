//! Where a hunk belongs.
//!
//! As `git apply` decides it: every old line must be there, byte for byte. The place is the line
//! that the hunk states; if the old lines do not stand there, the nearest place where they do,
//! later lines before earlier ones at the same distance. A hunk that begins at line 1 belongs to
//! the beginning of the file, and one without context behind its last change to the end. Context is
//! never left out of the comparison.
//!
//! Stricter than git in two things: a hunk never comes before the one above it, and a last line
//! without its newline is not taken for one that has it.

use std::ops::Range;

use crate::apply::target::Target;
use crate::diff::{Hunk, HunkLine, LineKind};

/// A hunk in the direction in which it is applied.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Oriented<'h, 'a> {
    pub(crate) hunk: &'h Hunk<'a>,
    pub(crate) reverse: bool,
}

impl<'a> Oriented<'_, 'a> {
    pub(crate) fn lines(&self) -> impl Iterator<Item = HunkLine<'a>> + use<'a> {
        let reverse = self.reverse;
        self.hunk.lines().map(move |line| match (line.kind, reverse) {
            (LineKind::Added, true) => HunkLine { kind: LineKind::Removed, ..line },
            (LineKind::Removed, true) => HunkLine { kind: LineKind::Added, ..line },
            _ => line,
        })
    }

    fn side(&self, without: LineKind) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.lines().filter(move |line| line.kind != without).map(|line| line.content)
    }

    pub(crate) fn old_lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.side(LineKind::Added)
    }

    pub(crate) fn new_lines(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.side(LineKind::Removed)
    }

    fn before(&self) -> (u32, u32) {
        match self.reverse {
            false => (self.hunk.old_start, self.hunk.old_count),
            true => (self.hunk.new_start, self.hunk.new_count),
        }
    }

    fn after(&self) -> (u32, u32) {
        match self.reverse {
            false => (self.hunk.new_start, self.hunk.new_count),
            true => (self.hunk.old_start, self.hunk.old_count),
        }
    }

    pub(crate) fn old_start(&self) -> u64 {
        self.before().0.into()
    }

    pub(crate) fn old_count(&self) -> usize {
        self.before().1 as usize
    }

    /// The stated place, counted from 0. Where no line is taken, the place is behind the line.
    pub(crate) fn stated(&self) -> usize {
        let (start, count) = self.before();
        start as usize - usize::from(count > 0)
    }

    fn stated_after(&self) -> usize {
        let (start, count) = self.after();
        start as usize - usize::from(count > 0)
    }

    pub(crate) fn added(&self) -> u64 {
        if self.reverse { self.hunk.removed() } else { self.hunk.added() }
    }

    pub(crate) fn removed(&self) -> u64 {
        if self.reverse { self.hunk.added() } else { self.hunk.removed() }
    }

    fn ends_unterminated(&self) -> bool {
        self.new_lines().last().is_some_and(|line| !line.ends_with(b"\n"))
    }
}

/// How much may still be compared while places are looked for: hostile patches ask for a lot.
#[derive(Debug)]
pub(crate) struct Budget(u64);

impl Budget {
    pub(crate) fn new(steps: u64) -> Budget {
        Budget(steps)
    }

    fn spend(&mut self, steps: u64) -> bool {
        self.0 = self.0.saturating_sub(steps);
        self.0 > 0
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Miss {
    Nowhere,
    OutOfBudget,
}

/// Finds the line, counted from 0, at which the hunk's old lines stand, at or behind `first`.
pub(crate) fn find(
    hunk: &Oriented<'_, '_>,
    target: &mut Target<'_>,
    first: usize,
    zero_context: bool,
    budget: &mut Budget,
) -> Result<usize, Miss> {
    let at_end = target.count().checked_sub(hunk.old_count());
    let begins = hunk.old_start() == 0 || (hunk.old_start() == 1 && !zero_context);
    let ends = if zero_context { hunk.ends_unterminated() } else { hunk.hunk.trailing == 0 };
    let anchored = match (begins, ends) {
        (true, true) if at_end != Some(0) => return Err(Miss::Nowhere),
        (true, _) => Some(0),
        (false, true) => Some(at_end.ok_or(Miss::Nowhere)?),
        (false, false) => None,
    };
    let at = anchored.unwrap_or(hunk.stated()).min(target.count());
    if at >= first && stands_at(hunk, target, at, budget)? {
        return Ok(at);
    }
    if anchored.is_some() { Err(Miss::Nowhere) } else { search(hunk, target, first, at, budget) }
}

/// Whether the old lines stand at a place.
fn stands_at(
    hunk: &Oriented<'_, '_>,
    target: &Target<'_>,
    at: usize,
    budget: &mut Budget,
) -> Result<bool, Miss> {
    if hunk.old_count() == 0 {
        return Ok(at < target.count() || !target.is_unterminated());
    }
    for (number, line) in (at..).zip(hunk.old_lines()) {
        if !budget.spend(1 + line.len() as u64 / 64) {
            return Err(Miss::OutOfBudget);
        }
        if target.line(number) != Some(line) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Tries every place where the hunk's rarest line stands, the nearest first.
fn search(
    hunk: &Oriented<'_, '_>,
    target: &mut Target<'_>,
    first: usize,
    near: usize,
    budget: &mut Budget,
) -> Result<usize, Miss> {
    let (within, places) = rarest(hunk, target, budget)?;
    let places = target.index().get(places).unwrap_or_default();
    // The place of the whole hunk, if its rarest line is this one.
    let place = |candidate: &(u32, u32)| (candidate.1 as usize).checked_sub(within);
    let mut later = places.partition_point(|candidate| place(candidate).is_none_or(|p| p < near));
    let mut earlier = later;
    loop {
        let behind = places.get(later).and_then(place);
        let before = earlier.checked_sub(1).and_then(|index| places.get(index)).and_then(place);
        let before = before.filter(|place| *place >= first);
        let at = match (behind, before) {
            (None, None) => return Err(Miss::Nowhere),
            (Some(behind), Some(before)) if near - before < behind - near => before,
            (None, Some(before)) => before,
            (Some(behind), _) => behind,
        };
        if Some(at) == behind {
            later += 1
        } else {
            earlier -= 1
        }
        if at >= first && stands_at(hunk, target, at, budget)? {
            return Ok(at);
        }
    }
}

/// Which of the hunk's lines is rarest in the content, and which entries of the index it may be.
fn rarest(
    hunk: &Oriented<'_, '_>,
    target: &mut Target<'_>,
    budget: &mut Budget,
) -> Result<(usize, Range<usize>), Miss> {
    let mut best: Option<(usize, Range<usize>)> = None;
    for (within, line) in hunk.old_lines().enumerate() {
        // Two searches in a sorted list.
        if !budget.spend(20 + line.len() as u64 / 64) {
            return Err(Miss::OutOfBudget);
        }
        let alike = target.alike(line);
        let few = alike.len() < 2;
        if best.as_ref().is_none_or(|(_, places)| alike.len() < places.len()) {
            best = Some((within, alike));
        }
        if few {
            break;
        }
    }
    best.filter(|(_, places)| !places.is_empty()).ok_or(Miss::Nowhere)
}

/// The first old line that is not where the hunk says: the line's place, and the line.
pub(crate) fn first_difference<'a>(
    hunk: &Oriented<'_, 'a>,
    target: &Target<'_>,
) -> Option<(usize, &'a [u8])> {
    let places = hunk.stated()..;
    places.zip(hunk.old_lines()).find(|(place, line)| target.line(*place) != Some(*line))
}

/// Whether the new lines stand already where they would be.
pub(crate) fn is_there_already(hunk: &Oriented<'_, '_>, target: &Target<'_>) -> bool {
    let places = hunk.stated_after()..;
    let mut lines = places.zip(hunk.new_lines()).peekable();
    lines.peek().is_some() && lines.all(|(place, line)| target.line(place) == Some(line))
}
