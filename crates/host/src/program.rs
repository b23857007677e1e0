//! Tools that are programs: what they need, and the sandbox that they ask for.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_model::scope::pattern_for;
use countersign_model::{
    Capability, Declaration, Failure, HostPattern, Need, ProcessRuntime, WasmRuntime,
    WorkspaceAccess,
};
use countersign_sandbox::{Backend, Limits, Spec};

use crate::backends::{Backends, unavailable};
use crate::order::Order;
use crate::pinned::PinnedFiles;
use crate::root::Root;
use crate::tool::{Footprint, Place};

/// A program, with its files pinned.
#[derive(Debug)]
pub struct ProgramTool {
    pub runtime: ProgramRuntime,
    pub files: PinnedFiles,
    /// Set for a command that people approve, which speaks no JSON.
    pub(crate) order: Option<Order>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramRuntime {
    Process(ProcessRuntime),
    Wasm(WasmRuntime),
}

impl ProgramTool {
    pub fn workspace(&self) -> Option<WorkspaceAccess> {
        match &self.runtime {
            ProgramRuntime::Process(process) => process.workspace,
            ProgramRuntime::Wasm(wasm) => wasm.workspace,
        }
    }

    /// Hosts that it may reach, each with its port.
    pub(crate) fn hosts(&self) -> Result<Vec<HostPattern>, Failure> {
        match &self.runtime {
            ProgramRuntime::Process(process) => process.hosts.iter().map(|h| h.parse()).collect(),
            ProgramRuntime::Wasm(_) => Ok(Vec::new()),
        }
    }

    pub(crate) fn warm(&self) -> u32 {
        match &self.runtime {
            ProgramRuntime::Process(process) => process.warm,
            ProgramRuntime::Wasm(_) => 0,
        }
    }

    /// What every call of it will touch: its declaration says so, whatever the input.
    pub(crate) fn footprint(&self, place: &Place) -> Result<Footprint, Failure> {
        let mut footprint = Footprint::nothing();
        if let Some(access) = self.workspace() {
            let tree = tree_of(place.root()?);
            let need = |capability| Need::every(capability, tree.clone());
            footprint.needs.push(need(Capability::FilesystemRead));
            if access == WorkspaceAccess::Write {
                footprint.needs.push(need(Capability::FilesystemWrite));
                footprint.needs.push(need(Capability::FilesystemDelete));
            }
            footprint.workspace = Some(access);
        }
        for host in self.hosts()? {
            footprint.needs.push(Need::every(host.capability(), host.resource()));
        }
        Ok(footprint)
    }

    pub(crate) fn backend(&self, backends: &Backends) -> Result<Arc<dyn Backend>, Failure> {
        let (backend, what) = match self.runtime {
            ProgramRuntime::Process(_) => (&backends.process, "the runtime `process`"),
            ProgramRuntime::Wasm(_) => (&backends.wasm, "the runtime `wasm`"),
        };
        backend.clone().ok_or_else(|| unavailable(what))
    }

    /// The sandbox that a call asks for, beneath `root`. `show` are the operator's further paths.
    pub(crate) fn spec(
        &self,
        declaration: &Declaration,
        root: Option<&Path>,
        show: &[PathBuf],
    ) -> Result<Spec, Failure> {
        let hosts = self.hosts()?;
        let workspace = self.workspace().zip(root);
        let spec = match &self.runtime {
            ProgramRuntime::Process(process) => Spec {
                environment: process.environment.clone(),
                isolation: process.isolation,
                may_be_weaker: process.may_be_weaker.clone(),
                ..Spec::of(process.command.clone())
            },
            ProgramRuntime::Wasm(wasm) => {
                // A program's first argument is its own name.
                let name = wasm.module.rsplit('/').next().unwrap_or_default().to_owned();
                let command = std::iter::once(name).chain(wasm.arguments.iter().cloned());
                Spec {
                    environment: wasm.environment.clone(),
                    module: self.files.module.clone(),
                    fuel: wasm.fuel,
                    ..Spec::of(command.collect())
                }
            }
        };
        Ok(Spec {
            limits: Limits::declared(&declaration.resource_limits),
            tool: self.files.directory.clone(),
            workspace: workspace.map(|(access, root)| (root.to_owned(), access)),
            hosts: hosts.iter().map(HostPattern::with_port).collect(),
            read_only: show.to_vec(),
            ..spec
        })
    }
}

/// Everything beneath a root, as grants are scoped.
fn tree_of(root: &Root) -> String {
    format!("{}/**", pattern_for(root.path().trim_end_matches('/')))
}
