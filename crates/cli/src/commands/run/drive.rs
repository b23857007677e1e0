//! Staying with a run until it ends, rests, or whoever waits has had enough.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use countersign_flow::run::{Child, Phase};
use countersign_flow::{RunState, Status};
use countersign_model::RunId;
use countersign_workflow::{Engine, Trouble, View};

use super::progress::Progress;
use super::report;
use crate::exit::Exit;
use crate::runs::told;
use crate::signals;
use crate::ui::{Done, Ui};

/// How often a run is looked at when it does not tell anything.
const GLANCE: Duration = Duration::from_millis(100);

/// How long calls may take that are at work when somebody wants to leave.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Drives a run as far as it goes, and says how it stands then.
/// What happened before the event `from` is not told again.
pub(super) fn follow(ui: Ui, engine: &Engine, run: &RunId, from: u64) -> Done<Exit> {
    let finished = drive(ui, engine, run, from)?;
    if !finished && !ui.json {
        ui.note(
            "leaving the run as it is; waiting for what is at work (interrupt again to kill it)",
        );
    }
    engine.close(PATIENCE);
    report::print(ui, engine, run)
}

/// Says how a run stands that others go on with.
pub(super) fn leave(ui: Ui, engine: &Engine, run: &RunId) -> Done<Exit> {
    let exit = report::print(ui, engine, run)?;
    let goes_on = engine.summary(run).map_err(told)?.is_some_and(|run| run.ended_at.is_none());
    if goes_on && !ui.json {
        ui.note(format!("go on with it: countersign run resume {run}"));
    }
    Ok(if goes_on { Exit::Done } else { exit })
}

/// Whether it came to rest; false if somebody interrupted. What its end means to the run that began
/// it is waited for as well.
fn drive(ui: Ui, engine: &Engine, run: &RunId, mut from: u64) -> Done<bool> {
    let stop = signals::cancelled();
    let mut next = Some(run.clone());
    while let Some(run) = next {
        let (told_of, heard) = channel();
        let _listens = engine.listen(&run, move |_| {
            // Whoever waits no more needs no word.
            let _ = told_of.send(());
        });
        let mut progress = Progress::begin(ui, &run, from);
        let view = loop {
            let view = engine.view(&run).map_err(told)?;
            progress.show(engine, &view)?;
            if rests(engine, &view).map_err(told)? {
                break view;
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let _ = heard.recv_timeout(GLANCE);
        };
        let parent = view.summary.parent.filter(|_| view.state.end.is_some());
        let open = parent.and_then(|parent| engine.summary(&parent).ok().flatten());
        let open = open.filter(|parent| parent.ended_at.is_none());
        from = open.as_ref().map_or(0, |parent| parent.events);
        next = open.map(|parent| parent.run);
    }
    Ok(true)
}

/// Whether nothing happens to a run any more without somebody.
fn rests(engine: &Engine, view: &View) -> Result<bool, Trouble> {
    let state = &view.state;
    if state.end.is_some() || state.status() == Status::Paused {
        return Ok(true);
    }
    let mut waits = !state.interrupts.is_empty();
    for (id, node) in &state.nodes {
        match node.phase {
            Phase::Retrying => return Ok(false),
            Phase::Active if !children_rest(engine, state, id)? => return Ok(false),
            Phase::Active => waits = true,
            _ => {}
        }
    }
    Ok(waits)
}

/// Whether a node that is at work only waits for runs that rest.
fn children_rest(engine: &Engine, state: &RunState, node: &str) -> Result<bool, Trouble> {
    let open = |child: &&Child| child.node == node && child.end.is_none() && !child.abandoned;
    let mut any = false;
    for child in state.children.iter().filter(open) {
        let Some(run) = &child.run else { return Ok(false) };
        let view = engine.view(&run.parse()?)?;
        if view.state.end.is_some() || !rests(engine, &view)? {
            return Ok(false);
        }
        any = true;
    }
    Ok(any)
}
