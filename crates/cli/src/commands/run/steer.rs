//! What people want of a run: stop, rest, go on.

use clap::Args;
use countersign_flow::{Command, PausePolicy};
use countersign_model::{Principal, RunId};
use countersign_workflow::Engine;

use super::drive::{follow, leave};
use super::report;
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::runs::{driving, find, looking, status_style, told};
use crate::ui::{Done, Ui, WARN, paint};

/// End a run, and the runs that it began
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    /// The run's id, or `last`
    run: String,

    /// Why; it stands in the record
    #[arg(long)]
    reason: Option<String>,

    /// Who cancels it [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

/// Let a run rest
///
/// What is at work is finished first, unless --now is given. Exit code 2 if there is nothing to
/// pause: the run has ended, or waits for somebody.
#[derive(Debug, Args)]
pub(crate) struct PauseArgs {
    /// The run's id, or `last`
    run: String,

    /// Why; it stands in the record
    #[arg(long)]
    reason: Option<String>,

    /// Stop what is at work; it is begun anew later
    #[arg(long)]
    now: bool,
}

/// Go on with a run that was paused, left by its process, or whose call was approved
///
/// Stays with the run until it ends or waits for somebody, and takes over from a process that is
/// gone. Output and exit codes are those of `countersign run start`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run's id, or `last`
    run: String,

    /// Why; it stands in the record
    #[arg(long)]
    reason: Option<String>,

    /// Only let it go on; whoever drives it does
    #[arg(long)]
    detach: bool,
}

pub(super) fn cancel(context: &Context, args: CancelArgs) -> Done<Exit> {
    let (ui, engine) = (context.ui, looking(&context.home)?);
    let run = find(&engine, &args.run)?.run;
    let by = Some(acting(args.principal)?.to_string());
    let wanted = Command::Cancel { reason: args.reason, by, parent: None };
    engine.command(&run, &wanted).map_err(told)?;
    said(ui, &engine, &run)
}

pub(super) fn pause(context: &Context, args: PauseArgs) -> Done<Exit> {
    let (ui, engine) = (context.ui, looking(&context.home)?);
    let run = find(&engine, &args.run)?.run;
    let policy = if args.now { PausePolicy::Immediate } else { PausePolicy::DrainCurrentNode };
    let wanted = Command::Pause { policy, reason: args.reason };
    engine.command(&run, &wanted).map_err(told)?;
    said(ui, &engine, &run)
}

/// How a run stands after a command.
fn said(ui: Ui, engine: &Engine, run: &RunId) -> Done<Exit> {
    let view = engine.view(run).map_err(told)?;
    if ui.json {
        ui.json(&report::shown(&view))?;
        return Ok(Exit::Done);
    }
    match view.state.status() {
        countersign_flow::Status::Running => {
            ui.line(format!("{} {run} when what is at work is done", paint(WARN, "pauses")))?
        }
        status => {
            ui.line(format!("{} {run}", paint(status_style(status.as_str()), status.as_str())))?
        }
    }
    Ok(Exit::Done)
}

pub(super) fn resume(context: &Context, args: ResumeArgs) -> Done<Exit> {
    let ui = context.ui;
    let engine = if args.detach { looking(&context.home) } else { driving(&context.home) }?;
    let run = find(&engine, &args.run)?.run;
    let view = engine.view(&run).map_err(told)?;
    if is_held(&view.state.pause) {
        engine.command(&run, &Command::Resume { reason: args.reason }).map_err(told)?;
    } else if view.state.end.is_some() {
        let status = view.state.status();
        return Err(
            told(countersign_flow::Refusal::RunEnded { status, cascaded: false }.into()).into()
        );
    }
    if args.detach {
        return leave(ui, &engine, &run);
    }
    engine.take_up(&run).map_err(told)?;
    follow(ui, &engine, &run, view.state.next)
}

fn is_held(pause: &countersign_flow::run::Pause) -> bool {
    !matches!(pause, countersign_flow::run::Pause::No)
}
