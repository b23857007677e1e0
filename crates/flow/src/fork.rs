//! Forks: the past is copied, the rest happens again, or is taken from what was recorded.

use std::collections::VecDeque;

use countersign_model::Timestamp;
use serde_json::{Map, Value};

use crate::decide::Work;
use crate::definition::Definition;
use crate::event::{Event, NewEvent, RunEvent};
use crate::run::{Impossible, OpenInterrupt, Phase, RunState};
use crate::seed::{CreateRefusal, Limits, NewRun, Origin, Seed, create};
use crate::types::Offers;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForkMode {
    Replay,
    Branch,
}

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ForkRequest {
    pub run_id: String,
    pub mode: ForkMode,
    pub from_sequence: Option<i64>,
    /// `configurable`, `tags`, `metadata`, `inputs` that replace those of the source.
    pub overlay: Map<String, Value>,
}

/// A run that begins in the middle.
#[derive(Debug, Clone, PartialEq)]
pub struct Forked {
    pub seed: Seed,
    /// Recorded in the new run as they are.
    pub history: Vec<RunEvent>,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ForkRefusal {
    #[error("`fromSeq` is needed and may not be negative")]
    Sequence,
    #[error("the run has only {0} events")]
    PastEnd(u64),
    #[error("a replay takes no options")]
    OverlayOnReplay,
    #[error("the member `{0}` of the overlay is not known")]
    OverlayUnknown(String),
    #[error("the workflow is another one by now")]
    WorkflowChanged,
    #[error(transparent)]
    Options(#[from] CreateRefusal),
    #[error(transparent)]
    Broken(#[from] Impossible),
}

/// The beginning of a fork of the run with `seed` and `events`.
pub fn fork(
    definition: &Definition,
    (seed, events): (&Seed, &[RunEvent]),
    request: ForkRequest,
    (offers, limits): (&Offers, &Limits),
    now: Timestamp,
) -> Result<Forked, ForkRefusal> {
    let replay = request.mode == ForkMode::Replay;
    let from = from_sequence(&request, events.len() as u64)?;
    if replay && !request.overlay.is_empty() {
        return Err(ForkRefusal::OverlayOnReplay);
    }
    if definition.digest() != seed.definition {
        return Err(ForkRefusal::WorkflowChanged);
    }
    let new = overlaid(seed, request.run_id, request.overlay)?;
    let mut made = create(definition, new, offers, limits, now)?;
    made.forked_from = Some(Origin { run_id: seed.run_id.clone(), from_sequence: from, replay });
    let history: Vec<_> =
        events.iter().take_while(|event| event.sequence < from).cloned().collect();
    let mut state = RunState::new(definition, &made);
    history.iter().try_for_each(|event| state.apply(event))?;
    Ok(Forked { seed: made, history })
}

fn from_sequence(request: &ForkRequest, count: u64) -> Result<u64, ForkRefusal> {
    let from = match (request.mode, request.from_sequence) {
        (ForkMode::Replay, None) => 0,
        (_, from) => from.and_then(|from| u64::try_from(from).ok()).ok_or(ForkRefusal::Sequence)?,
    };
    if from > 0 && from >= count { Err(ForkRefusal::PastEnd(count)) } else { Ok(from) }
}

fn overlaid(
    seed: &Seed,
    run_id: String,
    overlay: Map<String, Value>,
) -> Result<NewRun, ForkRefusal> {
    let mut new = NewRun {
        run_id,
        inputs: seed.inputs.clone(),
        configurable: seed.configurable.clone(),
        tags: seed.tags.clone(),
        metadata: seed.metadata.clone(),
        owner: seed.owner.clone(),
        transport: seed.transport.clone(),
        parent: None,
        trace: seed.trace.clone(),
    };
    for (name, value) in overlay {
        let unknown = ForkRefusal::OverlayUnknown(name.clone());
        match (name.as_str(), value) {
            ("configurable", Value::Object(map)) => new.configurable.extend(map),
            ("metadata", Value::Object(map)) => new.metadata.extend(map),
            ("inputs", Value::Object(map)) => new.inputs.extend(map),
            ("tags", Value::Array(tags)) => {
                let texts = tags.iter().map(|tag| tag.as_str().map(str::to_owned));
                new.tags = texts.collect::<Option<_>>().ok_or(unknown)?;
            }
            _ => return Err(unknown),
        }
    }
    Ok(new)
}

/// What the source recorded, for a replay to go by.
#[derive(Debug, Clone)]
pub struct Replay {
    source: String,
    events: Vec<RunEvent>,
    expected: VecDeque<RunEvent>,
    diverged: bool,
}

impl Replay {
    /// `events` are all of the source's; the first `from` of them were copied.
    pub fn new(source: &str, events: Vec<RunEvent>, from: u64) -> Self {
        let later =
            events.iter().filter(|event| event.sequence >= from && !is_operator(&event.event));
        let expected = later.cloned().collect();
        Replay { source: source.to_owned(), expected, events, diverged: false }
    }

    /// What happened next the first time, of all that `work` and open questions could lead to.
    /// Without one, the work has to be done: the source did not come that far.
    pub fn step(&self, state: &RunState, work: &[Work]) -> Option<Vec<NewEvent>> {
        let done = work.iter().filter_map(|work| self.outcome(state, work));
        let said = state.interrupts.iter().filter_map(|open| self.answer(state, open));
        let first = |events: &Vec<&RunEvent>| events.first().map(|event| event.sequence);
        let events = done.chain(said).min_by_key(first)?;
        let new = |event: &RunEvent| NewEvent { event: event.event.clone(), cause: event.cause };
        Some(events.into_iter().map(new).collect())
    }

    fn outcome(&self, state: &RunState, work: &Work) -> Option<Vec<&RunEvent>> {
        let key = work.key()?;
        let node = state.node(&key.node)?;
        let mut recorded = self.segment(&key.node, key.round, key.attempt);
        // Events since it was begun, or since it was resumed as often as now.
        for _ in 0..node.asked {
            let resumed = |event: &&RunEvent| matches!(event.event, Event::NodeResumed { .. });
            let place = recorded.iter().position(resumed)?;
            recorded.drain(..=place);
        }
        let done = usize::try_from(node.progress).ok()?;
        let mut rest = Vec::new();
        for event in recorded.into_iter().skip(done) {
            let waits =
                matches!(event.event, Event::NodeDispatched { .. } | Event::ChainEvent { .. });
            let over = matches!(
                event.event,
                Event::NodeCompleted { .. }
                    | Event::NodeFailed { .. }
                    | Event::NodeRetried { .. }
                    | Event::NodeSuspended { .. }
            );
            rest.push(event);
            // A child goes its own way for a while: what comes after is another step.
            if over || waits {
                break;
            }
        }
        (!rest.is_empty()).then_some(rest)
    }

    /// What was said next to this question the first time: one answer, or one vote of several.
    fn answer(&self, state: &RunState, open: &OpenInterrupt) -> Option<Vec<&RunEvent>> {
        let node = state.node(&open.node).filter(|node| node.phase == Phase::Suspended)?;
        let about = |event: &&RunEvent| event.event.node_id() == Some(open.node.as_str());
        let mine = self.events.iter().filter(about);
        let asked = mine.skip_while(|event| {
            !matches!(&event.event, Event::NodeSuspended { interrupt_id, .. } if *interrupt_id == open.id)
        });
        let mut answer: Vec<&RunEvent> = Vec::new();
        for event in asked.skip(1).skip(usize::try_from(node.heard).ok()?) {
            let follows = answer.last().is_none_or(|last| last.sequence + 1 == event.sequence);
            let over =
                matches!(event.event, Event::NodeCancelled { .. } | Event::NodeResumed { .. });
            if over || !follows {
                break;
            }
            answer.push(event);
        }
        (!answer.is_empty()).then_some(answer)
    }

    /// Everything about one attempt of a node, after its beginning.
    fn segment(&self, node: &str, round: u64, attempt: u64) -> Vec<&RunEvent> {
        let (mut rounds, mut inside, mut found) = (0, false, Vec::new());
        for event in self.events.iter().filter(|event| event.event.node_id() == Some(node)) {
            match &event.event {
                Event::NodeStarted { attempt: 0, .. } => {
                    rounds += 1;
                    inside = (rounds, 0) == (round, attempt);
                }
                Event::NodeStarted { attempt: again, .. } => {
                    inside = (rounds, *again) == (round, attempt);
                }
                // After a pause the same round begins anew; whatever else cancels is the end.
                Event::NodeCancelled { reason, .. } => {
                    rounds = rounds.saturating_sub(1);
                    if std::mem::take(&mut inside) && reason == "paused" {
                        found.clear();
                    }
                }
                _ if inside => found.push(event),
                _ => {}
            }
        }
        found
    }

    /// The first event that is not what the source recorded, told once.
    pub fn observe(&mut self, event: &RunEvent) -> Option<NewEvent> {
        if self.diverged || is_operator(&event.event) {
            return None;
        }
        let kind = match self.expected.pop_front() {
            Some(expected) if is_same(&expected.event, &event.event) => return None,
            Some(expected) if same_type(&expected.event, &event.event) => "output",
            Some(_) => "type-mismatch",
            None => "extra",
        };
        self.diverged = true;
        let diverged = Event::ReplayDiverged {
            source_run_id: self.source.clone(),
            at_sequence: event.sequence,
            divergence_kind: kind.to_owned(),
            divergence_point: event.event.node_id().unwrap_or("run").to_owned(),
        };
        // Nothing may follow the end of a run.
        (!event.event.is_terminal())
            .then_some(NewEvent { event: diverged, cause: Some(event.sequence) })
    }

    pub fn has_diverged(&self) -> bool {
        self.diverged
    }
}

/// Whoever replays a run need not be the one who began it.
fn is_same(a: &Event, b: &Event) -> bool {
    match (a, b) {
        (
            Event::RunStarted { workflow_id: one, tags: its, .. },
            Event::RunStarted { workflow_id: other, tags: their, .. },
        ) => (one, its) == (other, their),
        _ => a == b,
    }
}

fn same_type(a: &Event, b: &Event) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// What operators did to the source is no part of what the workflow does.
fn is_operator(event: &Event) -> bool {
    matches!(
        event,
        Event::PauseRequested { .. }
            | Event::RunPaused { .. }
            | Event::RunResumed { .. }
            | Event::ReplayDiverged { .. }
    ) || matches!(event, Event::NodeCancelled { reason, .. } if reason == "paused")
}
