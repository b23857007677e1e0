//! `countersign bench`: speed is measured beside what it depends on, never promised as a bare time.

mod actions;
mod baseline;
mod calls;
mod documents;
mod measure;
mod policy;
mod runs;
mod sandbox;
mod spawns;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use countersign_model::Failure;

use crate::Context;
use crate::exit::Exit;
use crate::ui::{DIM, Done, GOOD, Ui, WARN, paint, wrap};

/// Measure this machine
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Actions(actions::ActionsArgs),
    Calls(calls::CallsArgs),
    Sandbox(sandbox::SandboxArgs),
    Policy(policy::PolicyArgs),
    Runs(runs::RunsArgs),
    Documents(documents::DocumentsArgs),
}

pub(crate) fn run(context: &Context, command: BenchCommand) -> Done<Exit> {
    match command {
        BenchCommand::Actions(args) => actions::run(context, &args),
        BenchCommand::Calls(args) => calls::run(context, &args),
        BenchCommand::Sandbox(args) => sandbox::run(context, &args),
        BenchCommand::Policy(args) => policy::run(context, &args),
        BenchCommand::Runs(args) => runs::run(context, &args),
        BenchCommand::Documents(args) => documents::run(context, &args),
    }
}

/// A directory for the measurement, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn beneath(dir: &Path) -> Result<Self, Failure> {
        let scratch = Scratch(dir.join(format!(".countersign-bench-{}", std::process::id())));
        match std::fs::create_dir(&scratch.0) {
            Ok(()) => Ok(scratch),
            Err(error) => {
                // Not ours to remove.
                std::mem::forget(scratch);
                let message = format!("{} cannot be used: {error}", dir.display());
                Err(Failure::validation("BENCH_UNWRITABLE", message)
                    .hint("name a writable directory with --dir"))
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A figure beside what it is meant to be. It is said, not asserted: machines differ.
fn aim(ui: Ui, met: bool, text: &str, aim: &str) -> Done {
    let mark = if met { paint(GOOD, "✓") } else { paint(WARN, "✗") };
    ui.line(wrap(&format!("  {mark} {text} {}", paint(DIM, format!("(aim: {aim})"))), 4))
}
