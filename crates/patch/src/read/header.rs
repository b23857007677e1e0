//! The headers above a file's changes.

use crate::code::Code;
use crate::diff::{Body, FilePatch, Op};
use crate::mode::Mode;
use crate::name::{self, Name};
use crate::problem::Problem;
use crate::read::ReadOptions;
use crate::read::lines::Lines;
use crate::text::shown;

/// Longer than any path that a system takes, in quotes, twice.
const MAX_HEADER: usize = 40_000;

/// A side of `---` and `+++`.
#[derive(Debug)]
enum Side<'a> {
    /// `/dev/null`.
    Absent,
    Named {
        name: Name<'a>,
        /// `diff -N` gives a missing file the oldest of all times.
        oldest: bool,
    },
}

/// Everything the headers of one file said.
#[derive(Debug)]
pub(crate) struct Header<'a> {
    line: u64,
    is_git: bool,
    /// What both names of `diff --git` agree on.
    common: Option<Name<'a>>,
    minus: Option<Side<'a>>,
    plus: Option<Side<'a>>,
    rename_from: Option<Name<'a>>,
    rename_to: Option<Name<'a>>,
    copy_from: Option<Name<'a>>,
    copy_to: Option<Name<'a>>,
    old_mode: Option<Mode>,
    new_mode: Option<Mode>,
    created: Option<Mode>,
    deleted: Option<Mode>,
    index: Option<Index<'a>>,
    similarity: Option<u8>,
}

/// `index OLD..NEW MODE`.
#[derive(Debug)]
struct Index<'a> {
    old: &'a str,
    new: &'a str,
    mode: Option<Mode>,
}

