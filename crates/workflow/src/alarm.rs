//! When runs are due: one thread that sleeps until the next of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_model::{RunId, Timestamp};

#[derive(Debug, Default)]
struct Inside {
    due: BTreeSet<(Timestamp, RunId)>,
    by_run: HashMap<RunId, Timestamp>,
    closed: bool,
}

impl Inside {
    fn put(&mut self, run: &RunId, at: Option<Timestamp>) {
        if let Some(before) = self.by_run.remove(run) {
            self.due.remove(&(before, run.clone()));
        }
        let Some(at) = at else { return };
        self.by_run.insert(run.clone(), at);
        self.due.insert((at, run.clone()));
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Alarm(Arc<(Mutex<Inside>, Condvar)>);

impl Alarm {
    /// A run has one time at which it is due: the earliest that is known.
    pub(crate) fn set(&self, run: &RunId, at: Option<Timestamp>) {
        self.locked().put(run, at);
        self.0.1.notify_one();
    }

    /// Is due at that moment at the latest.
    pub(crate) fn sooner(&self, run: &RunId, at: Timestamp) {
        let mut inside = self.locked();
        let before = inside.by_run.get(run).copied();
        inside.put(run, Some(before.map_or(at, |before| before.min(at))));
        self.0.1.notify_one();
    }

    #[cfg(test)]
    pub(crate) fn of(&self, run: &RunId) -> Option<Timestamp> {
        self.locked().by_run.get(run).copied()
    }

    pub(crate) fn close(&self) {
        self.locked().closed = true;
        self.0.1.notify_all();
    }

    /// Tells runs that are due until it is closed.
    pub(crate) fn watch(&self, now: impl Fn() -> Timestamp, tell: impl Fn(RunId)) {
        let mut inside = self.locked();
        while !inside.closed {
            let next = inside.due.first().map(|(at, _)| *at);
            let wait = next.map_or(Duration::from_secs(60), |at| {
                Duration::from_millis(u64::try_from(at.millis_since(now())).unwrap_or(0))
            });
            if wait.is_zero() {
                if let Some((_, run)) = inside.due.pop_first() {
                    inside.by_run.remove(&run);
                    drop(inside);
                    tell(run);
                    inside = self.locked();
                }
                continue;
            }
            let waited = self.0.1.wait_timeout(inside, wait);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn locked(&self) -> MutexGuard<'_, Inside> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
