//! The built-in tools of the action contract, and the door that takes its envelopes.
//!
//! Every action is a tool like any other: it is declared, its input is validated, policy and grants
//! decide, and what it does becomes visible with one commit. What is special about actions is where
//! they work (the private worktree of a run) and what they hand on (artifacts).

mod again;
mod apply;
pub mod bundle;
mod catalogue;
mod checks;
mod commit;
mod context;
mod diff;
mod door;
mod envelope;
mod left;
mod protected;
mod push;
mod put;
mod resolve;
mod summary;

pub use again::rules;
pub use catalogue::{ACTIONS, Action, Class, by_tool, find, handlers};
pub use door::{Asker, result_of, resume, run};
pub use envelope::{ActionContext, ActionRequest, ActionResult, ArtifactRef, Status};
pub use put::put;
