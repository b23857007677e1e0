//! From a patch and a tree to a changed tree, or to everything that does not fit.

mod content;
mod job;
mod lines;
mod merge;
mod outcome;
mod place;
mod plan;
mod target;

pub use outcome::{
    Applied, ApplyError, Conflict, FileOutcome, HunkOutcome, LineRange, Rejected, Rejection, Totals,
};

use crate::patch::{Job, Patch};
use crate::tree::Tree;
use job::Session;
use plan::Plan;

/// How a patch is to be applied.
#[derive(Debug, Clone, Copy)]
pub struct ApplyOptions {
    /// From the new contents to the old ones.
    pub reverse: bool,
    /// Where a hunk does not fit, merge with the content the patch was made from.
    pub three_way: bool,
    /// Believe the line numbers of hunks without context, as `--unidiff-zero` of git.
    pub zero_context: bool,
    /// The largest content that a delta may make.
    pub max_binary: u64,
    /// How many lines are compared at most while hunks are looked for that have moved.
    pub max_comparisons: u64,
    /// How many rejections are told at most.
    pub max_rejections: usize,
}

impl Default for ApplyOptions {
    fn default() -> ApplyOptions {
        ApplyOptions {
            reverse: false,
            three_way: false,
            zero_context: false,
            max_binary: 256 << 20,
            max_comparisons: 100_000_000,
            max_rejections: 10_000,
        }
    }
}

/// Applies a patch. Everything is looked at, also after the first rejection, so that all of them
/// are told; the tree then holds a part of the changes and must be thrown away.
pub fn apply<T: Tree>(
    patch: &Patch<'_>,
    tree: &mut T,
    options: &ApplyOptions,
) -> Result<Applied, ApplyError<T::Error>> {
    let jobs: Vec<Job<'_, '_>> =
        patch.files().iter().map(|file| Job { file, reverse: options.reverse }).collect();
    let plan = Plan::new(&jobs);
    let mut session = Session::new(tree, options);
    session.prepare(&jobs, &plan)?;
    for job in &jobs {
        session.run(job)?;
    }
    session.finish()
}
