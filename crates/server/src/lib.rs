//! The edge of the HTTP host: everything between a socket and the engine of runs.
//!
//! A connection is bounded before anything is read from it ([`serve`]). A request passes one gate
//! ([`gate`]): where it comes from, whose key it shows, whether there is such a route, how often it
//! may ask, what its key is good for, whether it was answered before. Only then a handler sees it.
//! Routes stand in one table ([`route`]), from which the router and the OpenAPI document are made.
//!
//! The modules without sockets ([`limit`], [`idempotency`], [`stream`], [`token`], [`trace`] and
//! most of [`webhook`]) are functions of their arguments, with the clock passed in.

pub mod api;
pub mod auth;
pub mod body;
pub mod clock;
pub mod discovery;
pub mod error;
pub mod gate;
pub mod idempotency;
pub mod inflight;
pub mod limit;
pub mod openapi;
pub mod place;
pub mod query;
pub mod route;
mod schema;
pub mod serve;
pub mod stream;
pub mod tls;
pub mod token;
pub mod trace;
pub mod vault;
pub mod webhook;
mod wire;

pub use auth::{Caller, Keys};
pub use error::Refusal;
pub use gate::Edge;
pub use route::{Access, Route, Table};
pub use serve::{Bounds, Listener, Settings, run, serve};
