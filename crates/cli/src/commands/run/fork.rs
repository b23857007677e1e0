//! Runs that begin with the past of others, and what differs between two.

use clap::{Args, ValueEnum};
use countersign_flow::ForkMode;
use countersign_flow::fork::ForkRequest;
use countersign_model::Principal;
use countersign_workflow::Forker;
use serde_json::Value;

use super::drive::{follow, leave};
use super::start::object;
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::runs::{driving, find, looking, told};
use crate::ui::{BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Differences that are printed.
const SHOWN: usize = 40;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mode {
    /// Nothing happens again: answers and results are those that were recorded
    Replay,
    /// From there on everything happens anew
    Branch,
}

/// Begin a run with the past of another
///
/// Stays with the new run; output and exit codes are those of `countersign run start`.
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// The run's id, or `last`
    run: String,

    #[arg(long)]
    mode: Mode,

    /// The first event that is not taken over [default: 0 for a replay]
    #[arg(long, value_name = "N")]
    from: Option<i64>,

    /// What replaces the beginning of a branch: `inputs`, `configurable`, `tags`, `metadata`
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE")]
    overlay: String,

    /// Who asks; its calls are made in this name [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// Only begin it; `countersign run resume` goes on with it
    #[arg(long)]
    detach: bool,
}

/// Compare two runs, event by event and at their ends
///
/// Ids and moments are ignored. Exit code 0 means that nothing else differs, 1 that something does.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// A run's id, or `last`
    a: String,

    /// What to hold against it
    b: String,
}

pub(super) fn fork(context: &Context, args: ForkArgs) -> Done<Exit> {
    let ui = context.ui;
    let engine = if args.detach { looking(&context.home) } else { driving(&context.home) }?;
    let source = find(&engine, &args.run)?.run;
    let mode = match args.mode {
        Mode::Replay => ForkMode::Replay,
        Mode::Branch => ForkMode::Branch,
    };
    let overlay = object(engine.host(), "--overlay", &args.overlay)?;
    let request = ForkRequest { run_id: String::new(), mode, from_sequence: args.from, overlay };
    let begun =
        engine.fork(&source, request, Forker::new(acting(args.principal)?)).map_err(told)?;
    if args.detach {
        return leave(ui, &engine, &begun.run);
    }
    follow(ui, &engine, &begun.run, 0)
}

pub(super) fn diff(context: &Context, args: &DiffArgs) -> Done<Exit> {
    let (ui, engine) = (context.ui, looking(&context.home)?);
    let (a, b) = (find(&engine, &args.a)?.run, find(&engine, &args.b)?.run);
    let found = engine.diff(&a, &b).map_err(told)?;
    let is_empty = |name: &str| match found.get(name) {
        Some(Value::Array(all)) => all.is_empty(),
        Some(Value::Object(all)) => all.is_empty(),
        _ => true,
    };
    let same = is_empty("eventDiffs") && is_empty("stateDiff");
    match ui.json {
        true => ui.json(&found)?,
        false if same => ui.line(paint(GOOD, "no difference"))?,
        false => print(ui, &found)?,
    }
    Ok(if same { Exit::Done } else { Exit::ToolFailed })
}

fn print(ui: Ui, found: &Value) -> Done {
    let events = found.get("eventDiffs").and_then(Value::as_array).cloned().unwrap_or_default();
    if let Some(first) = found.get("divergedAtSeq").and_then(Value::as_u64) {
        ui.line(format!("{} at event {first}", paint(WARN, "they part")))?;
    }
    for one in events.iter().take(SHOWN) {
        event(ui, one)?;
    }
    if let more @ 1.. = events.len().saturating_sub(SHOWN) {
        ui.line(paint(DIM, format!("  and {more} more events; --json shows them")))?;
    }
    let states = found.get("stateDiff").and_then(Value::as_object);
    for (member, both) in states.into_iter().flatten() {
        ui.line(paint(BOLD, inert(member)))?;
        state(ui, both)?;
    }
    Ok(())
}

fn event(ui: Ui, one: &Value) -> Done {
    let side = |name: &str| {
        let event = one.get(name)?;
        let text = |member: &str| event.get(member).and_then(Value::as_str).unwrap_or_default();
        Some(format!("{} {}", text("type"), text("nodeId")).trim_end().to_owned())
    };
    let place = one.get("seq").and_then(Value::as_u64).unwrap_or_default();
    let (a, b) = (side("aEvent"), side("bEvent"));
    let none = || "nothing".to_owned();
    let text = match (a, b) {
        (Some(a), Some(b)) if a == b => format!("{a} says something else"),
        (a, b) => format!("{} | {}", a.unwrap_or_else(none), b.unwrap_or_else(none)),
    };
    ui.line(wrap(&format!("  {place:>4} {}", inert(&text)), 6))
}

fn state(ui: Ui, both: &Value) -> Done {
    let sides = |value: &Value| {
        let side = |name: &str| value.get(name).map_or("nothing".to_owned(), Value::to_string);
        format!("{} | {}", side("a"), side("b"))
    };
    let cut = |text: String| inert(&text).chars().take(400).collect::<String>();
    match both.as_object().filter(|all| !(all.contains_key("a") && all.contains_key("b"))) {
        None => ui.line(wrap(&format!("  {}", cut(sides(both))), 4)),
        Some(all) => all.iter().try_for_each(|(name, value)| {
            ui.line(wrap(&format!("  {}: {}", inert(name), cut(sides(value))), 4))
        }),
    }
}
