//! The tools of a home: what is declared in `tools/`, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_model::{
    CompiledSchema, Declaration, Digest, Failure, Finding, Runtime, ToolFacts, ToolId, ToolRef,
};
use countersign_sandbox::Spec;
use semver::Version;
use serde_json::{Value, json};

use crate::facts::tool_facts;
use crate::home::Home;
use crate::order::{ORDER_TOOL, Order};
use crate::pinned::PinnedFiles;
use crate::program::{ProgramRuntime, ProgramTool};
use crate::root::Root;
use crate::tool::NativeTool;

/// A declared tool, ready to be called: schemas compiled, implementation found.
#[derive(Debug)]
pub struct Tool {
    pub declaration: Declaration,
    pub digest: Digest,
    pub source: PathBuf,
    pub(crate) input: CompiledSchema,
    pub(crate) output: CompiledSchema,
    pub implementation: Implementation,
}

/// What does the work.
#[derive(Debug, Clone)]
pub enum Implementation {
    /// Code of ours, inside this process.
    Native(Arc<dyn NativeTool>),
    /// Anybody's code, in a sandbox.
    Program(Arc<ProgramTool>),
}

impl Tool {
    /// The digest of a program's own files.
    pub fn files_digest(&self) -> Option<Digest> {
        match &self.implementation {
            Implementation::Native(_) => None,
            Implementation::Program(program) => program.files.digest,
        }
    }

    /// The order behind a command that people approve.
    pub(crate) fn order(&self) -> Option<&Order> {
        match &self.implementation {
            Implementation::Native(_) => None,
            Implementation::Program(program) => program.order.as_ref(),
        }
    }

    /// What policies see of it.
    pub fn facts(&self) -> ToolFacts {
        tool_facts(self)
    }

    /// The sandbox that a call of this tool beneath `root` asks for. A home in there is hidden.
    pub fn spec_beneath(&self, root: &Root, home: &Home) -> Result<Spec, Failure> {
        let spec = self.spec(Some(root.location()), home)?;
        let hidden = match spec.workspace {
            Some(_) => root.home_beneath(home.path())?,
            None => None,
        };
        Ok(Spec { hidden: hidden.iter().map(ToString::to_string).collect(), ..spec })
    }

    /// The sandbox that a call asks for, with the workspace, if it has one, called by any name.
    pub fn spec(&self, workspace: Option<&Path>, home: &Home) -> Result<Spec, Failure> {
        match &self.implementation {
            Implementation::Program(program) => {
                program.spec(&self.declaration, workspace, &home.config.sandbox.show)
            }
            Implementation::Native(_) => {
                let id = &self.declaration.id;
                let message = format!("`{id}` is built in: it runs inside of the host, in no box");
                Err(Failure::validation("NOT_SANDBOXED", message)
                    .hint("name a tool whose runtime is `process` or `wasm`"))
            }
        }
    }
}

/// The implementations that declarations may name as `runtime.handler`.
#[derive(Clone, Default)]
pub struct Handlers {
    named: BTreeMap<String, Arc<dyn NativeTool>>,
    /// Tools that need no file to declare them.
    declared: Vec<(Declaration, Arc<dyn NativeTool>)>,
}

impl Handlers {
    #[must_use]
    pub fn with(mut self, name: &str, tool: impl NativeTool + 'static) -> Self {
        self.named.insert(name.to_owned(), Arc::new(tool));
        self
    }

