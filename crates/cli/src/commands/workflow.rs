//! Definitions of workflows: what is wrong with them, which there are, what one says.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_flow::{Definition, Offers, Problem};
use countersign_host::Home;
use countersign_model::Failure;
use countersign_workflow::Library;
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::runs::{note_problems, told, tool_of};
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, WARN, inert, paint, shown, wrap};

/// Look at definitions of workflows
#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    Lint(LintArgs),
    /// List workflows and blueprints, and files that cannot be used
    List,
    Show(ShowArgs),
}

/// Check definitions, and say everything that is wrong
///
/// Exit code 2 if something is.
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// Files with definitions in JSON
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Show one workflow; with --json, its whole definition
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The id of a workflow, or the name of a blueprint
    id: String,
}

pub(super) fn run(context: &Context, command: WorkflowCommand) -> Done<Exit> {
    match command {
        WorkflowCommand::Lint(args) => lint(context.ui, &args.files, &|bytes| {
            Definition::parse(bytes).map(|definition| missing(&definition))
        }),
        WorkflowCommand::List => list(context),
        WorkflowCommand::Show(args) => show(context, &args.id),
    }
}

/// What a file needs that this host does not offer. Such a file can be kept, but not run here.
fn missing(definition: &Definition) -> Vec<String> {
    let offers = Offers::default();
    let needs = |node: &countersign_flow::definition::Node| {
        let required = offers.missing(definition, node)?;
        Some(format!("the node `{}` needs `{required}`, which is not offered here", node.id))
    };
    definition.nodes.iter().filter_map(needs).collect()
}

type Check<'c> = &'c dyn Fn(&[u8]) -> Result<Vec<String>, Vec<Problem>>;

/// Checks one file after the other, and tells all that is wrong with each.
pub(super) fn lint(ui: Ui, files: &[PathBuf], check: Check<'_>) -> Done<Exit> {
    let mut exit = Exit::Done;
    let mut all = Vec::new();
    for file in files {
        let (problems, warnings) = match check(&read(file)?) {
            Ok(warnings) => (Vec::new(), warnings),
            Err(problems) => (problems, Vec::new()),
        };
        if !problems.is_empty() {
            exit = Exit::Invalid;
        }
        match ui.json {
            true => all.push(json!({
                "file": file.display().to_string(),
                "valid": problems.is_empty(),
                "problems": problems,
                "warnings": warnings,
            })),
            false => verdict(ui, file, &problems, &warnings)?,
        }
    }
    if ui.json {
        ui.json(&all)?;
    }
    Ok(exit)
}

fn verdict(ui: Ui, file: &Path, problems: &[Problem], warnings: &[String]) -> Done {
    let name = shown(file);
    match problems.len() {
        0 => ui.line(format!("{name}: {}", paint(GOOD, "no problems")))?,
        1 => ui.line(format!("{name}: {}", paint(BAD, "1 problem")))?,
        count => ui.line(format!("{name}: {}", paint(BAD, format!("{count} problems"))))?,
    }
    for problem in problems {
        ui.line(wrap(&format!("  {}", inert(&problem.to_string())), 2))?;
    }
    for warning in warnings {
        ui.line(wrap(&format!("  {} {}", paint(WARN, "warning:"), inert(warning)), 2))?;
    }
    Ok(())
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(file).map_err(|error| {
        let message = format!("{} cannot be read: {error}", file.display());
        Failure::validation("WORKFLOW_UNREADABLE", message).hint("name a file that is there")
    })
}

pub(super) fn library(home: &Path) -> Result<Library, Failure> {
    let home = Home::open(home)?;
    Library::load(&[home.workflows()], &[home.blueprints()], &tool_of)
}

