//! What waits for people, and their answers.

mod card;
mod edit;
mod prompt;
mod remember;

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use countersign_host::approvals::Approval;
use countersign_host::{Cancel, Host};
use countersign_model::facts::ORDER_TOOL;
use countersign_model::record::CallSummary;
use countersign_model::{Answer, ExecutionId, Failure, Principal};
use serde_json::{Value, json};

pub(super) use card::span;

use super::{acting, call, execution};
use crate::Context;
use crate::exit::Exit;
use crate::key_file::KeyArgs;
use crate::signals;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, wrap};

/// Decide about calls that wait for a human
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalCommand {
    List,
    Show(ShowArgs),
    Approve(AnswerArgs),
    Reject(RejectArgs),
    Withdraw(WithdrawArgs),
    Watch(WatchArgs),
}

/// Show what a call would do, who asked, and why you are asked
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The execution that waits, or `last`
    execution: String,
}

/// Agree to a call, exactly as it is shown
///
/// The answer is signed with your own key and used once. Without --yes you are shown the call and
/// asked. Exit codes: 0 answered, 2 nothing waits under this id, 3 you may not answer, 4 it expired.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    execution: ExecutionId,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Do not show and ask: the call was looked at already
    #[arg(long)]
    yes: bool,

    /// Run the call at once when nobody else has to agree
    #[arg(long)]
    run: bool,

    #[command(flatten)]
    key: KeyArgs,
}

/// Refuse a call
#[derive(Debug, Args)]
pub(crate) struct RejectArgs {
    execution: ExecutionId,

    /// Why; whoever asked is told
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    key: KeyArgs,
}

/// Take back a call that waits
#[derive(Debug, Args)]
pub(crate) struct WithdrawArgs {
    execution: ExecutionId,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Who withdraws it [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,
}

/// Wait for calls that wait, and decide about one after the other
#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Decide about what waits now, and end
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    key: KeyArgs,
}

pub(super) fn run(context: &Context, command: ApprovalCommand) -> Done<Exit> {
    let host = crate::sandbox::open_host(&context.home)?;
    let ui = context.ui;
    match command {
        ApprovalCommand::List => list(ui, &host),
        ApprovalCommand::Show(args) => {
            let call = execution::find(host.home(), &args.execution)?;
            show(ui, &host, call.execution)
        }
        ApprovalCommand::Approve(args) => approve(ui, &host, &args),
        ApprovalCommand::Reject(args) => reject(ui, &host, &args),
        ApprovalCommand::Withdraw(args) => withdraw(ui, &host, args),
        ApprovalCommand::Watch(args) => prompt::watch(ui, &host, &args.key.token()?, args.once),
    }
}

fn list(ui: Ui, host: &Host) -> Done<Exit> {
    host.end_expired()?;
    let waiting = host.approvals()?;
    if ui.json {
        let lines: Vec<_> = waiting.iter().map(line).collect();
        ui.json(&lines)?;
        return Ok(Exit::Done);
    }
    if waiting.is_empty() {
        ui.line("nothing waits for a human")?;
    }
    let now = host.clock().now();
    for call in &waiting {
        let Some(asked) = &call.approval else { continue };
        let people = match asked.approvers {
            1 => String::new(),
            n => format!(", {} of {n} agreed", asked.given.len()),
        };
        let left = card::span(asked.expires_at.millis_since(now));
        let tool = paint(BOLD, format!("{}@{}", call.tool, call.version));
        ui.line(wrap(&format!("{tool} as {}{people}, {left}", call.principal), 2))?;
        ui.line(paint(DIM, format!("  {}", call.execution)))?;
    }
    Ok(Exit::Done)
}

