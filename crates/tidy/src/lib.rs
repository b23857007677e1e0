//! What holds for the whole repository, not for one crate: who may depend on whom, what no file
//! may contain, and that documents do not lie about files and commands.
//!
//! The rules are functions from text to problems, tried on bad samples beside them; the tests in
//! `tests/` run them over the repository.

pub mod code;
pub mod documents;
pub mod hygiene;
pub mod layers;
pub mod tree;

pub use tree::Tree;
