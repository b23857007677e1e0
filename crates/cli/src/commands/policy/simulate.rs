use clap::Args;
use countersign_host::{Host, Simulation, Would};
use countersign_model::Failure;
use serde_json::{Value, json};

use super::{Which, open, text};
use crate::Context;
use crate::commands::call::What;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Say what would happen to a call, without running it
///
/// The same facts and the same code decide as for a real call; nothing is run and nothing is
/// recorded. Exit codes: 0 it would run, 3 it would be denied, 4 people would be asked, 2 there would
/// be no call.
#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    what: What,

    #[command(flatten)]
    which: Which,
}

pub(super) fn run(context: &Context, args: SimulateArgs) -> Done<Exit> {
    let host = open(context)?;
    let simulation = simulate(&host, args)?;
    match context.ui.json {
        true => context.ui.json(&to_json(&simulation))?,
        false => print(context.ui, &simulation)?,
    }
    Ok(match &simulation.would {
        Would::Run => Exit::Done,
        Would::Ask { .. } => Exit::Waiting,
        Would::Refuse(failure) => Exit::of_failure(failure),
    })
}

fn simulate(host: &Host, args: SimulateArgs) -> Result<Simulation, Failure> {
    let policies = args.which.compile(host.home())?;
    host.simulate(args.what.command()?, Some(&policies))
}

fn to_json(simulation: &Simulation) -> Value {
    let Simulation { facts, input, verdict, grants, would } = simulation;
    let would = match would {
        Would::Run => json!({"outcome": "run"}),
        Would::Ask { approvers, expires_at } => {
            json!({"outcome": "ask", "approvers": approvers, "expiresAt": expires_at})
        }
        Would::Refuse(failure) => json!({"outcome": "refuse", "error": failure}),
    };
    let granted = match grants {
        Ok(granted) => json!({"ok": true, "grants": granted.grants}),
        Err(failure) => json!({"ok": false, "error": failure}),
    };
    json!({
        "would": would,
        "verdict": verdict,
        "grants": granted,
        "facts": facts,
        "risk": facts.risk(),
        "input": input,
    })
}

fn print(ui: Ui, simulation: &Simulation) -> Done {
    let Simulation { facts, verdict, grants, would, .. } = simulation;
    let tool = paint(BOLD, format!("{}@{}", facts.tool.id, facts.tool.version));
    ui.line(wrap(&format!("{tool} {}", outcome(would)), 2))?;
    text::verdict(ui, verdict)?;
    match grants {
        Ok(granted) => text::row(ui, "grants", &format!("cover it ({})", granted.grants.len()))?,
        Err(failure) => text::row(ui, "grants", &inert(&failure.message))?,
    }
    text::facts(ui, facts)?;
    ui.line("nothing was run and nothing was recorded")
}

fn outcome(would: &Would) -> String {
    match would {
        Would::Run => paint(GOOD, "would run"),
        Would::Ask { approvers: 1, .. } => paint(WARN, "would wait for a human"),
        Would::Ask { approvers, .. } => paint(WARN, format!("would wait for {approvers} humans")),
        Would::Refuse(failure) => {
            format!("{}: {}", paint(BAD, "would be denied"), inert(&failure.message))
        }
    }
}
