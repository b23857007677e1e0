mod artifacts;

use clap::{Args, Subcommand};
use countersign_host::{Cancel, Clock, Home, SystemClock};
use countersign_journal::{CallFilter, JournalError};
use countersign_model::effect::Payload;
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{ExecutionId, Failure, Lifecycle, Principal, RunId, ToolId};
use countersign_sandbox::Plan;
use serde_json::{Value, json};

use super::When;
use super::call::{is_pending, output_text, report, wait};
use crate::Context;
use crate::exit::Exit;
use crate::lifecycle::{self, Detail};
use crate::plan_text;
use crate::sandbox;
use crate::signals;
use crate::ui::{BOLD, DIM, Done, Stop, Ui, WARN, paint, state_style, width, wrap};

/// Look at past calls
#[derive(Debug, Subcommand)]
pub(crate) enum ExecutionCommand {
    /// List calls, newest first
    List(FilterArgs),
    Show(ShowArgs),
    Artifacts(artifacts::ArtifactsArgs),
    Plan(PlanArgs),
    Resume(ResumeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only calls of this tool
    #[arg(long)]
    tool: Option<ToolId>,

    /// Only calls in this state, such as COMPLETED
    #[arg(long)]
    state: Option<Lifecycle>,

    /// Only calls by this principal
    #[arg(long)]
    principal: Option<Principal>,

    /// Only calls since then: 15m, 8h, 30d ago, or a moment
    #[arg(long, value_name = "TIME")]
    since: Option<When>,

    /// Only calls until then
    #[arg(long, value_name = "TIME")]
    until: Option<When>,

    /// Only calls of this run
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,

    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl FilterArgs {
    pub(super) fn filter(&self) -> CallFilter {
        let now = SystemClock.now();
        CallFilter {
            tool: self.tool.clone(),
            state: self.state,
            principal: self.principal.clone(),
            since: self.since.map(|when| when.before(now)),
            until: self.until.map(|when| when.before(now)),
            limit: self.limit,
            open: false,
            run: self.run.clone(),
        }
    }
}

/// Show one call, step by step
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The execution's id, or `last`
    execution: String,
}

/// Run a call that people were asked about, if they agreed
///
/// Exit codes are those of `countersign call`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The execution's id, or `last`
    execution: String,

    /// Wait for the answer
    #[arg(long)]
    wait: bool,
}

/// Print the plan of the sandbox that a call ran in, as it was recorded
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// The execution's id, or `last`
    execution: String,
}

pub(super) fn run(context: &Context, command: ExecutionCommand) -> Done<Exit> {
    if let ExecutionCommand::Resume(args) = &command {
        return resume(context, args);
    }
    let home = Home::open(&context.home)?;
    match command {
        ExecutionCommand::List(args) => list(context.ui, &home, &args.filter())?,
        ExecutionCommand::Show(args) => show(context.ui, &home, &args.execution)?,
        ExecutionCommand::Artifacts(args) => {
            let call = find(&home, args.execution())?;
            artifacts::run(context.ui, &home, &call, &args)?;
        }
        ExecutionCommand::Plan(args) => plan(context.ui, &home, &args.execution)?,
        ExecutionCommand::Resume(_) => {}
    }
    Ok(Exit::Done)
}

fn resume(context: &Context, args: &ResumeArgs) -> Done<Exit> {
    let host = sandbox::open_host(&context.home)?;
    let call = find(host.home(), &args.execution)?;
    let cancel = Cancel::from_flag(signals::cancelled());
    let mut outcome = host.resume(call.execution, cancel.clone())?;
    if args.wait && is_pending(&outcome) {
        outcome = wait(context.ui, &host, &outcome, &cancel.into())?;
    }
    report(context.ui, &host, &outcome)
}

fn list(ui: Ui, home: &Home, filter: &CallFilter) -> Done {
    if ui.json {
        return ui.json_list(|each| visit(home, filter, |call| each(&call)));
    }
    let wide = width().is_none_or(|width| width >= 110);
    let mut none = true;
    visit(home, filter, |call| {
        none = false;
        print_row(ui, &call, wide)
    })?;
    if none { ui.line("no calls") } else { Ok(()) }
}

/// Walks calls with a visitor that may stop for reasons of its own.
pub(super) fn visit(
    home: &Home,
    filter: &CallFilter,
    mut each: impl FnMut(CallSummary) -> Done,
) -> Done {
    let mut stopped = Ok(());
    let visited = home.store.visit_calls(filter, &mut |call| {
        stopped = each(call);
        if stopped.is_ok() { Ok(()) } else { Err(JournalError::Enough) }
    });
    stopped?;
    visited.map_err(Stop::from)
}

