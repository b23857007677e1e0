//! The WebAssembly backend: modules and components that see only what a plan names.
//!
//! A guest runs in this process, in a store of its own, on the thread that called. It is code that
//! the runtime compiled from validated WebAssembly, so it reaches nothing but its own memory and
//! the functions it was given: WASI preview 1 for modules, preview 2 for components, both without
//! sockets. It is no process: signals, namespaces and system-call filters play no part here.

mod backend;
mod cache;
mod engine;
mod guest;
mod library;
mod limiter;
mod plan;
mod run;
mod scratch;
mod source;
mod stage;
mod streams;
mod ticker;
mod tree;
mod watch;

/// What this backend is called.
pub const NAME: &str = "countersign-wasm";

pub use backend::{Options, WasmBackend};
pub use cache::CacheOptions;
pub use scratch::clean_leftovers;
