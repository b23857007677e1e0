//! A host in memory: it does what decisions ask for, and holds every event against the published
//! schemas.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::needless_pass_by_value, reason = "values are written where they are used")]

pub(crate) mod schemas;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use countersign_flow::decide::{
    Actor, Answer, ChildEnd, Command, Context, Decision, ModelReply, Outcome, Refusal, Resolution,
    Target, Work, Written, advance, command, deadline, settle,
};
use countersign_flow::event::{NewEvent, RunEvent, seal, wire};
use countersign_flow::run::{End, RunState, Status};
use countersign_flow::seed::{CreateRefusal, Limits, NewRun, Seed, create};
use countersign_flow::view::{ChildView, snapshot};
use countersign_flow::{Definition, Offers, Replay};
use countersign_model::Timestamp;
use serde_json::{Map, Value, json};

/// Where the published schemas and fixtures are, if they are on this machine.
pub(crate) fn shared() -> Option<PathBuf> {
    let named = std::env::var_os("COUNTERSIGN_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = named.unwrap_or_else(beside).join("openwop");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: the published schemas and fixtures are not on this machine");
    None
}

pub(crate) fn fixtures() -> Option<BTreeMap<String, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(shared()?.join("fixtures")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.insert(name, std::fs::read(path).unwrap());
        }
    }
    Some(found)
}

pub(crate) struct Run {
    pub(crate) seed: Seed,
    pub(crate) state: RunState,
    pub(crate) events: Vec<RunEvent>,
    pub(crate) replay: Option<Replay>,
}

pub(crate) type Tool = Box<dyn FnMut(&Work) -> Outcome>;

pub(crate) struct World {
    pub(crate) definitions: BTreeMap<String, Definition>,
    pub(crate) offers: Offers,
    pub(crate) limits: Limits,
    pub(crate) now: i64,
    pub(crate) runs: BTreeMap<String, Run>,
    pub(crate) replies: VecDeque<ModelReply>,
    pub(crate) tool: Tool,
    pub(crate) done: Vec<Work>,
    /// Which events of which run one decision made, and when.
    pub(crate) decisions: Vec<(String, usize, usize, i64)>,
}

impl World {
    pub(crate) fn new(definitions: impl IntoIterator<Item = Definition>) -> Self {
        World {
            definitions: definitions.into_iter().map(|d| (d.id.clone(), d)).collect(),
            offers: Offers::conformance(),
            limits: Limits::default(),
            now: 1_770_000_000_000,
            runs: BTreeMap::new(),
            replies: VecDeque::new(),
            tool: Box::new(|_| completed(json!({"ok": true}))),
            done: Vec::new(),
            decisions: Vec::new(),
        }
    }

    pub(crate) fn of(values: impl IntoIterator<Item = Value>) -> Self {
        Self::new(values.into_iter().map(|value| Definition::of(value).unwrap()))
    }

    pub(crate) fn context(&self) -> Context {
        Context { now: Timestamp::from_millis(self.now), offers: self.offers.clone() }
    }

    pub(crate) fn create(
        &mut self,
        workflow: &str,
        inputs: Value,
        configurable: Value,
    ) -> Result<String, CreateRefusal> {
        let id = format!("run-{}", self.runs.len());
        let new = NewRun {
            run_id: id.clone(),
            inputs: object(inputs),
            configurable: object(configurable),
            owner: Some(json!({"tenant": "t1"})),
            transport: Some("rest".to_owned()),
            ..NewRun::default()
        };
        self.insert(workflow, new)?;
        Ok(id)
    }

    fn insert(&mut self, workflow: &str, new: NewRun) -> Result<(), CreateRefusal> {
        let definition = &self.definitions[workflow];
        let now = Timestamp::from_millis(self.now);
        let seed = create(definition, new, &self.offers, &self.limits, now)?;
        let state = RunState::new(definition, &seed);
        let id = seed.run_id.clone();
        self.runs.insert(id, Run { seed, state, events: Vec::new(), replay: None });
        Ok(())
    }

    /// Creates a run and goes on until nothing moves but time.
    pub(crate) fn start(&mut self, workflow: &str, inputs: Value, configurable: Value) -> String {
        let id = self.create(workflow, inputs, configurable).unwrap();
        self.pump();
        id
    }

    pub(crate) fn run(&self, id: &str) -> &Run {
        &self.runs[id]
    }

    pub(crate) fn definition(&self, id: &str) -> &Definition {
        &self.definitions[&self.run(id).seed.workflow_id]
    }

    pub(crate) fn status(&self, id: &str) -> Status {
        self.run(id).state.status()
    }

