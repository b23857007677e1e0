//! One workspace, and what its runs hold.

use std::path::Path;

use clap::Args;
use countersign_host::Host;
use countersign_host::work::{PATIENCE, WorkPlace};
use countersign_model::{Failure, RunId, Workspace, WorkspaceId};
use countersign_repository::{Leash, Program, Repository};
use serde::Serialize;
use serde_json::json;

use super::short;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, shown, wrap};

/// Show a workspace: where it is, where its branch stands, and the runs that work on it
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    id: WorkspaceId,

    /// Only this run
    #[arg(long)]
    run: Option<RunId>,
}

/// A run as it stands now.
#[derive(Debug, Serialize)]
struct Standing {
    run: RunId,
    /// How many calls it has made.
    calls: usize,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    found: Option<Found>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
struct Found {
    base: String,
    tree: String,
    /// Where its files are.
    files: String,
    /// How many files differ from the base.
    changed: usize,
    /// Whether some of that is committed nowhere.
    unpublished: bool,
}

pub(super) fn run(ui: Ui, host: &Host, args: &ShowArgs) -> Done {
    let workspace = host.workspace(&args.id)?;
    let runs = match &args.run {
        Some(run) => vec![one(host, &workspace, run)?],
        None => all(host, &workspace)?,
    };
    let tip = tip(&workspace);
    if ui.json {
        let tip = match &tip {
            Ok(tip) => json!({"commit": tip}),
            Err(failure) => json!({"error": failure}),
        };
        return ui.json(&json!({"workspace": workspace, "tip": tip, "runs": runs}));
    }
    print(ui, &workspace, tip.as_deref())?;
    runs.iter().try_for_each(|run| print_run(ui, run))
}

/// Whoever names a run wants to know why it cannot be shown.
fn one(host: &Host, workspace: &Workspace, run: &RunId) -> Result<Standing, Failure> {
    match standing(host, workspace, run)? {
        Standing { error: Some(failure), .. } => Err(failure),
        standing => Ok(standing),
    }
}

fn all(host: &Host, workspace: &Workspace) -> Result<Vec<Standing>, Failure> {
    let runs = host.runs_on(&workspace.id)?;
    runs.iter().map(|run| standing(host, workspace, run)).collect()
}

/// A worktree that cannot be read keeps nobody from seeing the others.
fn standing(host: &Host, workspace: &Workspace, run: &RunId) -> Result<Standing, Failure> {
    let calls = host.home().store.run_calls(run)?.len();
    let place = host.existing_work(&workspace.id, run);
    let (found, error) = match place.and_then(|place| look(host, &place)) {
        Ok(found) => (Some(found), None),
        Err(failure) => (None, Some(failure)),
    };
    Ok(Standing { run: run.clone(), calls, found, error })
}

fn look(host: &Host, place: &WorkPlace) -> Result<Found, Failure> {
    let mut leash = Leash::lasting(PATIENCE);
    let worktree = place.worktree(&mut leash)?;
    let changed = worktree.changed(&place.base()?, &place.tree()?, &mut leash)?.len();
    Ok(Found {
        base: place.work.base.clone(),
        tree: place.work.tree.clone(),
        files: place.directory.files().display().to_string(),
        changed,
        unpublished: host.is_unpublished(place)?,
    })
}

/// Where the branch stands now.
fn tip(workspace: &Workspace) -> Result<String, Failure> {
    let mut leash = Leash::lasting(PATIENCE);
    let path = Path::new(&workspace.path);
    let repository = Repository::open(&Program::find()?, path, &mut leash)?;
    Ok(repository.resolve(&workspace.branch, &mut leash)?.to_string())
}

fn print(ui: Ui, workspace: &Workspace, tip: Result<&str, &Failure>) -> Done {
    let now = match tip {
        Ok(tip) if tip == workspace.base => format!("{} (unchanged)", short(tip)),
        Ok(tip) => short(tip),
        Err(failure) => paint(BAD, inert(&failure.message)),
    };
    ui.line(paint(BOLD, &workspace.id))?;
    for (name, value) in [
        ("path", inert(&workspace.path)),
        ("branch", inert(&workspace.branch)),
        ("stood at", short(&workspace.base)),
        ("stands at", now),
        ("added", format!("{} by {}", workspace.added_at, workspace.added_by)),
    ] {
        ui.line(wrap(&format!("  {name:<10} {value}"), 13))?;
    }
    Ok(())
}

fn print_run(ui: Ui, standing: &Standing) -> Done {
    let run = paint(BOLD, &standing.run);
    if let Some(failure) = &standing.error {
        let text = format!("  run {run}: {}", paint(BAD, inert(&failure.message)));
        return ui.line(wrap(&text, 4));
    }
    let Some(found) = &standing.found else { return Ok(()) };
    let changes = match (found.changed, found.unpublished) {
        (0, _) => paint(GOOD, "no changes"),
        (n, true) => paint(WARN, format!("{n} files changed, not committed")),
        (n, false) => paint(GOOD, format!("{n} files changed, all committed")),
    };
    let calls = standing.calls;
    ui.line(wrap(&format!("  run {run}: {changes}, {calls} calls"), 4))?;
    // Whole: a commit of what was reviewed names it.
    let (base, tree) = (short(&found.base), &found.tree);
    ui.line(wrap(&format!("    from {base}, tree {tree}"), 6))?;
    ui.line(wrap(&paint(DIM, format!("    {}", shown(Path::new(&found.files)))), 6))
}
