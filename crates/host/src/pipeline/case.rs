//! All that a decision goes by. A call that runs and one that is only tried are decided by the same
//! code.

use std::sync::Arc;

use countersign_model::{
    Authorization, CallFacts, Decision, Failure, GrantBook, Timestamp, Verdict, authorize,
};
use countersign_policy::Policies;
use serde_json::Value;

use super::declare::{Asked, footprint};
use crate::facts::{Circumstances, call_facts};
use crate::host::Host;
use crate::refusal::{blocked, forbidden_by_mode, outside_toolset};
use crate::registry::Tool;
use crate::root::{Root, control};
use crate::tool::{Footprint, Place};
use crate::work::WorkPlace;

/// A call as those see it who decide about it: nothing here reaches the journal.
#[derive(Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) host: &'a Host,
    pub(super) tool: &'a Tool,
    pub(super) policies: &'a Policies,
    pub(super) circumstances: &'a Circumstances,
}

/// What policy says, and what it had to go by.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    pub(super) facts: CallFacts,
    pub(super) verdict: Verdict,
}

/// Why a call may not run.
pub(super) struct Refusal {
    pub(super) error: Failure,
    pub(super) decided: Option<Box<Decided>>,
}

impl From<Failure> for Refusal {
    fn from(error: Failure) -> Self {
        Refusal { error, decided: None }
    }
}

impl Case<'_> {
    /// What a call with this input will touch.
    pub(super) fn look_at(
        self,
        input: Value,
        root: Option<Arc<Root>>,
        work: Option<Arc<WorkPlace>>,
    ) -> Result<Arc<Asked>, Failure> {
        let place = Place::new(root, work, self.host.services());
        let footprint = footprint(&self.tool.implementation, &input, &place)?;
        Ok(Arc::new(Asked { input, place, footprint }))
    }

    /// What policy says about the call at a moment, and the facts that it went by.
    pub(super) fn judge_by_policy(self, asked: &Asked, at: Timestamp) -> Decided {
        let facts = call_facts(self.tool, self.circumstances, asked, at);
        let verdict = self.policies.decide(&facts, &asked.input);
        Decided { facts, verdict }
    }

    /// Who asks for nothing needs no grant, so there is nothing to look up.
    pub(super) fn book_for(self, asked: &Asked) -> Result<Arc<GrantBook>, Failure> {
        let required = &self.tool.declaration.required_capabilities;
        if required.is_empty() && asked.footprint.needs.is_empty() {
            return Ok(Arc::default());
        }
        self.host.grant_book()
    }

    /// The ceiling first, then policy, then grants: nobody is asked about what could not run anyway.
    pub(super) fn decide(
        self,
        asked: &Asked,
        book: &GrantBook,
        now: Timestamp,
    ) -> Result<(Decided, Authorization), Refusal> {
        let decided = self.judge_by_policy(asked, now);
        if let Some(what) = above_the_mode(&decided.facts, asked) {
            return Err(forbidden_by_mode(decided.facts.mode, &what).into());
        }
        if let Some(toolset) = &decided.facts.toolset
            && !self.host.home.config.toolset_has(toolset, &decided.facts.tool.id)?
        {
            return Err(outside_toolset(toolset, &decided.facts.tool.id).into());
        }
        if decided.verdict.decision == Decision::Block {
            let error = blocked(&decided.verdict);
            return Err(Refusal { error, decided: Some(Box::new(decided)) });
        }
        match self.granted(asked, book, now) {
            Ok(authorization) => Ok((decided, authorization)),
            Err(error) => Err(Refusal { error, decided: Some(Box::new(decided)) }),
        }
    }

    pub(super) fn granted(
        self,
        asked: &Asked,
        book: &GrantBook,
        now: Timestamp,
    ) -> Result<Authorization, Failure> {
        let declaration = &self.tool.declaration;
        let principal = &self.circumstances.principal;
        let required = &declaration.required_capabilities;
        if self.tool.order().is_some() {
            // Who approves an order grants what it names, for this once: nothing runs without them.
            let capabilities = required.clone();
            return Ok(Authorization { grants: Vec::new(), capabilities, expires_at: None });
        }
        authorize(required, &asked.footprint.needs, principal, &declaration.id, book, now)
            .map_err(Failure::from)
    }
}

/// The first thing that the mode does not allow, whatever policy and grants say.
fn above_the_mode(facts: &CallFacts, asked: &Asked) -> Option<String> {
    let declared = facts.tool.capabilities.iter().copied();
    let needed = facts.effects.iter().map(|need| need.capability);
    let capability = declared.chain(needed).find(|capability| !facts.mode.allows(*capability));
    let Footprint { files, directories, .. } = &asked.footprint;
    let paths = files.iter().chain(directories).map(ToString::to_string);
    let path = || control::forbidden(facts.mode, asked.place.shared_root()?, paths);
    let least = asked.footprint.least_mode;
    let mode = || (facts.mode < least).then(|| format!("what only `{least}` allows"));
    capability.map(|capability| capability.to_string()).or_else(mode).or_else(path)
}
