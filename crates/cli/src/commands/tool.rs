use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use countersign_host::config::ActionsConfig;
use countersign_host::{Home, Registry, Tool, registry};
use countersign_model::{
    Failure, Finding, ProcessRuntime, Runtime, ToolRef, WasmRuntime, WorkspaceAccess,
};
use serde_json::{Value, json};

use crate::Context;
use crate::exit::Exit;
use crate::lifecycle;
use crate::ui::{BAD, BOLD, DIM, Done, GOOD, Ui, inert, paint, shell_word, shown, wrap};

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
    // Whether a file is sound does not depend on how long actions may take here.
    let handlers = countersign_actions::handlers(&ActionsConfig::default())?;
    for file in files {
        let findings = registry::check_file(file, &handlers);
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

fn print_findings(ui: Ui, file: &Path, findings: &[Finding]) -> Done {
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

fn registry_of(context: &Context) -> Result<Registry, Failure> {
    let home = Home::open(&context.home)?;
    Registry::load(&home.tools(), &countersign_actions::handlers(&home.config.actions)?)
}

fn list(context: &Context) -> Done<Exit> {
    let (ui, registry) = (context.ui, registry_of(context)?);
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
        if let Some(files) = tool.files_digest() {
            object.insert("filesDigest".to_owned(), json!(files));
        }
    }
    value
}

fn show(context: &Context, reference: &ToolRef) -> Done<Exit> {
    let (ui, registry) = (context.ui, registry_of(context)?);
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
    let yes = |flag| if flag { "yes" } else { "no" }.to_owned();
    let mut facts = vec![
        ("needs", needs),
        ("limits", lifecycle::limits(&declaration.resource_limits)),
        ("deterministic", yes(declaration.deterministic)),
        ("idempotent", yes(declaration.idempotent)),
    ];
    facts.extend(runtime(&declaration.runtime));
    facts.extend(tool.files_digest().map(|digest| ("files pinned", digest.to_string())));
    facts.push(("digest", tool.digest.to_string()));
    facts.push(("declared in", shown(&tool.source)));
    for (name, value) in facts {
        ui.line(wrap(&format!("  {name:<14} {value}"), 15))?;
    }
    fields(ui, "input", &declaration.input_schema)?;
    fields(ui, "output", &declaration.output_schema)?;
    Ok(Exit::Done)
}

/// What runs it, and what that is given.
fn runtime(runtime: &Runtime) -> Vec<(&'static str, String)> {
    match runtime {
        Runtime::Builtin { handler } => {
            vec![("runs as", format!("built-in {}, inside of the host", inert(handler)))]
        }
        Runtime::Process(process) => of_process(process),
        Runtime::Wasm(wasm) => of_wasm(wasm),
    }
}

fn of_process(process: &ProcessRuntime) -> Vec<(&'static str, String)> {
    let command: Vec<_> = process.command.iter().map(|word| inert(&shell_word(word))).collect();
    let listed = |list: &[String]| inert(&list.join(", "));
    let mut facts = vec![
        ("runs as", format!("process, isolation level {}", process.isolation)),
        ("command", command.join(" ")),
    ];
    facts.extend(process.files.iter().map(|files| ("files", format!("{} as /tool", inert(files)))));
    facts.push(("workspace", access(process.workspace)));
    facts.push((
        "network",
        match process.hosts.as_slice() {
            [] => "none".to_owned(),
            hosts => format!("through the egress proxy to {}", listed(hosts)),
        },
    ));
    facts.extend(environment(process.environment.keys()));
    if !process.may_be_weaker.is_empty() {
        facts.push(("may be weaker", listed(&process.may_be_weaker)));
    }
    if process.warm > 0 {
        facts.push(("kept warm", format!("{} sandboxes", process.warm)));
    }
    facts
}

fn of_wasm(wasm: &WasmRuntime) -> Vec<(&'static str, String)> {
    let arguments: Vec<_> = wasm.arguments.iter().map(|word| inert(&shell_word(word))).collect();
    let mut facts = vec![
        ("runs as", "WebAssembly, in the host's process".to_owned()),
        ("module", inert(&wasm.module)),
    ];
    if !arguments.is_empty() {
        facts.push(("arguments", arguments.join(" ")));
    }
    facts.extend(wasm.files.iter().map(|files| ("files", format!("{} as /tool", inert(files)))));
    facts.extend(wasm.fuel.map(|fuel| ("fuel", format!("{fuel} instructions"))));
    facts.push(("workspace", access(wasm.workspace)));
    facts.push(("network", "none".to_owned()));
    facts.extend(environment(wasm.environment.keys()));
    facts
}

fn access(workspace: Option<WorkspaceAccess>) -> String {
    match workspace {
        None => "none",
        Some(WorkspaceAccess::Read) => "the call's root, to read",
        Some(WorkspaceAccess::Write) => "the call's root, changes staged until the commit",
    }
    .to_owned()
}

fn environment<'n>(names: impl Iterator<Item = &'n String>) -> Option<(&'static str, String)> {
    let names: Vec<_> = names.map(|name| inert(name)).collect();
    (!names.is_empty()).then(|| ("environment", names.join(", ")))
}

/// The top-level fields of a schema, as a person would want them listed.
pub(super) fn fields(ui: Ui, title: &str, schema: &Value) -> Done {
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
