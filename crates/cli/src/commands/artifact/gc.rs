//! Letting go of what nobody needs.

use clap::Args;
use countersign_host::collect::Collection;
use countersign_model::Principal;

use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{DIM, Done, GOOD, Ui, bytes, inert, paint, wrap};

/// Let go of the contents of old artifacts that nothing refers to
///
/// The journal keeps what they were; only their contents go. Contents that nothing names, which calls
/// left that were rolled back, go as well. What was written within the last day always stays.
#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,

    /// Keep what is younger than so many days [default: `keep_days` of `[artifacts]`]
    #[arg(long, value_name = "N")]
    keep_days: Option<u32>,

    /// Who does it [default: the person at this terminal]
    #[arg(long = "as", value_name = "PRINCIPAL")]
    by: Option<Principal>,
}

pub(super) fn run(context: &Context, args: GcArgs) -> Done<Exit> {
    let by = acting(args.by)?;
    let host = sandbox::open_host(&context.home)?;
    let keep_days = args.keep_days.unwrap_or(host.home().config.artifacts.keep_days);
    let collection = host.collect_artifacts(keep_days, &by, args.dry_run)?;
    match context.ui.json {
        true => context.ui.json(&collection)?,
        false => print(context.ui, &collection)?,
    }
    Ok(Exit::Done)
}

fn print(ui: Ui, collection: &Collection) -> Done {
    for artifact in &collection.artifacts {
        let run = artifact.run.as_ref().map(|run| format!(" of run {run}")).unwrap_or_default();
        let id = paint(DIM, &artifact.id);
        let name = inert(&artifact.name);
        ui.line(wrap(&format!("{name}{run}, {} {id}", bytes(artifact.size)), 2))?;
    }
    let would = if collection.dry_run { "would let go of" } else { "let go of" };
    let (count, freed) = (collection.artifacts.len(), bytes(collection.removed_bytes));
    let removed = collection.removed;
    ui.line(format!("{} {count} artifacts; {removed} contents, {freed}", paint(GOOD, would)))?;
    if collection.left > 0 {
        ui.line(format!(
            "{} contents that nothing needs are left for another time",
            collection.left
        ))?;
    }
    for (reason, count) in &collection.kept {
        ui.line(paint(DIM, format!("{count} kept: {reason}")))?;
    }
    Ok(())
}
