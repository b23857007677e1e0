//! The engine: one step of a run at a time, recorded before anything follows from it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use countersign_flow::event::RunError;
use countersign_flow::{
    Answer, Command, Context, Event, Limits, NewEvent, Offers, Refusal, Replay, RunEvent, RunState,
    Status, Work, advance, command, deadline, give_up, seal,
};
use countersign_host::Host;
use countersign_journal::{AppendError, Appended, Batch, Conflict, Expect, Reply};
use countersign_model::effect::Payload;
use countersign_model::event::Fact;
use countersign_model::{Failure, RunFact, RunId, RunSummary, Timestamp};
use serde_json::{Value, json};

use crate::alarm::Alarm;
use crate::feed::{Feed, Grown, Growth, Observer};
use crate::library::Library;
use crate::live::Live;
use crate::mock::Mock;
use crate::pool::Pool;
use crate::redact::{clean, redact};
use crate::secret::Secrets;
use crate::slot::{Job, Slot};
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
    /// What this process may resolve for its runs.
    pub secrets: Secrets,
    pub observer: Option<Arc<dyn Observer>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            reach: Reach::Home,
            offers: Offers::default(),
            limits: Limits::default(),
            workers: 8,
            secrets: Secrets::default(),
            observer: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) host: Arc<Host>,
    pub(crate) library: Library,
    pub(crate) settings: Settings,
    /// For steps of runs, which are short, and never wait for calls of tools.
    pub(crate) steps: Pool,
    pub(crate) calls: Pool,
    pub(crate) alarm: Alarm,
    pub(crate) feed: Arc<Feed>,
    pub(crate) watch: Watch,
    mock: Option<Mock>,
    slots: Mutex<HashMap<RunId, Arc<Slot>>>,
    /// Runs that ended lately: who began one asks for its end next.
    over: Mutex<VecDeque<RunId>>,
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

    fn is_void(&self) -> bool {
        self.events.is_empty() && self.history.is_empty()
    }
}

/// What follows from a step, as it was when the step was recorded.
pub(crate) struct Next {
    jobs: Vec<Job>,
    growth: Growth,
    /// Who waits for the end that this was.
    parent: Option<RunId>,
    /// It waits for people to approve a call, which may have been done already.
    asks: bool,
}

/// How many steps of runs are decided at a time.
const STEPPERS: usize = 3;

/// How many runs are kept in memory while nothing happens to them.
const MOST_IDLE: usize = 4096;

