//! AUTHORIZED: mode, policy and grants allow the call, and people agreed where policy asks for them.

use std::sync::Arc;

use countersign_model::effect::Payload;
use countersign_model::event::{self, CallEvent};
use countersign_model::{Authorization, CallFacts, Decision, Failure};

use super::case::{Decided, Refusal};
use super::declare::Asked;
use super::wait::Agreed;
use super::{Call, Halt, Step, Validated};
use crate::approvals::void;

/// The call may run. The grants behind that are checked again at the commit.
#[derive(Debug)]
pub struct Authorized<'h> {
    pub(super) call: Call<'h>,
    pub(super) asked: Arc<Asked>,
    pub(super) attempt: u32,
    pub(super) approval: Option<Arc<Agreed>>,
    pub(super) authorization: Authorization,
}

impl<'h> Validated<'h> {
    /// Decides anew for every attempt: what was granted a moment ago may be revoked now.
    pub fn authorize(self) -> Step<'h, Authorized<'h>> {
        let Validated { mut call, asked, attempt, approval } = self;
        // A journal that cannot be read has not said no: the call stops without a verdict.
        let book = call.case().book_for(&asked).map_err(|failure| call.broken(failure))?;
        let decision = call.case().decide(&asked, &book, call.recorder.now());
        let (decided, authorization) = match decision {
            Ok(decided) => decided,
            Err(refusal) => return Err(call.deny(refusal)),
        };
        let Some(agreed) = &approval else {
            return match decided.verdict.decision {
                Decision::RequireApproval => Err(call.ask(&asked, decided)),
                _ => call.authorized(asked, attempt, None, decided, authorization),
            };
        };
        match call.check_agreement(agreed, &decided.verdict) {
            Err(failure) => return Err(call.broken(failure)),
            Ok(Some(changed)) => {
                let (error, decided) = (void(&[changed]), Some(Box::new(decided)));
                return Err(call.deny(Refusal { error, decided }));
            }
            Ok(None) => {}
        }
        call.authorized(asked, attempt, approval, decided, authorization)
    }
}

impl<'h> Call<'h> {
    fn authorized(
        mut self,
        asked: Arc<Asked>,
        attempt: u32,
        approval: Option<Arc<Agreed>>,
        decided: Decided,
        authorization: Authorization,
    ) -> Step<'h, Authorized<'h>> {
        let facts = self.keep_facts(&decided.facts)?;
        self.note(CallEvent::Authorized(event::Authorized {
            approval: approval.as_ref().map(|agreed| agreed.subject),
            attempt,
            capabilities: authorization.capabilities.clone(),
            facts: Some(facts),
            grants: authorization.grants.clone(),
            verdict: Some(decided.verdict),
        }))?;
        Ok(Authorized { call: self, asked, attempt, approval, authorization })
    }

    /// Ends the call. What policy went by is kept, so that the answer can be explained.
    pub(super) fn deny(mut self, refusal: Refusal) -> Box<Halt<'h>> {
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
        let bytes = facts.to_canonical_json().map_err(|error| self.broken(internal(&error)))?;
        let payload = Payload::of(&bytes);
        let kept = self.host.home.keep(&mut self.recorder, payload, bytes);
        kept.map_err(|failure| self.broken(failure))?;
        Ok(payload)
    }
}
