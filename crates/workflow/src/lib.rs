//! Runs: one engine for workflows and blueprints.
//!
//! The crate `flow` says what happens next; this one makes it happen. Every step of a run is decided
//! from the fold of its events, recorded in one append that only succeeds if nobody else was faster,
//! and only then acted upon. Whatever the outside has to do has a name, so that after a crash it is
//! found again and not done twice.

// Tests inside of the crate share their bench with those outside.
#[cfg(test)]
extern crate self as countersign_workflow;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod common;
#[cfg(test)]
mod tests;

mod alarm;
mod child;
mod create;
mod engine;
mod feed;
mod fork;
mod library;
mod live;
mod memory;
mod mock;
mod perform;
mod pool;
mod probe;
mod redact;
mod secret;
mod show;
mod slot;
mod tool;
mod trouble;
mod watch;

pub use create::{Answering, Begin, Begun};
pub use engine::{Engine, Reach, Settings};
pub use feed::{Grown, Growth, Observer, Subscription};
pub use fork::Forker;
pub use library::{Library, blueprint};
pub use live::View;
pub use memory::{Entry, MOST_BYTES as MOST_MEMORY_BYTES, Memory, Note};
pub use mock::Mock;
pub use secret::Secrets;
pub use trouble::Trouble;
