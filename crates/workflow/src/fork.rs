//! Forks, and what a replay goes by.

use countersign_flow::diff::{Side, diff};
use countersign_flow::fork::{ForkRequest, fork};
use countersign_flow::trace::Trace;
use countersign_journal::Reply;
use countersign_model::{Principal, RunId};
use serde_json::Value;

use crate::create::{Answering, Begun, Owner, owner};
use crate::engine::{Engine, Step};
use crate::live::events;
use crate::trouble::Trouble;

/// Who forks a run.
pub struct Forker<'a> {
    pub principal: Principal,
    /// Theirs, if they are in one.
    pub trace: Option<Trace>,
    /// How the answer is kept that is given again to whoever asks the same again.
    pub answering: Option<Answering<'a>>,
}

impl Forker<'_> {
    pub fn new(principal: Principal) -> Self {
        Forker { principal, trace: None, answering: None }
    }
}

impl std::fmt::Debug for Forker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forker").field("principal", &self.principal).finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins a run with the past of another. It is the run of whoever asks: what it does from there
    /// on, it does with their rights.
    pub fn fork(
        &self,
        source: &RunId,
        mut request: ForkRequest,
        by: Forker<'_>,
    ) -> Result<Begun, Trouble> {
        let view = self.view(source)?;
        request.overlay.values_mut().for_each(|value| {
            self.clean(value);
        });
        let past = events(&self.0.host, source, 0)?;
        request.run_id = self.new_id()?.to_string();
        let rules = &self.0.settings;
        let now = self.0.host.clock().now();
        let mut made = fork(
            &view.definition,
            (&view.seed, &past),
            request,
            (&rules.offers, &rules.limits),
            now,
        )?;
        made.seed.trace = by.trace.or(made.seed.trace);
        made.seed.owner = Some(owner(&view.summary.tenant, &by.principal));
        let owner =
            Owner { tenant: view.summary.tenant.clone(), principal: by.principal, scope: None };
        let reply = by.answering.map(|(key, asked, answer)| {
            let (status, body) = answer(&made.seed.run_id);
            Reply { key, request: asked, at: now, status, body }
        });
        let step = Step { history: made.history, reply, ..Step::of(Vec::new()) };
        self.begin(view.definition, made.seed, owner, step)
    }

    /// What differs between two runs.
    pub fn diff(&self, a: &RunId, b: &RunId) -> Result<Value, Trouble> {
        let (one, other) = (self.view(a)?, self.view(b)?);
        let (first, second) = (events(&self.0.host, a, 0)?, events(&self.0.host, b, 0)?);
        Ok(diff(
            Side { definition: &one.definition, seed: &one.seed, events: &first },
            Side { definition: &other.definition, seed: &other.seed, events: &second },
        ))
    }
}
