//! Telling diffs: numbers for programs, a table for terminals, a page for browsers.
//!
//! The input is what `git diff --full-index --binary -M` writes, read with
//! [`Diff::read`](crate::Diff::read). Same diff, same bytes. Names and contents are strangers' text:
//! wherever they are shown, characters that act on what shows them are shown by their numbers.

mod html;
mod table;

pub use html::{HtmlOptions, write_html};
pub use table::{write_table, write_text};

use serde::Serialize;

use crate::diff::{Body, Diff, FilePatch, Op};
use crate::mode::Mode;
use crate::name::Name;

/// A diff in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub files: Vec<FileReport>,
    pub totals: ReportTotals,
}

/// One file of a diff. A file that becomes a link is told as git does: deleted, then new.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileReport {
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub status: Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_mode: Option<Mode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_mode: Option<Mode>,
    /// Per cent, of a rename or copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub similarity: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_id: Option<String>,
    pub binary: bool,
    pub submodule: bool,
    pub hunks: u64,
    pub added: u64,
    pub removed: u64,
}

/// What happened to a file, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Status {
    New,
    Deleted,
    Changed,
    Renamed,
    Copied,
    /// Only the mode.
    Mode,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::New => "new",
            Status::Deleted => "deleted",
            Status::Changed => "changed",
            Status::Renamed => "renamed",
            Status::Copied => "copied",
            Status::Mode => "mode",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportTotals {
    pub files: u64,
    pub new: u64,
    pub deleted: u64,
    pub renamed: u64,
    pub copied: u64,
    /// Files whose mode changed, whatever else did.
    pub mode_changes: u64,
    pub binary: u64,
    pub hunks: u64,
    pub added: u64,
    pub removed: u64,
}

impl Report {
    pub fn of(diff: &Diff<'_>) -> Report {
        let files: Vec<FileReport> = diff.files().iter().map(FileReport::of).collect();
        let totals = files.iter().fold(ReportTotals::default(), ReportTotals::with);
        Report { files, totals }
    }
}

impl FileReport {
    fn of(file: &FilePatch<'_>) -> FileReport {
        let text = |name: &Name<'_>| String::from_utf8_lossy(name.bytes()).into_owned();
        let moved = matches!(file.op, Op::Rename | Op::Copy);
        let (added, removed) = file.counts();
        FileReport {
            path: file.name().map(text).unwrap_or_default(),
            from: file.old.as_ref().filter(|_| moved).map(text),
            status: status(file),
            old_mode: file.old_mode,
            new_mode: file.new_mode,
            similarity: file.similarity,
            old_id: file.old_id.map(str::to_owned),
            new_id: file.new_id.map(str::to_owned),
            binary: file.is_binary(),
            submodule: file.is_submodule(),
            hunks: file.hunks().len() as u64,
            added,
            removed,
        }
    }
}

fn status(file: &FilePatch<'_>) -> Status {
    match file.op {
        Op::Create => Status::New,
        Op::Delete => Status::Deleted,
        Op::Rename => Status::Renamed,
        Op::Copy => Status::Copied,
        Op::Modify if matches!(file.body, Body::Nothing) => Status::Mode,
        Op::Modify => Status::Changed,
    }
}

impl ReportTotals {
    fn with(self, file: &FileReport) -> ReportTotals {
        let is = |status| u64::from(file.status == status);
        ReportTotals {
            files: self.files + 1,
            new: self.new + is(Status::New),
            deleted: self.deleted + is(Status::Deleted),
            renamed: self.renamed + is(Status::Renamed),
            copied: self.copied + is(Status::Copied),
            mode_changes: self.mode_changes + u64::from(changes_mode(file.old_mode, file.new_mode)),
            binary: self.binary + u64::from(file.binary),
            hunks: self.hunks + file.hunks,
            added: self.added + file.added,
            removed: self.removed + file.removed,
        }
    }

    /// `2 files changed, 3 lines added, 1 line removed`.
    fn sentence(&self) -> String {
        let count = |count: u64, what: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{count} {what}{plural}")
        };
        format!(
            "{} changed, {} added, {} removed",
            count(self.files, "file"),
            count(self.added, "line"),
            count(self.removed, "line"),
        )
    }
}

fn totals(diff: &Diff<'_>) -> ReportTotals {
    diff.files().iter().map(FileReport::of).fold(ReportTotals::default(), |sum, f| sum.with(&f))
}

fn changes_mode(old: Option<Mode>, new: Option<Mode>) -> bool {
    old.zip(new).is_some_and(|(old, new)| old != new)
}

/// What a name and numbers do not say about a file, one sentence each.
fn notes(file: &FilePatch<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let (Op::Rename | Op::Copy, Some(from)) = (file.op, &file.old) {
        let how = file.similarity.map(|percent| format!(", {percent} % the same"));
        notes.push(format!("from {}{}", from.shown(), how.unwrap_or_default()));
    }
    match (file.old_mode, file.new_mode) {
        (Some(old), Some(new)) if old != new => notes.push(format!("mode {old}, now {new}")),
        (None, Some(mode)) | (Some(mode), None) if mode != Mode::Plain => {
            notes.push(format!("mode {mode}"));
        }
        _ => {}
    }
    if file.is_binary() {
        notes.push("binary".to_owned());
    }
    if file.is_submodule() {
        notes.push("submodule".to_owned());
    }
    notes
}
