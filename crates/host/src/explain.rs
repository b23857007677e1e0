//! Why a past call was decided as it was: from the journal alone, whatever the rules are now.

use countersign_model::effect::Payload;
use countersign_model::event::{CallEvent, Fact};
use countersign_model::record::CallSummary;
use countersign_model::{CallFacts, Consent, Failure, GrantId, Subject, Timestamp, Verdict};
use countersign_policy::RuleInfo;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::home::Home;

/// Everything that had a say in a call.
#[derive(Debug)]
pub struct Explanation {
    pub call: CallSummary,
    /// None when the call did not get as far as policy.
    pub judged: Option<Judged>,
    /// The rules that the verdict names, as they read then; none if that set is no longer known.
    pub rules: Option<Vec<RuleInfo>>,
    /// Grants that the call relied on.
    pub grants: Vec<GrantId>,
    /// When people were asked, and until when.
    pub asked: Option<(Timestamp, Timestamp)>,
    pub answers: Vec<Consent>,
}

/// One decision of policy, and what it went by.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub facts: CallFacts,
    pub verdict: Verdict,
}

/// What the facts of a call say about its decision.
#[derive(Debug, Default)]
struct Trail {
    judged: Option<Judged>,
    grants: Vec<GrantId>,
    asked: Option<(Timestamp, Timestamp)>,
    answers: Vec<Consent>,
}

impl Home {
    pub fn explain(&self, call: CallSummary) -> Result<Explanation, Failure> {
        let Trail { judged, grants, asked, answers } = self.trail(&call)?;
        let rules = match &judged {
            Some(judged) => self.rules_behind(&judged.verdict)?,
            None => None,
        };
        Ok(Explanation { call, judged, rules, grants, asked, answers })
    }

    /// The last decision of policy about a call.
    pub fn judged(&self, call: &CallSummary) -> Result<Option<Judged>, Failure> {
        Ok(self.trail(call)?.judged)
    }

    /// The input of a call; none when it was not kept because it could not be read.
    pub fn input(&self, call: &CallSummary) -> Option<Value> {
        let bytes = self.payload(call.execution, &call.input).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn trail(&self, call: &CallSummary) -> Result<Trail, Failure> {
        let mut trail = Trail::default();
        for stored in self.store.call_entries(call.execution)? {
            let (at, Fact::Call(fact)) = (stored.entry.time, stored.entry.fact) else { continue };
            self.follow(&mut trail, call, at, fact.event)?;
        }
        Ok(trail)
    }

    fn follow(
        &self,
        trail: &mut Trail,
        call: &CallSummary,
        at: Timestamp,
        event: CallEvent,
    ) -> Result<(), Failure> {
        match event {
            CallEvent::Asked(asked) => {
                let subject: Subject = self.read_payload(call, &asked.subject)?;
                let Subject { facts, verdict, .. } = subject;
                trail.judged = Some(Judged { facts, verdict });
                trail.asked = Some((at, asked.expires_at));
            }
            CallEvent::Approved(consent) | CallEvent::Refused(consent) => {
                trail.answers.push(consent);
            }
            CallEvent::Authorized(authorized) => {
                trail.grants = authorized.grants;
                self.take_verdict(trail, call, authorized.facts, authorized.verdict)?;
            }
            CallEvent::Denied(denied) => {
                self.take_verdict(trail, call, denied.facts, denied.verdict)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn take_verdict(
        &self,
        trail: &mut Trail,
        call: &CallSummary,
        facts: Option<Payload>,
        verdict: Option<Verdict>,
    ) -> Result<(), Failure> {
        if let (Some(facts), Some(verdict)) = (facts, verdict) {
            let facts = self.read_payload(call, &facts)?;
            trail.judged = Some(Judged { facts, verdict });
        }
        Ok(())
    }

    fn read_payload<T: DeserializeOwned>(
        &self,
        call: &CallSummary,
        payload: &Payload,
    ) -> Result<T, Failure> {
        let bytes = self.payload(call.execution, payload)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let message = format!("what policy went by cannot be read: {error}");
            Failure::state("JOURNAL_CORRUPT", message)
        })
    }

    fn rules_behind(&self, verdict: &Verdict) -> Result<Option<Vec<RuleInfo>>, Failure> {
        let Some(set) = self.policy_set(&verdict.policy)? else { return Ok(None) };
        let named = verdict.rules();
        Ok(Some(set.rules().filter(|rule| named.contains(&rule.id)).collect()))
    }
}
