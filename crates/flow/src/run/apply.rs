//! One event after the other. What cannot follow is refused, so that a log that was tampered with
//! or written by two engines at once is noticed where it goes wrong.

use serde_json::Value;

use super::{
    Child, Cost, Doom, End, LastDecision, NodeState, OpenInterrupt, Pause, Phase, Resolved,
    RunState,
};
use crate::channel::{Write, fold};
use crate::event::{ApprovalAction, Cap, ChainPhase, Event, RunError, RunEvent};

/// An event that cannot follow what was before it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {sequence} cannot follow: {why}")]
pub struct Impossible {
    pub sequence: u64,
    pub why: String,
}

type Applied = Result<(), String>;

impl RunState {
    pub fn apply(&mut self, event: &RunEvent) -> Result<(), Impossible> {
        let refused = |why: String| Impossible { sequence: event.sequence, why };
        self.in_order(event).map_err(refused)?;
        self.count_progress(&event.event);
        self.count_answers(&event.event);
        self.fold(event).map_err(refused)?;
        self.next = event.sequence.saturating_add(1);
        Ok(())
    }

    fn in_order(&self, event: &RunEvent) -> Applied {
        let started = matches!(event.event, Event::RunStarted { .. });
        if event.sequence != self.next {
            return Err(format!("{} was expected", self.next));
        }
        if self.end.is_some() {
            return Err("the run has ended".to_owned());
        }
        match (self.started_at, started) {
            (None, false) => Err("the run has not begun".to_owned()),
            (Some(_), true) => Err("the run has begun already".to_owned()),
            _ => Ok(()),
        }
    }

    /// Steps of a node that is at work or waits, so that it can go on in the middle.
    fn count_progress(&mut self, event: &Event) {
        let Some(node) = event.node_id().and_then(|node| self.nodes.get_mut(node)) else { return };
        match node.phase {
            Phase::Active => node.progress = node.progress.saturating_add(1),
            Phase::Suspended => node.heard = node.heard.saturating_add(1),
            _ => {}
        }
    }

    /// What is said about an open question without an end of it.
    fn count_answers(&mut self, event: &Event) {
        let (node, may) = match event {
            Event::ApprovalReceived { node_id, .. } => (node_id, true),
            Event::LogAppended { node_id: Some(node_id), .. } => (node_id, true),
            Event::AuthorizationDecided { node_id, allowed: false, .. } => (node_id, false),
            _ => return,
        };
        let open = self.interrupts.iter_mut().find(|open| open.node == *node);
        if let Some(open) = open {
            let counted = if may { &mut open.undecided } else { &mut open.turned_away };
            *counted = counted.saturating_add(1);
        }
    }

    fn busy(&mut self, id: &str, phases: &[Phase]) -> Result<&mut NodeState, String> {
        let node = self.nodes.get_mut(id).ok_or_else(|| format!("there is no node `{id}`"))?;
        let phase = node.phase;
        match phases.contains(&phase) {
            true => Ok(node),
            false => Err(format!("the node `{id}` is {phase:?}")),
        }
    }

    fn fold(&mut self, event: &RunEvent) -> Applied {
        match &event.event {
            Event::RunStarted { .. } => self.started_at = Some(event.at),
            Event::RunCompleted { outputs } => {
                self.finish(event, End::Completed(outputs.clone()))?
            }
            Event::RunFailed { error, failed_node_id } => {
                self.finish(event, End::Failed(error.clone(), failed_node_id.clone()))?;
            }
            Event::RunCancelled { reason, cancelled_by, parent_run_id } => {
                let (reason, by, parent) =
                    (reason.clone(), cancelled_by.clone(), parent_run_id.clone());
                self.finish(event, End::Cancelled { reason, by, parent })?;
            }
            Event::PauseRequested { reason } => self.pause = Pause::Requested(reason.clone()),
            Event::RunPaused { .. } => self.pause = Pause::Paused(event.at),
            // A pause that was asked for is still to come.
            Event::RunResumed { taken_over: true, .. } => {}
            Event::RunResumed { .. } => self.pause = Pause::No,
            Event::ReplayDiverged { .. } => self.diverged = true,
            other => return self.fold_node(event, other),
        }
        Ok(())
    }

