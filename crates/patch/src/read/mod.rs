//! From bytes to a [`Diff`]. One pass, nothing is copied, every file that is wrong is told.

mod binary;
mod header;
mod hunk;
mod lines;

use crate::code::Code;
use crate::diff::{Body, Diff, FilePatch, Op};
use crate::problem::{Problem, Problems, Refusal};
use header::Header;
use lines::Lines;

/// How a diff is to be read.
#[derive(Debug, Clone, Copy)]
pub struct ReadOptions {
    /// How many parts are dropped from the front of names, as `-p` of git: `a/` and `b/`.
    pub strip: usize,
    /// Whether input without any change is a diff. `git diff` says nothing when nothing changed.
    pub allow_empty: bool,
    /// The largest binary content or delta, once it is inflated.
    pub max_binary: u64,
    /// How many problems are told at most.
    pub max_problems: usize,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { strip: 1, allow_empty: false, max_binary: 256 << 20, max_problems: 100 }
    }
}

pub(crate) fn read<'a>(source: &'a [u8], options: &ReadOptions) -> Result<Diff<'a>, Refusal> {
    let mut problems = Problems::new(options.max_problems);
    if u32::try_from(source.len()).is_err() {
        problems.add(Problem::new(Code::NoPatch, 1, "the patch is larger than 4 GiB"));
        return problems.into_result(Diff { source, files: Vec::new() });
    }
    let mut reader = Reader { lines: Lines::new(source), options, after_problem: false };
    let mut files = Vec::new();
    while reader.lines.line().is_some() {
        let before = reader.lines.number();
        let step = reader.step();
        if reader.lines.number() == before {
            reader.lines.advance();
        }
        match step {
            Ok(file) => files.extend(file),
            Err(problem) => {
                reader.after_problem = true;
                problems.add(problem);
            }
        }
    }
    let nothing = files.is_empty() && !reader.after_problem;
    if nothing && !(options.allow_empty && source.trim_ascii().is_empty()) {
        problems.add(
            Problem::new(Code::NoPatch, 1, "nothing in here is a patch")
                .hint("send a unified diff, as `git diff` or `diff -u` write it"),
        );
    }
    problems.into_result(Diff { source, files })
}

pub(crate) struct Reader<'a, 'o> {
    lines: Lines<'a>,
    options: &'o ReadOptions,
    /// What follows something malformed belongs to it, up to the next file.
    after_problem: bool,
}

impl<'a> Reader<'a, '_> {
    /// Reads a file, or passes a line that is not part of one: mail headers, messages, signatures.
    fn step(&mut self) -> Result<Option<FilePatch<'a>>, Problem> {
        if self.lines.starts_with(b"diff --git ") {
            return self.git_file().map(Some);
        }
        if self.at_plain_header() {
            return self.plain_file().map(Some);
        }
        let told = self.after_problem || !self.is_stray();
        let line = self.lines;
        self.lines.advance();
        if told { Ok(None) } else { Err(stray(&line)) }
    }

    fn is_stray(&self) -> bool {
        let line = self.lines.header().unwrap_or_default();
        line.starts_with(b"diff --cc ")
            || line.starts_with(b"diff --combined ")
            || (line.starts_with(b"Binary files ") && line.ends_with(b" differ"))
            || hunk::read_ranges(line).is_some()
    }

    /// `---` followed by `+++`: one alone is prose or a signature.
    fn at_plain_header(&self) -> bool {
        self.lines.starts_with(b"--- ") && self.lines.next().starts_with(b"+++ ")
    }

    fn git_file(&mut self) -> Result<FilePatch<'a>, Problem> {
        self.after_problem = false;
        let header = Header::read_git(&mut self.lines, self.options)?;
        let body = self.body()?;
        header.into_file(body)
    }

    fn plain_file(&mut self) -> Result<FilePatch<'a>, Problem> {
        self.after_problem = false;
        let header = Header::read_plain(&mut self.lines, self.options)?;
        let body = self.body()?;
        header.into_file(body)
    }

    fn body(&mut self) -> Result<Body<'a>, Problem> {
        if self.lines.starts_with(b"@@ -") {
            return self.text().map(Body::Text);
        }
        match self.lines.header() {
            Some(b"GIT binary patch") => {
                self.lines.advance();
                binary::read(&mut self.lines, self.options.max_binary)
            }
            Some(line) if line.starts_with(b"Binary files ") && line.ends_with(b" differ") => {
                self.lines.advance();
                Ok(Body::BinaryWithoutData)
            }
            _ => Ok(Body::Nothing),
        }
    }

    fn text(&mut self) -> Result<Vec<crate::diff::Hunk<'a>>, Problem> {
        let mut hunks = Vec::new();
        while self.lines.starts_with(b"@@ -") {
            let next = hunk::read(&mut self.lines)?;
            if let Some(last) = hunks.last() {
                hunk::check_order(last, &next)?;
            }
            hunks.push(next);
        }
        self.check_end()?;
        Ok(hunks)
    }

    /// A line that looks like one of the hunk, but was not announced, would be lost in silence.
    fn check_end(&self) -> Result<(), Problem> {
        let Some(line) = self.lines.header() else { return Ok(()) };
        let more = matches!(line.first(), Some(b' ' | b'+' | b'-' | b'\\'));
        if !more || matches!(line, b"-- " | b"--") || self.at_plain_header() {
            return Ok(());
        }
        let message = "the hunk above has more lines than its header says";
        Err(Problem::new(Code::HunkTooLong, self.lines.line_number(), message)
            .hint("correct the numbers between the two `@@`"))
    }
}

fn stray(line: &Lines<'_>) -> Problem {
    let at = line.line_number();
    if line.starts_with(b"diff --c") {
        return Problem::new(Code::CombinedDiff, at, "the diff of a merge cannot be read")
            .hint("make a diff against one parent: `git diff FROM TO`");
    }
    if line.starts_with(b"Binary") {
        return Problem::new(Code::BinaryDataMissing, at, "binary files differ, nobody says how")
            .hint("make the patch with `git diff --binary`");
    }
    Problem::new(Code::HunkWithoutFile, at, "a hunk stands here without the name of its file")
        .hint("write `--- a/NAME` and `+++ b/NAME` above it")
}

impl Op {
    /// What must not stand in the hunks of a file that is new or goes away.
    fn contradiction(self, body: &Body<'_>) -> Option<(u64, &'static str)> {
        let Body::Text(hunks) = body else { return None };
        let wrong = hunks.iter().find(|hunk| match self {
            Op::Create => hunk.old_count > 0,
            Op::Delete => hunk.new_count > 0,
            _ => false,
        })?;
        let message = match self {
            Op::Create => "the file is new, but the hunk has old lines",
            _ => "the file is deleted, but the hunk has new lines",
        };
        Some((wrong.line(), message))
    }
}
