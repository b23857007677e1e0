//! The host: one pipeline for every call, and everything that happens to it afterwards.
//!
//! No sockets and no terminal: front doors parse what they receive into a [`CallCommand`] and
//! render the [`Outcome`].

pub mod adoption;
pub mod again;
pub mod approvals;
pub mod backends;
pub mod builtin;
mod caches;
pub mod clock;
pub mod collect;
pub mod config;
pub mod explain;
mod facts;
pub mod grants;
pub mod home;
pub mod host;
mod inert;
pub mod inspect;
mod manifest;
pub mod memory;
mod meter;
pub mod order;
pub mod path;
pub mod people;
pub mod pinned;
pub mod pipeline;
pub mod policies;
pub mod program;
mod publish;
pub mod receipts;
mod recorder;
pub mod recovery;
pub mod refusal;
pub mod registry;
pub mod replay;
mod resources;
pub mod root;
mod snapshot;
pub mod stats;
mod telemetry;
pub mod tool;
pub mod trial;
pub mod work;
mod workers;

pub use backends::Backends;
pub use clock::{Clock, SystemClock};
pub use home::Home;
pub use host::Host;
pub use meter::Cancel;
pub use pipeline::{CallCommand, Given, Outcome, Receipt, Simulation, Would};
pub use program::{ProgramRuntime, ProgramTool};
pub use registry::{Handlers, Implementation, Registry, Tool};