    pub(crate) fn snapshot(&self, id: &str) -> Value {
        let run = self.run(id);
        let view =
            |run_id: &str| ChildView { run_id: run_id.to_owned(), status: self.status(run_id) };
        let children: Vec<_> =
            run.state.children.iter().filter_map(|c| c.run.as_deref()).map(view).collect();
        snapshot(self.definition(id), &run.seed, &run.state, &children)
    }

    pub(crate) fn append(&mut self, id: &str, events: Vec<NewEvent>) {
        let run = self.runs.get_mut(id).unwrap();
        let definition = &self.definitions[&run.seed.workflow_id];
        let mut told = None;
        for event in seal(run.state.next, events, Timestamp::from_millis(self.now)) {
            // What is stored is what is read.
            let stored = serde_json::to_string(&event).unwrap();
            assert_eq!(event, serde_json::from_str::<RunEvent>(&stored).unwrap(), "{stored}");
            schemas::check(&wire(definition, id, &event));
            run.state.apply(&event).unwrap();
            run.events.push(event.clone());
            told = told.or(run.replay.as_mut().and_then(|replay| replay.observe(&event)));
        }
        let told = told.filter(|_| run.state.end.is_none());
        if told.is_some() {
            self.append(id, told.into_iter().collect());
        }
    }

    fn decide(&self, id: &str) -> Decision {
        let run = self.run(id);
        advance(self.definition(id), &run.seed, &run.state, &self.context())
    }

    fn advance(&mut self, id: &str) -> (bool, Vec<Work>) {
        let Decision { events, work, fault } = self.decide(id);
        assert_eq!(fault, None);
        let (from, count) = (self.run(id).events.len(), events.len());
        self.decisions.push((id.to_owned(), from, from + count, self.now));
        self.append(id, events);
        (count > 0, work)
    }

    /// One round over all runs; whether anything happened.
    pub(crate) fn pump_once(&mut self) -> bool {
        let mut moved = false;
        for id in self.runs.keys().cloned().collect::<Vec<_>>() {
            let (advanced, work) = self.advance(&id);
            moved |= advanced;
            if self.replay(&id, &work) {
                moved = true;
                continue;
            }
            for work in work {
                moved |= self.perform(&id, work);
            }
        }
        moved
    }

    pub(crate) fn pump(&mut self) {
        for _ in 0..1000 {
            if !self.pump_once() {
                return;
            }
        }
        panic!("the runs never rest");
    }

    /// Lets time pass until every run has ended or waits for people.
    pub(crate) fn run_out(&mut self) {
        for _ in 0..200 {
            self.pump();
            let due = |run: &Run| {
                let waits = run.state.status() != Status::Running;
                (!waits).then(|| {
                    deadline(&self.definitions[&run.seed.workflow_id], &run.seed, &run.state)
                })?
            };
            match self.runs.values().filter_map(due).min() {
                Some(at) => self.now = self.now.max(at.as_millis()),
                None => return,
            }
        }
        panic!("time does not help");
    }

    /// What the source of a replay recorded, if it did.
    fn replay(&mut self, id: &str, work: &[Work]) -> bool {
        let run = self.run(id);
        let events = run.replay.as_ref().and_then(|replay| replay.step(&run.state, work));
        events.is_some_and(|events| {
            self.append(id, events);
            true
        })
    }

    fn perform(&mut self, id: &str, work: Work) -> bool {
        let outcome = match &work {
            Work::Delay { .. } if self.run(id).replay.is_some() => Outcome::Elapsed,
            Work::Delay { .. } => return false,
            Work::CancelChild { run_id } => {
                let reason = Some("parent-cancelled".to_owned());
                let cancel = Command::Cancel { reason, by: None, parent: Some(id.to_owned()) };
                return !self.command(run_id, cancel).unwrap().events.is_empty();
            }
            Work::Child { key, run_id, workflow, inputs } => {
                let parent = self.run(id).seed.parent_of(&key.node);
                let (run_id, parent) = (run_id.clone(), Some(parent));
                let new = NewRun {
                    run_id: run_id.clone(),
                    inputs: inputs.clone(),
                    parent,
                    ..NewRun::default()
                };
                match self.definitions.contains_key(workflow) && self.insert(workflow, new).is_ok()
                {
                    true => Outcome::ChildStarted { run_id },
                    false => Outcome::ChildRefused(error("child_refused")),
                }
            }
            Work::Await { run_id, .. } => match self.child_end(run_id) {
                Some(end) => Outcome::ChildEnded(end),
                None => return false,
            },
            Work::Model { .. } => match self.replies.pop_front() {
                Some(reply) => Outcome::Replied(reply),
                None => return false,
            },
            Work::Call { .. } => (self.tool)(&work),
            Work::Memory { action, .. } => Outcome::Remembered {
                written: vec![Written {
                    memory_ref: "some/memory".to_owned(),
                    id: format!("{id}-entry"),
                    tags: vec!["kept".to_owned()],
                }],
                variables: object(json!({"memoryReadback": {"action": action}})),
            },
            Work::Secret { .. } => completed(json!({"length": 3})),
        };
        let key = work.key().unwrap().clone();
        self.done.push(work);
        self.settle(id, key, outcome).is_ok()
    }