impl<'a> Header<'a> {
    fn new(line: u64, is_git: bool) -> Header<'a> {
        Header {
            line,
            is_git,
            common: None,
            minus: None,
            plus: None,
            rename_from: None,
            rename_to: None,
            copy_from: None,
            copy_to: None,
            old_mode: None,
            new_mode: None,
            created: None,
            deleted: None,
            index: None,
            similarity: None,
        }
    }

    pub(crate) fn read_git(
        lines: &mut Lines<'a>,
        options: &ReadOptions,
    ) -> Result<Header<'a>, Problem> {
        let mut header = Header::new(lines.line_number(), true);
        let names = lines.after(b"diff --git ").unwrap_or_default();
        let readable = names.len() <= MAX_HEADER;
        header.common = readable.then(|| name::read_pair(names, options.strip)).flatten();
        lines.advance();
        while header.take_extended(lines, options)? {
            lines.advance();
        }
        if lines.starts_with(b"--- ") {
            header.take_sides(lines, options)?;
        }
        Ok(header)
    }

    pub(crate) fn read_plain(
        lines: &mut Lines<'a>,
        options: &ReadOptions,
    ) -> Result<Header<'a>, Problem> {
        let mut header = Header::new(lines.line_number(), false);
        header.take_sides(lines, options)?;
        Ok(header)
    }

    /// Reads one extended header; false when the line is something else.
    fn take_extended(&mut self, l: &Lines<'a>, options: &ReadOptions) -> Result<bool, Problem> {
        // Names in these lines have no `a/` in front, so one part fewer is dropped.
        let strip = options.strip.saturating_sub(1);
        let at = l.line_number();
        let mode = |value: &[u8]| read_mode(value, at);
        let name = |value: &'a [u8]| read_name(value, strip, at);
        let after = |key: &str| l.after(key.as_bytes());
        if let Some(value) = after("index ") {
            set(&mut self.index, read_index(value, at)?, at)
        } else if let Some(value) = after("old mode ") {
            set(&mut self.old_mode, mode(value)?, at)
        } else if let Some(value) = after("new mode ") {
            set(&mut self.new_mode, mode(value)?, at)
        } else if let Some(value) = after("new file mode ") {
            set(&mut self.created, mode(value)?, at)
        } else if let Some(value) = after("deleted file mode ") {
            set(&mut self.deleted, mode(value)?, at)
        } else if let Some(value) = after("rename from ") {
            set(&mut self.rename_from, name(value)?, at)
        } else if let Some(value) = after("rename to ") {
            set(&mut self.rename_to, name(value)?, at)
        } else if let Some(value) = after("copy from ") {
            set(&mut self.copy_from, name(value)?, at)
        } else if let Some(value) = after("copy to ") {
            set(&mut self.copy_to, name(value)?, at)
        } else if let Some(value) = after("similarity index ") {
            set(&mut self.similarity, read_percent(value, at)?, at)
        } else if let Some(value) = after("dissimilarity index ") {
            read_percent(value, at).map(|_| true)
        } else {
            Ok(false)
        }
    }

    fn take_sides(&mut self, lines: &mut Lines<'a>, options: &ReadOptions) -> Result<(), Problem> {
        let minus = read_side(lines, b"--- ", options.strip);
        // Also when it is wrong: nobody should take it for the beginning of another file.
        lines.advance();
        self.minus = Some(minus?);
        self.plus = Some(read_side(lines, b"+++ ", options.strip)?);
        lines.advance();
        if lines.starts_with(b"@@ ") {
            return Ok(());
        }
        let message = "names stand here, but no hunk follows them";
        Err(Problem::new(Code::HunkMissing, lines.line_number(), message))
    }

    fn malformed<T>(&self, message: &str) -> Result<T, Problem> {
        Err(Problem::new(Code::HeaderMalformed, self.line, message))
    }

    /// What is done to the file, said by at most one kind of header.
    fn op(&mut self, body: &Body<'a>) -> Result<Op, Problem> {
        let rename = self.rename_from.is_some() || self.rename_to.is_some();
        let copy = self.copy_from.is_some() || self.copy_to.is_some();
        let (created, deleted) = self.created_or_deleted(body);
        let said =
            [(created, Op::Create), (deleted, Op::Delete), (rename, Op::Rename), (copy, Op::Copy)];
        let mut said = said.into_iter().filter(|(is, _)| *is).map(|(_, op)| op);
        match (said.next(), said.next()) {
            (None, _) => Ok(Op::Modify),
            (Some(op), None) => Ok(op),
            _ => self.malformed("the headers say that two different things are done to the file"),
        }
    }

    fn created_or_deleted(&mut self, body: &Body<'a>) -> (bool, bool) {
        if self.is_git {
            return (self.created.is_some(), self.deleted.is_some());
        }
        let Body::Text(hunks) = body else { return (false, false) };
        let empty_before = hunks.iter().all(|hunk| hunk.old_count == 0 && hunk.old_start == 0);
        let empty_after = hunks.iter().all(|hunk| hunk.new_count == 0 && hunk.new_start == 0);
        (gone(&mut self.minus, empty_before), gone(&mut self.plus, empty_after))
    }

    /// The file's name before the change, on which all headers that say it must agree.
    fn old_name(&mut self, op: Op) -> Result<Option<Name<'a>>, Problem> {
        let from = self.rename_from.take().or(self.copy_from.take());
        let side = self.minus.take();
        self.agreed(op == Op::Create, matches!(op, Op::Rename | Op::Copy), from, side)
    }

    fn new_name(&mut self, op: Op) -> Result<Option<Name<'a>>, Problem> {
        let to = self.rename_to.take().or(self.copy_to.take());
        let side = self.plus.take();
        self.agreed(op == Op::Delete, matches!(op, Op::Rename | Op::Copy), to, side)
    }

    fn agreed(
        &self,
        absent: bool,
        moves: bool,
        said: Option<Name<'a>>,
        side: Option<Side<'a>>,
    ) -> Result<Option<Name<'a>>, Problem> {
        if moves && said.is_none() {
            return self.malformed("a rename or copy must say both names");
        }
        let common = if moves { None } else { self.common.clone() };
        let named = match (side, absent) {
            (Some(Side::Absent) | None, true) => return Ok(None),
            (Some(Side::Named { .. }), true) | (Some(Side::Absent), false) => {
                return self.disagree("`/dev/null` and the other headers say different things");
            }
            (Some(Side::Named { name, .. }), false) => Some(name),
            (None, false) => None,
        };
        let mut names = [said, named, common].into_iter().flatten();
        let first = names.next();
        if names.any(|other| Some(&other) != first.as_ref()) {
            return self.disagree("the headers of this file name different files");
        }
        match first {
            Some(name) => Ok(Some(name)),
            None => {
                Err(Problem::new(Code::NameMalformed, self.line, "no file name can be read here")
                    .hint("names stand as `a/NAME b/NAME`; see also the number of parts to strip"))
            }
        }
    }

    fn disagree<T>(&self, message: &str) -> Result<T, Problem> {
        Err(Problem::new(Code::NamesDiffer, self.line, message))
    }

    fn modes(&self, op: Op) -> Result<(Option<Mode>, Option<Mode>), Problem> {
        let same = self.index.as_ref().and_then(|index| index.mode);
        let (old, new) = match op {
            Op::Create => (None, self.created),
            Op::Delete => (self.deleted, None),
            _ => (self.old_mode.or(same), self.new_mode.or(same)),
        };
        if self.old_mode.is_some() != self.new_mode.is_some() {
            return self.malformed("a change of mode must say the old and the new mode");
        }
        let both = old.zip(new);
        if both.is_some_and(|(old, new)| !old.same_type(new)) {
            return self.malformed("a file cannot become a link, or a link a file, by its mode");
        }
        Ok((old, new))
    }

    /// Whether something must follow the headers: nothing else changes, or the ids say so.
    fn needs_body(&self, op: Op, same_mode: bool) -> bool {
        let differs = self.index.as_ref().is_some_and(|index| index.old != index.new);
        match op {
            Op::Modify => same_mode || differs,
            Op::Rename | Op::Copy => differs,
            Op::Create | Op::Delete => false,
        }
    }

    pub(crate) fn into_file(mut self, body: Body<'a>) -> Result<FilePatch<'a>, Problem> {
        let op = self.op(&body)?;
        let (old_mode, new_mode) = self.modes(op)?;
        let (old, new) = (self.old_name(op)?, self.new_name(op)?);
        if op == Op::Modify && old != new {
            return self.disagree("the old and the new name differ, and nothing says rename");
        }
        if let Some((line, message)) = op.contradiction(&body) {
            return Err(Problem::new(Code::OperationContradicted, line, message));
        }
        if matches!(body, Body::Nothing) && self.needs_body(op, old_mode == new_mode) {
            let message = "the headers name a file, but nothing says what changes in it";
            return Err(Problem::new(Code::HunkMissing, self.line, message));
        }
        let (old_id, new_id) = self.index.map(|index| (index.old, index.new)).unzip();
        let (line, similarity) = (self.line, self.similarity);
        Ok(FilePatch { line, op, old, new, old_mode, new_mode, similarity, old_id, new_id, body })
    }
}

