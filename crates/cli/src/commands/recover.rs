use clap::Args;
use countersign_host::Host;
use countersign_host::recovery::Recovered;
use countersign_model::{ExecutionId, Failure};
use serde_json::json;

use crate::Context;
use crate::exit::Exit;
use crate::sandbox;
use crate::ui::{BAD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Finish what a killed process left behind; every call does this first, too
#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// Leave the changes of this committed call as they are, although not all are in place
    #[arg(long, value_name = "EXECUTION")]
    give_up: Option<ExecutionId>,
}

pub(super) fn run(context: &Context, args: &RecoverArgs) -> Done<Exit> {
    let host = Host::open(&context.home)?;
    sandbox::clean_leftovers(host.home());
    // Opening recovered already. What was pending then is tried once more, and given up if asked.
    let again = match args.give_up {
        Some(execution) => host.give_up_on(execution)?,
        None if host.recovered().pending.is_empty() => Recovered::default(),
        None => host.recover()?,
    };
    if let Some(execution) = args.give_up.filter(|id| !again.unsettled.contains(id)) {
        return Err(nothing_to_give_up(execution).into());
    }
    let recovered = host.recovered().clone().and_then(again);
    if context.ui.json {
        context.ui.json(&json!({
            "completed": recovered.completed,
            "rolledBack": recovered.rolled_back,
            "unsettled": recovered.unsettled,
            "pending": recovered.pending,
        }))?;
    } else {
        print(context.ui, &recovered)?;
    }
    let whole = recovered.unsettled.is_empty() && recovered.pending.is_empty();
    Ok(if whole { Exit::Done } else { Exit::Unknown })
}

fn nothing_to_give_up(execution: ExecutionId) -> Failure {
    let message = format!("execution {execution} has no changes that wait to be put in place");
    Failure::validation("NOTHING_PENDING", message)
        .hint("`countersign recover` says what is pending")
}

fn print(ui: Ui, recovered: &Recovered) -> Done {
    let list = |word: String, ids: &[ExecutionId]| {
        ids.iter().try_for_each(|id| ui.line(format!("{word} {id}")))
    };
    list(paint(GOOD, "finished"), &recovered.completed)?;
    list(paint(GOOD, "rolled back"), &recovered.rolled_back)?;
    list(paint(WARN, "outcome unknown"), &recovered.unsettled)?;
    for id in &recovered.unsettled {
        ui.line(format!("  see `countersign execution show {id}`"))?;
    }
    for failure in &recovered.pending {
        ui.line(wrap(&format!("{} {}", paint(BAD, "not finished:"), inert(&failure.message)), 2))?;
        if let Some(hint) = &failure.hint {
            ui.line(wrap(&format!("  {}", paint(DIM, inert(hint))), 2))?;
        }
    }
    if *recovered == Recovered::default() {
        ui.line("nothing was left unfinished")?;
    }
    Ok(())
}
