use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_host::{Home, Registry, Tool, builtin};
use countersign_model::{Declaration, Failure, Finding, ToolRef};
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, bytes, inert, paint, shown, wrap};

/// Look at the tools that are declared
#[derive(Debug, Subcommand)]
pub(crate) enum ToolCommand {
    Lint(LintArgs),
    /// List every declared tool
    List,
    Show(ShowArgs),
}

/// Check declarations and report everything that is wrong with them
#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Show one tool: what it does, needs and may use
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// id or id@version
    tool: ToolRef,
}

pub(super) fn run(context: &Context, command: ToolCommand) -> Done<Exit> {
    match command {
        ToolCommand::Lint(args) => lint(context.ui, &args.files),
        ToolCommand::List => list(context),
        ToolCommand::Show(args) => show(context, &args.tool),
    }
}

fn lint(ui: Ui, files: &[PathBuf]) -> Done<Exit> {
    let mut report = Vec::new();
    for file in files {
        let findings = lint_file(file);
        if !ui.json {
            print_findings(ui, file, &findings)?;
        }
        report.push(json!({
            "file": file.display().to_string(),
            "ok": findings.is_empty(),
            "findings": findings,
        }));
    }
    if ui.json {
        ui.json(&report)?;
    }
    let clean = report.iter().all(|file| file.get("ok") == Some(&Value::Bool(true)));
    Ok(if clean { Exit::Done } else { Exit::Invalid })
}

fn lint_file(file: &PathBuf) -> Vec<Finding> {
    match std::fs::read(file) {
        Ok(bytes) => Declaration::parse(&bytes).err().unwrap_or_default(),
        Err(error) => vec![Finding {
            code: "FILE_UNREADABLE".into(),
            pointer: String::new(),
            message: format!("it cannot be read: {error}"),
            hint: None,
        }],
    }
}

fn print_findings(ui: Ui, file: &std::path::Path, findings: &[Finding]) -> Done {
    let name = shown(file);
    if findings.is_empty() {
        return ui.line(format!("{} {name}", paint(GOOD, "ok")));
    }
    let count = findings.len();
    let problems = if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
    ui.line(format!("{} {name}", paint(BAD, problems)))?;
    for finding in findings {
        let place = if finding.pointer.is_empty() { "the file" } else { &finding.pointer };
        let code = paint(DIM, format!("[{}]", finding.code));
        let text = format!("  {}: {} {code}", paint(BOLD, inert(place)), inert(&finding.message));
        ui.line(wrap(&text, 4))?;
        if let Some(hint) = &finding.hint {
            ui.line(wrap(&format!("      {}", inert(hint)), 6))?;
        }
    }
    Ok(())
}

fn registry(context: &Context) -> Result<Registry, Failure> {
    let home = Home::open(&context.home)?;
    Registry::load(&home.tools(), &builtin::handlers())
}

fn list(context: &Context) -> Done<Exit> {
    let (ui, registry) = (context.ui, registry(context)?);
    if ui.json {
        let tools: Vec<_> = registry.tools().map(|tool| describe(tool)).collect();
        let broken: Vec<_> = registry
            .broken()
            .iter()
            .map(|b| json!({"source": b.source.display().to_string(), "findings": b.findings}))
            .collect();
        ui.json(&json!({"tools": tools, "broken": broken}))?;
    } else {
        for tool in registry.tools() {
            let declaration = &tool.declaration;
            let name = paint(
                BOLD,
                format!("{:<22}", format!("{}@{}", declaration.id, declaration.version)),
            );
            ui.line(wrap(&format!("{name} {}", inert(&declaration.description)), 23))?;
        }
        for broken in registry.broken() {
            print_findings(ui, &broken.source, &broken.findings)?;
        }
    }
    Ok(if registry.broken().is_empty() { Exit::Done } else { Exit::Invalid })
}

fn describe(tool: &Tool) -> Value {
    let mut value = json!(tool.declaration);
    if let Some(object) = value.as_object_mut() {
        object.insert("digest".to_owned(), json!(tool.digest));
        object.insert("source".to_owned(), json!(tool.source.display().to_string()));
    }
    value
}

fn show(context: &Context, reference: &ToolRef) -> Done<Exit> {
    let (ui, registry) = (context.ui, registry(context)?);
    let tool = registry.find(reference)?;
    if ui.json {
        ui.json(&describe(tool))?;
        return Ok(Exit::Done);
    }
    let declaration = &tool.declaration;
    ui.line(paint(
        BOLD,
        format!("{}@{}  {}", declaration.id, declaration.version, inert(&declaration.name)),
    ))?;
    ui.line(wrap(&inert(&declaration.description), 0))?;
    let capabilities: Vec<_> =
        declaration.required_capabilities.iter().map(|c| c.as_str()).collect();
    let needs =
        if capabilities.is_empty() { "nothing".to_owned() } else { capabilities.join(", ") };
    let limits = &declaration.resource_limits;
    let file =
        limits.max_file_size.map_or(String::new(), |size| format!(", files up to {}", bytes(size)));
    let yes = |flag| if flag { "yes" } else { "no" };
    ui.line(format!("  needs          {needs}"))?;
    ui.line(format!(
        "  limits         {} ms, {}{file}",
        limits.max_execution_time,
        bytes(limits.max_memory)
    ))?;
    ui.line(format!("  deterministic  {}", yes(declaration.deterministic)))?;
    ui.line(format!("  idempotent     {}", yes(declaration.idempotent)))?;
    ui.line(format!("  digest         {}", tool.digest))?;
    ui.line(format!("  declared in    {}", shown(&tool.source)))?;
    fields(ui, "input", &declaration.input_schema)?;
    fields(ui, "output", &declaration.output_schema)?;
    Ok(Exit::Done)
}

/// The top-level fields of a schema, as a person would want them listed.
fn fields(ui: Ui, title: &str, schema: &Value) -> Done {
    ui.line(format!("  {}", paint(BOLD, title)))?;
    let required = |name: &str| {
        schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|r| r.iter().any(|v| v == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let text = |key| property.get(key).and_then(Value::as_str).unwrap_or_default();
        let optional = if required(name) { "" } else { " (optional)" };
        let line =
            format!("    {}  {}{optional}", paint(BOLD, inert(name)), inert(text("description")));
        ui.line(wrap(&line, 6))?;
    }
    Ok(())
}
