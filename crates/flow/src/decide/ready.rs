//! Which node is next. Sequences say it all: a node has something to do when one of its sources
//! ended after the node itself was begun.

use std::collections::BTreeSet;

use super::scope::scope;
use super::{Env, fail, plain};
use crate::definition::{DEFAULT_LOOPBACKS, Edge, Node, TriggerRule};
use crate::event::{Cap, Event, NewEvent, RunError};
use crate::run::{NodeState, Phase};
use crate::types::NodeKind;

/// What an edge carries once its source has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    Success,
    Failure,
    Nothing,
}

type Judged<T> = Result<T, (RunError, Option<String>)>;

/// The events that begin or skip the next node, or end the run.
pub(super) fn begin(env: &Env<'_>) -> Vec<NewEvent> {
    match choose(env) {
        Err((error, node)) => fail(env, error, node),
        Ok(Some(events)) => events,
        Ok(None) if env.state.nodes.values().any(NodeState::is_busy) => Vec::new(),
        Ok(None) => vec![plain(Event::RunCompleted { outputs: super::node::outputs(env) })],
    }
}

fn choose(env: &Env<'_>) -> Judged<Option<Vec<NewEvent>>> {
    if terminated(env) {
        let mut events = super::stop(env.state, "terminated");
        events.push(plain(Event::RunCompleted { outputs: super::node::outputs(env) }));
        return Ok(Some(events));
    }
    let returning = fired(env)?;
    let quiet = quiet(env, &returning);
    for &place in &env.definition.graph.order {
        let Some(node) = env.definition.nodes.get(place) else { continue };
        let Some(state) = env.of(node).filter(|state| !state.is_busy()) else { continue };
        if let Some(events) = verdict(env, place, node, state, &returning, &quiet)? {
            return Ok(Some(events));
        }
    }
    Ok(None)
}

/// A decision to end was carried out.
fn terminated(env: &Env<'_>) -> bool {
    let Some(last) = &env.state.decision else { return false };
    let dispatched = |node: &Node| {
        node.kind == Some(NodeKind::Dispatch)
            && env.of(node).and_then(|state| state.settled).is_some_and(|at| at > last.sequence)
    };
    let ends = matches!(last.decision, crate::event::OrchestratorDecision::Terminate { .. });
    ends && env.definition.nodes.iter().any(dispatched)
}

fn verdict(
    env: &Env<'_>,
    place: usize,
    node: &Node,
    state: &NodeState,
    returning: &BTreeSet<usize>,
    quiet: &[bool],
) -> Judged<Option<Vec<NewEvent>>> {
    let graph = &env.definition.graph;
    let incoming = graph.incoming.get(place).map_or(&[][..], Vec::as_slice);
    let sources = || incoming.iter().filter_map(|&edge| edge_source(env, edge));
    // While something before it is at work, that will lead here anyway.
    if !sources().all(|(at, _)| quiet.get(at).copied().unwrap_or(false)) {
        return Ok(None);
    }
    let back = graph.returning.get(place).into_iter().flatten().any(|e| returning.contains(e));
    if back {
        let rests = |&inside: &usize| {
            let inside = env.definition.nodes.get(inside).and_then(|node| env.of(node));
            inside.is_none_or(|state| !state.is_busy())
        };
        let free = graph.regions.get(&place).is_none_or(|region| region.iter().all(rests));
        return Ok(free.then(|| again(env, node, state)));
    }
    if graph.entries.contains(&place) {
        return Ok(state.decided.is_none().then(|| enter(env, node)));
    }
    let fresh = sources().any(|(_, source)| source.settled > state.decided);
    if incoming.is_empty() || !fresh {
        return Ok(None);
    }
    Ok(Some(match runs(env, incoming)? {
        true => enter(env, node),
        false => vec![skip(node, "conditions")],
    }))
}

fn skip(node: &Node, reason: &str) -> NewEvent {
    plain(Event::NodeSkipped { node_id: node.id.clone(), reason: reason.to_owned() })
}

fn enter(env: &Env<'_>, node: &Node) -> Vec<NewEvent> {
    if node.disabled { vec![skip(node, "disabled")] } else { start(env, node, 0) }
}

