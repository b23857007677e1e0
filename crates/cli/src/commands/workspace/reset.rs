//! Puts the worktree of a run back to its base.

use std::io::IsTerminal;

use clap::Args;
use countersign_host::Host;
use countersign_host::work::WorkPlace;
use countersign_model::{Failure, Principal, RunId, WorkspaceId};
use serde_json::json;

use super::diff::Changes;
use super::short;
use crate::commands::{acting, approval};
use crate::exit::Exit;
use crate::ui::{Done, GOOD, Ui, WARN, paint, wrap};

/// Put the worktree of a run back to the commit that it started from
///
/// What it had changed is gone from the worktree. Its tree stays in the private repository of the
/// run, and the journal names it. A worktree that was lost is made anew.
#[derive(Debug, Args)]
pub(crate) struct ResetArgs {
    id: WorkspaceId,

    /// The run
    #[arg(long)]
    run: RunId,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Who resets it; only humans may [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

pub(super) fn run(ui: Ui, host: &Host, args: ResetArgs) -> Done<Exit> {
    let by = acting(args.principal)?;
    let before = existing(host, &args.id, &args.run)?;
    let changes = before.as_ref().map(Changes::of).transpose()?;
    let changes = changes.filter(|changes| changes.count() > 0);
    if let Some(changes) = &changes
        && !args.yes
        && !agreed(ui, changes)?
    {
        ui.line("left as it is")?;
        return Ok(Exit::Done);
    }
    let after = host.reset_run(&args.id, &args.run, &by)?;
    let kept = before.map(|place| place.work.tree);
    report(ui, &after, kept, changes.map_or(0, |changes| changes.count()))?;
    Ok(Exit::Done)
}

/// What stands there now; nothing, if it was lost.
fn existing(host: &Host, id: &WorkspaceId, run: &RunId) -> Result<Option<WorkPlace>, Failure> {
    match host.existing_work(id, run) {
        Ok(place) => Ok(Some(place)),
        Err(failure) if LOST.contains(&failure.code.as_ref()) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// What a reset mends.
const LOST: [&str; 4] =
    ["WORKTREE_LOST", "TREE_UNREADABLE", "TREE_HOLDS_REPOSITORY", "TREE_HOLDS_SPECIAL"];

fn agreed(ui: Ui, changes: &Changes) -> Done<bool> {
    if ui.json || !std::io::stdin().is_terminal() {
        let message = format!("{} changed files would be thrown away", changes.count());
        return Err(Failure::validation("CONFIRMATION_MISSING", message)
            .hint("look at them with `countersign workspace diff`, then add --yes")
            .into());
    }
    changes.print(ui)?;
    approval::confirm(ui, &format!("{} these changes?", paint(WARN, "throw away")))
}

fn report(ui: Ui, after: &WorkPlace, kept: Option<String>, changed: usize) -> Done {
    if ui.json {
        return ui.json(&json!({
            "workspace": after.workspace.id,
            "run": after.work.run,
            "base": after.work.base,
            "tree": after.work.tree,
            "thrownAway": changed,
            "kept": kept,
        }));
    }
    let (run, base) = (&after.work.run, short(&after.work.base));
    ui.line(wrap(&format!("{} run {run} to {base}", paint(GOOD, "reset")), 2))?;
    match kept.filter(|_| changed > 0) {
        None => Ok(()),
        Some(tree) => {
            let place = after.directory.path().join("repo.git");
            let text = format!(
                "  {changed} changed files are gone from it; they are kept as tree {tree} in {}",
                crate::ui::shown(&place)
            );
            ui.line(wrap(&text, 2))
        }
    }
}
