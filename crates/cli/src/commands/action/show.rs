//! Which actions there are, and what each declares.

use std::path::Path;

use clap::Args;
use countersign_actions::{ACTIONS, Action, find};
use countersign_host::config::{ActionsConfig, Config};
use countersign_host::tool::Repeats;
use countersign_model::{Declaration, Failure};
use serde_json::{Value, json};

use crate::Context;
use crate::commands::tool::fields;
use crate::exit::Exit;
use crate::lifecycle;
use crate::ui::{BOLD, Done, Ui, inert, paint, wrap};

/// Show one action: what it takes, needs, leaves and gives
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// Its name, such as run_tests
    name: String,
}

/// The limits of the home, or the defaults where there is none.
fn config(home: &Path) -> Result<ActionsConfig, Failure> {
    Ok(Config::load(&home.join("countersign.toml"))?.actions)
}

pub(super) fn list(context: &Context) -> Done<Exit> {
    let (ui, config) = (context.ui, config(&context.home)?);
    if ui.json {
        let all: Result<Vec<_>, Failure> =
            ACTIONS.iter().map(|action| describe(action, &config)).collect();
        ui.json(&all?)?;
        return Ok(Exit::Done);
    }
    for action in ACTIONS {
        let name = paint(BOLD, format!("{:<21}", action.name));
        let says = action.declaration(&config)?.description;
        ui.line(wrap(&format!("{name} {}", inert(&says)), 22))?;
    }
    Ok(Exit::Done)
}

/// What it declares, and what is special about actions.
fn describe(action: &Action, config: &ActionsConfig) -> Result<Value, Failure> {
    let declaration = action.declaration(config)?;
    Ok(json!({
        "action": action.name,
        "class": action.class.as_str(),
        "seconds": action.class.millis(config) / 1000,
        "repeats": word(action.repeats()),
        "leastMode": action.mode,
        "outputs": action.outputs,
        "declaration": declaration,
    }))
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> Done<Exit> {
    let (action, config) = (find(&args.name)?, config(&context.home)?);
    match context.ui.json {
        true => context.ui.json(&describe(action, &config)?)?,
        false => print(context.ui, action, &config)?,
    }
    Ok(Exit::Done)
}

fn print(ui: Ui, action: &Action, config: &ActionsConfig) -> Done {
    let declared = action.declaration(config)?;
    ui.line(paint(BOLD, format!("{}  {}", action.name, inert(&declared.name))))?;
    ui.line(wrap(&inert(&declared.description), 0))?;
    for (name, value) in facts(action, &declared, config) {
        ui.line(wrap(&format!("  {name:<14} {value}"), 15))?;
    }
    fields(ui, "input", &declared.input_schema)?;
    fields(ui, "output", &declared.output_schema)
}

fn facts(
    action: &Action,
    declared: &Declaration,
    config: &ActionsConfig,
) -> Vec<(&'static str, String)> {
    let needs: Vec<_> = declared.required_capabilities.iter().map(|c| c.as_str()).collect();
    let seconds = action.class.millis(config) / 1000;
    let mut facts = vec![
        ("class", format!("{}, at most {seconds} s", action.class.as_str())),
        ("repeats", meaning(action.repeats()).to_owned()),
        ("least mode", action.mode.to_string()),
        ("needs", needs.join(", ")),
        ("limits", lifecycle::limits(&declared.resource_limits)),
    ];
    if !action.outputs.is_empty() {
        facts.push(("leaves", action.outputs.join(", ")));
    }
    facts.push(("tool", declared.tool_ref().to_string()));
    facts
}

fn word(repeats: Repeats) -> &'static str {
    match repeats {
        Repeats::Always => "always",
        Repeats::Idempotent => "idempotent",
        Repeats::Once => "once",
    }
}

fn meaning(repeats: Repeats) -> &'static str {
    match repeats {
        Repeats::Always => "always: every call does its work",
        Repeats::Idempotent => "idempotent: the same again gives the earlier result",
        Repeats::Once => "once: the same is never done twice",
    }
}
