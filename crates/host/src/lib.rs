//! The host: one pipeline for every call, and everything that happens to it afterwards.
//!
//! No sockets and no terminal: front doors parse what they receive into a [`CallCommand`] and
//! render the [`Outcome`].

pub mod builtin;
mod caches;
pub mod clock;
pub mod config;
pub mod grants;
pub mod home;
pub mod host;
pub mod inspect;
mod meter;
pub mod path;
pub mod pipeline;
mod publish;
mod recorder;
pub mod recovery;
pub mod registry;
mod resources;
pub mod root;
mod snapshot;
pub mod stats;
mod telemetry;
pub mod tool;
mod workers;

pub use clock::{Clock, SystemClock};
pub use home::Home;
pub use host::Host;
pub use meter::Cancel;
pub use pipeline::{CallCommand, Outcome, Receipt};
pub use registry::{Handlers, Registry, Tool};
