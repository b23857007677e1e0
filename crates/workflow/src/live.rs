//! A run in memory: the fold of its events, made anew from the journal whenever it is needed.

use std::sync::Arc;

use countersign_flow::view::ChildView;
use countersign_flow::{Definition, Replay, RunEvent, RunState, Seed, Status};
use countersign_host::Host;
use countersign_model::event::Fact;
use countersign_model::{Failure, RunId, RunSummary};

use crate::library::Library;

/// A run as the journal tells it.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) summary: RunSummary,
    pub(crate) definition: Arc<Definition>,
    pub(crate) seed: Arc<Seed>,
    pub(crate) state: RunState,
    pub(crate) events: Vec<Arc<RunEvent>>,
    /// What the run goes by that this one replays.
    pub(crate) replay: Option<Replay>,
}

/// A run as it is shown.
#[derive(Debug, Clone)]
pub struct View {
    pub summary: RunSummary,
    pub definition: Arc<Definition>,
    pub seed: Arc<Seed>,
    pub state: RunState,
    pub children: Vec<ChildView>,
}

fn corrupt(run: &RunId, why: impl std::fmt::Display) -> Failure {
    Failure::state("JOURNAL_CORRUPT", format!("run `{run}` cannot be read: {why}"))
}

/// The events of a run from a number on.
pub(crate) fn events(host: &Host, run: &RunId, from: u64) -> Result<Vec<RunEvent>, Failure> {
    let mut events = Vec::new();
    for stored in host.home().store.run_entries(run, from)? {
        let Fact::Run(fact) = stored.entry.fact else { continue };
        for value in fact.events {
            let event: RunEvent =
                serde_json::from_value(value).map_err(|error| corrupt(run, error))?;
            if event.sequence >= from {
                events.push(event);
            }
        }
    }
    Ok(events)
}

pub(crate) fn seed(host: &Host, summary: &RunSummary) -> Result<Seed, Failure> {
    let run = &summary.run;
    let bytes = host.home().store.run_payload(run, &summary.seed.digest)?;
    let bytes = bytes.ok_or_else(|| corrupt(run, "what it was begun with is gone"))?;
    serde_json::from_slice(&bytes).map_err(|error| corrupt(run, error))
}

/// What a replay goes by, after these events of it.
pub(crate) fn replay(
    host: &Host,
    seed: &Seed,
    done: &[RunEvent],
) -> Result<Option<Replay>, Failure> {
    let Some(origin) = seed.forked_from.as_ref().filter(|origin| origin.replay) else {
        return Ok(None);
    };
    let past = events(host, &origin.run_id.parse()?, 0)?;
    let mut replay = Replay::new(&origin.run_id, past, origin.from_sequence);
    for event in done.iter().filter(|event| event.sequence >= origin.from_sequence) {
        let _ = replay.observe(event);
    }
    Ok(Some(replay))
}

impl Live {
    /// What the journal says now; none if there is no such run.
    pub(crate) fn load(
        host: &Host,
        library: &Library,
        run: &RunId,
    ) -> Result<Option<Self>, Failure> {
        let Some(summary) = host.home().store.run(run)? else { return Ok(None) };
        let definition = library.pinned_as(&summary.definition, &host.home().blobs)?;
        let seed = Arc::new(seed(host, &summary)?);
        let mut state = RunState::new(&definition, &seed);
        let events = events(host, run, 0)?;
        for event in &events {
            state.apply(event).map_err(|error| corrupt(run, error))?;
        }
        let replay = replay(host, &seed, &events)?;
        let events = events.into_iter().map(Arc::new).collect();
        let mut live = Live { summary, definition, seed, state, events, replay };
        // Others may have appended between the two reads.
        live.summary.events = live.state.next;
        Ok(Some(live))
    }

    /// Without its children, which stand elsewhere.
    pub(crate) fn shown(&self) -> View {
        View {
            summary: self.summary.clone(),
            definition: Arc::clone(&self.definition),
            seed: Arc::clone(&self.seed),
            state: self.state.clone(),
            children: Vec::new(),
        }
    }

    pub(crate) fn status(&self) -> Status {
        self.state.status()
    }
}
