//! Runs an action from the command line, or from an envelope.

use clap::Args;
use countersign_actions::{ActionContext, ActionRequest, ActionResult, Asker, Status};
use countersign_host::{Cancel, Given, Host};
use countersign_model::json::parse_strict;
use countersign_model::{ExecutionId, Failure, Principal, RunId, SandboxMode, WorkspaceId};
use serde_json::{Map, Value};

use super::credential::CredentialArgs;
use super::report;
use crate::Context;
use crate::commands::call::{is_pending, read_input, wait};
use crate::commands::{acting, execution};
use crate::exit::Exit;
use crate::sandbox;
use crate::signals;
use crate::steps::Steps;
use crate::ui::{Done, Ui};

/// Run an action on a workspace
///
/// With --json, prints exactly the result envelope: status, artifacts, summary, and the error if
/// there is one. Exit codes: 0 success or replayed, 1 failed, 2 invalid input, 3 blocked, 4
/// approval required, 5 timed out or a limit was reached, 6 this machine cannot enforce what it
/// needs, 7 outcome unknown, 70 internal error.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The action, such as run_tests
    #[arg(required_unless_present = "envelope", conflicts_with = "envelope")]
    name: Option<String>,

    /// A whole request envelope instead: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON|@FILE|-", conflicts_with_all = ["workspace", "run", "input", "mode", "toolset"])]
    envelope: Option<String>,

    /// Where it works: a workspace that was added
    #[arg(long, value_name = "ID", required_unless_present = "envelope")]
    workspace: Option<WorkspaceId>,

    /// The run that it belongs to [default: a new one]
    #[arg(long, value_name = "ID")]
    run: Option<RunId>,

    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,

    /// How much may change [default: what the action needs, and never more than the workspace]
    #[arg(long, value_name = "MODE")]
    mode: Option<SandboxMode>,

    /// Allow only the tools of this set, which countersign.toml names
    #[arg(long, value_name = "NAME")]
    toolset: Option<String>,

    #[command(flatten)]
    who: Who,

    /// Do it even if it was done before; what must be done once is not done again
    #[arg(long)]
    fresh: bool,

    /// Where policy asks for a human, wait for the answer
    #[arg(long)]
    wait: bool,
}

/// Who asks.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Who asks [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// On whose behalf, nearest first; may be repeated. None of them can approve the call
    #[arg(long = "for", visible_alias = "on-behalf-of", value_name = "PRINCIPAL")]
    chain: Vec<Principal>,
}

impl Who {
    pub(crate) fn asker(self, cancel: Cancel) -> Result<Asker, Failure> {
        let chain = self.chain;
        Ok(Asker { chain, cancel, ..Asker::new(acting(self.principal)?) })
    }
}

/// Run an action that people were asked about, if they agreed
///
/// Output and exit codes are those of `countersign action run`.
#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The execution's id, or `last`
    execution: String,

    /// Wait for the answer
    #[arg(long)]
    wait: bool,

    #[command(flatten)]
    credential: CredentialArgs,
}

/// A run that nobody named.
pub(crate) fn new_run(host: &Host) -> Result<RunId, Failure> {
    format!("run_{}", host.clock().new_id().simple()).parse()
}

pub(super) fn run(context: &Context, args: RunArgs) -> Done<Exit> {
    let (ui, host) = (context.ui, sandbox::open_host(&context.home)?);
    let request = match &args.envelope {
        Some(envelope) => whole(&host, envelope)?,
        None => request(&host, &args)?,
    };
    let cancel = Cancel::from_flag(signals::cancelled());
    let asker = Asker { fresh: args.fresh, ..args.who.asker(cancel.clone())? };
    let name = request.action.clone();
    let mut result =
        shown(|progress| countersign_actions::run(&host, request, Asker { progress, ..asker }))?;
    if let (Status::ApprovalRequired, Some(execution), true) =
        (result.status, result.execution_id, args.wait)
    {
        result = follow(ui, &host, execution, &cancel.into())?;
    }
    report(ui, &name, &result)
}

/// Runs something while a terminal shows how far it is.
pub(crate) fn shown<T>(
    work: impl FnOnce(countersign_host::tool::Progress) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let steps = Steps::begin();
    let done = work(steps.progress());
    steps.end();
    done
}

pub(super) fn resume(context: &Context, args: &ResumeArgs) -> Done<Exit> {
    let (ui, host) = (context.ui, sandbox::open_host(&context.home)?);
    let call = execution::find(host.home(), &args.execution)?;
    let cancel = Cancel::from_flag(signals::cancelled());
    let name = countersign_actions::by_tool(&call.tool).map(|action| action.name);
    let given = Given { credential: args.credential.read()?, ..cancel.into() };
    let result = match args.wait {
        true => follow(ui, &host, call.execution, &given)?,
        false => shown(|progress| {
            countersign_actions::resume(&host, call.execution, Given { progress, ..given })
        })?,
    };
    report(ui, name.unwrap_or_default(), &result)
}

/// Waits for people, and runs what they agreed to.
fn follow(ui: Ui, host: &Host, execution: ExecutionId, given: &Given) -> Done<ActionResult> {
    let mut outcome = host.resume(execution, given.clone())?;
    if is_pending(&outcome) {
        outcome = wait(ui, host, &outcome, given)?;
    }
    Ok(countersign_actions::result_of(host, &outcome)?)
}

fn request(host: &Host, args: &RunArgs) -> Result<ActionRequest, Failure> {
    let missing = |what: &str| Failure::validation("USAGE", format!("{what} is missing"));
    let run_id = args.run.clone().map_or_else(|| new_run(host), Ok)?;
    Ok(ActionRequest {
        action: args.name.clone().ok_or_else(|| missing("the action"))?,
        run_id,
        inputs: inputs(host, &args.input)?,
        context: ActionContext {
            toolset: args.toolset.clone(),
            sandbox: args.mode,
            workspace: args.workspace.clone().ok_or_else(|| missing("the workspace"))?,
        },
    })
}

/// Strict, as everywhere: a key that stands there twice is an error and no choice.
fn value(host: &Host, argument: &str) -> Result<Value, Failure> {
    parse_strict(&read_input(argument)?, &host.home().config.input.limits())
}

fn inputs(host: &Host, argument: &str) -> Result<Map<String, Value>, Failure> {
    match value(host, argument)? {
        Value::Object(inputs) => Ok(inputs),
        _ => Err(Failure::validation("INPUT_INVALID", "the input of an action is a JSON object")
            .hint("see what it takes with `countersign action show NAME`")),
    }
}

fn whole(host: &Host, argument: &str) -> Result<ActionRequest, Failure> {
    serde_json::from_value(value(host, argument)?).map_err(|error| {
        Failure::validation("ENVELOPE_INVALID", format!("this is no request envelope: {error}"))
            .hint(
                "it has `action`, `run_id`, `inputs` and `context` with `workspace`, `sandbox` \
                 and `toolset`, and nothing else",
            )
    })
}
