//! What people and clients want of a run, and every reason to say no.

use countersign_model::CompiledSchema;
use serde_json::{Map, Value, json};

use super::gate::actions;
use super::{Context, Env, plain, stop};
use crate::condition::same;
use crate::definition::Definition;
use crate::event::{ApprovalAction, Event, InterruptKind, NewEvent, PausePolicy, Progress};
use crate::problem::shorten;
use crate::run::{End, OpenInterrupt, Pause, Phase, RunState, Status};
use crate::seed::Seed;
use crate::types::NodeKind;

#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `parent` when it is the end of the parent that cancels.
    Cancel {
        reason: Option<String>,
        by: Option<String>,
        parent: Option<String>,
    },
    Pause {
        policy: PausePolicy,
        reason: Option<String>,
    },
    Resume {
        reason: Option<String>,
    },
    Resolve(Resolution),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    pub target: Target,
    pub value: Value,
    pub actor: Actor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Node(String),
    Interrupt(String),
}

/// Who answers, as far as that was established.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Actor {
    pub principal: Option<String>,
    /// An agent or a service: it answers questions, and approves nothing.
    pub machine: bool,
    pub roles: Vec<String>,
    pub scopes: Vec<String>,
}

/// What a command led to. Call `advance` after the events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub events: Vec<NewEvent>,
    /// Taken in, and still waiting for others.
    pub pending: bool,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error("there is no such node or interrupt")]
    NotFound,
    #[error("the interrupt was answered already")]
    AlreadyResolved,
    #[error("the run is {}", .status.as_str())]
    RunEnded { status: Status, cascaded: bool },
    #[error("the run is {}", .status.as_str())]
    Conflict { status: Status },
    #[error("{0}")]
    Invalid(String),
    #[error("the event does not belong to what is waited for: {0}")]
    Correlation(String),
    /// The events say so in the record.
    #[error("{why}")]
    Forbidden { why: String, events: Vec<NewEvent> },
    #[error("the run has moved on")]
    Stale,
}

/// The events that follow from what somebody wants, or why it cannot be.
pub fn command(
    definition: &Definition,
    seed: &Seed,
    state: &RunState,
    command: Command,
    context: &Context,
) -> Result<Answer, Refusal> {
    let env = Env { definition, seed, state, context };
    match command {
        Command::Cancel { reason, by, parent } => Ok(cancel(&env, reason, by, parent)),
        Command::Pause { policy, reason } => pause(&env, policy, reason),
        Command::Resume { reason } => resume(&env, reason),
        Command::Resolve(resolution) => resolve(&env, &resolution),
    }
}

fn cancel(
    env: &Env<'_>,
    reason: Option<String>,
    cancelled_by: Option<String>,
    parent_run_id: Option<String>,
) -> Answer {
    if env.state.end.is_some() {
        return Answer::default();
    }
    let started = env.state.started_at.is_none().then(|| plain(super::started(env)));
    let mut events: Vec<_> = started.into_iter().chain(stop(env.state, "cancelled")).collect();
    events.push(plain(Event::RunCancelled { reason, cancelled_by, parent_run_id }));
    Answer { events, pending: false }
}

fn pause(env: &Env<'_>, policy: PausePolicy, reason: Option<String>) -> Result<Answer, Refusal> {
    let status = env.state.status();
    match (status, &env.state.pause) {
        (Status::Paused, _) => return Ok(Answer::default()),
        (Status::Running, Pause::Requested(_)) if policy == PausePolicy::DrainCurrentNode => {
            return Ok(Answer::default());
        }
        (Status::Running, _) => {}
        _ => return Err(Refusal::Conflict { status }),
    }
    if policy == PausePolicy::DrainCurrentNode {
        let events = vec![plain(Event::PauseRequested { reason })];
        return Ok(Answer { events, pending: true });
    }
    let mut events: Vec<_> = aborted(env).collect();
    events.push(plain(Event::RunPaused { reason, drain_policy: policy }));
    Ok(Answer { events, pending: false })
}

