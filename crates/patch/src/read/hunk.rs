//! Hunks of lines.

use crate::code::Code;
use crate::diff::Hunk;
use crate::problem::Problem;
use crate::read::lines::Lines;

/// Start and count, before and after.
pub(crate) struct Ranges {
    old: (u32, u32),
    new: (u32, u32),
}

/// Reads `@@ -1,2 +3,4 @@`, whatever follows it.
pub(crate) fn read_ranges(line: &[u8]) -> Option<Ranges> {
    let (old, rest) = read_range(line.strip_prefix(b"@@ -")?)?;
    let (new, rest) = read_range(rest.strip_prefix(b" +")?)?;
    rest.starts_with(b" @@").then_some(Ranges { old, new })
}

fn read_range(text: &[u8]) -> Option<((u32, u32), &[u8])> {
    let (start, rest) = read_number(text)?;
    let (count, rest) = match rest.strip_prefix(b",") {
        Some(rest) => read_number(rest)?,
        None => (1, rest),
    };
    // Lines are counted from one; only where none are taken may the place be before the first.
    (start > 0 || count == 0).then_some(((start, count), rest))
}

fn read_number(text: &[u8]) -> Option<(u32, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at_checked(digits)?;
    Some((std::str::from_utf8(number).ok()?.parse().ok()?, rest))
}

pub(crate) fn read<'a>(lines: &mut Lines<'a>) -> Result<Hunk<'a>, Problem> {
    let start = *lines;
    let ranges = read_ranges(start.line().unwrap_or_default()).ok_or_else(|| {
        Problem::new(
            Code::HunkHeaderMalformed,
            start.line_number(),
            "the hunk's header is malformed",
        )
        .hint("it reads `@@ -START,COUNT +START,COUNT @@`, with lines counted from 1")
    })?;
    lines.advance();
    let mut body = HunkBody::new(&ranges);
    while body.is_open() {
        body.take(lines)?;
    }
    if lines.starts_with(b"\\") {
        body.take(lines)?;
    }
    Ok(Hunk {
        line: start.number(),
        old_start: ranges.old.0,
        old_count: ranges.old.1,
        new_start: ranges.new.0,
        new_count: ranges.new.1,
        added: body.added,
        trailing: body.trailing,
        text: lines.since(&start),
    })
}

/// Counts down what the header announced.
struct HunkBody {
    old_left: u32,
    new_left: u32,
    added: u32,
    trailing: u32,
    /// Sides that were said to end without a newline.
    old_ended: bool,
    new_ended: bool,
    last: u8,
}

impl HunkBody {
    fn new(ranges: &Ranges) -> HunkBody {
        HunkBody {
            old_left: ranges.old.1,
            new_left: ranges.new.1,
            added: 0,
            trailing: 0,
            old_ended: false,
            new_ended: false,
            last: 0,
        }
    }

    fn is_open(&self) -> bool {
        self.old_left > 0 || self.new_left > 0
    }

    #[inline]
    fn take(&mut self, lines: &mut Lines<'_>) -> Result<(), Problem> {
        let line = lines.line().unwrap_or_default();
        let kind = if line == b"\n" { b' ' } else { line.first().copied().unwrap_or(0) };
        let fits = line.ends_with(b"\n")
            && match kind {
                b' ' => self.old_left > 0 && self.new_left > 0,
                b'-' => self.old_left > 0,
                b'+' => self.new_left > 0,
                b'\\' => line.starts_with(b"\\ ") && line.len() >= 12,
                _ => false,
            };
        if !fits {
            return Err(unfit(lines, kind));
        }
        if !self.count(kind) {
            let message =
                "the end of the file is marked, but more lines follow or none came before";
            return Err(Problem::new(Code::MarkerMisplaced, lines.line_number(), message));
        }
        self.last = kind;
        lines.advance();
        Ok(())
    }

    /// Counts a line; false when it stands behind the end of its file.
    #[inline]
    fn count(&mut self, kind: u8) -> bool {
        let (old, new) = (matches!(kind, b' ' | b'-'), matches!(kind, b' ' | b'+'));
        if kind == b'\\' {
            let (old, new) = (matches!(self.last, b' ' | b'-'), matches!(self.last, b' ' | b'+'));
            self.old_ended |= old;
            self.new_ended |= new;
            return old || new;
        }
        self.old_left -= u32::from(old);
        self.new_left -= u32::from(new);
        if kind == b' ' {
            self.trailing += 1;
        } else {
            self.trailing = 0;
            self.added += u32::from(kind == b'+');
        }
        !(old && self.old_ended || new && self.new_ended)
    }
}

fn unfit(lines: &Lines<'_>, kind: u8) -> Problem {
    let at = lines.line_number();
    let message = match lines.line() {
        None => "the patch ends in the middle of a hunk",
        Some(line) if !line.ends_with(b"\n") => "the patch ends in the middle of a line",
        Some(_) if matches!(kind, b' ' | b'-' | b'+') => {
            "the hunk has more lines of this kind than its header says"
        }
        Some(_) => "the hunk has fewer lines than its header says",
    };
    let code = match kind {
        b' ' | b'-' | b'+' if lines.line().is_some_and(|line| line.ends_with(b"\n")) => {
            Code::HunkTooLong
        }
        _ => Code::HunkTooShort,
    };
    Problem::new(code, at, message)
        .hint("correct the numbers between the two `@@`, and end the patch with a newline")
}

/// Hunks of one file follow each other: that makes one pass over the file enough.
pub(crate) fn check_order(last: &Hunk<'_>, next: &Hunk<'_>) -> Result<(), Problem> {
    let begins = |start: u32, count: u32| u64::from(start) - u64::from(count > 0);
    let ends = |start, count| begins(start, count) + u64::from(count);
    let in_order = ends(last.old_start, last.old_count) <= begins(next.old_start, next.old_count)
        && ends(last.new_start, last.new_count) <= begins(next.new_start, next.new_count);
    if in_order {
        return Ok(());
    }
    let message = "the hunk begins before the one above it ends";
    Err(Problem::new(Code::HunksOutOfOrder, next.line(), message)
        .hint("sort the hunks of a file by line, and join those that overlap"))
}