/// How many runs are kept in memory when they are over.
const MOST_OVER: usize = 512;

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
            steps: Pool::new(STEPPERS),
            calls: Pool::new(settings.workers),
            watch: Watch::new(&host)?,
            host,
            library,
            mock: settings.offers.conformance.then(Mock::default),
            settings,
            alarm: Alarm::default(),
            feed: Arc::default(),
            slots: Mutex::default(),
            over: Mutex::default(),
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
        let begun = Instant::now();
        let stepped = self.0.steps.close(patience);
        self.0.calls.close(patience.saturating_sub(begun.elapsed())) && stepped
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

    /// The mock of a model, where the conformance switch is on.
    pub fn mock(&self) -> Option<&Mock> {
        self.0.mock.as_ref()
    }

    pub(crate) fn context(&self) -> Context {
        Context { now: self.0.host.clock().now(), offers: self.0.settings.offers.clone() }
    }

    /// Takes credentials out of what is to be kept beside runs, as out of what they record.
    pub fn clean(&self, value: &mut Value) -> bool {
        clean(value, &self.0.settings.secrets)
    }

    /// Asks for what a run is waiting to do; nothing if there is nothing to do.
    pub fn wake(&self, run: &RunId) {
        let (engine, run) = (self.clone(), run.clone());
        self.0.steps.run(move || match engine.step(&run, |_, _| Ok(Step::of(Vec::new()))) {
            Ok(()) | Err(Trouble::NoRun) => {}
            Err(trouble) if trouble.passes() => engine.try_later(&run, &trouble),
            Err(trouble) if trouble.is_too_large() => engine.give_up(&run, &trouble),
            Err(trouble) => tracing::error!(%run, %trouble, "a run could not go on"),
        });
    }

    /// The journal could not be written, or others were faster again and again: that passes.
    pub(crate) fn try_later(&self, run: &RunId, trouble: &Trouble) {
        let pause = self.slot(run).pause();
        tracing::warn!(%run, %trouble, ?pause, "a run is tried again later");
        self.look_again(run, pause);
    }

    pub(crate) fn look_again(&self, run: &RunId, pause: Duration) {
        let millis = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        self.0.alarm.sooner(run, self.0.host.clock().now().plus_millis(millis));
    }

    /// What follows by itself cannot be recorded, so the run ends here.
    pub(crate) fn give_up(&self, run: &RunId, trouble: &Trouble) {
        let error = RunError::new("payload_too_large", trouble.to_string());
        let ended = self.step(run, |live, context| {
            Ok(Step::of(give_up(&live.definition, &live.seed, &live.state, &error, context)))
        });
        match ended {
            Ok(()) => {}
            Err(trouble) if trouble.passes() => self.try_later(run, &trouble),
            Err(trouble) => tracing::error!(%run, %trouble, "a run could not be ended"),
        }
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
                Err(Refusal::Forbidden { why, events }) if !events.is_empty() => {
                    answer.events.clone_from(&events);
                    tracing::info!(%why, "an answer was refused");
                    Ok(Step::of(events))
                }
                Err(refusal) => Err(refusal.into()),
            }
        });
        match decided {
            Err(trouble) if trouble.is_too_large() => self.not_recorded(run, wanted, &trouble)?,
            decided => decided?,
        }
        match answer.events.is_empty() {
            true => Ok(answer),
            false => Err(Refusal::Forbidden {
                why: "you may not answer this".to_owned(),
                events: Vec::new(),
            }
            .into()),
        }
    }

    /// An answer that leads to too much is refused, and another may be given. What leads to too much
    /// by itself ends the run.
    fn not_recorded(
        &self,
        run: &RunId,
        wanted: &Command,
        trouble: &Trouble,
    ) -> Result<(), Trouble> {
        if let Command::Resolve(_) = wanted {
            let why = format!("the answer leads to more than can be kept: {trouble}");
            return Err(Refusal::Invalid(why).into());
        }
        self.give_up(run, trouble);
        Ok(())
    }

    /// Decides, records, and only then acts.
    pub(crate) fn step(
        &self,
        run: &RunId,
        mut decide: impl FnMut(&Live, &Context) -> Result<Step, Trouble>,
    ) -> Result<(), Trouble> {
        let (slot, new) = self.slot_for(run);
        let mut held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trouble = contended(run).into();
        for _ in 0..MOST_TRIES {
            match self.attempt(run, &slot, &mut held, &mut decide) {
                Ok(next) => {
                    drop(held);
                    let ended = next.growth.ended;
                    self.act(run, &slot, next, ended);
                    return Ok(());
                }
                // Somebody else was faster: what was decided is void.
                Err(Trouble::Failure(failure)) if failure.code == OVERTAKEN => {}
                Err(other) => {
                    trouble = other;
                    break;
                }
            }
        }
        drop(held);
        if new {
            self.leave(run, &slot);
        }
        Err(trouble)
    }

    /// One step of a run as it stands in memory, or as the journal tells it.
    fn attempt(
        &self,
        run: &RunId,
        slot: &Arc<Slot>,
        held: &mut Option<Live>,
        decide: &mut impl FnMut(&Live, &Context) -> Result<Step, Trouble>,
    ) -> Result<Next, Trouble> {
        let (live, cached) = match held.take() {
            Some(live) => (live, true),
            None => (self.load(run)?, false),
        };
        let context = self.context();
        let decided = decide(&live, &context);
        // What is in memory may be old: nobody is refused, and nothing left undone, because of it.
        let void = decided.as_ref().map_or_else(is_refusal, Step::is_void);
        if cached && void && self.is_old(&live)? {
            return Err(overtaken(run).into());
        }
        match decided {
            Ok(step) => {
                let step = self.taking_over(&live, step);
                let (live, next) = self.record_in(slot, live, step, &context)?;
                *held = Some(live);
                Ok(next)
            }
            Err(trouble) => {
                *held = cached.then_some(live);
                Err(trouble)
            }
        }
    }

    fn load(&self, run: &RunId) -> Result<Live, Trouble> {
        Live::load(&self.0.host, &self.0.library, run)?.ok_or(Trouble::NoRun)
    }

    /// Whether the journal knows more of a run than this does.
    fn is_old(&self, live: &Live) -> Result<bool, Trouble> {
        let summary = self.summary(&live.summary.run)?;
        Ok(summary.is_none_or(|summary| summary.events != live.state.next))
    }

    /// Whoever goes on with what another process left while it was running says so first. Once: from
    /// then on the run is with this one.
    fn taking_over(&self, live: &Live, mut step: Step) -> Step {
        let left = live.status() == Status::Running && live.summary.holder.is_some();
        let ours = self.reach() != Reach::Nothing && !self.is_held(live.summary.holder);
        if left && ours {
            let told = NewEvent { event: Event::takeover(), cause: None };
            step.events.insert(0, told);
        }
        step
    }

    /// The same for a run that is in the table, held by whoever asks.
    pub(crate) fn record(
        &self,
        live: Live,
        step: Step,
        context: &Context,
    ) -> Result<(Live, Next), Trouble> {
        let slot = self.slot(&live.summary.run);
        self.record_in(&slot, live, step, context)
    }

    /// Records what was decided and everything that follows by itself.
    fn record_in(
        &self,
        slot: &Slot,
        live: Live,
        step: Step,
        context: &Context,
    ) -> Result<(Live, Next), Trouble> {
        let Live { mut summary, definition, seed, mut state, mut events, mut replay } = live;
        let first = state.next;
        let mut new = step.history;
        new.iter().for_each(|event| drop(state.apply(event)));
        new.extend(self.sealed(&mut state, step.events, context.now)?);
        let mut decision = advance(&definition, &seed, &state, context);
        new.extend(self.sealed(&mut state, std::mem::take(&mut decision.events), context.now)?);
        // A replay goes the way of its source for as long as that is known.
        while let Some(next) = replay.as_ref().and_then(|r| r.step(&state, &decision.work)) {
            new.extend(self.sealed(&mut state, next, context.now)?);
            decision = advance(&definition, &seed, &state, context);
            new.extend(self.sealed(
                &mut state,
                std::mem::take(&mut decision.events),
                context.now,
            )?);
        }
        let left = replay.as_mut().map_or_else(Vec::new, |replay| observed(replay, &new));
        if state.end.is_none() {
            new.extend(self.sealed(&mut state, left, context.now)?);
        }
        if let Some(fault) = &decision.fault {
            tracing::error!(run = %summary.run, %fault, "a rule decided what cannot be");
        }
        if new.is_empty() {
            let live = Live { summary, definition, seed, state, events, replay };
            return Ok(self.following(slot, live, decision.work));
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
        self.append(&summary, batch).map_err(|trouble| match trouble.is_too_large() {
            // A run that does not begin is the fault of what was asked for.
            true if first == 0 => too_large(&trouble).into(),
            _ => trouble,
        })?;
        let known = events.len();
        events.extend(new.into_iter().map(Arc::new));
        if let Some(observer) = &self.0.settings.observer {
            let events = events.get(known..).unwrap_or_default();
            let (summary, definition) = (&summary, &definition);
            observer.grew(Grown { summary, definition, seed: Some(&seed), events });
        }
        let live = Live { summary, definition, seed, state, events, replay };
        Ok(self.following(slot, live, decision.work))
    }

    /// What is to be done after a step, taken down while nobody else can make another. The alarm is
    /// set here for the same reason: the last step has the last word about it.
    fn following(&self, slot: &Slot, live: Live, work: Vec<Work>) -> (Live, Next) {
        let ended = live.state.end.is_some();
        self.0.alarm.set(&live.summary.run, live.summary.wake_at.filter(|_| !ended));
        let parent = live.seed.parent.as_ref().filter(|_| ended);
        let parent = parent.and_then(|parent| parent.run_id.parse().ok());
        let asks = self.reach() != Reach::Nothing && self.await_approvals(&live);
        let growth = Growth { events: live.state.next, ended };
        slot.goes_on();
        let jobs = match self.reach() {
            // What a command brings about is finished with it; the rest is for others.
            Reach::Nothing => slot.take_on(work.into_iter().filter(is_cascade).collect()),
            _ => slot.take_on(work),
        };
        let next = Next { jobs, growth, parent, asks };
        (live, next)
    }

    /// Events in their places, taken into the state. What the rules decide can always follow.
    fn sealed(
        &self,
        state: &mut RunState,
        events: Vec<NewEvent>,
        now: Timestamp,
    ) -> Result<Vec<RunEvent>, Trouble> {
        let sealed = seal(state.next, redact(events, &self.0.settings.secrets)?, now);
        for event in &sealed {
            state.apply(event).map_err(|error| {
                Failure::state("INTERNAL", format!("a rule decided what cannot be: {error}"))
            })?;
        }
        Ok(sealed)
    }

    fn append(&self, summary: &RunSummary, batch: Batch) -> Result<Appended, Trouble> {
        match self.0.watch.own(|| self.0.host.home().store.append(batch)) {
            Ok(appended) => Ok(appended),
            Err(AppendError::Conflict(Conflict::Run(_))) => Err(overtaken(&summary.run).into()),
            Err(AppendError::Conflict(Conflict::Active(run))) => Err(Trouble::Active(run)),
            Err(AppendError::Conflict(Conflict::Reply)) => Err(Trouble::Answered),
            Err(error) => Err(Trouble::Failure(error.into())),
        }
    }

    /// What follows from a step that was recorded.
    pub(crate) fn act(&self, run: &RunId, slot: &Arc<Slot>, next: Next, ended: bool) {
        self.0.feed.tell(run, next.growth);
        self.perform(run, slot, next.jobs);
        // A parent waits for the end of its child, and shows what it waits for.
        if let Some(parent) = next.parent {
            self.wake(&parent);
        }
        if next.asks {
            self.follow_soon(run);
        }
        if ended {
            self.retire(run);
        } else if self.slots().len() > MOST_IDLE {
            self.let_go(run, slot);
        }
    }

    fn follow_soon(&self, run: &RunId) {
        let (engine, run) = (self.clone(), run.clone());
        self.0.steps.run(move || {
            if let Err(trouble) = engine.follow(&run) {
                tracing::warn!(%run, %trouble, "a run that waits could not be read");
            }
        });
    }

    /// Nothing happens any more to a run that is over. The oldest of those is forgotten.
    fn retire(&self, run: &RunId) {
        let mut over = self.0.over.lock().unwrap_or_else(PoisonError::into_inner);
        if over.contains(run) {
            return;
        }
        over.push_back(run.clone());
        let oldest = if over.len() > MOST_OVER { over.pop_front() } else { None };
        drop(over);
        if let Some(oldest) = oldest {
            self.forget(&oldest);
        }
    }

    #[cfg(test)]
    pub(crate) fn over(&self) -> Vec<RunId> {
        self.0.over.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Forgets a run that nobody is waiting for; the journal knows it.
    fn let_go(&self, run: &RunId, slot: &Arc<Slot>) {
        if !slot.is_busy() && !self.0.feed.has(run) {
            self.leave(run, slot);
        }
    }

    /// Forgets a run that was only looked at, unless somebody else has begun to use what is known.
    fn leave(&self, run: &RunId, slot: &Arc<Slot>) {
        let mut slots = self.slots();
        let ours = slots.get(run).is_some_and(|known| Arc::ptr_eq(known, slot));
        // One is in the table, the other with whoever asks.
        if ours && Arc::strong_count(slot) <= 2 {
            slots.remove(run);
        }
    }

    pub(crate) fn forget(&self, run: &RunId) {
        self.slots().remove(run);
    }

    pub(crate) fn slot(&self, run: &RunId) -> Arc<Slot> {
        self.slot_for(run).0
    }

    /// And whether it is new.
    fn slot_for(&self, run: &RunId) -> (Arc<Slot>, bool) {
        let mut slots = self.slots();
        let new = !slots.contains_key(run);
        (Arc::clone(slots.entry(run.clone()).or_default()), new)
    }

    pub(crate) fn known(&self, run: &RunId) -> Option<Arc<Slot>> {
        self.slots().get(run).cloned()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Slot>>> {
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_cascade(work: &Work) -> bool {
    matches!(work, Work::CancelChild { .. })
}

fn too_large(trouble: &Trouble) -> Failure {
    Failure::validation(
        "PAYLOAD_TOO_LARGE",
        format!("the run would begin with too much: {trouble}"),
    )
    .hint("give it less to begin with")
}

const OVERTAKEN: &str = "RUN_OVERTAKEN";

fn contended(run: &RunId) -> Failure {
    Failure::state("RUN_CONTENDED", format!("run `{run}` is changed by many at once"))
        .hint("try again")
}

fn overtaken(run: &RunId) -> Failure {
    Failure::state(OVERTAKEN, format!("run `{run}` was advanced by another process"))
}

fn is_refusal(trouble: &Trouble) -> bool {
    matches!(trouble, Trouble::Command(_))
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
