//! The choosing part of `build_context_pack`: what an agent gets to see of a workspace, under a
//! token budget.
//!
//! Everything here is a function of its arguments. A workspace comes in through [`Sources`], a
//! [`ContextPack`] goes out, and the same input gives the same bytes: nothing depends on the order
//! in which a directory was listed, on a clock or on a float.
//!
//! Four promises. The rendered pack never has more tokens than the budget, counted by the tokenizer
//! that was asked for, marks and headings included. What matters more goes in first, and whatever
//! stays out is said, with the reason. What is known to be a secret never goes in: the text is
//! searched again after it was redacted. And content stays data: no file can write the mark that
//! ends it.

mod content;
mod fill;
mod names;
mod pack;
mod patterns;
mod redact;
mod render;
mod request;
mod select;
mod sources;
mod tokens;
mod tree;

pub use pack::{ContextPack, Cut, Excluded, Item, ItemType, Reason, Redaction, Sensitivity};
pub use request::{Include, Request};
pub use select::build;
pub use sources::{Change, ChangeStatus, Commit, Entry, EntryKind, Sources};
pub use tokens::{Counter, Tokenizer};
