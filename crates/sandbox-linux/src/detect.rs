//! What this machine can do, found out by doing it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_model::WorkspaceAccess;
use countersign_sandbox::machine::RuntimePath;
use countersign_sandbox::{Machine, Spec, compile};

use crate::host::Pool;
use crate::sys;

/// What programs need to run, where a system has it.
const RUNTIME: [&str; 22] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/mime.types",
    "/etc/services",
    "/etc/protocols",
    "/etc/python3",
];

const INTERPRETERS: [&str; 9] =
    ["bash", "deno", "go", "java", "node", "perl", "python3", "ruby", "sh"];
const PATH: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

pub(crate) fn machine(pool: &Pool) -> Machine {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut machine = Machine {
        kernel: kernel.trim().to_owned(),
        user: rustix::process::geteuid().as_raw(),
        namespaces: Ok(()),
        overlay: Ok(()),
        landlock: sys::landlock_version(),
        seccomp: can_filter(),
        cgroup: pool.cgroups.facts(),
        swap: swap_in_use(),
        kvm: fs::File::options().read(true).write(true).open("/dev/kvm").is_ok(),
        runtime: RUNTIME.iter().filter_map(|path| runtime_path(path)).collect(),
        interpreters: interpreters(),
    };
    // Usually both work, and one box proves it.
    machine.overlay = try_box(pool, &machine, true);
    if machine.overlay.is_err() {
        machine.namespaces = try_box(pool, &machine, false);
    }
    machine
}

/// Makes a real box and lets go of it before its program starts.
fn try_box(pool: &Pool, machine: &Machine, overlay: bool) -> Result<(), String> {
    let mut spec = Spec::of(vec!["/bin/sh".to_owned()]);
    // Whatever else may be missing is not the question here.
    spec.may_be_weaker = ["memory", "processes", "landlock", "seccomp"].map(str::to_owned).into();
    spec.workspace = overlay.then(|| (PathBuf::from("/usr"), WorkspaceAccess::Write));
    let plan = compile(&spec, machine).map_err(|failure| failure.message)?;
    pool.take(&Arc::new(plan)).map(|ready| pool.let_go(ready)).map_err(|failure| failure.message)
}

fn can_filter() -> bool {
    let known = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let is_known_architecture = cfg!(any(target_arch = "x86_64", target_arch = "aarch64"));
    let is_supported = known.is_ok_and(|actions| actions.contains("errno"))
        || status.lines().any(|line| line.starts_with("Seccomp:"));
    is_known_architecture && is_supported
}

fn swap_in_use() -> bool {
    fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() > 1)
}

/// Links stay links, so that `/bin` is where programs expect it.
fn runtime_path(path: &str) -> Option<RuntimePath> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let link = metadata.is_symlink().then(|| fs::read_link(path).ok()).flatten();
    let link = link.map(|target| target.to_string_lossy().into_owned());
    Some(RuntimePath { path: path.to_owned(), link })
}

fn interpreters() -> BTreeMap<String, PathBuf> {
    let find =
        |name: &str| PATH.iter().map(|place| Path::new(place).join(name)).find(|p| p.exists());
    INTERPRETERS.iter().filter_map(|name| Some(((*name).to_owned(), find(name)?))).collect()
}
