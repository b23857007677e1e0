//! Runs programs in Linux namespaces.
//!
//! Three processes take part. The host asks for boxes and watches them ([`LinuxSandbox`]). A launcher,
//! a small process of its own ([`launcher_main`]), prepares a root directory once and then makes one
//! box after another. The first process of a box sets the rest up, starts the program, and ends the
//! whole box when the program ends or the host is gone.
//!
//! ```text
//! host ──socket──► launcher ──clone──► first process ──clone──► program
//!   │                (user, mount,       (mount, pid, ipc,        (user namespace,
//!   │                 net namespace)      uts, cgroup ns)          limits, landlock, seccomp)
//!   └── control group around all three
//! ```

mod detect;
mod host;
mod launcher;
mod protocol;
mod seccomp;
mod sys;

pub use host::{LauncherCommand, LinuxSandbox};
pub use launcher::launcher_main;
pub use seccomp::explain as explain_seccomp;
