//! From an old content to the new one.

use crate::apply::ApplyOptions;
use crate::apply::lines::{self, Manner, oriented};
use crate::apply::merge::{self, Clash};
use crate::apply::outcome::{Conflict, HunkOutcome};
use crate::apply::place::{Budget, Miss, Oriented, first_difference, is_there_already};
use crate::apply::target::Target;
use crate::binary;
use crate::code::Code;
use crate::diff::{Binary, Body, Hunk, Op};
use crate::object;
use crate::patch::Job;
use crate::text::shown;

/// How much of a line is shown.
const SHOWN: usize = 160;

/// A new content, and how it came about.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) content: Vec<u8>,
    pub(crate) hunks: Vec<HunkOutcome>,
    pub(crate) merged: bool,
}

/// Something that does not fit.
#[derive(Debug)]
pub(crate) struct Unfit {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
    pub(crate) hunk: Option<u64>,
    pub(crate) line_in_patch: Option<u64>,
    pub(crate) line_in_file: Option<u64>,
    pub(crate) expected: Option<String>,
    pub(crate) found: Option<String>,
    pub(crate) conflict: Option<Conflict>,
}

impl Unfit {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Unfit {
        Unfit {
            code,
            message: message.into(),
            hint: None,
            hunk: None,
            line_in_patch: None,
            line_in_file: None,
            expected: None,
            found: None,
            conflict: None,
        }
    }

    pub(crate) fn hint(mut self, hint: &'static str) -> Unfit {
        self.hint = Some(hint);
        self
    }

    fn at(mut self, number: u64, hunk: &Oriented<'_, '_>) -> Unfit {
        self.hunk = Some(number);
        self.line_in_patch = Some(hunk.hunk.line());
        self.line_in_file = Some(hunk.old_start());
        self
    }
}

/// Only lines of a file that stays can be merged.
pub(crate) fn can_merge(job: &Job<'_, '_>) -> bool {
    let stays = matches!(job.op(), Op::Modify | Op::Rename | Op::Copy);
    stays && matches!(job.file.body, Body::Text(_))
}

pub(crate) fn make(
    job: &Job<'_, '_>,
    old: &[u8],
    options: &ApplyOptions,
    budget: &mut Budget,
) -> Result<Made, Vec<Unfit>> {
    let made = match &job.file.body {
        Body::Nothing => unchanged(job, old).map_err(|unfit| vec![unfit])?,
        Body::Text(hunks) => from_lines(hunks, old, options, budget)?,
        Body::Binary { forward, backward } => {
            let (change, back) = match options.reverse {
                false => (Some(forward), backward.as_ref()),
                true => (backward.as_ref(), Some(forward)),
            };
            from_binary(job, old, change, back, options).map_err(|unfit| vec![unfit])?
        }
        Body::BinaryWithoutData => without_data(job, old).map_err(|unfit| vec![unfit])?,
    };
    if job.op() == Op::Delete && !made.content.is_empty() {
        let message = "the file holds more than the patch removes";
        return Err(vec![Unfit::new(Code::ContentLeft, message)]);
    }
    Ok(made)
}

/// No word about the content: it stays, unless the ids say that something is missing here.
fn unchanged(job: &Job<'_, '_>, old: &[u8]) -> Result<Made, Unfit> {
    match job.op() {
        Op::Create if job.new_id().is_some_and(|id| !object::may_be(b"", id)) => {
            let message = "the file is not empty, but its content is not in the patch";
            Err(Unfit::new(Code::BinaryDataMissing, message))
        }
        Op::Delete if is_known(job, old) => Ok(Made::default()),
        _ => Ok(Made { content: old.to_vec(), ..Made::default() }),
    }
}

/// Whether the old content is, beyond doubt, the one the patch was made from.
fn is_known(job: &Job<'_, '_>, old: &[u8]) -> bool {
    job.old_id().and_then(|id| object::is_named(old, id)) == Some(true)
}

fn without_data(job: &Job<'_, '_>, old: &[u8]) -> Result<Made, Unfit> {
    if job.op() == Op::Delete && is_known(job, old) {
        return Ok(Made::default());
    }
    let message = "the patch says that the binary file differs, but not how";
    Err(Unfit::new(Code::BinaryDataMissing, message)
        .hint("make the patch with `git diff --binary --full-index`"))
}

fn from_binary(
    job: &Job<'_, '_>,
    old: &[u8],
    change: Option<&Binary<'_>>,
    back: Option<&Binary<'_>>,
    options: &ApplyOptions,
) -> Result<Made, Unfit> {
    let change = change.ok_or_else(|| {
        Unfit::new(Code::NotReversible, "the patch holds no way back for this binary file")
    })?;
    let at = |mut unfit: Unfit| {
        unfit.line_in_patch = Some(change.line);
        unfit
    };
    if let Some(false) = job.old_id().and_then(|id| object::is_named(old, id))
        && job.op() != Op::Create
    {
        return Err(at(mismatch()));
    }
    let content = binary::result(change, old, options.max_binary)
        .map_err(|why| at(Unfit::new(Code::BinaryCorrupt, why)))?;
    let to_full = job.new_id().filter(|id| job.op() != Op::Delete && object::is_full(id));
    if to_full.is_some_and(|id| object::is_named(&content, id) == Some(false)) {
        let message = "the binary data does not make the content that the patch announces";
        return Err(at(Unfit::new(Code::BinaryCorrupt, message)));
    }
    if job.op() != Op::Create && !is_known(job, old) {
        check_way_back(old, &content, back, options).map_err(at)?;
    }
    Ok(Made { content, ..Made::default() })
}

