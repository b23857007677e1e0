//! Forks, and what a replay goes by.

use countersign_flow::diff::{Side, diff};
use countersign_flow::fork::{ForkRequest, fork};
use countersign_model::RunId;
use serde_json::Value;

use crate::create::{Begun, Owner};
use crate::engine::{Engine, Step};
use crate::live::events;
use crate::trouble::Trouble;

impl Engine {
    /// Begins a run with the past of another.
    pub fn fork(&self, source: &RunId, mut request: ForkRequest) -> Result<Begun, Trouble> {
        let view = self.view(source)?;
        let past = events(&self.0.host, source, 0)?;
        request.run_id = self.new_id()?.to_string();
        let rules = &self.0.settings;
        let now = self.0.host.clock().now();
        let made = fork(
            &view.definition,
            (&view.seed, &past),
            request,
            (&rules.offers, &rules.limits),
            now,
        )?;
        let owner = Owner {
            tenant: view.summary.tenant.clone(),
            principal: view.summary.principal.clone(),
            scope: None,
        };
        let step = Step { history: made.history, ..Step::of(Vec::new()) };
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
