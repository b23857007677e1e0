//! What comes of applying a patch.

use std::fmt;

use serde::Serialize;

use crate::code::Code;
use crate::diff::Op;
use crate::mode::Mode;

/// A patch that was applied completely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Applied {
    pub files: Vec<FileOutcome>,
    pub totals: Totals,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    pub files: u64,
    pub hunks: u64,
    pub added: u64,
    pub removed: u64,
    /// Hunks that were found at another line than the patch says.
    pub shifted: u64,
    /// Files that were merged in three ways.
    pub merged: u64,
}

/// What was done to one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileOutcome {
    pub path: String,
    /// The source of a rename or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub op: Op,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<Mode>,
    pub added: u64,
    pub removed: u64,
    pub binary: bool,
    /// Whether a hunk did not fit, and the file was merged in three ways.
    pub merged: bool,
    pub hunks: Vec<HunkOutcome>,
}

/// Where a hunk was applied. In a merged file, lines are those of the patch's own old content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HunkOutcome {
    /// From 1, in the file.
    pub number: u64,
    /// The line in the old content, from 1.
    pub line: u64,
    /// How far that is from the line the patch says.
    pub offset: i64,
    pub added: u64,
    pub removed: u64,
}

/// Why a patch was not applied.
#[derive(Debug)]
pub enum ApplyError<E> {
    /// It does not fit. The tree may hold a part of it, and should be thrown away.
    Rejected(Rejected),
    /// The tree could not be read or written.
    Tree(E),
}

impl<E> From<E> for ApplyError<E> {
    fn from(error: E) -> ApplyError<E> {
        ApplyError::Tree(error)
    }
}

/// Everything that does not fit, up to a cap, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejected {
    pub rejections: Vec<Rejection>,
    pub left_out: u64,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, rejection) in self.rejections.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{rejection}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}

/// One thing that does not fit: a hunk, or a file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejection {
    pub path: String,
    /// From 1, in the file; none when the file as a whole is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunk: Option<u64>,
    /// From 1.
    pub line_in_patch: u64,
    /// The line the hunk says it belongs to, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line_in_file: Option<u64>,
    pub code: Code,
    pub message: String,
    /// The first line that differs, as the patch has it and as it stands there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict: Option<Conflict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", crate::shown(self.path.as_bytes(), usize::MAX))?;
        if let Some(hunk) = self.hunk {
            write!(f, ", hunk {hunk}")?;
        }
        write!(f, ": {} ({}, line {} of the patch)", self.message, self.code, self.line_in_patch)
    }
}

/// Lines that two sides have changed differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Conflict {
    /// In the content the patch was made from.
    pub base: LineRange,
    /// In the file as it is now.
    pub current: LineRange,
}

/// Lines from 1; `end` is the last one, and before `start` when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LineRange {
    pub start: u64,
    pub end: u64,
}