/// The beginning of a node, or the bound that forbids it.
pub(super) fn start(env: &Env<'_>, node: &Node, attempt: u64) -> Vec<NewEvent> {
    let (limit, observed) = (env.seed.bounds.node_executions, env.state.executions + 1);
    let node_id = node.id.clone();
    if observed > limit {
        let node_id = Some(node_id);
        return vec![plain(Event::CapBreached {
            kind: Cap::NodeExecutions,
            limit,
            observed,
            node_id,
        })];
    }
    if node.kind == Some(NodeKind::RequiresMissing) {
        let message = "the node needs `conformance.never-provided`, which is not provided";
        let error = RunError::new("capability_not_provided", message);
        return fail(env, error, Some(node_id));
    }
    vec![plain(Event::NodeStarted { node_id, type_id: node.type_id.clone(), attempt })]
}

/// One more round, if there may be one.
fn again(env: &Env<'_>, node: &Node, state: &NodeState) -> Vec<NewEvent> {
    let supervises = node.kind == Some(NodeKind::Supervisor);
    let declared = node.max_loopbacks.or(env.definition.settings.max_loopback_iterations);
    let limit = match (supervises, declared) {
        (true, _) => env.seed.bounds.loop_iterations,
        (false, declared) => declared.unwrap_or(DEFAULT_LOOPBACKS),
    };
    // A supervisor counts its turns, everything else how often it was come back to.
    let observed = if supervises { state.rounds + 1 } else { state.rounds };
    if observed <= limit {
        return enter(env, node);
    }
    let node_id = node.id.clone();
    vec![plain(match supervises {
        true => {
            let node_id = Some(node_id);
            Event::CapBreached { kind: Cap::LoopIterations, limit, observed, node_id }
        }
        false => Event::LoopbackLimit { node_id, iterations: observed, limit },
    })]
}

fn edge_source<'a>(env: &Env<'a>, edge: usize) -> Option<(usize, &'a NodeState)> {
    let edge = env.definition.edges.get(edge)?;
    Some((env.definition.place(&edge.source)?, env.state.node(&edge.source)?))
}

/// Edges that lead back, whose source ended after their target was begun, and that hold.
fn fired(env: &Env<'_>) -> Judged<BTreeSet<usize>> {
    let mut found = BTreeSet::new();
    for (target, edges) in env.definition.graph.returning.iter().enumerate() {
        let target = env.definition.nodes.get(target).and_then(|node| env.of(node));
        for &edge in edges {
            let Some((_, source)) = edge_source(env, edge) else { continue };
            let later = target.is_some_and(|t| t.decided.is_some() && source.settled > t.decided);
            if later && source.is_settled() && runs(env, &[edge])? {
                found.insert(edge);
            }
        }
    }
    Ok(found)
}

/// Nodes that have ended, after everything before them had, and that lead nowhere back.
fn quiet(env: &Env<'_>, returning: &BTreeSet<usize>) -> Vec<bool> {
    let graph = &env.definition.graph;
    let mut quiet = vec![false; env.definition.nodes.len()];
    for &place in &graph.order {
        let Some(state) = env.definition.nodes.get(place).and_then(|node| env.of(node)) else {
            continue;
        };
        let mut sources = graph.incoming.get(place).into_iter().flatten();
        let before = sources.all(|&edge| {
            edge_source(env, edge).is_some_and(|(at, source)| {
                quiet.get(at).copied().unwrap_or(false) && source.settled <= state.decided
            })
        });
        let leaves = graph.outgoing.get(place).into_iter().flatten();
        let stays = leaves.clone().all(|edge| !returning.contains(edge));
        if let Some(cell) = quiet.get_mut(place) {
            *cell = state.is_settled() && before && stays;
        }
    }
    quiet
}

/// Whether the rules of these edges let their target run. A rule looks at the edges that carry it:
/// each of the `all` rules must hold, and one of the `any` rules if there are any. A node none of
/// whose edges carries something does not run.
fn runs(env: &Env<'_>, edges: &[usize]) -> Judged<bool> {
    let mut carried = Vec::new();
    for &place in edges {
        if let Some(edge) = env.definition.edges.get(place) {
            carried.push((edge.rule, carries(env, edge)?));
        }
    }
    Ok(rules_hold(&carried))
}