    fn child_end(&self, id: &str) -> Option<ChildEnd> {
        let state = &self.run(id).state;
        let variables = state.variables.clone().into_iter().collect();
        let error = match state.end.as_ref()? {
            End::Failed(error, _) => Some(error.clone()),
            _ => None,
        };
        Some(ChildEnd { status: state.status(), variables, error })
    }

    pub(crate) fn settle(
        &mut self,
        id: &str,
        key: countersign_flow::decide::WorkKey,
        outcome: Outcome,
    ) -> Result<(), Refusal> {
        let run = self.run(id);
        let context = self.context();
        let events = settle(self.definition(id), &run.seed, &run.state, &key, outcome, &context)?;
        self.append(id, events);
        // What follows is decided before anything else comes in.
        self.advance(id);
        Ok(())
    }

    pub(crate) fn command(&mut self, id: &str, wanted: Command) -> Result<Answer, Refusal> {
        let run = self.run(id);
        let answer = command(self.definition(id), &run.seed, &run.state, wanted, &self.context())?;
        self.append(id, answer.events.clone());
        Ok(answer)
    }

    pub(crate) fn resolve(
        &mut self,
        id: &str,
        node: &str,
        value: Value,
    ) -> Result<Answer, Refusal> {
        let target = Target::Node(node.to_owned());
        let resolution = Resolution { target, value, actor: Actor::default() };
        let answer = self.command(id, Command::Resolve(resolution))?;
        self.pump();
        Ok(answer)
    }

    /// Types of the events on the wire.
    pub(crate) fn types(&self, id: &str) -> Vec<String> {
        self.wire(id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn wire(&self, id: &str) -> Vec<Value> {
        let run = self.run(id);
        run.events.iter().map(|event| wire(self.definition(id), id, event)).collect()
    }

    pub(crate) fn count(&self, id: &str, kind: &str) -> usize {
        self.types(id).iter().filter(|found| *found == kind).count()
    }

    pub(crate) fn payload(&self, id: &str, kind: &str) -> Value {
        let found = self.wire(id).into_iter().find(|event| event["type"] == kind);
        found.unwrap_or_else(|| panic!("no {kind} in {:?}", self.types(id)))["payload"].clone()
    }
}

/// A crash in the middle of any decision that a test made: the rest of it is decided again, and the
/// same. Checked at the end of every test.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for (id, from, to, now) in &self.decisions {
            let (definition, run) = (self.definition(id), self.run(id));
            let context =
                Context { now: Timestamp::from_millis(*now), offers: self.offers.clone() };
            let mut state = RunState::new(definition, &run.seed);
            run.events[..*from].iter().for_each(|event| state.apply(event).unwrap());
            for place in *from..=*to {
                let rest = advance(definition, &run.seed, &state, &context);
                let rest: Vec<_> =
                    rest.events.into_iter().map(|new| (new.cause, new.event)).collect();
                let then = run.events[place..*to].iter();
                let then: Vec<_> = then.map(|event| (event.cause, event.event.clone())).collect();
                assert_eq!(rest, then, "{id}: from {place} of {from}..{to}");
                run.events[place..].iter().take(1).for_each(|event| {
                    let _ = state.apply(event);
                });
            }
        }
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

pub(crate) fn completed(outputs: Value) -> Outcome {
    Outcome::Completed { outputs: object(outputs), variables: Map::new() }
}

pub(crate) fn error(code: &str) -> countersign_flow::event::RunError {
    countersign_flow::event::RunError::new(code, "made by the test")
}

/// A definition around nodes and edges.
pub(crate) fn workflow(id: &str, nodes: Value, edges: Value) -> Value {
    json!({
        "id": id, "name": id, "version": "1.0", "nodes": nodes, "edges": edges,
        "triggers": [{"id": "manual", "type": "manual"}], "variables": [],
        "metadata": {}, "settings": {},
    })
}

pub(crate) fn node(id: &str, type_id: &str, config: Value) -> Value {
    json!({"id": id, "typeId": type_id, "name": id, "position": {"x": 0, "y": 0},
        "config": config, "inputs": {}})
}

pub(crate) fn edge(from: &str, to: &str) -> Value {
    json!({"id": format!("{from}-{to}"), "sourceNodeId": from, "targetNodeId": to})
}
