//! What runs programs, handed in from outside: the host knows no system call of a sandbox.

use std::sync::Arc;

use countersign_model::Failure;
use countersign_sandbox::{Backend, Gateway};

/// The backends of a host. Without one, tools of its kind are refused.
#[derive(Debug, Clone, Default)]
pub struct Backends {
    pub process: Option<Arc<dyn Backend>>,
    pub wasm: Option<Arc<dyn Backend>>,
    /// The way out for programs that may reach hosts.
    pub gateway: Option<Arc<dyn Gateway>>,
}

/// The host was started without what the tool needs.
pub(crate) fn unavailable(what: &str) -> Failure {
    Failure::resource("RUNTIME_UNAVAILABLE", format!("{what} is not available here"))
        .hint("`countersign doctor` says what this machine can run")
}
