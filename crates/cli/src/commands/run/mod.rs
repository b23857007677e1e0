//! Runs of workflows and blueprints: begun, followed, steered, answered, forked.

mod drive;
mod events;
mod fork;
mod list;
mod progress;
mod report;
mod rows;
mod show;
mod start;
mod steer;
mod submit;
mod waits;

use clap::Subcommand;

use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

pub(super) use start::{Begins, begin};

/// Begin runs of workflows and blueprints, follow them, and answer them
///
/// A run is recorded step by step, and outlives the process that drives it. `RUN` is the id of a
/// run, or `last`.
#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    Start(start::StartArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Events(events::EventsArgs),
    Cancel(steer::CancelArgs),
    Pause(steer::PauseArgs),
    Resume(steer::ResumeArgs),
    Submit(submit::SubmitArgs),
    Fork(fork::ForkArgs),
    Diff(fork::DiffArgs),
}

pub(super) fn run(context: &Context, command: RunCommand) -> Done<Exit> {
    match command {
        RunCommand::Start(args) => start::run(context, args),
        RunCommand::List(args) => list::run(context, &args),
        RunCommand::Show(args) => show::run(context, &args),
        RunCommand::Events(args) => events::run(context, &args),
        RunCommand::Cancel(args) => steer::cancel(context, args),
        RunCommand::Pause(args) => steer::pause(context, args),
        RunCommand::Resume(args) => steer::resume(context, args),
        RunCommand::Submit(args) => submit::run(context, args),
        RunCommand::Fork(args) => fork::fork(context, args),
        RunCommand::Diff(args) => fork::diff(context, &args),
    }
}
