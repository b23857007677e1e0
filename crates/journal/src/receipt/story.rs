//! The call and what it rests on, told again in the order in which the journal has it. At each step
//! it is asked whether that step was right, given all that had happened before it.

use std::collections::BTreeMap;

use countersign_model::event::{Asked, Authorized, CallEvent, Declared, Fact};
use countersign_model::record::CallRecord;
use countersign_model::{
    Answer, CallFacts, Consent, Digest, ExecutionId, GrantId, KeyBook, KeyEvent,
};
use ed25519_dalek::VerifyingKey;

use super::grounds::Held;
use super::pins::{Role, Values};
use super::report::{Check, Report};
use super::shown::{facts_fit, shown_fits};
use super::statement::event_of;
use crate::entry::Entry;

pub(super) struct Story<'a> {
    execution: ExecutionId,
    pub(super) authority: Option<&'a VerifyingKey>,
    values: &'a Values,
    pub(super) report: &'a mut Report,
    pub(super) people: KeyBook,
    pub(super) grants: BTreeMap<GrantId, Held>,
    call: Option<CallRecord>,
    /// Whether a fact came that cannot follow; what is told after it leads nowhere.
    is_broken: bool,
    pub(super) declared: Option<Declared>,
    pub(super) asked: Option<Asked>,
    pub(super) answers: Vec<Consent>,
    pub(super) authorized: Option<Authorized>,
}

impl<'a> Story<'a> {
    pub(super) fn new(
        execution: ExecutionId,
        authority: Option<&'a VerifyingKey>,
        values: &'a Values,
        report: &'a mut Report,
    ) -> Self {
        Story {
            execution,
            authority,
            values,
            report,
            people: KeyBook::default(),
            grants: BTreeMap::new(),
            call: None,
            is_broken: false,
            declared: None,
            asked: None,
            answers: Vec::new(),
            authorized: None,
        }
    }

    /// The call as all its facts leave it, or as the last that can be did.
    pub(super) fn tell(mut self, call: &[Entry], basis: &[Entry]) -> Option<CallRecord> {
        let mut entries: Vec<&Entry> = call.iter().chain(basis).collect();
        entries.sort_by_key(|entry| entry.seq);
        for entry in entries {
            match event_of(entry, self.execution) {
                Some(event) => self.step(entry, event),
                None => self.beside(entry),
            }
        }
        self.close()
    }

    fn close(self) -> Option<CallRecord> {
        if self.call.is_none() {
            let message = "no fact tells of the call";
            self.report.problem(Check::Story, "CALL_IMPOSSIBLE", None, message);
        }
        let events = self.call.as_ref().map_or(0, |call| call.summary.events);
        self.report.reached(Check::Story, format!("{events} facts, each of which may follow"));
        let policy = self.report.verdict.as_ref().map(|verdict| verdict.policy.short());
        let policy =
            policy.map_or("no verdict on record".to_owned(), |p| format!("policy set {p}"));
        self.report.reached(Check::Policy, policy);
        self.report.reached(Check::Grants, format!("{} grants", self.grants.len()));
        self.report.reached(Check::Approvals, format!("{} answers", self.answers.len()));
        self.report.grants = self.grants.keys().copied().collect();
        self.report.answers = self.answers;
        self.call
    }

    /// What happened to grants, principals and keys meanwhile.
    fn beside(&mut self, entry: &Entry) {
        match &entry.fact {
            Fact::Grant(event) => self.grant(entry.seq, event),
            Fact::Key(KeyEvent::Created { key, signature })
                if self.authority.is_some_and(|by| !key.is_genuine(signature, by)) =>
            {
                let message = format!("the home did not sign key {}", key.id);
                self.wrong(Check::Approvals, "KEY_FORGED", entry.seq, message);
            }
            Fact::Key(_) | Fact::Principal(_) => {
                if let Err(why) = self.people.take_in(&entry.fact) {
                    self.wrong(Check::Approvals, "KEY_IMPOSSIBLE", entry.seq, why);
                }
                self.remark_late_revocation(entry);
            }
            Fact::Home(_)
            | Fact::Call(_)
            | Fact::Policy(_)
            | Fact::Workspace(_)
            | Fact::Artifact(_)
            | Fact::Run(_)
            | Fact::Record(_) => {}
        }
    }

    pub(super) fn wrong(
        &mut self,
        check: Check,
        code: impl Into<std::borrow::Cow<'static, str>>,
        seq: u64,
        message: impl Into<String>,
    ) {
        self.report.problem(check, code, Some(seq), message);
    }

    fn step(&mut self, entry: &Entry, event: &CallEvent) {
        let seq = entry.seq;
        self.advance(entry, event);
        match event {
            CallEvent::Declared(declared) => self.declared = Some(declared.clone()),
            CallEvent::Asked(asked) => self.ask(seq, asked),
            CallEvent::Approved(answer) => self.answer(seq, answer, Answer::Yes),
            CallEvent::Refused(answer) => self.answer(seq, answer, Answer::No),
            CallEvent::Authorized(authorized) => self.authorize(seq, authorized),
            CallEvent::Denied(denied) => {
                self.read_facts(seq, denied.facts.map(|facts| facts.digest));
                self.report.verdict.clone_from(&denied.verdict);
            }
            CallEvent::Committed(_) => self.commit(seq),
            _ => {}
        }
    }

    fn advance(&mut self, entry: &Entry, event: &CallEvent) {
        let told = match (&mut self.call, event) {
            _ if self.is_broken => return,
            (Some(call), event) => call.advance(entry.time, event).map_err(|e| e.to_string()),
            (call @ None, CallEvent::Declared(declared)) => {
                *call = Some(CallRecord::begin(self.execution, entry.time, declared));
                Ok(())
            }
            (None, event) => Err(format!("a call cannot begin with `{}`", event.name())),
        };
        if let Err(why) = told {
            self.is_broken = true;
            self.wrong(Check::Story, "CALL_IMPOSSIBLE", entry.seq, why);
        }
    }

    fn ask(&mut self, seq: u64, asked: &Asked) {
        let bytes = self.values.get(&asked.subject.digest);
        if let (Some(bytes), Some(declared)) = (bytes, &self.declared)
            && let Err(why) = shown_fits(bytes, self.execution, declared, asked)
        {
            self.wrong(Check::Values, "VALUE_CONTRADICTS", seq, why);
        }
        self.asked = Some(asked.clone());
    }

    fn authorize(&mut self, seq: u64, authorized: &Authorized) {
        self.check_verdict(seq, authorized);
        self.check_approval(seq, authorized);
        let facts = self.read_facts(seq, authorized.facts.map(|facts| facts.digest));
        self.check_grants(seq, authorized, facts.as_ref());
        self.report.verdict.clone_from(&authorized.verdict);
        self.authorized = Some(authorized.clone());
    }

    /// What policy went by, if the receipt holds it and it is about this call.
    fn read_facts(&mut self, seq: u64, digest: Option<Digest>) -> Option<CallFacts> {
        let bytes = self.values.get(&digest?)?;
        match facts_fit(bytes, self.declared.as_ref()?) {
            Ok(facts) => Some(facts),
            Err(why) => {
                let message = format!("{}: {why}", Role::Facts);
                self.wrong(Check::Values, "VALUE_CONTRADICTS", seq, message);
                None
            }
        }
    }
}
