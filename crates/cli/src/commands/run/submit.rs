//! Answers a question of a run, or hands in the result of an agent's stage.

use clap::Args;
use countersign_flow::event::InterruptKind;
use countersign_flow::{Actor, Command, Resolution, Target};
use countersign_model::{Failure, Principal};
use countersign_workflow::View;
use serde_json::{Value, json};

use super::drive::{follow, leave};
use super::start::value;
use super::waits::is_call;
use crate::Context;
use crate::commands::acting;
use crate::exit::Exit;
use crate::runs::{driving, find, looking, told};
use crate::ui::Done;

/// Answer what a run waits for, or hand in the result of an agent's stage
///
/// Goes on with the run until it ends or waits again. `countersign run show` says what is asked and
/// what an answer looks like. Only humans answer approvals; a call of a tool that waits is approved
/// with `countersign approval`. Output and exit codes are those of `countersign run start`.
#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// The run's id, or `last`
    run: String,

    /// The node that waits [default: the only one]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,

    /// The answer: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    value: String,

    /// Who answers [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// Only answer; whoever drives the run goes on with it
    #[arg(long)]
    detach: bool,
}

pub(super) fn run(context: &Context, args: SubmitArgs) -> Done<Exit> {
    let ui = context.ui;
    let engine = if args.detach { looking(&context.home) } else { driving(&context.home) }?;
    let run = find(&engine, &args.run)?.run;
    let mut answer = value(engine.host(), &args.value)?;
    let by = acting(args.principal)?;
    let view = engine.view(&run).map_err(told)?;
    let node = node(&view, args.node)?;
    check(&view, &node, &by, &mut answer)?;
    let actor = Actor { principal: Some(by.to_string()), ..Actor::default() };
    let target = Target::Node(node);
    let wanted = Command::Resolve(Resolution { target, value: answer, actor });
    engine.command(&run, &wanted).map_err(told)?;
    if args.detach {
        return leave(ui, &engine, &run);
    }
    engine.take_up(&run).map_err(told)?;
    follow(ui, &engine, &run, view.state.next)
}

fn node(view: &View, named: Option<String>) -> Result<String, Failure> {
    match (named, view.state.interrupts.as_slice()) {
        (Some(node), _) => Ok(node),
        (None, [only]) => Ok(only.node.clone()),
        (None, all) => {
            let waiting = all.iter().map(|open| open.node.as_str()).collect::<Vec<_>>().join(", ");
            let message = match all.is_empty() {
                true => "the run waits for no answer".to_owned(),
                false => format!("several nodes wait: {waiting}"),
            };
            Err(Failure::validation("NODE_MISSING", message).hint("name one with --node"))
        }
    }
}

/// Approvals are for people, and count for whoever gives them.
fn check(view: &View, node: &str, by: &Principal, answer: &mut Value) -> Result<(), Failure> {
    let Some(open) = view.state.interrupt_of(node) else { return Ok(()) };
    if !matches!(open.kind, InterruptKind::Approval | InterruptKind::LowConfidence) {
        return Ok(());
    }
    if is_call(open) {
        return Err(Failure::validation(
            "CALL_WAITS",
            "a call of a tool waits, and is approved itself",
        )
        .hint("`countersign approval list` shows it; then `countersign run resume`"));
    }
    if !by.is_human() {
        return Err(Failure::authorization("HUMAN_REQUIRED", format!("{by} is no human"))
            .hint("a human has to answer an approval"));
    }
    if let Some(members) = answer.as_object_mut() {
        members.insert("voter".to_owned(), json!(by.to_string()));
    }
    Ok(())
}
