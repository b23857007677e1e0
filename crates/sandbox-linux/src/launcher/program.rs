//! The process that becomes the program: gives up everything, in order, and executes it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;

use countersign_sandbox::plan::{Rlimit, SetupOp};
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use libc::sock_filter;
use rustix::process::{
    DumpableBehavior, Pid, Resource, getrlimit, set_dumpable_behavior, setrlimit, setsid,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Identity, map_identity, namespace_flags};
use crate::protocol::{Prepare, SetupFailure};
use crate::{seccomp, sys};

/// Everything that the program's process needs, made beforehand: it shares our memory, so what it
/// allocated itself would stay behind.
#[derive(Debug)]
pub(super) struct Program {
    executable: sys::Executable,
    steps: Vec<Step>,
    clone_flags: libc::c_int,
}

/// A set-up operation with all that it takes at hand.
#[derive(Debug)]
struct Step {
    name: String,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Identity { user: u32, group: u32 },
    Session,
    OomFirst,
    Priority,
    Limit(Resource, rustix::process::Rlimit),
    Directory(String),
    CloseDescriptors,
    NoNewPrivileges,
    DropCapabilities,
    Landlock(OwnedFd),
    Seccomp(Vec<sock_filter>),
    Streams,
}

impl Program {
    pub(super) fn compile(prepare: &Prepare) -> Result<Self, SetupFailure> {
        let mut steps = Vec::new();
        let mut clone_flags = 0;
        for op in &prepare.program {
            if let SetupOp::Namespaces { list } = op {
                clone_flags |= namespace_flags(list);
                continue;
            }
            let action = action(op).map_err(|error| super::failed(op, &error))?;
            steps.push(Step { name: op.to_string(), action });
        }
        let strings = |list: &[String]| list.iter().map(|text| c_string(text)).collect();
        let (arguments, environment): (Result<_, _>, Result<_, _>) =
            (strings(&prepare.command), strings(&prepare.environment));
        let path = c_string(&find(prepare)?)?;
        let executable = sys::Executable::new(path, arguments?, environment?);
        Ok(Program { executable, steps, clone_flags })
    }

    /// Starts the program once `gate` opens and hands out its three streams, or says why it could not
    /// be started.
    pub(super) fn start(&self, gate: &mut Gate<'_>) -> Result<Pid, SetupFailure> {
        let outside = Identity::current();
        let mut problem = None;
        let child = sys::run_in_child(self.clone_flags, &mut || {
            problem = Some(self.become_it(gate, outside));
            127
        });
        match (child, problem) {
            (_, Some(failure)) => Err(failure),
            (Ok(child), None) => Ok(child),
            (Err(error), None) => Err(failure("start a process", &error)),
        }
    }

    /// Returns only to say why it is not the program now.
    fn become_it(&self, gate: &mut Gate<'_>, outside: Identity) -> SetupFailure {
        if let Err(failure) = self.give_up_everything(gate, outside) {
            return failure;
        }
        let error = self.executable.execute();
        command_failure(&self.executable, &error)
    }

    fn give_up_everything(
        &self,
        gate: &mut Gate<'_>,
        outside: Identity,
    ) -> Result<(), SetupFailure> {
        sys::reset_signals().map_err(|error| failure("reset signals", &error))?;
        // While nothing of the program runs yet, our own files in /proc must be ours to write.
        set_dumpable_behavior(DumpableBehavior::Dumpable)
            .map_err(|error| failure("open /proc/self", &error.into()))?;
        self.steps.iter().try_for_each(|step| {
            step.action.take(gate, outside).map_err(|error| failure(&step.name, &error))
        })
    }
}

/// Waits until the program may start; then hands out its standard streams.
type Gate<'g> = dyn FnMut() -> io::Result<[OwnedFd; 3]> + 'g;

impl Action {
    fn take(&self, gate: &mut Gate<'_>, outside: Identity) -> io::Result<()> {
        match self {
            Action::Identity { user, group } => map_identity(outside, *user, *group),
            Action::Session => Ok(setsid().map(|_| ())?),
            Action::OomFirst => std::fs::write("/proc/self/oom_score_adj", "1000"),
            Action::Priority => no_more_urgent_than_others(),
            Action::Limit(resource, limit) => Ok(setrlimit(*resource, *limit)?),
            Action::Directory(path) => Ok(rustix::process::chdir(path)?),
            Action::CloseDescriptors => sys::close_on_execute(3),
            Action::NoNewPrivileges => no_new_privileges(),
            Action::DropCapabilities => drop_all_capabilities(),
            Action::Landlock(ruleset) => sys::landlock_restrict_self(ruleset.as_fd()),
            Action::Seccomp(filter) => sys::install_filter(filter),
            Action::Streams => connect(&gate()?),
        }
    }
}

fn action(op: &SetupOp) -> io::Result<Action> {
    Ok(match op {
        SetupOp::Identity { user, group } => Action::Identity { user: *user, group: *group },
        SetupOp::Session => Action::Session,
        SetupOp::OomFirst => Action::OomFirst,
        SetupOp::Priority => Action::Priority,
        SetupOp::Limit { resource, value } => {
            let (resource, limit) = rlimit(*resource, *value);
            Action::Limit(resource, limit)
        }
        SetupOp::WorkingDirectory { path } => Action::Directory(path.clone()),
        SetupOp::CloseDescriptors => Action::CloseDescriptors,
        SetupOp::NoNewPrivileges => Action::NoNewPrivileges,
        SetupOp::DropCapabilities => Action::DropCapabilities,
        SetupOp::Landlock { write, .. } => Action::Landlock(ruleset(write)?),
        SetupOp::Seccomp { profile } => Action::Seccomp(seccomp::filter(profile)),
        SetupOp::Streams => Action::Streams,
        op => return Err(io::Error::other(format!("this is no step of the program: {op}"))),
    })
}

