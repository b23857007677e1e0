//! Which runs there are.

use clap::Args;
use clap::builder::PossibleValuesParser;
use countersign_journal::{JournalError, RunFilter};
use countersign_model::RunSummary;
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::runs::status_style;
use crate::ui::{BOLD, DIM, Done, Stop, Ui, inert, paint, width};
use countersign_host::Home;

const STATUSES: [&str; 9] = [
    "pending",
    "running",
    "paused",
    "waiting-approval",
    "waiting-input",
    "waiting-external",
    "completed",
    "failed",
    "cancelled",
];

/// List runs, newest first
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Only runs that stand so
    #[arg(long, value_parser = PossibleValuesParser::new(STATUSES))]
    status: Option<String>,

    /// Only runs of this tenant
    #[arg(long)]
    tenant: Option<String>,

    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

pub(super) fn run(context: &Context, args: &ListArgs) -> Done<Exit> {
    let (ui, home) = (context.ui, Home::open(&context.home)?);
    let filter = RunFilter {
        status: args.status.clone(),
        tenant: args.tenant.clone(),
        limit: args.limit,
        ..RunFilter::default()
    };
    if ui.json {
        ui.json_list(|each| visit(&home, &filter, |run| each(&shown(&run))))?;
        return Ok(Exit::Done);
    }
    let wide = width().is_none_or(|width| width >= 110);
    let mut none = true;
    visit(&home, &filter, |run| {
        none = false;
        print_row(ui, &run, wide)
    })?;
    if none {
        ui.line("no runs")?;
    }
    Ok(Exit::Done)
}

fn visit(home: &Home, filter: &RunFilter, mut each: impl FnMut(RunSummary) -> Done) -> Done {
    let mut stopped = Ok(());
    let visited = home.store.visit_runs(filter, &mut |run| {
        stopped = each(run);
        if stopped.is_ok() { Ok(()) } else { Err(JournalError::Enough) }
    });
    stopped?;
    visited.map_err(Stop::from)
}

fn shown(run: &RunSummary) -> Value {
    json!({
        "runId": run.run,
        "workflowId": run.workflow,
        "status": run.status,
        "tenant": run.tenant,
        "principal": run.principal,
        "createdAt": run.created_at,
        "updatedAt": run.updated_at,
        "endedAt": run.ended_at,
        "events": run.events,
        "parentRunId": run.parent,
    })
}

fn print_row(ui: Ui, run: &RunSummary, wide: bool) -> Done {
    let status = paint(status_style(&run.status), format!("{:<16}", run.status));
    let (workflow, id) = (inert(&run.workflow), paint(DIM, &run.run));
    if wide {
        let principal = run.principal.to_string();
        let at = run.created_at;
        return ui.line(format!("{status} {workflow:<24} {principal:<16} {at} {id}"));
    }
    ui.line(format!("{status} {}", paint(BOLD, workflow)))?;
    ui.line(format!("  {}, {}", run.principal, run.created_at))?;
    ui.line(format!("  {id}"))
}
