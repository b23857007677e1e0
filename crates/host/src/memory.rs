//! Answers that people had remembered: rules in files of their own, tried before they count.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use countersign_model::{Failure, Principal, Timestamp};
use countersign_policy::{Memory, RuleInfo, Source};

use crate::approvals::Approval;
use crate::host::Host;
use crate::policies::{REMEMBERED, compile, invalid, sources};

/// A rule as it was proposed, or as a person edited it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    pub name: String,
    pub text: String,
}

impl Host {
    /// A rule that permits the call again, and next to nothing else.
    pub fn propose(&self, approval: &Approval, by: &Principal, until: Timestamp) -> Proposal {
        let name = approval.call.execution.as_uuid().simple().to_string();
        let text = memory(approval, by, until).to_cedar("answer");
        Proposal { name, text }
    }

    /// Whether a rule can be kept: it permits this call and not its near miss, and all policies
    /// together are still valid.
    pub fn check_proposal(
        &self,
        approval: &Approval,
        by: &Principal,
        until: Timestamp,
        proposal: &Proposal,
    ) -> Result<(), Failure> {
        if approval.subject.verdict.approvers > 1 {
            let message = "this call takes more than one person, and a rule is kept by one";
            return Err(Failure::authorization("MEMORY_NEEDS_ONE", message)
                .hint("answer it once, or write a policy of your own beneath policy/"));
        }
        let source = proposal.source();
        let kept = memory(approval, by, until).is_kept_by(&source);
        if !kept.map_err(|problems| invalid(&problems))? {
            let message =
                "the rule must permit this call, and not one that is about something else";
            return Err(Failure::validation("MEMORY_NOT_NARROW", message)
                .hint("narrow it, or write a policy of your own beneath policy/"));
        }
        let mut all = sources(&self.home)?;
        all.push(source);
        compile(&self.home, &all).map(|_| ())
    }

    /// Keeps a rule that was checked. Other policies make other approvals: what waits is asked again.
    pub fn remember(&self, proposal: &Proposal) -> Result<(), Failure> {
        self.write(proposal).map_err(|error| {
            Failure::state("POLICY_UNWRITABLE", format!("the rule cannot be kept: {error}"))
        })
    }

    fn write(&self, proposal: &Proposal) -> std::io::Result<()> {
        let directory = self.remembered_in();
        fs::create_dir_all(&directory)?;
        let mut options = fs::OpenOptions::new();
        options.create_new(true).write(true).mode(0o600);
        let aside = directory.join(format!(".{}.new", proposal.name));
        let mut file = options.open(&aside)?;
        file.write_all(proposal.text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&aside, directory.join(proposal.file()))?;
        fs::File::open(&directory)?.sync_all()
    }

    fn remembered_in(&self) -> PathBuf {
        self.home.policy().join(REMEMBERED)
    }

    /// Everything that is remembered, by the names of its files.
    pub fn remembered(&self) -> Result<Vec<RuleInfo>, Failure> {
        let prefix = format!("{REMEMBERED}.");
        Ok(self.policies()?.rules().filter(|rule| rule.file.starts_with(&prefix)).collect())
    }

    /// Forgets one answer; from now on people are asked again.
    pub fn forget(&self, name: &str) -> Result<(), Failure> {
        let unknown = || {
            Failure::validation("MEMORY_UNKNOWN", format!("nothing is remembered as `{name}`"))
                .hint("list what is with `countersign policy remembered`")
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') || name.is_empty() {
            return Err(unknown());
        }
        fs::remove_file(self.remembered_in().join(format!("{name}.cedar"))).map_err(|_| unknown())
    }
}

impl Proposal {
    fn file(&self) -> String {
        format!("{}.cedar", self.name)
    }

    fn source(&self) -> Source {
        Source { name: format!("{REMEMBERED}.{}", self.file()), text: self.text.clone() }
    }
}

fn memory<'a>(approval: &'a Approval, by: &'a Principal, until: Timestamp) -> Memory<'a> {
    Memory {
        facts: &approval.subject.facts,
        input: &approval.input,
        execution: approval.call.execution,
        by,
        until,
    }
}