fn mismatch() -> Unfit {
    let message = "the binary file is not the one the patch was made from";
    Unfit::new(Code::BinaryMismatch, message)
}

/// Without a full id, the old content is right if the patch's own way back leads to it.
fn check_way_back(
    old: &[u8],
    new: &[u8],
    back: Option<&Binary<'_>>,
    options: &ApplyOptions,
) -> Result<(), Unfit> {
    let Some(back) = back else {
        let message = "nothing tells whether the binary file is the one the patch was made from";
        return Err(Unfit::new(Code::BinaryUnverified, message)
            .hint("make the patch with `git diff --binary --full-index`"));
    };
    let again = binary::result(back, new, options.max_binary);
    if again.is_ok_and(|again| again == old) { Ok(()) } else { Err(mismatch()) }
}

fn too_large() -> Vec<Unfit> {
    vec![Unfit::new(Code::FileTooLarge, "the file is larger than 4 GiB")]
}

fn manner(options: &ApplyOptions) -> Manner {
    Manner { reverse: options.reverse, zero_context: options.zero_context }
}

fn from_lines(
    hunks: &[Hunk<'_>],
    old: &[u8],
    options: &ApplyOptions,
    budget: &mut Budget,
) -> Result<Made, Vec<Unfit>> {
    let mut target = Target::new(old).ok_or_else(too_large)?;
    let fitted = lines::fit(hunks, &mut target, manner(options), budget);
    if fitted.is_complete() {
        return Ok(Made {
            content: lines::spliced(hunks, &target, &fitted, options.reverse),
            hunks: lines::outcomes(hunks, &fitted, options.reverse),
            merged: false,
        });
    }
    let numbered = oriented(hunks, options.reverse).zip(&fitted.places).zip(1..);
    Err(numbered
        .filter_map(|((hunk, place), number)| {
            place.as_ref().err().map(|miss| explained(&hunk, number, *miss, &target))
        })
        .collect())
}

/// Why a hunk has no place, with what stands where it says.
fn explained(hunk: &Oriented<'_, '_>, number: u64, miss: Miss, target: &Target<'_>) -> Unfit {
    if miss == Miss::OutOfBudget {
        let message = "too many lines were compared already to look for this hunk";
        return Unfit::new(Code::SearchLimit, message).at(number, hunk);
    }
    let difference = first_difference(hunk, target);
    let (message, expected, found) = match difference {
        Some((place, line)) => (
            "the lines that the hunk needs do not stand in the file",
            Some(shown(line, SHOWN)),
            target.line(place).map(|line| shown(line, SHOWN)),
        ),
        None => {
            let behind = hunk.stated() + hunk.old_count();
            let message = "the hunk needs the beginning or the end of the file, or lines that \
                           another hunk has taken";
            (message, None, target.line(behind).map(|line| shown(line, SHOWN)))
        }
    };
    let mut unfit = Unfit::new(Code::ContextMismatch, message).at(number, hunk);
    (unfit.expected, unfit.found) = (expected, found);
    unfit.hint(if is_there_already(hunk, target) {
        "the new lines stand there already: was the patch applied before?"
    } else {
        "make the patch anew from the file as it is, or ask for a merge in three ways"
    })
}

/// Applies the hunks to the content they were made from, and merges the result with the file.
pub(crate) fn merge(
    job: &Job<'_, '_>,
    current: &[u8],
    base: Option<&[u8]>,
    unfits: Vec<Unfit>,
    options: &ApplyOptions,
    budget: &mut Budget,
) -> Result<Made, Vec<Unfit>> {
    let named = |base: &&[u8]| job.old_id().is_some_and(|id| object::may_be(base, id));
    let Some(base) = base.filter(named) else { return Err(without_base(unfits)) };
    let hunks = job.file.hunks();
    let mut base = Target::new(base).ok_or_else(too_large)?;
    let fitted = lines::fit(hunks, &mut base, manner(options), budget);
    if !fitted.is_complete() {
        return Err(without_base(unfits));
    }
    let current = Target::new(current).ok_or_else(too_large)?;
    match merge::merge(&base, &current, hunks, &fitted, options.reverse) {
        Ok(content) => {
            let hunks = lines::outcomes(hunks, &fitted, options.reverse);
            Ok(Made { content, hunks, merged: true })
        }
        Err(clashes) => {
            Err(clashes.iter().map(|clash| conflicting(clash, hunks, options)).collect())
        }
    }
}

fn without_base(unfits: Vec<Unfit>) -> Vec<Unfit> {
    let hint = "a merge needs the content the patch was made from, and it is not known here";
    unfits.into_iter().map(|unfit| unfit.hint(hint)).collect()
}

fn conflicting(clash: &Clash, hunks: &[Hunk<'_>], options: &ApplyOptions) -> Unfit {
    let current = clash.conflict.current;
    let message = match current.end.checked_sub(current.start) {
        None => format!("lines were removed before line {} that the patch changes", current.start),
        Some(0) => format!("line {} was changed in another way", current.start),
        Some(_) => format!("lines {}-{} were changed in another way", current.start, current.end),
    };
    let mut unfit = Unfit::new(Code::MergeConflict, message)
        .hint("settle these lines by hand, and make the patch anew");
    let hunk =
        usize::try_from(clash.hunk).ok().and_then(|number| hunks.get(number.checked_sub(1)?));
    if let Some(hunk) = hunk {
        unfit = unfit.at(clash.hunk, &Oriented { hunk, reverse: options.reverse });
    }
    unfit.conflict = Some(clash.conflict);
    unfit
}
