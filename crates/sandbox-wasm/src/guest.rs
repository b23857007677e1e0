//! Everything that one guest holds: its WASI context and its limits.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use countersign_model::Failure;
use countersign_sandbox::{Plan, SetupOp};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::limiter::Limiter;
use crate::scratch::Scratch;
use crate::streams::Output;

/// The data of one store. Modules and components share it.
pub(crate) struct Guest {
    pub(crate) wasi: WasiP1Ctx,
    pub(crate) limiter: Limiter,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi.ctx()
    }
}

/// What the guest is given, besides directories.
pub(crate) struct Streams {
    pub(crate) input: Vec<u8>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
}

impl Guest {
    /// Applies the plan: nothing that it does not name is there.
    pub(crate) fn new(
        plan: &Plan,
        streams: Streams,
        scratch: Option<&Scratch>,
    ) -> Result<Self, Failure> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.stdin(MemoryInputPipe::new(streams.input))
            .stdout(streams.stdout)
            .stderr(streams.stderr)
            .args(&plan.command)
            .initial_cwd(&plan.directory)
            // Seeds of hash tables are fixed, as everywhere; randomness for secrets is not.
            .insecure_random_seed(0)
            .allow_ip_name_lookup(false)
            .allow_tcp(false)
            .allow_udp(false);
        for (name, value) in &plan.environment {
            wasi.env(name, value);
        }
        let mut memory = plan.limits.memory;
        for op in &plan.sandbox {
            match op {
                SetupOp::Memory { bytes } => memory = *bytes,
                SetupOp::Fuel { .. } | SetupOp::ScratchFiles { .. } => {}
                SetupOp::Bind { source, target } => {
                    preopen(&mut wasi, Path::new(source), target, FsPerms::ReadOnly)?;
                }
                SetupOp::Writable { name, target } | SetupOp::Copy { name, target, .. } => {
                    let path = scratch_path(scratch, name).ok_or_else(|| misplaced(op))?;
                    preopen(&mut wasi, &path, target, FsPerms::ReadWrite)?;
                }
                _ => return Err(misplaced(op)),
            }
        }
        let mut wasi = wasi.build_p1();
        let open_files = usize::try_from(plan.limits.open_files).unwrap_or(usize::MAX);
        wasi.ctx().table.set_max_capacity(open_files);
        Ok(Guest { wasi, limiter: Limiter::new(memory) })
    }
}

/// By descriptor: what the path led to when the call began.
fn scratch_path(scratch: Option<&Scratch>, name: &str) -> Option<PathBuf> {
    let scratch = scratch?;
    let directory = match name {
        "out" => &scratch.out,
        "tmp" => &scratch.tmp,
        "workspace" => scratch.workspace.as_ref()?,
        _ => return None,
    };
    Some(PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())))
}

fn preopen(
    wasi: &mut WasiCtxBuilder,
    path: &Path,
    target: &str,
    access: FsPerms,
) -> Result<(), Failure> {
    // A directory that others made may hold a pipe, and opening one could wait forever: only in
    // our own do names resolve on this thread. Everything else that could wait never does.
    let ours = access == FsPerms::ReadWrite;
    let opened = wasi.allow_blocking_current_thread(ours).preopened_dir(path, target, access);
    let opened = opened.map(|wasi| wasi.allow_blocking_current_thread(false));
    opened.map(drop).map_err(|error| {
        let message = format!("the directory shown as {target} cannot be opened: {error}");
        Failure::resource("DIRECTORY_UNAVAILABLE", message)
    })
}

fn misplaced(op: &SetupOp) -> Failure {
    Failure::state("PLAN_INVALID", format!("a WebAssembly guest has no use for `{op}`"))
}