/// What is at work is stopped and begins anew later; a child goes its own way meanwhile.
fn aborted(env: &Env<'_>) -> impl Iterator<Item = NewEvent> {
    let parent = |node: &&crate::definition::Node| {
        matches!(node.kind, Some(NodeKind::SubWorkflow | NodeKind::Dispatch))
    };
    let active = |node: &&crate::definition::Node| {
        env.of(node).is_some_and(|state| state.phase == Phase::Active)
    };
    env.definition.nodes.iter().filter(active).filter(move |node| !parent(node)).map(|node| {
        plain(Event::NodeCancelled { node_id: node.id.clone(), reason: "paused".to_owned() })
    })
}

fn resume(env: &Env<'_>, reason: Option<String>) -> Result<Answer, Refusal> {
    match (&env.state.end, &env.state.pause) {
        (None, Pause::Paused(_) | Pause::Requested(_)) => Ok(Answer {
            events: vec![plain(Event::RunResumed { reason, taken_over: false })],
            pending: false,
        }),
        _ => Err(Refusal::Conflict { status: env.state.status() }),
    }
}

fn resolve(env: &Env<'_>, resolution: &Resolution) -> Result<Answer, Refusal> {
    let open = find(env, &resolution.target)?;
    // Between the question and the suspension there is nothing to answer yet.
    if env.state.node(&open.node).is_none_or(|node| node.phase != Phase::Suspended) {
        return Err(Refusal::Conflict { status: env.state.status() });
    }
    if !env.seed.bounds.admits(&resolution.value) {
        return Err(Refusal::Invalid("the answer is too large".to_owned()));
    }
    if let Some(schema) = &open.resume_schema {
        let unusable = |_| Refusal::Invalid("the schema of the answer cannot be used".to_owned());
        let schema = CompiledSchema::compile(schema).map_err(unusable)?;
        if let Some(violation) = schema.check(&resolution.value).into_iter().next() {
            return Err(Refusal::Invalid(violation.message));
        }
    }
    authorized(open, &resolution.actor)?;
    let answer = answered(open, resolution)?;
    match answer.pending && open.undecided >= most_undecided(open) {
        true => Err(Refusal::Conflict { status: env.state.status() }),
        false => Ok(answer),
    }
}

/// So many answers that decide nothing are taken down for one question. Somebody who asks or votes
/// again and again would fill the journal.
const MOST_UNDECIDED: u64 = 100;

/// Votes that the question needs come on top.
fn most_undecided(open: &OpenInterrupt) -> u64 {
    MOST_UNDECIDED.saturating_add(whole(open, "requiredApprovals").saturating_sub(1))
}

fn answered(open: &OpenInterrupt, resolution: &Resolution) -> Result<Answer, Refusal> {
    match open.kind {
        InterruptKind::Approval | InterruptKind::LowConfidence => approve(open, resolution),
        InterruptKind::Clarification => clarify(open, &resolution.value),
        InterruptKind::ExternalEvent => correlate(open, &resolution.value),
        InterruptKind::Custom => hand_in(open, &resolution.value),
        InterruptKind::Exchange => Ok(resolved(open, resolution.value.clone(), Vec::new())),
    }
}

fn find<'a>(env: &Env<'a>, target: &Target) -> Result<&'a OpenInterrupt, Refusal> {
    let matches = |node: &str, id: &str| match target {
        Target::Node(wanted) => wanted == node,
        Target::Interrupt(wanted) => wanted == id,
    };
    if let Some(open) = env.state.interrupts.iter().find(|open| matches(&open.node, &open.id)) {
        return Ok(open);
    }
    let answered = env.state.resolutions.values().any(|past| matches(&past.node, &past.id));
    let known =
        answered || matches!(target, Target::Node(node) if env.definition.node(node).is_some());
    match &env.state.end {
        _ if !known => Err(Refusal::NotFound),
        Some(End::Cancelled { parent, .. }) => {
            let cascaded = parent.is_some();
            Err(Refusal::RunEnded { status: Status::Cancelled, cascaded })
        }
        _ if answered => Err(Refusal::AlreadyResolved),
        Some(_) => Err(Refusal::RunEnded { status: env.state.status(), cascaded: false }),
        None => Err(Refusal::Conflict { status: env.state.status() }),
    }
}

