//! What happens next. Every rule goes by the state alone, so that a run can be taken up after any
//! of its events and goes on as it would have.

mod command;
mod gate;
mod model;
mod node;
mod orchestrate;
mod ready;
pub(crate) mod scope;
mod settle;

use countersign_model::{Digest, Timestamp};
use serde_json::{Map, Value};

use crate::definition::{Definition, Node};
pub use crate::event::PausePolicy;
use crate::event::{Cap, Event, NewEvent, RunError, seal};
use crate::run::{Impossible, NodeState, Pause, Phase, RunState};
use crate::seed::Seed;
use crate::types::Offers;
pub use command::{Actor, Answer, Command, Refusal, Resolution, Target, command};
pub use model::ModelReply;
pub use settle::{CallError, ChildEnd, Made, Outcome, Written, settle};

/// What a decision may go by besides the run itself.
#[derive(Debug, Clone)]
pub struct Context {
    pub now: Timestamp,
    pub offers: Offers,
}

/// What happened, and what has to be done outside.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decision {
    pub events: Vec<NewEvent>,
    pub work: Vec<Work>,
    /// A rule of ours decided what cannot be. Nothing of it is among the events; the run stands
    /// still, and whoever sees this should say so loudly.
    pub fault: Option<Impossible>,
}

/// Which piece of work: the same again after a crash, another in another round or attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkKey {
    pub node: String,
    pub round: u64,
    pub attempt: u64,
    pub step: u64,
}

/// What the outside has to do. It may be told more than once; the key says whether it is new.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// Call `advance` again at that moment.
    Delay {
        key: WorkKey,
        until: Timestamp,
    },
    Call {
        key: WorkKey,
        tool: String,
        version: Option<String>,
        input: Value,
        approved: Option<Value>,
    },
    /// Begin a child run under this id, or find that it was begun.
    Child {
        key: WorkKey,
        run_id: String,
        workflow: String,
        inputs: Map<String, Value>,
    },
    /// Tell when this child has ended.
    Await {
        key: WorkKey,
        run_id: String,
    },
    Model {
        key: WorkKey,
        request: Value,
    },
    Memory {
        key: WorkKey,
        action: String,
        config: Value,
        agent: Option<Value>,
    },
    Secret {
        key: WorkKey,
        secret: String,
    },
    CancelChild {
        run_id: String,
    },
}

impl Work {
    pub fn key(&self) -> Option<&WorkKey> {
        match self {
            Work::Delay { key, .. }
            | Work::Call { key, .. }
            | Work::Child { key, .. }
            | Work::Await { key, .. }
            | Work::Model { key, .. }
            | Work::Memory { key, .. }
            | Work::Secret { key, .. } => Some(key),
            Work::CancelChild { .. } => None,
        }
    }
}

/// Everything that rules look at.
#[derive(Clone, Copy)]
pub(crate) struct Env<'a> {
    pub definition: &'a Definition,
    pub seed: &'a Seed,
    pub state: &'a RunState,
    pub context: &'a Context,
}

/// What a node that is at work does next.
#[allow(clippy::large_enum_variant, reason = "one at a time, taken apart where it is made")]
pub(crate) enum Doing {
    /// All events since it was begun or resumed; those that happened already are left out.
    Events(Vec<NewEvent>),
    Work(Work),
    Nothing,
}

impl From<Vec<Event>> for Doing {
    fn from(events: Vec<Event>) -> Self {
        Doing::Events(events.into_iter().map(plain).collect())
    }
}

pub(crate) fn plain(event: Event) -> NewEvent {
    NewEvent { event, cause: None }
}

impl<'a> Env<'a> {
    pub(crate) fn of(&self, node: &Node) -> Option<&'a NodeState> {
        self.state.node(&node.id)
    }

    pub(crate) fn key(&self, node: &Node, step: u64) -> WorkKey {
        let (round, attempt) = self.of(node).map_or((0, 0), |state| (state.rounds, state.attempt));
        WorkKey { node: node.id.clone(), round, attempt, step }
    }

    /// How a node fails: once more, or for good.
    pub(crate) fn failure(&self, node: &Node, error: RunError, retryable: bool) -> Event {
        let node_id = node.id.clone();
        let most = node.max_retries.or(self.definition.settings.max_retries).unwrap_or(0);
        match self.of(node).map_or(0, |state| state.attempt) {
            attempt if retryable && attempt < most => {
                Event::NodeRetried { node_id, attempt: attempt + 1, last_error: error }
            }
            _ => Event::NodeFailed { node_id, error },
        }
    }

    /// Changes of variables, then the end of the node.
    pub(crate) fn completion(
        &self,
        node: &Node,
        outputs: Map<String, Value>,
        variables: &Map<String, Value>,
    ) -> Vec<Event> {
        let change = |(name, next): (&String, &Value)| {
            Event::variable(&node.id, name, self.state.variables.get(name), next.clone())
        };
        let mut events: Vec<_> = variables.iter().map(change).collect();
        events.push(Event::NodeCompleted { node_id: node.id.clone(), outputs });
        events
    }
}

