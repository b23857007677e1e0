//! Patches: reading, judging and applying them, and telling diffs.
//!
//! [`Diff`] is what the bytes say, as slices of them. [`Patch`] is a diff that was judged: its
//! names stay inside of the tree, nothing in it contradicts itself, and it touches no control
//! files of version control. Only a patch can be applied, with [`apply`], to whatever implements
//! [`Tree`]. [`report`] tells a diff to people and programs.
//!
//! Everything is a function of its arguments. Nothing is repaired or guessed: what is malformed is
//! refused with its place, and a hunk that does not fit is rejected with what stands there instead.

mod apply;
mod binary;
mod code;
mod diff;
mod judge;
mod mode;
mod name;
mod object;
mod patch;
mod problem;
mod read;
pub mod report;
mod safety;
mod text;
mod tree;

pub use apply::{
    Applied, ApplyError, ApplyOptions, Conflict, FileOutcome, HunkOutcome, LineRange, Rejected,
    Rejection, Totals, apply,
};
pub use code::Code;
pub use diff::{Binary, BinaryKind, Body, Diff, FilePatch, Hunk, HunkLine, LineKind, Op};
pub use mode::{Kind, Mode};
pub use name::Name;
pub use patch::{Effect, Patch, Touch};
pub use problem::{Problem, Refusal};
pub use read::ReadOptions;
pub use safety::unsafe_path;
pub use text::shown;
pub use tree::{Entry, MemoryTree, Tree};
