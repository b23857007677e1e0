//! Two questions, three answers. The strictest answer over all that a call touches is the verdict.

use std::collections::BTreeMap;

use cedar_policy::{
    AuthorizationError, Authorizer, Context, Decision as Answered, PolicySet, Request, Response,
};
use countersign_model::{
    CallFacts, Decision, Need, Question, Reason, Risk, RuleEffect, SandboxMode, Verdict,
};
use serde_json::Value;

use crate::effect::{self, about};
use crate::index::Slot;
use crate::policies::Policies;
use crate::request::Shared;

/// A call that names more than this is not looked at: each one costs two questions.
const MAX_EFFECTS: usize = 1024;

/// Reasons of one rule, when it speaks about some effects only.
const MAX_ABOUT: usize = 16;

const UNUSABLE: &str = "the facts of the call cannot be asked about";

/// The rule behind the promise that full access always asks a human, whatever files say.
pub(crate) const DANGER_RULE: &str = "builtin/danger-full-access";

/// The rule behind calls that are people's to decide, such as documents.
pub(crate) const PEOPLE_RULE: &str = "builtin/people";

/// What was found so far.
#[derive(Debug, Default)]
struct Tally {
    /// Reasons that block, that ask, and that let pass.
    block: Vec<Said>,
    ask: Vec<Said>,
    allow: Vec<Said>,
}

/// A reason before its effects are counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    reason: Reason,
    about: Option<String>,
}

pub(crate) fn decide(policies: &Policies, facts: &CallFacts, input: &Value) -> Verdict {
    let Some(slot) = policies.index.slot(&policies.names, facts) else {
        let mut tally = Tally::default();
        tally.block.push(broken(UNUSABLE));
        return tally.verdict(policies, facts, 0);
    };
    if let Some(verdict) = slot.last_verdict(facts) {
        return verdict;
    }
    let verdict = decide_by(policies, &slot, facts, input);
    slot.keep_verdict(facts, &verdict);
    verdict
}

fn decide_by(policies: &Policies, slot: &Slot, facts: &CallFacts, input: &Value) -> Verdict {
    let effects = effects_of(facts);
    let mut tally = Tally::default();
    if effects.len() > MAX_EFFECTS {
        tally.block.push(broken("the call touches too many things"));
    } else if let Err(message) = ask_all(policies, slot, facts, input, &effects, &mut tally) {
        tally.block.push(broken(&message));
    }
    tally.verdict(policies, facts, effects.len())
}

/// Each once. One more than the most, where there are too many.
fn effects_of(facts: &CallFacts) -> Vec<Option<&Need>> {
    let mut effects: Vec<Option<&Need>> = Vec::new();
    for need in &facts.effects {
        if effects.len() > MAX_EFFECTS {
            break;
        }
        if !effects.contains(&Some(need)) {
            effects.push(Some(need));
        }
    }
    if effects.is_empty() {
        effects.push(None);
    }
    effects
}

fn ask_all(
    policies: &Policies,
    slot: &Slot,
    facts: &CallFacts,
    input: &Value,
    effects: &[Option<&Need>],
    tally: &mut Tally,
) -> Result<(), String> {
    let unusable = || UNUSABLE.to_owned();
    let (names, reads) = (&policies.names, slot.reads());
    let base = slot.base(names, facts).ok_or_else(unusable)?;
    let shared = Shared::of(names, reads, facts, input, base).ok_or_else(unusable)?;
    let asker = Asker { policies, facts, slot, shared: &shared };
    for need in effects {
        let mut pairs = effect::pairs(*need, facts.workspace.as_deref())?;
        pairs.retain(|(name, _)| reads.has(name));
        let context = Context::from_pairs(shared.pairs.iter().cloned().chain(pairs));
        asker.ask(*need, &context.map_err(|_| unusable())?, tally);
    }
    Ok(())
}

struct Asker<'a> {
    policies: &'a Policies,
    facts: &'a CallFacts,
    slot: &'a Slot,
    shared: &'a Shared,
}

