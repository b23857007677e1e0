mod exact;
mod verify;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use countersign_host::Home;
use countersign_host::again::Subject;
use countersign_model::{Failure, Principal};

use super::execution::find;
use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

/// Reconstruct what a call or a run gave, or execute it again and compare
///
/// `exact` reads the record, checks everything against its digest and touches nothing else. `verify`
/// executes again what promises to give the same, in a fresh place from the recorded inputs, and
/// names the first difference. What cannot be done is said before anything starts. Exit code 1 means
/// that something cannot be reconstructed, or differs.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// An execution's id, `last`, or a run
    #[arg(value_name = "EXECUTION|RUN")]
    subject: String,

    #[arg(long, value_enum, default_value_t = Mode::Exact)]
    mode: Mode,

    /// Put everything that is reconstructed into this directory, which must be new or empty
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Who executes again [default: the person at this terminal]
    #[arg(long = "as", value_name = "PRINCIPAL")]
    by: Option<Principal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Reconstruct from the record
    Exact,
    /// Execute again and compare
    Verify,
}

pub(super) fn run(context: &Context, args: ReplayArgs) -> Done<Exit> {
    match args.mode {
        Mode::Exact => exact::run(context, &args),
        Mode::Verify if args.out.is_some() => {
            let message = "verify compares, and leaves nothing to put into a directory";
            Err(Failure::validation("USAGE", message).hint("leave --out out").into())
        }
        Mode::Verify => verify::run(context, args),
    }
}

/// What a person means; `last` is the newest call.
pub(super) fn subject(home: &Home, text: &str) -> Result<Subject, Failure> {
    match text {
        "last" => Ok(Subject::Call(find(home, text)?.execution)),
        text => home.subject(text),
    }
}