pub(crate) fn rules_hold(carried: &[(TriggerRule, Carried)]) -> bool {
    let of = |rule: TriggerRule| carried.iter().filter(move |(r, _)| *r == rule).map(|(_, c)| *c);
    let has = |rule| of(rule).next().is_some();
    let any = (has(TriggerRule::AnySuccess) || has(TriggerRule::AnyFailed)).then(|| {
        of(TriggerRule::AnySuccess).any(|c| c == Carried::Success)
            || of(TriggerRule::AnyFailed).any(|c| c == Carried::Failure)
    });
    carried.iter().any(|(_, c)| *c != Carried::Nothing)
        && of(TriggerRule::AllSuccess).all(|c| c == Carried::Success)
        && of(TriggerRule::NoneFailed).all(|c| c != Carried::Failure)
        && any.unwrap_or(true)
}

fn carries(env: &Env<'_>, edge: &Edge) -> Judged<Carried> {
    let Some((source, node)) = env.state.node(&edge.source).zip(env.definition.node(&edge.source))
    else {
        return Ok(Carried::Nothing);
    };
    let what = match source.phase {
        Phase::Completed => Carried::Success,
        Phase::Failed => Carried::Failure,
        _ => return Ok(Carried::Nothing),
    };
    let Some(condition) = &edge.condition else { return Ok(what) };
    match condition.holds(&scope(env, node, Some(source))) {
        Ok(true) => Ok(what),
        Ok(false) => Ok(Carried::Nothing),
        Err(why) => {
            let message = format!("the condition of the edge `{}`: {why}", edge.id);
            Err((RunError::new("condition_error", message), Some(edge.source.clone())))
        }
    }
}

/// A failure that no edge takes up.
pub(super) fn unhandled(env: &Env<'_>) -> Option<(RunError, Option<String>)> {
    for (place, node) in env.definition.nodes.iter().enumerate() {
        let Some(state) = env.of(node).filter(|state| state.phase == Phase::Failed) else {
            continue;
        };
        let edges = env.definition.graph.outgoing.get(place).into_iter().flatten();
        let takers = edges
            .filter_map(|&edge| env.definition.edges.get(edge))
            .filter(|edge| matches!(edge.rule, TriggerRule::AnyFailed | TriggerRule::AllComplete));
        let mut taken = false;
        for edge in takers {
            match carries(env, edge) {
                Ok(carried) => taken |= carried == Carried::Failure,
                Err(error) => return Some(error),
            }
        }
        if !taken {
            let unnamed = || RunError::new("node_failed", "the node failed");
            return Some((state.error.clone().unwrap_or_else(unnamed), Some(node.id.clone())));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use TriggerRule::{AllComplete, AllSuccess, AnyFailed, AnySuccess, NoneFailed};

    /// Rows: what two edges carry; columns: all_success, any_success, all_complete, none_failed,
    /// any_failed.
    #[test]
    fn trigger_rules_as_a_table() {
        use Carried::{Failure as F, Nothing as N, Success as S};
        for ((a, b), expected) in [
            ((S, S), [true, true, true, true, false]),
            ((S, F), [false, true, true, false, true]),
            ((S, N), [false, true, true, true, false]),
            ((F, F), [false, false, true, false, true]),
            ((F, N), [false, false, true, false, true]),
            ((N, N), [false, false, false, false, false]),
        ] {
            let rules = [AllSuccess, AnySuccess, AllComplete, NoneFailed, AnyFailed];
            let holds = rules.map(|rule| rules_hold(&[(rule, a), (rule, b)]));
            assert_eq!(holds, expected, "{a:?} {b:?}");
            assert_eq!(holds, rules.map(|rule| rules_hold(&[(rule, b), (rule, a)])));
        }
        assert!(rules_hold(&[(AnySuccess, N), (AnyFailed, F)]), "one of the any rules is enough");
        assert!(!rules_hold(&[(AllSuccess, N), (AnyFailed, F)]), "every all rule must hold");
    }
}
