//! AUTHORIZED: mode, policy and grants allow the call, and people agreed where policy asks for them.

use std::sync::Arc;

use countersign_model::digest::canonical_json;
use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent};
use countersign_model::{
    Authorization, CallFacts, Decision, Digest, Failure, GrantBook, Timestamp, Verdict, authorize,
};

use super::declare::Asked;
use super::{Call, Halt, Step, Validated};
use crate::path::RelPath;
use crate::refusal::{blocked, forbidden_by_mode, outside_toolset};
use crate::tool::Footprint;

/// The call may run. The grants behind that are checked again at the commit.
#[derive(Debug)]
pub struct Authorized<'h> {
    pub(super) call: Call<'h>,
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    pub(super) approval: Option<Digest>,
    pub(super) authorization: Authorization,
}

/// What policy says, and what it had to go by.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) facts: CallFacts,
    pub(super) verdict: Verdict,
}

/// Why a call may not run.
struct Refusal {
    error: Failure,
    decided: Option<Box<Decided>>,
}

impl From<Failure> for Refusal {
    fn from(error: Failure) -> Self {
        Refusal { error, decided: None }
    }
}

impl<'h> Validated<'h> {
    /// Decides anew for every attempt: what was granted a moment ago may be revoked now.
    pub fn authorize(self) -> Step<'h, Authorized<'h>> {
        let Validated { call, asked, attempt, approval } = self;
        // A journal that cannot be read has not said no: the call stops without a verdict.
        let book = book_for(&call, &asked).map_err(|failure| call.broken(failure))?;
        let (decided, authorization) = match decide(&call, &asked, &book) {
            Ok(decided) => decided,
            Err(refusal) => return Err(call.deny(refusal)),
        };
        if decided.verdict.decision == Decision::RequireApproval && approval.is_none() {
            return Err(call.ask(&asked, decided));
        }
        call.authorized(asked, attempt, approval, decided, authorization)
    }
}

impl<'h> Call<'h> {
    fn authorized(
        mut self,
        asked: Arc<Asked>,
        attempt: u32,
        approval: Option<Digest>,
        decided: Decided,
        authorization: Authorization,
    ) -> Step<'h, Authorized<'h>> {
        let facts = self.keep_facts(&decided.facts)?;
        self.note(CallEvent::Authorized(event::Authorized {
            approval,
            attempt,
            capabilities: authorization.capabilities.clone(),
            facts: Some(facts),
            grants: authorization.grants.clone(),
            verdict: Some(decided.verdict),
        }))?;
        Ok(Authorized { call: self, asked, attempt, approval, authorization })
    }

    /// Ends the call. What policy went by is kept, so that the answer can be explained.
    fn deny(mut self, refusal: Refusal) -> Box<Halt<'h>> {
        let Refusal { error, decided } = refusal;
        let (facts, verdict) = match decided {
            Some(decided) => match self.keep_facts(&decided.facts) {
                Ok(facts) => (Some(facts), Some(decided.verdict)),
                Err(halt) => return halt,
            },
            None => (None, None),
        };
        let denied = event::Denied { error: error.clone(), facts, verdict };
        self.end(CallEvent::Denied(denied), error)
    }

    pub(super) fn keep_facts(&mut self, facts: &CallFacts) -> Step<'h, Payload> {
        let internal = |error: &dyn std::fmt::Display| {
            Failure::state("INTERNAL", format!("the facts have no canonical form: {error}"))
        };
        let bytes = canonical_json(facts).map_err(|error| self.broken(internal(&error)))?;
        let payload = Payload::of(&bytes);
        let kept = self.host.home.keep(&mut self.recorder, payload, bytes);
        kept.map_err(|failure| self.broken(failure))?;
        Ok(payload)
    }
}

/// Who asks for nothing needs no grant, so there is nothing to look up.
fn book_for(call: &Call<'_>, asked: &Asked) -> Result<Arc<GrantBook>, Failure> {
    let required = &call.tool.declaration.required_capabilities;
    if required.is_empty() && asked.footprint.needs.is_empty() {
        return Ok(Arc::default());
    }
    call.host.grant_book()
}

/// The ceiling first, then policy, then grants: nobody is asked about what could not run anyway.
fn decide(
    call: &Call<'_>,
    asked: &Asked,
    book: &GrantBook,
) -> Result<(Decided, Authorization), Refusal> {
    let now = call.recorder.now();
    let decided = call.judge_by_policy(asked, now);
    if let Some(what) = above_the_mode(&decided.facts, asked) {
        return Err(forbidden_by_mode(decided.facts.mode, &what).into());
    }
    if let Some(toolset) = &decided.facts.toolset
        && !call.host.home.config.toolset_has(toolset, &decided.facts.tool.id)?
    {
        return Err(outside_toolset(toolset, &decided.facts.tool.id).into());
    }
    if decided.verdict.decision == Decision::Block {
        let error = blocked(&decided.verdict);
        return Err(Refusal { error, decided: Some(Box::new(decided)) });
    }
    match granted(call, asked, book, now) {
        Ok(authorization) => Ok((decided, authorization)),
        Err(error) => Err(Refusal { error, decided: Some(Box::new(decided)) }),
    }
}

/// The first thing that the mode does not allow, whatever policy and grants say.
fn above_the_mode(facts: &CallFacts, asked: &Asked) -> Option<String> {
    let declared = facts.tool.capabilities.iter().copied();
    let needed = facts.effects.iter().map(|need| need.capability);
    let capability = declared.chain(needed).find(|capability| !facts.mode.allows(*capability));
    let Footprint { files, directories, .. } = &asked.footprint;
    let mut paths = files.iter().chain(directories).map(RelPath::as_str);
    let path = || paths.find(|path| !facts.mode.allows_change(path)).map(str::to_owned);
    capability.map(|capability| capability.to_string()).or_else(path)
}

fn granted(
    call: &Call<'_>,
    asked: &Asked,
    book: &GrantBook,
    now: Timestamp,
) -> Result<Authorization, Failure> {
    let declaration = &call.tool.declaration;
    let principal = &call.recorder.summary().principal;
    let required = &declaration.required_capabilities;
    authorize(required, &asked.footprint.needs, principal, &declaration.id, book, now)
        .map_err(Failure::from)
}