/// Runs everything that needs no outside as far as it goes.
pub fn advance(
    definition: &Definition,
    seed: &Seed,
    state: &RunState,
    context: &Context,
) -> Decision {
    let mut state = state.clone();
    let mut events = Vec::new();
    // Every step begins, ends or skips something; loops and executions are bounded.
    loop {
        let env = Env { definition, seed, state: &state, context };
        let step = next(&env);
        if step.is_empty() {
            return Decision { work: work(&env), events, fault: None };
        }
        let sealed = seal(state.next, step.clone(), context.now);
        if let Err(impossible) = sealed.iter().try_for_each(|event| state.apply(event)) {
            return Decision { events, work: Vec::new(), fault: Some(impossible) };
        }
        events.extend(step);
    }
}

/// When `advance` should be called at the latest, whatever else happens.
pub fn deadline(definition: &Definition, seed: &Seed, state: &RunState) -> Option<Timestamp> {
    let started = state.started_at.filter(|_| state.end.is_none())?.max(seed.created_at);
    let ends = i64::try_from(seed.bounds.duration_ms).ok().map(|ms| started.plus_millis(ms + 1));
    let expiries = state.interrupts.iter().filter_map(|open| gate::expiry(seed, open));
    let offers = Offers::default();
    let context = Context { now: started, offers };
    let env = Env { definition, seed, state, context: &context };
    let delays = definition.nodes.iter().filter_map(|node| node::delay_until(&env, node));
    ends.into_iter().chain(expiries).chain(delays).min()
}

/// The next few events, in the order of what matters most.
fn next(env: &Env<'_>) -> Vec<NewEvent> {
    let state = env.state;
    if state.end.is_some() {
        return Vec::new();
    }
    if state.started_at.is_none() {
        return vec![plain(started(env))];
    }
    if let Some(event) = overdue(env) {
        return vec![plain(event)];
    }
    if let Some(ending) = doomed(env) {
        return ending;
    }
    if matches!(state.pause, Pause::Paused(_)) {
        return Vec::new();
    }
    for step in [answered, retried, at_work, begin, elapsed, pausing] {
        let events = step(env);
        if !events.is_empty() {
            return events;
        }
    }
    Vec::new()
}

fn begin(env: &Env<'_>) -> Vec<NewEvent> {
    match env.state.pause {
        Pause::Requested(_) => Vec::new(),
        _ => ready::begin(env),
    }
}

/// What time alone brings about, the earliest first. It comes after everything that needs no
/// clock, so that a replay finds the same order.
fn elapsed(env: &Env<'_>) -> Vec<NewEvent> {
    let now = env.context.now;
    let replays = env.seed.forked_from.as_ref().is_some_and(|origin| origin.replay);
    let delays = env.definition.nodes.iter().filter(|_| !replays);
    let delay = delays
        .filter_map(|node| Some((node::delay_until(env, node)?, node)))
        .filter(|(until, _)| *until <= now)
        .min_by_key(|(until, _)| *until);
    let expiry = gate::expired(env);
    match (delay, expiry) {
        (Some((until, _)), Some((at, open))) if at < until => gate::expire(open),
        (Some((_, node)), _) => {
            let events = env.of(node).and_then(|state| node::elapsed(env, node, state));
            events.into_iter().flatten().map(plain).collect()
        }
        (None, Some((_, open))) => gate::expire(open),
        (None, None) => Vec::new(),
    }
}

fn started(env: &Env<'_>) -> Event {
    Event::RunStarted {
        workflow_id: env.seed.workflow_id.clone(),
        transport: env.seed.transport.clone(),
        owner: env.seed.owner.clone(),
        tags: env.seed.tags.clone(),
    }
}

/// The bound on the time that a run takes, from its beginning, whatever it does meanwhile.
fn overdue(env: &Env<'_>) -> Option<Event> {
    let started = env.state.started_at.filter(|_| env.state.doom.is_none())?;
    // What a fork has copied took its time in another run.
    let started = started.max(env.seed.created_at);
    let elapsed = u64::try_from(env.context.now.millis_since(started)).unwrap_or(0);
    let limit = env.seed.bounds.duration_ms;
    let node_id = env.state.current_node().map(str::to_owned);
    (elapsed > limit).then_some(Event::CapBreached {
        kind: Cap::RunDuration,
        limit,
        observed: elapsed,
        node_id,
    })
}

/// What is at work is stopped, then the run fails.
fn doomed(env: &Env<'_>) -> Option<Vec<NewEvent>> {
    let (error, node) = match &env.state.doom {
        Some(doom) => (doom.error.clone(), doom.node.clone()),
        None => ready::unhandled(env)?,
    };
    Some(fail(env, error, node))
}

/// How a run ends that cannot go on for reasons outside of it.
pub fn give_up(
    definition: &Definition,
    seed: &Seed,
    state: &RunState,
    error: &RunError,
    context: &Context,
) -> Vec<NewEvent> {
    let env = Env { definition, seed, state, context };
    if state.end.is_some() {
        return Vec::new();
    }
    let started = state.started_at.is_none().then(|| plain(started(&env)));
    let node = state.current_node().map(str::to_owned);
    started.into_iter().chain(fail(&env, error.clone(), node)).collect()
}

