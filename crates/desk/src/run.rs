//! Running what people approved: the file must be what they approved, and it runs once.

use std::path::{Path, PathBuf};

use countersign_documents::request::{Language, Request, Stage};
use countersign_host::order::{Ordered, Standing};
use countersign_host::{Cancel, Outcome};
use countersign_model::{ExecutionId, Failure};

use crate::draft::{file_name, rejected};
use crate::folders::Folder;
use crate::inbox::Delivered;
use crate::{Desk, Draft, judge_request};

/// A request that ran, and what was delivered of it.
#[derive(Debug)]
pub struct Ran {
    pub request: String,
    pub execution: ExecutionId,
    /// None when it had run before, and only its result was missing.
    pub outcome: Option<Outcome>,
    /// Something may have happened outside that nobody can tell of.
    pub unknown: bool,
    pub delivered: Delivered,
}

impl Desk<'_> {
    /// The file that a person means: a path, or the id of a request.
    pub fn request_path(&self, name: &str) -> PathBuf {
        match name.contains('/') || name.ends_with(".md") {
            true => PathBuf::from(name),
            false => Folder::Requests.of(self.host.home().path()).join(format!("{name}.md")),
        }
    }

    /// Runs an approved request, and delivers its result.
    pub fn run(&self, path: &Path, cancel: Cancel) -> Result<Ran, Failure> {
        self.promote_late(path)?;
        let given = self.given(file_name(path), Stage::Approved);
        let draft = judge_request(path, &given)?.map_err(|reasons| rejected(path, &reasons))?;
        let ordered = self.approved(&draft)?;
        match ordered.standing {
            Standing::Approved => {
                let run = self.host.run_order(&ordered, cancel);
                let mut outcome = run.map_err(|failure| match failure.code.as_ref() {
                    // Another process was first.
                    "EXECUTION_TAKEN_OVER" | "NOT_WAITING" => runs(&draft),
                    _ => failure,
                })?;
                outcome.result = outcome.result.map_err(|failure| help(failure, &draft.request));
                self.finish(&draft.request, Some(outcome))
            }
            Standing::Ran => self.finish(&draft.request, None),
            Standing::Running => Err(runs(&draft)),
            Standing::Waiting | Standing::Dropped => Err(unapproved(&draft, Some(&ordered))),
        }
    }

    /// A draft that was approved elsewhere, or whose promotion was cut short, is promoted now.
    fn promote_late(&self, path: &Path) -> Result<(), Failure> {
        let home = self.host.home().path();
        let name = file_name(path).unwrap_or_default();
        let draft = Folder::Drafts.of(home).join(name);
        if path.exists() || path != Folder::Requests.of(home).join(name) || !draft.exists() {
            return Ok(());
        }
        let draft = self.draft(&draft)?;
        let known = self.host.ordered(&draft.request.id, draft.request.created)?;
        match known.filter(|known| known.order.document == draft.text) {
            Some(known) if known.standing == Standing::Approved => {
                self.promote(known.call.execution, &draft).map(|_| ())
            }
            Some(known) => Err(unapproved(&draft, Some(&known))),
            None => {
                let message = format!("`{}` is a draft that nobody approved", draft.request.id);
                Err(Failure::authorization("APPROVAL_MISSING", message)
                    .hint("a person approves it with `countersign request approve`"))
            }
        }
    }

    /// What the journal knows of a document, provided that it is the very one people approved.
    fn approved(&self, draft: &Draft) -> Result<Ordered, Failure> {
        let known = self.host.ordered(&draft.request.id, draft.request.created)?;
        let known = known.ok_or_else(|| unapproved(draft, None))?;
        if matches!(known.standing, Standing::Waiting | Standing::Dropped) {
            return Err(unapproved(draft, Some(&known)));
        }
        let approved = self.approved_bytes(known.call.execution, &known.order.document)?;
        if approved == draft.text.as_bytes() {
            return Ok(known);
        }
        let message = format!("{} is not the document that was approved", draft.path.display());
        Err(Failure::authorization("APPROVAL_MISMATCH", message)
            .hint("bring it to be approved as it is now, with an id of its own")
            .of_execution(known.call.execution))
    }

    fn finish(&self, request: &Request, outcome: Option<Outcome>) -> Result<Ran, Failure> {
        let ordered = self.host.ordered(&request.id, request.created)?;
        let lost = || Failure::state("INTERNAL", "the order that ran is not known");
        let ordered = ordered.ok_or_else(lost)?;
        if ordered.standing != Standing::Ran {
            // It was not let run after all: what people agreed to no longer held.
            let failure = outcome.and_then(|outcome| outcome.result.err());
            return Err(failure.or(ordered.call.error).unwrap_or_else(lost));
        }
        let delivered = self.deliver(&ordered)?;
        let (execution, unknown) = (ordered.call.execution, ordered.call.unknown);
        Ok(Ran { request: request.id.clone(), execution, outcome, unknown, delivered })
    }
}

fn runs(draft: &Draft) -> Failure {
    let message = format!("`{}` runs at this moment", draft.request.id);
    Failure::validation("ORDER_RUNS", message)
        .hint("if its process is gone, run `countersign recover` first")
}

/// Whoever lacks an interpreter is told which, and where sandboxes look for it.
fn help(failure: Failure, request: &Request) -> Failure {
    if failure.code != "COMMAND_NOT_STARTED" {
        return failure;
    }
    let package = match request.language {
        Language::Python => "python3",
        Language::Node | Language::Ts => "nodejs",
        Language::Go => "golang-go",
        Language::Ruby => "ruby",
    };
    failure.hint(format!(
        "install the interpreter (on Debian `apt-get install {package}`); it is looked for in \
         /usr/local/bin, /usr/bin and /bin, and one that lies elsewhere is linked there and shown \
         with `[sandbox] show` in countersign.toml; then write the request anew"
    ))
}

/// A document that merely says that it was approved.
fn unapproved(draft: &Draft, known: Option<&Ordered>) -> Failure {
    let id = &draft.request.id;
    match known {
        Some(known) if known.standing == Standing::Dropped => {
            let error = known.call.error.clone();
            let failure = error.unwrap_or_else(|| {
                Failure::authorization("APPROVAL_MISSING", format!("`{id}` was not approved"))
            });
            failure.of_execution(known.call.execution)
        }
        Some(known) => {
            Failure::authorization("APPROVAL_REQUIRED", format!("`{id}` waits for people to agree"))
                .hint("a person approves it with `countersign request approve`")
                .of_execution(known.call.execution)
        }
        None => Failure::authorization(
            "APPROVAL_MISSING",
            format!("`{id}` says that it was approved, and nobody here approved it"),
        )
        .hint("a person approves a draft with `countersign request approve FILE`"),
    }
}
