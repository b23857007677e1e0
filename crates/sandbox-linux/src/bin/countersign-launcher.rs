//! The launcher as a program of its own, for tests of this crate. The `countersign` binary contains
//! the same function.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = countersign_sandbox_linux::launcher_main();
    ExitCode::from(u8::try_from(code).unwrap_or(70))
}