/// Gates that name a role or a scope fail closed.
fn authorized(open: &OpenInterrupt, actor: &Actor) -> Result<(), Refusal> {
    let text = |name: &str| open.data.get(name).and_then(Value::as_str);
    let role = text("requiredRole").is_none_or(|role| actor.roles.iter().any(|r| r == role));
    let scope = text("requiredScope").is_none_or(|scope| actor.scopes.iter().any(|s| s == scope));
    let over =
        open.data.get("override").and_then(|o| o.get("requiredRole")).and_then(Value::as_str);
    let overrides = over.is_some_and(|role| actor.roles.iter().any(|r| r == role));
    if (role && scope) || overrides {
        return Ok(());
    }
    let why = "the role or scope that this gate asks for is missing".to_owned();
    // It is known by now, and those who may answer are not kept from it.
    if open.turned_away >= MOST_UNDECIDED {
        return Err(Refusal::Forbidden { why, events: Vec::new() });
    }
    let decided = Event::AuthorizationDecided {
        node_id: open.node.clone(),
        principal: actor.principal.clone().unwrap_or_else(|| "anonymous".to_owned()),
        action: "approve".to_owned(),
        resource: format!("gate:{}", open.node),
        allowed: false,
        reason: why.clone(),
    };
    Err(Refusal::Forbidden { why, events: vec![plain(decided)] })
}

fn resolved(open: &OpenInterrupt, value: Value, before: Vec<Event>) -> Answer {
    let event = Event::InterruptResolved {
        node_id: open.node.clone(),
        interrupt_id: open.id.clone(),
        kind: open.kind,
        resume_value: value,
    };
    let events = before.into_iter().chain([event]).map(plain).collect();
    Answer { events, pending: false }
}

/// The action, also in its older spelling.
fn action_of(value: &Value) -> Option<&str> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    text("action").or_else(|| match text("decision")? {
        "accept" | "accepted" | "approve" | "approved" => Some("accept"),
        "reject" | "rejected" | "deny" | "denied" => Some("reject"),
        other => Some(other),
    })
}

fn approve(open: &OpenInterrupt, resolution: &Resolution) -> Result<Answer, Refusal> {
    let (value, actor) = (&resolution.value, &resolution.actor);
    if actor.machine {
        let why = "a human has to answer an approval".to_owned();
        return Err(Refusal::Forbidden { why, events: Vec::new() });
    }
    let action =
        action_of(value).ok_or_else(|| Refusal::Invalid("`action` is missing".to_owned()))?;
    let mut offered = actions(&open.data);
    if open.kind == InterruptKind::LowConfidence {
        offered.extend(["accept", "reject"].map(str::to_owned));
    }
    if open.data.get("override").is_some() && action == "override" {
        return overridden(open, resolution);
    }
    if !offered.iter().any(|known| known == action) {
        let message = format!("`{}` is not one of {}", shorten(action, 40), offered.join(", "));
        return Err(Refusal::Invalid(message));
    }
    let voter = voter(open, value, actor)?;
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let kind = match action {
        "accept" => ApprovalAction::Accept,
        "reject" => ApprovalAction::Reject,
        "refine" => ApprovalAction::Refine,
        "edit-accept" => ApprovalAction::EditAccept,
        _ => return Ok(question(open, value)),
    };
    if value.get("refineFeedback").is_some_and(|feedback| !is_feedback(feedback)) {
        return Err(Refusal::Invalid(
            "`refineFeedback` needs a scope: whole, section or items".to_owned(),
        ));
    }
    let received = Event::ApprovalReceived {
        node_id: open.node.clone(),
        action: kind,
        decided_by: voter.clone(),
        decided_at: text("decidedAt"),
        feedback: text("feedback"),
        refine_feedback: value.get("refineFeedback").cloned(),
        edited_artifact_data: value.get("editedArtifactData").cloned(),
    };
    Ok(count(open, value, action, kind, voter, received))
}

fn is_feedback(value: &Value) -> bool {
    let scope = value.get("scope").and_then(Value::as_str);
    scope.is_some_and(|scope| ["whole", "section", "items"].contains(&scope))
}

/// A question back is noted; nothing is decided by it.
fn question(open: &OpenInterrupt, value: &Value) -> Answer {
    let asked = Event::LogAppended {
        level: "info".to_owned(),
        message: "a question was asked before the approval".to_owned(),
        node_id: Some(open.node.clone()),
        fields: value
            .get("question")
            .map(|q| ("question".to_owned(), q.clone()))
            .into_iter()
            .collect(),
    };
    Answer { events: vec![plain(asked)], pending: true }
}

