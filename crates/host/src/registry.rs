//! The tools of a home: what is declared in `tools/`, and nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_model::{
    CompiledSchema, Declaration, Digest, Failure, Finding, Runtime, ToolId, ToolRef,
};
use semver::Version;
use serde_json::json;

use crate::tool::NativeTool;

/// A declared tool, ready to be called: schemas compiled, implementation found.
#[derive(Debug)]
pub struct Tool {
    pub declaration: Declaration,
    pub digest: Digest,
    pub source: PathBuf,
    pub(crate) input: CompiledSchema,
    pub(crate) output: CompiledSchema,
    pub(crate) native: Arc<dyn NativeTool>,
}

/// The implementations that declarations may name as `runtime.handler`.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<String, Arc<dyn NativeTool>>);

impl Handlers {
    #[must_use]
    pub fn with(mut self, name: &str, tool: impl NativeTool + 'static) -> Self {
        self.0.insert(name.to_owned(), Arc::new(tool));
        self
    }

    fn get(&self, name: &str) -> Option<&Arc<dyn NativeTool>> {
        self.0.get(name)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
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
        for source in declaration_files(directory)? {
            match load_tool(&source, handlers) {
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

fn load_tool(source: &Path, handlers: &Handlers) -> Result<Tool, Vec<Finding>> {
    let bytes = fs::read(source)
        .map_err(|e| vec![finding("FILE_UNREADABLE", "", format!("it cannot be read: {e}"))])?;
    let declaration = Declaration::parse(&bytes)?;
    let Runtime::Builtin { handler } = &declaration.runtime;
    let native = handlers.get(handler).cloned().ok_or_else(|| {
        let names: Vec<_> = handlers.names().collect();
        let message = format!("there is no built-in `{handler}`; there are {}", names.join(", "));
        vec![finding("HANDLER_UNKNOWN", "/runtime/handler", message)]
    })?;
    let compile = |schema, pointer: &str| {
        CompiledSchema::compile(schema)
            .map_err(|e| vec![finding("SCHEMA_INVALID", pointer, e.to_string())])
    };
    Ok(Tool {
        digest: declaration.digest(),
        input: compile(&declaration.input_schema, "/inputSchema")?,
        output: compile(&declaration.output_schema, "/outputSchema")?,
        source: source.to_owned(),
        native,
        declaration,
    })
}

fn finding(code: &'static str, pointer: &str, message: String) -> Finding {
    Finding { code: code.into(), pointer: pointer.to_owned(), message, hint: None }
}
