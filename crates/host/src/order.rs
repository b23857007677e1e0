//! Orders: one command each, approved by people as a document and run once.
//!
//! An order is a call like any other. Its tool is made for it alone, so that command, limits and
//! hosts are pinned by the digest of a declaration; the order itself is the input, so that people
//! sign the exact text they were shown. It needs no grants: who approves it grants what it names.

mod ledger;
mod staging;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::LazyLock;

use countersign_model::{
    Capability, CompiledSchema, Declaration, Digest, Failure, HostPattern, ProcessRuntime,
    ResourceLimits, Runtime, SafetyTier, ToolId,
};
use countersign_sandbox::Ended;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::pinned::PinnedFiles;
use crate::program::{ProgramRuntime, ProgramTool};
use crate::registry::{Implementation, Tool};

pub use self::ledger::{Ordered, Standing};
pub(crate) use self::staging::StagedInputs;

pub use countersign_model::facts::ORDER_TOOL;

/// One command, with all that it may see, use and leave.
///
/// INVARIANT: fields stand in the order of their JSON names; see [`countersign_model::event`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Order {
    pub command: Vec<String>,
    /// The exact text that people approve.
    pub document: String,
    pub environment: BTreeMap<String, String>,
    /// Each as `host:port`.
    pub hosts: Vec<String>,
    /// What the order is known by; it runs once.
    pub id: String,
    /// Seen by the command in `/in`.
    pub inputs: Vec<OrderInput>,
    pub limits: ResourceLimits,
    /// Files that the command may leave in `/out`.
    pub outputs: Vec<String>,
    /// How many people must agree at least.
    pub people: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrderInput {
    pub name: String,
    pub sha256: Digest,
    pub size: u64,
}

/// Anything: an order is typed before it becomes an input, and its output is the host's own.
static ANYTHING: LazyLock<Value> = LazyLock::new(
    || json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}),
);

impl Order {
    pub(crate) fn from_input(input: &Value) -> Result<Self, Failure> {
        serde_json::from_value(input.clone()).map_err(|error| {
            Failure::validation("ORDER_INVALID", format!("the order cannot be read: {error}"))
        })
    }

    /// The tool that does this and nothing else.
    pub(crate) fn tool(&self) -> Result<Tool, Failure> {
        self.check_names()?;
        let runtime = ProcessRuntime {
            command: self.command.clone(),
            environment: self.environment.clone(),
            files: None,
            hosts: self.hosts.clone(),
            isolation: 2,
            may_be_weaker: Vec::new(),
            warm: 0,
            workspace: None,
        };
        let declaration = self.declaration(runtime.clone())?;
        let files = PinnedFiles::default();
        let runtime = ProgramRuntime::Process(runtime);
        let program = ProgramTool { runtime, files, order: Some(self.clone()) };
        Ok(Tool {
            digest: declaration.digest(),
            input: anything()?,
            output: anything()?,
            source: PathBuf::new(),
            implementation: Implementation::Program(Arc::new(program)),
            declaration,
        })
    }

    /// Inputs are laid out side by side: a name leads nowhere else.
    fn check_names(&self) -> Result<(), Failure> {
        let is_plain = |name: &str| !name.contains(['/', '\0']) && !["", ".", ".."].contains(&name);
        match self.inputs.iter().find(|input| !is_plain(&input.name)) {
            None => Ok(()),
            Some(input) => {
                let name = input.name.escape_debug();
                let message = format!("`{name}` cannot be the name of an input");
                Err(Failure::validation("ORDER_INVALID", message))
            }
        }
    }

    fn declaration(&self, runtime: ProcessRuntime) -> Result<Declaration, Failure> {
        Ok(Declaration {
            id: order_tool()?,
            version: Version::new(1, 0, 0),
            name: "Order".to_owned(),
            description: "One command that people approved as a document.".to_owned(),
            input_schema: ANYTHING.clone(),
            output_schema: ANYTHING.clone(),
            required_capabilities: self.capabilities()?,
            resource_limits: self.limits,
            deterministic: false,
            idempotent: false,
            runtime: Runtime::Process(runtime),
            safety_tier: Some(SafetyTier::Exec),
        })
    }

    fn capabilities(&self) -> Result<Vec<Capability>, Failure> {
        let parsed = self.hosts.iter().map(|host| Ok(host.parse::<HostPattern>()?.capability()));
        let all: BTreeSet<_> = parsed.collect::<Result<_, Failure>>()?;
        Ok(all.into_iter().collect())
    }

    /// What was not announced is not taken.
    pub(crate) fn check_outputs<'a>(
        &self,
        found: impl Iterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let mut surprises = found.filter(|name| !self.outputs.iter().any(|output| output == name));
        let Some(name) = surprises.next() else { return Ok(()) };
        let message =
            format!("the command left `{}`, which was not announced", name.escape_debug());
        Err(Failure::validation("OUTPUT_UNDECLARED", message)
            .hint("name every file that it writes below /out among the expected outputs")
            .details(json!({ "files": surprises.count() + 1 })))
    }
}

fn anything() -> Result<CompiledSchema, Failure> {
    CompiledSchema::compile(&ANYTHING)
        .map_err(|error| Failure::state("INTERNAL", format!("the schema of orders: {error}")))
}

pub(crate) fn order_tool() -> Result<ToolId, Failure> {
    ORDER_TOOL.parse()
}

/// What the journal says about a command that did its work; its streams are kept beside that.
pub(crate) fn output(ended: &Ended) -> Value {
    json!({"exitCode": 0, "stderrBytes": ended.stderr.total, "stdoutBytes": ended.stdout.total})
}
