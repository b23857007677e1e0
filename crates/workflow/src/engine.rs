//! The engine: one step of a run at a time, recorded before anything follows from it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use countersign_flow::event::RunError;
use countersign_flow::{
    Answer, Command, Context, Limits, NewEvent, Offers, Replay, RunEvent, RunState, Work, advance,
    command, deadline, seal,
};
use countersign_host::Host;
use countersign_journal::{
    AppendError, Appended, Batch, Conflict, Expect, JournalError, Reply, RunFilter,
};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Failure, RunFact, RunId, RunSummary, Timestamp};
use serde_json::json;

use crate::alarm::Alarm;
use crate::feed::{Feed, Growth, Subscription};
use crate::library::Library;
use crate::live::{Live, View, events};
use crate::perform::WorkName;
use crate::pool::Pool;
use crate::redact::redact;
use crate::trouble::Trouble;
use crate::watch::Watch;

/// Which runs an engine advances.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// All runs of the home, also those that other processes leave.
    #[default]
    Home,
    /// Those that it begins or is asked for.
    Own,
    /// None: it records what people want, and leaves the work to others.
    Nothing,
}

/// What a host offers and bounds.
#[derive(Debug, Clone)]
pub struct Settings {
    pub reach: Reach,
    pub offers: Offers,
    pub limits: Limits,
    /// How many calls and other long things are at work at a time.
    pub workers: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            reach: Reach::Home,
            offers: Offers::default(),
            limits: Limits::default(),
            workers: 8,
        }
    }
}

/// A run that this process knows at the moment. Whoever holds the lock decides its next step.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) live: Mutex<Option<Live>>,
    /// What is being done for it.
    pub(crate) at_work: Mutex<BTreeSet<WorkName>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) host: Arc<Host>,
    pub(crate) library: Library,
    pub(crate) settings: Settings,
    pub(crate) pool: Pool,
    pub(crate) alarm: Alarm,
    pub(crate) feed: Arc<Feed>,
    pub(crate) watch: Watch,
    slots: Mutex<HashMap<RunId, Arc<Slot>>>,
}

/// Runs of one home, advanced by this process. Cheap to clone; ends with [`Engine::close`].
#[derive(Debug, Clone)]
pub struct Engine(pub(crate) Arc<Inner>);

/// What a step is made of before it is recorded.
pub(crate) struct Step {
    pub(crate) events: Vec<NewEvent>,
    pub(crate) seed: Option<(Payload, Vec<u8>)>,
    pub(crate) expect: Vec<Expect>,
    pub(crate) reply: Option<Reply>,
    /// Recorded as they are: what a fork copies.
    pub(crate) history: Vec<RunEvent>,
}

impl Step {
    pub(crate) fn of(events: Vec<NewEvent>) -> Self {
        Step { events, seed: None, expect: Vec::new(), reply: None, history: Vec::new() }
    }
}

/// How many runs are kept in memory while nothing happens to them.
const MOST_IDLE: usize = 4096;

/// A step that others overtake is decided again, so often.
const MOST_TRIES: u32 = 100;

impl Engine {
    /// Takes up what processes that are gone have left, as far as it reaches, and watches what
    /// others do.
    pub fn start(host: Arc<Host>, library: Library, settings: Settings) -> Result<Self, Failure> {
        if settings.reach != Reach::Nothing {
            host.identity()?;
        }
        let inner = Inner {
            pool: Pool::new(settings.workers),
            watch: Watch::new(&host)?,
            host,
            library,
            settings,
            alarm: Alarm::default(),
            feed: Arc::default(),
            slots: Mutex::default(),
        };
        let engine = Engine(Arc::new(inner));
        if engine.reach() == Reach::Nothing {
            return Ok(engine);
        }
        engine.spawn("runs due", |engine| {
            let host = Arc::clone(&engine.0.host);
            let alarm = engine.0.alarm.clone();
            alarm.watch(|| host.clock().now(), |run| engine.wake(&run));
        })?;
        engine.spawn("runs of others", Engine::watch_others)?;
        if engine.reach() == Reach::Home {
            engine.take_over()?;
        }
        Ok(engine)
    }

