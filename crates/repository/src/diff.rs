//! What differs between two trees.

use std::io::Write;

use countersign_model::Failure;
use serde::{Deserialize, Serialize};

use crate::complaint::unwritten;
use crate::id::ObjectId;
use crate::leash::Leash;
use crate::parse::{self, RawChange, Side, Status};
use crate::path;
use crate::run::Call;
use crate::worktree::Worktree;

/// The most that a list of changes may take.
const LIST: usize = 256 << 20;

/// The most that named paths may take on a command line.
const NAMES: usize = 1 << 20;

/// Everything that configuration could otherwise decide, spelt out.
const EXACT: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-relative",
    "--ignore-submodules=none",
    "--submodule=short",
    "--find-renames=50%",
    // More candidates than this are compared by identity alone.
    "-l1000",
];

const PATCH: &[&str] = &[
    "--patch",
    "--full-index",
    "--binary",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--diff-algorithm=myers",
    "--indent-heuristic",
    "--unified=3",
    "--inter-hunk-context=0",
];

/// One path that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub path: String,
    /// Where a renamed file was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Side>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Side>,
    /// How much of a renamed file is the same, in percent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<u8>,
}

/// How many lines of one path differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineCount {
    pub path: String,
    /// Added and deleted lines; `None` for a binary file.
    pub lines: Option<(u64, u64)>,
}

impl Worktree {
    /// Every path that differs between two trees or commits, in git's order, with renames found.
    /// A name that is not UTF-8 is an error, `PATH_NOT_UTF8`.
    pub fn changed(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Vec<Change>, Failure> {
        self.changes(from, to, EXACT, leash)
    }

    /// The same, with a renamed file as one deleted and one added.
    pub(crate) fn changed_paths(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Vec<Change>, Failure> {
        self.changes(from, to, &["--no-renames", "--ignore-submodules=none"], leash)
    }

    fn changes(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        how: &[&str],
        leash: &mut Leash<'_>,
    ) -> Result<Vec<Change>, Failure> {
        let call = self.diff_tree(from, to, &[how, &["--raw", "--no-abbrev", "-z"]].concat(), &[]);
        let output = call.bytes(leash, LIST);
        let output = self.diagnose(output, leash)?;
        let changes = parse::raw_changes(&output).ok_or_else(unreadable)?;
        changes.into_iter().map(Change::read).collect()
    }

    /// The full unified diff between two trees or commits, as it comes; of the named files and
    /// directories, or of everything if none is named. Equal trees give no bytes.
    pub fn diff(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        paths: &[String],
        out: &mut dyn Write,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        check_all(paths)?;
        let call = self.diff_tree(from, to, &[EXACT, PATCH].concat(), paths);
        self.write_out(call, out, leash)
    }

    fn write_out(
        &self,
        call: Call,
        out: &mut dyn Write,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let ending = call.run(leash, &mut |piece| out.write_all(piece).map_err(|e| unwritten(&e)));
        let done = ending.and_then(crate::run::Ending::success);
        self.diagnose(done, leash)
    }

    /// The full diff with a renamed file as one deleted and one added, so that the part of each path
    /// is what a diff of that path alone would be.
    pub fn diff_by_path(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        out: &mut dyn Write,
        leash: &mut Leash<'_>,
    ) -> Result<(), Failure> {
        let call = self.diff_tree(from, to, &[EXACT, PATCH, &["--no-renames"]].concat(), &[]);
        self.write_out(call, out, leash)
    }

    /// How many lines differ, path by path.
    pub fn line_counts(
        &self,
        from: &ObjectId,
        to: &ObjectId,
        leash: &mut Leash<'_>,
    ) -> Result<Vec<LineCount>, Failure> {
        let call = self.diff_tree(from, to, &[EXACT, &["--numstat", "-z"]].concat(), &[]);
        let output = call.bytes(leash, LIST);
        let output = self.diagnose(output, leash)?;
        let counts = parse::raw_counts(&output).ok_or_else(unreadable)?;
        counts
            .into_iter()
            .map(|count| Ok(LineCount { path: path::text(count.path)?, lines: count.lines }))
            .collect()
    }

    fn diff_tree(&self, from: &ObjectId, to: &ObjectId, how: &[&str], paths: &[String]) -> Call {
        let (from, to) = (from.to_string(), to.to_string());
        let mut arguments = vec!["diff-tree", "-r"];
        arguments.extend(how);
        arguments.extend([from.as_str(), to.as_str(), "--"]);
        arguments.extend(paths.iter().map(String::as_str));
        self.git.call(arguments)
    }
}

impl Change {
    fn read(raw: RawChange<'_>) -> Result<Self, Failure> {
        let RawChange { status, similarity, old, new, from, path } = raw;
        let (path, from) = (path::text(path)?, from.map(path::text).transpose()?);
        Ok(Change { path, from, status, old, new, similarity })
    }
}

fn check_all(paths: &[String]) -> Result<(), Failure> {
    if paths.iter().map(|path| path.len() + 1).sum::<usize>() > NAMES {
        return Err(Failure::validation("PATHS_TOO_MANY", "too many paths are named at once")
            .hint("name directories, or nothing for everything"));
    }
    paths.iter().try_for_each(|path| path::check(path))
}

fn unreadable() -> Failure {
    Failure::execution("GIT_FAILED", "git told of changes in a way that is not understood")
}
