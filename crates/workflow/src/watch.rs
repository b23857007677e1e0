//! What other processes do: runs that they advance, answers that people give elsewhere, and runs
//! that they leave when they die.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use countersign_flow::{RunEvent, advance};
use countersign_host::Host;
use countersign_journal::{Appended, RunFilter};
use countersign_model::event::Fact;
use countersign_model::{ExecutionId, Failure, HostId, RunId};
use serde_json::Value;

use crate::engine::{Engine, Reach};
use crate::feed::{Grown, Growth, Observer};
use crate::live::{Live, seed};
use crate::slot::Slot;
use crate::trouble::Trouble;

/// How often others are looked at.
const PULSE: Duration = Duration::from_millis(250);

/// How many pulses pass between two looks for processes that died.
const SELDOM: u32 = 8;

/// The status of a run that waits for people to approve something.
const WAITS: &str = "waiting-approval";

#[derive(Debug)]
pub(crate) struct Watch {
    inside: Mutex<Inside>,
    closed: Condvar,
    /// An append of this process has come to its end.
    landed: Condvar,
}

#[derive(Debug, Default)]
struct Inside {
    /// Everything before it was looked at.
    seen: u64,
    /// Entries beyond that are ours: from, to.
    own: BTreeMap<u64, u64>,
    /// Appends of this process that are on their way: the journal may show them already.
    flying: BTreeSet<u64>,
    /// How many appends there were.
    flights: u64,
    /// Calls that runs wait for people to approve.
    awaited: HashMap<RunId, Vec<ExecutionId>>,
    /// Calls of which something was seen that their runs have not been told.
    heard: HashSet<ExecutionId>,
    /// Processes that hold runs.
    others: HashSet<HostId>,
    is_closed: bool,
}

/// One append of this process.
struct Flight<'w> {
    watch: &'w Watch,
    number: u64,
    entries: Option<Range<u64>>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut inside = self.watch.locked();
        inside.flying.remove(&self.number);
        if let Some(entries) = self.entries.take() {
            inside.own.insert(entries.start, entries.end);
        }
        self.watch.landed.notify_all();
    }
}

impl Watch {
    pub(crate) fn new(host: &Host) -> Result<Self, Failure> {
        Ok(Watch::from(host.home().store.head()?.size))
    }

    fn from(seen: u64) -> Self {
        let inside = Mutex::new(Inside { seen, ..Inside::default() });
        Watch { inside, closed: Condvar::new(), landed: Condvar::new() }
    }

    /// Appends something of this process, which needs no look. The journal shows it before its place
    /// is known here, so it is announced beforehand.
    pub(crate) fn own<E>(
        &self,
        append: impl FnOnce() -> Result<Appended, E>,
    ) -> Result<Appended, E> {
        let mut flight = self.take_off();
        let appended = append()?;
        flight.entries = Some(appended.entries.clone());
        Ok(appended)
    }

