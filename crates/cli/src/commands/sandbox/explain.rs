use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use countersign_host::root::Root;
use countersign_host::{Home, Registry};
use countersign_model::{Failure, ToolRef};
use countersign_sandbox::{Backend, Plan};

use super::spec::SpecArgs;
use crate::Context;
use crate::exit::Exit;
use crate::plan_text;
use crate::sandbox;
use crate::ui::Done;

/// Print every step of setting a box up, in order, without taking any
///
/// For a declared tool of the home, as a call would ask for it, or for a command with the options of
/// `sandbox run`.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").args(["declared", "command"]).required(true)))]
pub(crate) struct ExplainArgs {
    /// A declared tool, as id or id@version
    #[arg(value_name = "TOOL", conflicts_with = "SpecArgs")]
    declared: Option<ToolRef>,

    /// The root of the call, for a declared tool that has a workspace
    #[arg(long, value_name = "DIR", requires = "declared")]
    root: Option<PathBuf>,

    #[command(flatten)]
    spec: SpecArgs,

    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Where a call puts its root, a plan without one says so.
const SOME_ROOT: &str = "ROOT OF THE CALL";

pub(super) fn run(context: &Context, args: ExplainArgs) -> Done<Exit> {
    let plan = match &args.declared {
        Some(reference) => declared(context, reference, args.root.as_deref())?,
        None => sandbox::backend().plan(&args.spec.spec(args.command)?)?,
    };
    if context.ui.json {
        context.ui.json(&plan)?;
    } else {
        plan_text::print(context.ui, &plan)?;
    }
    Ok(Exit::Done)
}

fn declared(context: &Context, reference: &ToolRef, root: Option<&Path>) -> Result<Plan, Failure> {
    let home = Home::open(&context.home)?;
    let handlers = countersign_actions::handlers(&home.config.actions)?;
    let registry = Registry::load(&home.tools(), &handlers)?;
    let tool = registry.resolve(reference)?;
    let spec = match root {
        Some(root) => tool.spec_beneath(&Root::open(root, home.path())?, &home)?,
        None => tool.spec(Some(Path::new(SOME_ROOT)), &home)?,
    };
    sandbox::plan(&home, &spec)
}