/// Who votes. Where a gate says who may, only what was established about the caller counts; where it
/// does not, a client may name whom it asked.
fn voter(open: &OpenInterrupt, value: &Value, actor: &Actor) -> Result<Option<String>, Refusal> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let said = text("voter").or_else(|| text("decidedBy"));
    let listed = open.data.get("approversList").and_then(Value::as_array);
    let listed: Vec<&str> = listed.into_iter().flatten().filter_map(Value::as_str).collect();
    let guarded =
        ["requiredRole", "requiredScope"].iter().any(|name| open.data.get(*name).is_some());
    let known = actor.principal.clone();
    if listed.is_empty() {
        return Ok(if guarded { known } else { said.or(known) });
    }
    match known.filter(|voter| listed.contains(&voter.as_str())) {
        Some(voter) => Ok(Some(voter)),
        None => {
            let why = "only listed approvers may answer".to_owned();
            Err(Refusal::Forbidden { why, events: Vec::new() })
        }
    }
}

fn whole(open: &OpenInterrupt, name: &str) -> u64 {
    open.data.get(name).and_then(crate::definition::as_whole).unwrap_or(1).max(1)
}

/// One vote more, and what it decides.
fn count(
    open: &OpenInterrupt,
    value: &Value,
    action: &str,
    kind: ApprovalAction,
    voter: Option<String>,
    received: Event,
) -> Answer {
    let mut answer = normalised(value, action, voter.as_deref());
    let required = whole(open, "requiredApprovals");
    let governed =
        open.data.get("requiredRole").or_else(|| open.data.get("requiredScope")).is_some();
    if kind == ApprovalAction::Refine || (required == 1 && !governed) {
        return resolved(open, answer, vec![received]);
    }
    let voter = voter.unwrap_or_else(|| "anonymous".to_owned());
    let accepts = kind != ApprovalAction::Reject;
    let mut votes = open.votes.clone();
    votes.insert(voter.clone(), accepts);
    let granted = votes.values().filter(|accepts| **accepts).count() as u64;
    let rejected = votes.len() as u64 - granted;
    let vote = vote_event(open, voter, accepts, Progress { granted, required }, value);
    let majority = open.data.get("rejectionPolicy").and_then(Value::as_str) == Some("majority");
    let fatal = if majority { required / 2 + 1 } else { 1 };
    match (rejected >= fatal, granted >= required) {
        (true, _) => set(&mut answer, "action", json!("reject")),
        (_, true) => {}
        _ => return Answer { events: vec![plain(received), plain(vote)], pending: true },
    }
    resolved(open, answer, vec![received, vote])
}

fn vote_event(
    open: &OpenInterrupt,
    principal: String,
    accepts: bool,
    quorum_progress: Progress,
    value: &Value,
) -> Event {
    let gate_id = open.node.clone();
    match accepts {
        true => Event::ApprovalGranted { gate_id, principal, quorum_progress },
        false => {
            let reason = value.get("reason").or_else(|| value.get("feedback"));
            let reason = reason.and_then(Value::as_str).map(str::to_owned);
            Event::ApprovalRejected { gate_id, principal, reason }
        }
    }
}

fn set(value: &mut Value, name: &str, to: Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert(name.to_owned(), to);
    }
}

/// The answer as the node will see it: one spelling, and only what is known of approvals.
fn normalised(value: &Value, action: &str, voter: Option<&str>) -> Value {
    let known =
        ["feedback", "refineFeedback", "editedArtifactData", "decidedAt", "comment", "reason"];
    let kept =
        known.iter().filter_map(|name| Some(((*name).to_owned(), value.get(*name)?.clone())));
    let mut answer: Map<String, Value> = kept.collect();
    answer.insert("action".to_owned(), json!(action));
    answer.extend(voter.map(|voter| ("decidedBy".to_owned(), json!(voter))));
    Value::Object(answer)
}

