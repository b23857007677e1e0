//! What a sandbox is to do, as data.
//!
//! A [`Spec`] says what a call wants, a [`Machine`] what this computer can enforce; [`compile`] makes
//! a printable [`Plan`] of the two, or says what is missing. A [`Backend`] applies plans.

pub mod backend;
pub mod capture;
mod compile;
mod explain;
pub mod limits;
pub mod machine;
pub mod plan;
pub mod spec;
pub mod staging;

pub use backend::{
    Backend, Cleanup, Ended, Ending, Gateway, GatewaySession, Job, Observer, Staged, Stream,
};
pub use capture::{Capture, Captured, unnamed_file};
pub use compile::{cannot_hide, compile, program_environment};
pub use limits::{LimitKind, Limits};
pub use machine::{Barrier, Cgroup, Machine, Strength};
pub use plan::{Plan, SetupOp};
pub use spec::Spec;
