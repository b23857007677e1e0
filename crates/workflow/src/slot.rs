//! A run that this process knows at the moment: what is in memory of it, and what is done for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_flow::{Work, WorkKey};
use countersign_host::Cancel;

use crate::live::Live;

/// The first pause after something could not be recorded, and the longest.
const SHORT: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(30);

/// Whoever holds the lock of `live` decides the next step.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) live: Mutex<Option<Live>>,
    /// What is being done for it, and how that is stopped.
    at_work: Mutex<BTreeMap<WorkKey, Cancel>>,
    /// How often in a row it could not go on.
    failures: AtomicU32,
}

/// Something to do that nobody does yet.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) cancel: Cancel,
}

impl Slot {
    /// What has to be begun of what a step wants. What it does not want any more is stopped. Only
    /// for whoever decides the step: in another order the wrong things would be stopped.
    pub(crate) fn take_on(&self, wanted: Vec<Work>) -> Vec<Job> {
        self.keep(&wanted);
        let mut at_work = self.at_work();
        let mut begin = |work: Work| {
            let cancel = Cancel::default();
            if let Some(key) = work.key() {
                if at_work.contains_key(key) {
                    return None;
                }
                at_work.insert(key.clone(), cancel.clone());
            }
            Some(Job { work, cancel })
        };
        // What waits for a moment is the alarm's.
        let now = wanted.into_iter().filter(|one| !matches!(one, Work::Delay { .. }));
        now.filter_map(&mut begin).collect()
    }

    /// Stops what is not wanted any more.
    pub(crate) fn keep(&self, wanted: &[Work]) {
        let wanted: BTreeSet<_> = wanted.iter().filter_map(Work::key).collect();
        let at_work = self.at_work();
        let unwanted = at_work.iter().filter(|(key, _)| !wanted.contains(key));
        unwanted.for_each(|(_, cancel)| cancel.cancel());
    }

    pub(crate) fn finish(&self, key: &WorkKey) {
        self.at_work().remove(key);
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.at_work().is_empty()
    }

    /// How long to wait after one failure more.
    pub(crate) fn pause(&self) -> Duration {
        let before = self.failures.fetch_add(1, Ordering::Relaxed);
        SHORT.saturating_mul(1 << before.min(10)).min(LONG)
    }

    pub(crate) fn goes_on(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    fn at_work(&self) -> MutexGuard<'_, BTreeMap<WorkKey, Cancel>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(node: &str) -> Work {
        let key = WorkKey { node: node.to_owned(), round: 1, attempt: 0, step: 0 };
        Work::Secret { key, secret: String::new() }
    }

    #[test]
    fn work_is_begun_once_and_stopped_when_it_is_not_wanted() {
        let slot = Slot::default();
        let begun = slot.take_on(vec![secret("a"), secret("b")]);
        assert_eq!(begun.len(), 2);
        assert!(slot.take_on(vec![secret("a"), secret("b")]).is_empty());
        let more = slot.take_on(vec![secret("b"), secret("c")]);
        assert_eq!(more.len(), 1);
        let stopped: Vec<_> = begun.iter().map(|job| job.cancel.is_cancelled()).collect();
        assert_eq!(stopped, [true, false]);
        begun.iter().chain(&more).filter_map(|job| job.work.key()).for_each(|key| slot.finish(key));
        assert!(!slot.is_busy());
    }

    #[test]
    fn pauses_grow_until_it_goes_on() {
        let slot = Slot::default();
        let pauses: Vec<_> = (0..9).map(|_| slot.pause().as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        slot.goes_on();
        assert_eq!(slot.pause(), SHORT);
    }
}
