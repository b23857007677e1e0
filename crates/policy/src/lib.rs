//! Policies to verdicts: Cedar for those who want it, a short table for those who do not.
//!
//! Everything here is a pure function of its arguments. Texts and facts come in; a verdict with the
//! rules behind it goes out. Nothing matched means block, and a rule that cannot be evaluated means
//! block: whatever goes wrong in here, a call does not run because of it.

mod arguments;
mod cases;
mod decide;
mod effect;
mod glob;
mod index;
mod lint;
mod names;
mod notes;
mod policies;
mod problem;
mod quote;
mod reads;
mod remember;
mod request;
mod rule;
mod source;
mod table;

pub use cases::{Against, CaseFile, CaseResult, case_facts};
pub use lint::Known;
pub use policies::{DEFAULT_POLICY, Policies, RuleInfo, SCHEMA};
pub use problem::{Problem, Severity};
pub use remember::Memory;
pub use rule::{Conditions, Rule, RuleOutcome};
pub use source::Source;
pub use table::to_cedar;
