//! Artifacts: what calls left, by name and content.

mod gc;
mod get;
mod put;
mod show;
mod verify;

use clap::{Args, Subcommand};
use countersign_host::Home;
use countersign_journal::{ArtifactFilter, JournalError};
use countersign_model::{ArtifactId, ArtifactRecord, Failure, RunId};

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, Stop, Ui, WARN, bytes, inert, paint, wrap};

/// What calls left behind, and files that were put beside
#[derive(Debug, Subcommand)]
pub(crate) enum ArtifactCommand {
    List(ListArgs),
    Show(show::ShowArgs),
    Get(get::GetArgs),
    Verify(verify::VerifyArgs),
    Put(put::PutArgs),
    Gc(gc::GcArgs),
}

/// List artifacts, newest first
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only those of this run
    #[arg(long)]
    run: Option<RunId>,

    /// Only those of this name
    #[arg(long)]
    name: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// One artifact, by id or by name.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// Its id, or its name within the run
    #[arg(value_name = "ID|NAME")]
    artifact: String,

    /// The run; a name alone says too little
    #[arg(long)]
    run: Option<RunId>,
}

pub(super) fn run(context: &Context, command: ArtifactCommand) -> Done<Exit> {
    let command = match command {
        ArtifactCommand::Put(args) => return put::run(context, args),
        ArtifactCommand::Gc(args) => return gc::run(context, args),
        other => other,
    };
    let (ui, home) = (context.ui, Home::open(&context.home)?);
    match command {
        ArtifactCommand::List(args) => list(ui, &home, args)?,
        ArtifactCommand::Show(args) => show::run(ui, &home, &args)?,
        ArtifactCommand::Get(args) => get::run(ui, &home, &args)?,
        ArtifactCommand::Verify(args) => return verify::run(ui, &home, &args),
        ArtifactCommand::Put(_) | ArtifactCommand::Gc(_) => {}
    }
    Ok(Exit::Done)
}

fn list(ui: Ui, home: &Home, args: ListArgs) -> Done {
    let ListArgs { run, name, limit } = args;
    let filter = ArtifactFilter { run, name, limit, ..ArtifactFilter::default() };
    if ui.json {
        return ui.json_list(|each| visit(home, &filter, |record| each(&record)));
    }
    let mut none = true;
    visit(home, &filter, |record| {
        none = false;
        print_row(ui, &record)
    })?;
    if none { ui.line("no artifacts") } else { Ok(()) }
}

/// Walks artifacts with a visitor that may stop for reasons of its own.
fn visit(
    home: &Home,
    filter: &ArtifactFilter,
    mut each: impl FnMut(ArtifactRecord) -> Done,
) -> Done {
    let mut stopped = Ok(());
    let visited = home.store.visit_artifacts(filter, &mut |record| {
        stopped = each(record);
        if stopped.is_ok() { Ok(()) } else { Err(JournalError::Enough) }
    });
    stopped?;
    visited.map_err(Stop::from)
}

fn print_row(ui: Ui, record: &ArtifactRecord) -> Done {
    let name = paint(BOLD, inert(&record.name));
    let run = record.run.as_ref().map(|run| format!(", run {run}")).unwrap_or_default();
    let gone = match record.collected_at {
        None => String::new(),
        Some(_) => paint(WARN, ", let go of"),
    };
    let size = bytes(record.size);
    ui.line(wrap(&format!("{name} {size}{run}, {}{gone}", record.at), 2))?;
    ui.line(paint(DIM, format!("  {}", record.id)))
}

impl Which {
    fn find(&self, home: &Home) -> Result<ArtifactRecord, Failure> {
        let found = match (ArtifactId::is_meant(&self.artifact), &self.run) {
            (true, _) => home.store.artifact(&self.artifact.parse()?)?,
            (false, Some(run)) => latest(home, run, &self.artifact)?,
            (false, None) => return Err(run_missing(&self.artifact)),
        };
        found.ok_or_else(|| unknown(&self.artifact))
    }
}

/// The newest of a name: what an action would be given.
fn latest(home: &Home, run: &RunId, name: &str) -> Result<Option<ArtifactRecord>, Failure> {
    let (run, name) = (Some(run.clone()), Some(name.to_owned()));
    let filter = ArtifactFilter { run, name, limit: Some(1), ..ArtifactFilter::default() };
    let mut found = None;
    home.store.visit_artifacts(&filter, &mut |record| {
        found = Some(record);
        Ok(())
    })?;
    Ok(found)
}

fn run_missing(name: &str) -> Failure {
    let message = format!("`{}` is a name, and every run has its own", name.escape_debug());
    Failure::validation("RUN_REQUIRED", message)
        .hint("name the run with --run, or the artifact by its id")
}

fn unknown(named: &str) -> Failure {
    let message = format!("there is no artifact `{}`", named.escape_debug());
    Failure::validation("ARTIFACT_UNKNOWN", message)
        .hint("list them with `countersign artifact list`")
}
