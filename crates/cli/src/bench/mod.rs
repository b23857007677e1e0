//! `countersign bench`: speed is measured beside what it depends on, never promised as a bare time.

mod baseline;
mod calls;
mod measure;

use clap::Subcommand;

use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

/// Measure this machine
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Calls(calls::CallsArgs),
}

pub(crate) fn run(context: &Context, command: BenchCommand) -> Done<Exit> {
    match command {
        BenchCommand::Calls(args) => calls::run(context, &args),
    }
}
