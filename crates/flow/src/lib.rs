//! Workflows, runs and blueprints as data and rules.
//!
//! A run is a fold of its events ([`RunState`]). [`advance`] says what happens next as far as no
//! outside is needed, and what the outside has to do; [`settle`] takes what came of that;
//! [`command`] takes what people want. All of it is a pure function of its arguments, so that a
//! crash, a restart, a fork and a replay use the same rules as the first execution.

pub mod blueprint;
pub mod channel;
pub mod condition;
pub mod decide;
pub mod definition;
pub mod diff;
pub mod event;
pub mod expression;
pub mod fork;
mod problem;
pub mod run;
pub mod seed;
pub mod trace;
pub mod types;
pub mod view;

pub use blueprint::Blueprint;
pub use decide::{
    Actor, Answer, CallError, ChildEnd, Command, Context, Decision, Made, ModelReply, Outcome,
    PausePolicy, Refusal, Resolution, Target, Work, WorkKey, Written, advance, command, deadline,
    give_up, settle,
};
pub use definition::{Definition, recursion};
pub use event::{Event, NewEvent, RunEvent, seal};
pub use fork::{ForkMode, ForkRefusal, Forked, Replay, fork};
pub use problem::Problem;
pub use run::{Impossible, RunState, Status};
pub use seed::{CreateRefusal, Limits, NewRun, Seed, create};
pub use types::{Gate, NodeKind, NodeType, Offers, TYPES};
