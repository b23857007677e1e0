use std::path::{Path, PathBuf};

use clap::Args;
use countersign_desk::{Desk, Folder, judge_request};
use countersign_documents::request::Stage;
use countersign_host::Host;
use countersign_host::order::{Ordered, Standing};
use countersign_model::Failure;
use serde_json::{Value, json};

use super::{print_reasons, unknown, view};
use crate::Context;
use crate::exit::Exit;
use crate::ui::{BOLD, DIM, Done, Ui, inert, paint, shown, wrap};

/// Show a request as a person should see it, and where it stands
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// A file, or the id of a request in drafts/ or requests/
    request: String,

    /// Print the document itself
    #[arg(long)]
    text: bool,
}

/// One document in a folder.
struct Row {
    id: String,
    path: PathBuf,
    standing: &'static str,
    detail: Option<String>,
    known: Option<Ordered>,
}

pub(super) fn list(context: &Context) -> Done<Exit> {
    let host = crate::sandbox::open_host(&context.home)?;
    let mut rows = Vec::new();
    for folder in [Folder::Drafts, Folder::Requests] {
        for path in documents(&folder.make(&context.home)?)? {
            rows.push(
                row(&host, folder, path.clone()).unwrap_or_else(|failure| odd(path, &failure)),
            );
        }
    }
    let ui = context.ui;
    if ui.json {
        let lines: Vec<_> = rows.iter().map(line).collect();
        ui.json(&lines)?;
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        ui.line("there are no requests")?;
    }
    for row in &rows {
        let detail = row.detail.as_deref().map(|text| format!(", {text}")).unwrap_or_default();
        let text = format!("{} {}{detail}", paint(BOLD, inert(&row.id)), row.standing);
        ui.line(wrap(&text, 2))?;
        ui.line(paint(DIM, format!("  {}", shown(&row.path))))?;
    }
    Ok(Exit::Done)
}

/// One that cannot be told about does not hide the others.
fn odd(path: PathBuf, failure: &Failure) -> Row {
    let id = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Row { id, path, standing: "odd", detail: Some(inert(&failure.message)), known: None }
}

fn line(row: &Row) -> Value {
    json!({
        "request": row.id,
        "file": row.path.display().to_string(),
        "standing": row.standing,
        "detail": row.detail,
        "executionId": row.known.as_ref().map(|known| known.call.execution),
    })
}

/// Oldest first: ids begin with the time.
pub(super) fn documents(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| {
        Failure::state("FILE_UNREADABLE", format!("{} cannot be read: {error}", folder.display()))
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".md") && !name.starts_with('.') {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn row(host: &Host, folder: Folder, path: PathBuf) -> Result<Row, Failure> {
    let desk = Desk::at(host);
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let stage = if folder == Folder::Drafts { Stage::Draft } else { Stage::Approved };
    let file_name = path.file_name().and_then(|name| name.to_str());
    let judged = judge_request(&path, &desk.given(file_name, stage))?;
    let draft = match judged {
        Ok(draft) => draft,
        Err(reasons) => {
            let detail = Some(format!("{} reasons", reasons.len()));
            return Ok(Row { id: name, path, standing: "rejected", detail, known: None });
        }
    };
    let known = host.ordered(&draft.request.id, draft.request.created)?;
    let (standing, detail) = stands(folder, known.as_ref());
    Ok(Row { id: draft.request.id, path, standing, detail, known })
}

fn stands(folder: Folder, known: Option<&Ordered>) -> (&'static str, Option<String>) {
    let Some(known) = known else {
        return match folder {
            Folder::Drafts => ("draft", None),
            _ => ("not approved", None),
        };
    };
    let error = known.call.error.as_ref().map(|error| inert(&error.message));
    match known.standing {
        Standing::Waiting => {
            let asked = known.call.approval.as_ref();
            let people = asked.map(|a| format!("{} of {} agreed", a.given.len(), a.approvers));
            ("waits", people)
        }
        Standing::Approved => ("approved", None),
        Standing::Dropped => ("dropped", error),
        Standing::Running => ("runs", None),
        Standing::Ran => ("ran", error),
    }
}

pub(super) fn show(context: &Context, args: &ShowArgs) -> Done<Exit> {
    let host = crate::sandbox::open_host(&context.home)?;
    let (ui, desk) = (context.ui, Desk::at(&host));
    let path = find(&desk, &args.request);
    let file_name = path.file_name().and_then(|name| name.to_str());
    let judged = judge_request(&path, &desk.given(file_name, Stage::Draft));
    let judged = judged.map_err(|failure| unknown(&args.request, failure))?;
    let draft = match judged {
        Ok(draft) => draft,
        Err(reasons) => {
            let reasons: Vec<_> = reasons.iter().map(|reason| json!(reason)).collect();
            if ui.json {
                let file = path.display().to_string();
                ui.json(&json!({"file": file, "outcome": "REJECT", "reasons": reasons}))?;
            } else {
                print_reasons(ui, &path, &reasons)?;
            }
            return Ok(Exit::Invalid);
        }
    };
    if args.text && !ui.json {
        ui.exact(draft.text.trim_end())?;
        return Ok(Exit::Done);
    }
    let known = host.ordered(&draft.request.id, draft.request.created)?;
    let in_requests = path.starts_with(Folder::Requests.of(&context.home));
    let folder = if in_requests { Folder::Requests } else { Folder::Drafts };
    let (standing, detail) = stands(folder, known.as_ref());
    if ui.json {
        ui.json(&json!({
            "request": draft.request.id,
            "file": path.display().to_string(),
            "outcome": "ACCEPT",
            "standing": standing,
            "detail": detail,
            "executionId": known.as_ref().map(|known| known.call.execution),
            "command": draft.request.command.words,
            "sha256": draft.digest(),
            "text": draft.text,
        }))?;
        return Ok(Exit::Done);
    }
    let claimed = draft.request.approved_by.as_deref().filter(|_| known.is_none());
    view::card(ui, &draft.request, claimed)?;
    view::row(ui, "sha256", &draft.digest().to_string())?;
    stand(ui, standing, detail, known.as_ref())?;
    Ok(Exit::Done)
}

fn stand(ui: Ui, standing: &str, detail: Option<String>, known: Option<&Ordered>) -> Done {
    let detail = detail.map(|text| format!(", {text}")).unwrap_or_default();
    view::row(ui, "stands", &format!("{}{detail}", paint(BOLD, standing)))?;
    match known {
        Some(known) => view::row(ui, "execution", &known.call.execution.to_string()),
        None => Ok(()),
    }
}

/// A path as it is; an id wherever it stands.
fn find(desk: &Desk<'_>, name: &str) -> PathBuf {
    let path = desk.request_path(name);
    let draft = Folder::Drafts.of(desk.host.home().path()).join(format!("{name}.md"));
    if path.exists() || !draft.exists() { path } else { draft }
}
