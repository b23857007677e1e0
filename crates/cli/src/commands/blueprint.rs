//! Blueprints: lists of stages that become workflows.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_flow::Blueprint;
use countersign_flow::blueprint::{Does, Route, Stage};
use countersign_host::Home;
use countersign_model::{Failure, WorkspaceId};
use serde_json::{Map, Value, json};

use super::run::{Begins, begin};
use super::workflow::{lint, read};
use crate::Context;
use crate::exit::Exit;
use crate::runs::{broken, note_problems, tool_of};
use crate::ui::{BOLD, DIM, Done, Ui, WARN, inert, paint, wrap};

/// Work on workspaces, stage by stage
///
/// A blueprint is a list of stages: deterministic ones are actions, those of agents wait until an
/// agent hands in its result with `countersign run submit`.
#[derive(Debug, Subcommand)]
pub(crate) enum BlueprintCommand {
    Lint(LintArgs),
    Show(ShowArgs),
    Run(RunArgs),
}

/// Check blueprints, and say everything that is wrong, with its line
///
/// Exit code 2 if something is.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Files with blueprints in YAML
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Show the stages of a blueprint; with --json, also the workflow that it becomes
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The name of a blueprint in `blueprints/`
    name: String,
}

/// Run a blueprint on a workspace
///
/// The same as `countersign run start NAME` with the input `workspace`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The name of a blueprint in `blueprints/`
    name: String,

    /// Where it works: a workspace that was added
    #[arg(long, value_name = "ID")]
    workspace: WorkspaceId,

    #[command(flatten)]
    begins: Begins,
}

pub(super) fn run(context: &Context, command: BlueprintCommand) -> Done<Exit> {
    match command {
        BlueprintCommand::Lint(args) => lint(context.ui, &args.files, &|bytes| {
            let text = String::from_utf8_lossy(bytes);
            countersign_workflow::blueprint(&text, &tool_of).map(|_| Vec::new())
        }),
        BlueprintCommand::Show(args) => show(context, &args.name),
        BlueprintCommand::Run(args) => {
            let given = ("workspace".to_owned(), json!(args.workspace));
            begin(context, &args.name, args.begins, Map::from_iter([given]))
        }
    }
}

/// The file with this blueprint: the one that is called so, else the one that says so.
fn find(context: &Context, name: &str) -> Result<String, Failure> {
    let home = Home::open(&context.home)?;
    let mut named = None;
    let listed = std::fs::read_dir(home.blueprints()).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let extension = file.extension().and_then(|extension| extension.to_str());
        if !extension.is_some_and(|extension| ["yaml", "yml"].contains(&extension)) {
            continue;
        }
        let text = String::from_utf8_lossy(&read(&file)?).into_owned();
        match Blueprint::parse(&text) {
            Ok(blueprint) if blueprint.name == name => return Ok(text),
            _ if file.file_stem().is_some_and(|stem| stem == name) => named = Some(text),
            _ => {}
        }
    }
    named.ok_or_else(|| {
        Failure::validation("BLUEPRINT_UNKNOWN", format!("there is no blueprint `{name}`"))
            .hint("list them with `countersign workflow list`")
    })
}

fn show(context: &Context, name: &str) -> Done<Exit> {
    let ui = context.ui;
    let text = find(context, name)?;
    let (blueprint, compiled) =
        countersign_workflow::blueprint(&text, &tool_of).map_err(|problems| {
            note_problems(ui, &problems);
            broken(&format!("the blueprint `{name}`"), &problems)
        })?;
    if ui.json {
        ui.json(&json!({"blueprint": shown(&blueprint), "workflow": compiled.source()}))?;
        return Ok(Exit::Done);
    }
    let said = blueprint.description.as_deref().map(|text| format!(" {}", inert(text)));
    ui.line(wrap(&format!("{}{}", paint(BOLD, &blueprint.name), said.unwrap_or_default()), 2))?;
    let inputs: Vec<&str> = blueprint.run_inputs().into_iter().collect();
    if !inputs.is_empty() {
        ui.line(wrap(&format!("  takes workspace, {}", inert(&inputs.join(", "))), 4))?;
    }
    for (name, value) in defaults(&blueprint) {
        ui.line(format!("  {name} {}", inert(value.as_str().unwrap_or(&value.to_string()))))?;
    }
    blueprint.stages.iter().try_for_each(|stage| print(ui, stage))?;
    ui.line(paint(BOLD, "becomes the workflow"))?;
    super::workflow::print(ui, &compiled)?;
    Ok(Exit::Done)
}

fn print(ui: Ui, stage: &Stage) -> Done {
    let does = match &stage.does {
        Does::Action(action) => format!("action {}", inert(action)),
        Does::Goal(goal) => format!("agent: {}", inert(goal)),
    };
    let asks =
        if stage.approval_required { paint(WARN, ", after approval") } else { String::new() };
    ui.line(wrap(&format!("  {} {does}{asks}", paint(BOLD, &stage.id)), 4))?;
    let names = |what: &str, list: &[String]| match list.is_empty() {
        true => String::new(),
        false => format!("{what} {}; ", list.join(", ")),
    };
    let limit = stage.retry_limit.map(|limit| format!(", tried again {limit} times"));
    let text = format!(
        "    {}{}then {}, on failure {}{}",
        names("takes", &stage.inputs),
        names("gives", &stage.outputs),
        route(&stage.on_success),
        route(&stage.on_failure),
        limit.unwrap_or_default(),
    );
    ui.line(wrap(&paint(DIM, inert(&text)), 4))
}

fn route(route: &Route) -> &str {
    match route {
        Route::Stage(id) => id,
        Route::Done => "done",
        Route::Fail => "fail",
        Route::Paused => "paused",
    }
}

fn defaults(blueprint: &Blueprint) -> Map<String, Value> {
    let all = &blueprint.defaults;
    let known = json!({
        "toolset": all.toolset,
        "sandbox": all.sandbox,
        "max_step_retries": all.max_step_retries,
        "approval_mode": all.approval_mode,
    });
    let members = known.as_object().cloned().unwrap_or_default();
    members.into_iter().filter(|(_, value)| !value.is_null()).collect()
}

fn shown(blueprint: &Blueprint) -> Value {
    let stage = |stage: &Stage| {
        let (kind, what, value) = match &stage.does {
            Does::Action(action) => ("deterministic", "action", action),
            Does::Goal(goal) => ("agent", "goal", goal),
        };
        json!({
            "id": stage.id,
            "type": kind,
            what: value,
            "inputs": stage.inputs,
            "outputs": stage.outputs,
            "on_success": route(&stage.on_success),
            "on_failure": route(&stage.on_failure),
            "retry_limit": stage.retry_limit,
            "approval_required": stage.approval_required,
            "line": stage.line,
        })
    };
    json!({
        "name": blueprint.name,
        "description": blueprint.description,
        "defaults": defaults(blueprint),
        "stages": blueprint.stages.iter().map(stage).collect::<Vec<_>>(),
    })
}
