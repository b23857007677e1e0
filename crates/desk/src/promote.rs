//! From a draft that somebody brings to a request that people approved.

use std::fs;
use std::path::{Path, PathBuf};

use countersign_documents::request::{Stage, approve};
use countersign_documents::{MAX_REQUEST_BYTES, MAX_RESULT_BYTES};
use countersign_host::approvals::Approval;
use countersign_host::order::Ordered;
use countersign_model::record::CallSummary;
use countersign_model::{Answer, ExecutionId, Failure, Principal, Timestamp, Token};
use serde_json::json;

use crate::draft::{file_name, rejected};
use crate::folders::{self, Folder, move_to, put};
use crate::{Desk, Draft, judge_request};

/// What filling in an approval may add.
const ROOM: usize = 512;

/// Longer lists of approvers are cut: the journal has all of them.
const MOST_NAMES: usize = 120;

/// A draft that people are asked about.
#[derive(Debug, Clone)]
pub struct Brought {
    pub draft: Draft,
    pub approval: Approval,
}

impl Brought {
    pub fn execution(&self) -> ExecutionId {
        self.approval.call.execution
    }
}

impl Desk<'_> {
    /// Reads a draft, or says everything that is wrong with it.
    pub fn draft(&self, path: &Path) -> Result<Draft, Failure> {
        let given = self.given(file_name(path), Stage::Draft);
        let draft = judge_request(path, &given)?.map_err(|reasons| rejected(path, &reasons))?;
        if draft.text.len() + ROOM > MAX_REQUEST_BYTES {
            let message = format!("{} leaves no room for the names of approvers", path.display());
            return Err(Failure::validation("REQUEST_TOO_LARGE", message)
                .hint(format!("make it {ROOM} bytes shorter")));
        }
        Ok(draft)
    }

    /// Asks people about a draft, once. One that was changed since they were asked is another one.
    pub fn bring(
        &self,
        draft: Draft,
        requester: &Principal,
        inputs: Option<&Path>,
    ) -> Result<Brought, Failure> {
        let request = &draft.request;
        // A clock that is ahead may write it; nobody approves what is not written yet.
        if request.created > self.host.clock().now() {
            let message = format!("`{}` is dated in the future", request.id);
            return Err(Failure::validation("REQUEST_EARLY", message)
                .hint("wait until then, or correct the clock of whoever wrote it"));
        }
        self.host.end_expired()?;
        let known = self.host.ordered(&request.id, request.created)?;
        let execution = match known {
            Some(known) if known.waits() && known.order.document == draft.text => {
                known.call.execution
            }
            known => {
                if let Some(old) = known.filter(Ordered::waits) {
                    let changed = Some("the document was changed");
                    self.host.withdraw(old.call.execution, requester, changed)?;
                }
                self.ask(&draft, requester, inputs)?
            }
        };
        let approval = self.host.approval(execution)?;
        Ok(Brought { draft, approval })
    }

    fn ask(
        &self,
        draft: &Draft,
        requester: &Principal,
        inputs: Option<&Path>,
    ) -> Result<ExecutionId, Failure> {
        let order = self.order(draft, inputs)?;
        let made = draft.request.created;
        let outcome = self.host.order(&order, made, requester.clone(), Vec::new())?;
        match outcome.result {
            Err(failure) if failure.code != "APPROVAL_REQUIRED" => Err(failure),
            _ => Ok(outcome.execution),
        }
    }

    /// Promotes a draft that enough people agreed to before, if its promotion was cut short.
    pub fn settle(&self, brought: &Brought) -> Result<Option<PathBuf>, Failure> {
        match brought.approval.call.approval.as_ref().is_some_and(|asked| asked.is_enough()) {
            true => self.promote(brought.execution(), &brought.draft).map(Some),
            false => Ok(None),
        }
    }

    /// One person's yes. With the last that it takes, the document is promoted.
    pub fn approve(
        &self,
        brought: &Brought,
        token: &Token,
        reason: Option<&str>,
    ) -> Result<(CallSummary, Option<PathBuf>), Failure> {
        let call = self.host.answer(brought.execution(), token, Answer::Yes, reason)?;
        let enough = call.approval.as_ref().is_some_and(|asked| asked.is_enough());
        let promoted = match enough {
            true => Some(self.promote(call.execution, &brought.draft)?),
            false => None,
        };
        Ok((call, promoted))
    }

    /// One person's no. The draft goes into quarantine, with the reason beside it, whatever else is
    /// wrong with it; where people were asked about it, the journal has the answer.
    pub fn reject(
        &self,
        path: &Path,
        token: &Token,
        reason: Option<&str>,
    ) -> Result<(Option<CallSummary>, PathBuf), Failure> {
        let by = self.host.approver(token)?;
        let known = match judge_request(path, &self.given(file_name(path), Stage::Draft))? {
            Ok(draft) => self.host.ordered(&draft.request.id, draft.request.created)?,
            Err(_) => None,
        };
        let answered = match known.filter(Ordered::waits) {
            Some(known) => {
                Some(self.host.answer(known.call.execution, token, Answer::No, reason)?)
            }
            None => None,
        };
        let message = format!("refused by {by}: {}", reason.unwrap_or("no reason was given"));
        let reasons = json!([{"code": "REFUSED", "message": message, "fix": "write another"}]);
        Ok((answered, self.quarantine(path, &reasons)?))
    }

    /// Puts the document, with the names of those who approved it, into `requests/`.
    pub(crate) fn promote(
        &self,
        execution: ExecutionId,
        draft: &Draft,
    ) -> Result<PathBuf, Failure> {
        let bytes = self.approved_bytes(execution, &draft.text)?;
        let folder = Folder::Requests.make(self.host.home().path())?;
        let place = folder.join(format!("{}.md", draft.request.id));
        if fs::read(&place).is_ok_and(|old| old != bytes) {
            // An approval before this one that came to nothing, or somebody's mere claim.
            let why = "another document of this id was approved since";
            self.quarantine(&place, &json!([{"code": "SUPERSEDED", "message": why}]))?;
        }
        put(&place, &bytes)?;
        let drafts = Folder::Drafts.of(self.host.home().path());
        // What stands elsewhere is its owner's; a draft has become a request.
        if draft.path.starts_with(&drafts)
            && fs::read(&draft.path).is_ok_and(|b| b == draft.text.as_bytes())
        {
            let _ = fs::remove_file(&draft.path);
        }
        Ok(place)
    }

    /// The document as it stands in `requests/`: what people were shown, and who they were.
    pub(crate) fn approved_bytes(
        &self,
        execution: ExecutionId,
        document: &str,
    ) -> Result<Vec<u8>, Failure> {
        let approval = self.host.approval(execution)?;
        let yes = approval.answers.iter().filter(|consent| consent.answer == Answer::Yes);
        let (mut names, mut last) = (Vec::new(), Timestamp::from_millis(0));
        for consent in yes {
            names.push(consent.by.to_string());
            last = last.max(consent.at);
        }
        approve(document.as_bytes(), &joined(&names), last).map_err(|error| {
            Failure::validation("REQUEST_UNAPPROVABLE", format!("it cannot be approved: {error}"))
        })
    }

    /// Moves a document away for good, with the reasons beside it. What stands outside of this home
    /// is its owner's: a copy is kept.
    pub fn quarantine(&self, path: &Path, reasons: &serde_json::Value) -> Result<PathBuf, Failure> {
        let folder = Folder::Quarantine.make(self.host.home().path())?;
        let _alone = Folder::Quarantine.lock(self.host.home().path())?;
        let name = file_name(path).unwrap_or("document").to_owned();
        let text = serde_json::to_vec_pretty(&json!({ "document": name, "reasons": reasons }))
            .map_err(|error| Failure::state("INTERNAL", error.to_string()))?;
        let mut place = folder.join(format!("{name}.quarantined"));
        // The same name may come again with other bytes, and a crash leaves reasons alone.
        for round in 2..10_000 {
            let reasons = fs::read(reasons_of(&place));
            if place.symlink_metadata().is_err() && reasons.map_or(true, |there| there == text) {
                break;
            }
            place = folder.join(format!("{name}.{round}.quarantined"));
        }
        put(&reasons_of(&place), &text)?;
        match Folder::ALL.iter().any(|folder| path.starts_with(folder.of(self.host.home().path())))
        {
            true => move_to(path, &place)?,
            false => put(&place, &folders::read(path, MAX_RESULT_BYTES as u64)?)?,
        }
        Ok(place)
    }
}

/// Names of people, as many as fit.
fn joined(names: &[String]) -> String {
    let all = names.join(", ");
    match names {
        [first, others @ ..] if all.len() > MOST_NAMES => {
            format!("{first} and {} more", others.len())
        }
        _ => all,
    }
}

/// The file with the reasons, beside what is in quarantine.
fn reasons_of(place: &Path) -> PathBuf {
    PathBuf::from(format!("{}.json", place.display()))
}
