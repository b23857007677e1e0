//! What the bytes of a diff say, as slices of them.

use memchr::memchr;
use serde::Serialize;

use crate::mode::Mode;
use crate::name::Name;
use crate::problem::Refusal;
use crate::read::{self, ReadOptions};

/// A diff that was read, but not judged: enough to tell it, not to apply it.
#[derive(Debug, Clone)]
pub struct Diff<'a> {
    pub(crate) source: &'a [u8],
    pub(crate) files: Vec<FilePatch<'a>>,
}

impl<'a> Diff<'a> {
    /// Reads the output of `git diff`, `git format-patch` or `diff -u`.
    pub fn read(source: &'a [u8], options: &ReadOptions) -> Result<Diff<'a>, Refusal> {
        read::read(source, options)
    }

    pub fn source(&self) -> &'a [u8] {
        self.source
    }

    pub fn files(&self) -> &[FilePatch<'a>] {
        &self.files
    }
}

/// What a patch does to one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Op {
    Create,
    Delete,
    Modify,
    Rename,
    Copy,
}

/// The part of a diff about one file.
#[derive(Debug, Clone)]
pub struct FilePatch<'a> {
    /// The line in the patch where it begins, from 1.
    pub line: u64,
    pub op: Op,
    /// None when the file is new.
    pub old: Option<Name<'a>>,
    /// None when the file is deleted.
    pub new: Option<Name<'a>>,
    pub old_mode: Option<Mode>,
    pub new_mode: Option<Mode>,
    /// Per cent, of a rename or copy.
    pub similarity: Option<u8>,
    /// The names of the contents before and after, maybe shortened.
    pub old_id: Option<&'a str>,
    pub new_id: Option<&'a str>,
    pub body: Body<'a>,
}

impl<'a> FilePatch<'a> {
    /// The name after the change, or before it when nothing is left.
    pub fn name(&self) -> Option<&Name<'a>> {
        self.new.as_ref().or(self.old.as_ref())
    }

    pub fn hunks(&self) -> &[Hunk<'a>] {
        match &self.body {
            Body::Text(hunks) => hunks,
            _ => &[],
        }
    }

    pub fn is_binary(&self) -> bool {
        matches!(self.body, Body::Binary { .. } | Body::BinaryWithoutData)
    }

    pub fn is_submodule(&self) -> bool {
        [self.old_mode, self.new_mode].contains(&Some(Mode::Submodule))
    }

    /// Lines added and removed.
    pub fn counts(&self) -> (u64, u64) {
        let hunks = self.hunks().iter();
        hunks.fold((0, 0), |(added, removed), h| (added + h.added(), removed + h.removed()))
    }
}

/// How the content changes.
#[derive(Debug, Clone)]
pub enum Body<'a> {
    /// Not at all: only the name or the mode does.
    Nothing,
    Text(Vec<Hunk<'a>>),
    Binary {
        forward: Binary<'a>,
        backward: Option<Binary<'a>>,
    },
    /// "Binary files differ", and no word about how.
    BinaryWithoutData,
}

/// One hunk. Small on purpose: a large patch has many.
#[derive(Debug, Clone, Copy)]
pub struct Hunk<'a> {
    pub(crate) line: u32,
    pub(crate) old_start: u32,
    pub(crate) old_count: u32,
    pub(crate) new_start: u32,
    pub(crate) new_count: u32,
    pub(crate) added: u32,
    /// Lines of context after the last change.
    pub(crate) trailing: u32,
    /// The header and everything below it.
    pub(crate) text: &'a [u8],
}

impl<'a> Hunk<'a> {
    /// The line in the patch, from 1.
    pub fn line(&self) -> u64 {
        self.line.into()
    }

    /// The stated first line before the change, from 1; 0 for an empty file.
    pub fn old_start(&self) -> u64 {
        self.old_start.into()
    }

    pub fn old_count(&self) -> u64 {
        self.old_count.into()
    }

    pub fn new_start(&self) -> u64 {
        self.new_start.into()
    }

    pub fn new_count(&self) -> u64 {
        self.new_count.into()
    }

    pub fn added(&self) -> u64 {
        self.added.into()
    }

    pub fn removed(&self) -> u64 {
        // What is neither added nor context stands on both sides.
        (self.old_count() + self.added()).saturating_sub(self.new_count())
    }

    /// The line that begins with `@@`.
    pub fn header(&self) -> &'a [u8] {
        self.parts().0
    }

    pub fn lines(&self) -> HunkLines<'a> {
        HunkLines { rest: self.parts().1 }
    }

    fn parts(&self) -> (&'a [u8], &'a [u8]) {
        let end = memchr(b'\n', self.text).map_or(self.text.len(), |at| at + 1);
        self.text.split_at_checked(end).unwrap_or((self.text, &[]))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Context,
    Removed,
    Added,
}

/// A line of a hunk with its newline, unless the file has none there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HunkLine<'a> {
    pub kind: LineKind,
    pub content: &'a [u8],
}

/// The lines of a hunk that was read, so every line is one of the three kinds.
#[derive(Debug, Clone)]
pub struct HunkLines<'a> {
    rest: &'a [u8],
}

impl<'a> HunkLines<'a> {
    fn take_line(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = memchr(b'\n', self.rest).map_or(self.rest.len(), |at| at + 1);
        let (line, rest) = self.rest.split_at_checked(end)?;
        self.rest = rest;
        Some(line)
    }
}

impl<'a> Iterator for HunkLines<'a> {
    type Item = HunkLine<'a>;

    fn next(&mut self) -> Option<HunkLine<'a>> {
        let line = self.take_line()?;
        let (kind, mut content) = match line.split_first()? {
            (b'+', content) => (LineKind::Added, content),
            (b'-', content) => (LineKind::Removed, content),
            (b' ', content) => (LineKind::Context, content),
            // An empty line of context that lost its space on the way.
            _ => (LineKind::Context, line),
        };
        if self.rest.first() == Some(&b'\\') {
            self.take_line();
            content = content.strip_suffix(b"\n").unwrap_or(content);
        }
        Some(HunkLine { kind, content })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryKind {
    Literal,
    Delta,
}

/// One direction of a binary change, still encoded.
#[derive(Debug, Clone, Copy)]
pub struct Binary<'a> {
    /// The line in the patch, from 1.
    pub line: u64,
    pub kind: BinaryKind,
    /// The announced size of what was compressed.
    pub size: u64,
    pub(crate) data: &'a [u8],
}
