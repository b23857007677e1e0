//! A plan: every set-up operation of a sandbox, in order, as data.
//!
//! Three lists for three moments. The launcher's are done once and serve many calls; the box's are
//! done for every call by the first process of its own process namespace; the program's are done by
//! the process that becomes the program. Nothing else is done, so what is printed is what happens.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    pub isolation: u8,
    pub command: Vec<String>,
    pub directory: String,
    pub environment: BTreeMap<String, String>,
    pub limits: Limits,
    pub network: Network,
    /// Once for each launcher process.
    pub launcher: Vec<SetupOp>,
    /// For each call, by the first process of the box.
    pub sandbox: Vec<SetupOp>,
    /// For each call, by the process that becomes the program.
    pub program: Vec<SetupOp>,
    /// How each barrier is enforced here.
    pub enforcement: BTreeMap<String, String>,
    /// What is enforced more weakly than asked, because the declaration allows it.
    pub weaker: Vec<String>,
}

/// What a program can reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "kind", deny_unknown_fields)]
pub enum Network {
    /// An empty network namespace, and no socket but unix ones.
    None,
    /// The same, with the egress proxy listening on its loopback.
    Proxy { hosts: Vec<String> },
}

/// One step of setting a sandbox up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "op", deny_unknown_fields)]
pub enum SetupOp {
    /// Leave these namespaces of the host for new ones.
    Namespaces {
        list: Vec<Namespace>,
    },
    /// Be this user and group inside.
    Identity {
        user: u32,
        group: u32,
    },
    /// A new root directory, in memory.
    Root,
    Directory {
        path: String,
    },
    Link {
        path: String,
        target: String,
    },
    File {
        path: String,
        content: String,
    },
    /// A host path, read-only, without devices and setuid programs.
    Bind {
        source: String,
        target: String,
    },
    Device {
        name: String,
    },
    /// From here on the new root is read-only.
    SealRoot,
    /// The private loopback interface, with the proxy's socket listening on it.
    Listen {
        port: u16,
    },
    Hostname {
        name: String,
    },
    /// One file system in memory holds everything that the program writes.
    Scratch {
        bytes: u64,
        inodes: u64,
    },
    /// A directory of the scratch file system.
    Writable {
        name: String,
        target: String,
    },
    /// A host directory, copy-on-write over the scratch file system. Also where nothing may be
    /// written: sockets that it holds do not lead to whoever listens on them outside.
    Overlay {
        source: String,
        name: String,
        target: String,
        writable: bool,
    },
    /// A host directory, copied into the scratch file system, where overlays are refused.
    Copy {
        source: String,
        name: String,
        target: String,
        writable: bool,
    },
    /// An empty directory in place of one that the program must not see.
    Hide {
        target: String,
    },
    /// Processes of this sandbox only, and nothing of the kernel's.
    Proc,
    /// Make the new root the only one, and let go of the host's.
    EnterRoot,
    /// A session without terminal.
    Session,
    Limit {
        resource: Rlimit,
        value: u64,
    },
    WorkingDirectory {
        path: String,
    },
    /// Close every descriptor but the three standard ones.
    CloseDescriptors,
    /// The first process to be killed when memory runs out.
    OomFirst,
    /// No more urgent than what other users run, even if the host is.
    Priority,
    NoNewPrivileges,
    DropCapabilities,
    /// Read and execute anywhere, write only beneath these.
    Landlock {
        abi: u32,
        write: Vec<String>,
    },
    /// Only system calls on the list.
    Seccomp {
        profile: String,
    },
    /// Everything is ready: wait until the call may begin, then take its three streams. What a
    /// sandbox prepared ahead has not done yet comes after this.
    Streams,
    /// A WebAssembly module or component, compiled once and known by its digest.
    Module {
        source: String,
        digest: String,
    },
    /// All linear memories and tables of a WebAssembly guest together.
    Memory {
        bytes: u64,
    },
    /// Instructions that a WebAssembly guest may execute.
    Fuel {
        amount: u64,
    },
    /// A private directory on disk holds everything that a WebAssembly guest writes.
    ScratchFiles {
        bytes: u64,
        inodes: u64,
        file_size: u64,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Namespace {
    User,
    Mount,
    Pid,
    Net,
    Ipc,
    Uts,
    Cgroup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Rlimit {
    CpuSeconds,
    /// Private writable memory of one process.
    Data,
    FileSize,
    OpenFiles,
    Processes,
    CoreSize,
    /// Bytes of POSIX message queues.
    MessageQueues,
    LockedMemory,
}

impl Plan {
    /// Whether a WebAssembly guest is to run, in the host's own process.
    pub fn is_wasm(&self) -> bool {
        self.launcher.iter().any(|op| matches!(op, SetupOp::Module { .. }))
    }

    pub fn uses_overlay(&self) -> bool {
        self.sandbox.iter().any(|op| matches!(op, SetupOp::Overlay { .. }))
    }
}
