//! What a call wants of its sandbox.

use std::collections::BTreeMap;
use std::path::PathBuf;

use countersign_model::WorkspaceAccess;

use crate::limits::Limits;

/// Everything that a plan depends on, the machine apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub command: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub isolation: u8,
    pub limits: Limits,
    /// The tool's own files, seen read-only as `/tool`. Absolute, without links.
    pub tool: Option<PathBuf>,
    /// Declared inputs, seen read-only as `/in`.
    pub inputs: Option<PathBuf>,
    /// Seen as `/workspace`; changes are staged.
    pub workspace: Option<(PathBuf, WorkspaceAccess)>,
    /// Where in the workspace the program begins, relative to it.
    pub directory: Option<String>,
    /// Directories of the workspace that the program must not see, relative to it.
    pub hidden: Vec<String>,
    /// Hosts that may be reached, through the egress proxy only.
    pub hosts: Vec<String>,
    /// More host paths that the program may read, by the operator's configuration.
    pub read_only: Vec<PathBuf>,
    pub may_be_weaker: Vec<String>,
    /// The WebAssembly module or component to run; `command` is then its argument list.
    pub module: Option<PathBuf>,
    /// The most instructions that a WebAssembly guest may execute.
    pub fuel: Option<u64>,
}

impl Spec {
    /// A program with nothing but its command.
    pub fn of(command: Vec<String>) -> Self {
        Spec {
            command,
            environment: BTreeMap::new(),
            isolation: 2,
            limits: Limits::default(),
            tool: None,
            inputs: None,
            workspace: None,
            directory: None,
            hidden: Vec::new(),
            hosts: Vec::new(),
            read_only: Vec::new(),
            may_be_weaker: Vec::new(),
            module: None,
            fuel: None,
        }
    }
}