fn list(context: &Context) -> Done<Exit> {
    let (ui, library) = (context.ui, library(&context.home)?);
    if ui.json {
        let one = |definition: &Definition| {
            let file = library.file(&definition.id).map(|file| file.display().to_string());
            json!({
                "id": definition.id,
                "name": definition.name,
                "version": definition.version,
                "nodes": definition.nodes.len(),
                "file": file,
                "runnable": missing(definition).is_empty(),
            })
        };
        let known: Vec<Value> = library.all().map(|definition| one(definition)).collect();
        ui.json(&json!({"workflows": known, "broken": library.broken()}))?;
        return Ok(Exit::Done);
    }
    let mut none = true;
    for definition in library.all() {
        none = false;
        let nodes = definition.nodes.len();
        let kind = if is_blueprint(definition) { "blueprint" } else { "workflow" };
        let file = library.file(&definition.id).map(shown).unwrap_or_default();
        let text = format!(
            "{} {kind}, {nodes} nodes {}",
            paint(BOLD, inert(&definition.id)),
            paint(DIM, file)
        );
        ui.line(wrap(&text, 2))?;
    }
    for (name, problems) in library.broken() {
        none = false;
        let text = format!(
            "{} {}",
            inert(name),
            paint(BAD, format!("cannot be used ({})", problems.len()))
        );
        ui.line(text)?;
        problems
            .iter()
            .try_for_each(|p| ui.line(wrap(&format!("  {}", inert(&p.to_string())), 2)))?;
    }
    if none {
        let hint = "no workflows; put definitions into workflows/ and blueprints into blueprints/ of the home";
        ui.line(wrap(hint, 0))?;
    }
    Ok(Exit::Done)
}

pub(super) fn is_blueprint(definition: &Definition) -> bool {
    definition.source().pointer("/metadata/category") == Some(&json!("blueprint"))
}

fn show(context: &Context, id: &str) -> Done<Exit> {
    let (ui, library) = (context.ui, library(&context.home)?);
    let definition = library.get(id).map_err(|trouble| {
        if let countersign_workflow::Trouble::Broken(_, problems) = &trouble {
            note_problems(ui, problems);
        }
        told(trouble)
    })?;
    match ui.json {
        true => ui.json(definition.source())?,
        false => print(ui, &definition)?,
    }
    Ok(Exit::Done)
}

pub(super) fn print(ui: Ui, definition: &Definition) -> Done {
    let (id, name) = (paint(BOLD, inert(&definition.id)), inert(&definition.name));
    let digest = paint(DIM, definition.digest().short());
    ui.line(wrap(&format!("{id} {name}, version {} {digest}", inert(&definition.version)), 2))?;
    for variable in &definition.variables {
        let needed =
            if variable.required && variable.default_value.is_none() { ", needed" } else { "" };
        let secret = if variable.sensitive { ", sensitive" } else { "" };
        let (name, kind) = (inert(&variable.name), inert(&variable.kind));
        ui.line(wrap(&format!("  input {name}: {kind}{needed}{secret}"), 4))?;
    }
    for node in &definition.nodes {
        let text = format!("  node {} {}", paint(BOLD, inert(&node.id)), inert(&node.type_id));
        let tool = node.text("tool").map(|tool| format!(" {}", inert(tool))).unwrap_or_default();
        ui.line(wrap(&format!("{text}{tool}"), 4))?;
    }
    for edge in &definition.edges {
        let rule = inert(&format!("{:?}", edge.rule)).to_lowercase();
        let rule = match rule.as_str() {
            "allsuccess" => "after success",
            "anysuccess" => "after any success",
            "allcomplete" => "when all are done",
            "nonefailed" => "when none failed",
            _ => "after a failure",
        };
        let condition = if edge.condition.is_some() { ", on a condition" } else { "" };
        let (from, to) = (inert(&edge.source), inert(&edge.target));
        ui.line(wrap(
            &format!("  {from} -> {to} {}", paint(DIM, format!("{rule}{condition}"))),
            4,
        ))?;
    }
    for warning in missing(definition) {
        ui.line(wrap(&format!("  {} {}", paint(WARN, "warning:"), inert(&warning)), 2))?;
    }
    Ok(())
}
