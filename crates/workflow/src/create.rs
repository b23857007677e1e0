//! Beginning a run.

use std::sync::{Arc, PoisonError};

use countersign_flow::seed::Parent;
use countersign_flow::trace::Trace;
use countersign_flow::{Definition, NewRun, RunState, Seed, Status, create};
use countersign_journal::{Expect, Reply, ReplyKey};
use countersign_model::{Digest, Failure, Principal, RunId, RunSummary};
use serde_json::{Map, Value, json};

use crate::engine::{Engine, Step, payload};
use crate::live::{Live, replay};
use crate::trouble::Trouble;

/// What somebody asks for.
#[derive(Debug, Clone)]
pub struct Begin {
    pub workflow: String,
    pub tenant: String,
    pub principal: Principal,
    pub inputs: Map<String, Value>,
    pub configurable: Map<String, Value>,
    pub tags: Vec<String>,
    pub metadata: Map<String, Value>,
    /// The tenant wants one live run of this at a time.
    pub scope: Option<String>,
    pub transport: Option<String>,
    /// Who is told of its end.
    pub callback_url: Option<String>,
    /// Under this id, if it has one already.
    pub run: Option<RunId>,
    pub parent: Option<Parent>,
    /// The trace of whoever asks.
    pub trace: Option<Trace>,
}

impl Begin {
    pub fn new(workflow: impl Into<String>, tenant: impl Into<String>, who: Principal) -> Self {
        Begin {
            workflow: workflow.into(),
            tenant: tenant.into(),
            principal: who,
            inputs: Map::new(),
            configurable: Map::new(),
            tags: Vec::new(),
            metadata: Map::new(),
            scope: None,
            transport: None,
            callback_url: None,
            run: None,
            parent: None,
            trace: None,
        }
    }
}

/// A run that was begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub run: RunId,
    pub status: Status,
}

/// How the answer is kept that is given again to whoever asks the same again.
pub type Answering<'a> = (ReplyKey, Digest, &'a dyn Fn(&str) -> (u16, Vec<u8>));

impl Engine {
    pub fn create(&self, begin: Begin) -> Result<Begun, Trouble> {
        self.create_with(begin, None)
    }

    /// The same, with an answer that is recorded together with the run: both or neither.
    pub fn create_once(
        &self,
        begin: Begin,
        key: ReplyKey,
        request: Digest,
        answer: &dyn Fn(&str) -> (u16, Vec<u8>),
    ) -> Result<Begun, Trouble> {
        self.create_with(begin, Some((key, request, answer)))
    }

    fn create_with(
        &self,
        begin: Begin,
        answering: Option<Answering<'_>>,
    ) -> Result<Begun, Trouble> {
        let definition = self.0.library.of_tenant(&begin.workflow, &begin.tenant)?;
        let begin = self.cleaned(begin);
        let context = self.context();
        let run = begin.run.clone().map_or_else(|| self.new_id(), Ok)?;
        let scope = begin.scope.clone().map(|scope| (begin.tenant.clone(), scope));
        let (tenant, principal) = (begin.tenant.clone(), begin.principal.clone());
        let callback_url = begin.callback_url.clone();
        let new = new_run(&run, begin);
        let rules = &self.0.settings;
        let mut seed = create(&definition, new, &rules.offers, &rules.limits, context.now)?;
        seed.callback_url = callback_url;
        self.0.library.keep(&definition, &self.0.host.home().blobs)?;
        let mut step = Step::of(Vec::new());
        let dedup = scope.clone();
        step.expect.extend(dedup.map(|(tenant, scope)| Expect::ScopeFree { tenant, scope }));
        step.reply = answering.map(|(key, request, answer)| {
            let (status, body) = answer(run.as_str());
            Reply { key, request, at: context.now, status, body }
        });
        let owner = Owner { tenant, principal, scope: scope.map(|(_, scope)| scope) };
        self.begin(definition, seed, owner, step)
    }

    /// What a run is begun with is shown and kept, so no credential may be in it.
    fn cleaned(&self, mut begin: Begin) -> Begin {
        let members = [&mut begin.inputs, &mut begin.configurable, &mut begin.metadata];
        for value in members.into_iter().flat_map(Map::values_mut) {
            self.clean(value);
        }
        for tag in &mut begin.tags {
            let mut text = Value::String(std::mem::take(tag));
            self.clean(&mut text);
            *tag = text.as_str().unwrap_or_default().to_owned();
        }
        begin
    }

    /// Records the first events of a run, as far as it goes by itself.
    pub(crate) fn begin(
        &self,
        definition: Arc<Definition>,
        seed: Seed,
        owner: Owner,
        mut step: Step,
    ) -> Result<Begun, Trouble> {
        let run: RunId = seed.run_id.parse()?;
        let context = self.context();
        let kept = payload(&seed)?;
        let summary = RunSummary {
            created_at: seed.created_at,
            definition: definition.digest(),
            ended_at: None,
            events: 0,
            holder: None,
            parent: seed.parent.as_ref().map(|parent| parent.run_id.parse()).transpose()?,
            principal: owner.principal,
            run: run.clone(),
            scope: owner.scope,
            seed: kept.0,
            status: Status::Pending.as_str().to_owned(),
            tenant: owner.tenant,
            updated_at: context.now,
            wake_at: None,
            workflow: definition.id.clone(),
        };
        step.seed = Some(kept);
        let state = RunState::new(&definition, &seed);
        let replay = replay(&self.0.host, &seed, &[])?;
        let seed = Arc::new(seed);
        let live = Live { summary, definition, seed, state, events: Vec::new(), replay };
        let slot = self.slot(&run);
        let mut held = slot.live.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, work) = match self.record(live, step, &context) {
            Ok(recorded) => recorded,
            Err(trouble) => {
                drop(held);
                self.forget(&run);
                return Err(trouble);
            }
        };
        let (status, ended) = (live.status(), live.state.end.is_some());
        *held = Some(live);
        drop(held);
        self.act(&run, &slot, work, ended);
        Ok(Begun { run, status })
    }

    /// Named in the order of time, so that listing and storing go by it.
    pub(crate) fn new_id(&self) -> Result<RunId, Failure> {
        format!("run-{}", self.0.host.clock().new_id()).parse()
    }
}

/// Whose run it is.
pub(crate) struct Owner {
    pub(crate) tenant: String,
    pub(crate) principal: Principal,
    pub(crate) scope: Option<String>,
}

/// The same, as it is shown.
pub(crate) fn owner(tenant: &str, principal: &Principal) -> Value {
    json!({"tenant": tenant, "principal": principal.to_string()})
}

fn new_run(run: &RunId, begin: Begin) -> NewRun {
    let owner = owner(&begin.tenant, &begin.principal);
    NewRun {
        run_id: run.to_string(),
        inputs: begin.inputs,
        configurable: begin.configurable,
        tags: begin.tags,
        metadata: begin.metadata,
        owner: Some(owner),
        transport: begin.transport,
        parent: begin.parent,
        trace: begin.trace,
    }
}
