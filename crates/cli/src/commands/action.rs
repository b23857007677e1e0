//! Actions: what agents do on workspaces, through envelopes with one shape for all.

mod credential;
mod envelope;
mod run;
mod show;

use clap::Subcommand;

use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

pub(super) use envelope::report;
pub(super) use run::{Who, new_run, shown};

/// What agents do on workspaces
#[derive(Debug, Subcommand)]
pub(crate) enum ActionCommand {
    /// List the actions
    List,
    Show(show::ShowArgs),
    Run(run::RunArgs),
    Resume(run::ResumeArgs),
}

pub(super) fn run(context: &Context, command: ActionCommand) -> Done<Exit> {
    match command {
        ActionCommand::List => show::list(context),
        ActionCommand::Show(args) => show::show(context, &args),
        ActionCommand::Run(args) => run::run(context, args),
        ActionCommand::Resume(args) => run::resume(context, &args),
    }
}
