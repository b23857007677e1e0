use clap::Args;
use countersign_host::Home;
use countersign_host::refusal::reasons;
use countersign_host::replay::{Difference, Replay};
use countersign_model::Verdict;
use serde_json::{Value, json};

use super::{Which, text};
use crate::Context;
use crate::exit::Exit;
use crate::plain::plain;
use crate::ui::{BOLD, DIM, Done, Ui, paint, wrap};

/// Decide recorded calls again, and show what would differ
///
/// Uses the facts that were kept with each call. Try a change before you make it: copy policy/, edit
/// the copy, and name it with --policy. Exit codes: 0, or 2 on differences with --check.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// How many calls, newest first
    #[arg(long, default_value_t = 100, value_name = "N")]
    last: u64,

    /// Exit with 2 if anything differs
    #[arg(long)]
    check: bool,

    #[command(flatten)]
    which: Which,
}

pub(super) fn run(context: &Context, args: &ReplayArgs) -> Done<Exit> {
    let home = Home::open(&context.home)?;
    let policies = args.which.compile(&home)?;
    let replay = home.replay(&policies, args.last)?;
    match context.ui.json {
        true => context.ui.json(&to_json(&replay))?,
        false => print(context.ui, &replay)?,
    }
    let differs = args.check && !replay.differences.is_empty();
    Ok(if differs { Exit::Invalid } else { Exit::Done })
}

fn to_json(replay: &Replay) -> Value {
    let differences: Vec<_> = replay.differences.iter().map(difference).collect();
    json!({
        "decided": replay.decided,
        "skipped": replay.skipped,
        "differences": differences,
    })
}

fn difference(difference: &Difference) -> Value {
    json!({
        "executionId": difference.call.execution,
        "tool": difference.call.tool,
        "principal": difference.call.principal,
        "before": difference.before,
        "after": difference.after,
        "facts": difference.facts,
    })
}

fn print(ui: Ui, replay: &Replay) -> Done {
    for difference in &replay.differences {
        let (call, before, after) = (&difference.call, &difference.before, &difference.after);
        let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
        let change = format!(
            "{} instead of {}",
            text::decision(after.decision),
            text::decision(before.decision)
        );
        ui.line(wrap(&format!("{tool} as {}: {change}", call.principal), 2))?;
        if before.approvers != after.approvers {
            let people = format!("{} instead of {}", after.approvers, before.approvers);
            text::row(ui, "people", &people)?;
        }
        if before.expires_after_ms != after.expires_after_ms {
            text::row(ui, "patience", &patience(before, after))?;
        }
        for need in &difference.facts.effects {
            text::row(ui, "touches", &text::touch(need))?;
        }
        reasons(after).iter().try_for_each(|reason| text::row(ui, "because", &plain(reason)))?;
        ui.line(paint(DIM, format!("  {}", call.execution)))?;
    }
    ui.line(wrap(&summary(replay), 0))
}

fn patience(before: &Verdict, after: &Verdict) -> String {
    let words = |verdict: &Verdict| match verdict.expires_after_ms {
        Some(ms) => format!("{} min", ms / 60_000),
        None => "as configured".to_owned(),
    };
    format!("{} instead of {}", words(after), words(before))
}

fn summary(replay: &Replay) -> String {
    let Replay { decided, skipped, differences } = replay;
    let skipped = match skipped {
        0 => String::new(),
        n => format!("; {n} more never got as far as policy"),
    };
    format!("{} of {decided} calls would be decided otherwise{skipped}", differences.len())
}
