//! The host's side: asks launchers for boxes, feeds and watches programs, and says how they ended.

mod cgroup;
mod drive;
mod group_directory;
mod launcher;
mod nursery;
mod pool;
mod streams;
mod verdict;

use std::path::PathBuf;
use std::sync::OnceLock;

use countersign_model::Failure;
use countersign_sandbox::{Backend, Ended, Job, Machine, Observer, Plan, Spec, compile};

use self::cgroup::Layout;
pub(crate) use self::pool::Pool;
use crate::detect;

/// How to start a launcher: this program again, with arguments that make it call
/// [`launcher_main`](crate::launcher_main).
#[derive(Debug, Clone)]
pub struct LauncherCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

/// Programs in Linux namespaces. Nothing is tried or made before it is first needed.
#[derive(Debug)]
pub struct LinuxSandbox {
    command: LauncherCommand,
    machine: OnceLock<Machine>,
    pool: OnceLock<Pool>,
}

impl LinuxSandbox {
    pub fn new(command: LauncherCommand) -> Self {
        LinuxSandbox { command, machine: OnceLock::new(), pool: OnceLock::new() }
    }

    /// What this computer can enforce.
    pub fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| detect::machine(self.pool()))
    }

    /// Removes what a host that was killed could not remove itself. The first call does it anyway.
    pub fn clean_leftovers(&self) -> usize {
        self.pool().cgroups.remove_leftovers()
    }

    fn pool(&self) -> &Pool {
        self.pool.get_or_init(|| {
            let cgroups = Layout::detect();
            cgroups.remove_leftovers();
            Pool::new(self.command.clone(), cgroups)
        })
    }
}

impl Backend for LinuxSandbox {
    fn name(&self) -> &'static str {
        "countersign-linux"
    }

    fn plan(&self, spec: &Spec) -> Result<Plan, Failure> {
        let plan = compile(spec, self.machine())?;
        launcher::check_length(&plan)?;
        Ok(plan)
    }

    fn run(&self, job: Job, observer: &mut dyn Observer) -> Result<Ended, Failure> {
        let pool = self.pool();
        let ready = pool.take(&job.plan)?;
        let ended = drive::run(ready, &job, observer, pool);
        pool.refill(&job.plan, job.warm);
        ended
    }
}
