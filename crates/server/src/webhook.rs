//! Webhooks: what may be registered, what is sent, and when somebody is no longer tried.

pub mod circuit;
pub mod deliver;
pub mod register;
pub mod sign;
pub mod url;

pub use circuit::{Circuit, Verdict};
pub use deliver::{Courier, Delivery};
pub use register::Registration;
pub use sign::{SignatureForm, body, headers, unsigned};
pub use url::{Target, UrlPolicy};
