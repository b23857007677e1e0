//! What people say to a draft.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use countersign_desk::{Brought, Desk, Draft};
use countersign_documents::request::RequestedBy;
use countersign_host::Host;
use countersign_model::record::CallSummary;
use countersign_model::{Digest, Failure, Principal};
use serde_json::json;

use super::view;
use crate::Context;
use crate::commands::{acting, approval};
use crate::exit::Exit;
use crate::key_file::KeyArgs;
use crate::ui::{BAD, BOLD, Done, GOOD, Ui, WARN, paint, shown, wrap};

/// Who drafts for agents, where nobody says otherwise.
const DRAFTER: &str = "agent:core";

/// Approve a draft, exactly as it stands, and promote it into requests/
///
/// You are shown the document and asked, unless --yes says that you looked at it already. The
/// answer is signed with your own key, bound to the exact bytes, used once, and expires. Nobody
/// approves what they asked for. Exit codes: 0 approved, 2 the document is rejected, 3 you may not
/// approve it or policy forbids it, 4 somebody else has to agree too, or you did not.
#[derive(Debug, Args)]
pub(crate) struct ApproveArgs {
    /// The draft
    file: PathBuf,

    /// Why; it stands in the journal
    #[arg(long)]
    reason: Option<String>,

    /// Do not show and ask: the document was looked at already
    #[arg(long)]
    yes: bool,

    /// Approve only the document that has this digest, as `request show` prints it
    #[arg(long, value_name = "HEX")]
    sha256: Option<Digest>,

    #[command(flatten)]
    from: FromArgs,

    #[command(flatten)]
    key: KeyArgs,
}

/// Refuse a draft, and move it into quarantine/
#[derive(Debug, Args)]
pub(crate) struct RejectArgs {
    /// The draft
    file: PathBuf,

    /// Why; whoever asked is told
    #[arg(long)]
    reason: Option<String>,

    #[command(flatten)]
    key: KeyArgs,
}

#[derive(Debug, Args)]
struct FromArgs {
    /// The folder with the input files [default: a folder called like the request, beside it]
    #[arg(long, value_name = "DIR")]
    inputs: Option<PathBuf>,

    /// Who asks [default: agent:core for an agent's draft, the owner of the file for a person's]
    #[arg(long, value_name = "PRINCIPAL")]
    requester: Option<Principal>,
}

impl FromArgs {
    fn requester(&self, draft: &Draft) -> Result<Principal, Failure> {
        match (&self.requester, draft.request.requested_by) {
            (Some(requester), _) => Ok(requester.clone()),
            (None, RequestedBy::CoreDraft) => DRAFTER.parse(),
            (None, RequestedBy::Human) => owner(&draft.path),
        }
    }
}

/// A person's draft is that of whoever owns the file.
fn owner(path: &Path) -> Result<Principal, Failure> {
    let uid = path.metadata().map(|found| found.uid());
    let mine = uid.as_ref().is_ok_and(|uid| *uid == rustix::process::getuid().as_raw());
    match uid {
        Ok(uid) if !mine => format!("human:uid-{uid}").parse(),
        _ => acting(None),
    }
}

fn another(draft: &Draft, expected: Digest) -> Failure {
    let message =
        format!("{} has the digest {}, not {expected}", draft.path.display(), draft.digest());
    Failure::validation("DOCUMENT_CHANGED", message)
        .hint("look at it again with `countersign request show`")
}

pub(super) fn approve(context: &Context, args: &ApproveArgs) -> Done<Exit> {
    let (ui, token) = (context.ui, args.key.token()?);
    if !args.yes && (ui.json || !std::io::stdin().is_terminal()) {
        let message = "nobody is here to be shown the document";
        return Err(Failure::validation("CONFIRMATION_MISSING", message)
            .hint("look at it with `countersign request show FILE`, then add --yes --sha256 HEX")
            .into());
    }
    let host = crate::sandbox::open_host(&context.home)?;
    let desk = Desk::at(&host);
    host.approver(&token)?;
    let draft = desk.draft(&args.file)?;
    if let Some(expected) = args.sha256.filter(|digest| *digest != draft.digest()) {
        return Err(another(&draft, expected).into());
    }
    let requester = args.from.requester(&draft)?;
    let brought = desk.bring(draft, &requester, args.from.inputs.as_deref())?;
    if let Some(promoted) = desk.settle(&brought)? {
        return told(ui, &brought, &brought.approval.call, Some(promoted));
    }
    host.may_answer(brought.execution(), &token)?;
    if !args.yes {
        show(ui, &host, &brought)?;
        match approval::confirm(ui, "approve it, exactly as it is?")? {
            true => {}
            false => {
                ui.line("left as it is; it still waits")?;
                return Ok(Exit::Waiting);
            }
        }
    }
    let (call, promoted) = desk.approve(&brought, &token, args.reason.as_deref())?;
    told(ui, &brought, &call, promoted)
}

fn show(ui: Ui, host: &Host, brought: &Brought) -> Done {
    let request = &brought.draft.request;
    view::card(ui, request, request.approved_by.as_deref())?;
    view::row(ui, "asked by", &brought.approval.call.principal.to_string())?;
    view::row(ui, "sha256", &brought.draft.digest().to_string())?;
    view::standing(ui, &brought.approval, host.clock().now())
}

fn told(ui: Ui, brought: &Brought, call: &CallSummary, promoted: Option<PathBuf>) -> Done<Exit> {
    let id = &brought.draft.request.id;
    let exit = if promoted.is_some() { Exit::Done } else { Exit::Waiting };
    if ui.json {
        ui.json(&json!({
            "request": id,
            "executionId": call.execution,
            "approval": call.approval,
            "promoted": promoted.map(|path| path.display().to_string()),
        }))?;
        return Ok(exit);
    }
    match promoted {
        Some(_) => {
            ui.line(wrap(&format!("{} {id}", paint(GOOD, "approved:")), 2))?;
            let hint = format!("run it with `countersign request run {id}`");
            ui.line(wrap(&format!("{} {hint}", paint(BOLD, "hint:")), 0))?;
        }
        None => {
            let asked = call.approval.as_ref();
            let (given, of) = asked.map_or((0, 0), |asked| (asked.given.len(), asked.approvers));
            let text = format!("{} {given} of {of} agreed; it still waits", paint(WARN, "noted:"));
            ui.line(wrap(&text, 2))?;
        }
    }
    Ok(exit)
}

pub(super) fn reject(context: &Context, args: &RejectArgs) -> Done<Exit> {
    let (ui, token) = (context.ui, args.key.token()?);
    let host = crate::sandbox::open_host(&context.home)?;
    let reason = args.reason.as_deref();
    let (call, place) = Desk::at(&host).reject(&args.file, &token, reason)?;
    if ui.json {
        let execution = call.map(|call| call.execution);
        let (file, place) = (args.file.display().to_string(), place.display().to_string());
        ui.json(&json!({"file": file, "executionId": execution, "quarantined": place}))?;
        return Ok(Exit::Done);
    }
    let name = shown(&args.file);
    let text = format!("{} {name}, kept at {}", paint(BAD, "refused:"), shown(&place));
    ui.line(wrap(&text, 2))?;
    Ok(Exit::Done)
}