/// Asks a question that only a `y` answers with yes.
pub(super) fn confirm(ui: Ui, question: &str) -> Done<bool> {
    let answer = prompt::ask(ui, &format!("{question} [y/n] "))?;
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

fn line(call: &CallSummary) -> Value {
    json!({
        "executionId": call.execution,
        "tool": call.tool,
        "version": call.version,
        "principal": call.principal,
        "root": call.root,
        "approval": call.approval,
    })
}

fn show(ui: Ui, host: &Host, execution: ExecutionId) -> Done<Exit> {
    let approval = host.approval(execution)?;
    if ui.json {
        ui.json(&to_json(&approval))?;
    } else {
        card::print(ui, &approval, host.clock().now())?;
    }
    Ok(Exit::Done)
}

fn to_json(approval: &Approval) -> Value {
    json!({
        "executionId": approval.call.execution,
        "state": approval.call.state,
        "subject": approval.subject,
        "risk": approval.subject.facts.risk(),
        "reversible": approval.subject.facts.is_reversible(),
        "input": approval.input,
        "answers": approval.answers,
        "previous": approval.previous.as_ref().map(|(execution, input)| {
            json!({ "executionId": execution, "input": input })
        }),
    })
}

fn approve(ui: Ui, host: &Host, args: &AnswerArgs) -> Done<Exit> {
    let token = args.key.token()?;
    if !args.yes {
        if ui.json || !std::io::stdin().is_terminal() {
            let message = "nobody is here to be shown the call";
            return Err(Failure::validation("CONFIRMATION_MISSING", message)
                .hint("look at it with `countersign approval show`, then add --yes")
                .into());
        }
        let approval = host.approval(args.execution)?;
        let reason = args.reason.as_deref();
        return prompt::decide(ui, host, &token, &approval, reason, args.run);
    }
    let call = host.answer(args.execution, &token, Answer::Yes, args.reason.as_deref())?;
    answered(ui, host, &call, args.run)
}

/// Runs a call that people have agreed to enough, where that was asked for; tells where any other
/// one stands.
fn answered(ui: Ui, host: &Host, call: &CallSummary, run: bool) -> Done<Exit> {
    let agreed = call.approval.as_ref().is_some_and(|asked| asked.is_enough());
    if run && agreed && !call.terminal {
        return run_now(ui, host, call.execution);
    }
    told(ui, call)?;
    Ok(Exit::Done)
}

fn run_now(ui: Ui, host: &Host, execution: ExecutionId) -> Done<Exit> {
    let outcome = host.resume(execution, Cancel::from_flag(signals::cancelled()))?;
    call::report(ui, host, &outcome)
}

/// What became of a call that was answered.
fn told(ui: Ui, call: &CallSummary) -> Done {
    if ui.json {
        return ui.json(&line_with_state(call));
    }
    let Some(asked) = &call.approval else { return Ok(()) };
    let execution = call.execution;
    if call.terminal {
        let error = call.error.as_ref().map(|error| inert(&error.message)).unwrap_or_default();
        return ui.line(wrap(&format!("{} {error}", paint(BAD, "ended:")), 2));
    }
    let (given, of) = (asked.given.len(), asked.approvers);
    if !asked.is_enough() {
        let text = format!("{} {given} of {of} agreed; it still waits", paint(WARN, "noted:"));
        return ui.line(wrap(&text, 2));
    }
    ui.line(wrap(&format!("{} execution {execution}", paint(GOOD, "approved:")), 2))?;
    let hint = match call.tool.as_str() {
        ORDER_TOOL => "run it with `countersign request run`, by the id of the document".to_owned(),
        _ => {
            let is_action = countersign_actions::by_tool(&call.tool).is_some();
            let group = if is_action { "action" } else { "execution" };
            format!(
                "whoever waits with --wait goes on now; otherwise run it with `countersign \
                 {group} resume {execution}`"
            )
        }
    };
    ui.line(wrap(&format!("{} {hint}", paint(BOLD, "hint:")), 0))
}

fn line_with_state(call: &CallSummary) -> Value {
    let mut value = line(call);
    if let Some(object) = value.as_object_mut() {
        object.insert("state".to_owned(), json!(call.state));
        object.insert("error".to_owned(), json!(call.error));
    }
    value
}

fn reject(ui: Ui, host: &Host, args: &RejectArgs) -> Done<Exit> {
    let call =
        host.answer(args.execution, &args.key.token()?, Answer::No, args.reason.as_deref())?;
    told(ui, &call)?;
    Ok(Exit::Done)
}

fn withdraw(ui: Ui, host: &Host, args: WithdrawArgs) -> Done<Exit> {
    let call = host.withdraw(args.execution, &acting(args.principal)?, args.reason.as_deref())?;
    told(ui, &call)?;
    Ok(Exit::Done)
}