pub(crate) fn fail(env: &Env<'_>, error: RunError, node: Option<String>) -> Vec<NewEvent> {
    let mut events = stop(env.state, "run-failed");
    events.push(plain(Event::RunFailed { error, failed_node_id: node }));
    events
}

/// Ends everything that is at work.
pub(crate) fn stop(state: &RunState, reason: &str) -> Vec<NewEvent> {
    let busy = state.nodes.iter().filter(|(_, node)| node.is_busy());
    let cancelled = |(id, _): (&String, _)| {
        plain(Event::NodeCancelled { node_id: id.clone(), reason: reason.to_owned() })
    };
    busy.map(cancelled).collect()
}

/// Nodes whose question was answered go on.
fn answered(env: &Env<'_>) -> Vec<NewEvent> {
    let waits =
        |(_, node): &(&String, &NodeState)| node.phase == Phase::Suspended && node.answer.is_some();
    let resumed = |(id, node): (&String, &NodeState)| {
        let resolved = env
            .state
            .resolutions
            .values()
            .rev()
            .find(|r| r.node == *id && Some(&r.value) == node.answer.as_ref())?;
        let (interrupt_id, resume_value) = (resolved.id.clone(), resolved.value.clone());
        Some(plain(Event::NodeResumed { node_id: id.clone(), interrupt_id, resume_value }))
    };
    env.state.nodes.iter().filter(waits).find_map(resumed).into_iter().collect()
}

fn retried(env: &Env<'_>) -> Vec<NewEvent> {
    let again = |node: &&Node| env.of(node).is_some_and(|state| state.phase == Phase::Retrying);
    let node = env.definition.nodes.iter().find(again);
    node.map_or_else(Vec::new, |node| {
        ready::start(env, node, env.of(node).map_or(0, |state| state.attempt))
    })
}

/// The first node that can go on by itself.
fn at_work(env: &Env<'_>) -> Vec<NewEvent> {
    let active = active(env).map(|(node, state)| (node::doing(env, node, state), state));
    let go_on = |(doing, state): (Doing, &NodeState)| match doing {
        Doing::Events(events) => {
            let done = usize::try_from(state.progress).unwrap_or(usize::MAX);
            Some(events.into_iter().skip(done).collect::<Vec<_>>()).filter(|rest| !rest.is_empty())
        }
        _ => None,
    };
    active.map(go_on).find_map(|events| events).unwrap_or_default()
}

fn active<'a>(env: &Env<'a>) -> impl Iterator<Item = (&'a Node, &'a NodeState)> {
    let state = env.state;
    env.definition
        .nodes
        .iter()
        .filter_map(|node| Some((node, state.node(&node.id)?)))
        .filter(|(_, state)| state.phase == Phase::Active)
}

/// A pause that waits for what is at work; what waits for an answer does not hold it up.
fn pausing(env: &Env<'_>) -> Vec<NewEvent> {
    let Pause::Requested(reason) = &env.state.pause else { return Vec::new() };
    if active(env).next().is_some() {
        return Vec::new();
    }
    let drain_policy = PausePolicy::DrainCurrentNode;
    vec![plain(Event::RunPaused { reason: reason.clone(), drain_policy })]
}

fn work(env: &Env<'_>) -> Vec<Work> {
    if env.state.end.is_some() {
        return orphans(env);
    }
    if matches!(env.state.pause, Pause::Paused(_)) || env.state.started_at.is_none() {
        return Vec::new();
    }
    let wanted = |(node, state)| match node::doing(env, node, state) {
        Doing::Work(work) => Some(work),
        _ => None,
    };
    active(env).filter_map(wanted).chain(orphans(env)).collect()
}

/// Children that nobody waits for any more, unless they were let go on purpose.
fn orphans(env: &Env<'_>) -> Vec<Work> {
    let failed = matches!(env.state.end, Some(crate::run::End::Completed(_)));
    let cascades = |node: &str| {
        env.definition
            .node(node)
            .is_none_or(|node| node.flag("propagateCancellation") != Some(false))
    };
    let ended = env.state.end.is_some() && !failed;
    let open = env.state.children.iter().filter(|child| child.end.is_none());
    open.filter(|child| child.abandoned || ended)
        .filter(|child| cascades(&child.node))
        .filter_map(|child| Some(Work::CancelChild { run_id: child.run.clone()? }))
        .collect()
}

/// The id of a child: the same whenever it is asked for, so that it is begun once.
pub(crate) fn child_run_id(env: &Env<'_>, node: &Node, key: &WorkKey) -> String {
    let parts = format!("{}\n{}\n{}\n{}", env.seed.run_id, node.id, key.round, key.step);
    let bytes = Digest::of(parts.as_bytes()).into_bytes();
    let hex: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    format!(
        "run-{}-{}-8{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    )
}
