//! The `countersign` binary: parses the command line, runs one command, renders its result.

mod bench;
mod commands;
mod difference;
mod exit;
mod gateway;
mod key_file;
mod lifecycle;
mod live;
mod output_file;
mod plain;
mod plan_text;
mod runs;
mod sandbox;
mod save;
mod signals;
mod steps;
mod ui;

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use countersign_model::Failure;
use tracing_subscriber::EnvFilter;

use crate::commands::Command;
use crate::exit::Exit;
use crate::ui::{Stop, Ui};

/// Runs tools for AI agents under governance.
///
/// Nothing runs before it is declared, validated and authorised. Everything runs in a transaction.
/// Everything that happened can be explained and proven.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, max_term_width = 100, arg_required_else_help = true)]
struct Cli {
    /// The home to work on [default: $COUNTERSIGN_HOME, then .countersign]
    #[arg(long, global = true, value_name = "DIR")]
    home: Option<PathBuf>,

    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

/// What every command may need to know.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) ui: Ui,
    pub(crate) home: PathBuf,
}

fn main() -> ExitCode {
    // Before anything that opens files, starts threads or reads settings: a launcher has none.
    if let Some(code) = sandbox::launcher() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    start_logging();
    let ui = Ui { json: cli.json };
    let home = cli
        .home
        .or_else(|| {
            std::env::var_os("COUNTERSIGN_HOME").filter(|h| !h.is_empty()).map(PathBuf::from)
        })
        .unwrap_or_else(|| PathBuf::from(".countersign"));
    let exit = match cli.command.run(&Context { ui, home }) {
        Ok(exit) => exit,
        Err(Stop::Failure(failure)) => {
            ui.failure(&failure);
            Exit::of_failure(&failure)
        }
        Err(Stop::Cut(failure)) => {
            Ui { json: false }.failure(&failure);
            Exit::of_failure(&failure)
        }
        // Whoever read our output has read enough.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
        Err(Stop::Output(error)) => {
            ui::unwritten(&error);
            Exit::Internal
        }
    };
    ExitCode::from(exit.code())
}

/// Help and version are no errors; a wrong command line is one like any other.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::from(Exit::Done.code());
    }
    let json = std::env::args_os().any(|argument| argument == "--json");
    // A value that one of our own parsers refused comes with its own code and hint.
    let refused = error.source().and_then(|source| source.downcast_ref::<Failure>());
    match refused {
        Some(failure) => Ui { json }.failure(&Failure {
            message: usage_message(error),
            hint: failure.hint.clone().or_else(|| Some(SEE_HELP.to_owned())),
            ..failure.clone()
        }),
        None if json => {
            let failure = Failure::validation("USAGE", usage_message(error)).hint(SEE_HELP);
            Ui { json }.failure(&failure);
        }
        None => ui::usage(error),
    }
    ExitCode::from(Exit::Invalid.code())
}

const SEE_HELP: &str = "see `countersign --help`";

/// The first paragraph of what the parser says, on one line: what is missing stands below it.
fn usage_message(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "the command line is incomplete: a subcommand or an argument is missing".to_owned();
    }
    let text = error.render().to_string();
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let message = lines.collect::<Vec<_>>().join(" ");
    message.trim_start_matches("error: ").to_owned()
}

/// Structured logs go to standard error when `COUNTERSIGN_LOG` asks for them.
fn start_logging() {
    let Ok(filter) = std::env::var("COUNTERSIGN_LOG") else { return };
    let builder =
        tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(io::stderr);
    // A second subscriber is impossible here, so the result says nothing.
    let _ = if std::env::var("COUNTERSIGN_LOG_FORMAT").is_ok_and(|format| format == "json") {
        builder.json().try_init()
    } else {
        builder.try_init()
    };
}
