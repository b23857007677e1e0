use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use countersign_host::{CallCommand, Cancel, Host, Outcome};
use countersign_model::{Failure, Principal, ToolRef};
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
/// Exit codes: 0 done, 1 the tool failed, 2 invalid input, 3 denied, 5 a limit was reached,
/// 6 this machine cannot enforce what the tool needs, 7 outcome unknown, 70 internal error.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool, as id or id@version; the highest version answers when none is named
    tool: ToolRef,

    /// The input: JSON, @FILE, or - for standard input
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,

    /// Who calls [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// The directory that file tools work beneath
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Larger inputs are refused here; everything smaller is judged, and recorded, by the host.
const MOST_BYTES: u64 = 16 << 20;

pub(super) fn run(context: &Context, args: CallArgs) -> Done<Exit> {
    let command = CallCommand {
        tool: args.tool,
        input: read_input(&args.input)?,
        principal: acting(args.principal)?,
        root: args.root,
        cancel: Cancel::from_flag(signals::cancelled()),
    };
    let host = sandbox::open_host(&context.home)?;
    let outcome = host.call(command)?;
    if context.ui.json {
        context.ui.json(&to_json(&outcome))?;
    } else {
        print(context.ui, &host, &outcome)?;
    }
    Ok(Exit::of_outcome(&outcome))
}

fn read_input(argument: &str) -> Result<Vec<u8>, Failure> {
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
