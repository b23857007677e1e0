//! What other processes do: runs that they advance, answers that people give elsewhere, and runs
//! that they leave when they die.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_host::Host;
use countersign_journal::RunFilter;
use countersign_model::event::Fact;
use countersign_model::{Failure, HostId, RunId};

use crate::engine::{Engine, Reach};
use crate::feed::Growth;
use crate::live::Live;
use crate::trouble::Trouble;

/// How often others are looked at.
const PULSE: Duration = Duration::from_millis(250);

/// How many pulses pass between two looks for processes that died.
const SELDOM: u32 = 8;

#[derive(Debug)]
pub(crate) struct Watch {
    inside: Mutex<Inside>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    /// Everything before it was looked at.
    seen: u64,
    /// Entries beyond that are ours: from, to.
    own: BTreeMap<u64, u64>,
    /// Processes that hold runs.
    others: HashSet<HostId>,
    is_closed: bool,
}

impl Watch {
    pub(crate) fn new(host: &Host) -> Result<Self, Failure> {
        let seen = host.home().store.head()?.size;
        Ok(Watch {
            inside: Mutex::new(Inside { seen, ..Inside::default() }),
            closed: Condvar::new(),
        })
    }

    /// What this process appended itself needs no look.
    pub(crate) fn own(&self, entries: Range<u64>) {
        self.locked().own.insert(entries.start, entries.end);
    }

    pub(crate) fn close(&self) {
        self.locked().is_closed = true;
        self.closed.notify_all();
    }

    /// Whether to go on after a while.
    fn sleep(&self) -> bool {
        let waited = self.closed.wait_timeout_while(self.locked(), PULSE, |i| !i.is_closed);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_closed
    }

    /// Ranges of others up to `size`, which count as seen from now on.
    fn foreign(&self, size: u64) -> Vec<Range<u64>> {
        let mut inside = self.locked();
        let mut found = Vec::new();
        while inside.seen < size {
            let at = inside.seen;
            let next = inside.own.range(..=at).next_back().map(|(from, to)| (*from, *to));
            if let Some((from, to)) = next.filter(|(_, to)| *to > at) {
                inside.own.remove(&from);
                inside.seen = to;
                continue;
            }
            let until = inside.own.range(at..).next().map_or(size, |(from, _)| *from).min(size);
            found.push(at..until);
            inside.seen = until;
        }
        inside.own.retain(|_, to| *to > size);
        found
    }

    fn locked(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    pub(crate) fn watch_others(&self) {
        let mut pulses = 0_u32;
        while self.0.watch.sleep() {
            pulses = pulses.wrapping_add(1);
            if let Err(trouble) = self.look(pulses.is_multiple_of(SELDOM)) {
                tracing::warn!(%trouble, "what other processes do could not be looked at");
            }
        }
    }

    fn look(&self, thoroughly: bool) -> Result<(), Trouble> {
        let size = self.0.host.home().store.head()?.size;
        let mut grown = HashSet::new();
        let mut answered = false;
        for range in self.0.watch.foreign(size) {
            self.0.host.home().store.visit(range, &mut |stored| {
                match stored.entry.fact {
                    Fact::Run(fact) => drop(grown.insert(fact.run)),
                    Fact::Call(_) => answered = true,
                    _ => {}
                }
                Ok(())
            })?;
        }
        grown.iter().for_each(|run| self.refresh(run));
        if answered {
            self.follow_waiting()?;
        }
        if thoroughly && self.someone_died()? {
            self.take_over()?;
        }
        Ok(())
    }

    /// Another process advanced a run: what is in memory of it is old, and who listens is told.
    fn refresh(&self, run: &RunId) {
        if let Some(slot) = self.known(run) {
            *slot.live.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        let Ok(Some(summary)) = self.summary(run) else { return };
        let ended = summary.ended_at.is_some();
        self.0.feed.tell(run, Growth { events: summary.events, ended });
        if let Some(parent) = summary.parent.filter(|parent| ended && self.is_ours(parent)) {
            self.wake(&parent);
        }
        if !ended && self.is_ours(run) && !self.is_with_another(summary.holder) {
            self.wake(run);
        }
    }

    /// Whether this engine is to look after a run at all.
    fn is_ours(&self, run: &RunId) -> bool {
        self.reach() == Reach::Home || self.known(run).is_some()
    }

    /// Whether another process that lives advances a run. Its end is waited for.
    fn is_with_another(&self, holder: Option<HostId>) -> bool {
        let host = &self.0.host;
        let Some(holder) = holder.filter(|holder| host.identity().ok() != Some(*holder)) else {
            return false;
        };
        let lives = host.is_alive(holder).unwrap_or(true);
        if lives {
            self.0.watch.locked().others.insert(holder);
        }
        lives
    }

    /// Runs that wait for an approval of a call, which may have been given to the call.
    fn follow_waiting(&self) -> Result<(), Trouble> {
        let status = Some("waiting-approval".to_owned());
        let filter = RunFilter { open: true, status, ..RunFilter::default() };
        for summary in self.list(&filter)? {
            if !self.is_ours(&summary.run) {
                continue;
            }
            let host = &self.0.host;
            if let Some(live) = Live::load(host, &self.0.library, &summary.run)? {
                self.follow_approvals(&live);
            }
        }
        Ok(())
    }

    fn someone_died(&self) -> Result<bool, Trouble> {
        let others: Vec<_> = self.0.watch.locked().others.iter().copied().collect();
        for host in others {
            if !self.0.host.is_alive(host)? {
                self.0.watch.locked().others.remove(&host);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes up every run whose process is gone. What waits for a moment or an answer is not even
    /// read before that comes.
    pub(crate) fn take_over(&self) -> Result<(), Failure> {
        let filter = RunFilter { open: true, ..RunFilter::default() };
        let mut left = Vec::new();
        self.0.host.home().store.visit_runs(&filter, &mut |run| {
            left.push((run.run, run.holder, run.status, run.wake_at));
            Ok(())
        })?;
        for (run, holder, status, wake_at) in left {
            if !self.is_ours(&run) || self.is_with_another(holder) {
                continue;
            }
            match status.as_str() {
                "pending" | "running" => self.wake(&run),
                _ => self.0.alarm.set(&run, wake_at),
            }
        }
        // Answers may have been given while nobody was there to take them up.
        self.follow_waiting().map_err(|trouble| match trouble {
            Trouble::Failure(failure) => failure,
            other => Failure::state("INTERNAL", other.to_string()),
        })
    }

    /// Takes up one run and those that it waits for, unless a process that lives has them.
    pub fn take_up(&self, run: &RunId) -> Result<(), Trouble> {
        let mut left = vec![run.clone()];
        while let Some(run) = left.pop() {
            let Some(live) = Live::load(&self.0.host, &self.0.library, &run)? else {
                return Err(Trouble::NoRun);
            };
            // From now on it is one of ours.
            drop(self.slot(&run));
            self.follow_approvals(&live);
            if live.summary.ended_at.is_none() && !self.is_with_another(live.summary.holder) {
                self.wake(&run);
            }
            let filter = RunFilter { parent: Some(run), open: true, ..RunFilter::default() };
            left.extend(self.list(&filter)?.into_iter().map(|child| child.run));
        }
        Ok(())
    }
}
