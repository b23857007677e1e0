//! What a call was authorized on: the verdict of policies, and grants.

use countersign_model::event::{Authorized, GrantEvent};
use countersign_model::facts::ORDER_TOOL;
use countersign_model::{
    CallFacts, Decision, Failure, Grant, GrantBook, GrantRecord, Verdict, authorize,
};

use super::report::Check;
use super::story::Story;

#[derive(Debug)]
pub(super) struct Held {
    grant: Grant,
    revoked: bool,
}

impl Story<'_> {
    /// Held to what the policies said when the call was to run: they may ask for more people then
    /// than were asked before.
    pub(super) fn check_verdict(&mut self, seq: u64, authorized: &Authorized) {
        let said = authorized.verdict.as_ref();
        match said.map(|verdict| verdict.decision) {
            Some(Decision::Block) => {
                let message = "the policies said no, and the call was authorized";
                self.wrong(Check::Policy, "VERDICT_IGNORED", seq, message);
            }
            Some(Decision::RequireApproval) if authorized.approval.is_none() => {
                let message = "the policies asked for people, and nobody was asked";
                self.wrong(Check::Policy, "VERDICT_IGNORED", seq, message);
            }
            Some(Decision::RequireApproval) => {
                let demanded = said.map_or(1, |verdict| verdict.approvers.max(1));
                let agreed = self.agreed();
                if usize::try_from(demanded).map_or(true, |demanded| agreed < demanded) {
                    let message = format!(
                        "the policies asked for {demanded} people, and {agreed} had agreed"
                    );
                    self.wrong(Check::Policy, "VERDICT_IGNORED", seq, message);
                }
            }
            Some(Decision::Allow) => {}
            None => {
                let line = format!("entry {seq} authorizes the call without a verdict of policies");
                self.report.unchecked.push(line);
            }
        }
    }

    pub(super) fn grant(&mut self, seq: u64, event: &GrantEvent) {
        match event {
            GrantEvent::Issued { grant } => {
                let id = grant.body.id;
                if self.authority.is_some_and(|key| grant.verify(key).is_err()) {
                    let message = format!("the home did not sign grant {id}");
                    self.wrong(Check::Grants, "GRANT_FORGED", seq, message);
                }
                self.grants.insert(id, Held { grant: grant.clone(), revoked: false });
            }
            GrantEvent::Revoked { grant, .. } => {
                if let Some(held) = self.grants.get_mut(grant) {
                    held.revoked = true;
                }
            }
        }
    }

    /// Revocations do not count here: one may come between the decision and its record, and then
    /// stops the call later, at the commit at the latest.
    pub(super) fn check_grants(
        &mut self,
        seq: u64,
        authorized: &Authorized,
        facts: Option<&CallFacts>,
    ) {
        let mut book = GrantBook::new();
        for id in &authorized.grants {
            match (self.grants.get(id), self.authority) {
                (Some(held), Some(authority)) => {
                    book.insert(GrantRecord::read(held.grant.clone(), authority));
                }
                (Some(_), None) => {}
                (None, _) => {
                    let message = format!("grant {id} had not been issued");
                    self.report.problem(Check::Grants, "GRANT_MISSING", Some(seq), message);
                }
            }
        }
        let Some(facts) = facts else {
            let line = format!("whether the grants cover what the call touched (entry {seq})");
            self.report.unchecked.push(line);
            return;
        };
        let (needed, time) = (&authorized.capabilities, facts.time);
        let (who, tool) = (&facts.principal, &facts.tool.id);
        if facts.people > 0 {
            self.check_people(seq, authorized, facts);
        } else if let Err(denial) = authorize(needed, &facts.effects, who, tool, &book, time) {
            let why = Failure::from(denial).message;
            self.wrong(Check::Grants, "GRANT_INSUFFICIENT", seq, why);
        }
        if facts.tool.capabilities != *needed {
            let message = "it was authorized for other capabilities than the tool declares";
            self.wrong(Check::Grants, "GRANT_INSUFFICIENT", seq, message);
        }
    }

    /// What is people's to decide needs no grants, but people: their answers are checked apart.
    fn check_people(&mut self, seq: u64, authorized: &Authorized, facts: &CallFacts) {
        let asked = |verdict: &Verdict| {
            verdict.decision == Decision::RequireApproval && verdict.approvers >= facts.people
        };
        let is_order = facts.tool.id.as_str() == ORDER_TOOL;
        let asked = authorized.verdict.as_ref().is_some_and(asked);
        if !is_order || authorized.approval.is_none() || !asked {
            let message = "it rests on people instead of grants, and they were not asked";
            self.wrong(Check::Grants, "GRANT_INSUFFICIENT", seq, message);
        }
    }

    /// Nothing takes effect on a grant that was taken back.
    pub(super) fn commit(&mut self, seq: u64) {
        let rests_on = self.authorized.iter().flat_map(|authorized| &authorized.grants);
        let gone = rests_on.filter(|id| self.grants.get(id).is_some_and(|held| held.revoked));
        let gone: Vec<_> = gone.copied().collect();
        for id in gone {
            let message = format!("grant {id} was revoked before the call took effect");
            self.wrong(Check::Grants, "GRANT_REVOKED", seq, message);
        }
    }
}
