//! Launchers that wait for work, and boxes made ready ahead. Every box is used once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use countersign_model::Failure;
use countersign_sandbox::{Plan, SetupOp};

use super::LauncherCommand;
use super::cgroup::Layout;
use super::launcher::{Launcher, Ready};

/// More launchers than this are not kept: each holds a few megabytes.
const KEPT: usize = 16;
/// The same for boxes that are ready, for all plans together.
const KEPT_WARM: usize = 32;

#[derive(Debug)]
pub(crate) struct Pool {
    command: LauncherCommand,
    pub(crate) cgroups: Layout,
    idle: Arc<Mutex<Vec<Launcher>>>,
    warm: Arc<Mutex<Vec<Warm>>>,
    maker: Mutex<Option<Refilling>>,
}

/// The thread that makes boxes ready ahead.
#[derive(Debug)]
struct Refilling {
    orders: Sender<Order>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

/// A box that waits, the plan that it was made for, and the directories that it shows.
type Warm = (Arc<Plan>, Marks, Ready);

/// Directories by their identity: a name may lead elsewhere by the time that the box is used.
type Marks = Vec<Option<(u64, u64)>>;

fn marks(plan: &Plan) -> Marks {
    let sources = plan.sandbox.iter().filter_map(|op| match op {
        SetupOp::Overlay { source, .. } | SetupOp::Bind { source, .. } => Some(source),
        _ => None,
    });
    let identity = |source: &String| {
        let stat = rustix::fs::stat(source.as_str()).ok()?;
        Some((stat.st_dev, stat.st_ino))
    };
    sources.map(identity).collect()
}

/// A copy made ahead shows what was, not what is.
fn can_be_warm(plan: &Plan) -> bool {
    !plan.sandbox.iter().any(|op| matches!(op, SetupOp::Copy { .. }))
}

impl Pool {
    pub(crate) fn new(command: LauncherCommand, cgroups: Layout) -> Self {
        Pool {
            command,
            cgroups,
            idle: Arc::default(),
            warm: Arc::default(),
            maker: Mutex::default(),
        }
    }

    /// A box for this plan: one that is ready, or a new one.
    pub(crate) fn take(&self, plan: &Arc<Plan>) -> Result<Ready, Failure> {
        if let Some(ready) = self.take_warm(plan) {
            return Ok(ready);
        }
        if let Some(launcher) = take_matching(&self.idle, plan)
            && let Ok(ready) = launcher.prepare(plan)
        {
            return Ok(ready);
        }
        Launcher::start(&self.command, &self.cgroups, &plan.launcher)?.prepare(plan)
    }

    fn take_warm(&self, plan: &Arc<Plan>) -> Option<Ready> {
        loop {
            let mut warm = lock(&self.warm);
            let found = warm.iter().position(|(made_for, ..)| same(made_for, plan))?;
            let (_, seen, ready) = warm.remove(found);
            drop(warm);
            if seen == marks(plan) && ready.is_waiting() {
                return Some(ready);
            }
        }
    }

    /// Ends a box whose program never started, and keeps its launcher. Asked, not killed: the box
    /// shares its launcher's memory, and must leave that in order.
    pub(crate) fn let_go(&self, ready: Ready) {
        ready.terminate();
        let mut launcher = ready.launcher;
        launcher.is_draining = true;
        self.give_back(launcher);
    }

    pub(crate) fn give_back(&self, launcher: Launcher) {
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT && !launcher.is_worn() {
            idle.push(launcher);
        }
    }

    /// Has boxes made ready for the next calls, aside.
    pub(crate) fn refill(&self, plan: &Arc<Plan>, count: u32) {
        if count == 0 || !can_be_warm(plan) {
            return;
        }
        let mut maker = lock(&self.maker);
        if maker.is_none() {
            // Without the thread there are no warm boxes: slower, and nothing else.
            *maker = self.start_refilling().ok();
        }
        if let Some(refilling) = &*maker {
            let _ = refilling.orders.send((Arc::clone(plan), count));
        }
    }

    fn start_refilling(&self) -> std::io::Result<Refilling> {
        let (sender, orders) = mpsc::channel::<Order>();
        let is_over = Arc::new(AtomicBool::new(false));
        let maker = Maker {
            command: self.command.clone(),
            cgroups: self.cgroups.clone(),
            idle: Arc::clone(&self.idle),
            warm: Arc::clone(&self.warm),
            is_over: Arc::clone(&is_over),
        };
        let thread = thread::Builder::new().name("sandbox-warm".to_owned());
        let thread = thread.spawn(move || {
            while let Ok((plan, count)) = orders.recv() {
                while maker.make_one(&plan, count) {}
            }
        })?;
        Ok(Refilling { orders: sender, is_over, thread })
    }
}

impl Drop for Pool {
    /// A thread that is cut off in the middle of making a box would leave its control group behind.
    fn drop(&mut self) {
        if let Some(Refilling { orders, is_over, thread }) = lock(&self.maker).take() {
            is_over.store(true, Ordering::Release);
            drop(orders);
            let _ = thread.join();
        }
    }
}

/// A plan, and how many boxes of it to keep ready.
type Order = (Arc<Plan>, u32);

/// Makes boxes ready on a thread of its own. It ends with the pool.
#[derive(Debug)]
struct Maker {
    command: LauncherCommand,
    cgroups: Layout,
    idle: Arc<Mutex<Vec<Launcher>>>,
    warm: Arc<Mutex<Vec<Warm>>>,
    is_over: Arc<AtomicBool>,
}

impl Maker {
    /// `false` if there are enough, or if no more can be made.
    fn make_one(&self, plan: &Arc<Plan>, count: u32) -> bool {
        let is_it = |(made_for, ..): &&Warm| same(made_for, plan);
        let are_enough = || lock(&self.warm).iter().filter(is_it).count() >= count as usize;
        if self.is_over.load(Ordering::Acquire) || are_enough() {
            return false;
        }
        let launcher = match take_matching(&self.idle, plan) {
            Some(launcher) => Ok(launcher),
            None => Launcher::start(&self.command, &self.cgroups, &plan.launcher),
        };
        let seen = marks(plan);
        let Ok(ready) = launcher.and_then(|launcher| launcher.prepare(plan)) else { return false };
        let mut warm = lock(&self.warm);
        warm.push((Arc::clone(plan), seen, ready));
        // Those that waited longest are the least likely to be asked for.
        let oldest = (warm.len() > KEPT_WARM).then(|| warm.remove(0));
        drop(warm);
        oldest.is_none()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn same(one: &Arc<Plan>, other: &Arc<Plan>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

fn take_matching(idle: &Mutex<Vec<Launcher>>, plan: &Plan) -> Option<Launcher> {
    let mut idle = lock(idle);
    let found = idle.iter().position(|launcher| launcher.ops == plan.launcher)?;
    Some(idle.swap_remove(found))
}
