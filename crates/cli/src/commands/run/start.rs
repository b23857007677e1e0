//! Begins a run, and stays with it.

use clap::Args;
use countersign_host::Host;
use countersign_model::json::parse_strict;
use countersign_model::{Failure, Principal};
use countersign_workflow::{Begin, Engine, Trouble};
use serde_json::{Map, Value};

use super::drive::{follow, leave};
use crate::Context;
use crate::commands::acting;
use crate::commands::call::read_input;
use crate::exit::Exit;
use crate::runs::{driving, looking, note_problems, told};
use crate::ui::{Done, Ui};

/// Begin a run of a workflow or a blueprint
///
/// Stays with the run until it ends or waits for somebody. With --json, prints the run as it stands
/// then. Exit codes: 0 completed, 1 failed or cancelled, 2 no run was begun, 3 a call was denied, 4
/// it waits for approval or input, 5 a bound stopped it.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// The id of a workflow in `workflows/`, or the name of a blueprint in `blueprints/`
    workflow: String,

    #[command(flatten)]
    begins: Begins,
}

/// What a run is begun with.
#[derive(Debug, Args)]
pub(crate) struct Begins {
    /// What it is given: a JSON object, @FILE, or - for standard input
    #[arg(long, short, default_value = "{}", value_name = "JSON|@FILE|-")]
    input: String,

    /// Options of the run, such as '{"runTimeoutMs": 60000}'
    #[arg(long, default_value = "{}", value_name = "JSON|@FILE")]
    configurable: String,

    /// A word to find it by; may be repeated
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,

    /// Whose run it is
    #[arg(long, default_value = "default", value_name = "TENANT")]
    tenant: String,

    /// Who asks; its calls are made in this name [default: human:$USER]
    #[arg(long = "as", value_name = "PRINCIPAL", env = "COUNTERSIGN_AS")]
    principal: Option<Principal>,

    /// Only begin it; `countersign run resume` goes on with it
    #[arg(long)]
    detach: bool,
}

pub(super) fn run(context: &Context, args: StartArgs) -> Done<Exit> {
    begin(context, &args.workflow, args.begins, Map::new())
}

/// Begins a run with further inputs, which nobody may give twice.
pub(crate) fn begin(
    context: &Context,
    workflow: &str,
    args: Begins,
    further: Map<String, Value>,
) -> Done<Exit> {
    let ui = context.ui;
    let engine = if args.detach { looking(&context.home) } else { driving(&context.home) }?;
    let mut begin = Begin::new(workflow, &args.tenant, acting(args.principal)?);
    begin.inputs = object(engine.host(), "--input", &args.input)?;
    begin.configurable = object(engine.host(), "--configurable", &args.configurable)?;
    begin.tags = args.tags;
    for (name, value) in further {
        if begin.inputs.insert(name.clone(), value).is_some() {
            let message = format!("the input `{name}` is given twice");
            return Err(Failure::validation("USAGE", message).hint("leave one of them out").into());
        }
    }
    let begun = engine.create(begin).map_err(|trouble| refused(ui, &engine, trouble))?;
    if args.detach {
        return leave(ui, &engine, &begun.run);
    }
    follow(ui, &engine, &begun.run, 0)
}

/// Every problem of a definition is told, and files that might have been meant.
fn refused(ui: Ui, engine: &Engine, trouble: Trouble) -> Failure {
    if let Trouble::Broken(_, problems) = &trouble {
        note_problems(ui, problems);
    }
    let failure = told(trouble);
    match engine.library().broken().len() {
        0 => failure,
        count if failure.code == "WORKFLOW_UNKNOWN" => failure.hint(format!(
            "list them with `countersign workflow list`; {count} of the files here cannot be used"
        )),
        _ => failure,
    }
}

/// One JSON object from the command line. Strict: a key that stands there twice is an error.
pub(crate) fn object(host: &Host, option: &str, text: &str) -> Result<Map<String, Value>, Failure> {
    match value(host, text)? {
        Value::Object(members) => Ok(members),
        _ => Err(Failure::validation("INPUT_INVALID", format!("{option} is a JSON object"))
            .hint("write it as '{\"name\": \"value\"}'")),
    }
}

pub(super) fn value(host: &Host, text: &str) -> Result<Value, Failure> {
    parse_strict(&read_input(text)?, &host.home().config.input.limits())
}
