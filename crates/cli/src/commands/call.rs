use std::io::{self, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use countersign_host::{CallCommand, Cancel, Given, Host, Outcome};
use countersign_model::record::{ApprovalSummary, CallSummary};
use countersign_model::{Failure, Principal, SandboxMode, ToolRef};
use serde_json::{Value, json};

use super::acting;
use crate::Context;
use crate::exit::Exit;
use crate::lifecycle::{self, Detail};
use crate::sandbox;
use crate::signals;
use crate::ui::{BOLD, DIM, Done, Ui, inert, paint, wrap};

/// Call a tool
///
/// Where policy asks for a human, the call waits in the journal and this command ends with exit code
/// 4, or waits too with --wait.
///
/// Exit codes: 0 done, 1 the tool failed, 2 invalid input, 3 denied, 4 approval pending, refused or
/// expired, 5 a limit was reached, 6 this machine cannot enforce what the tool needs, 7 outcome unknown, 70 internal error.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    #[command(flatten)]
    what: What,

    /// Where policy asks for a human, wait for the answer
    #[arg(long)]
    wait: bool,
}

/// What is called, by whom and where: the same for a call and for one that is only tried.
#[derive(Debug, Args)]
pub(super) struct What {
    /// The tool, as id or id@version; the highest version answers when none is named
    tool: ToolRef,

    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,

    /// Who calls [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// On whose behalf, nearest first; may be repeated. None of them can approve the call
    #[arg(long = "for", value_name = "PRINCIPAL")]
    chain: Vec<Principal>,

    /// The directory that file tools work beneath
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,

    /// How much may change: read_only, workspace_write, repo_write or danger_full_access
    #[arg(long, default_value_t, value_name = "MODE")]
    mode: SandboxMode,

    /// Allow only the tools of this set, which countersign.toml names
    #[arg(long, value_name = "NAME")]
    toolset: Option<String>,
}

impl What {
    pub(super) fn command(self) -> Result<CallCommand, Failure> {
        let (input, principal) = (read_input(&self.input)?, acting(self.principal)?);
        Ok(CallCommand {
            chain: self.chain,
            mode: self.mode,
            toolset: self.toolset,
            root: self.root,
            given: Cancel::from_flag(signals::cancelled()).into(),
            ..CallCommand::new(self.tool, input, principal)
        })
    }
}

/// Larger inputs are refused here; everything smaller is judged, and recorded, by the host.
const MOST_BYTES: u64 = 16 << 20;

pub(super) fn run(context: &Context, args: CallArgs) -> Done<Exit> {
    let command = args.what.command()?;
    let host = sandbox::open_host(&context.home)?;
    let given = command.given.clone();
    let mut outcome = host.call(command)?;
    if args.wait && is_pending(&outcome) {
        outcome = wait(context.ui, &host, &outcome, &given)?;
    }
    report(context.ui, &host, &outcome)
}

/// Says what became of a call, and turns it into an exit code.
pub(super) fn report(ui: Ui, host: &Host, outcome: &Outcome) -> Done<Exit> {
    match ui.json {
        true => ui.json(&to_json(outcome))?,
        false => print(ui, host, outcome)?,
    }
    Ok(Exit::of_outcome(outcome))
}

pub(super) fn is_pending(outcome: &Outcome) -> bool {
    matches!(&outcome.result, Err(failure) if failure.code == "APPROVAL_REQUIRED")
}

/// How often the journal is asked whether people have answered.
const POLL: Duration = Duration::from_millis(200);

/// Waits until people have answered, or nobody did in time. Whoever stops waiting leaves the call as
/// it is: it can be resumed.
pub(super) fn wait(ui: Ui, host: &Host, pending: &Outcome, given: &Given) -> Done<Outcome> {
    let execution = pending.execution;
    if !ui.json {
        let text = format!("waiting for a human: `countersign approval show {execution}`");
        ui.line(wrap(&paint(DIM, text), 2))?;
    }
    while !given.cancel.is_cancelled() {
        let call = host.home().store.call(execution)?;
        let call = call.ok_or_else(|| Failure::state("JOURNAL_CORRUPT", "the call is gone"))?;
        if call.terminal {
            return Ok(ended(host, pending, &call)?);
        }
        let now = host.clock().now();
        let is_due = |asked: &ApprovalSummary| asked.is_enough() || now >= asked.expires_at;
        if call.is_waiting() && call.approval.as_ref().is_some_and(is_due) {
            // Anew: tools and configuration may have changed while we waited.
            let fresh = sandbox::open_host(host.home().path())?;
            match fresh.resume(execution, given.clone()) {
                // Somebody else has taken it up, and we wait for its end.
                Err(failure) if failure.code == "NOT_WAITING" => {}
                outcome => return Ok(outcome?),
            }
        }
        std::thread::sleep(POLL);
    }
    Ok(pending.clone())
}

