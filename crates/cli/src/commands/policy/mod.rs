//! Policies: what they say, why they said it, and what others would say.

mod explain;
mod history;
mod lint;
mod remembered;
mod replay;
mod show;
mod simulate;
mod test;
mod text;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};
use countersign_host::config::Config;
use countersign_host::policies::{compile_with, sources, sources_in};
use countersign_host::{Home, Host};
use countersign_model::Failure;
use countersign_policy::{Policies, Rule, Source};

use crate::Context;
use crate::exit::Exit;
use crate::ui::Done;

/// Read, check, explain and try out policies
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    Lint(lint::LintArgs),
    Show(show::ShowArgs),
    Explain(explain::ExplainArgs),
    Simulate(simulate::SimulateArgs),
    Replay(replay::ReplayArgs),
    Test(test::TestArgs),
    History(history::HistoryArgs),
    Remembered(remembered::RememberedArgs),
}

pub(super) fn run(context: &Context, command: PolicyCommand) -> Done<Exit> {
    match command {
        PolicyCommand::Lint(args) => lint::run(context, &args),
        PolicyCommand::Show(args) => show::run(context, &args),
        PolicyCommand::Explain(args) => explain::run(context, &args),
        PolicyCommand::Simulate(args) => simulate::run(context, args),
        PolicyCommand::Replay(args) => replay::run(context, &args),
        PolicyCommand::Test(args) => test::run(context, &args),
        PolicyCommand::History(args) => history::run(context, &args),
        PolicyCommand::Remembered(args) => remembered::run(context, &args),
    }
}

/// Which policies are meant: the home's, or others that are not in force yet.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Take the *.cedar files of this directory instead of the home's
    #[arg(long, visible_alias = "dir", value_name = "DIR")]
    policy: Option<PathBuf>,

    /// Take the table of rules of this countersign.toml instead of the home's
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Which {
    fn texts(&self, home: &Home) -> Result<(Vec<Source>, Vec<Rule>), Failure> {
        let files = match &self.policy {
            Some(directory) if !directory.is_dir() => return Err(missing(directory)),
            Some(directory) => sources_in(directory)?,
            None => sources(home)?,
        };
        let rows = match &self.config {
            // What does not exist would be taken for an empty one.
            Some(file) if !file.is_file() => return Err(missing(file)),
            Some(file) => Config::load(file)?.policy.rules,
            None => home.config.policy.rules.clone(),
        };
        Ok((files, rows))
    }

    fn compile(&self, home: &Home) -> Result<Arc<Policies>, Failure> {
        let (files, rows) = self.texts(home)?;
        compile_with(&files, &rows)
    }
}

fn missing(path: &Path) -> Failure {
    Failure::validation("POLICY_MISSING", format!("there is no {}", path.display()))
        .hint("name a directory with *.cedar files, or a countersign.toml")
}

/// A host that answers questions only.
fn open(context: &Context) -> Result<Host, Failure> {
    crate::sandbox::open_host(&context.home)
}