fn connect([stdin, stdout, stderr]: &[OwnedFd; 3]) -> io::Result<()> {
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    Ok(rustix::stdio::dup2_stderr(stderr)?)
}

/// A host may run ahead of others; what it runs may not.
fn no_more_urgent_than_others() -> io::Result<()> {
    let ours = rustix::process::getpriority_process(None)?;
    Ok(rustix::process::setpriority_process(None, ours.max(0))?)
}

/// The last step before foreign code: from here on nobody may look into our memory.
fn no_new_privileges() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Also those that could come back with another program.
fn drop_all_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // One that this kernel does not know cannot be held.
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    drop_capabilities()
}

pub(super) fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// A soft limit on processor time comes one second before the hard one, so that the program is told
/// which limit it was. No limit is ever raised above what we have ourselves.
fn rlimit(resource: Rlimit, value: u64) -> (Resource, rustix::process::Rlimit) {
    let (resource, slack) = match resource {
        Rlimit::CpuSeconds => (Resource::Cpu, 1),
        Rlimit::Data => (Resource::Data, 0),
        Rlimit::FileSize => (Resource::Fsize, 0),
        Rlimit::OpenFiles => (Resource::Nofile, 0),
        Rlimit::Processes => (Resource::Nproc, 0),
        Rlimit::CoreSize => (Resource::Core, 0),
        Rlimit::MessageQueues => (Resource::Msgqueue, 0),
        Rlimit::LockedMemory => (Resource::Memlock, 0),
    };
    let ours = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let limit = rustix::process::Rlimit {
        current: Some(value.min(ours)),
        maximum: Some(value.saturating_add(slack).min(ours)),
    };
    (resource, limit)
}

/// Read and execute anywhere in the private root, write only beneath `write`. A kernel that knows
/// less enforces less, and the plan says which version it speaks.
fn ruleset(write: &[String]) -> io::Result<OwnedFd> {
    let all = AccessFs::from_all(ABI::V6);
    let mut rules = vec![beneath("/", AccessFs::from_read(ABI::V6))?];
    for path in write {
        rules.push(beneath(path, writable(path, all))?);
    }
    let build = || -> Result<Option<OwnedFd>, RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::AbstractUnixSocket | Scope::Signal)?
            .create()?;
        Ok(ruleset.add_rules(rules.into_iter().map(Ok::<_, RulesetError>))?.into())
    };
    let ruleset = build().map_err(io::Error::other)?;
    ruleset.ok_or_else(|| io::Error::other("the kernel made no ruleset"))
}

fn beneath(path: &str, access: BitFlags<AccessFs>) -> io::Result<PathBeneath<PathFd>> {
    Ok(PathBeneath::new(PathFd::new(path).map_err(io::Error::other)?, access))
}

/// Devices are written to, but nothing is made beside them.
fn writable(path: &str, all: BitFlags<AccessFs>) -> BitFlags<AccessFs> {
    match path {
        "/dev" => AccessFs::WriteFile | AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::IoctlDev,
        _ => all & !AccessFs::MakeChar & !AccessFs::MakeBlock,
    }
}

/// The program as a path, searched for as a shell would.
fn find(prepare: &Prepare) -> Result<String, SetupFailure> {
    let name = prepare.command.first().map_or("", String::as_str);
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    let path = prepare.environment.iter().find_map(|entry| entry.strip_prefix("PATH="));
    let mut candidates = path.unwrap_or_default().split(':').map(|place| format!("{place}/{name}"));
    candidates.find(|file| is_executable(file)).ok_or_else(|| SetupFailure {
        step: format!("find the program `{name}`"),
        error: "there is no such program in the sandbox".to_owned(),
        is_command: true,
    })
}

fn is_executable(file: &str) -> bool {
    std::fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn c_string(text: &str) -> Result<CString, SetupFailure> {
    CString::new(text).map_err(|error| failure("read the command", &error.into()))
}

fn failure(step: &str, error: &io::Error) -> SetupFailure {
    SetupFailure { step: step.to_owned(), error: error.to_string(), is_command: false }
}

fn command_failure(program: &sys::Executable, error: &io::Error) -> SetupFailure {
    let step = format!("start the program `{}`", program.name());
    SetupFailure { step, error: why_not(program.path(), error), is_command: true }
}

/// What the kernel means, in words: it has the same few numbers for everything.
fn why_not(path: &CString, error: &io::Error) -> String {
    let file = std::fs::metadata(path.to_string_lossy().as_ref());
    let why = match (error.raw_os_error(), file) {
        (Some(libc::ENOENT), Err(_)) => "there is no such program in the sandbox",
        (Some(libc::ENOENT), Ok(_)) => "the interpreter that it asks for is not in the sandbox",
        (Some(libc::EACCES), Ok(file)) if file.is_dir() => "it is a directory",
        (Some(libc::EACCES), Ok(_)) => "it is not executable",
        (Some(libc::ENOEXEC), _) => "it is neither a program nor a script that begins with `#!`",
        (Some(libc::E2BIG), _) => "its arguments and its environment are too long",
        _ => return error.to_string(),
    };
    why.to_owned()
}
