//! Plans in words.

use std::fmt;

use crate::plan::{Namespace, Network, Plan, Rlimit, SetupOp};

impl fmt::Display for SetupOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetupOp::Namespaces { list } => {
                let names: Vec<_> = list.iter().map(ToString::to_string).collect();
                write!(f, "new namespaces: {}", names.join(", "))
            }
            SetupOp::Identity { user, group } => write!(f, "be user {user}, group {group} inside"),
            SetupOp::Root => f.write_str("new empty root in memory"),
            SetupOp::Directory { path } => write!(f, "directory {path}"),
            SetupOp::Link { path, target } => write!(f, "link {path} to {target}"),
            SetupOp::File { path, .. } => write!(f, "file {path}, made up"),
            SetupOp::Bind { source, target } if source == target => {
                write!(f, "show {source}, read-only")
            }
            SetupOp::Bind { source, target } => write!(f, "show {source} as {target}, read-only"),
            SetupOp::Device { name } => write!(f, "device /dev/{name}"),
            SetupOp::SealRoot => f.write_str("make the root read-only"),
            SetupOp::Listen { port } => {
                write!(f, "loopback of its own, with the egress proxy on port {port}")
            }
            SetupOp::Hostname { name } => write!(f, "host name {name}"),
            SetupOp::Scratch { bytes, inodes } => {
                write!(f, "scratch space in memory: {bytes} bytes, {inodes} files")
            }
            SetupOp::Writable { target, .. } => write!(f, "{target} on the scratch space"),
            SetupOp::Overlay { source, target, writable: false, .. } => {
                write!(f, "show {source} as {target}, read-only (overlay)")
            }
            SetupOp::Overlay { source, target, .. } => {
                write!(
                    f,
                    "show {source} as {target}, changes staged on the scratch space (overlay)"
                )
            }
            SetupOp::Copy { source, target, .. } => {
                write!(f, "copy {source} to {target} on the scratch space")
            }
            SetupOp::Hide { target } => write!(f, "hide {target} behind an empty directory"),
            SetupOp::Proc => f.write_str("/proc with this sandbox's processes only"),
            SetupOp::EnterRoot => f.write_str("enter the new root and let go of the host's"),
            SetupOp::Session => f.write_str("a session without terminal"),
            SetupOp::Limit { resource, value } => write!(f, "limit {resource} to {value}"),
            SetupOp::WorkingDirectory { path } => write!(f, "work in {path}"),
            SetupOp::CloseDescriptors => f.write_str("close all descriptors but 0, 1 and 2"),
            SetupOp::OomFirst => f.write_str("be the first to go when memory runs out"),
            SetupOp::Priority => f.write_str("be no more urgent than others"),
            SetupOp::NoNewPrivileges => f.write_str("no new privileges, ever"),
            SetupOp::DropCapabilities => f.write_str("drop all Linux capabilities"),
            SetupOp::Landlock { abi, write } => {
                write!(f, "landlock (version {abi}): write only beneath {}", write.join(", "))
            }
            SetupOp::Seccomp { profile } => {
                write!(f, "seccomp: only listed system calls ({profile})")
            }
            SetupOp::Streams => f.write_str("take the call's input and output when it begins"),
            SetupOp::Module { source, digest } => {
                write!(f, "compile {source}, or take what was compiled for {digest}")
            }
            SetupOp::Memory { bytes } => write!(f, "limit memories and tables to {bytes} bytes"),
            SetupOp::Fuel { amount } => write!(f, "limit fuel to {amount} instructions"),
            SetupOp::ScratchFiles { bytes, inodes, file_size } => {
                write!(
                    f,
                    "scratch space on disk: {bytes} bytes, {inodes} files of {file_size} bytes at most"
                )
            }
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Namespace::User => "user",
            Namespace::Mount => "mount",
            Namespace::Pid => "pid",
            Namespace::Net => "net",
            Namespace::Ipc => "ipc",
            Namespace::Uts => "uts",
            Namespace::Cgroup => "cgroup",
        })
    }
}

impl fmt::Display for Rlimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rlimit::CpuSeconds => "processor seconds of one process",
            Rlimit::Data => "memory of one process",
            Rlimit::FileSize => "bytes of one file",
            Rlimit::OpenFiles => "open files",
            Rlimit::Processes => "processes and threads",
            Rlimit::CoreSize => "bytes of a core dump",
            Rlimit::MessageQueues => "bytes of message queues",
            Rlimit::LockedMemory => "bytes of locked memory",
        })
    }
}

const PROCESS_TITLES: [&str; 3] = [
    "Once, by the launcher:",
    "For each call, by the first process of the sandbox:",
    "For each call, by the process that becomes the program:",
];

/// A guest has no process of its own.
const WASM_TITLES: [&str; 3] = [
    "Once, and kept:",
    "For each call, in a new store, before the guest is instantiated:",
    "For each call, by the guest:",
];

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut step = 0;
        let titles = if self.is_wasm() { WASM_TITLES } else { PROCESS_TITLES };
        for (title, ops) in titles.into_iter().zip([&self.launcher, &self.sandbox, &self.program]) {
            if ops.is_empty() {
                continue;
            }
            writeln!(f, "{title}")?;
            for op in ops {
                step += 1;
                writeln!(f, "{step:>4}. {op}")?;
            }
        }
        writeln!(f, "{:>4}. run {}", step + 1, self.command.join(" "))?;
        match &self.network {
            Network::None => writeln!(f, "Network: none."),
            Network::Proxy { hosts } => {
                writeln!(f, "Network: the egress proxy, to {}.", hosts.join(", "))
            }
        }
    }
}
