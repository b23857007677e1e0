use clap::Args;
use countersign_actions::rules;
use countersign_host::Home;
use countersign_host::again::{CallPair, Gap};

use super::replay::subject;
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Compare two calls, or two runs call by call, fact by fact
///
/// What must differ is ignored: ids, moments, durations, hosts, and digests of what holds them. Exit
/// code 0 means that nothing else differs, 1 that something does.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// An execution's id, `last`, or a run
    #[arg(value_name = "A")]
    then: String,

    /// What to hold against it
    #[arg(value_name = "B")]
    now: String,
}

pub(super) fn run(context: &Context, args: &DiffArgs) -> Done<Exit> {
    let (ui, home) = (context.ui, Home::open(&context.home)?);
    let (then, now) = (subject(&home, &args.then)?, subject(&home, &args.now)?);
    let compared = home.compare(&then, &now, rules)?;
    let exit = if compared.equal { Exit::Done } else { Exit::ToolFailed };
    if ui.json {
        ui.json(&compared)?;
        return Ok(exit);
    }
    if compared.equal {
        let calls = compared.calls.len();
        ui.line(format!("{} in {calls} calls", paint(GOOD, "no difference")))?;
        return Ok(exit);
    }
    if let Some(first) = &compared.first {
        ui.line(wrap(&format!("{} {}", paint(WARN, "first:"), told(first)), 2))?;
    }
    compared.calls.iter().try_for_each(|pair| print(ui, pair))?;
    Ok(exit)
}

fn told(gap: &Gap) -> String {
    inert(&format!("{}: {}", gap.about, gap.difference))
}

fn print(ui: Ui, pair: &CallPair) -> Done {
    if pair.gaps.is_empty() {
        return Ok(());
    }
    let id = |id: Option<_>| id.map_or_else(|| "nothing".to_owned(), |id| format!("{id}"));
    let ids = paint(DIM, format!("{} | {}", id(pair.then), id(pair.now)));
    ui.line(format!("{} {ids}", paint(BOLD, &pair.tool)))?;
    pair.gaps.iter().try_for_each(|gap| ui.line(wrap(&format!("  {}", told(gap)), 2)))
}
