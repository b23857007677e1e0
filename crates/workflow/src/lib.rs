//! Runs: one engine for workflows and blueprints.
//!
//! The crate `flow` says what happens next; this one makes it happen. Every step of a run is decided
//! from the fold of its events, recorded in one append that only succeeds if nobody else was faster,
//! and only then acted upon. Whatever the outside has to do has a name, so that after a crash it is
//! found again and not done twice.

mod alarm;
mod child;
mod create;
mod engine;
mod feed;
mod fork;
mod library;
mod live;
mod perform;
mod pool;
mod redact;
mod tool;
mod trouble;
mod watch;

pub use create::{Begin, Begun};
pub use engine::{Engine, Reach, Settings};
pub use feed::{Growth, Subscription};
pub use library::{Library, blueprint};
pub use live::View;
pub use trouble::Trouble;