fn print_row(ui: Ui, call: &CallSummary, wide: bool) -> Done {
    let state = paint(state_style(call.state), format!("{:<11}", call.state));
    let tool = format!("{}@{}", call.tool, call.version);
    let duration = call.duration_ms.map_or("open".to_owned(), |ms| format!("{ms} ms"));
    let code = match &call.error {
        Some(error) => format!(" {}", error.code),
        None if call.is_unknown() => format!(" {}", paint(WARN, "OUTCOME UNKNOWN")),
        None => String::new(),
    };
    let id = paint(DIM, call.execution);
    let run = call.work.as_ref().map(|work| format!(" run {} on {}", work.run, work.workspace));
    let run = run.unwrap_or_default();
    if wide {
        let principal = call.principal.to_string();
        return ui.line(format!(
            "{state} {tool:<20} {principal:<16} {} {duration:>8} {id}{code}{run}",
            call.declared_at
        ));
    }
    ui.line(format!("{state} {}{code}", paint(BOLD, tool)))?;
    ui.line(format!("            {}, {}, {duration}", call.principal, call.declared_at))?;
    if !run.is_empty() {
        ui.line(format!("           {run}"))?;
    }
    ui.line(format!("            {id}"))
}

/// The execution that a person means.
pub(super) fn find(home: &Home, text: &str) -> Result<CallSummary, Failure> {
    let unknown = || {
        Failure::validation("EXECUTION_UNKNOWN", format!("there is no execution `{text}`"))
            .hint("list them with `countersign execution list`")
    };
    if text == "last" {
        let mut last = None;
        let filter = CallFilter { limit: Some(1), ..CallFilter::default() };
        home.store.visit_calls(&filter, &mut |call| {
            last = Some(call);
            Ok(())
        })?;
        return last.ok_or_else(|| {
            Failure::validation("EXECUTION_UNKNOWN", "nothing was called yet in this home")
                .hint("call a tool first: `countersign call --help`")
        });
    }
    let id: ExecutionId = text.parse()?;
    home.store.call(id)?.ok_or_else(unknown)
}

fn show(ui: Ui, home: &Home, text: &str) -> Done {
    let call = find(home, text)?;
    if ui.json {
        return ui.json(&to_json(home, &call)?);
    }
    lifecycle::print(ui, home, &call, Detail::Full)?;
    ui.line(paint(BOLD, "input"))?;
    ui.line(
        value(home, &call, &call.input).map_or_else(|| "not kept".to_owned(), |v| output_text(&v)),
    )?;
    if let Some(output) = call.output {
        ui.line(paint(BOLD, "output"))?;
        ui.line(
            value(home, &call, &output).map_or_else(|| "not kept".to_owned(), |v| output_text(&v)),
        )?;
    }
    ui.line(paint(DIM, format!("execution {}, {}", call.execution, call.declared_at)))
}

fn value(home: &Home, call: &CallSummary, payload: &Payload) -> Option<Value> {
    home.payload(call.execution, payload).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

/// The plan of the last attempt. It is checked against the digest that the journal pins.
fn plan(ui: Ui, home: &Home, text: &str) -> Done {
    let call = find(home, text)?;
    let entries = home.store.call_entries(call.execution)?;
    let pinned = entries.iter().rev().find_map(|stored| match &stored.entry.fact {
        Fact::Call(fact) => match &fact.event {
            CallEvent::Started(started) => started.plan,
            _ => None,
        },
        _ => None,
    });
    let Some(pinned) = pinned else {
        let message = format!("execution {} ran in no sandbox", call.execution);
        return Err(Stop::from(Failure::validation("PLAN_MISSING", message).hint(
            "only programs that were started have a plan; `countersign execution show` says more",
        )));
    };
    let bytes = home.payload(call.execution, &pinned)?;
    let plan: Plan = serde_json::from_slice(&bytes)
        .map_err(|error| Failure::state("INTERNAL", format!("the plan cannot be read: {error}")))?;
    if ui.json {
        return ui.json(&json!({
            "executionId": call.execution,
            "digest": pinned.digest,
            "plan": plan,
        }));
    }
    plan_text::print(ui, &plan)?;
    ui.line(wrap(&paint(DIM, format!("plan {} of execution {}", pinned.digest, call.execution)), 0))
}

fn to_json(home: &Home, call: &CallSummary) -> Result<Value, Failure> {
    let entries = home.store.call_entries(call.execution)?;
    let events: Vec<_> = entries
        .iter()
        .filter_map(|stored| match &stored.entry.fact {
            Fact::Call(fact) => Some(json!({
                "entry": stored.entry.seq,
                "hash": stored.hash,
                "time": stored.entry.time,
                "event": fact.event,
            })),
            _ => None,
        })
        .collect();
    Ok(json!({
        "call": call,
        "input": value(home, call, &call.input),
        "output": call.output.as_ref().and_then(|output| value(home, call, output)),
        "events": events,
    }))
}
