//! From what a call wants and what the machine can do to a plan. Pure.

use std::collections::BTreeMap;

use countersign_model::{Failure, WorkspaceAccess};

use crate::limits::Limits;
use crate::machine::{Barrier, Machine, RuntimePath, Strength};
use crate::plan::{Namespace, Network, Plan, Rlimit, SetupOp};
use crate::spec::Spec;

/// Who the program is inside of its box.
const IDENTITY: u32 = 1000;
const PROXY_PORT: u16 = 3128;
const ROOM_FOR_STACKS: u64 = 1 << 30;
const HOSTNAME: &str = "sandbox";
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];

/// Places where the box's own mounts go; they exist in every root.
const PLACES: [&str; 8] =
    ["/dev", "/dev/shm", "/in", "/out", "/proc", "/tmp", "/tool", "/workspace"];

/// Makes a plan, or says what this machine lacks for it.
pub fn compile(spec: &Spec, machine: &Machine) -> Result<Plan, Failure> {
    check_command(spec)?;
    if !spec.hidden.is_empty() && machine.overlay.is_err() {
        return Err(cannot_hide());
    }
    let barriers = machine.barriers(spec.isolation);
    let weaker = accept_missing(&barriers, spec)?;
    let network = match spec.hosts.as_slice() {
        [] => Network::None,
        hosts => Network::Proxy { hosts: hosts.to_vec() },
    };
    Ok(Plan {
        isolation: spec.isolation,
        command: spec.command.clone(),
        directory: directory(spec),
        environment: environment(spec, &network),
        limits: spec.limits,
        launcher: launcher(spec, machine, &network),
        sandbox: sandbox(spec, machine, &network),
        program: program(spec, machine, &network),
        enforcement: barriers.into_iter().filter_map(enforced).collect(),
        network,
        weaker,
    })
}

fn check_command(spec: &Spec) -> Result<(), Failure> {
    let empty = spec.command.first().is_none_or(String::is_empty);
    if empty || spec.command.iter().any(|part| part.contains('\0')) {
        let message = "the command must name a program, and hold no NUL characters";
        return Err(Failure::validation("COMMAND_INVALID", message));
    }
    if spec.isolation != 2 {
        let message = format!("programs run at isolation level 2, not {}", spec.isolation);
        return Err(Failure::validation("ISOLATION_UNSUPPORTED", message));
    }
    Ok(())
}

/// What is hidden must be neither copied nor taken for removed.
pub fn cannot_hide() -> Failure {
    let message = "a part of the workspace must stay hidden, and only overlays can do that";
    Failure::resource("CANNOT_ENFORCE", message)
        .hint("keep the home outside of the workspace, and name it with --home")
}

fn enforced(barrier: Barrier) -> Option<(String, String)> {
    match barrier.strength {
        Strength::Enforced(how) => Some((barrier.name.to_owned(), how)),
        Strength::Missing { .. } => None,
    }
}

/// Fails closed: what is missing stops the call, unless the declaration says that it may be.
fn accept_missing(barriers: &[Barrier], spec: &Spec) -> Result<Vec<String>, Failure> {
    let mut weaker = Vec::new();
    for Barrier { name, strength } in barriers {
        let Strength::Missing { why, fix } = strength else { continue };
        let accepted = *name != "namespaces" && spec.may_be_weaker.iter().any(|may| may == name);
        if !accepted {
            let message = format!("this machine cannot enforce `{name}`: {why}");
            return Err(Failure::resource("CANNOT_ENFORCE", message).hint(fix.clone()));
        }
        weaker.push((*name).to_owned());
    }
    Ok(weaker)
}

