//! What people answered: whether it was theirs to answer, and whether it was enough.

use std::collections::BTreeSet;

use countersign_model::event::{Authorized, Fact};
use countersign_model::state::is_enough;
use countersign_model::{Answer, Consent, KeyEvent};

use super::report::Check;
use super::story::Story;
use crate::entry::Entry;

impl Story<'_> {
    /// One person's answer: theirs to give, signed with a key of theirs that was good, and to what
    /// was asked.
    pub(super) fn answer(&mut self, seq: u64, answer: &Consent, expected: Answer) {
        let faults = [self.unfit(answer, expected), self.ungiven(answer)];
        for (code, message) in faults.into_iter().flatten() {
            self.wrong(Check::Approvals, code, seq, message);
        }
        self.answers.push(answer.clone());
    }

    fn unfit(&self, answer: &Consent, expected: Answer) -> Option<(String, String)> {
        let by = &answer.by;
        let asked = self.asked.as_ref();
        let is_own = self
            .declared
            .as_ref()
            .is_some_and(|declared| declared.principal == *by || declared.chain.contains(by));
        let (code, why) = if !by.is_human() {
            ("APPROVER_NOT_HUMAN", format!("{by} is not a human"))
        } else if is_own {
            ("APPROVAL_OWN", format!("{by} asked for the call and answered as well"))
        } else if self.answers.iter().any(|earlier| earlier.by == *by) {
            ("APPROVAL_TWICE", format!("{by} answered twice"))
        } else if answer.answer != expected
            || asked.is_none_or(|asked| asked.subject.digest != answer.subject)
        {
            ("ANSWER_MISMATCH", format!("{by} answered something that was not asked"))
        } else if asked.is_some_and(|asked| answer.at >= asked.expires_at) {
            ("ANSWER_LATE", format!("{by} answered after the time for it"))
        } else {
            return None;
        };
        Some((code.to_owned(), why))
    }

    /// Whether the key, as it stood when the answer was written down, says that it is not theirs.
    fn ungiven(&self, answer: &Consent) -> Option<(String, String)> {
        match self.people.approver(&answer.key, answer.at) {
            Err(failure) => Some((failure.code.to_string(), failure.message)),
            Ok((holder, _)) if *holder != answer.by => {
                let message = format!("key {} is {holder}'s, not {}'s", answer.key, answer.by);
                Some(("APPROVER_MISMATCH".to_owned(), message))
            }
            Ok((_, key)) if !answer.is_genuine(&key) => {
                let message = format!("the signature of {} does not fit the answer", answer.by);
                Some(("ANSWER_FORGED".to_owned(), message))
            }
            Ok(_) => None,
        }
    }

    /// How many different people have agreed so far.
    pub(super) fn agreed(&self) -> usize {
        let yes = self.answers.iter().filter(|answer| answer.answer == Answer::Yes);
        yes.map(|answer| &answer.by).collect::<BTreeSet<_>>().len()
    }

    pub(super) fn check_approval(&mut self, seq: u64, authorized: &Authorized) {
        let Some(approval) = authorized.approval else { return };
        let given: Vec<_> =
            self.answers.iter().filter(|a| a.answer == Answer::Yes).cloned().collect();
        let asked = self.asked.as_ref();
        if asked.is_none_or(|asked| asked.subject.digest != approval) {
            let message = "the call rests on an approval of something else";
            self.wrong(Check::Approvals, "APPROVAL_MISMATCH", seq, message);
        } else if asked.is_some_and(|asked| !is_enough(asked, &given)) {
            let message = "the call was authorized before enough people had agreed";
            self.wrong(Check::Approvals, "APPROVAL_INCOMPLETE", seq, message);
        }
        let gone = |a: &&Consent| self.people.approver(&a.key, a.at).is_err();
        if let Some(by) = given.iter().find(gone).map(|answer| answer.by.clone()) {
            let message = format!("the key of {by} was taken back before the call was authorized");
            self.wrong(Check::Approvals, "KEY_REVOKED", seq, message);
        }
    }

    /// The answer counted, but whoever reads it should know.
    pub(super) fn remark_late_revocation(&mut self, entry: &Entry) {
        let Fact::Key(KeyEvent::Revoked { key, .. }) = &entry.fact else { return };
        if let Some(answer) = self.answers.iter().find(|answer| answer.key == *key) {
            let when = if self.authorized.is_some() { "after" } else { "before" };
            self.report.remarks.push(format!(
                "the key of {} was revoked after it signed and {when} the call was authorized",
                answer.by
            ));
        }
    }
}
