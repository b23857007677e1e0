//! Laying out a tree, byte for byte.

use std::fs;
use std::path::Path;

use countersign_model::Failure;
use serde::Serialize;

use crate::files;
use crate::git::Git;
use crate::id::ObjectId;
use crate::layout::submodules_file;
use crate::leash::Leash;
use crate::parse::{self, Mode};
use crate::path;

/// The most that a listing of one index may take.
pub(crate) const INDEX: usize = 1 << 30;

/// A commit of another repository, which stands in a tree as an empty directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Submodule {
    pub path: String,
    pub commit: ObjectId,
}

/// A tree that lies on disk now.
#[derive(Debug)]
pub(crate) struct LaidOut {
    submodules: Vec<u8>,
}

impl LaidOut {
    /// Notes the submodules, for `state` to know them by.
    pub(crate) fn record(&self, git_dir: &Path) -> Result<(), Failure> {
        files::replace(&submodules_file(git_dir), &self.submodules)
    }
}

/// Fills an empty directory with the files of a tree or commit, and makes the index that knows
/// them. Submodules become empty directories.
pub(crate) fn lay_out(
    git: &Git,
    id: &ObjectId,
    directory: &Path,
    index: &Path,
    leash: &mut Leash<'_>,
) -> Result<LaidOut, Failure> {
    let git = git.work_tree(directory).index(index);
    git.call(["read-tree", &id.to_string()]).quiet(leash)?;
    git.call(["checkout-index", "--all", "--force", "--quiet", "--index"]).quiet(leash)?;
    let listed = git.call(["ls-files", "--stage", "-z"]).bytes(leash, INDEX)?;
    let mut submodules = Vec::new();
    for entry in parse::stages(&listed).filter(|entry| entry.mode == Mode::SUBMODULE) {
        submodules.extend_from_slice(entry.line);
        submodules.push(0);
    }
    Ok(LaidOut { submodules })
}

/// The submodules of the tree that was laid out last, as lines of an index.
pub(crate) fn recorded_lines(git_dir: &Path) -> Result<Vec<u8>, Failure> {
    let path = submodules_file(git_dir);
    fs::read(&path).map_err(|error| files::broken("read", &path, &error))
}

pub(crate) fn recorded(git_dir: &Path) -> Result<Vec<Submodule>, Failure> {
    let lines = recorded_lines(git_dir)?;
    parse::stages(&lines)
        .map(|entry| Ok(Submodule { path: path::text(entry.path)?, commit: entry.id }))
        .collect()
}