    fn finish(&mut self, event: &RunEvent, end: End) -> Applied {
        let busy = self.nodes.iter().find(|(_, node)| node.is_busy());
        if let Some((id, _)) = busy {
            return Err(format!("the node `{id}` is still at work"));
        }
        (self.end, self.ended_at, self.pause) = (Some(end), Some(event.at), Pause::No);
        Ok(())
    }

    fn fold_node(&mut self, event: &RunEvent, what: &Event) -> Applied {
        match what {
            Event::NodeStarted { node_id, attempt, .. } => self.begin(event, node_id, *attempt)?,
            Event::NodeCompleted { node_id, outputs } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                settle(node, Phase::Completed, event.sequence);
                node.outputs.clone_from(outputs);
                let end = outputs.get("childStatus").and_then(Value::as_str);
                let ended = end.filter(|end| ["completed", "failed", "cancelled"].contains(end));
                self.child_ended(node_id, ended);
            }
            Event::NodeFailed { node_id, error } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                settle(node, Phase::Failed, event.sequence);
                node.error = Some(error.clone());
                self.child_ended(node_id, Some("failed"));
            }
            Event::NodeRetried { node_id, attempt, last_error } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                (node.phase, node.attempt) = (Phase::Retrying, *attempt);
                node.error = Some(last_error.clone());
            }
            Event::NodeSkipped { node_id, .. } => self.skip(event, node_id)?,
            Event::NodeCancelled { node_id, .. } => self.cancel(node_id)?,
            Event::NodeSuspended { node_id, .. } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                node.phase = Phase::Suspended;
                node.asked = node.asked.saturating_add(1);
                node.heard = 0;
            }
            Event::NodeResumed { node_id, .. } => {
                let node = self.busy(node_id, &[Phase::Suspended])?;
                let answer = node.answer.take().ok_or("nothing was answered")?;
                (node.phase, node.resumed, node.progress) = (Phase::Active, Some(answer), 0);
            }
            other => return self.fold_interrupt(event, other),
        }
        Ok(())
    }

    /// A node that waited for its child has ended, so the child has.
    fn child_ended(&mut self, node: &str, end: Option<&str>) {
        let (round, Some(end)) = (self.round(node), end) else { return };
        let open = |child: &&mut Child| child.is_of(node, round) && child.end.is_none();
        self.children.iter_mut().filter(open).for_each(|child| child.end = Some(end.to_owned()));
    }

    fn begin(&mut self, event: &RunEvent, id: &str, attempt: u64) -> Applied {
        let again = self.nodes.get(id).is_some_and(|node| node.phase == Phase::Retrying);
        let idle = [Phase::Idle, Phase::Completed, Phase::Failed, Phase::Skipped, Phase::Cancelled];
        let node = self.busy(id, if again { &[Phase::Retrying] } else { &idle })?;
        if !again {
            node.rounds = node.rounds.saturating_add(1);
            node.decided = Some(event.sequence);
        }
        node.phase = Phase::Active;
        node.attempt = attempt;
        (node.started_at, node.settled, node.error) = (Some(event.at), None, None);
        (node.progress, node.asked, node.turns, node.coerced) = (0, 0, 0, false);
        (node.cut_off, node.corrected) = (0, false);
        (node.answer, node.resumed) = (None, None);
        node.outputs.clear();
        self.executions = self.executions.saturating_add(1);
        self.current = Some(id.to_owned());
        Ok(())
    }

    fn skip(&mut self, event: &RunEvent, id: &str) -> Applied {
        let idle = [Phase::Idle, Phase::Completed, Phase::Failed, Phase::Skipped, Phase::Cancelled];
        let node = self.busy(id, &idle)?;
        settle(node, Phase::Skipped, event.sequence);
        node.decided = Some(event.sequence);
        node.outputs.clear();
        node.error = None;
        Ok(())
    }

    /// As if it had not been begun: after a pause it begins anew.
    fn cancel(&mut self, id: &str) -> Applied {
        let node = self.busy(id, &[Phase::Active, Phase::Suspended, Phase::Retrying])?;
        let rounds = node.rounds.saturating_sub(1);
        *node = NodeState { phase: Phase::Cancelled, rounds, ..NodeState::default() };
        self.interrupts.retain(|open| open.node != id);
        let mine = self.children.iter_mut().filter(|child| child.is_of(id, rounds + 1));
        mine.for_each(|child| child.abandoned = true);
        Ok(())
    }

    fn fold_interrupt(&mut self, event: &RunEvent, what: &Event) -> Applied {
        match what {
            Event::InterruptRequested { .. } => self.ask(event, what)?,
            Event::InterruptResolved { node_id, interrupt_id, kind, resume_value } => {
                let place = self.interrupts.iter().position(|open| open.id == *interrupt_id);
                let open = self.interrupts.remove(place.ok_or("that interrupt is not open")?);
                let (id, node) = (interrupt_id.clone(), node_id.clone());
                let resolved = Resolved { id, node, kind: *kind, value: resume_value.clone() };
                self.resolutions.insert(open.key, resolved);
                self.busy(node_id, &[Phase::Suspended])?.answer = Some(resume_value.clone());
            }
            Event::ApprovalReceived { node_id, action: ApprovalAction::Timeout, .. } => {
                let open = self.interrupts.iter_mut().find(|open| open.node == *node_id);
                open.ok_or("nobody was asked")?.expired = true;
            }
            Event::ApprovalGranted { gate_id, principal, .. } => {
                self.vote(gate_id, principal, true)?
            }
            Event::ApprovalRejected { gate_id, principal, .. } => {
                self.vote(gate_id, principal, false)?;
            }
            other => return self.fold_values(event, other),
        }
        Ok(())
    }

    fn ask(&mut self, event: &RunEvent, what: &Event) -> Applied {
        let Event::InterruptRequested { node_id, kind, key, data, resume_schema, timeout_ms } =
            what
        else {
            return Ok(());
        };
        if self.interrupts.iter().any(|open| open.node == *node_id) {
            return Err(format!("the node `{node_id}` asks already"));
        }
        let id = self.busy(node_id, &[Phase::Active]).map(|node| interrupt_id(node_id, node))?;
        let expires = timeout_ms.filter(|&ms| ms > 0).and_then(|ms| i64::try_from(ms).ok());
        self.interrupts.push(OpenInterrupt {
            id,
            node: node_id.clone(),
            kind: *kind,
            key: key.clone(),
            data: data.clone(),
            resume_schema: resume_schema.clone(),
            requested_at: event.at,
            expires_at: expires.map(|ms| event.at.plus_millis(ms)),
            votes: Default::default(),
            expired: false,
            undecided: 0,
            turned_away: 0,
        });
        Ok(())
    }

    fn vote(&mut self, node: &str, principal: &str, accepts: bool) -> Applied {
        let open = self.interrupts.iter_mut().find(|open| open.node == node);
        let open = open.ok_or("nobody was asked")?;
        open.votes.insert(principal.to_owned(), accepts);
        Ok(())
    }

    fn fold_values(&mut self, event: &RunEvent, what: &Event) -> Applied {
        match what {
            Event::VariableChanged { name, next, .. } => {
                self.variables.insert(name.clone(), next.clone());
            }
            Event::ChannelWritten { channel, value, reducer, ttl_ms, max_size, .. } => {
                let (at, ttl_ms, max_size) = (event.at.as_millis(), *ttl_ms, *max_size);
                let write = Write { reducer, value, at, ttl_ms, max_size };
                let state = fold(self.channels.get(channel), &write).map_err(|e| e.to_string())?;
                self.channels.insert(channel.clone(), state);
            }
            Event::CapBreached { kind: Cap::Schema, .. } => {}
            Event::CapBreached { kind, node_id, limit, .. } => {
                self.doom = Some(Doom { error: breach(*kind, *limit), node: node_id.clone() });
            }
            Event::LoopbackLimit { node_id, limit, .. } => {
                let error = breach(Cap::LoopIterations, *limit);
                self.doom = Some(Doom { error, node: Some(node_id.clone()) });
            }
            Event::ProviderUsage { .. } => self.spend(what),
            other => return self.fold_work(event, other),
        }
        Ok(())
    }

    fn spend(&mut self, what: &Event) {
        let Event::ProviderUsage {
            provider,
            model,
            input_tokens,
            output_tokens,
            cost_estimate_usd,
            ..
        } = what
        else {
            return;
        };
        let cost = self.cost.get_or_insert_with(Cost::default);
        cost.usd += cost_estimate_usd.unwrap_or_default();
        cost.input_tokens = cost.input_tokens.saturating_add(*input_tokens);
        cost.output_tokens = cost.output_tokens.saturating_add(*output_tokens);
        (cost.provider, cost.model) = (provider.clone(), model.clone());
    }

    fn fold_work(&mut self, event: &RunEvent, what: &Event) -> Applied {
        match what {
            Event::OrchestratorDecided { node_id, decision, iteration, .. } => {
                let (sequence, node) = (event.sequence, node_id.clone());
                let (decision, iteration) = (decision.clone(), *iteration);
                self.decision = Some(LastDecision { sequence, node, decision, iteration });
            }
            Event::ChainEvent { node_id, phase, worker_id, child_run_id, .. } => {
                self.chain(node_id, *phase, worker_id, child_run_id.as_deref());
            }
            Event::NodeDispatched { node_id, child_run_id, child_workflow_id, .. } => {
                self.dispatched(node_id, child_run_id, child_workflow_id);
            }
            Event::ConversationExchanged { node_id, .. } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                node.turns = node.turns.saturating_add(1);
            }
            Event::EnvelopeRetry { node_id, attempt, reason } => {
                let node = self.busy(node_id, &[Phase::Active])?;
                node.turns = attempt.saturating_sub(1);
                node.corrected = reason != "truncation";
                node.cut_off = node.cut_off.saturating_add(u64::from(!node.corrected));
            }
            Event::EnvelopeCoerced { node_id, .. } => {
                self.busy(node_id, &[Phase::Active])?.coerced = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn round(&self, node: &str) -> u64 {
        self.nodes.get(node).map_or(0, |state| state.rounds)
    }

    fn chain(&mut self, node: &str, phase: ChainPhase, worker: &str, run: Option<&str>) {
        let round = self.round(node);
        let end = match phase {
            ChainPhase::Began => {
                let (node, workflow) = (node.to_owned(), worker.to_owned());
                return self.children.push(Child {
                    node,
                    round,
                    workflow,
                    run: None,
                    end: None,
                    abandoned: false,
                });
            }
            ChainPhase::Failed => "refused",
            ChainPhase::ChildCompleted => "completed",
            ChainPhase::ChildFailed => "failed",
            ChainPhase::ChildCancelled => "cancelled",
            ChainPhase::Succeeded | ChainPhase::Harvested => return,
        };
        let mine = |child: &&mut Child| {
            child.is_of(node, round) && child.end.is_none() && child.run.as_deref() == run
        };
        if let Some(child) = self.children.iter_mut().find(mine) {
            child.end = Some(end.to_owned());
        }
    }

    /// A dispatcher has announced its child before; a sub-workflow is announced by this.
    fn dispatched(&mut self, node: &str, run: &str, workflow: &str) {
        let round = self.round(node);
        let announced = |child: &&mut Child| {
            child.is_of(node, round) && child.run.is_none() && child.end.is_none()
        };
        match self.children.iter_mut().find(announced) {
            Some(child) => child.run = Some(run.to_owned()),
            None => self.children.push(Child {
                node: node.to_owned(),
                round,
                workflow: workflow.to_owned(),
                run: Some(run.to_owned()),
                end: None,
                abandoned: false,
            }),
        }
    }
}

fn settle(node: &mut NodeState, phase: Phase, sequence: u64) {
    (node.phase, node.settled) = (phase, Some(sequence));
}

/// The same in every fork, and different for every question of a run.
pub(crate) fn interrupt_id(id: &str, node: &NodeState) -> String {
    format!("{id}-{}-{}-{}", node.rounds, node.attempt, node.asked)
}

fn breach(kind: Cap, limit: u64) -> RunError {
    let (code, message) = match kind {
        Cap::NodeExecutions => {
            ("recursion_limit_exceeded", format!("more than {limit} node executions"))
        }
        Cap::RunDuration => ("run_timeout", format!("the run took more than {limit} ms")),
        Cap::LoopIterations => {
            ("loop_limit_exceeded", format!("more than {limit} iterations of a loop"))
        }
        Cap::Schema => ("envelope_payload_invalid", format!("more than {limit} replies")),
    };
    let mut error = RunError::new(code, message);
    error.details = Value::from_iter([("limit", Value::from(limit))]).as_object().cloned();
    error
}