    pub(crate) fn reach(&self) -> Reach {
        self.0.settings.reach
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Engine) + Send + 'static,
    ) -> Result<(), Failure> {
        let engine = self.clone();
        let thread = thread::Builder::new().name(name.to_owned());
        thread.spawn(move || work(&engine)).map(drop).map_err(|error| {
            Failure::resource("HOST_EXHAUSTED", format!("no thread could be started: {error}"))
        })
    }

    /// Begins nothing more, and waits for what is at work. Runs stay as they are recorded.
    pub fn close(&self, patience: Duration) -> bool {
        self.0.alarm.close();
        self.0.watch.close();
        self.0.pool.close(patience)
    }

    pub fn host(&self) -> &Arc<Host> {
        &self.0.host
    }

    pub fn library(&self) -> &Library {
        &self.0.library
    }

    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    pub(crate) fn context(&self) -> Context {
        Context { now: self.0.host.clock().now(), offers: self.0.settings.offers.clone() }
    }

    /// Asks for what a run is waiting to do; nothing if there is nothing to do.
    pub fn wake(&self, run: &RunId) {
        let (engine, run) = (self.clone(), run.clone());
        self.0.pool.run(move || match engine.step(&run, |_, _| Ok(Step::of(Vec::new()))) {
            Ok(()) | Err(Trouble::NoRun) => {}
            Err(trouble) => tracing::error!(%run, %trouble, "a run could not go on"),
        });
    }

    /// What people and clients want of a run.
    pub fn command(&self, run: &RunId, wanted: &Command) -> Result<Answer, Trouble> {
        let mut answer = Answer::default();
        let decided = self.step(run, |live, context| {
            let Live { definition, seed, state, .. } = live;
            match command(definition, seed, state, wanted.clone(), context) {
                Ok(given) => {
                    answer = Answer { events: Vec::new(), pending: given.pending };
                    Ok(Step::of(given.events))
                }
                // That somebody was turned away is recorded, and then they are.
                Err(countersign_flow::Refusal::Forbidden { why, events }) if !events.is_empty() => {
                    answer.events.clone_from(&events);
                    tracing::info!(%why, "an answer was refused");
                    Ok(Step::of(events))
                }
                Err(refusal) => Err(refusal.into()),
            }
        });
        decided?;
        match answer.events.is_empty() {
            true => Ok(answer),
            false => Err(countersign_flow::Refusal::Forbidden {
                why: "you may not answer this".to_owned(),
                events: Vec::new(),
            }
            .into()),
        }
    }

    /// Decides, records, and only then acts.
    pub(crate) fn step(
        &self,
        run: &RunId,
        mut decide: impl FnMut(&Live, &Context) -> Result<Step, Trouble>,
    ) -> Result<(), Trouble> {
        let slot = self.slot(run);
        let mut held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..MOST_TRIES {
            let live = match held.take() {
                Some(live) => live,
                None => match Live::load(&self.0.host, &self.0.library, run)? {
                    Some(live) => live,
                    None => {
                        self.forget(run);
                        return Err(Trouble::NoRun);
                    }
                },
            };
            let context = self.context();
            let decided = decide(&live, &context);
            let step = match decided {
                Ok(step) => step,
                Err(trouble) => {
                    *held = Some(live);
                    return Err(trouble);
                }
            };
            match self.record(live, step, &context) {
                Ok((live, work)) => {
                    let ended = live.state.end.is_some();
                    *held = Some(live);
                    drop(held);
                    self.act(run, &slot, work, ended);
                    return Ok(());
                }
                // Somebody else was faster: what was decided is void.
                Err(Trouble::Failure(failure)) if failure.code == OVERTAKEN => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Err(Failure::state("RUN_CONTENDED", format!("run `{run}` is changed by many at once"))
            .hint("try again")
            .into())
    }

    /// Records what was decided and everything that follows by itself.
    pub(crate) fn record(
        &self,
        live: Live,
        step: Step,
        context: &Context,
    ) -> Result<(Live, Vec<Work>), Trouble> {
        let Live { mut summary, definition, seed, mut state, mut events, mut replay } = live;
        let first = state.next;
        let mut new = step.history;
        new.iter().for_each(|event| drop(state.apply(event)));
        new.extend(sealed(&mut state, step.events, context.now)?);
        let mut decision = advance(&definition, &seed, &state, context);
        new.extend(sealed(&mut state, std::mem::take(&mut decision.events), context.now)?);
        // A replay goes the way of its source for as long as that is known.
        while let Some(next) = replay.as_ref().and_then(|r| r.step(&state, &decision.work)) {
            new.extend(sealed(&mut state, next, context.now)?);
            decision = advance(&definition, &seed, &state, context);
            new.extend(sealed(&mut state, std::mem::take(&mut decision.events), context.now)?);
        }
        let left = replay.as_mut().map_or_else(Vec::new, |replay| observed(replay, &new));
        if state.end.is_none() {
            new.extend(sealed(&mut state, left, context.now)?);
        }
        if let Some(fault) = &decision.fault {
            tracing::error!(run = %summary.run, %fault, "a rule decided what cannot be");
        }
        if new.is_empty() {
            let live = Live { summary, definition, seed, state, events, replay };
            return Ok((live, decision.work));
        }
        summary.events = state.next;
        summary.status = state.status().as_str().to_owned();
        summary.ended_at = state.ended_at;
        summary.updated_at = context.now;
        // Whoever only records leaves the run to whom it is with.
        if self.reach() != Reach::Nothing {
            summary.holder = Some(self.0.host.identity()?);
        }
        summary.wake_at = deadline(&definition, &seed, &state);
        let values = step.seed.iter().map(|(p, bytes)| (p.digest, bytes.clone())).collect();
        let fact = RunFact {
            events: new.iter().map(stored).collect::<Result<_, _>>()?,
            first,
            run: summary.run.clone(),
            seed: step.seed.map(|(payload, _)| payload),
        };
        let mut expect = step.expect;
        expect.push(Expect::RunAt { run: summary.run.clone(), events: first });
        let batch = Batch {
            facts: vec![(context.now, Fact::Run(fact))],
            expect,
            run: Some(summary.clone()),
            values,
            reply: step.reply,
            ..Batch::default()
        };
        self.append(&summary, batch)?;
        events.extend(new.into_iter().map(Arc::new));
        Ok((Live { summary, definition, seed, state, events, replay }, decision.work))
    }

    fn append(&self, summary: &RunSummary, batch: Batch) -> Result<Appended, Trouble> {
        let replies = batch.reply.is_some();
        match self.0.host.home().store.append(batch) {
            Ok(appended) => {
                self.0.watch.own(appended.entries.clone());
                Ok(appended)
            }
            Err(AppendError::Conflict(Conflict::Run(_))) => Err(overtaken(&summary.run).into()),
            Err(AppendError::Conflict(Conflict::Active(run))) => Err(Trouble::Active(run)),
            Err(AppendError::Journal(JournalError::Unrecordable(_))) if replies => {
                Err(Trouble::Answered)
            }
            Err(error) => Err(Trouble::Failure(error.into())),
        }
    }

    /// What follows from a step that was recorded.
    pub(crate) fn act(&self, run: &RunId, slot: &Arc<Slot>, work: Vec<Work>, ended: bool) {
        let (growth, parent, wake_at) = {
            let held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(live) = held.as_ref() else { return };
            let parent = live.seed.parent.as_ref().map(|parent| parent.run_id.clone());
            let growth = Growth { events: live.state.next, ended };
            (growth, parent, live.summary.wake_at)
        };
        self.0.feed.tell(run, growth);
        self.0.alarm.set(run, wake_at.filter(|_| !ended));
        self.perform(run, slot, work);
        // A parent waits for the end of its child, and shows what it waits for.
        if let Some(parent) = parent.filter(|_| ended).and_then(|id| id.parse().ok()) {
            self.wake(&parent);
        }
        if ended || self.slots().len() > MOST_IDLE {
            self.let_go(run, slot, ended);
        }
    }

    /// Forgets a run that nobody is waiting for; the journal knows it.
    fn let_go(&self, run: &RunId, slot: &Arc<Slot>, ended: bool) {
        let busy = !slot.at_work.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !busy && (ended || !self.0.feed.has(run)) {
            self.forget(run);
        }
    }

    pub(crate) fn forget(&self, run: &RunId) {
        self.slots().remove(run);
    }

    pub(crate) fn slot(&self, run: &RunId) -> Arc<Slot> {
        Arc::clone(self.slots().entry(run.clone()).or_default())
    }

    pub(crate) fn known(&self, run: &RunId) -> Option<Arc<Slot>> {
        self.slots().get(run).cloned()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Slot>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run as it stands.
    pub fn view(&self, run: &RunId) -> Result<View, Trouble> {
        let live = match self.cached(run) {
            Some(live) => live,
            None => Live::load(&self.0.host, &self.0.library, run)?.ok_or(Trouble::NoRun)?,
        };
        let children = self.children(&live)?;
        let Live { summary, definition, seed, state, .. } = live;
        Ok(View { summary, definition, seed, state, children })
    }

    fn cached(&self, run: &RunId) -> Option<Live> {
        let slot = self.known(run)?;
        let held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        held.clone()
    }

    /// The events of a run from a number on, and whether the last of them is its end.
    pub fn events(&self, run: &RunId, from: u64) -> Result<Vec<Arc<RunEvent>>, Trouble> {
        if let Some(slot) = self.known(run)
            && let Some(live) = &*slot.live.lock().unwrap_or_else(PoisonError::into_inner)
        {
            let skip = usize::try_from(from).unwrap_or(usize::MAX);
            return Ok(live.events.iter().skip(skip).cloned().collect());
        }
        Ok(events(&self.0.host, run, from)?.into_iter().map(Arc::new).collect())
    }

    /// Tells whenever a run has grown, until the subscription is dropped.
    pub fn listen(
        &self,
        run: &RunId,
        listener: impl Fn(Growth) + Send + Sync + 'static,
    ) -> Subscription {
        self.0.feed.listen(run, listener)
    }

    pub fn summary(&self, run: &RunId) -> Result<Option<RunSummary>, Trouble> {
        Ok(self.0.host.home().store.run(run)?)
    }

    pub fn list(&self, filter: &RunFilter) -> Result<Vec<RunSummary>, Trouble> {
        let mut runs = Vec::new();
        self.0.host.home().store.visit_runs(filter, &mut |run| {
            runs.push(run);
            Ok(())
        })?;
        Ok(runs)
    }
}

const OVERTAKEN: &str = "RUN_OVERTAKEN";

fn overtaken(run: &RunId) -> Failure {
    Failure::state(OVERTAKEN, format!("run `{run}` was advanced by another process"))
}

/// Events in their places, taken into the state. What the rules decide can always follow.
fn sealed(
    state: &mut RunState,
    events: Vec<NewEvent>,
    now: Timestamp,
) -> Result<Vec<RunEvent>, Trouble> {
    let sealed = seal(state.next, redact(events), now);
    for event in &sealed {
        state.apply(event).map_err(|error| {
            Failure::state("INTERNAL", format!("a rule decided what cannot be: {error}"))
        })?;
    }
    Ok(sealed)
}

/// Where a replay has left its source, if it has.
fn observed(replay: &mut Replay, new: &[RunEvent]) -> Vec<NewEvent> {
    new.iter().filter_map(|event| replay.observe(event)).collect()
}

fn stored(event: &RunEvent) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(event).map_err(|error| Failure::state("INTERNAL", error.to_string()))
}

/// A failure of this host, as a run tells it.
pub(crate) fn told(failure: &Failure) -> RunError {
    let code = failure.code.to_lowercase();
    let told = json!({"class": failure.class, "hint": failure.hint});
    let details = told.as_object().cloned().map(|mut members| {
        members.retain(|_, value| !value.is_null());
        members
    });
    RunError { details, ..RunError::new(&code, failure.message.clone()) }
}

/// Kept apart from the events: what a run was begun with.
pub(crate) fn payload(seed: &countersign_flow::Seed) -> Result<(Payload, Vec<u8>), Failure> {
    let bytes =
        serde_json::to_vec(seed).map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
    Ok((Payload::of(&bytes), bytes))
}