impl Asker<'_> {
    /// What may not run at all is not asked whether it may run alone.
    fn ask(&self, need: Option<&Need>, context: &Context, tally: &mut Tally) {
        let about = need.map(about);
        if !self.question(Question::Invoke, &about, context, tally) {
            return;
        }
        self.question(Question::InvokeUnattended, &about, context, tally);
    }

    fn question(
        &self,
        question: Question,
        about: &Option<String>,
        context: &Context,
        tally: &mut Tally,
    ) -> bool {
        let policies = self.slot.policies(question);
        let Some(response) = self.response(question, policies, context) else {
            tally.block.push(broken("the question cannot be asked"));
            return false;
        };
        let failed = self.errors(question, about, &response);
        let permitted = response.decision() == Answered::Allow;
        let said = self.reasons(question, about, &response);
        let is_fine = failed.is_empty();
        tally.block.extend(failed);
        match (permitted, question) {
            (true, _) => tally.allow.extend(said),
            (false, Question::Invoke) => tally.block.extend(said),
            (false, Question::InvokeUnattended) => self.recall(about, context, said, tally),
        }
        permitted && is_fine
    }

    /// What was remembered answers in place of a human, unless a rule wants a human every time.
    fn recall(
        &self,
        about: &Option<String>,
        context: &Context,
        asks: Vec<Said>,
        tally: &mut Tally,
    ) {
        let question = Question::InvokeUnattended;
        let entry = |said: &Said| self.policies.entry(said.reason.rule.as_deref()?);
        let always = asks.iter().filter_map(entry).any(|entry| entry.notes.asks_always);
        let remembered = self.slot.remembered();
        if always || remembered.is_empty() {
            return tally.ask.extend(asks);
        }
        let Some(response) = self.response(question, remembered, context) else {
            return tally.block.push(broken("the question cannot be asked"));
        };
        tally.block.extend(self.errors(question, about, &response));
        match response.decision() {
            Answered::Allow => tally.allow.extend(self.reasons(question, about, &response)),
            Answered::Deny => tally.ask.extend(asks),
        }
    }

    fn response(
        &self,
        question: Question,
        policies: &PolicySet,
        context: &Context,
    ) -> Option<Response> {
        let names = &self.policies.names;
        let principal = names.principal(&self.facts.principal);
        let tool = names.tool(&self.facts.tool.id);
        let action = names.action(question).clone();
        let request = Request::new(principal, action, tool, context.clone(), None).ok()?;
        Some(Authorizer::new().is_authorized(&request, policies, &self.shared.entities))
    }

    fn errors(&self, question: Question, about: &Option<String>, found: &Response) -> Vec<Said> {
        let said = |error: &AuthorizationError| {
            let AuthorizationError::PolicyEvaluationError(error) = error;
            let text = Some(error.inner().to_string());
            let rule = Some(error.policy_id().to_string());
            Said::new(
                Reason { about: None, effect: RuleEffect::Error, more: 0, question, rule, text },
                about,
            )
        };
        found.diagnostics().errors().map(said).collect()
    }

    /// The rules that decided, or that there was none.
    fn reasons(&self, question: Question, about: &Option<String>, found: &Response) -> Vec<Said> {
        let effect = match found.decision() {
            Answered::Allow => RuleEffect::Permit,
            Answered::Deny => RuleEffect::Forbid,
        };
        let mut said: Vec<_> = found
            .diagnostics()
            .reason()
            .map(|id| {
                let rule: &str = id.as_ref();
                let text = self.policies.entry(rule).and_then(|entry| entry.notes.reason.clone());
                let rule = Some(rule.to_owned());
                Said::new(Reason { about: None, effect, more: 0, question, rule, text }, about)
            })
            .collect();
        if said.is_empty() {
            let effect = RuleEffect::Missing;
            let reason = Reason { about: None, effect, more: 0, question, rule: None, text: None };
            said.push(Said::new(reason, about));
        }
        said
    }
}

impl Said {
    fn new(reason: Reason, about: &Option<String>) -> Said {
        Said { reason, about: about.clone() }
    }
}

/// The host's own inability is an error too.
fn broken(message: &str) -> Said {
    let reason = Reason {
        about: None,
        effect: RuleEffect::Error,
        more: 0,
        question: Question::Invoke,
        rule: None,
        text: Some(message.to_owned()),
    };
    Said { reason, about: None }
}

/// A rule of our own, which no file can lift.
fn always(rule: &str, text: &str) -> Said {
    let reason = Reason {
        about: None,
        effect: RuleEffect::Forbid,
        more: 0,
        question: Question::InvokeUnattended,
        rule: Some(rule.to_owned()),
        text: Some(text.to_owned()),
    };
    Said { reason, about: None }
}

impl Tally {
    fn verdict(mut self, policies: &Policies, facts: &CallFacts, effects: usize) -> Verdict {
        if facts.mode == SandboxMode::DangerFullAccess {
            self.ask.push(always(DANGER_RULE, "full access always asks a human"));
        }
        if facts.people > 0 {
            self.ask.push(always(PEOPLE_RULE, "people decide about every such call"));
        }
        let (decision, said) = match (self.block.is_empty(), self.ask.is_empty()) {
            (false, _) => (Decision::Block, self.block),
            (true, false) => (Decision::RequireApproval, self.ask),
            (true, true) => (Decision::Allow, self.allow),
        };
        let reasons = summarise(said, effects);
        let asks = decision == Decision::RequireApproval;
        let approvers = if asks { approvers(policies, facts, &reasons) } else { 0 };
        let expires_after_ms = if asks { expiry(policies, &reasons) } else { None };
        Verdict { approvers, decision, expires_after_ms, policy: policies.digest(), reasons }
    }
}

/// A rule that said the same about every effect said it about the call.
fn summarise(said: Vec<Said>, effects: usize) -> Vec<Reason> {
    let mut by_reason: BTreeMap<Reason, Vec<String>> = BTreeMap::new();
    for Said { reason, about } in said {
        by_reason.entry(reason).or_default().extend(about);
    }
    let mut reasons = Vec::new();
    for (reason, mut abouts) in by_reason {
        abouts.sort_unstable();
        abouts.dedup();
        if abouts.is_empty() || (abouts.len() == effects && effects > 1) {
            reasons.push(reason);
            continue;
        }
        let more = abouts.len().saturating_sub(MAX_ABOUT);
        abouts.truncate(MAX_ABOUT);
        reasons.extend(abouts.into_iter().map(|a| Reason { about: Some(a), ..reason.clone() }));
        if let Some(last) = reasons.last_mut() {
            last.more = u32::try_from(more).unwrap_or(u32::MAX);
        }
    }
    reasons.sort_unstable();
    reasons
}

/// Each rule that asks counts with the number that it names, or with the default of the risk. Only
/// a rule that names a smaller number lowers the default, and only for itself.
fn approvers(policies: &Policies, facts: &CallFacts, reasons: &[Reason]) -> u32 {
    let default = if facts.risk() >= Risk::High { 2 } else { 1 };
    let named = |reason: &Reason| policies.entry(reason.rule.as_deref()?)?.notes.approvers;
    let most = reasons.iter().map(|reason| named(reason).unwrap_or(default)).max();
    most.unwrap_or(default).max(facts.people)
}

fn expiry(policies: &Policies, reasons: &[Reason]) -> Option<u64> {
    let named = |reason: &Reason| policies.entry(reason.rule.as_deref()?)?.notes.expires_after_ms;
    reasons.iter().filter_map(named).min()
}