/// Whether a side of a plain diff is no file; then it has no name either.
fn gone(side: &mut Option<Side<'_>>, empty: bool) -> bool {
    if matches!(side, Some(Side::Named { oldest: true, .. })) && empty {
        *side = Some(Side::Absent);
    }
    matches!(side, Some(Side::Absent))
}

fn set<T>(place: &mut Option<T>, value: T, line: u64) -> Result<bool, Problem> {
    match place.replace(value) {
        None => Ok(true),
        Some(_) => {
            Err(Problem::new(Code::HeaderMalformed, line, "the same header stands here twice"))
        }
    }
}

fn read_name<'a>(value: &'a [u8], strip: usize, line: u64) -> Result<Name<'a>, Problem> {
    let name = (value.len() <= MAX_HEADER).then(|| name::read(value)).flatten();
    name.and_then(|name| name.stripped(strip)).ok_or_else(|| bad_name(value, line))
}

fn bad_name(value: &[u8], line: u64) -> Problem {
    let message = format!("`{}` is not a file name once its prefix is gone", shown(value, 80));
    Problem::new(Code::NameMalformed, line, message)
        .hint("see the number of parts to strip: 1 for `a/NAME`, 0 for plain names")
}

fn read_side<'a>(lines: &Lines<'a>, key: &[u8], strip: usize) -> Result<Side<'a>, Problem> {
    let at = lines.line_number();
    let Some(value) = lines.after(key) else {
        let message = "`---` is not followed by `+++`";
        return Err(Problem::new(Code::HeaderMalformed, at, message));
    };
    let read = (value.len() <= MAX_HEADER).then(|| name::read_stamped(value)).flatten();
    let (name, stamp) = read.ok_or_else(|| bad_name(value, at))?;
    if name.bytes() == b"/dev/null" {
        return Ok(Side::Absent);
    }
    let oldest = stamp.starts_with(b"1970-01-01 ") || stamp.starts_with(b"1969-12-31 ");
    let name = name.stripped(strip).ok_or_else(|| bad_name(value, at))?;
    Ok(Side::Named { name, oldest })
}

fn read_mode(value: &[u8], line: u64) -> Result<Mode, Problem> {
    Mode::read(value).ok_or_else(|| {
        let message = format!("`{}` is no mode of a file", shown(value, 20));
        Problem::new(Code::ModeUnsupported, line, message)
            .hint("git knows 100644, 100755 and 120000")
    })
}

fn read_percent(value: &[u8], line: u64) -> Result<u8, Problem> {
    let digits = value.strip_suffix(b"%").and_then(|digits| std::str::from_utf8(digits).ok());
    digits.and_then(|digits| digits.parse().ok()).filter(|percent| *percent <= 100).ok_or_else(
        || Problem::new(Code::HeaderMalformed, line, "the similarity must be a percentage"),
    )
}

fn read_index(value: &[u8], line: u64) -> Result<Index<'_>, Problem> {
    let malformed = || {
        let message = "the index line must read `index OLD..NEW` and maybe a mode";
        Problem::new(Code::HeaderMalformed, line, message)
    };
    let text = std::str::from_utf8(value).map_err(|_| malformed())?;
    let (ids, mode) = match text.split_once(' ') {
        Some((ids, mode)) => (ids, Some(read_mode(mode.as_bytes(), line)?)),
        None => (text, None),
    };
    let (old, new) = ids.split_once("..").ok_or_else(malformed)?;
    let is_id = |id: &str| {
        (4..=64).contains(&id.len()) && id.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    if is_id(old) && is_id(new) { Ok(Index { old, new, mode }) } else { Err(malformed()) }
}
