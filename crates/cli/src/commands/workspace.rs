//! Workspaces: which repositories actions may work on, and what runs have done there.

mod diff;
mod reset;
mod show;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_host::Host;
use countersign_model::{Principal, RunId, Workspace, WorkspaceId};
use serde_json::json;

use super::acting;
use crate::Context;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Repositories that actions work on
///
/// Each run of actions has a worktree of its own, made from an exact commit. Your checkout is never
/// touched; what a run did becomes part of the repository when it is committed.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkspaceCommand {
    Add(AddArgs),
    /// List the workspaces
    List,
    Show(show::ShowArgs),
    Remove(RemoveArgs),
    Diff(diff::DiffArgs),
    Reset(reset::ResetArgs),
}

/// Register a git repository, so that actions may work on it
#[derive(Debug, Args)]
pub(crate) struct AddArgs {
    /// What to call it: letters, digits, `_`, `-` and `.`
    id: WorkspaceId,

    /// The repository, or any directory of its checkout
    path: PathBuf,

    /// The branch that runs start from [default: the one that is checked out]
    #[arg(long)]
    branch: Option<String>,

    /// Who adds it; only humans may [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

/// Forget a workspace, and remove the worktrees of its runs; the repository stays as it is
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    id: WorkspaceId,

    /// Also if runs have changes that are committed nowhere: they are lost
    #[arg(long)]
    force: bool,

    /// Who removes it; only humans may [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

pub(super) fn run(context: &Context, command: WorkspaceCommand) -> Done<Exit> {
    let (ui, host) = (context.ui, sandbox::open_host(&context.home)?);
    match command {
        WorkspaceCommand::Add(args) => add(ui, &host, args)?,
        WorkspaceCommand::List => list(ui, &host)?,
        WorkspaceCommand::Show(args) => show::run(ui, &host, &args)?,
        WorkspaceCommand::Remove(args) => remove(ui, &host, args)?,
        WorkspaceCommand::Diff(args) => diff::run(ui, &host, &args)?,
        WorkspaceCommand::Reset(args) => return reset::run(ui, &host, args),
    }
    Ok(Exit::Done)
}

fn add(ui: Ui, host: &Host, args: AddArgs) -> Done {
    let by = acting(args.principal)?;
    let added = host.add_workspace(args.id, &args.path, args.branch.as_deref(), &by)?;
    if ui.json {
        return ui.json(&added);
    }
    let text = format!("{} {}", paint(GOOD, "added"), title(&added));
    ui.line(wrap(&text, 2))?;
    let hint = "agents need grants on this path: `countersign grant issue --help`";
    ui.line(wrap(&format!("{} {hint}", paint(BOLD, "hint:")), 0))
}

/// A workspace on one line.
fn title(workspace: &Workspace) -> String {
    let (id, path) = (paint(BOLD, &workspace.id), inert(&workspace.path));
    format!("{id} at {path}, branch {}, {}", inert(&workspace.branch), short(&workspace.base))
}

/// As much of an object id as people compare.
fn short(id: &str) -> String {
    paint(DIM, id.chars().take(12).collect::<String>())
}

fn list(ui: Ui, host: &Host) -> Done {
    let all = host.workspaces()?;
    if ui.json {
        return ui.json(&all);
    }
    if all.is_empty() {
        return ui.line("no workspaces; add one with `countersign workspace add ID PATH`");
    }
    all.iter().try_for_each(|workspace| ui.line(wrap(&title(workspace), 2)))
}

fn remove(ui: Ui, host: &Host, args: RemoveArgs) -> Done {
    let by = acting(args.principal)?;
    let runs = host.remove_workspace(&args.id, &by, args.force)?;
    if ui.json {
        return ui.json(&json!({"removed": args.id, "runs": runs}));
    }
    ui.line(format!("{} {}", paint(WARN, "removed"), args.id))?;
    match runs.as_slice() {
        [] => Ok(()),
        runs => ui.line(wrap(&format!("  and the worktrees of {}", names(runs)), 2)),
    }
}

fn names(runs: &[RunId]) -> String {
    runs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