fn overridden(open: &OpenInterrupt, resolution: &Resolution) -> Result<Answer, Refusal> {
    let role =
        open.data.get("override").and_then(|o| o.get("requiredRole")).and_then(Value::as_str);
    let may = role.is_some_and(|role| resolution.actor.roles.iter().any(|held| held == role));
    let reason = resolution.value.get("reason").and_then(Value::as_str).filter(|r| !r.is_empty());
    let (true, Some(principal)) = (may, resolution.actor.principal.clone()) else {
        let why = "only the role that the gate names may override it".to_owned();
        return Err(Refusal::Forbidden { why, events: Vec::new() });
    };
    let Some(reason) = reason else {
        return Err(Refusal::Invalid("an override needs a `reason`".to_owned()));
    };
    let answer = json!({"action": "accept", "decidedBy": principal, "reason": reason});
    let (gate_id, reason) = (open.node.clone(), reason.to_owned());
    let event = Event::ApprovalOverridden { gate_id, principal, reason };
    Ok(resolved(open, answer, vec![event]))
}

fn clarify(open: &OpenInterrupt, value: &Value) -> Result<Answer, Refusal> {
    let invalid = |message: String| Err(Refusal::Invalid(message));
    let Some(answers) = value.get("answers").and_then(Value::as_object) else {
        return invalid("`answers` is missing".to_owned());
    };
    let questions = open.data.get("questions").and_then(Value::as_array);
    let questions: Vec<_> = questions.into_iter().flatten().collect();
    let id_of = |question: &Value| question.get("id").and_then(Value::as_str).map(str::to_owned);
    for question in &questions {
        let id = id_of(question).unwrap_or_default();
        match (answers.get(&id), question.get("schema")) {
            (None, _) => return invalid(format!("the question `{id}` is not answered")),
            (Some(answer), None) if !answer.is_string() => {
                return invalid(format!("the answer to `{id}` is not a text"));
            }
            (Some(answer), Some(schema))
                if !CompiledSchema::compile(schema).is_ok_and(|s| s.is_valid(answer)) =>
            {
                return invalid(format!("the answer to `{id}` does not fit its schema"));
            }
            _ => {}
        }
    }
    let asked = |id: &String| questions.iter().any(|question| id_of(question).as_ref() == Some(id));
    match answers.keys().find(|id| !asked(id)) {
        Some(id) => invalid(format!("nobody asked `{}`", shorten(id, 40))),
        None => Ok(resolved(open, json!({"answers": answers}), Vec::new())),
    }
}

fn correlate(open: &OpenInterrupt, value: &Value) -> Result<Answer, Refusal> {
    let expected = open.data.get("correlation").and_then(Value::as_object);
    let said =
        |key: &str| value.get("correlation").and_then(|c| c.get(key)).or_else(|| value.get(key));
    for (key, expected) in expected.into_iter().flatten() {
        if !said(key).is_some_and(|said| same(said, expected)) {
            return Err(Refusal::Correlation(shorten(key, 60)));
        }
    }
    let kind = value.get("eventType").filter(|kind| open.data.get("eventType") != Some(kind));
    match kind {
        Some(_) => Err(Refusal::Correlation("eventType".to_owned())),
        None => Ok(resolved(open, value.clone(), Vec::new())),
    }
}

/// The result of an agent's stage must have what the stage promises.
fn hand_in(open: &OpenInterrupt, value: &Value) -> Result<Answer, Refusal> {
    let stage =
        open.data.get("customKind").and_then(Value::as_str) == Some("countersign.agentStage");
    if !stage {
        return Ok(resolved(open, value.clone(), Vec::new()));
    }
    match value.get("status").and_then(Value::as_str) {
        Some("failure") => {}
        Some("success") => {
            let promised = open.data.get("payload").and_then(|p| p.get("outputs")?.as_array());
            let outputs = value.get("outputs").and_then(Value::as_object);
            let missing = |name: &&Value| {
                !name.as_str().is_some_and(|name| outputs.is_some_and(|all| all.contains_key(name)))
            };
            if let Some(name) = promised.into_iter().flatten().find(missing) {
                return Err(Refusal::Invalid(format!("the output {name} is missing")));
            }
        }
        _ => return Err(Refusal::Invalid("`status` must be success or failure".to_owned())),
    }
    Ok(resolved(open, value.clone(), Vec::new()))
}