/// How a call ended that somebody else ended, as the journal tells it.
fn ended(host: &Host, pending: &Outcome, call: &CallSummary) -> Result<Outcome, Failure> {
    let result = match (&call.error, &call.output) {
        (Some(error), _) => Err(error.clone().of_execution(call.execution)),
        (None, Some(output)) => {
            let bytes = host.home().payload(call.execution, output)?;
            let unreadable = |_| Failure::state("JOURNAL_CORRUPT", "the output cannot be read");
            Ok(serde_json::from_slice(&bytes).map_err(unreadable)?)
        }
        (None, None) => Err(Failure::state("JOURNAL_CORRUPT", "the call has no end")),
    };
    Ok(Outcome {
        state: call.state,
        result,
        attempts: call.attempts,
        unsettled: call.unsettled.clone(),
        duration_ms: call.duration_ms.unwrap_or(pending.duration_ms),
        ..pending.clone()
    })
}

pub(super) fn read_input(argument: &str) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = match (argument, argument.strip_prefix('@')) {
        ("-", _) => io::stdin().lock().take(MOST_BYTES + 1).read_to_end(&mut bytes),
        (_, Some(path)) => std::fs::File::open(path)
            .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes)),
        (text, None) => {
            bytes = text.as_bytes().to_vec();
            Ok(bytes.len())
        }
    };
    read.map_err(|error| {
        Failure::validation(
            "INPUT_UNREADABLE",
            format!("the input {argument} cannot be read: {error}"),
        )
        .hint("give JSON, @FILE, or - for standard input")
    })?;
    if bytes.len() as u64 > MOST_BYTES {
        let message = format!("the input is larger than {MOST_BYTES} bytes");
        return Err(Failure::validation("INPUT_TOO_LARGE", message));
    }
    Ok(bytes)
}

/// The ToolResult that RFC-0001 speaks of.
pub(super) fn to_json(outcome: &Outcome) -> Value {
    let mut value = json!({
        // A change that may not be in place is no success, whatever the tool answered.
        "success": outcome.result.is_ok() && outcome.unsettled.is_empty(),
        "executionId": outcome.execution,
        "state": outcome.state,
        "durationMs": outcome.duration_ms,
        "attempts": outcome.attempts,
        "receipt": {
            "entry": outcome.receipt.entry,
            "hash": outcome.receipt.hash,
            "checkpoint": outcome.receipt.checkpoint,
        },
    });
    if let Some(object) = value.as_object_mut() {
        match &outcome.result {
            Ok(output) => object.insert("output".to_owned(), output.clone()),
            Err(failure) => object.insert("error".to_owned(), json!(failure)),
        };
        if !outcome.unsettled.is_empty() {
            object.insert("unsettled".to_owned(), json!(outcome.unsettled));
        }
        if !outcome.artifacts.is_empty() {
            object.insert("artifacts".to_owned(), json!(outcome.artifacts));
        }
        if !outcome.connections.is_empty() {
            object.insert("connections".to_owned(), json!(outcome.connections));
        }
        // What was said is kept with the call, and may be long: `execution artifacts` has it.
        for (name, said) in [("stdout", outcome.stdout), ("stderr", outcome.stderr)] {
            if let Some(said) = said {
                object.insert(name.to_owned(), json!(said));
            }
        }
    }
    value
}

pub(super) fn print(ui: Ui, host: &Host, outcome: &Outcome) -> Done {
    if let Some(summary) = host.home().store.call(outcome.execution)? {
        lifecycle::print(ui, host.home(), &summary, Detail::Brief)?;
    }
    match &outcome.result {
        Ok(output) => ui.line(output_text(output))?,
        Err(failure) => {
            if let Some(hint) = &failure.hint {
                ui.line(wrap(&format!("{} {}", paint(BOLD, "hint:"), inert(hint)), 0))?;
            }
        }
    }
    let receipt =
        format!("execution {}, journal entry {}", outcome.execution, outcome.receipt.entry);
    ui.line(wrap(&paint(DIM, receipt), 0))
}

/// Pretty JSON cannot hide anything: its own escapes cover control characters, ours the rest.
pub(super) fn output_text(output: &Value) -> String {
    let text = serde_json::to_string_pretty(output).unwrap_or_default();
    text.lines().map(inert).collect::<Vec<_>>().join("\n")
}
