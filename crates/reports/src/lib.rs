//! What test and lint tools say, as typed results, and which tools a project uses.
//!
//! Three pure parts: `read` turns the bytes of a report into a [`TestReport`] or a [`LintReport`],
//! `verdict` weighs a report together with how the tool ended, and `detect` says which commands a
//! project wants to be tested and linted with. Every report is bytes from a stranger: it is read
//! in bounded memory, nothing in it is executed or fetched, and what contradicts itself is said.

pub mod detect;
mod findings;
mod lines;
mod place;
mod read;
mod report;
mod tally;
mod text;
mod unreadable;
mod verdict;

pub use place::Places;
pub use read::{lints, tests};
pub use report::{
    Case, Counts, Diagnostic, LintCounts, LintFormat, LintReport, MAX_DIAGNOSTICS, MAX_FAILING,
    MAX_OTHERS, MAX_PROBLEMS, Problem, ProblemKind, Severity, Status, Suite, TestFormat,
    TestReport,
};
pub use text::{MAX_DETAILS, MAX_MESSAGE, MAX_NAME};
pub use unreadable::{Unreadable, Why};
pub use verdict::{Ending, Outcome, Verdict, judge_lints, judge_tests};
