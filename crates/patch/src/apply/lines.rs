//! Hunks against a content, in one pass.

use crate::apply::outcome::HunkOutcome;
use crate::apply::place::{Budget, Miss, Oriented, find};
use crate::apply::target::Target;
use crate::diff::{Hunk, LineKind};

/// What the hunks of a file made of its content.
#[derive(Debug, Default)]
pub(crate) struct Fitted {
    /// Where each hunk was placed, or why it was not.
    pub(crate) places: Vec<Result<usize, Miss>>,
}

impl Fitted {
    pub(crate) fn is_complete(&self) -> bool {
        self.places.iter().all(Result::is_ok)
    }
}

/// How hunks are to be taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) reverse: bool,
    pub(crate) zero_context: bool,
}

pub(crate) fn oriented<'h, 'a>(
    hunks: &'h [Hunk<'a>],
    reverse: bool,
) -> impl Iterator<Item = Oriented<'h, 'a>> {
    hunks.iter().map(move |hunk| Oriented { hunk, reverse })
}

/// Finds the places of all hunks; one that does not fit does not keep the others from being tried.
pub(crate) fn fit(
    hunks: &[Hunk<'_>],
    target: &mut Target<'_>,
    manner: Manner,
    budget: &mut Budget,
) -> Fitted {
    let mut first = 0;
    let mut places = Vec::with_capacity(hunks.len());
    for hunk in oriented(hunks, manner.reverse) {
        let place = find(&hunk, target, first, manner.zero_context, budget);
        if let Ok(at) = place {
            first = at + hunk.old_count();
        }
        places.push(place);
    }
    Fitted { places }
}

/// The content with all hunks applied that have a place.
pub(crate) fn spliced(
    hunks: &[Hunk<'_>],
    target: &Target<'_>,
    fitted: &Fitted,
    reverse: bool,
) -> Vec<u8> {
    let content = target.content();
    let added: usize = hunks.iter().map(|hunk| hunk.text.len()).sum();
    let mut out = Vec::with_capacity(content.len().saturating_add(added));
    let mut copied = 0;
    let mut copy_to = |out: &mut Vec<u8>, line: usize, skip: bool| {
        let end = target.start(line);
        out.extend_from_slice(content.get(copied..end).unwrap_or_default());
        copied = target.start(line + usize::from(skip));
    };
    for (hunk, place) in oriented(hunks, reverse).zip(&fitted.places) {
        let Ok(mut line) = *place else { continue };
        for piece in hunk.lines() {
            match piece.kind {
                LineKind::Context => line += 1,
                LineKind::Removed => {
                    copy_to(&mut out, line, true);
                    line += 1;
                }
                LineKind::Added => {
                    copy_to(&mut out, line, false);
                    out.extend_from_slice(piece.content);
                }
            }
        }
    }
    copy_to(&mut out, target.count(), false);
    out
}

pub(crate) fn outcomes(hunks: &[Hunk<'_>], fitted: &Fitted, reverse: bool) -> Vec<HunkOutcome> {
    let placed = oriented(hunks, reverse).zip(&fitted.places).zip(1..);
    let outcome = |((hunk, place), number): ((Oriented<'_, '_>, &Result<usize, Miss>), u64)| {
        let at = *place.as_ref().ok()?;
        let offset = at as i64 - hunk.stated() as i64;
        Some(HunkOutcome {
            number,
            line: at as u64 + u64::from(hunk.old_count() > 0),
            offset,
            added: hunk.added(),
            removed: hunk.removed(),
        })
    };
    placed.filter_map(outcome).collect()
}
