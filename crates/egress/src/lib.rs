//! The only way out of a sandbox whose network is empty: a proxy that judges every connection and
//! writes it down.
//!
//! It speaks HTTP CONNECT, plain HTTP and SOCKS5 on one listener. It decides by name, resolves
//! itself, checks every address, and connects only to what it checked. It does not decrypt: what
//! is said inside TLS, to a server that was allowed, stays between the two.
//!
//! Clients are hostile. Nothing that one of them sends is passed on before it was understood, and
//! no client can hold up the others.

mod attempt;
mod body;
mod ending;
mod exchange;
mod flow;
mod gate;
mod head;
mod hello;
mod host;
mod http;
mod ledger;
mod net;
mod proxy;
mod refusal;
mod request;
mod resolve;
mod response;
mod rule;
mod rules;
mod socks;
mod table;
mod tunnel;
mod wire;

pub use attempt::{Attempt, Protocol, Verdict};
pub use head::{Head, Header, Version, request_head};
pub use hello::{ClientHello, client_hello};
pub use host::Host;
pub use net::Net;
pub use proxy::Proxy;
pub use resolve::{Resolve, SystemResolver, closed};
pub use rule::HostRule;
pub use rules::{Rules, Timeouts};
