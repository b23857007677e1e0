//! What one sandboxed call may use, every limit with a value and a name of its own.

use std::fmt;

use countersign_model::{Failure, ResourceLimits};
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;

/// Every limit of a sandboxed call. Unlike a declaration's, none is left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Limits {
    pub wall_ms: u64,
    /// Processor time of the whole tree.
    pub cpu_ms: u64,
    /// Memory of the whole tree, files in the staging layer included.
    pub memory: u64,
    pub processes: u32,
    /// Threads of all processes together, each process counting as one at least: the kernel's cap.
    pub threads: u32,
    pub open_files: u32,
    pub file_size: u64,
    /// Bytes of everything written to files.
    pub total_size: u64,
    /// Files, directories and links made.
    pub inodes: u64,
    /// Bytes on each of the two output streams.
    pub output: u64,
    /// What of a stream is kept at hand; the rest goes to a file.
    pub inline_output: u64,
    /// Between the polite signal and the one that cannot be ignored.
    pub grace_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            wall_ms: 30_000,
            cpu_ms: 30_000,
            memory: 512 * MIB,
            processes: 64,
            threads: 256,
            open_files: 256,
            file_size: 64 * MIB,
            total_size: 256 * MIB,
            inodes: 20_000,
            output: 16 * MIB,
            inline_output: MIB,
            grace_ms: 500,
        }
    }
}

impl Limits {
    /// What a declaration asks for, completed by defaults. Processor time is bounded by wall time
    /// on every processor unless the declaration says less.
    pub fn declared(declared: &ResourceLimits) -> Self {
        let default = Limits::default();
        let file_size = declared.max_file_size.unwrap_or(default.file_size);
        Limits {
            wall_ms: declared.max_execution_time,
            cpu_ms: declared.max_cpu_time.unwrap_or(declared.max_execution_time),
            memory: declared.max_memory,
            processes: declared.max_processes.unwrap_or(default.processes),
            threads: declared.max_threads.unwrap_or(default.threads),
            open_files: declared.max_file_descriptors.unwrap_or(default.open_files),
            file_size,
            total_size: declared.max_total_size.unwrap_or(default.total_size.max(file_size)),
            inodes: declared.max_inodes.unwrap_or(default.inodes),
            output: declared.max_output.unwrap_or(default.output),
            ..default
        }
    }

    fn of(&self, kind: LimitKind) -> (u64, &'static str) {
        match kind {
            LimitKind::WallTime => (self.wall_ms, "ms"),
            LimitKind::CpuTime => (self.cpu_ms, "ms of processor time"),
            LimitKind::Memory => (self.memory, "bytes of memory"),
            LimitKind::Processes => (self.processes.into(), "processes"),
            LimitKind::Threads => (self.threads.into(), "threads"),
            LimitKind::OpenFiles => (self.open_files.into(), "open files"),
            LimitKind::FileSize => (self.file_size, "bytes in one file"),
            LimitKind::TotalSize => (self.total_size, "bytes in files"),
            LimitKind::Inodes => (self.inodes, "files"),
            LimitKind::Output => (self.output, "bytes of output"),
        }
    }

    /// The failure of a call that this limit stopped.
    pub fn reached(&self, kind: LimitKind) -> Failure {
        let (value, unit) = self.of(kind);
        let hint = format!(
            "raise {} in the tool's declaration, or give it less to do",
            kind.declared_as()
        );
        if kind == LimitKind::WallTime {
            let message = format!("the tool ran for longer than {value} ms");
            return Failure::timeout(kind.code(), message).hint(hint);
        }
        let message = format!("the tool needs more than the {value} {unit} that it may use");
        Failure::resource(kind.code(), message).hint(hint)
    }
}

/// Which limit ended a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LimitKind {
    WallTime,
    CpuTime,
    Memory,
    Processes,
    Threads,
    OpenFiles,
    FileSize,
    TotalSize,
    Inodes,
    Output,
}

impl LimitKind {
    pub fn code(self) -> &'static str {
        match self {
            LimitKind::WallTime => "TIME_LIMIT",
            LimitKind::CpuTime => "CPU_LIMIT",
            LimitKind::Memory => "MEMORY_LIMIT",
            LimitKind::Processes => "PROCESS_LIMIT",
            LimitKind::Threads => "THREAD_LIMIT",
            LimitKind::OpenFiles => "OPEN_FILES_LIMIT",
            LimitKind::FileSize => "FILE_TOO_LARGE",
            LimitKind::TotalSize => "TOTAL_SIZE_LIMIT",
            LimitKind::Inodes => "INODE_LIMIT",
            LimitKind::Output => "OUTPUT_LIMIT",
        }
    }

    fn declared_as(self) -> &'static str {
        match self {
            LimitKind::WallTime => "maxExecutionTime",
            LimitKind::CpuTime => "maxCpuTime",
            LimitKind::Memory => "maxMemory",
            LimitKind::Processes => "maxProcesses",
            LimitKind::Threads => "maxThreads",
            LimitKind::OpenFiles => "maxFileDescriptors",
            LimitKind::FileSize => "maxFileSize",
            LimitKind::TotalSize => "maxTotalSize",
            LimitKind::Inodes => "maxInodes",
            LimitKind::Output => "maxOutput",
        }
    }

    /// As JSON names it.
    pub fn name(self) -> &'static str {
        match self {
            LimitKind::WallTime => "wallTime",
            LimitKind::CpuTime => "cpuTime",
            LimitKind::Memory => "memory",
            LimitKind::Processes => "processes",
            LimitKind::Threads => "threads",
            LimitKind::OpenFiles => "openFiles",
            LimitKind::FileSize => "fileSize",
            LimitKind::TotalSize => "totalSize",
            LimitKind::Inodes => "inodes",
            LimitKind::Output => "output",
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