    /// A tool that is there in every home.
    #[must_use]
    pub fn with_tool(mut self, declaration: Declaration, tool: Arc<dyn NativeTool>) -> Self {
        self.declared.push((declaration, tool));
        self
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn NativeTool>> {
        self.named.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

/// A declaration that cannot be used, with everything that is wrong with it.
#[derive(Debug, Clone)]
pub struct Broken {
    pub source: PathBuf,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Default)]
pub struct Registry {
    tools: BTreeMap<ToolId, BTreeMap<Version, Arc<Tool>>>,
    broken: Vec<Broken>,
}

impl Registry {
    /// Reads every declaration below `directory`: `*.json`, and `tool.json` in each folder.
    pub fn load(directory: &Path, handlers: &Handlers) -> Result<Self, Failure> {
        let mut registry = Registry::default();
        for (declaration, native) in &handlers.declared {
            match tool_in_code(declaration, native) {
                Ok(tool) => registry.add(tool),
                Err(findings) => {
                    let source = PathBuf::from(declaration.id.as_str());
                    registry.broken.push(Broken { source, findings });
                }
            }
        }
        for source in declaration_files(directory)? {
            match load_tool(&source, directory, handlers) {
                Ok(tool) => registry.add(tool),
                Err(findings) => registry.broken.push(Broken { source, findings }),
            }
        }
        Ok(registry)
    }

    fn add(&mut self, tool: Tool) {
        let versions = self.tools.entry(tool.declaration.id.clone()).or_default();
        let version = tool.declaration.version.clone();
        if let Some(other) = versions.get(&version) {
            let message = format!("{} declares the same id and version", other.source.display());
            let finding = finding("TOOL_DUPLICATE", "/version", message);
            self.broken.push(Broken { source: tool.source, findings: vec![finding] });
            return;
        }
        versions.insert(version, Arc::new(tool));
    }

    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// All usable tools, by id and then version.
    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values().flat_map(BTreeMap::values)
    }

    /// The tool that answers to `reference`: the version named, or the highest.
    pub fn find(&self, reference: &ToolRef) -> Result<&Arc<Tool>, Failure> {
        let versions =
            self.tools.get(&reference.id).ok_or_else(|| self.unknown_tool(&reference.id))?;
        match &reference.version {
            Some(version) => {
                versions.get(version).ok_or_else(|| unknown_version(reference, versions))
            }
            None => versions
                .last_key_value()
                .map(|(_, tool)| tool)
                .ok_or_else(|| self.unknown_tool(&reference.id)),
        }
    }

    /// As [`find`](Self::find), but not while any declaration is broken: the broken file may be
    /// the very version that was meant, and an older one must not answer in its place.
    pub fn resolve(&self, reference: &ToolRef) -> Result<&Arc<Tool>, Failure> {
        match self.broken.first() {
            None => self.find(reference),
            Some(first) => Err(self.refuse(first)),
        }
    }

    fn refuse(&self, first: &Broken) -> Failure {
        let files: Vec<_> = self
            .broken
            .iter()
            .map(|b| json!({"file": b.source.display().to_string(), "findings": b.findings}))
            .collect();
        let name = first.source.display();
        Failure::validation("TOOLS_INVALID", format!("the declaration {name} is not valid"))
            .hint(format!(
                "see what is wrong with `countersign tool lint {name}`, or remove the file"
            ))
            .details(json!(files))
    }

    fn unknown_tool(&self, id: &ToolId) -> Failure {
        let known: Vec<_> = self.tools.keys().map(ToolId::as_str).collect();
        let hint = if known.is_empty() {
            "no tool is declared; put declarations into tools/".to_owned()
        } else {
            format!("declared are {}", known.join(", "))
        };
        Failure::validation("TOOL_UNKNOWN", format!("there is no tool `{id}`")).hint(hint)
    }
}

fn unknown_version(reference: &ToolRef, versions: &BTreeMap<Version, Arc<Tool>>) -> Failure {
    let known: Vec<_> = versions.keys().map(ToString::to_string).collect();
    Failure::validation("TOOL_VERSION_UNKNOWN", format!("there is no `{reference}`"))
        .hint(format!("declared versions are {}", known.join(", ")))
}

fn declaration_files(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |error: std::io::Error| {
        let message = format!("{} cannot be read: {error}", directory.display());
        Failure::validation("TOOLS_UNREADABLE", message)
            .hint("make the home with `countersign init`")
    };
    let mut files = Vec::new();
    for found in fs::read_dir(directory).map_err(unreadable)? {
        let path = found.map_err(unreadable)?.path();
        let nested = path.join("tool.json");
        if path.is_dir() && nested.is_file() {
            files.push(nested);
        } else if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Everything that is wrong with one declaration: with itself, with what it names, and with the
/// files beside it, as if its folder stood in a home's `tools/`.
pub fn check_file(source: &Path, handlers: &Handlers) -> Vec<Finding> {
    let folder = match source.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let is_nested = source.file_name().is_some_and(|name| name == "tool.json");
    let tools = if is_nested { folder.join("..") } else { folder.to_owned() };
    load_tool(source, &tools, handlers).err().unwrap_or_default()
}

/// What the names of actions begin with.
const ACTIONS: &str = "action.";

fn tool_in_code(
    declaration: &Declaration,
    native: &Arc<dyn NativeTool>,
) -> Result<Tool, Vec<Finding>> {
    Ok(Tool {
        digest: declaration.digest(),
        input: compile(&declaration.input_schema, "/inputSchema")?,
        output: compile(&declaration.output_schema, "/outputSchema")?,
        source: PathBuf::new(),
        implementation: Implementation::Native(Arc::clone(native)),
        declaration: declaration.clone(),
    })
}

fn compile(schema: &Value, pointer: &str) -> Result<CompiledSchema, Vec<Finding>> {
    CompiledSchema::compile(schema)
        .map_err(|e| vec![finding("SCHEMA_INVALID", pointer, e.to_string())])
}

fn load_tool(source: &Path, tools: &Path, handlers: &Handlers) -> Result<Tool, Vec<Finding>> {
    let bytes = fs::read(source)
        .map_err(|e| vec![finding("FILE_UNREADABLE", "", format!("it cannot be read: {e}"))])?;
    let declaration = Declaration::parse(&bytes)?;
    if declaration.id.as_str() == ORDER_TOOL || declaration.id.as_str().starts_with(ACTIONS) {
        let message = format!("`{}` is one of the host's own names", declaration.id);
        return Err(vec![finding("TOOL_ID_RESERVED", "/id", message)]);
    }
    let implementation = match &declaration.runtime {
        Runtime::Builtin { handler } => Implementation::Native(native(handler, handlers)?),
        Runtime::Process(process) => {
            let files = pin(source, tools, process.files.as_deref(), None)?;
            let runtime = ProgramRuntime::Process(process.clone());
            Implementation::Program(Arc::new(ProgramTool { runtime, files, order: None }))
        }
        Runtime::Wasm(wasm) => {
            let files = pin(source, tools, wasm.files.as_deref(), Some(&wasm.module))?;
            let runtime = ProgramRuntime::Wasm(wasm.clone());
            Implementation::Program(Arc::new(ProgramTool { runtime, files, order: None }))
        }
    };
    Ok(Tool {
        digest: declaration.digest(),
        input: compile(&declaration.input_schema, "/inputSchema")?,
        output: compile(&declaration.output_schema, "/outputSchema")?,
        source: source.to_owned(),
        implementation,
        declaration,
    })
}

fn native(handler: &str, handlers: &Handlers) -> Result<Arc<dyn NativeTool>, Vec<Finding>> {
    handlers.get(handler).cloned().ok_or_else(|| {
        let names: Vec<_> = handlers.names().collect();
        let message = format!("there is no built-in `{handler}`; there are {}", names.join(", "));
        vec![finding("HANDLER_UNKNOWN", "/runtime/handler", message)]
    })
}

fn pin(
    source: &Path,
    tools: &Path,
    files: Option<&str>,
    module: Option<&str>,
) -> Result<PinnedFiles, Vec<Finding>> {
    let base = source.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(tools);
    PinnedFiles::read(base, tools, files, module).map_err(|problem| {
        let pointer = if files.is_some() { "/runtime/files" } else { "/runtime/module" };
        let mut found = finding("TOOL_FILES_INVALID", pointer, problem);
        found.hint = Some(
            "a tool consists of files, and of links between them, beneath a folder of its own"
                .to_owned(),
        );
        vec![found]
    })
}

fn finding(code: &'static str, pointer: &str, message: String) -> Finding {
    Finding { code: code.into(), pointer: pointer.to_owned(), message, hint: None }
}
