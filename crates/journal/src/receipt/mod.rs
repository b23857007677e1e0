//! Receipts: one file that proves one call to an outsider. `docs/receipts.md` describes the format.
//!
//! A receipt is an in-toto statement in a DSSE envelope, signed with the journal's key. It holds the
//! call's entries, the entries of the facts it rests on, an audit path for each to one signed
//! checkpoint, and some of the values that facts pin by digest. Nothing in it is taken on trust:
//! [`verify()`] reads the file and a key, and recomputes whatever it says.

mod answers;
mod basis;
mod create;
mod dsse;
mod grounds;
mod pins;
mod proofs;
mod report;
mod shown;
mod statement;
mod story;
mod verify;

pub use create::create;
pub use pins::{Pin, Role};
pub use report::{Check, Checked, Outcome, Problem, Report};
pub use verify::verify;

/// What the predicate of the statement is. A name of our own: it resolves nowhere.
pub const PREDICATE_TYPE: &str = "urn:countersign:receipt:v1";

/// No receipt is larger, so that whoever verifies one can bound what they read.
pub const MAX_RECEIPT: usize = 64 << 20;
