//! From options to what a box is to be. `run` and `explain` take the same ones.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::value_parser;
use countersign_model::{Failure, WorkspaceAccess};
use countersign_sandbox::{LimitKind, Limits, Spec};

const MIB: u64 = 1 << 20;
const MOST_MIB: u64 = 1 << 24;
const MOST_SECONDS: f64 = 31.0 * 86_400.0;

/// Barriers that a box can do without. Nothing can do without namespaces.
const WEAKENABLE: [&str; 6] = ["memory", "processes", "cpuTime", "landlock", "seccomp", "staging"];

#[derive(Debug, Args)]
pub(super) struct SpecArgs {
    /// Memory of all processes together [default: 512]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=MOST_MIB))]
    memory: Option<u64>,

    /// Time until it must have ended; fractions are allowed [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = milliseconds)]
    time: Option<u64>,

    /// Processor time of all processes together [default: the time, on every processor]
    #[arg(long, value_name = "SECONDS", value_parser = milliseconds)]
    cpu_time: Option<u64>,

    /// Processes at one moment [default: 64, or --threads if that is less]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000))]
    pids: Option<u32>,

    /// Threads of all processes at one moment [default: 256, or --pids if that is given]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=100_000))]
    threads: Option<u32>,

    /// Open files of each process [default: 256]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(4..=1_000_000))]
    files: Option<u32>,

    /// Size of one file [default: 64]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=MOST_MIB))]
    file_size: Option<u64>,

    /// Size of everything that is written to files [default: 256]
    #[arg(long, value_name = "MIB", value_parser = value_parser!(u64).range(1..=MOST_MIB))]
    total_size: Option<u64>,

    /// Files, directories and links that are made [default: 20000]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(16..=100_000_000))]
    inodes: Option<u64>,

    /// Bytes on each of the two output streams [default: 16 MiB]
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=MOST_MIB * MIB))]
    output_bytes: Option<u64>,

    /// Shown as /workspace; changes are staged, and applied when the command succeeds
    #[arg(long, value_name = "DIR")]
    pub(super) workspace: Option<PathBuf>,

    /// Shown as /tool, read-only
    #[arg(long, value_name = "DIR")]
    tool: Option<PathBuf>,

    /// Shown as /in, read-only
    #[arg(long = "in", value_name = "DIR")]
    inputs: Option<PathBuf>,

    /// Let it reach this host, through the egress proxy only; may be repeated
    #[arg(long = "allow-host", value_name = "HOST[:PORT]")]
    hosts: Vec<String>,

    /// Go on where this machine cannot enforce this; may be repeated
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(WEAKENABLE))]
    may_be_weaker: Vec<String>,
}

impl SpecArgs {
    pub(super) fn spec(&self, command: Vec<String>) -> Result<Spec, Failure> {
        let directory = |path: &Option<PathBuf>| path.as_deref().map(real_directory).transpose();
        let workspace = directory(&self.workspace)?;
        Ok(Spec {
            limits: self.limits(),
            tool: directory(&self.tool)?,
            inputs: directory(&self.inputs)?,
            workspace: workspace.map(|path| (path, WorkspaceAccess::Write)),
            hosts: self.hosts.clone(),
            may_be_weaker: self.may_be_weaker.clone(),
            ..Spec::of(command)
        })
    }

    /// What is not given is generous enough never to be the limit that ends a command in place of
    /// one that is given.
    fn limits(&self) -> Limits {
        let default = Limits::default();
        let mib = |given: Option<u64>, default: u64| given.map_or(default, |mib| mib * MIB);
        let wall_ms = self.time.unwrap_or(default.wall_ms);
        let processors = available_parallelism().map_or(1, |count| count.get() as u64);
        let file_size = mib(self.file_size, default.file_size);
        // One cap serves both, so the one that is not given must not lift the one that is.
        let (processes, threads) = match (self.pids, self.threads) {
            (None, None) => (default.processes, default.threads),
            (Some(pids), None) => (pids, pids),
            (None, Some(threads)) => (default.processes.min(threads), threads),
            (Some(pids), Some(threads)) => (pids, threads),
        };
        Limits {
            wall_ms,
            cpu_ms: self.cpu_time.unwrap_or(wall_ms.saturating_mul(processors)),
            memory: mib(self.memory, default.memory),
            processes,
            threads,
            open_files: self.files.unwrap_or(default.open_files),
            file_size,
            total_size: mib(self.total_size, default.total_size.max(file_size)),
            inodes: self.inodes.unwrap_or(default.inodes),
            output: self.output_bytes.unwrap_or(default.output),
            ..default
        }
    }
}

/// The option that raises a limit.
pub(super) fn option_of(limit: LimitKind) -> &'static str {
    match limit {
        LimitKind::WallTime => "--time",
        LimitKind::CpuTime => "--cpu-time",
        LimitKind::Memory => "--memory",
        LimitKind::Processes => "--pids",
        LimitKind::Threads => "--threads",
        LimitKind::OpenFiles => "--files",
        LimitKind::FileSize => "--file-size",
        LimitKind::TotalSize => "--total-size",
        LimitKind::Inodes => "--inodes",
        LimitKind::Output => "--output-bytes",
    }
}

/// A directory as the kernel knows it: absolute, without links.
fn real_directory(path: &Path) -> Result<PathBuf, Failure> {
    let real = path.canonicalize().map_err(|error| unusable(path, &error))?;
    if !real.is_dir() {
        return Err(unusable(path, &"it is no directory"));
    }
    if real.to_str().is_none() {
        return Err(unusable(path, &"its name is not UTF-8"));
    }
    Ok(real)
}

fn unusable(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    let message = format!("the directory {} cannot be used: {why}", path.display());
    Failure::validation("DIRECTORY_UNUSABLE", message).hint("name a directory that exists")
}

fn milliseconds(text: &str) -> Result<u64, Failure> {
    let seconds: Option<f64> = text.parse().ok();
    // As a whole number of milliseconds it is at least one and far below what 64 bits hold.
    seconds
        .filter(|seconds| *seconds > 0.0 && *seconds <= MOST_SECONDS)
        .map(|seconds| (seconds * 1000.0).ceil() as u64)
        .ok_or_else(|| {
            let message = format!("`{text}` is not a number of seconds");
            Failure::validation("SECONDS_INVALID", message)
                .hint("write seconds above 0, such as 10 or 0.5, up to 31 days")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_fractions() {
        assert_eq!(milliseconds("10"), Ok(10_000));
        assert_eq!(milliseconds("0.25"), Ok(250));
        assert_eq!(milliseconds("0.0000001"), Ok(1));
        for bad in ["", "0", "-1", "NaN", "inf", "1e99", "1s"] {
            assert_eq!(milliseconds(bad).unwrap_err().code, "SECONDS_INVALID", "{bad}");
        }
    }
}
