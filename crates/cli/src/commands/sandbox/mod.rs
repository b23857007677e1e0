//! `countersign sandbox`: the box that tools run in, for anything and in plain sight.

mod explain;
mod run;
mod spec;
mod syscalls;

use clap::Subcommand;

use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

/// Run commands in the sandbox, and see what it consists of
#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    Run(Box<run::RunArgs>),
    Explain(Box<explain::ExplainArgs>),
    Syscalls(syscalls::SyscallsArgs),
}

pub(super) fn run(context: &Context, command: SandboxCommand) -> Done<Exit> {
    match command {
        SandboxCommand::Run(args) => run::run(context, *args),
        SandboxCommand::Explain(args) => explain::run(context, *args),
        SandboxCommand::Syscalls(args) => syscalls::run(context, &args),
    }
}
