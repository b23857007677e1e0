//! What the host knows about a call before it runs.

use countersign_model::event::Declared;
use countersign_model::{
    CallFacts, Consumed, Principal, Runtime, RuntimeKind, SafetyTier, SandboxMode, Timestamp,
    ToolFacts,
};

use serde_json::Value;

use crate::pipeline::Asked;
use crate::registry::{Implementation, Tool};

/// What a front door says about a call beside its tool and input.
#[derive(Debug, Clone)]
pub(crate) struct Circumstances {
    pub(crate) chain: Vec<Principal>,
    pub(crate) consumes: Vec<Consumed>,
    pub(crate) mode: SandboxMode,
    pub(crate) principal: Principal,
    pub(crate) toolset: Option<String>,
}

impl From<Declared> for Circumstances {
    fn from(declared: Declared) -> Self {
        let Declared { chain, consumes, mode, principal, toolset, .. } = declared;
        Circumstances { chain, consumes, mode, principal, toolset }
    }
}

pub(crate) fn call_facts(
    tool: &Tool,
    circumstances: &Circumstances,
    asked: &Asked,
    time: Timestamp,
) -> CallFacts {
    let Circumstances { chain, mode, principal, toolset, .. } = circumstances.clone();
    CallFacts {
        chain,
        effects: asked.footprint.needs.clone(),
        hosts: hosts(tool, &asked.input),
        mode,
        people: people(tool),
        principal,
        time,
        tool: tool_facts(tool),
        toolset,
        workspace: asked.place.shared_root().map(|root| root.path().to_owned()),
    }
}

/// How many must agree, whatever policy says.
fn people(tool: &Tool) -> u32 {
    match &tool.implementation {
        Implementation::Native(native) => native.people(),
        Implementation::Program(_) => tool.order().map_or(0, |order| order.people.max(1)),
    }
}

fn hosts(tool: &Tool, input: &Value) -> Vec<String> {
    match &tool.implementation {
        Implementation::Native(native) => native.hosts(input),
        // What cannot be read was refused when the tool was loaded.
        Implementation::Program(program) => {
            let hosts = program.hosts().unwrap_or_default();
            hosts.iter().map(countersign_model::HostPattern::with_port).collect()
        }
    }
}

pub(crate) fn tool_facts(tool: &Tool) -> ToolFacts {
    let declaration = &tool.declaration;
    let (runtime, isolation) = match &declaration.runtime {
        Runtime::Builtin { .. } => (RuntimeKind::Builtin, 0),
        Runtime::Process(process) => (RuntimeKind::Process, process.isolation),
        Runtime::Wasm(_) => (RuntimeKind::Wasm, 2),
    };
    let mut capabilities = declaration.required_capabilities.clone();
    capabilities.sort_unstable();
    capabilities.dedup();
    ToolFacts {
        capabilities,
        declaration: tool.digest,
        files: tool.files_digest(),
        id: declaration.id.clone(),
        isolation,
        runtime,
        tier: declaration.safety_tier.unwrap_or(unsaid(runtime)),
        version: declaration.version.clone(),
    }
}

/// What a tool is taken for whose author did not say: the most that it could be.
fn unsaid(runtime: RuntimeKind) -> SafetyTier {
    match runtime {
        RuntimeKind::Builtin => SafetyTier::Write,
        RuntimeKind::Process | RuntimeKind::Wasm => SafetyTier::Exec,
    }
}
