//! Request and result documents: their grammar, what is wrong with them, and how they are written.
//!
//! Everything here is a pure function of its arguments: bytes and the time come in, a judgement
//! with all of its reasons goes out. Nothing is repaired on the way: a document is what its bytes
//! say, or it is refused.

mod code;
mod command;
pub mod front;
mod judgement;
mod reason;
pub mod request;
pub mod result;
pub mod scan;
pub mod sections;
mod text;

pub use code::Code;
pub use judgement::Judgement;
pub use reason::{Findings, Reason, shown};
pub use text::{Line, MAX_REQUEST_BYTES, MAX_RESULT_BYTES, Source, is_unseen};
