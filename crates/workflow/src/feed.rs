//! Who wants to know when a run grows.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use countersign_flow::{Definition, RunEvent, Seed};
use countersign_model::{RunId, RunSummary};

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// How many events there are.
    pub events: u64,
    pub ended: bool,
}

/// What a run recorded at once.
#[derive(Debug, Clone, Copy)]
pub struct Grown<'g> {
    pub summary: &'g RunSummary,
    pub definition: &'g Arc<Definition>,
    /// What it was begun with. Of a run that another process advances only at its end.
    pub seed: Option<&'g Seed>,
    pub events: &'g [Arc<RunEvent>],
}

/// Whoever wants to know of all runs of the home, also of those that other processes advance. Told
/// of each event once, in the order of the run, while others wait: it may not take long.
pub trait Observer: fmt::Debug + Send + Sync {
    fn grew(&self, grown: Grown<'_>);
    /// Somebody changed a document of this kind.
    fn changed(&self, space: &str);
}

type Listener = Box<dyn Fn(Growth) + Send + Sync>;
type Listeners = HashMap<RunId, HashMap<u64, Arc<Listener>>>;

#[derive(Default)]
pub(crate) struct Feed {
    listeners: Mutex<Listeners>,
    next: AtomicU64,
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Feed")
    }
}

/// Ends with its drop.
#[derive(Debug)]
pub struct Subscription {
    feed: Weak<Feed>,
    run: RunId,
    number: u64,
}

impl Feed {
    pub(crate) fn listen(
        self: &Arc<Self>,
        run: &RunId,
        listener: impl Fn(Growth) + Send + Sync + 'static,
    ) -> Subscription {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let listener: Arc<Listener> = Arc::new(Box::new(listener));
        self.locked().entry(run.clone()).or_default().insert(number, listener);
        Subscription { feed: Arc::downgrade(self), run: run.clone(), number }
    }

    /// Told outside of the lock: a listener may be slow, and may subscribe in turn.
    pub(crate) fn tell(&self, run: &RunId, growth: Growth) {
        let told: Vec<_> =
            self.locked().get(run).into_iter().flat_map(HashMap::values).cloned().collect();
        told.iter().for_each(|listener| listener(growth));
    }

    pub(crate) fn has(&self, run: &RunId) -> bool {
        self.locked().contains_key(run)
    }

    fn locked(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Some(feed) = self.feed.upgrade() else { return };
        let mut listeners = feed.locked();
        if let Some(of_run) = listeners.get_mut(&self.run) {
            of_run.remove(&self.number);
            if of_run.is_empty() {
                listeners.remove(&self.run);
            }
        }
    }
}
