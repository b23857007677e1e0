//! Git, held at arm's length.
//!
//! Work on a user's repository never happens in the user's checkout. It happens in a private
//! [`Worktree`] that borrows the repository's objects; the repository itself is only read, until a
//! commit is published into it by one comparison and exchange of a ref. The installed git does the
//! work, in an environment in which nothing that a repository configures can start a program.

mod batch;
mod checkout;
mod commit;
mod complaint;
mod diff;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod git;
mod hunks;
mod id;
mod layout;
mod leash;
mod merge;
mod object;
mod parse;
mod path;
mod presence;
mod program;
mod publish;
mod push;
mod read;
mod recall;
mod remote;
mod repository;
mod run;
mod state;
mod table;
mod worktree;

pub use batch::Content;
pub use checkout::Submodule;
pub use commit::{NewCommit, Signature};
pub use diff::{Change, LineCount};
pub use hunks::{Lines, Overlap};
pub use id::{ObjectFormat, ObjectId, ObjectIdSyntax};
pub use leash::{Leash, Tick};
pub use merge::{Conflict, ConflictKind, Merge};
pub use parse::{Mode, Side, Status};
pub use program::{Program, Version};
pub use publish::{RefChange, RefOutcome, RefUpdate};
pub use push::{Push, Pushed};
pub use read::{Blob, Entry, Listing, Past};
pub use remote::{Credential, Protocol, Remote};
pub use repository::Repository;
pub use worktree::Worktree;
