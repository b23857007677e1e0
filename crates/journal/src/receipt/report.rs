//! What verification found: every check by name, every problem by code, and what nobody could check.

use std::borrow::Cow;

use countersign_model::record::CallSummary;
use countersign_model::{Consent, Digest, GrantId, HomeId, Verdict};
use serde::Serialize;

/// What is looked at, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Check {
    /// The file is a receipt and nothing else.
    Format,
    /// The journal's key signed it.
    Signature,
    /// The journal's key signed the checkpoint.
    Checkpoint,
    /// Every entry is in the tree that the checkpoint signs, at its place.
    Inclusion,
    /// The journal's first entry names this home and its keys.
    Home,
    /// The call's facts follow from each other and end where the receipt says.
    Story,
    /// The subjects of the statement are what the facts name.
    Subjects,
    /// Every value is one that a fact pins, and says what the facts say.
    Values,
    /// The verdict of the policies was obeyed.
    Policy,
    /// Grants are signed by the home, in force, and enough.
    Grants,
    /// Answers are signed by people who may answer, in time, and enough.
    Approvals,
}

impl Check {
    pub const ALL: [Check; 11] = [
        Check::Format,
        Check::Signature,
        Check::Checkpoint,
        Check::Inclusion,
        Check::Home,
        Check::Story,
        Check::Subjects,
        Check::Values,
        Check::Policy,
        Check::Grants,
        Check::Approvals,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Check::Format => "format",
            Check::Signature => "signature",
            Check::Checkpoint => "checkpoint",
            Check::Inclusion => "inclusion",
            Check::Home => "home",
            Check::Story => "story",
            Check::Subjects => "subjects",
            Check::Values => "values",
            Check::Policy => "policy",
            Check::Grants => "grants",
            Check::Approvals => "approvals",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    Passed,
    Failed,
    /// What came before it failed so badly that there was nothing to look at.
    NotReached,
}

/// One check and how it went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub check: Check,
    pub outcome: Outcome,
    /// What was looked at.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub what: String,
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub check: Check,
    /// Stable, for programs.
    pub code: Cow<'static, str>,
    pub message: String,
    /// The number of the entry to look at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<u64>,
}

/// Everything that is known about a receipt once it was read. Only if [`Report::is_verified`] is
/// any of it more than somebody's word.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    pub checks: Vec<Checked>,
    pub problems: Vec<Problem>,
    /// What the receipt leaves open, such as values that it does not hold.
    pub unchecked: Vec<String>,
    /// True, and worth knowing.
    pub remarks: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<HomeId>,
    /// The call, folded from its facts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<CallSummary>,
    /// The last verdict of the policies, with the rules behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    pub grants: Vec<GrantId>,
    pub answers: Vec<Consent>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven: Option<Proven>,
}

/// The tree that the entries were found in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proven {
    pub origin: String,
    pub size: u64,
    pub root: Digest,
    /// The hash of the call's last entry, as the journal has it.
    pub last: Digest,
}

impl Report {
    pub fn is_verified(&self) -> bool {
        self.problems.is_empty()
            && self.checks.iter().all(|checked| checked.outcome == Outcome::Passed)
    }

    pub(super) fn problem(
        &mut self,
        check: Check,
        code: impl Into<Cow<'static, str>>,
        entry: Option<u64>,
        message: impl Into<String>,
    ) {
        let (code, message) = (code.into(), message.into());
        self.problems.push(Problem { check, code, message, entry });
    }

    /// Notes that a check was made. How it went is seen from the problems, in [`Report::close`].
    pub(super) fn reached(&mut self, check: Check, what: impl Into<String>) {
        self.checks.push(Checked { check, outcome: Outcome::Passed, what: what.into() });
    }

    /// Says of every check how it went.
    pub(super) fn close(mut self) -> Self {
        let made = std::mem::take(&mut self.checks);
        self.checks = Check::ALL.map(|check| self.outcome(check, &made)).into();
        self
    }

    fn outcome(&self, check: Check, made: &[Checked]) -> Checked {
        let what = made.iter().find(|made| made.check == check).map(|made| made.what.clone());
        let outcome = if self.problems.iter().any(|problem| problem.check == check) {
            Outcome::Failed
        } else if what.is_some() {
            Outcome::Passed
        } else {
            Outcome::NotReached
        };
        Checked { check, outcome, what: what.unwrap_or_default() }
    }
}