/// A minimal environment: fixed locale, time zone and hash seed, and what the declaration sets.
pub fn program_environment() -> BTreeMap<String, String> {
    let fixed = [
        ("HOME", "/tmp"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONHASHSEED", "0"),
        ("TMPDIR", "/tmp"),
        ("TZ", "UTC"),
    ];
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn environment(spec: &Spec, network: &Network) -> BTreeMap<String, String> {
    let mut environment = program_environment();
    if let Network::Proxy { .. } = network {
        let http = format!("http://127.0.0.1:{PROXY_PORT}");
        let socks = format!("socks5h://127.0.0.1:{PROXY_PORT}");
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"] {
            environment.insert(name.to_owned(), http.clone());
        }
        for name in ["ALL_PROXY", "all_proxy"] {
            environment.insert(name.to_owned(), socks.clone());
        }
    }
    environment.extend(spec.environment.clone());
    environment
}

fn directory(spec: &Spec) -> String {
    if let (Some(_), Some(beneath)) = (&spec.workspace, &spec.directory) {
        return format!("/workspace/{beneath}");
    }
    text(match (&spec.workspace, &spec.inputs) {
        (Some(_), _) => "/workspace",
        (None, Some(_)) => "/in",
        (None, None) => "/tmp",
    })
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Namespaces before mounts: nothing is ever mounted on the host.
fn launcher(spec: &Spec, machine: &Machine, network: &Network) -> Vec<SetupOp> {
    let mut ops = vec![
        SetupOp::Namespaces { list: vec![Namespace::User, Namespace::Mount, Namespace::Net] },
        // Not 0: the kernel asks more of whoever hands on that one.
        SetupOp::Identity { user: IDENTITY, group: IDENTITY },
    ];
    if let Network::Proxy { .. } = network {
        ops.push(SetupOp::Listen { port: PROXY_PORT });
    }
    ops.push(SetupOp::Root);
    ops.extend(machine.runtime.iter().map(runtime_path));
    for path in &spec.read_only {
        let path = path.to_string_lossy().into_owned();
        ops.push(SetupOp::Bind { source: path.clone(), target: path });
    }
    ops.extend(PLACES.iter().map(|path| SetupOp::Directory { path: text(path) }));
    ops.extend(DEVICES.iter().map(|name| SetupOp::Device { name: text(name) }));
    ops.extend(small_files());
    ops.push(SetupOp::SealRoot);
    ops
}

fn runtime_path(path: &RuntimePath) -> SetupOp {
    match &path.link {
        Some(target) => SetupOp::Link { path: path.path.clone(), target: target.clone() },
        None => SetupOp::Bind { source: path.path.clone(), target: path.path.clone() },
    }
}

/// What programs look up about users and names, and how devices are called by convention.
fn small_files() -> Vec<SetupOp> {
    let file = |path: &str, content: String| SetupOp::File { path: text(path), content };
    let link = |path: &str, target: &str| SetupOp::Link { path: text(path), target: text(target) };
    vec![
        file("/etc/passwd", format!("tool:x:{IDENTITY}:{IDENTITY}::/tmp:/bin/sh\n")),
        file("/etc/group", format!("tool:x:{IDENTITY}:\n")),
        file("/etc/hosts", format!("127.0.0.1 localhost {HOSTNAME}\n")),
        file("/etc/nsswitch.conf", text("passwd: files\ngroup: files\nhosts: files\n")),
        link("/dev/fd", "/proc/self/fd"),
        link("/dev/stdin", "/proc/self/fd/0"),
        link("/dev/stdout", "/proc/self/fd/1"),
        link("/dev/stderr", "/proc/self/fd/2"),
    ]
}

fn sandbox(spec: &Spec, machine: &Machine, _network: &Network) -> Vec<SetupOp> {
    use Namespace::{Cgroup, Ipc, Mount, Pid, Uts};
    let Limits { total_size, inodes, .. } = spec.limits;
    let writable =
        |name: &str, target: &str| SetupOp::Writable { name: text(name), target: text(target) };
    let mut ops = vec![
        SetupOp::Namespaces { list: vec![Mount, Pid, Ipc, Uts, Cgroup] },
        SetupOp::Hostname { name: text(HOSTNAME) },
        SetupOp::Scratch { bytes: total_size, inodes },
        writable("tmp", "/tmp"),
        writable("shm", "/dev/shm"),
        writable("out", "/out"),
    ];
    // Through an overlay where there are overlays: sockets in them lead nowhere then, and the program
    // cannot learn where they really are.
    let shown = [("tool", &spec.tool), ("in", &spec.inputs)];
    for (name, path) in shown.iter().filter_map(|(name, path)| Some((*name, path.as_ref()?))) {
        let target = format!("/{name}");
        let source = path.to_string_lossy().into_owned();
        ops.push(match machine.overlay {
            Ok(()) => SetupOp::Overlay { source, name: text(name), target, writable: false },
            Err(_) => SetupOp::Bind { source, target },
        });
    }
    if let Some((path, access)) = &spec.workspace {
        let source = path.to_string_lossy().into_owned();
        let (name, target) = (text("workspace"), text("/workspace"));
        let writable = *access == WorkspaceAccess::Write;
        ops.push(match machine.overlay {
            Ok(()) => SetupOp::Overlay { source, name, target, writable },
            Err(_) => SetupOp::Copy { source, name, target, writable },
        });
    }
    ops.extend(
        spec.hidden.iter().map(|path| SetupOp::Hide { target: format!("/workspace/{path}") }),
    );
    ops.push(SetupOp::Proc);
    ops.push(SetupOp::EnterRoot);
    ops
}

/// No new privileges, then no capabilities, and the filter last: it forbids what came before it. Only
/// the limit on open files comes later: the streams arrive through descriptors above it.
fn program(spec: &Spec, machine: &Machine, network: &Network) -> Vec<SetupOp> {
    let mut ops = vec![
        SetupOp::Namespaces { list: vec![Namespace::User] },
        SetupOp::Identity { user: IDENTITY, group: IDENTITY },
        SetupOp::Session,
        SetupOp::OomFirst,
        SetupOp::Priority,
    ];
    ops.extend(rlimits(&spec.limits, machine));
    ops.push(SetupOp::WorkingDirectory { path: directory(spec) });
    ops.push(SetupOp::CloseDescriptors);
    ops.push(SetupOp::NoNewPrivileges);
    ops.push(SetupOp::DropCapabilities);
    if machine.landlock > 0 {
        let mut write = vec![text("/dev"), text("/dev/shm"), text("/out"), text("/tmp")];
        if let Some((_, WorkspaceAccess::Write)) = spec.workspace {
            write.push(text("/workspace"));
        }
        ops.push(SetupOp::Landlock { abi: machine.landlock, write });
    }
    if machine.seccomp {
        let sockets = match network {
            Network::None => "no network",
            Network::Proxy { .. } => "tcp",
        };
        // Memory that nobody maps is invisible to rlimits and sampling.
        let memory = if machine.cgroup.has("memory") { "" } else { ", no hidden memory" };
        ops.push(SetupOp::Seccomp { profile: format!("{sockets}{memory}") });
    }
    ops.push(SetupOp::Streams);
    // One more, so that crossing the limit can be seen and named.
    let open_files = u64::from(spec.limits.open_files) + 1;
    ops.push(SetupOp::Limit { resource: Rlimit::OpenFiles, value: open_files });
    ops
}

fn rlimits(limits: &Limits, machine: &Machine) -> Vec<SetupOp> {
    let limit = |resource, value| SetupOp::Limit { resource, value };
    let mut ops = vec![
        limit(Rlimit::CpuSeconds, limits.cpu_ms.div_ceil(1000)),
        limit(Rlimit::FileSize, limits.file_size),
        // 1, not 0: the kernel hands no core to a program outside then, either.
        limit(Rlimit::CoreSize, 1),
        limit(Rlimit::MessageQueues, 0),
        limit(Rlimit::LockedMemory, 64 << 10),
    ];
    if !machine.cgroup.has("memory") {
        // Stacks of threads count here before they are used, so this is only the backstop; what is
        // really used is sampled.
        ops.push(limit(Rlimit::Data, limits.memory.saturating_add(ROOM_FOR_STACKS)));
    }
    if !machine.cgroup.has("pids") {
        // The kernel does not tell of forks that it refuses. With some room above the limit, crossing
        // it can be seen and named.
        let threads = u64::from(limits.threads);
        ops.push(limit(Rlimit::Processes, threads + threads / 2 + 8));
    }
    ops
}
