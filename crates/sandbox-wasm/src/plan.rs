//! From what a call wants to a plan. Pure, the module's digest and the engine's words apart.

use std::collections::BTreeMap;
use std::path::Path;

use countersign_model::{Digest, Failure, WorkspaceAccess};
use countersign_sandbox::plan::Network;
use countersign_sandbox::{Plan, SetupOp, Spec, cannot_hide, program_environment};

/// Refuses what no guest can have, rather than leave it out.
pub(crate) fn check(spec: &Spec) -> Result<&Path, Failure> {
    let Some(module) = &spec.module else {
        return Err(Failure::validation("MODULE_MISSING", "there is no module to run"));
    };
    if spec.isolation != 2 {
        let message = format!("modules run at isolation level 2, not {}", spec.isolation);
        return Err(Failure::validation("ISOLATION_UNSUPPORTED", message));
    }
    if !spec.hidden.is_empty() {
        return Err(cannot_hide());
    }
    if !spec.hosts.is_empty() {
        let message = "a WebAssembly tool has no network";
        let hint = "declare it with `kind: process` to reach hosts through the egress proxy";
        return Err(Failure::validation("NETWORK_UNSUPPORTED", message).hint(hint));
    }
    let words = spec.command.iter().chain(spec.environment.keys()).chain(spec.environment.values());
    if words.into_iter().any(|word| word.contains('\0')) {
        let message = "arguments and environment hold no NUL characters";
        return Err(Failure::validation("COMMAND_INVALID", message));
    }
    Ok(module)
}

pub(crate) fn plan(spec: &Spec, module: &Path, digest: &Digest, memories: &str) -> Plan {
    let mut environment = program_environment();
    environment.extend(spec.environment.clone());
    let name = || module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = if spec.command.is_empty() { vec![name()] } else { spec.command.clone() };
    Plan {
        isolation: 2,
        command,
        directory: if spec.workspace.is_some() { "/workspace" } else { "/tmp" }.to_owned(),
        environment,
        limits: spec.limits,
        network: Network::None,
        launcher: vec![SetupOp::Module { source: text(module), digest: digest.to_string() }],
        sandbox: sandbox(spec),
        program: Vec::new(),
        enforcement: enforcement(spec, memories),
        weaker: Vec::new(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn sandbox(spec: &Spec) -> Vec<SetupOp> {
    let limits = spec.limits;
    let bind =
        |source: &Path, target: &str| SetupOp::Bind { source: text(source), target: target.into() };
    let writable = |name: &str| SetupOp::Writable { name: name.into(), target: format!("/{name}") };
    let mut ops = vec![SetupOp::Memory { bytes: limits.memory }];
    ops.extend(spec.fuel.map(|amount| SetupOp::Fuel { amount }));
    ops.push(SetupOp::ScratchFiles {
        bytes: limits.total_size,
        inodes: limits.inodes,
        file_size: limits.file_size,
    });
    ops.push(writable("tmp"));
    ops.push(writable("out"));
    ops.extend(spec.tool.iter().map(|path| bind(path, "/tool")));
    ops.extend(spec.inputs.iter().map(|path| bind(path, "/in")));
    ops.extend(spec.workspace.iter().map(|(path, access)| match access {
        WorkspaceAccess::Read => bind(path, "/workspace"),
        WorkspaceAccess::Write => SetupOp::Copy {
            source: text(path),
            name: "workspace".into(),
            target: "/workspace".into(),
            writable: true,
        },
    }));
    ops
}

/// How each limit is kept, in words for the call's record.
fn enforcement(spec: &Spec, memories: &str) -> BTreeMap<String, String> {
    let cpu = match spec.fuel {
        Some(_) => "fuel counted by the compiled code, thread time sampled",
        None => "thread time sampled",
    };
    let list = [
        ("code", "compiled from validated WebAssembly, in the host's process".to_owned()),
        ("cpuTime", cpu.to_owned()),
        ("filesystem", "named directories only, paths resolved beneath them".to_owned()),
        ("memory", format!("counted before it is given, {memories}")),
        ("network", "no sockets".to_owned()),
        ("staging", "copies on disk, sampled while it runs and counted at the end".to_owned()),
        ("wallTime", "interrupted by a clock".to_owned()),
    ];
    list.into_iter().map(|(name, how)| (name.to_owned(), how)).collect()
}