    fn take_off(&self) -> Flight<'_> {
        let mut inside = self.locked();
        inside.flights = inside.flights.wrapping_add(1);
        let number = inside.flights;
        inside.flying.insert(number);
        Flight { watch: self, number, entries: None }
    }

    /// Waits until the place is known of everything that this process has begun to append.
    fn settle(&self) {
        let inside = self.locked();
        let last = inside.flights;
        let flies = |inside: &mut Inside| inside.flying.first().is_some_and(|first| *first <= last);
        drop(self.landed.wait_while(inside, flies));
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

    /// Ranges of others up to `size` that were not looked at.
    fn foreign(&self, size: u64) -> Vec<Range<u64>> {
        let inside = self.locked();
        let (mut at, mut found) = (inside.seen, Vec::new());
        while at < size {
            let own = inside.own.range(..=at).next_back().map(|(_, to)| *to);
            if let Some(to) = own.filter(|to| *to > at) {
                at = to;
                continue;
            }
            let until = inside.own.range(at..).next().map_or(size, |(from, _)| *from).min(size);
            found.push(at..until);
            at = until;
        }
        found
    }

    /// Everything up to `size` was looked at, and something was seen of these calls.
    fn pass(&self, size: u64, calls: &HashSet<ExecutionId>) {
        let mut inside = self.locked();
        inside.seen = inside.seen.max(size);
        inside.own.retain(|_, to| *to > size);
        let awaited = inside.awaited.values().flatten().copied();
        let awaited: HashSet<_> = awaited.filter(|call| calls.contains(call)).collect();
        inside.heard.extend(awaited);
    }

    /// Which calls a run waits for from now on. Says whether there are new ones among them.
    pub(crate) fn await_calls(&self, run: &RunId, calls: &[ExecutionId]) -> bool {
        let mut inside = self.locked();
        let before = match calls.is_empty() {
            true => inside.awaited.remove(run),
            false => inside.awaited.insert(run.clone(), calls.to_vec()),
        };
        let before = before.unwrap_or_default();
        calls.iter().any(|call| !before.contains(call))
    }

    /// Runs that wait for a call of which something was seen.
    fn due(&self) -> Vec<RunId> {
        let inside = self.locked();
        let heard = |calls: &[ExecutionId]| calls.iter().any(|call| inside.heard.contains(call));
        let due = inside.awaited.iter().filter(|(_, calls)| heard(calls));
        due.map(|(run, _)| run.clone()).collect()
    }

    fn followed(&self) {
        self.locked().heard.clear();
    }

    fn locked(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What others did.
#[derive(Default)]
struct Seen {
    grown: HashSet<RunId>,
    news: Vec<(RunId, Vec<Value>)>,
    /// Kinds of documents that were changed.
    spaces: HashSet<String>,
    calls: HashSet<ExecutionId>,
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

    pub(crate) fn look(&self, thoroughly: bool) -> Result<(), Trouble> {
        let size = self.0.host.home().store.head()?.size;
        self.0.watch.settle();
        let Seen { grown, news, spaces, calls } = self.read(self.0.watch.foreign(size))?;
        self.0.watch.pass(size, &calls);
        grown.iter().for_each(|run| self.refresh(run));
        self.tell_observer(news, &spaces);
        for run in self.0.watch.due() {
            self.follow(&run)?;
        }
        self.0.watch.followed();
        if thoroughly && self.someone_died()? {
            self.take_over()?;
        }
        Ok(())
    }

    fn read(&self, ranges: Vec<Range<u64>>) -> Result<Seen, Trouble> {
        let observed = self.0.settings.observer.is_some();
        let mut seen = Seen::default();
        for range in ranges {
            self.0.host.home().store.visit(range, &mut |stored| {
                match stored.entry.fact {
                    Fact::Run(fact) => {
                        seen.grown.insert(fact.run.clone());
                        seen.news.extend(observed.then_some((fact.run, fact.events)));
                    }
                    Fact::Record(fact) => drop(seen.spaces.insert(fact.space)),
                    Fact::Call(fact) => drop(seen.calls.insert(fact.execution)),
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(seen)
    }

    fn tell_observer(&self, news: Vec<(RunId, Vec<Value>)>, spaces: &HashSet<String>) {
        let Some(observer) = &self.0.settings.observer else { return };
        spaces.iter().for_each(|space| observer.changed(space));
        for (run, events) in news {
            if let Err(trouble) = self.tell_of(&**observer, &run, events) {
                tracing::warn!(%run, %trouble, "what a run of another process did was not told");
            }
        }
    }

    fn tell_of(
        &self,
        observer: &dyn Observer,
        run: &RunId,
        events: Vec<Value>,
    ) -> Result<(), Trouble> {
        let Some(summary) = self.summary(run)? else { return Ok(()) };
        let host = &self.0.host;
        let definition = self.0.library.pinned_as(&summary.definition, &host.home().blobs)?;
        let read = |value| serde_json::from_value::<RunEvent>(value).ok().map(Arc::new);
        let events: Vec<_> = events.into_iter().filter_map(read).collect();
        let ended = events.last().is_some_and(|event| event.event.is_terminal());
        let seed = ended.then(|| seed(host, &summary)).transpose()?;
        let (summary, definition) = (&summary, &definition);
        observer.grew(Grown { summary, definition, seed: seed.as_ref(), events: &events });
        Ok(())
    }

    /// Another process advanced a run: what is in memory of it is old, and who listens is told.
    fn refresh(&self, run: &RunId) {
        if let Some(slot) = self.known(run) {
            let mut held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
            *held = None;
            self.stop_unwanted(run, &slot);
        }
        let Ok(Some(summary)) = self.summary(run) else { return };
        let ended = summary.ended_at.is_some();
        self.0.feed.tell(run, Growth { events: summary.events, ended });
        if let Some(parent) = summary.parent.filter(|parent| ended && self.is_ours(parent)) {
            self.wake(&parent);
        }
        self.refresh_awaited(run, &summary.status);
        if !ended && self.is_ours(run) && !self.is_with_another(summary.holder) {
            self.wake(run);
        }
    }

    /// What is done here for a run may not be wanted any more. For whoever holds the run.
    fn stop_unwanted(&self, run: &RunId, slot: &Slot) {
        if !slot.is_busy() {
            return;
        }
        match Live::load(&self.0.host, &self.0.library, run) {
            Ok(Some(live)) => {
                let context = self.context();
                let wanted = advance(&live.definition, &live.seed, &live.state, &context).work;
                slot.keep(&wanted);
            }
            Ok(None) => {}
            Err(failure) => tracing::warn!(%run, %failure, "a run could not be read"),
        }
    }

    /// Calls that a run of another process waits for are followed here too.
    fn refresh_awaited(&self, run: &RunId, status: &str) {
        let waits = status == WAITS && self.is_ours(run);
        if !waits {
            self.0.watch.await_calls(run, &[]);
        } else if let Err(trouble) = self.follow(run) {
            tracing::warn!(%run, %trouble, "a run that waits could not be read");
        }
    }

    /// Whether this engine is to look after a run at all.
    fn is_ours(&self, run: &RunId) -> bool {
        self.reach() == Reach::Home || self.known(run).is_some()
    }

    /// Whether another process that lives advances a run. Its end is waited for.
    fn is_with_another(&self, holder: Option<HostId>) -> bool {
        let host = &self.0.host;
        let other = holder.filter(|holder| host.identity().ok() != Some(*holder));
        let other = other.filter(|_| self.is_held(holder));
        self.0.watch.locked().others.extend(other);
        other.is_some()
    }

    /// Whether the process that a run is with lives, be it this one or another.
    pub(crate) fn is_held(&self, holder: Option<HostId>) -> bool {
        let host = &self.0.host;
        holder.is_some_and(|holder| {
            host.identity().ok() == Some(holder) || host.is_alive(holder).unwrap_or(true)
        })
    }

    /// Runs that wait for an approval of a call, which may have been given to the call.
    fn follow_waiting(&self) -> Result<(), Trouble> {
        let status = Some(WAITS.to_owned());
        let filter = RunFilter { open: true, status, ..RunFilter::default() };
        for summary in self.list(&filter)? {
            if self.is_ours(&summary.run) {
                self.follow(&summary.run)?;
            }
        }
        Ok(())
    }

    /// Takes up what was said about calls that a run waits for, and watches them from now on.
    pub(crate) fn follow(&self, run: &RunId) -> Result<(), Trouble> {
        let Some(live) = Live::load(&self.0.host, &self.0.library, run)? else { return Ok(()) };
        self.await_approvals(&live);
        self.follow_approvals(&live);
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
            self.await_approvals(&live);
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use countersign_model::Digest;

    fn appended(entries: Range<u64>) -> Result<Appended, ()> {
        Ok(Appended { entries, hash: Digest::ZERO, checkpoint: String::new() })
    }

    #[test]
    fn what_could_not_be_read_is_looked_at_again() {
        let watch = Watch::from(2);
        watch.own(|| appended(3..5)).unwrap();
        assert_eq!(watch.foreign(7), [2..3, 5..7]);
        assert_eq!(watch.foreign(7), [2..3, 5..7], "nobody has said that it was read");
        watch.own(|| appended(7..8)).unwrap();
        watch.pass(7, &HashSet::new());
        assert_eq!(watch.foreign(9).first(), Some(&(8..9)));
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let watch = Watch::from(0);
        let flight = watch.take_off();
        std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                watch.settle();
                watch.foreign(1)
            });
            let mut flight = flight;
            flight.entries = Some(0..1);
            drop(flight);
            assert_eq!(looks.join().unwrap(), []);
        });
        // One that failed is not waited for.
        assert!(watch.own(|| Err::<Appended, ()>(())).is_err());
        watch.settle();
    }

    #[test]
    fn only_runs_that_wait_for_a_call_are_read_because_of_it() {
        let watch = Watch::from(0);
        let call = |number: u8| -> ExecutionId {
            format!("00000000-0000-7000-8000-00000000000{number}").parse().unwrap()
        };
        let (one, two): (RunId, RunId) = ("run-1".parse().unwrap(), "run-2".parse().unwrap());
        assert!(watch.await_calls(&one, &[call(1)]));
        assert!(watch.await_calls(&two, &[call(2)]));
        assert!(!watch.await_calls(&two, &[call(2)]), "it is known");
        watch.pass(1, &HashSet::from([call(3)]));
        assert_eq!(watch.due(), []);
        watch.pass(2, &HashSet::from([call(2), call(3)]));
        assert_eq!(watch.due(), *std::slice::from_ref(&two));
        assert_eq!(watch.due(), *std::slice::from_ref(&two), "until it was followed");
        watch.followed();
        assert_eq!(watch.due(), []);
        assert!(!watch.await_calls(&two, &[]));
        watch.pass(3, &HashSet::from([call(2)]));
        assert_eq!(watch.due(), []);
    }
}
